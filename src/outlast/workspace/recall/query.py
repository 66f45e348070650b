"""What a goal asks for: its words, whom it may name, the days it speaks of, and whether it asks when."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

from outlast.values.frozen import NamedTuple
from outlast.workspace.recall.words import FUNCTION_WORDS, words_of

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
        left_out=max(0, len(terms) - MAX_TERMS),
        cut=len(goal) - len(read),
    )


def _telling(words: list[str]) -> list[str]:
    """Without the words that say nothing. A single character of unspaced writing yields to the pairs it is in."""
    pairs = {character for word in words if len(word) == 2 and not word.isascii() for character in word}
    return [word for word in words if word not in FUNCTION_WORDS and word not in pairs and _tells(word)]


def _tells(word: str) -> bool:
    return len(word) > 1 or not (word.isascii() and word.isalpha())


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
