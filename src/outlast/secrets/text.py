"""Text without its colours, and where each of its characters stands with them. Pure.

Where words are in a text. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

from outlast.values.frozen import NamedTuple


def places(text: str, words: Iterable[str]) -> list[int]:
    """Where each of these words begins in a text, in order."""
    found = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.append(at)
            at = text.find(word, at + 1)
    return sorted(found)


_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}[mK]")


class Plain(NamedTuple):
    """A text without colours. `begins` has where each part of it begins, `shifts` how much was left out before."""

    text: str
    begins: list[int]
    shifts: list[int]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where something stands in the text with its colours, as its start and its end below zero."""
        return start + self._shift(start), -(end + self._shift(end - 1))

    def _shift(self, at: int) -> int:
        return self.shifts[bisect_right(self.begins, at) - 1]


def without_colours(text: str) -> Plain:
    """The text as a terminal shows it, but for what else steers one."""
    parts, begins, shifts, length, at = [], [0], [0], 0, 0
    for found in _COLOUR.finditer(text):
        parts.append(text[at : found.start()])
        length += found.start() - at
        at = found.end()
        begins.append(length)
        shifts.append(at - length)
    return Plain("".join([*parts, text[at:]]), begins, shifts)
