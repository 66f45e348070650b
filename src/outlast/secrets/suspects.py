"""Of much text, the lines that may have a secret in them: those with a hint, and the ones right after. Pure.

Every kind of secret is within a line, or in two where a value may stand under its name; private keys, which have many,
are not looked for this way. What is left of a text is small as a rule, and is read as any other.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from outlast.secrets.sieve import Sieve, sieve_of

if TYPE_CHECKING:
    from outlast.secrets.rules import Rule

Span = tuple[int, int]
Read = Callable[[bytes, "tuple[Rule, ...]"], list[Span]]

_COLOUR = re.compile(rb"\x1b\[[0-9;:]{0,64}[mK]")


def spans_of_suspects(data: bytes, rules: tuple[Rule, ...], read: Read) -> list[Span]:
    """Where `read` finds secrets by these rules, which it is given only what may have some of."""
    sieve = sieve_of(rules)
    found = read(data, sieve.without) if sieve.without else []
    lines, near = _suspects(data, sieve)
    if not lines:
        return found
    spans = [*found, *_placed(read(b"".join(data[start:stop] for start, stop in lines), near), lines)]
    return [*_merged(sorted(spans))] if found else spans


def _suspects(data: bytes, sieve: Sieve) -> tuple[list[Span], tuple[Rule, ...]]:
    """The lines that have hints, and the rules that they hint at."""
    hints = [*sieve.places(data)]
    near = {rule: None for _, hint in hints for rule in hint.rules}
    places = [place for place, _ in hints]
    if b"\x1b[" in data:  # a colour may stand within a hint
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
