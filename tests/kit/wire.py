"""Stands between a store and its server, and cuts a connection when it is told to: before what is asked arrives there,
or after, so that only the answer is lost."""

import socket
import tempfile
import threading
from pathlib import Path
from shutil import rmtree
from urllib.parse import quote

SOCKET = ".s.PGSQL.5432"


class Wire:
    """A socket of its own, and a pair of threads for each connection that goes through it.

    `cut` is told with the word that marks what is to be lost; none: the next thing that is asked. Of the sessions that
    stay (a listener) nothing is asked for long, so that this is a commit, or a look.
    """

    def __init__(self, server: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="outlast-wire-", dir="/tmp"))
        self.word, self.cut, self.cuts = b"", "", 0
        self._server, self._lost, self._lock = server / SOCKET, None, threading.Lock()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.folder / SOCKET))
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql:///{database}?host={quote(str(self.folder), safe='')}&user=outlast"

    def close(self) -> None:
        _shut(self._listening)
        self._listening.close()
        rmtree(self.folder)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX)
            try:
                there.connect(str(self._server))
            except OSError:  # the server is away
                client.close()
                continue
            for pair in ((client, there, True), (there, client, False)):
                threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        try:
            while piece := source.recv(1 << 16):
                if self._is_cut(piece, asks, target if asks else source):
                    break
                target.sendall(piece)
        except OSError:
            pass
        for end in (source, target):
            _shut(end)

    def _is_cut(self, piece: bytes, asks: bool, server: socket.socket) -> bool:
        """`before`: what is asked with the marked word never arrives. `after`: its answer never does."""
        with self._lock:
            if asks and self.cut and self._lost is None and self.word in piece:
                if self.cut == "after":
                    self._lost = server
                    return False
            elif asks or self._lost is not server:
                return False
            self.cut, self._lost, self.cuts = "", None, self.cuts + 1
            return True


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
