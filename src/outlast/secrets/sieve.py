"""A first look at much text at once: where the hints of rules stand. Pure.

Looking for one hint after another reads the text a hundred times. A pattern that begins with one fixed sign is found
at the speed of memory, so hints that share a sign that is rare in ordinary text (`_`, `-`, `K`) are looked for
together, from that sign on; hints that are words are looked for one by one, in small letters. It finds too much, never
too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.secrets.rules import Rule

_RARE = "_-./=~+JKAMNOG"  # the first of these that a hint has is where it is looked for
_ALONE = "_-."  # those that are frequent as well: from there it pays to look ahead, or behind, first
_IN_TOKENS = rb"[A-Za-z0-9._~-]"  # what follows the hint of a token, unless its pattern has one of these signs
_IN_OTHERS = "/%=+"
_AROUND = re.compile(r"\(\?<?[=!][^()]*\)")  # what a pattern looks at and does not read
_MOST = 16  # of it that are looked at
_parser: Any = import_module("re._parser")


class Hint(NamedTuple):
    """What a text has that one of these rules finds something in, and how much of the secret follows it at least."""

    text: bytes
    rules: tuple[Rule, ...]
    follows: int
    patterns: tuple[tuple[re.Pattern[bytes], int], ...]  # of tokens, each with how far before the hint it begins

    def may_be_at(self, data: bytes, place: int) -> bool:
        """Whether a secret may be there: a token is known by its pattern, anything else has to be looked for."""
        for pattern, offset in self.patterns:
            if place >= offset and pattern.match(data, place - offset):
                return True
        return not self.patterns


class _Together:
    """Hints that are looked for in one go, from a sign that they share on. `lowered`: in a text of small letters."""

    def __init__(self, hints: list[Hint], sign: bytes, lowered: bool) -> None:
        self.lowered, self._hints = lowered, hints
        parts = [hint.text.rpartition(sign) for hint in hints]
        self._before = [before for before, _, _ in parts]
        ways = [b"(%s%s)" % (_behind(before + sign), re.escape(after)) for before, _, after in parts]
        self._pattern = re.compile(re.escape(sign) + self._first_look(sign) + b"|".join(ways) + b")")
        self._alike = [[*_alike(parts, before, after)] for before, _, after in parts]

    def _first_look(self, sign: bytes) -> bytes:
        """What is cheap to see and all of them have: one of so many signs before it, and so much after it."""
        depth = min(2, *map(len, self._before), 2)
        classes = [b"[%s]" % re.escape(bytes({each[-at] for each in self._before})) for at in range(depth, 0, -1)]
        behind = b"(?<=%s%s)" % (b"".join(classes), re.escape(sign)) if classes else b""
        follows = min(len(hint.text.rpartition(sign)[2]) + hint.follows for hint in self._hints)
        return b"%s%s(?:" % (behind, b"(?=%s{%d})" % (_IN_TOKENS, follows) if follows else b"")

    def places(self, data: bytes) -> Iterator[tuple[int, Hint]]:
        for found in self._pattern.finditer(data):
            for way in self._alike[(found.lastindex or 1) - 1]:
                place = found.start() - len(self._before[way])
                if data.startswith(self._hints[way].text, place):
                    yield place, self._hints[way]


def _behind(text: bytes) -> bytes:
    return b"(?<=%s)" % re.escape(text) if len(text) > 1 else b""


def _alike(parts: list[tuple[bytes, bytes, bytes]], before: bytes, after: bytes) -> Iterator[int]:
    """Which hints may stand where this one does, it among them: `key-` where `tskey-` is."""
    for way, (other, _, rest) in enumerate(parts):
        ends = other.endswith(before) or before.endswith(other)
        if ends and (rest.startswith(after) or after.startswith(rest)):
            yield way


class Sieve:
    """The hints of some rules; `without` are those that have none, and look at everything."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.without = tuple(rule for rule in rules if not rule.hints or not all(map(_is_found, rule.hints)))
        signed: dict[tuple[bytes, object], list[Hint]] = {}
        words: list[Hint] = []
        for hint in _hints(rule for rule in rules if rule not in self.without):
            sign = next((each.encode() for each in _RARE if each.encode() in hint.text), b"")
            alike = (sign, sign.decode() in _ALONE and (hint.text.endswith(sign), hint.follows > 0))
            (signed.setdefault(alike, []) if sign else words).append(hint)
        self._groups = [_Together(hints, sign, lowered=False) for (sign, _), hints in signed.items()]
        self._groups += [_Together([hint], hint.text, lowered=True) for hint in words]

    def places(self, data: bytes) -> Iterator[tuple[int, Hint]]:
        """Where a hint stands and a secret may be, in no order."""
        lowered = data.lower()
        for group in self._groups:
            for place, hint in group.places(lowered if group.lowered else data):
                if hint.may_be_at(data, place):
                    yield place, hint


@lru_cache(maxsize=8)
def sieve_of(rules: tuple[Rule, ...]) -> Sieve:
    """The sieve of these rules; making one takes a while, so it is made once."""
    return Sieve(rules)


def _is_found(hint: str) -> bool:
    return hint.isascii() and len(hint) > 1


def _hints(rules: Iterable[Rule]) -> list[Hint]:
    """Every hint once; where large and small letters are alike, in small ones."""
    found: dict[str, list[Rule]] = {}
    for rule in rules:
        for hint in rule.hints:
            found.setdefault(hint if rule.cased else hint.lower(), []).append(rule)
    for word in [each for each in found if each.islower() and each.isalpha()]:  # `pass` is found with `password`
        within = next((each for each in found if each in word and each != word and each.islower()), None)
        if within is not None:
            found[within] += found.pop(word)
    return [_hint(text, tuple(of)) for text, of in found.items()]


def _hint(text: str, rules: tuple[Rule, ...]) -> Hint:
    follows = min(_follows(rule, text) for rule in rules)
    known = all(rule.pattern for rule in rules)
    patterns = [(re.compile(rule.pattern.encode()), offset) for rule in rules for offset in rule.offsets if known]
    return Hint(text.encode(), rules, follows, tuple(patterns))


def _follows(rule: Rule, hint: str) -> int:
    """How many characters of a secret come after a hint, at least."""
    read = _AROUND.sub("", rule.pattern)
    if not read or any(map(read.__contains__, _IN_OTHERS)):
        return 0
    least = int(_parser.parse(rule.pattern).getwidth()[0]) - max(rule.offsets) - len(hint)
    return max(0, min(least, _MOST))
