"""What is shown while a run executes: lines that stay, what commands print, and on a terminal one line that moves."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
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
        self.before_output: Callable[[str, bool], None] | None = None  # so that what happened before is said before

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
            self._moves = False

    def status(self, text: str) -> None:
        """The line that moves: what is done now."""
        with self._lock:
            if self._moves and text != self._status:
                self._wipe()
                self._status = text
                self._draw()

    def _print(self, step: str, lines: bytes) -> None:
        self._wipe()
        sys.stdout.write(f"{self._shown(step, lines.decode('utf-8', 'replace'))}\n")
        sys.stdout.flush()
        self._draw()

    def _shown(self, step: str, lines: str) -> str:
        if self._raw:
            front = f"{step} | "
            return front + lines.replace("\r\n", "\n").rstrip("\r").replace("\n", f"\n{front}")
        return self._named.setdefault(step, NamedLines(step)).lines(lines)

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
