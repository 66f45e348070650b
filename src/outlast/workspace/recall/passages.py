"""Passages: what recall finds. A short text is one, a long one is cut where lines or sentences end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from outlast.values.frozen import NamedTuple
from outlast.workspace.recall.words import words_of

FAMILIES = ("record", "artifact", "checkpoint", "handoff")
PASSAGE_CHARACTERS = 1200
ASKING_TAIL = 25  # a question mark this near its end: the text asks, and what follows may answer

_BOUNDS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"[.!?…][\"')\]]*\s|[。！？]"), re.compile(r"\s"))
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
    for bound in _BOUNDS:
        ends = [found.end() for found in bound.finditer(text, middle, limit)]
        if ends:
            return ends[-1]
    return limit
