"""Processes that tests start, stop and kill, and what they say meanwhile."""

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlast.clock import SystemClock

from ..ready import Started

SCRIPT = Path(__file__).with_name("actor.py")
PATIENCE_SECONDS = 60.0


class AfterReboot(SystemClock):
    """An hour later: nobody can hold a run any more."""

    def boot(self) -> int:
        return super().boot() + 3_600_000_000


def wait_until(holds: Callable[[], bool], what: str = "it") -> None:
    """Wait for a real condition; fail when it does not come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_SECONDS} s"
        time.sleep(0.005)


def state(pid: int) -> str:
    """What the kernel says of a process: T where it was stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Actor:
    """A process running one flow of actor.py."""

    def __init__(self, home: Path, flow: str, *args: Any, failpoint: str = "", **settings: Any) -> None:
        self.process = Started(
            (str(SCRIPT), str(home), flow, json.dumps(args), json.dumps(settings)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OUTLAST_FAILPOINT": failpoint},
        )
        self.pid = self.process.pid
        self.said: list[list[Any]] = []
        self._lines: queue.Queue[list[Any] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def hear(self, *beginning: Any) -> list[Any]:
        """Wait until the process says a line that begins so, and give it."""
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE_SECONDS)
            except queue.Empty:
                raise AssertionError(f"it did not say {beginning} in time; it said {self.said}") from None
            assert line is not None, f"it ended without saying {beginning}; it said {self.said}"
            self.said.append(line)
            if tuple(line[: len(beginning)]) == beginning:
                return line

    def go_on(self) -> None:
        """Let a body that waits go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: state(self.pid) == "T", "it stands still")

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> list[list[Any]]:
        """Wait for its end; everything it said."""
        self.process.wait(PATIENCE_SECONDS)
        self._thread.join(PATIENCE_SECONDS)
        while (line := self._lines.get_nowait()) is not None:
            self.said.append(line)
        self._lines.put(None)
        return self.said

    def ran(self) -> list[int]:
        return [line[1] for line in self.said if line[0] == "ran"]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
