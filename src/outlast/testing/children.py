"""Forked processes that may be killed, and what they said before they ended."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Tell = Callable[[str, Any], None]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: by SIGKILL, or not; and everything it told."""

    killed: bool
    said: list[tuple[str, Any]]

    def told(self, name: str) -> list[Any]:
        """What it told under that name, in order; under `error`, the traceback of what it raised."""
        return [what for said, what in self.said if said == name]


def in_child(work: Callable[[Tell], None], seconds: float) -> Ended:
    """Run `work(tell)` in a forked process and wait for its end. Raises TimeoutError, having killed it.

    The child leaves by `os._exit`: nothing of the parent's (exit handlers, buffers, fixtures) runs twice.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads: the child starts none of them
        pid = os.fork()
    if pid == 0:
        os.close(reading)
        _work(work, writing)
    os.close(writing)
    try:
        said = _heard(reading, pid, seconds)
    finally:
        os.close(reading)
        _, status = os.waitpid(pid, 0)
    return Ended(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, said)


def _work(work: Callable[[Tell], None], writing: int) -> None:
    def tell(name: str, what: Any) -> None:
        os.write(writing, json.dumps([name, what]).encode() + b"\n")

    try:
        work(tell)
    except BaseException:
        tell("error", traceback.format_exc())
    finally:
        os._exit(0)


def _heard(reading: int, pid: int, seconds: float) -> list[tuple[str, Any]]:
    """Everything said until the child's end closes the pipe."""
    text, deadline = b"", time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            raise TimeoutError(f"a process did not end within {seconds:g} s")
        part = os.read(reading, 1 << 16)
        if not part:
            return [tuple(json.loads(line)) for line in text.splitlines()]
        text += part
