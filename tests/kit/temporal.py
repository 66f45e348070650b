"""A real Temporal for tests, from the wheel that carries one: started once for each process of tests, on loopback."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
from functools import cache
from pathlib import Path

PROGRAM = Path(sysconfig.get_path("scripts"), "temporal")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """A server with its state in a file, so that it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        place = ["--ip", "127.0.0.1", "--port", str(self.port), "--db-filename", str(self.folder / "temporal.db")]
        words = [str(PROGRAM), "server", "start-dev", "--headless", "--log-level", "error", *place]
        log = open(self.folder / "log", "ab")  # noqa: SIM115
        self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + 90
        while not self._is_up():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "Temporal did not start"
            time.sleep(0.05)

    def _is_up(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False

    def stop(self, how: int = signal.SIGKILL) -> None:
        """SIGKILL is a crash, and what a test ends with."""
        self._process.send_signal(how)
        self._process.wait(60)


@cache
def server() -> Server:
    """The server of this process of tests, stopped at its end."""
    folder = Path(tempfile.mkdtemp(prefix="outlast-temporal-"))
    started = Server(folder)
    owner = os.getpid()

    def end() -> None:
        if os.getpid() == owner:  # not in a child that was forked
            started.stop()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return started
