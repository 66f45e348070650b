"""The difference of two texts, line by line, as unified hunks. Pure, and never slow, whatever the texts are.

Lines that are unique in both texts are matched first and what lies between them is compared on its own. Where that
would take too long the lines are shown as replaced whole: a longer difference, never a wrong or a shortened one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher

from outlast.values.frozen import NamedTuple

CONTEXT_LINES = 3
_WORK = 4_000_000  # comparisons, about a second
_UNENDED = "\\ No newline at end of file\n"


class _Span(NamedTuple):
    """Lines of both texts that are to be compared with each other."""

    old: int
    old_end: int
    new: int
    new_end: int


def unified(before: str, after: str, was: str, now: str) -> str:
    """The hunks that make `before` into `after`, under the two names; "" when only line ends differ."""
    old, new = _lines(before), _lines(after)
    hunks = list(_Matched(old, new).get_grouped_opcodes(CONTEXT_LINES))
    parts = [part for hunk in hunks for part in _hunk(hunk, old, new)]
    return "".join([f"--- {was}\n+++ {now}\n", *parts]) if parts else ""


def _lines(text: str) -> list[str]:
    """Lines with their ends, LF for CR LF. Only LF ends a line: a form feed is content."""
    lines = [f"{line}\n" for line in text.replace("\r\n", "\n").split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _hunk(hunk: Sequence[tuple[str, int, int, int, int]], old: list[str], new: list[str]) -> Iterator[str]:
    (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = hunk[0], hunk[-1]
    yield f"@@ -{_place(old_from, old_to)} +{_place(new_from, new_to)} @@\n"
    for kind, a, a_end, b, b_end in hunk:
        if kind == "equal":
            yield from (_shown(" ", line) for line in old[a:a_end])
            continue
        yield from (_shown("-", line) for line in old[a:a_end])
        yield from (_shown("+", line) for line in new[b:b_end])


def _place(start: int, end: int) -> str:
    """As `diff` counts: from one, and the line before when there is none."""
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


def _shown(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_UNENDED}"


# -- which lines belong together ---------------------------------------------------------------------


class _Matched(SequenceMatcher[str]):
    """The library's hunks on our own matches: its search takes minutes where every second line changed."""

    def __init__(self, old: list[str], new: list[str]) -> None:
        super().__init__(None, (), ())
        self.old, self.new = old, new

    def get_matching_blocks(self) -> list[Match]:
        runs: list[Match] = []
        for old, new, size in sorted(_runs(self.old, self.new)):
            if runs and runs[-1].a + runs[-1].size == old and runs[-1].b + runs[-1].size == new:
                runs[-1] = Match(runs[-1].a, runs[-1].b, runs[-1].size + size)
            else:
                runs.append(Match(old, new, size))
        return [*runs, Match(len(self.old), len(self.new), 0)]


def _runs(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int]]:
    """Equal runs of lines, in no order: where each begins in both, and how long it is."""
    todo, room = [_Span(0, len(old), 0, len(new))], _WORK
    while todo:
        whole = todo.pop()
        span = _trimmed(whole, old, new)
        yield from _ends(whole, span)
        lines_old, lines_new = old[span.old : span.old_end], new[span.new : span.new_end]
        room -= len(lines_old) + len(lines_new)
        if not lines_old or not lines_new or room < 0:
            continue
        if anchors := _anchors(lines_old, lines_new):
            todo += _between(span, anchors)
        elif (room := room - len(lines_old) * len(lines_new)) >= 0:
            found = SequenceMatcher(None, lines_old, lines_new).get_matching_blocks()
            yield from ((span.old + run.a, span.new + run.b, run.size) for run in found if run.size)


def _trimmed(span: _Span, old: list[str], new: list[str]) -> _Span:
    """The span without the lines that both begin or end with."""
    a, a_end, b, b_end = span
    while a < a_end and b < b_end and old[a] == new[b]:
        a, b = a + 1, b + 1
    while a < a_end and b < b_end and old[a_end - 1] == new[b_end - 1]:
        a_end, b_end = a_end - 1, b_end - 1
    return _Span(a, a_end, b, b_end)


def _ends(whole: _Span, inner: _Span) -> Iterator[tuple[int, int, int]]:
    if inner.old > whole.old:
        yield whole.old, whole.new, inner.old - whole.old
    if inner.old_end < whole.old_end:
        yield inner.old_end, inner.new_end, whole.old_end - inner.old_end


def _anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """The longest series of lines, each only once in both, that are in the same order in both."""
    once = {line for line, count in Counter(new).items() if count == 1}
    once &= {line for line, count in Counter(old).items() if count == 1}
    places = {line: at for at, line in enumerate(new) if line in once}
    return _rising([(at, places[line]) for at, line in enumerate(old) if line in once])


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of the pairs in which the second number rises too."""
    tails: list[int] = []  # the smallest last number of a series of each length, and which pair that is
    last: list[int] = []
    before: list[int] = []  # of each pair, the one that it follows
    for at, (_, place) in enumerate(pairs):
        length = bisect_left(tails, place)
        before.append(last[length - 1] if length else -1)
        tails[length : length + 1], last[length : length + 1] = [place], [at]
    series, at = [], last[-1] if last else -1
    while at >= 0:
        series.append(pairs[at])
        at = before[at]
    return series[::-1]


def _between(span: _Span, anchors: list[tuple[int, int]]) -> list[_Span]:
    """The spans before the first anchor and from each one to the next."""
    starts = [(span.old, span.new), *((span.old + a, span.new + b) for a, b in anchors)]
    stops = [*starts[1:], (span.old_end, span.new_end)]
    return [_Span(a, a_end, b, b_end) for (a, b), (a_end, b_end) in zip(starts, stops, strict=True)]
