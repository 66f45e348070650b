"""What commands print, shown as it comes: it may colour and redraw its own line, and steers nothing else. Pure.

Colours, CR, backspace and erase-line pass, as progress bars need them; every other control character and escape code
is made visible.
"""

from __future__ import annotations

import re
import unicodedata

from outlast.values.visible import visible

# Bounded, so that a begun code that never ends is held back no longer than this.
_COLOUR = r"\x1b\[[0-9;:]{0,64}m"
_ERASE = r"\x1b\[[012]?K"
_PASSES = re.compile(rf"({_COLOUR}|{_ERASE}|[\n\t\r\b])")
_COLOURS = re.compile(_COLOUR)
_CUT = re.compile(r"\x1b(?:\[[0-9;:]{0,64})?\Z")  # the beginning of a code that may pass
_RESETS = ("\x1b[m", "\x1b[0m")
_KEPT_COLOURS = 8  # that are shown again after a line of somebody else
RESET = "\x1b[0m"
_PLAIN = bytes([*range(32, 127), 10])


def harmless(text: str) -> str:
    """What was printed, for a terminal: colours, CR, backspace and erase-line work, everything else is visible."""
    parts = _PASSES.split(text.replace("\r\n", "\n"))  # every second one passes
    parts[::2] = map(visible, parts[::2])
    return "".join(parts)


class Live:
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

    def lines(self, text: str) -> str:
        """Whole lines, harmless; at once where they are plain, since very many may be printed."""
        if not self._colours and _is_plain(text):
            return self._front + text.replace("\n", f"\n{self._front}")
        return "\n".join(map(self.line, text.split("\n")))

    def line(self, text: str) -> str:
        """One line without its end, harmless."""
        begun, shown = self._colours, harmless(text.rstrip("\r"))
        if not begun and shown.isprintable():
            return self._front + shown
        self._colours = _colours_after(begun, shown)
        body = "".join(map(self._kept_in_place, _segments(shown)))
        coloured = begun or _COLOURS.search(shown)
        return self._front + begun + body + (RESET if coloured and not body.endswith(_RESETS) else "")

    def _kept_in_place(self, segment: str) -> str:
        """A part that begins with what leads back to the begin of the line: the name is written again."""
        if segment == "\r":
            return f"\r{self._front}"
        if segment in ("\x1b[1K", "\x1b[2K"):
            return f"{segment}\r{self._front}"
        return _without_overrun(segment)


def _is_plain(text: str) -> bool:
    """Whether lines have nothing in them that steers a terminal."""
    if text.isascii():  # much quicker, and nearly always so
        return not text.encode().translate(None, _PLAIN)
    return text.replace("\n", "").isprintable()


def _segments(shown: str) -> list[str]:
    return re.split(r"(\r|\x1b\[[12]K)", shown)


def _without_overrun(segment: str) -> str:
    """The text without the backspaces that would lead back before its begin."""
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


def _takes_room(char: str) -> bool:
    """Whether a character surely moves the cursor: marks and inner letters of Korean are put on the one before."""
    return char.isascii() or not (unicodedata.category(char)[0] == "M" or "\u1160" <= char <= "\u11ff")


def _colours_after(before: str, shown: str) -> str:
    """The colours that are on at the end of a line: all since the last reset, the newest of very many."""
    found = [*_COLOURS.findall(before), *_COLOURS.findall(shown)]
    ends = [number for number, code in enumerate(found, 1) if code in _RESETS]
    return "".join(found[ends[-1] if ends else 0 :][-_KEPT_COLOURS:])
