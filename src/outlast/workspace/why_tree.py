"""What bears on a ref: how it stands, and why, as a tree. The rules are workspace/evidence.py."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from outlast.errors import ValueRefused
from outlast.store.contract import Reading
from outlast.store.contract.records import LinkRow
from outlast.workspace import refs
from outlast.workspace.evidence import LINKS, RESTS_IN, RESTS_OUT, Around, Edge, Standing, reach
from outlast.workspace.links import into, out_of
from outlast.workspace.why import DEPTH, NODES, Branch, Why, reasons_of

if TYPE_CHECKING:
    from outlast.home.home import Runtime

DEEPEST = 100
BEAR_IN = (*RESTS_IN, "contradicts", "supersedes")


def bearing(look: Reading, ref: str) -> Iterator[LinkRow]:
    """The links that bear on a ref: what it rests on, and what contradicts or supersedes it. Never the others' own."""
    return chain(out_of(look, ref, RESTS_OUT), into(look, ref, BEAR_IN))


def around(look: Reading, but: str = "") -> Around:
    """The same as edges, each ref looked up once; no more than are followed anyway. `but`: none that this run made."""
    known: dict[str, list[Edge]] = {}

    def edges(ref: str) -> list[Edge]:
        if ref not in known:
            rows = (row for row in bearing(look, ref) if not but or row.run_id != but)
            known[ref] = [Edge(*row[3:6]) for row in islice(rows, LINKS + 1)]
        return known[ref]

    return edges


def standings(look: Reading, asked: Iterable[str], but: str = "") -> dict[str, Standing]:
    """How each of these refs stands, by all links, or by those that were not made by the run `but`."""
    edges, wanted = around(look, but), list(dict.fromkeys(asked))
    together = reach(wanted, edges)
    if together.whole:  # far quicker where they rest on the same things
        return {ref: together.standing(ref) for ref in wanted}
    return {ref: reach([ref], edges).standing(ref) for ref in wanted}


# -- why ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """A place in the tree while it grows."""

    ref: str
    depth: int
    children: list[tuple[str, str, str, _Node]] = field(default_factory=list)
    seen: bool = False
    cut: int = 0


def why(runtime: Runtime, ref: str, scope: str, depth: int = DEPTH) -> Why:
    """The evidence of a ref, as far as `depth` and 1,000 refs go; what is left out is counted. Raises NotFound."""
    if type(depth) is not int or not 0 <= depth <= DEEPEST:
        raise ValueRefused("depth", f"{depth!r:.100} is no depth", f"give a whole number from 0 to {DEEPEST}")
    return runtime.store.read(lambda look: _why(look, refs.whole(look, ref, "ref", scope), depth))


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


def _finished(node: _Node, told: dict[str, refs.Named], found: dict[str, Standing]) -> Why:
    named, standing = told[node.ref], found[node.ref]
    return Why(
        ref=node.ref,
        kind=named.kind,
        says=named.says,
        standing=standing.state,
        reasons=reasons_of(standing),
        children=tuple(Branch(rel, way, note, _finished(of, told, found)) for rel, way, note, of in node.children),
        seen=node.seen,
        cut=node.cut,
    )
