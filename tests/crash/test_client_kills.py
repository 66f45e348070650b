"""A server is killed under many clients that write: what they were told is there, once, and nothing else is lost."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from outlast import Outlast

pytest.importorskip("uvicorn")

CLIENTS = 32
WRITES = 6


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def serving(home: Path, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    words = [sys.executable, "-m", "outlast", "serve", "--json", "--port", str(port), "--home", str(home)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=home.parent)
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["address"].endswith(f":{port}")
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_writes_of_many_clients_survive_the_servers_death_each_once(tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    told: list[tuple[int, int, int]] = []
    wrong: list[BaseException] = []
    half = threading.Event()
    options = {"deadline_seconds": 60.0, "retry_seconds": 0.02, "longest_retry_seconds": 0.2}

    def write(client: int) -> None:
        try:
            with Outlast(f"http://127.0.0.1:{port}", store_options=options) as outlast:
                for number in range(WRITES):
                    own = f"{client}-{number}" if number % 2 else None  # the caller's, or the client's own
                    got = outlast.sessions.append(f"talk-{client}", "user", [client, number], operation_id=own)
                    told.append((client, number, got.seq))
                    if len(told) > CLIENTS * WRITES // 3:
                        half.set()
        except BaseException as error:
            wrong.append(error)
            half.set()

    threads = [threading.Thread(target=write, args=(client,)) for client in range(CLIENTS)]
    with serving(home, port) as first:
        for each in threads:
            each.start()
        assert half.wait(60)
        os.kill(first.pid, signal.SIGKILL)
        first.wait(60)
        with serving(home, port):
            for each in threads:
                each.join(90)
            assert not wrong, wrong
            with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as reply:
                assert json.load(reply) == {"status": "ready"}
    assert len(told) == CLIENTS * WRITES
    with Outlast(home) as outlast:
        for client in range(CLIENTS):
            found = [each.content for each in outlast.sessions.messages(f"talk-{client}")]
            assert found == [[client, number] for number in range(WRITES)]
        assert outlast.verify().ok
