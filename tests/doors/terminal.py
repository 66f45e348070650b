"""One command at a real pseudo-terminal, and someone who types."""

import codecs
import os
import pty
import select
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..ready import Started

if TYPE_CHECKING:
    from .conftest import Cli


class Terminal:
    """One command at a terminal of 80 columns, its own as for somebody who sits at one, and someone who types."""

    def __init__(self, cli: "Cli", *words: str, **env: str) -> None:
        self.seen = ""
        self._read_to = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._ours, theirs = pty.openpty()
        self._child = Started(
            ("-m", "outlast", *words),
            session=True,
            cwd=cli.folder,
            env=cli.environment(**{"COLUMNS": "80", "TERM": "dumb"} | env),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    def type(self, line: str, *, after: str) -> None:
        """Type a line once this is on the screen, after what was waited for before."""
        deadline = time.monotonic() + 60
        while after not in self.seen[self._read_to :]:
            assert time.monotonic() < deadline, f"no {after!r} in {self.seen!r}"
            assert self._read(), f"it ended without {after!r}: {self.seen!r}"
        self._read_to = self.seen.index(after, self._read_to) + len(after)
        os.write(self._ours, line.encode())

    def watch(self, seconds: float) -> None:
        """Look on, without typing: what should not come may come now."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and self._read(left):
            pass

    def interrupt(self, *, after: str) -> None:
        self.type("", after=after)
        self._child.send_signal(signal.SIGINT)

    def end(self) -> int:
        """The exit code, all output read."""
        deadline = time.monotonic() + 60
        while self._read():
            assert time.monotonic() < deadline, self.seen
        return self._child.wait(60)

    def _read(self, seconds: float = 1) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self._ours, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += self._decode(more)
        return bool(more)

    def close(self) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        os.close(self._ours)


Open = Callable[..., Terminal]
