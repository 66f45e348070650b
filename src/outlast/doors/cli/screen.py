"""What is shown while a run executes: lines that stay, what commands print, and on a terminal one line that moves.

What the flow itself prints, and where it reads a line (`input`, a debugger), goes past the moving line: it is wiped
before, is not drawn where somebody else's line has not ended, and is not there at all while somebody types.

What commands print, shown as it comes: it may colour and redraw its own line, and steers nothing else. Pure.

Colours, CR, backspace and erase-line pass, as progress bars need them; every other control character and escape code
is made visible.
"""

from __future__ import annotations

import builtins
import codecs
import errno
import getpass
import io
import os
import re
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, TextIO

from outlast.doors.cli.render import clean, fit, is_raw, terminal_columns, wrapped
from outlast.values.text import visible

# Bounded, so that a begun code that never ends is held back no longer than this.
_COLOUR = r"\x1b\[[0-9;:]{0,64}m"
_ERASE = r"\x1b\[[012]?K"
_PASSES = re.compile(rf"({_COLOUR}|{_ERASE}|[\n\t\r\b])")
_COLOURS = re.compile(_COLOUR)
_CUT = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z")  # the beginning of a code that may pass
_RESETS = ("\x1b[m", "\x1b[0m")
_KEPT_COLOURS = 8  # that are shown again after a line of somebody else
RESET = "\x1b[0m"
_PLAIN = bytes([*range(32, 127), 10])  # nothing that steers a terminal
# A code that is no colour, or a colour that is still on where its line ends.
_OPEN_CODE = re.compile(rb"\x1b(?!\[(?:0?m|[0-9;:]{0,64}m[^\x1b\n]*\x1b))")
# Every colour is ended in its line, by the next code: most are, and this is found sooner. By ranges, which are quick.
_IN_PAIRS = re.compile(rb"(?:[^\x1b]*+\x1b\[[0-;]{0,64}+m[ -\xff]*+\x1b\[0?m)*+[^\x1b]*+")


def harmless(text: str) -> str:
    """What was printed, for a terminal: colours, CR, backspace and erase-line work, everything else is visible."""
    parts = _PASSES.split(text.replace("\r\n", "\n"))  # every second one passes
    parts[::2] = map(visible, parts[::2])
    return "".join(parts)


class HarmlessStream:
    """What is printed piece by piece, made harmless: a code that is cut in two by a piece's end is put together."""

    def __init__(self) -> None:
        self._held = self._colours = ""

    def feed(self, text: str) -> str:
        """What can be shown now."""
        whole = self._held + text
        cut = _CUT.search(whole, max(0, len(whole) - 67))
        at = cut.start() if cut else len(whole) - whole.endswith("\r")  # a CR may be half of a line's end
        self._held = whole[at:]
        self._colours = _colours_after(self._colours, whole[:at])
        return harmless(whole[:at])

    def end(self) -> str:
        """What was held back, when nothing more comes; whatever follows has no colour of theirs."""
        shown = harmless(self._held) + (RESET if self._colours else "")
        self._held = self._colours = ""
        return shown


class NamedLines:
    """Lines that somebody printed, each with a name in front that nothing in them can wipe, overwrite or colour."""

    def __init__(self, name: str) -> None:
        self._front = f"{visible(name)} | "
        self._colours = ""  # of the line before: they go on in the next

    def lines(self, data: bytes) -> bytes:
        """Whole lines, harmless; all at once where nothing in them goes on, since very many may be printed."""
        if not self._colours and _is_closed(data):
            front = self._front.encode()
            named = front + data.replace(b"\n", b"\n" + front)
            return named if named.isascii() else named.decode("utf-8", "replace").encode()  # a sign for what is no text
        return "\n".join(map(self.line, data.decode("utf-8", "replace").split("\n"))).encode()

    def line(self, text: str) -> str:
        """One line without its end, harmless."""
        begun, shown = self._colours, harmless(text.rstrip("\r"))
        if not begun and shown.isprintable():
            return self._front + shown
        self._colours = _colours_after(begun, shown)
        body = "".join(map(self._kept_in_place, re.split(r"(\r|\x1b\[[12]K)", shown)))
        return self._front + begun + body + (RESET if self._colours else "")

    def _kept_in_place(self, segment: str) -> str:
        """A part that begins with what leads back to the begin of the line: the name is written again."""
        if segment == "\r":
            return f"\r{self._front}"
        if segment in ("\x1b[1K", "\x1b[2K"):
            return f"{segment}\r{self._front}"
        # without the backspaces that would lead back before its begin
        if "\b" not in segment:
            return segment
        kept, column = [], 0
        for part in re.split(rf"({_COLOUR}|\x1b\[0?K|\b)".replace(r"\b", "\x08"), segment):
            if part == "\b":
                if column:
                    kept.append(part)
                    column -= 1
            else:
                kept.append(part)
                column += 0 if part.startswith("\x1b[") else sum(map(_takes_room, part))
        return "".join(kept)


