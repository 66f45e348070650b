"""What is shown while a run executes: lines that stay, what commands print, and on a terminal one line that moves.

What the flow itself prints, and where it reads a line (`input`, a debugger), goes past the moving line: it is wiped
before, is not drawn where somebody else's line has not ended, and is not there at all while somebody types.
"""

from __future__ import annotations

import builtins
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from outlast.doors.cli.live import NamedLines
from outlast.doors.cli.render import clean, fit, is_raw, terminal_columns
from outlast.doors.cli.wrap import wrapped

LINE_BYTES = 8192  # of a line without end, before it is shown as it is
AWAY_SECONDS = 0.5  # of the moving line, after somebody printed or typed
PATIENCE_SECONDS = 0.5  # for a lock that is never given back in a process that the flow forked
_CLEAR = "\r\x1b[2K"


class Screen:
    """One place that writes, so that lines of several threads do not mix."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._raw = is_raw()
        self._named: dict[str, NamedLines] = {}
        self._out, self._beside = sys.stdout, sys.stderr
        self.moves = not quiet and sys.stderr.isatty()
        self._status = ""
        self._drawn = False
        self._away_until = 0.0  # who prints or types now goes on with it, perhaps
        self._rest: dict[str, bytes] = {}
        self._lock = threading.RLock()
        self._open = False  # somebody else's line has not ended
        self._typing = 0  # how many read a line just now
        self._later: list[str] = []  # lines that came meanwhile
        self.before_output: Callable[[str, bool], None] | None = None  # so that what happened before is said before

    def line(self, text: str) -> None:
        """A line for people, which stays. While somebody types it waits."""
        if self.quiet:
            return
        with self._lock:
            if self._typing:
                self._later.append(text)
                return
            self._wipe()
            self._end_line()
            lines = wrapped(clean(text), terminal_columns(), then="    ") if self.moves else [clean(text)]
            with suppress(OSError, ValueError):
                self._beside.write("".join(f"{line}\n" for line in lines))
                self._beside.flush()
            self._draw()

    def output(self, step: str, data: bytes) -> None:
        """What a command printed, line by line, with its step's name in front; nothing: it has printed all.

        Raises OSError when nobody reads.
        """
        if self.before_output is not None and not self.quiet:
            self.before_output(step, not data)
        with self._lock:
            whole, end, rest = (self._rest.pop(step, b"") + data).rpartition(b"\n")
            if rest and (not data or len(rest) > LINE_BYTES):
                whole, end, rest = whole + end + rest, b"\n", b""
            if rest:
                self._rest[step] = rest
            if end:
                self._print(step, whole)

    def end(self) -> None:
        """What was printed without a last newline, and no more moving line."""
        with self._lock:
            left, self._rest = self._rest, {}
            with suppress(OSError, ValueError):
                for step, rest in left.items():
                    self._print(step, rest)
            self._wipe()
            self.moves = False

    def status(self, text: str) -> None:
        """The line that moves: what is done now."""
        with self._lock:
            if time.monotonic() < self._away_until:
                self._status = text
            elif self.moves and (text != self._status or not self._drawn):
                self._wipe()
                self._status = text
                self._draw()

    # -- what the flow itself prints and reads ---------------------------------------------------

    @contextmanager
    def shared(self) -> Iterator[None]:
        """For as long as the block lasts, what the flow prints and reads at the terminal goes past the moving line."""
        if not self.moves:
            yield
            return
        kept, read = (sys.stdout, sys.stderr), builtins.input
        sys.stdout, sys.stderr = (_Past(each, self) if each.isatty() else each for each in kept)
        builtins.input = self._reading(read)
        try:
            yield
        finally:
            (sys.stdout, sys.stderr), builtins.input = kept, read

    def _reading(self, read: Any) -> Any:
        def input(prompt: object = "", /) -> str:
            with self._quiet():
                return str(read(prompt))

        return input

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        with self._lock:
            self._wipe()
            self._typing += 1
        try:
            yield
        finally:
            with self._lock:
                self._typing -= 1
                self._open = False  # what was typed has ended the line
                self._away_until = time.monotonic() + AWAY_SECONDS
                later, self._later = self._later, []
            for text in later:
                self.line(text)

    def write_past(self, stream: TextIO, text: str) -> int:
        """Write what the flow prints, without the moving line in it."""
        held = self._lock.acquire(timeout=PATIENCE_SECONDS)
        try:
            self._wipe()
            written = stream.write(text)
            if text:
                stream.flush()
                self._open = not text.endswith("\n")
                self._away_until = time.monotonic() + AWAY_SECONDS
            return written  # the moving line comes back with its next change: who prints much is not slowed down
        finally:
            if held:
                self._lock.release()

    # -- writing ---------------------------------------------------------------------------------

    def _print(self, step: str, lines: bytes) -> None:
        self._wipe()
        self._end_line()
        self._out.write(f"{self._shown(step, lines.decode('utf-8', 'replace'))}\n")
        self._out.flush()
        self._draw()

    def _shown(self, step: str, lines: str) -> str:
        if self._raw:
            front = f"{step} | "
            return front + lines.replace("\r\n", "\n").rstrip("\r").replace("\n", f"\n{front}")
        return self._named.setdefault(step, NamedLines(step)).lines(lines)

    def _end_line(self) -> None:
        """A line of ours begins where a line begins."""
        if self.moves and self._open:
            self._open = False
            with suppress(OSError, ValueError):
                self._beside.write("\n")

    def _wipe(self) -> None:
        if self._drawn:
            self._drawn = False
            with suppress(OSError, ValueError):
                self._beside.write(_CLEAR)
                self._beside.flush()

    def _draw(self) -> None:
        if self.moves and self._status and not (self._open or self._typing):
            self._drawn = True
            with suppress(OSError, ValueError):
                self._beside.write(fit(clean(self._status), terminal_columns() - 1))
                self._beside.flush()


class _Past:
    """A stream of the terminal as the flow sees it: all of the real one, but what is written goes past our line."""

    def __init__(self, stream: TextIO, screen: Screen) -> None:
        self._stream, self._screen = stream, screen

    def write(self, text: str) -> int:
        return self._screen.write_past(self._stream, text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def __iter__(self) -> Any:
        return iter(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
