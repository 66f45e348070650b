"""Why: what bears on a ref, as a tree with how each part of it stands; and what that says against going on.

Against a run or a handoff speak refs that do not stand any more, and content that is not what was saved. How a ref
stands is pure, from the links around it and around what it rests on:

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from shlex import quote
from typing import TYPE_CHECKING

from msgspec import Struct, field

from outlast.errors import OutlastError, ValueRefused
from outlast.ledger.verdict import Reason
from outlast.store.blobs.content import content
from outlast.store.contract import Reading, RunRow
from outlast.store.contract.workspace import ArtifactRow, LinkRow
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple
from outlast.workspace import refs
from outlast.workspace.artifact import ref_of, taken_of
from outlast.workspace.link import into, out_of
from outlast.workspace.refs import parse_ref, whole

if TYPE_CHECKING:
    from outlast.home.home import Home

DEPTH = 20
NODES = 1_000
REASONS = 20  # of one ref that the text shows
STANDS, CONTESTED, SUPERSEDED = "stands", "contested", "superseded"
RESTS_OUT, RESTS_IN = ("derived_from", "produced_by"), ("supports",)
LINKS = 10_000  # how many are followed before it is said that they were not all
DEEPEST = 100
BEAR_IN = (*RESTS_IN, "contradicts", "supersedes")
SHOWN = 5
READ_BYTES = 256 << 20  # of content that is read for a verdict; of what is larger only that it is there
_ALL = 1 << 40
WORDS = {  # what a child is to its parent, as it is read on the parent's line
    ("derived_from", "out"): "derived from",
    ("produced_by", "out"): "produced by",
    ("supports", "in"): "supported by",
    ("contradicts", "in"): "contradicted by",
    ("supersedes", "in"): "superseded by",
    ("refers_to", "out"): "refers to",
}


class Branch(Struct, frozen=True):
    """What bears on a ref: by which relation, and whether the link goes out from it or comes in."""

    relation: str  # of links; refers_to: it names it
    direction: str  # out, in
    note: str
    of: Why


class Why(Struct, frozen=True):
    """A ref, what it is, how it stands, and what bears on it."""

    ref: str
    kind: str  # artifact, observation, decision, evidence, note, checkpoint, handoff, run
    says: str  # in a line
    standing: str  # stands, contested, superseded
    reasons: tuple[str, ...] = ()
    children: tuple[Branch, ...] = ()
    seen: bool = False  # it is shown elsewhere in the tree with what bears on it
    cut: int = 0  # so many of its children are not shown: the limit of depth or size was reached

    @property
    def stands(self) -> bool:
        return self.standing == STANDS

    @property
    def left_out(self) -> int:
        """How much is not shown in the whole tree."""
        return self.cut + sum(branch.of.left_out for branch in self.children)

    def __str__(self) -> str:
        return "\n".join(_lines(self, "", ""))


def _lines(why: Why, label: str, indent: str) -> Iterator[str]:
    state = "" if why.stands else f" [{why.standing}]"
    says = f": {why.says}" if why.says else ""
    yield f"{indent}{label}{why.ref}{state} ({why.kind}){says}{' (see above)' if why.seen and why.cut == 0 else ''}"
    if not why.seen:
        yield from (f"{indent}  ! {reason}" for reason in why.reasons[:REASONS])
        if (more := len(why.reasons) - REASONS) > 0:
            yield f"{indent}  ! and {more:,} more reasons; --json has all of them"
    for branch in why.children:
        note = f" [{branch.note}]" if branch.note else ""
        yield from _lines(branch.of, f"{WORDS[branch.relation, branch.direction]}{note} ", indent + "  ")
    if why.cut:
        # of one that is too wide the same question would give the same answer
        verb = "links" if why.children else "why"
        yield f"{indent}  … {why.cut:,} more not shown; ask for them: outlast workspace {verb} {quote(why.ref)}"


def bearing(look: Reading, ref: str) -> Iterator[LinkRow]:
    """The links that bear on a ref: what it rests on, and what contradicts or supersedes it. Never the others' own."""
    return chain(out_of(look, ref, RESTS_OUT), into(look, ref, BEAR_IN))


def around(look: Reading, but: str = "") -> Around:
    """The same as edges, each ref looked up once; no more than are followed anyway. `but`: none that this run made."""

    @cache
    def edges(ref: str) -> list[Edge]:
        rows = (row for row in bearing(look, ref) if not but or row.run_id != but)
        return [Edge(*row[3:6]) for row in islice(rows, LINKS + 1)]

    return edges


def standings(look: Reading, asked: Iterable[str], but: str = "") -> dict[str, RefStanding]:
    """How each of these refs stands, by all links, or by those that were not made by the run `but`."""
    edges, wanted = around(look, but), list(dict.fromkeys(asked))
    together = reach(wanted, edges)
    if together.whole:  # far quicker where they rest on the same things
        return {ref: together.standing(ref) for ref in wanted}
    return {ref: reach([ref], edges).standing(ref) for ref in wanted}


# -- why ---------------------------------------------------------------------------------------------


class _Node(Struct):
    """A place in the tree while it grows."""

    ref: str
    depth: int
    children: list[tuple[str, str, str, _Node]] = field(default_factory=list)
    seen: bool = False
    cut: int = 0


def why(home: Home, ref: str, scope: str, depth: int = DEPTH) -> Why:
    """The evidence of a ref, as far as `depth` and 1,000 refs go; what is left out is counted. Raises NotFound."""
    if type(depth) is not int or not 0 <= depth <= DEEPEST:
        raise ValueRefused("depth", f"{depth!r:.100} is no depth", f"give a whole number from 0 to {DEEPEST}")
    return home.store.read(lambda look: _why(look, refs.whole(look, ref, "ref", scope), depth))


