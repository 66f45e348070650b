"""Words: how a text becomes the words it is found by, the same for what is kept and for what a goal asks.

A word is a run of letters and digits, folded: no case, no accents. A compound such as `exportSerializer` also counts by
its parts. Writing without spaces (Chinese, Japanese, Korean, Thai) counts by single characters and by pairs of them.
Endings are left to whoever stems the words; forms that no rule gives, and words for much the same, are listed here. Any
text is fine, also what is not a valid one; what has no end, such as encoded bytes, is words of 64 characters.

Of a goal is read beyond its words: whom it may name, the days it speaks of, and whether it asks when.

Passages are what recall finds. A short text is one, a long one is cut where lines or sentences end. An excerpt is a
piece of a text around what was looked for, cut between sentences or lines; a text that has no such bounds (one endless
line) is cut between words, or in the worst case between characters. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import date, datetime
from pathlib import Path

from outlast.values.frozen import NamedTuple
from outlast.values.text import lists_in

_FILE = Path(__file__).with_name("words.txt")
_LISTS = lists_in(_FILE.read_text("utf-8"))

# Each a word and its other forms or short names.
FORMS: dict[str, str] = {}  # by a form: its word
for _line in _LISTS["forms"].split(","):
    _word, *_others = _line.split()
    for _other in _others:
        FORMS.setdefault(_other, _word)

# Words of which one may stand where a goal says another.
ALIKE = tuple(frozenset(_line.split()) for _line in _LISTS["alike"].split(","))

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
)
_SIGNS = "\u0900-\u0963\u0966-\u0dff"  # the scripts of India write vowels as signs that belong to the word
_PLAIN = re.compile(r"[A-Za-z0-9]{1,64}")
_ANY = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])(?:[^\W_]|[{_SIGNS}])){{1,64}}")
_RUN = re.compile(rf"[{_UNSPACED}]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

# Words that hold English sentences together or ask, and say nothing of what is asked about.
FUNCTION_WORDS = frozenset(_LISTS["function"].split())

# Words by which English says when something was, or for how long.
TIME_WORDS = frozenset(_LISTS["time"].split())

# Words by which a goal names a kind of what is recalled.
_KINDS = {
    "observation": "observation observations observe observed",
    "decision": "decision decisions decide decided",
    "evidence": "evidence",
    "note": "note notes noted",
    "artifact": "artifact artifacts artefact artefacts",
    "checkpoint": "checkpoint checkpoints",
}
KIND_WORDS = {word: kind for kind, words in _KINDS.items() for word in words.split()}


def words_of(text: str) -> list[str]:
    """The words of a text in their order, folded; compounds also by their parts, unspaced writing by characters."""
    if text.isascii():
        found = _PLAIN.findall(text)
        if not all(map(_is_single, found)):
            return [part for word in found for part in _with_parts(word)]
        return " ".join(found).lower().split(" ") if found else []
    folded = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    return [part for word in _ANY.findall(folded) for part in _by_script(word)]


def _is_single(word: str) -> bool:
    return word.islower() or word.istitle() or word.isupper() or word.isdigit()


def _by_script(word: str) -> list[str]:
    if not _RUN.match(word):
        return _with_parts(word)
    return [*word, *(word[at : at + 2] for at in range(len(word) - 1))]


def _with_parts(word: str) -> list[str]:
    whole = word.casefold()
    if _is_single(word):
        return [whole]
    parts = _PARTS.findall(word)
    return [whole, *(part.lower() for part in parts)] if len(parts) > 1 else [whole]


MAX_TERMS = 64  # distinct words of a goal that are searched for, the first ones; `Query.left_out` counts the rest
MAX_GOAL = 20_000  # characters of a goal that are read for words; longer goals are cut here, and say so

_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_MONTHS = _MONTH.split("|")
_DAY = re.compile(
    rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m>{_MONTH}),? (?P<y>\d{{4}})\b"
    rf"|\b(?P<m2>{_MONTH}) (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y2>\d{{4}})\b"
    r"|\b(?P<y3>\d{4})-(?P<m3>\d{2})-(?P<d3>\d{2})\b",
    re.IGNORECASE,
)
_WHOLE_MONTH = re.compile(
    rf"\b(?P<m>{_MONTH}),? (?:of )?(?P<y>\d{{4}})\b|\b(?P<y2>\d{{4}})-(?P<m2>\d{{2}})\b(?!-)", re.IGNORECASE
)
_ASKS_WHEN = re.compile(r"\b(?:when|how long|(?:what|which) (?:date|day|week|month|year|time))\b", re.IGNORECASE)


class Query(NamedTuple):
    """A goal, read. `query_of` makes it from any text."""

    terms: tuple[str, ...]  # the words to search for, in the goal's order, each once
    words: frozenset[str]  # all of its words: an actor may be among them
    capitals: frozenset[str]  # those written with a capital, as names are
    days: tuple[tuple[int, int], ...]  # first and last day of each date it names, as ordinals
    asks_when: bool
    kinds: tuple[str, ...] = ()  # those that it names: `decisions about the export`
    left_out: int = 0  # distinct words beyond MAX_TERMS, not searched for
    cut: int = 0  # characters beyond MAX_GOAL, not read


def query_of(goal: str) -> Query:
    """What the goal asks for. Never fails: a goal without words has no terms, and a long one says what was left out."""
    read = goal[:MAX_GOAL]
    words = words_of(read)
    terms = list(dict.fromkeys(_telling(words) or words))
    return Query(
        terms=tuple(terms[:MAX_TERMS]),
        words=frozenset(words),
        capitals=frozenset(words_of(" ".join(word for word in re.findall(r"\w+", read) if word[0].isupper()))),
        days=tuple(_days_in(read)),
        asks_when=bool(_ASKS_WHEN.search(read)),
        kinds=tuple(dict.fromkeys(KIND_WORDS[word] for word in words if word in KIND_WORDS)),
        left_out=max(0, len(terms) - MAX_TERMS),
        cut=len(goal) - len(read),
    )


def _telling(words: list[str]) -> list[str]:
    """Without the words that say nothing. A single character of unspaced writing yields to the pairs it is in."""
    pairs = {character for word in words if len(word) == 2 and not word.isascii() for character in word}
    told = [word for word in words if word not in FUNCTION_WORDS and word not in pairs]
    return [word for word in told if len(word) > 1 or not (word.isascii() and word.isalpha())]


def _days_in(goal: str) -> Iterable[tuple[int, int]]:
    days = [day for found in _DAY.finditer(goal) if (day := _day_of(found))]
    return days or [month for found in _WHOLE_MONTH.finditer(goal) if (month := _month_of(found))]


def _day_of(found: re.Match[str]) -> tuple[int, int] | None:
    part = found.groupdict()
    year, month, day = (part[f"{name}"] or part[f"{name}2"] or part[f"{name}3"] for name in "ymd")
    try:
        ordinal = date(int(year), _month_number(month), int(day)).toordinal()
    except ValueError:
        return None  # 31 June is no day
    return ordinal, ordinal


def _month_of(found: re.Match[str]) -> tuple[int, int] | None:
    part = found.groupdict()
    year, month = int(part["y"] or part["y2"]), _month_number(part["m"] or part["m2"])
    try:
        first = date(year, month, 1).toordinal()
        following = date(year + month // 12, month % 12 + 1, 1).toordinal()
    except ValueError:
        return None
    return first, following - 1


def _month_number(month: str) -> int:
    return int(month) if month.isdecimal() else _MONTHS.index(month.lower()) + 1


# -- passages ----------------------------------------------------------------------------------------

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
        before = low > 0 and ((high - low) % 3 == 2 or high == len(spans) - 1)
        low, high = (low - 1, high) if before else (low, high + 1)
    return best


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
