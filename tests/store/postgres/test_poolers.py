"""A pooler in between: one that lends a connection by the transaction is refused before anything is written."""

import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from urllib.parse import quote

import psycopg
import pytest

from outlast.errors import Invalid
from outlast.store import open as open_by_url
from outlast.store.postgres.schema import schema_of

from ...kit.postgres import server
from ...kit.wire import SOCKET
from ..backends import PostgresSchema


class Lender:
    """Lends the one connection that it has to whoever asks, until a transaction is over."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="outlast-lent-", dir="/tmp"))
        self._lock = threading.Lock()
        self._only: tuple[socket.socket, bytes, threading.Lock] | None = None
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.folder / SOCKET))
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def url(self) -> str:
        return f"postgresql:///postgres?host={quote(str(self.folder), safe='')}&user=outlast"

    def close(self) -> None:
        self._listening.close()
        rmtree(self.folder)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._attend, args=(client,), daemon=True).start()

    def _attend(self, client: socket.socket) -> None:
        with suppress(OSError, struct.error):
            begun = client.recv(1 << 16)
            there, greeting, turn = self._connection(begun)
            client.sendall(greeting)
            while (asked := client.recv(1 << 16)) and asked[:1] != b"X":
                with turn:
                    self._transact(client, there, asked)
        client.close()

    def _connection(self, begun: bytes) -> tuple[socket.socket, bytes, threading.Lock]:
        """One, with what it greets by; it says that another serves us, as poolers do."""
        with self._lock:
            if self._only is not None:
                return self._only
            there = socket.socket(socket.AF_UNIX)
            there.connect(str(server().folder / SOCKET))
            there.sendall(begun)
            greeting = bytearray(_until_ready(there))
            at = greeting.index(b"K\0\0\0\x0c")
            greeting[at + 5 : at + 9] = struct.pack("!i", 1)
            self._only = there, bytes(greeting), threading.Lock()
            return self._only

    def _transact(self, client: socket.socket, there: socket.socket, asked: bytes) -> None:
        while True:
            there.sendall(asked)
            answer = _until_ready(there)
            client.sendall(answer)
            if answer[-1:] == b"I":
                return
            asked = client.recv(1 << 16)


def _until_ready(there: socket.socket) -> bytes:
    """All that a server says, until it is ready for more."""
    said = b""
    while True:
        head = _exactly(there, 5)
        said += head + _exactly(there, struct.unpack("!i", head[1:])[0] - 4)
        if head[:1] == b"Z":
            return said


def _exactly(there: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = there.recv(count - len(found))
        if not piece:
            raise OSError("it is gone")
        found += piece
    return found


@pytest.fixture
def lender() -> Iterator[Lender]:
    made = Lender()
    yield made
    made.close()


def test_a_pooler_that_lends_by_the_transaction_is_refused_before_anything_is_written(
    lender: Lender, tmp_path: Path
) -> None:
    tenant = PostgresSchema(tmp_path).tenant
    with pytest.raises(Invalid, match="pool_mode"):
        open_by_url(lender.url(), tenant=tenant, blobs=tmp_path)
    with psycopg.connect(server().url("postgres")) as connection:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema_of(tenant),)).fetchall()
    assert found == []