def _is_closed(data: bytes) -> bool:
    """Whether nothing in these lines steers a terminal but colours, and each line ends without one."""
    others = data.translate(None, _PLAIN)
    if others.strip(b"\x1b") and not others.translate(None, b"\x1b").decode("utf-8", "replace").isprintable():
        return False
    return b"\x1b" not in others or _IN_PAIRS.fullmatch(data) is not None or _OPEN_CODE.search(data) is None


def _takes_room(char: str) -> bool:
    """Whether a character surely moves the cursor: marks and inner letters of Korean are put on the one before."""
    return char.isascii() or not (unicodedata.category(char)[0] == "M" or "\u1160" <= char <= "\u11ff")


def _colours_after(before: str, shown: str) -> str:
    """The colours that are on at the end of a line: all since the last reset, the newest of very many."""
    found = [*_COLOURS.findall(before), *_COLOURS.findall(shown)]
    ends = [number for number, code in enumerate(found, 1) if code in _RESETS]
    return "".join(found[ends[-1] if ends else 0 :][-_KEPT_COLOURS:])


LINE_BYTES = 8192  # of a line without end, before it is shown as it is
AWAY_SECONDS = 0.5  # of the moving line, after somebody printed or typed
PATIENCE_SECONDS = 0.5  # for a lock that is never given back in a process that the flow forked
_CLEAR = "\r\x1b[2K"
_UNSEEN = "_raw_input"  # what `getpass.getpass` reads by, under whatever name a flow has imported it


class Screen:
    """One place that writes, so that lines of several threads do not mix."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._raw = is_raw()
        self._named: dict[str, NamedLines] = {}
        self._out, self._beside = sys.stdout, sys.stderr
        self._bytes = _bytes_of(self._out)
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
            self._later.append(text)
            self._say_later()

    def _say_later(self) -> None:
        """The lines that waited for somebody to have typed. Whoever was asked unseen has ended that line by then."""
        if self._typing or not self._later:
            return
        said, self._later = map(clean, self._later), []
        self._wipe()
        self._end_line()
        self._write_beside("".join(f"{line}\n" for text in said for line in self._wrapped(text)))
        self._draw()

    def _wrapped(self, text: str) -> list[str]:
        return wrapped(text, terminal_columns(), then="    ") if self.moves else [text]

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
            self._say_later()
            self._wipe()
            self.moves = False

    def status(self, text: str) -> None:
        """The line that moves: what is done now."""
        with self._lock:
            if time.monotonic() < self._away_until:
                self._status = text
                return
            self._say_later()
            if self.moves and (text != self._status or not self._drawn):
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
        kept, read, unseen = (sys.stdout, sys.stderr), builtins.input, vars(getpass)[_UNSEEN]
        sys.stdout, sys.stderr = (_Past(each, self) if each.isatty() else each for each in kept)
        builtins.input, vars(getpass)[_UNSEEN] = self._reading(read), self._reading(unseen)
        try:
            yield
        finally:
            (sys.stdout, sys.stderr), builtins.input, vars(getpass)[_UNSEEN] = kept, read, unseen

    def _reading(self, read: Any) -> Any:
        def reading(*given: Any, **named: Any) -> str:
            with self._quiet():
                return str(read(*given, **named))

        return reading

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
        self._write(self._shown(step, lines) + b"\n")
        self._draw()

    def _write(self, shown: bytes) -> None:
        """As it is, where the stream takes that: very much may be shown."""
        if self._bytes is None:
            self._out.write(shown.decode())
            self._out.flush()
            return
        self._out.flush()
        while shown:
            written = self._bytes.write(shown)
            if written is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            shown = shown[written:]
        self._bytes.flush()

    def _shown(self, step: str, lines: bytes) -> bytes:
        if self._raw:
            front, text = f"{step} | ", lines.decode("utf-8", "replace")
            return (front + text.replace("\r\n", "\n").rstrip("\r").replace("\n", f"\n{front}")).encode(
                errors="replace"
            )
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
            self._write_beside(_CLEAR)

    def _write_beside(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._beside.write(text)
            self._beside.flush()

    def _draw(self) -> None:
        if self.moves and self._status and not (self._open or self._typing):
            self._drawn = True
            self._write_beside(fit(clean(self._status), terminal_columns() - 1))


def _bytes_of(stream: TextIO) -> BinaryIO | None:
    """What takes the bytes of a stream of text in UTF-8; None where its text has to be encoded by itself."""
    below = getattr(stream, "buffer", None)
    is_plain = isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name == "utf-8"
    return below if is_plain else None


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
