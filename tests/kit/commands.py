"""What the tests of commands share: a runtime in a process of its own, and looking at processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from outlast.commands.process import Group

SCRIPT = Path(__file__).with_name("command_worker.py")
PATIENCE_SECONDS = 60.0


def wait_until(holds: Callable[[], bool], what: str = "it") -> None:
    """Wait for a real condition; fail when it does not come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE_SECONDS} s"
        time.sleep(0.005)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def number_in(path: Path) -> int:
    """The pid that a command wrote, as soon as it is there."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), str(path))
    return int(path.read_text())


class Runtime:
    """A process that runs commands, in a session of its own, until it is killed."""

    def __init__(self, folder: Path, *commands: str, env: Mapping[str, str] | None = None, **settings: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), json.dumps(settings | {"commands": commands})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | dict(env or {}),
            start_new_session=True,
        )
        self.folder = folder
        self.groups: list[Group] = []
        self.guard = 0
        self.forked = 0  # a child that it forked

    def started(self) -> "Runtime":
        """Wait until its commands run (or are held)."""
        _, groups, self.guard = self.hear("started")
        self.groups = [Group.from_facts(facts) for facts in groups]
        return self

    def hear(self, word: str) -> list[Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said: list[Any] = json.loads(line)
            self.forked = said[1] if said[0] == "forked" else self.forked
            if said[0] == word:
                return said
        raise AssertionError(f"it ended without saying {word}")

    def ended_files(self) -> list[Path]:
        return [self.folder / str(group.pgid) / "ended" for group in self.groups]

    def make_folders(self) -> None:
        for file in self.ended_files():
            file.parent.mkdir()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        """The tidy end: it says goodbye, if it was told to."""
        if self.forked and lives(self.forked):
            os.kill(self.forked, signal.SIGKILL)
        if self.process.poll() is None:
            for pipe in (self.process.stdin, self.process.stdout):
                assert pipe is not None
                pipe.close()
            self.process.wait(PATIENCE_SECONDS)
