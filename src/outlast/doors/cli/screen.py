"""What is shown while a run executes: lines that stay, what commands print, and on a terminal one line that moves."""

from __future__ import annotations

import shutil
import sys
import threading
from contextlib import suppress

from outlast.doors.cli.live import NamedLines
from outlast.doors.cli.render import clean, fit, is_raw

LINE_BYTES = 8192  # of a line without end, before it is shown as it is
_CLEAR = "\r\x1b[2K"


class Screen:
    """One place that writes, so that lines of several threads do not mix."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._raw = is_raw()
        self._named: dict[str, NamedLines] = {}
        self._moves = not quiet and sys.stderr.isatty()
        self._status = ""
        self._rest: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def line(self, text: str) -> None:
        """A line for people, which stays."""
        if self.quiet:
            return
        with self._lock:
            self._wipe()
            with suppress(OSError, ValueError):
                sys.stderr.write(f"{clean(text)}\n")
                sys.stderr.flush()
            self._draw()

    def output(self, step: str, data: bytes) -> None:
        """What a command printed, line by line, with its step's name in front. Raises OSError when nobody reads."""
        with self._lock:
            *lines, rest = (self._rest.pop(step, b"") + data).split(b"\n")
            if len(rest) > LINE_BYTES:
                lines, rest = [*lines, rest], b""
            if rest:
                self._rest[step] = rest
            self._print([(step, line) for line in lines])

    def end(self) -> None:
        """What was printed without a last newline, and no more moving line."""
        with self._lock:
            left, self._rest = self._rest, {}
            with suppress(OSError, ValueError):
                self._print(list(left.items()))
            self._wipe()
            self._moves = False

    def status(self, text: str) -> None:
        """The line that moves: what is done now."""
        with self._lock:
            if self._moves and text != self._status:
                self._wipe()
                self._status = text
                self._draw()

    def _print(self, lines: list[tuple[str, bytes]]) -> None:
        if not lines:
            return
        self._wipe()
        sys.stdout.write("".join(f"{self._shown(step, line.decode('utf-8', 'replace'))}\n" for step, line in lines))
        sys.stdout.flush()
        self._draw()

    def _shown(self, step: str, line: str) -> str:
        if self._raw:
            return f"{step} | {line.rstrip(chr(13))}"
        return self._named.setdefault(step, NamedLines(step)).line(line)

    def _wipe(self) -> None:
        if self._moves and self._status:
            with suppress(OSError, ValueError):
                sys.stderr.write(_CLEAR)
                sys.stderr.flush()

    def _draw(self) -> None:
        if self._moves and self._status:
            width = shutil.get_terminal_size().columns - 1
            with suppress(OSError, ValueError):
                sys.stderr.write(fit(clean(self._status), width))
                sys.stderr.flush()
