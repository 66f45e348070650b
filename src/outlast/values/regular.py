"""Whether some text makes a regular expression slow: told from its parts, before any text is seen. Pure.

Python tries one way after another. That is linear, unless two parts without an end can share the same characters and
something behind them may fail: then every split between the two is tried. A search begins anew at every character, so
it counts as such a part in front. What is told here is on the safe side: some patterns that are quick are named too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from outlast.values.frozen import NamedTuple

_parser: Any = import_module("re._parser")
BOUNDED = 1000  # a repeat of at most so many is no part without an end

Letters = frozenset[int]
Item = tuple[Any, Any]
Items = Sequence[Item]
_ALL: Letters = frozenset([*range(0x180), 0x301, 0x2028, 0x3002, 0x4E00, 0xAC00, 0x1F600])  # one of each kind will do
_REPEATS = (_parser.MAX_REPEAT, _parser.MIN_REPEAT, _parser.POSSESSIVE_REPEAT)
_ASSERTS = (_parser.ASSERT, _parser.ASSERT_NOT)
_CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
_ANYTHING: Item = (_parser.MAX_REPEAT, (0, _parser.MAXREPEAT, [(_parser.ANY, None)]))


class _Way(NamedTuple):
    """What stands in front of and behind a part of a pattern."""

    before: tuple[Item, ...]
    after: tuple[Item, ...]
    in_loop: bool = False
    atomic: bool = False


def slow_part(pattern: str | bytes, flags: int = 0, *, search: bool = True, whole: bool = False) -> str:
    """What could make a pattern take more than its text's length, in words; "" when nothing does.

    `search`: it is looked for anywhere in the text. `whole`: it has to fit to the text's end.
    """
    parsed = _parser.parse(pattern, flags)
    look = _Look(parsed.state.flags)
    front = (_ANYTHING,) if search else ()
    behind: tuple[Item, ...] = ((_parser.AT, _parser.AT_END_STRING),) if whole else ()
    return next(look.mistakes(list(parsed), _Way(front, behind)), "")


def _parts(sign: Any, inner: Any) -> list[Items]:
    """What a group, a choice or a repeat is made of. Nothing gives back what an atomic group took."""
    if sign is _parser.SUBPATTERN:
        return [list(inner[3])]
    if sign is _parser.BRANCH:
        return [list(choice) for choice in inner[1]]
    return [list(inner[2])] if sign in (_parser.MAX_REPEAT, _parser.MIN_REPEAT) else []


class _Look:
    def __init__(self, flags: int) -> None:
        self._flags = flags

    def mistakes(self, items: Items, way: _Way) -> Iterator[str]:
        """Every part that shares its characters with one behind it."""
        for at, (sign, inner) in enumerate(items):
            here = way._replace(before=(*way.before, *items[:at]), after=(*items[at + 1 :], *way.after))
            if sign in _REPEATS:
                yield from self._of_repeat((sign, inner), here)
            elif sign is _parser.BRANCH:
                yield from self._of_choice(inner[1], here)
            elif sign in _ASSERTS:
                yield from self.mistakes(inner[1], here._replace(after=((_parser.FAILURE, None),), in_loop=False))
            elif sign is _parser.ATOMIC_GROUP:
                yield from self.mistakes(inner, here._replace(atomic=True))
            elif sign is _parser.SUBPATTERN:
                yield from self.mistakes(inner[3], here)

    def _of_repeat(self, item: Item, way: _Way) -> Iterator[str]:
        least, most, body = item[1]
        endless = most > BOUNDED
        if endless and self._may_fail(way.after):
            yield from self._sharing(way.before, (), self._letters(body), list(body))
        if endless and len(body) == 1 and body[0][0] in _REPEATS and item[0] is not _parser.POSSESSIVE_REPEAT:
            yield "a repeat of a repeat"
        if way.in_loop and most > least and not way.atomic and item[0] is not _parser.POSSESSIVE_REPEAT:
            follows = self._first(way.after)[0] if self._may_fail(way.after) else frozenset()
            if self._first(list(body))[0] & follows:
                yield "inside a repeat, one that can end in several places"
        again = (item, *way.after) if most > 1 else way.after
        loops = (way.in_loop or most > 1) and not way.atomic
        inner = way._replace(after=again, in_loop=loops, atomic=way.atomic or item[0] is _parser.POSSESSIVE_REPEAT)
        yield from self.mistakes(list(body), inner)

    def _of_choice(self, choices: Sequence[Any], way: _Way) -> Iterator[str]:
        firsts = [self._first([*choice, *way.after])[0] for choice in choices]
        shared = any(one & two for at, one in enumerate(firsts) for two in firsts[at + 1 :])
        if way.in_loop and shared and not way.atomic and self._endless_around(way):
            yield "inside a repeat, choices that begin with the same character"
        for choice in choices:
            yield from self.mistakes(list(choice), way)

    def _endless_around(self, way: _Way) -> bool:
        return any(sign in _REPEATS and inner[1] > BOUNDED for sign, inner in way.after[:1]) or way.in_loop

    def _sharing(self, before: Items, behind: tuple[Item, ...], mine: Letters, body: Items) -> Iterator[str]:
        """An endless repeat in front whose characters, and all between the two, this one can take as well.

        `behind` is what stands between the items in front and this repeat, which takes `body` again and again.
        """
        for at in range(len(before) - 1, -1, -1):
            sign, inner = before[at]
            between = (*before[at + 1 :], *behind)
            if sign in _REPEATS and inner[1] > BOUNDED and sign is not _parser.POSSESSIVE_REPEAT:
                is_start = inner is _ANYTHING[1]
                shares = mine if is_start else mine & self._letters(inner[2])
                around = () if is_start else tuple(inner[2])
                if shares and not self._separates((*around, *between, *body), shares, mine):
                    yield "a search that begins anew in it" if is_start else "two repeats that share characters"
            for part in _parts(sign, inner):
                yield from self._sharing(part, between, mine, body)

    def _separates(self, between: Items, shares: Letters, mine: Letters) -> bool:
        """Whether what stands between two repeats cannot lie within a run of characters that both take."""
        return any(self._is_apart(item, shares, mine) for item in between)

    def _is_apart(self, item: Item, shares: Letters, mine: Letters) -> bool:
        sign, inner = item
        if sign in _REPEATS:
            return inner[0] > 0 and self._separates(list(inner[2]), shares, mine)
        if sign is _parser.SUBPATTERN:
            return self._separates(list(inner[3]), shares, mine)
        if sign is _parser.ATOMIC_GROUP:
            return self._separates(list(inner), shares, mine)
        if sign is _parser.BRANCH:
            return all(self._separates(list(choice), shares, mine) for choice in inner[1])
        if sign is _parser.AT:
            return self._anchors(inner, mine)
        if sign is _parser.ASSERT and inner[0] < 0:
            return self._separates(list(inner[1]), shares, mine)
        if sign is _parser.ASSERT_NOT and inner[0] < 0:
            return len(inner[1]) == 1 and mine <= self._letters(inner[1])
        letters = self._letters([item])
        return bool(letters) and not letters & shares

    def _anchors(self, place: Any, mine: Letters) -> bool:
        """Whether this place is nowhere within a run of these characters."""
        if place in (_parser.AT_BEGINNING, _parser.AT_BEGINNING_STRING):
            in_lines = self._flags & re.MULTILINE and place is _parser.AT_BEGINNING
            return not in_lines or ord("\n") not in mine
        if place is _parser.AT_BOUNDARY:
            words = {one for one in _ALL if re.match(r"\w", chr(one))}
            return mine <= words or not mine & words
        return False

    def _may_fail(self, items: Items) -> bool:
        """Whether what follows can be missing."""
        return any(not self._always_fits(item) for item in items)

    def _always_fits(self, item: Item) -> bool:
        sign, inner = item
        if sign in _REPEATS:
            return inner[0] == 0 or not self._may_fail(list(inner[2]))
        if sign is _parser.BRANCH:
            return any(not self._may_fail(list(choice)) for choice in inner[1])
        if sign is _parser.SUBPATTERN:
            return not self._may_fail(list(inner[3]))
        return sign is _parser.ATOMIC_GROUP and not self._may_fail(list(inner))

    def _first(self, items: Items) -> tuple[Letters, bool]:
        """The characters that this may begin with, and whether it may be empty."""
        found: Letters = frozenset()
        for sign, inner in items:
            some, empty = self._first_of(sign, inner)
            found |= some
            if not empty:
                return found, False
        return found, True

    def _first_of(self, sign: Any, inner: Any) -> tuple[Letters, bool]:
        if sign in _REPEATS:
            some, empty = self._first(list(inner[2]))
            return some, empty or inner[0] == 0
        if sign is _parser.BRANCH:
            each = [self._first(list(choice)) for choice in inner[1]]
            return frozenset[int]().union(*(some for some, _ in each)), any(empty for _, empty in each)
        if sign is _parser.SUBPATTERN:
            return self._first(list(inner[3]))
        if sign is _parser.ATOMIC_GROUP:
            return self._first(list(inner))
        if sign is _parser.AT or sign in _ASSERTS:
            return frozenset(), True
        return self._letters([(sign, inner)]), False

    def _letters(self, items: Any) -> Letters:
        """Every character that may be in what this matches."""
        found: Letters = frozenset()
        for sign, inner in items:
            found |= self._letters_of(sign, inner)
        return found

    def _letters_of(self, sign: Any, inner: Any) -> Letters:
        if sign in _REPEATS:
            return self._letters(inner[2])
        if sign is _parser.BRANCH:
            return frozenset[int]().union(*map(self._letters, inner[1]))
        if sign is _parser.SUBPATTERN:
            return self._letters(inner[3])
        if sign is _parser.ATOMIC_GROUP:
            return self._letters(inner)
        if sign is _parser.AT or sign in _ASSERTS or sign is _parser.FAILURE:
            return frozenset()
        return self._characters(sign, inner)

    def _characters(self, sign: Any, inner: Any) -> Letters:
        if sign is _parser.LITERAL:
            return self._cased({inner})
        if sign is _parser.NOT_LITERAL:
            return _ALL - self._cased({inner})
        if sign is _parser.ANY:
            return _ALL if self._flags & re.DOTALL else _ALL - {10}
        if sign is not _parser.IN:
            return _ALL  # a reference to a group, and what is not known here
        negated = inner[0][0] is _parser.NEGATE
        found = frozenset[int]().union(*(self._of_set(*each) for each in inner[negated:]))
        return _ALL - found if negated else found

    def _of_set(self, sign: Any, inner: Any) -> Letters:
        if sign is _parser.LITERAL:
            return self._cased({inner})
        if sign is _parser.RANGE:
            return self._cased({one for one in _ALL if inner[0] <= one <= inner[1]} | {inner[0]})
        _, _, name = str(inner).rpartition("CATEGORY_")
        pattern = re.compile(_CATEGORIES[name.removeprefix("NOT_")])
        found = frozenset(one for one in _ALL if pattern.match(chr(one)))
        return _ALL - found if name.startswith("NOT_") else found

    def _cased(self, letters: set[int]) -> Letters:
        if not self._flags & re.IGNORECASE:
            return frozenset(letters)
        both = {ord(each) for one in letters for each in (chr(one).lower(), chr(one).upper()) if len(each) == 1}
        return frozenset(letters | both)
