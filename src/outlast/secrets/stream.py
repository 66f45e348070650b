"""Masking what comes in pieces: secrets that look like secrets, in bytes that are printed, wherever they are cut.

Every kind of secret is within one line, but for private keys. So whole lines are let through as they come, and a line
that has not ended is held back: to its end, or as long as more of it may come and make a secret of it. Memory is
bounded: of a line without end only its last part is held, with a little of what came before.

Of much text only the lines are read that may have a secret in them: those with a hint of a rule, and the ones right
after. Looking for one hint after another reads the text a hundred times; all of them are looked for together, by an
automaton that reads it once. Words that ordinary text is full of (`token`, `key`) count only where they may be the name
of a value, two letters that it is full of (`MT`, `ND`) only where a word begins. It finds too much, never too little.

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
from string import ascii_letters, digits
from typing import TYPE_CHECKING

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from outlast.secrets.find import find, hints_of, without_colours
from outlast.secrets.rules import BEGINS, RULES
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.secrets.rules import SecretRule

Span = tuple[int, int]

LINE_BYTES = 64 * 1024  # of a line, or of a private key, that are held back at most
NEAR_BYTES = 16 * 1024  # of a longer one: a secret of this length is seen whole
BEFORE_BYTES = 256  # of what was let through in the same line: the name of a value may be there
LONG_WORD = 16  # characters of a word that may become a token, whatever it begins with
SIEVED_BYTES = 8 * 1024  # from here on it pays to look for hints first
_MASK = b"***"
_SETS_APART = (":", "=", "--")  # a value from its name
_OF_WORDS = f"{ascii_letters}{digits}_+/.~%=:-\x1b[;"  # characters that tokens have, and colours within them
_KEY_BEGINS = b"-----BEGIN "
_OPEN_KEY = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}"
    rb"(?:PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s\\:,.]|-(?!----))*(?:-----[A-Z0-9 ]*-*)?)?\Z"
)


def spans_in(data: bytes, rules: tuple[SecretRule, ...] | None = None) -> Iterator[Span]:
    """Where secrets are in bytes. What is no text is passed over; of much text only lines with a hint are read."""
    rules = rules or RULES
    if len(data) < SIEVED_BYTES:
        return iter(_spans_of(data, rules))
    return iter(spans_of_suspects(data, rules, _spans_of))


def has_any(data: bytes, words: tuple[bytes, ...]) -> bool:
    """Whether one of these words is in the data."""
    if len(data) < SIEVED_BYTES:
        return any(map(data.__contains__, words))
    return bool(_words(words).find_matches_as_indexes(data))


def _spans_of(data: bytes, rules: tuple[SecretRule, ...]) -> list[Span]:
    text = data.decode("utf-8", "surrogateescape")
    if text.isascii():
        return [(found.start, found.end) for found in find(text, rules)]
    spans, seen, at = [], 0, 0
    for found in find(text, rules):
        start = at + len(text[seen : found.start].encode("utf-8", "surrogateescape"))
        at = start + len(text[found.start : found.end].encode("utf-8", "surrogateescape"))
        seen = found.end
        spans.append((start, at))
    return spans


class Masking:
    """Masks a stream as if it came in one piece. `feed` it, say when it pauses, and ask for the `rest`."""

    def __init__(self, rules: tuple[SecretRule, ...]) -> None:
        self.count = 0  # secrets that were masked
        self._rules = rules
        self._held = b""
        self._before = b""  # what was let through of the line that is held
        self._goes_on = False  # a secret began there: what follows is the rest of it

    def feed(self, chunk: bytes) -> bytes:
        """What can be shown now."""
        data = self._held + chunk
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        start = data.rfind(_KEY_BEGINS)
        cut = min(cut, start if start >= 0 and _OPEN_KEY.match(data, start) else len(data))
        if len(data) - cut > LINE_BYTES:
            return self._let_through(data, len(data) - NEAR_BYTES)
        if cut:
            return self._let_through(data, cut)
        self._held = data
        return b""

    def pause(self) -> bytes:
        """What can be shown of a line that has not ended, when nothing comes for a while."""
        if not self._held:
            return b""
        cut = len(self._held) - _open_bytes((self._before + self._held).decode("utf-8", "replace"), self._rules)
        return self._let_through(self._held, cut) if cut > 0 else b""

    def rest(self) -> bytes:
        """What was held back, when nothing more comes."""
        return self._let_through(self._held, len(self._held))

    def _let_through(self, data: bytes, cut: int) -> bytes:
        """The data up to there, masked. A secret that lies across is masked whole; the rest is held."""
        whole = self._before + data
        cut += (shift := len(self._before))
        parts, at, goes_on = [], shift, False
        for start, stop in spans_in(whole if cut < len(whole) else whole[:cut], self._rules):
            if start >= cut or stop <= shift:
                continue
            parts += [whole[at : max(at, start)], *self._mask(start < shift)]
            at, cut = stop, max(cut, stop)
            if stop == len(whole):
                goes_on = True
                before = whole[max(0, start - BEFORE_BYTES) : start + BEFORE_BYTES]
        parts.append(whole[at:cut])
        self._held, self._goes_on = whole[cut:], goes_on
        ended = whole[:cut].endswith((b"\n", b"\r"))
        self._before = before if goes_on else b"" if ended else whole[max(0, cut - BEFORE_BYTES) : cut]
        return b"".join(parts)

    def _mask(self, goes_on: bool) -> list[bytes]:
        """The mask of a secret; nothing when it is the rest of one that was masked before."""
        if goes_on and self._goes_on:
            return []
        self.count += 1
        return [_MASK]


def _open_bytes(line: str, rules: tuple[SecretRule, ...]) -> int:
    """How many bytes at the end of a line have to be seen with what follows: all of it once a value may be secret by
    what stands before it; else a word that may be one, or the beginning of one. A name alone can be shown."""
    hints, lowered = _hints(rules), line.lower()
    has_value = any(map(line.__contains__, _SETS_APART))
    if any(map(line.__contains__, hints.cased)) or (has_value and any(map(lowered.__contains__, hints.other))):
        return len(line.encode())
    end = line[len(line.rstrip(_OF_WORDS)) :]
    if len(end) >= LONG_WORD or any(map(end.__contains__, hints.in_words)):
        return len(end)
    plain = without_colours(line[-160:]).text if "\x1b[" in line else line
    word = plain[len(plain.rstrip(_OF_WORDS)) :]
    return max(_begun(word, hints.in_words), _begun(plain[-80:], hints.cased))


def _begun(end: str, hints: tuple[str, ...]) -> int:
    """How many characters at the end may be the beginning of a hint; a single one counts at the begin of a word."""
    most = min(len(end), max(map(len, hints), default=0))
    ends = (n for n in range(most, 0, -1) if n > 1 or not end[-2:-1].isalnum())
    return next((n for n in ends if any(hint.startswith(end[-n:]) for hint in hints)), 0)


class _HintWords(NamedTuple):
    """What a text has that has a secret in it: just so, in large or small letters, or just so in one word."""

    cased: tuple[str, ...]
    other: tuple[str, ...]
    in_words: tuple[str, ...]


@lru_cache(maxsize=8)
def _hints(rules: tuple[SecretRule, ...]) -> _HintWords:
    cased, other, in_words = (tuple(hint for hint, _ in pairs) for pairs in hints_of(rules)[0])
    return _HintWords((_KEY_BEGINS.decode(), *cased), other, in_words)


# -- the sieve: which lines of much text may have a secret in them -------------------------------------

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
        near = [(rule, pattern) for rule in rules if (pattern := rule.close_pattern) is not None]
        self._near = [_ByPattern(rule.close_sign, pattern, _every_hint([rule])) for rule, pattern in near]
        others = [rule for rule in rules if rule not in self.without and rule.close_pattern is None]
        hints = _every_hint(others)
        self._short = [hint for hint in hints if hint.is_short]
        self._spelt = [(text, hint, 0) for hint in hints if not hint.is_short for text in hint.spellings()]
        own = [rule for rule in rules if rule not in self.without and not rule.close_hints]
        self._glue = [] if any(map(_has_blank, own)) else [*_glue()]
        self._read_bytes = 0

    def read(self, data: bytes) -> Seen:
        self._read_bytes += len(data)
        return (self._small if self._read_bytes < _PAYS_BYTES else self._large).read(data)

    @cached_property
    def _small(self) -> _Reader:
        """Soon made. Short hints cost it a reading for each letter they begin with, colours a copy without them."""
        firsts = {hint.text[:1] for hint in self._short}
        return _Reader(self._spelt, [*(_short_ones(first, self._short) for first in firsts), *self._near])

    @cached_property
    def _large(self) -> _Reader:
        """Reads the text once, unless a colour stands within a word."""
        spelt = [(before + hint.text, hint, len(before)) for hint in self._short for before in _before_words()]
        others: list[_ByPattern | _AtBegin] = [_AtBegin(self._short), _escaped_ones(self._short), *self._near]
        return _Reader([*self._spelt, *spelt], others, self._glue)

    def readers(self) -> Iterator[_Reader]:
        yield from (self._small, self._large)


@lru_cache(maxsize=8)
def sieve_of(rules: tuple[SecretRule, ...]) -> Sieve:
    """The sieve of these rules; making one takes a while, so it is made once."""
    return Sieve(rules)


@lru_cache(maxsize=64)
def _words(words: tuple[bytes, ...]) -> BytesAhoCorasick:
    return BytesAhoCorasick(words, matchkind=MatchKind.LeftmostFirst)  # what comes first: it looks at many at a time


def _is_found(hint: str) -> bool:
    return hint.isascii() and len(hint) > 1


def _has_blank(rule: SecretRule) -> bool:
    """Whether a colour beside a blank may stand within one of its hints."""
    return any(sign <= " " for hint in rule.hints for sign in hint)


def _every_hint(rules: Iterable[SecretRule]) -> list[Hint]:
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
    begins = [*(b"%c" % sign for sign in b"123456789;:"), *(b"0%c" % sign for sign in b"0123456789;:")]
    for end in (zero + end for zero in (b"", b"0") for end in _ENDS_COLOUR):
        yield from (b"\x1b[" + end + sign for sign in (*signs, b"\x1b"))
    yield from (sign + b"\x1b[" + begin for sign in signs for begin in begins)


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
    return _merged(sorted(spans)) if found else spans


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


def _merged(spans: list[Span]) -> list[Span]:
    """Those that overlap are one."""
    merged: list[Span] = []
    for start, stop in spans:
        if merged and start < merged[-1][1]:
            before = merged.pop()
            start, stop = before[0], max(before[1], stop)
        merged.append((start, stop))
    return merged
