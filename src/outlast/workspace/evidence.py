"""Evidence: how a ref stands, from the links around it and around what it rests on. Pure.

- B is *superseded* if anything supersedes it.
- B is *contested* if something contradicts it that is not itself superseded: whoever takes a contradiction back
  supersedes what made it.
- X *rests on* Y if X is derived from Y, was produced by Y, or Y supports X. X is contested as well if anything that it
  rests on is contested or superseded, however many steps away. What X itself supersedes does not weigh on it: a
  correction is derived from what it corrects.

Everything else stands. Circles of links end: nothing is contested by resting on itself alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from outlast.values.frozen import NamedTuple

STANDS, CONTESTED, SUPERSEDED = "stands", "contested", "superseded"
RESTS_OUT, RESTS_IN = ("derived_from", "produced_by"), ("supports",)
LINKS = 10_000  # how many are followed before it is said that they were not all


class Edge(NamedTuple):
    """A link, for what it means."""

    source: str
    relation: str
    target: str


class Cause(NamedTuple):
    """Why something does not stand: `ref`, itself or what it rests on, was contradicted or superseded by `by`.

    `through` are the refs on the shortest way to `ref`, the nearest first. `too_far`: not all links were followed.
    """

    what: str  # contradicted, superseded, too_far
    ref: str
    by: str
    through: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.what == "too_far":
            return f"rests on more than was followed ({LINKS:,} links)"
        told = f"{self.what} by {self.by}"
        return f"rests on {self._shown_way()}, {told}" if self.through else told

    def _shown_way(self) -> str:
        if len(self.through) <= 3:
            return " on ".join(self.through)
        return f"{self.through[0]}, {len(self.through) - 1} steps above {self.through[-1]}"


class RefStanding(Struct, frozen=True):
    """How a ref stands, and why if it does not stand."""

    state: str = STANDS  # stands, contested, superseded
    causes: tuple[Cause, ...] = ()

    @property
    def stands(self) -> bool:
        return self.state == STANDS

    def __str__(self) -> str:
        return f"{self.state}: {'; '.join(map(str, self.causes))}" if self.causes else self.state


Around = Callable[[str], Iterable[Edge]]  # the links that bear on a ref: what it rests on, contradicts or replaces it


class Graph:
    """What was found around some refs: enough to tell how each of them stands."""

    def __init__(self) -> None:
        self.rests: dict[str, tuple[str, ...]] = {}  # in the order of their names
        self.hits: dict[str, tuple[Cause, ...]] = {}
        self.whole = True  # every link that bears on them was followed
        self._next: dict[str, str] | None = None

    def standing(self, ref: str) -> RefStanding:
        """How a ref stands that the graph was made for, or that one of them rests on."""
        causes = (*self.hits.get(ref, ()), *self._inherited(ref))
        if not self.whole:
            causes = (*causes, Cause("too_far", ref, ""))
        if not causes:
            return RefStanding()
        superseded = any(cause.what == "superseded" and not cause.through for cause in causes)
        return RefStanding(SUPERSEDED if superseded else CONTESTED, causes)

    def _inherited(self, ref: str) -> Iterator[Cause]:
        """For each thing that it rests on and that does not stand: the nearest cause, unless that is its own."""
        for under in self.rests.get(ref, ()):
            way = self._way(under)
            if way and ref not in way:
                yield self.hits[way[-1]][0]._replace(through=way)

    def _way(self, ref: str) -> tuple[str, ...]:
        """From a ref to the nearest one below it that was hit, both included; nothing when it stands."""
        following = self._ways()
        if ref not in following:
            return ()
        way = [ref]
        while (further := following[way[-1]]) != way[-1]:
            way.append(further)
        return tuple(way)

    def _ways(self) -> dict[str, str]:
        """From each ref that does not stand one step towards the nearest that was hit; those lead to themselves."""
        if self._next is None:
            above: dict[str, list[str]] = {}
            for ref in sorted(self.rests):
                for under in self.rests[ref]:
                    above.setdefault(under, []).append(ref)
            hit = [ref for ref in sorted(self.hits) if self.hits[ref]]
            self._next, left = dict(zip(hit, hit, strict=True)), deque(hit)
            while left:
                under = left.popleft()
                fresh = [ref for ref in above.get(under, ()) if ref not in self._next]
                self._next.update(dict.fromkeys(fresh, under))
                left.extend(fresh)
        return self._next


def reach(refs: Iterable[str], around: Around, limit: int = LINKS) -> Graph:
    """Follow what these refs rest on, as far as it goes, and what contradicts or supersedes any of it."""
    graph, left, followed = Graph(), deque(dict.fromkeys(refs)), 0
    seen, known = set(left), dict[str, list[Edge]]()

    def edges(ref: str) -> list[Edge]:
        nonlocal followed
        if ref not in known:
            known[ref] = list(around(ref))
            followed += len(known[ref])
        return known[ref]

    while left and followed <= limit:
        ref = left.popleft()
        graph.rests[ref] = _rests(ref, edges(ref), edges)
        graph.hits[ref] = tuple(_hits(ref, edges(ref), edges))
        fresh = [under for under in graph.rests[ref] if under not in seen]
        seen.update(fresh)
        left.extend(fresh)
    graph.whole = not left and followed <= limit
    return graph


def _rests(ref: str, edges: list[Edge], edges_of: Callable[[str], list[Edge]]) -> tuple[str, ...]:
    """What it rests on, but for what it supersedes itself."""
    out = {edge.target for edge in edges if edge.source == ref and edge.relation in RESTS_OUT}
    under = out | {edge.source for edge in edges if edge.target == ref and edge.relation in RESTS_IN}
    under.discard(ref)
    replaced = {one for one in under if Edge(ref, "supersedes", one) in edges_of(one)}
    return tuple(sorted(under - replaced))


def _hits(ref: str, edges: list[Edge], edges_of: Callable[[str], list[Edge]]) -> Iterator[Cause]:
    """What contradicts or supersedes it directly, in the order of their names, superseded first."""
    for by in sorted(edge.source for edge in edges if edge.target == ref and edge.relation == "supersedes"):
        yield Cause("superseded", ref, by)
    for by in sorted(edge.source for edge in edges if edge.target == ref and edge.relation == "contradicts"):
        if not any(edge.target == by and edge.relation == "supersedes" for edge in edges_of(by)):
            yield Cause("contradicted", ref, by)