def _why(look: Reading, ref: str, depth: int) -> Why:
    root = _Node(ref, 0)
    told = _grown(look, root, depth)
    graph = reach(told, around(look), LINKS * 10)
    found = {each: graph.standing(each) for each in told}
    return _finished(root, told, found)


def _grown(look: Reading, root: _Node, depth: int) -> dict[str, refs.Named]:
    """Let the tree grow evenly: what is nearest is never left out for what is far. Gives what each ref in it is."""
    told, left, count = {root.ref: refs.named(look, root.ref)}, deque([root]), 1
    while left:
        node = left.popleft()
        for relation, direction, note, ref in _children(look, node.ref, told[node.ref]):
            if node.depth >= depth or count >= NODES:
                node.cut += 1
                continue
            child, count = _Node(ref, node.depth + 1, seen=ref in told), count + 1
            node.children.append((relation, direction, note, child))
            if not child.seen:
                told[ref] = refs.named(look, ref)
                left.append(child)
    return told


def _children(look: Reading, ref: str, named: refs.Named) -> Iterator[tuple[str, str, str, str]]:
    """What bears on a ref by links, then what it names itself."""
    linked: set[str] = set()
    for row in islice(bearing(look, ref), LINKS):
        out = row.source == ref
        other = row.target if out else row.source
        linked.add(other)
        yield row.relation, "out" if out else "in", row.note, other
    for other in named.refs:
        if other not in linked:
            yield "refers_to", "out", "", other


def _finished(node: _Node, told: dict[str, refs.Named], found: dict[str, RefStanding]) -> Why:
    named, standing = told[node.ref], found[node.ref]
    return Why(
        ref=node.ref,
        kind=named.kind,
        says=named.says,
        standing=standing.state,
        reasons=tuple(map(str, standing.causes)),
        children=tuple(Branch(rel, way, note, _finished(of, told, found)) for rel, way, note, of in node.children),
        seen=node.seen,
        cut=node.cut,
    )


def against_run(home: Home, run: RunRow) -> list[Reason]:
    """What bears on resuming a run: how it, what it saved and what its checkpoints refer to stand now.

    What the run itself linked it knows; only what others say counts.
    """
    refs, fallen = home.store.read(lambda look: _of_run(look, run))
    accept = f"outlast resume {run.id} --accept {{}} --why WHY"
    found, code = list[Reason](), "evidence_contradicted"
    for ref, why in fallen.items():
        advice = f"outlast workspace why {quote(ref)}; or accept it: {accept.format(quote(f'{code}:{ref}'))}"
        found.append(Reason(code, ref, "stands", why, advice))
    for code, ref, why in spoilt(home, refs):
        advice = f"restore its content from a copy; or accept it: {accept.format(quote(f'{code}:{ref}'))}"
        found.append(Reason(code, ref, "what was saved", why, advice))
    return found


def is_here(look: Reading, ref: str) -> bool:
    try:
        return whole(look, ref, "refs", "") == ref
    except OutlastError:
        return False


def _of_run(look: Reading, run: RunRow) -> tuple[list[str], dict[str, str]]:
    pinned = [ref for row in look.checkpoints_of_run(run.id, 0, _ALL) for ref in decode(row.refs)]
    refs = [*dict.fromkeys([*pinned, *(ref_of(row) for row in look.artifacts_of_run(run.id, 0, _ALL))])]
    return refs, fallen(look, [f"run:{run.id}", *refs], but=run.id)


def fallen(look: Reading, refs: Iterable[str], but: str = "") -> dict[str, str]:
    """The refs of these that do not stand, and why. `but`: links that this run made do not count."""
    if not look.links_after(0, 1):
        return {}
    found = standings(look, refs, but)
    return {ref: told(standing) for ref, standing in found.items() if not standing.stands}


def told(standing: RefStanding) -> str:
    """Why something does not stand, in a line; what is left out is counted."""
    causes = [str(cause) for cause in standing.causes]
    more = f"; and {len(causes) - SHOWN} more" if len(causes) > SHOWN else ""
    return "; ".join(causes[:SHOWN]) + more


def spoilt(home: Home, refs: Sequence[str]) -> list[tuple[str, str, str]]:
    """The artifacts of these whose content is missing or was changed: the code of that, the ref, and why.

    The smallest are read first, 256 MiB in all.
    """
    if not any(ref.startswith("artifact:") for ref in refs):
        return []
    places = [place for ref in refs if (place := parse_ref(ref))]
    rows = home.store.read(lambda look: [row for place in places if (row := look.artifact_at(*place))])
    left, found = READ_BYTES, list[tuple[str, str, str]]()
    for row in sorted(rows, key=lambda row: (row.size, row.key)):
        left -= row.size
        code, why = _wrong(home, row, read=left >= 0)
        if code:
            found.append((code, ref_of(row), why))
    return found


def _wrong(home: Home, row: ArtifactRow, *, read: bool) -> tuple[str, str]:
    """What is wrong with an artifact's content; nothing when it is as it was saved, as far as was looked."""
    if not home.blobs.has(row.blob):
        return "artifact_missing", "nothing"
    if read:
        try:
            deque(content(home.blobs, taken_of(row), ref_of(row)), maxlen=0)
        except OutlastError as error:
            return "artifact_corrupt", str(error.facts.get("why", error))
    return "", ""


# -- how a ref stands --------------------------------------------------------------------------------


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
    seen = set(left)

    @cache
    def edges(ref: str) -> list[Edge]:
        nonlocal followed
        found = list(around(ref))
        followed += len(found)
        return found

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
