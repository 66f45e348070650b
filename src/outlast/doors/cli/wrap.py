"""Lines for people, broken between words and nowhere else: one mechanism for all that a terminal is shown. Pure.

A command to copy stays in one piece where it fits; else it goes on after a backslash, as a shell reads it. A word that
is wider than the terminal stays whole: only the terminal can break it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

NARROWEST = 20  # columns that a text is given at least, whatever stands in front of it
CONTINUED = " \\"
_NARROW = "…–—█░"  # signs of ours that need no table of widths
_COMMAND = re.compile(r"(?:(?<=: )|(?<=`)|(?<=  )|\A)outlast [a-z][^`]*")
_WORDS = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")  # of a shell: quoted blanks belong to their word


def width(text: str) -> int:
    """The columns a text takes: two for each character of East Asia and for most emoji."""
    if text.isascii() or all(char < "\u0300" or char in _NARROW for char in text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrapped(text: str, columns: int, first: str = "", then: str | None = None) -> list[str]:
    """The text in lines of at most so many columns. What it is indented by, its next lines are too."""
    body = text.lstrip(" ")
    first += text[: len(text) - len(body)]
    then = first if then is None else then
    if width(first + body) <= columns:
        return [(first + body).rstrip()]
    lines = _Lines(columns, first, then)
    for part, is_command in _parts(body):
        lines.add_command(part) if is_command else lines.add(part.split(" "))
    return lines.all()


def columns_of(heads: Sequence[str], rows: Sequence[Sequence[str]], columns: int, gap: int) -> list[int] | None:
    """How wide the columns of a table are, so that no word in it is broken; None when there is no such way."""
    every = [list(heads), *map(list, rows)]
    wanted = [max(map(width, column)) for column in zip(*every, strict=True)]
    least = [max(width(word) for cell in column for word in cell.split(" ")) for column in zip(*every, strict=True)]
    room = columns - gap * (len(wanted) - 1)
    if sum(wanted) <= room:
        return wanted
    if sum(least) > room:
        return None
    found = list(least)
    while (left := room - sum(found)) > 0 and (short := [n for n, each in enumerate(found) if each < wanted[n]]):
        for number in short[:left]:
            found[number] += 1
    return found


def _parts(text: str) -> list[tuple[str, bool]]:
    """A text in pieces: those that are commands to copy, and what is between them."""
    found, at = list[tuple[str, bool]](), 0
    for match in _COMMAND.finditer(text):
        found += [(text[at : match.start()], False), (match[0], True)]
        at = match.end()
    return [(part, is_command) for part, is_command in [*found, (text[at:], False)] if part]


class _Lines:
    """Lines that are filled word by word."""

    def __init__(self, columns: int, first: str, then: str) -> None:
        self._columns, self._then = max(columns, NARROWEST), then
        self._line, self._empty = first, True
        self._done: list[str] = []

    def add(self, words: Sequence[str]) -> None:
        """Words of a text; the first one belongs to what was before. An empty one is a blank more."""
        self._line += words[0]
        self._empty = self._empty and not words[0]
        for word in words[1:]:
            self._put(word)

    def add_command(self, text: str) -> None:
        """A command: on one line if that is possible."""
        room = self._columns - width(self._line)
        if not self._empty and width(text) > room:
            self._end(self._line.rpartition(" ")[2])
        words = _WORDS.findall(text)
        words = words if " ".join(words) == text else text.split(" ")  # prose after all
        for number, word in enumerate(words):
            needs = width(word) + (0 if number == len(words) - 1 else len(CONTINUED))
            if not self._empty and number and width(self._line) + 1 + needs > self._columns:
                self._done.append(self._line + CONTINUED)
                self._line, self._empty = f"{self._then}    ", True
            self._line += word if self._empty or not number else f" {word}"
            self._empty = False

    def _put(self, word: str) -> None:
        if not self._empty and width(self._line) + 1 + width(word) > self._columns:
            self._end()
        if word or not self._empty:
            self._line += word if self._empty else f" {word}"
            self._empty = self._empty and not word

    def _end(self, carried: str = "") -> None:
        """The next line begins, with what was to stand right before its first word."""
        line = self._line[: len(self._line) - len(carried)] if carried else self._line
        self._done.append(line.rstrip())
        self._line, self._empty = self._then + carried, True

    def all(self) -> list[str]:
        return [*self._done, self._line.rstrip()] if not self._empty or not self._done else self._done
