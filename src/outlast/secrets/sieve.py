"""A first look at much text at once: where the hints of rules stand. Pure.

Looking for one hint after another reads the text a hundred times; all of them are looked for together, by an automaton
that reads it once. Only hints so short that ordinary text is full of them (`SK`, `pat`) are looked for by themselves,
with as much after them as a secret has. It finds too much, never too little.

Of much text, the lines that may have a secret in them: those with a hint, and the ones right after. Pure.

Every kind of secret is within a line, or in two where a value may stand under its name; private keys, which have many,
are not looked for this way. What is left of a text is small as a rule, and is read as any other.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from itertools import accumulate, product
from typing import TYPE_CHECKING, Any

from ahocorasick_rs import BytesAhoCorasick, Implementation

from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.secrets.rules import SecretRule


_FREQUENT = (b"pat",)  # in ordinary text, as all hints of two letters are
_IN_TOKENS = rb"[A-Za-z0-9._~-]"  # what follows the hint of a token, unless its pattern has one of these signs
_IN_OTHERS = "/%=+"
_AROUND = re.compile(r"\(\?<?[=!][^()]*\)")  # what a pattern looks at and does not read
_MOST = 16  # of it that are looked at
_SPELT = 6  # letters of a hint that the automaton knows large and small: the text need not be copied in small ones
_parser: Any = import_module("re._parser")


class Hint(NamedTuple):
    """What a text has that one of these rules finds something in, and how much of the secret follows it at least."""

    text: bytes
    cased: bool
    rules: tuple[SecretRule, ...]
    follows: int
    patterns: tuple[tuple[re.Pattern[bytes], int], ...]  # of tokens, each with how far before the hint it begins

    def is_at(self, data: bytes, place: int) -> bool:
        """Whether all of it stands where it begins."""
        return self.cased or data[place : place + len(self.text)].lower() == self.text

    def spellings(self) -> Iterator[bytes]:
        """How it begins in the text: just so, or in any large and small letters."""
        if self.cased:
            return iter((self.text,))
        begin = self.text[:_SPELT]
        return map(bytes, product(*({*pair} for pair in zip(begin.lower(), begin.upper(), strict=True))))

    def may_be_at(self, data: bytes, place: int) -> bool:
        """Whether a secret may be there: a token is known by its pattern, anything else has to be looked for."""
        for pattern, offset in self.patterns:
            if place >= offset and pattern.match(data, place - offset):
                return True
        return not self.patterns


class _Short:
    """Short hints of one length that begin alike, each with what follows it: by a fixed sign they are found quickly."""

    def __init__(self, hints: list[Hint]) -> None:
        self._hints = {hint.text: hint for hint in hints}
        self._first = hints[0].text[:1]
        ways = b"|".join(re.escape(hint.text[1:]) for hint in hints)
        least = min(hint.follows for hint in hints)
        self._pattern = re.compile(b"%s(?:%s)(?=%s{%d})" % (re.escape(self._first), ways, _IN_TOKENS, least))

    def places(self, data: bytes) -> Iterator[tuple[int, Hint]]:
        if self._first in data:  # a single sign is found at once, or known to be absent
            for found in self._pattern.finditer(data):
                yield found.start(), self._hints[found[0]]


class Sieve:
    """The hints of some rules; `without` are those that have none, and look at everything."""

    def __init__(self, rules: tuple[SecretRule, ...]) -> None:
        self.without = tuple(rule for rule in rules if not rule.hints or not all(map(_is_found, rule.hints)))
        hints = _hints(rule for rule in rules if rule not in self.without)
        short: dict[tuple[bytes, int], list[Hint]] = {}
        for hint in filter(_is_short, hints):
            short.setdefault((hint.text[:1], len(hint.text)), []).append(hint)
        self._short = [*map(_Short, short.values())]
        spelt = [(text, hint) for hint in hints if not _is_short(hint) for text in hint.spellings()]
        self._together = [hint for _, hint in spelt]
        self._automaton = BytesAhoCorasick([text for text, _ in spelt], implementation=Implementation.DFA)

    def places(self, data: bytes) -> Iterator[tuple[int, Hint]]:
        """Where a hint stands and a secret may be, in no order."""
        for short in self._short:
            for place, hint in short.places(data):
                if hint.may_be_at(data, place):
                    yield place, hint
        for number, place, _ in self._automaton.find_matches_as_indexes(data, overlapping=True):
            hint = self._together[number]
            if hint.is_at(data, place) and hint.may_be_at(data, place):
                yield place, hint


@lru_cache(maxsize=8)
def sieve_of(rules: tuple[SecretRule, ...]) -> Sieve:
    """The sieve of these rules; making one takes a while, so it is made once."""
    return Sieve(rules)


def _is_found(hint: str) -> bool:
    return hint.isascii() and len(hint) > 1


def _hints(rules: Iterable[SecretRule]) -> list[Hint]:
    """Every hint once; where large and small letters are alike, in small ones."""
    found: dict[str, list[SecretRule]] = {}
    for rule in rules:
        for hint in rule.hints:
            found.setdefault(hint if rule.cased else hint.lower(), []).append(rule)
    for word in [each for each in found if each.islower() and each.isalpha()]:  # `pass` is found with `password`
        within = next((each for each in found if each in word and each != word and each.islower()), None)
        if within is not None:
            found[within] += found.pop(word)
    return [_hint(text, tuple(of)) for text, of in found.items()]


def _hint(text: str, rules: tuple[SecretRule, ...]) -> Hint:
    follows = min(_follows(rule, text) for rule in rules)
    known = all(rule.pattern for rule in rules)
    patterns = [(re.compile(rule.pattern.encode()), offset) for rule in rules for offset in rule.offsets if known]
    return Hint(text.encode(), all(rule.cased for rule in rules), rules, follows, tuple(patterns))


def _is_short(hint: Hint) -> bool:
    is_frequent = (len(hint.text) == 2 and hint.text.isalpha()) or hint.text in _FREQUENT
    return is_frequent and hint.cased and hint.follows > 0


def _follows(rule: SecretRule, hint: str) -> int:
    """How many characters of a secret come after a hint, at least."""
    read = _AROUND.sub("", rule.pattern)
    if not read or any(map(read.__contains__, _IN_OTHERS)):
        return 0
    least = int(_parser.parse(rule.pattern).getwidth()[0]) - max(rule.offsets) - len(hint)
    return max(0, min(least, _MOST))


Span = tuple[int, int]
Read = Callable[[bytes, "tuple[SecretRule, ...]"], list[Span]]

_COLOUR = re.compile(rb"\x1b\[[0-9;:]{0,64}[mK]")


def spans_of_suspects(data: bytes, rules: tuple[SecretRule, ...], read: Read) -> list[Span]:
    """Where `read` finds secrets by these rules, which it is given only what may have some of."""
    sieve = sieve_of(rules)
    found = read(data, sieve.without) if sieve.without else []
    lines, near = _suspects(data, sieve)
    if not lines:
        return found
    spans = [*found, *_placed(read(b"".join(data[start:stop] for start, stop in lines), near), lines)]
    return [*_merged(sorted(spans))] if found else spans


def _suspects(data: bytes, sieve: Sieve) -> tuple[list[Span], tuple[SecretRule, ...]]:
    """The lines that have hints, and the rules that they hint at."""
    hints = [*sieve.places(data)]
    near = {rule: None for _, hint in hints for rule in hint.rules}
    places = [place for place, _ in hints]
    if b"\x1b" in data:  # a colour may stand within a hint
        plain = _COLOUR.sub(b"", data)
        behind = [*sieve.places(plain)]
        near |= {rule: None for _, hint in behind for rule in hint.rules}
        places += _in_lines(data, plain, [place for place, _ in behind])
    return _lines_of(data, sorted(places)), tuple(near)


def _in_lines(data: bytes, plain: bytes, places: list[int]) -> list[int]:
    """Where the lines begin in the data that have these places in the plain text, which has as many lines."""
    ends = [*accumulate(len(line) + 1 for line in plain.split(b"\n"))]
    begins = [0, *accumulate(len(line) + 1 for line in data.split(b"\n"))]
    return [begins[bisect_right(ends, place)] for place in places]


def _lines_of(data: bytes, places: list[int]) -> list[Span]:
    """The lines of these places, each with the one after it, as spans that do not touch."""
    found: list[Span] = []
    stop = seen = 0
    for place in places:
        if place < seen:
            continue  # in a line that is there already, and so is the one after it
        start = max(stop, data.rfind(b"\n", stop, place) + 1)
        seen = data.find(b"\n", place) + 1 or len(data)
        stop = data.find(b"\n", seen) + 1 or len(data)
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, stop))
    return found


def _placed(spans: list[Span], lines: list[Span]) -> Iterator[Span]:
    """Spans in the joined lines, as places in the data."""
    ends = [*accumulate(stop - start for start, stop in lines)]
    for start, stop in spans:
        line = bisect_right(ends, start)
        shift = lines[line][1] - ends[line]
        yield start + shift, stop + shift


def _merged(spans: list[Span]) -> Iterator[Span]:
    """Those that overlap are one."""
    start, stop = spans[0]
    for begin, end in spans[1:]:
        if begin >= stop:
            yield start, stop
            start, stop = begin, end
        stop = max(stop, end)
    yield start, stop
