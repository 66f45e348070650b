"""Passages: what recall finds. A short text is one, a long one is cut where lines or sentences end. Pure.

An excerpt is a piece of a text around what was looked for, cut between sentences or lines; a text that has no such
bounds (one endless line) is cut between words, or in the worst case between characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from outlast.values.frozen import NamedTuple
from outlast.workspace.recall.words import words_of

TokensOf = Callable[[str], int]
CUT = "…"
LONGEST_PIECE = 240  # characters of a sentence; a longer one is cut between words
PIECES = (LONGEST_PIECE, 80, 24, 8)  # shorter ones where it does not fit: digits and Chinese take many tokens
AROUND = 4_000  # characters before and after the match that are looked at: an excerpt is shorter than that
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


def excerpt(text: str, words: Collection[str], room: int, tokens_of: TokensOf, near: Span | None = None) -> Excerpt:
    """As much of the text around the best match as fits into that many tokens: all of it, or whole sentences.

    Begins where most of `words` are (inside `near`, if that is given) and grows to both sides. Of a sentence that does
    not fit, the words around the match. Empty when not even a few characters fit.
    """
    view = _view(text, near or Span(0, 0))
    if len(text) <= AROUND and tokens_of(text.strip()) <= room:
        return Excerpt(text.strip(), whole=True)
    for longest in PIECES:
        spans = pieces(text, view, longest)
        if spans and (shown := _around(text, spans, _best(text, spans, words, near), room, tokens_of)):
            return Excerpt(shown, whole=False)
    return Excerpt("", whole=False)


def _view(text: str, near: Span) -> Span:
    """The part of a long text that an excerpt can come from, from one bound to another."""
    start, end = max(near.start - AROUND, 0), min(near.end + AROUND, len(text))
    first = _BOUNDS.search(text, start, near.start) if start else None
    last = max((bound.start() for bound in _BOUNDS.finditer(text, near.end, end)), default=end)
    return Span(first.end() if first else start, last if end < len(text) else end)


# -- sentences ---------------------------------------------------------------------------------------


def pieces(text: str, view: Span | None = None, longest: int = LONGEST_PIECE) -> list[Span]:
    """The sentences and lines of a text, in order, without the blanks between them."""
    at, end = view or Span(0, len(text))
    found: list[Span] = []
    for bound in _BOUNDS.finditer(text, at, end):
        found += _parts(text, at, bound.start() if bound.group().isspace() else bound.end(), longest)
        at = bound.end()
    return [*found, *_parts(text, at, end, longest)]


def _parts(text: str, start: int, end: int, longest: int) -> Iterator[Span]:
    """One sentence; several parts of it, when it is too long to be shown whole."""
    start = _past_blanks(text, start, end)
    while end - start > longest:
        cut = max((gap.start() for gap in _SPACE.finditer(text, start + 1, start + longest)), default=start + longest)
        yield Span(start, cut)
        start = _past_blanks(text, cut, end)
    if start < end:
        yield Span(start, start + len(text[start:end].rstrip()))


def _past_blanks(text: str, start: int, end: int) -> int:
    blank = _SPACE.match(text, start, end)
    return blank.end() if blank else start


# -- growing -----------------------------------------------------------------------------------------


def _around(text: str, spans: list[Span], first: int, room: int, tokens_of: TokensOf) -> str:
    """As many sentences around the first one as fit; nothing if that alone does not."""
    low = high = first
    best = ""
    while tokens_of(shown := _shown(text, Span(spans[low].start, spans[high].end))) <= room:
        best = shown
        if low == 0 and high == len(spans) - 1:
            break
        low, high = _grown(low, high, len(spans))
    return best


def _grown(low: int, high: int, size: int) -> tuple[int, int]:
    """One sentence more: two after the match for each one before it, since what follows explains it."""
    before = low > 0 and ((high - low) % 3 == 2 or high == size - 1)
    return (low - 1, high) if before else (low, high + 1)


def _shown(text: str, span: Span) -> str:
    head = f"{CUT} " if text[: span.start].strip() else ""
    tail = f" {CUT}" if text[span.end :].strip() else ""
    return f"{head}{text[span.start : span.end]}{tail}"


# -- the best match ----------------------------------------------------------------------------------


def _best(text: str, spans: list[Span], words: Collection[str], near: Span | None) -> int:
    """Which sentence has most of the words; the first of equals, those inside `near` before all others."""
    wanted = [word.lower() for word in words]
    inside = [place for place, span in enumerate(spans) if near and near.start <= span.start < near.end]
    return max(inside or range(len(spans)), key=lambda place: (_hits(text[slice(*spans[place])], wanted), -place))


def _hits(sentence: str, wanted: list[str]) -> int:
    """How many of the words a sentence has, in whatever form; those of writing without spaces anywhere in it."""
    lowered = sentence.lower()
    said = set(_WORD.findall(lowered))
    return sum(any(alike(word, each) for each in said) or (not word.isascii() and word in lowered) for word in wanted)


def alike(a: str, b: str) -> bool:
    """Whether two words are likely forms of one: `repair` and `repaired`, not `report` and `repair`."""
    if a == b:
        return True
    same = min(len(a), len(b))
    return same >= 4 and abs(len(a) - len(b)) <= 4 and a[: same - 1] == b[: same - 1]


PASSAGE_CHARACTERS = 1200
ASKING_TAIL = 25  # a question mark this near its end: the text asks, and what follows may answer

_CUTS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"[.!?…][\"')\]]*\s|[。！？]"), re.compile(r"\s"))
_SPEAKER = re.compile(r"\s*(?:[\[(][^\])\n]{0,60}[\])]\s*)?([^\W\d_][\w'-]*(?:[ .][\w'-]+){0,2})\s?:\s")


class Document(NamedTuple):
    """What is indexed of one record, text artifact, checkpoint or handoff."""

    family: str
    key: int  # its key in the ledger: grows, never comes again
    kind: str  # what recall(kinds=…) chooses by
    text: str
    actor: str = ""  # who said it
    source: str = ""  # what it came from: a session, a run. Documents of one source stand next to one another
    at: datetime | None = None


class Passage(NamedTuple):
    """A piece of a document as the index keeps it."""

    piece: int
    start: int
    end: int
    words: list[str]
    asks: bool


def passages_of(document: Document) -> Iterator[Passage]:
    """The pieces of a document, in order."""
    for piece, (start, end) in enumerate(cut(document.text)):
        text = document.text[start:end]
        tail = text.rstrip()[-ASKING_TAIL:]
        yield Passage(piece, start, end, words_of(text), "?" in tail or "？" in tail)


def stream_of(document: Document) -> str:
    """What a document's neighbours have in common with it: their source, else the day they are of."""
    if document.family != "record":
        return f"key {document.key}"  # the pieces of one text are neighbours, two texts are not
    if document.source:
        return f"source {document.source}"
    return f"day {document.at.date().isoformat()}" if document.at else "day"


def voice_of(document: Document) -> str:
    """Who speaks in a document: `Ana: I saw it` is Ana's, whoever wrote it down; else its actor."""
    found = _SPEAKER.match(document.text[:200])
    return found[1] if found else document.actor


def cut(text: str, size: int = PASSAGE_CHARACTERS) -> list[tuple[int, int]]:
    """Where the pieces of a text start and end: no longer than `size`, nothing between them, nothing left out."""
    pieces, start = [], 0
    while len(text) - start > size:
        end = _bound(text, start, size)
        pieces.append((start, end))
        start = end
    return [*pieces, (start, len(text))]


def _bound(text: str, start: int, size: int) -> int:
    """The last bound of the strongest kind in the second half of the piece; the very end when there is none."""
    middle, limit = start + size // 2, start + size
    for bound in _CUTS:
        ends = [found.end() for found in bound.finditer(text, middle, limit)]
        if ends:
            return ends[-1]
    return limit
