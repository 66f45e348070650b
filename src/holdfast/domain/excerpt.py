"""Excerpts: a piece of a text around what was looked for, cut between sentences or lines. Pure.

A text that has no such bounds (one endless line) is cut between words, or in the worst case between characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

TokensOf = Callable[[str], int]
CUT = "…"
LONGEST_PIECE = 240  # characters of a sentence; a longer one is cut between words
_BOUNDS = re.compile(r"\n+|(?<=[.!?])[\"')\]]*\s+|(?<=[。！？])")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\w+")


class Span(NamedTuple):
    start: int
    end: int


class Excerpt(NamedTuple):
    """A piece of a text, and whether it is all of it."""

    text: str
    whole: bool


def pieces(text: str) -> list[Span]:
    """The sentences and lines of a text, in order, without the blanks between them."""
    found: list[Span] = []
    at = 0
    for bound in _BOUNDS.finditer(text):
        found += _within(text, at, bound.start() if bound.group().isspace() else bound.end())
        at = bound.end()
    return [*found, *_within(text, at, len(text))]


def _within(text: str, start: int, end: int) -> Iterator[Span]:
    """One sentence; several, when it is too long to be shown whole."""
    while start < end and text[start].isspace():
        start += 1
    while end - start > LONGEST_PIECE:
        last = max((gap.start() for gap in _SPACE.finditer(text, start + 1, start + LONGEST_PIECE)), default=0)
        cut = last or start + LONGEST_PIECE
        yield Span(start, cut)
        start = cut
        while start < end and text[start].isspace():
            start += 1
    if text[start:end].strip():
        yield Span(start, start + len(text[start:end].rstrip()))


def excerpt(text: str, words: Collection[str], room: int, tokens_of: TokensOf, near: Span | None = None) -> Excerpt:
    """As much of the text around the best match as fits into that many tokens: all of it, or whole sentences.

    Begins where most of `words` are (inside `near`, if that is given) and grows to both sides. Empty when not even the
    best sentence fits.
    """
    stripped = text.strip()
    if tokens_of(stripped) <= room:
        return Excerpt(stripped, whole=True)
    spans = pieces(text)
    first = _best(text, spans, words, near)
    if first is None:
        return Excerpt("", whole=False)
    low = high = first
    best = ""
    while (shown := _shown(text, spans, low, high)) and tokens_of(shown) <= room:
        best = shown
        if low == 0 and high == len(spans) - 1:
            break
        low, high = _grown(low, high, len(spans))
    return Excerpt(best, whole=False)


def _grown(low: int, high: int, size: int) -> tuple[int, int]:
    """One sentence more: two after the match for each one before it, since what follows explains it."""
    before = low > 0 and ((high - low) % 3 == 2 or high == size - 1)
    return (low - 1, high) if before else (low, high + 1)


def _shown(text: str, spans: list[Span], low: int, high: int) -> str:
    head = "" if low == 0 else CUT + " "
    tail = "" if high == len(spans) - 1 else " " + CUT
    return f"{head}{text[spans[low].start : spans[high].end]}{tail}"


def _best(text: str, spans: list[Span], words: Collection[str], near: Span | None) -> int | None:
    """Which sentence has most of the words; the first of equals, those inside `near` before all others."""
    wanted = [word.lower() for word in words]

    def worth(place: int) -> tuple[bool, int, int]:
        span = spans[place]
        inside = near is None or near.start <= span.start < near.end
        return inside, _hits(text[span.start : span.end], wanted), -place

    return max(range(len(spans)), key=worth, default=None)


def _hits(sentence: str, wanted: list[str]) -> int:
    """How many of the words a sentence has, in whatever form."""
    said = set(_WORD.findall(sentence.lower()))
    return sum(any(alike(word, each) for each in said) for word in wanted)


def alike(a: str, b: str) -> bool:
    """Whether two words are likely forms of one: `repair` and `repaired`, not `report` and `repair`."""
    if a == b:
        return True
    same = min(len(a), len(b))
    return same >= 4 and abs(len(a) - len(b)) <= 4 and a[: same - 1] == b[: same - 1]
