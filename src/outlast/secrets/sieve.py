"""Of much text, the lines that may have a secret in them: those with a hint of a rule, and the ones right after. Pure.

Looking for one hint after another reads the text a hundred times; all of them are looked for together, by an automaton
that reads it once. Words that ordinary text is full of (`token`, `key`) count only where they may be the name of a
value, two letters that it is full of (`MT`, `ND`) only where a word begins. It finds too much, never too little.

A colour may stand within a hint: then the text is read without its colours too. One beside a blank stands in none.

Every kind of secret is within a line, or in two where a value may stand under its name; private keys have many: a text
with a hint of one is read whole. What is left of a text is small as a rule, and is read as any other.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import accumulate, product
from typing import TYPE_CHECKING

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from outlast.secrets.rules import BEGINS
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.secrets.rules import SecretRule


_SPELT = 7  # letters of a hint that the automaton knows large and small: the text need not be copied in small ones
_PAYS_BYTES = 8 << 20  # of text: from here on what the large automaton saves is more than making it takes
_UNFIT = ("\u212a".encode(), "İ".encode())  # letters whose small forms are others'
_ENDS_COLOUR = (b"m", b"K")


class Hint(NamedTuple):
    """What a text has that one of these rules finds something in."""

    text: bytes
    cased: bool
    rules: tuple[SecretRule, ...]

    @property
    def is_short(self) -> bool:
        """Two letters, of tokens that begin with them, and where a word begins."""
        begins = all(rule.pattern.startswith(BEGINS) and rule.offsets == (0,) for rule in self.rules)
        return self.cased and len(self.text) == 2 and self.text.isalpha() and begins

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
        if not all(rule.pattern for rule in self.rules):
            return True
        begins = [(rule.pattern, place - offset) for rule in self.rules for offset in rule.offsets if place >= offset]
        return any(_may_begin(pattern, data, begin) for pattern, begin in begins)


def _may_begin(pattern: str, data: bytes, place: int) -> bool:
    """Whether a token begins there, or may: a colour before it hides where a word begins."""
    return data[place - 1 : place] in _ENDS_COLOUR or _compiled(pattern).match(data, place) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode())  # when it is first needed: most are never


Place = tuple[int, Hint]


class Seen(NamedTuple):
    """What one reading of a text saw."""

    places: list[Place]  # where a hint stands and a secret may be, in no order
    unfit: bool  # it has letters that make a hint of what looks like none
    glued: bool  # a colour may stand within a hint


class _ByPattern:
    """Hints that a pattern has as its group 1; it finds none where a sign is absent."""

    def __init__(self, sign: bytes, pattern: re.Pattern[bytes], hints: Iterable[Hint]) -> None:
        self._sign, self.pattern, self._hints = sign, pattern, {hint.text: hint for hint in hints}

    def places(self, data: bytes) -> Iterator[Place]:
        if self._sign in data:  # a single sign is found at once, or known to be absent
            for found in self.pattern.finditer(data):
                yield found.start(1), self._hints[found[1]]


class _AtBegin:
    """Hints that the text itself begins with."""

    def __init__(self, hints: list[Hint]) -> None:
        self._hints = hints

    def places(self, data: bytes) -> Iterator[Place]:
        return ((0, hint) for hint in self._hints if data.startswith(hint.text))


Spelling = tuple[bytes, Hint, int]  # a text that has a hint in it, and where in it


class _Reader:
    """An automaton for hints as they are spelt, and patterns for others. `glue`: how colours within words look, where
    it knows that; else every colour may be within one."""

    def __init__(self, spelt: list[Spelling], others: list[_ByPattern | _AtBegin], glue: Iterable[bytes] = ()) -> None:
        self.others, self._spelt, self._knows_glue = others, spelt, bool(glue := [*glue])
        self._unfit, self._glued = len(spelt), len(spelt) + len(_UNFIT)
        texts = [*(text for text, _, _ in spelt), *_UNFIT, *glue]
        self._automaton = BytesAhoCorasick(texts, implementation=Implementation.DFA)

    def read(self, data: bytes) -> Seen:
        found = self._automaton.find_matches_as_indexes(data, overlapping=True)
        places = [*self._places(data, found), *(place for each in self.others for place in each.places(data))]
        unfit = any(self._unfit <= number < self._glued for number, _, _ in found)
        glued = any(number >= self._glued for number, _, _ in found) if self._knows_glue else b"\x1b" in data
        return Seen([(place, hint) for place, hint in places if hint.may_be_at(data, place)], unfit, glued)

    def _places(self, data: bytes, found: list[tuple[int, int, int]]) -> Iterator[Place]:
        for number, place, _ in found:
            if number < self._unfit:
                _, hint, shift = self._spelt[number]
                if hint.is_at(data, place + shift):
                    yield place + shift, hint


class Sieve:
    """The hints of some rules; `without` are those that have none, and look at everything."""

    def __init__(self, rules: tuple[SecretRule, ...]) -> None:
        self.without = tuple(rule for rule in rules if not rule.hints or not all(map(_is_found, rule.hints)))
        near = [rule for rule in rules if rule.close_pattern is not None]
        self._near = [
            _ByPattern(rule.close_sign, rule.close_pattern, _hints([rule])) for rule in near if rule.close_pattern
        ]
        hints = _hints(rule for rule in rules if rule not in self.without and rule not in near)
        self._short = [hint for hint in hints if hint.is_short]
        self._spelt = [(text, hint, 0) for hint in hints if not hint.is_short for text in hint.spellings()]
        own = [rule for rule in rules if rule not in self.without and not rule.close_hints]
        self._glue = [] if any(map(_has_blank, own)) else [*_glue()]
        self._read_bytes = 0

    def read(self, data: bytes) -> Seen:
        self._read_bytes += len(data)
        if self._read_bytes < _PAYS_BYTES:
            return self._small.read(data)
        return (self._coloured if b"\x1b" in data else self._large).read(data)

    @cached_property
    def _small(self) -> _Reader:
        """Soon made. Short hints cost it a reading for each letter they begin with, colours a copy without them."""
        firsts = {hint.text[:1] for hint in self._short}
        return _Reader(self._spelt, [*(_short_ones(first, self._short) for first in firsts), *self._near])

    @cached_property
    def _large(self) -> _Reader:
        """Reads the text once."""
        return _Reader(*self._at_once())

    @cached_property
    def _coloured(self) -> _Reader:
        """Reads the text once, unless a colour stands within a word."""
        return _Reader(*self._at_once(), self._glue)

    def _at_once(self) -> tuple[list[Spelling], list[_ByPattern | _AtBegin]]:
        spelt = [(before + hint.text, hint, len(before)) for hint in self._short for before in _before_words()]
        return [*self._spelt, *spelt], [_AtBegin(self._short), _escaped_ones(self._short), *self._near]

    def readers(self) -> Iterator[_Reader]:
        yield from (self._small, self._large, self._coloured)


@lru_cache(maxsize=8)
def sieve_of(rules: tuple[SecretRule, ...]) -> Sieve:
    """The sieve of these rules; making one takes a while, so it is made once."""
    return Sieve(rules)


def has_any(data: bytes, words: tuple[bytes, ...]) -> bool:
    """Whether one of these words is in the data."""
    return bool(_words(words).find_matches_as_indexes(data))


@lru_cache(maxsize=64)
def _words(words: tuple[bytes, ...]) -> BytesAhoCorasick:
    return BytesAhoCorasick(words, matchkind=MatchKind.LeftmostFirst)  # what comes first: it looks at many at a time


def _is_found(hint: str) -> bool:
    return hint.isascii() and len(hint) > 1


def _has_blank(rule: SecretRule) -> bool:
    """Whether a colour beside a blank may stand within one of its hints."""
    return any(sign <= " " for hint in rule.hints for sign in hint)


def _hints(rules: Iterable[SecretRule]) -> list[Hint]:
    """Every hint once; where large and small letters are alike, in small ones."""
    found: dict[str, list[SecretRule]] = {}
    for rule in rules:
        for hint in rule.close_hints or rule.hints:
            found.setdefault(hint if rule.cased else hint.lower(), []).append(rule)
    for word in [each for each in found if each.islower() and each.isalpha()]:  # `pass` is found with `password`
        within = next((each for each in found if each in word and each != word and each.islower()), None)
        if within is not None:
            found[within] += found.pop(word)
    return [Hint(text.encode(), all(rule.cased for rule in of), tuple(of)) for text, of in found.items()]


def _short_ones(first: bytes, hints: list[Hint]) -> _ByPattern:
    """Those that begin with this letter, with as much after them as a token has."""
    those = [hint for hint in hints if hint.text.startswith(first)]
    seconds = b"".join(hint.text[1:] for hint in those)
    return _ByPattern(first, re.compile(b"(%s[%s])(?=[!-~]{16})" % (first, seconds)), those)


def _escaped_ones(hints: list[Hint]) -> _ByPattern:
    """Those that stand after a percent code."""
    ways = b"|".join(hint.text for hint in hints)
    return _ByPattern(b"%", re.compile(b"%%[0-9A-F][0-9A-F](%s)(?=[!-~]{16})" % ways), hints)


def _before_words() -> Iterator[bytes]:
    """What stands before the begin of a word: no letter or digit, or the end of an escaped sign or a colour."""
    yield from (bytes([sign]) for sign in range(256) if not (sign < 128 and chr(sign).isalnum()))
    yield from (b"\\n", b"\\r", b"\\t", *_ENDS_COLOUR)


def _glue() -> Iterator[bytes]:
    """How a colour looks that has no blank before it and none after it, nor only another colour: what ends colours
    with a sign after it, and what begins one with a sign before it."""
    signs = [bytes([sign]) for sign in range(33, 256)]
    begins = [
        b"1",
        b"2",
        b"3",
        b"4",
        b"5",
        b"6",
        b"7",
        b"8",
        b"9",
        b";",
        b":",
        *(b"0%c" % sign for sign in b"0123456789;:"),
    ]
    yield from (
        b"\x1b[" + zero + end + sign for zero in (b"", b"0") for end in _ENDS_COLOUR for sign in (*signs, b"\x1b")
    )
    yield from (sign + b"\x1b[" + begin for sign in signs for begin in begins)


Span = tuple[int, int]
Read = Callable[[bytes, "tuple[SecretRule, ...]"], list[Span]]

_COLOUR = re.compile(rb"\x1b\[[0-9;:]{0,64}[mK]")


def spans_of_suspects(data: bytes, rules: tuple[SecretRule, ...], read: Read) -> list[Span]:
    """Where `read` finds secrets by these rules, which it is given only what may have some of."""
    sieve = sieve_of(rules)
    seen = sieve.read(data)
    if seen.unfit:
        return read(data, rules)
    lines, near = _suspects(data, seen, sieve)
    if any(rule.many_lines for rule in near):
        return read(data, rules)
    found = read(data, sieve.without) if sieve.without else []
    if not lines:
        return found
    spans = [*found, *_placed(read(b"".join(data[start:stop] for start, stop in lines), near), lines)]
    return [*_merged(sorted(spans))] if found else spans


def _suspects(data: bytes, seen: Seen, sieve: Sieve) -> tuple[list[Span], tuple[SecretRule, ...]]:
    """The lines that have hints, and the rules that they hint at."""
    near = {rule: None for _, hint in seen.places for rule in hint.rules}
    places = [place for place, _ in seen.places]
    if seen.glued:
        plain = _COLOUR.sub(b"", data)
        behind = sieve.read(plain).places
        near |= {rule: None for _, hint in behind for rule in hint.rules}
        places += _in_lines(data, plain, [place for place, _ in behind]) if behind else []
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
