"""How refs stand, by the links around them: against a definition that is slow and plain."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.workspace.link import RELATIONS
from outlast.workspace.why import CONTESTED, STANDS, SUPERSEDED, Cause, Edge, Graph, RefStanding, reach

NAMES = "abcde"
edges = st.builds(Edge, st.sampled_from(NAMES), st.sampled_from(RELATIONS), st.sampled_from(NAMES))
graphs = st.lists(edges.filter(lambda edge: edge.source != edge.target), max_size=8).map(set)


def around(links: set[Edge]) -> Callable[[str], list[Edge]]:
    def touching(ref: str) -> list[Edge]:
        return sorted(edge for edge in links if ref in (edge.source, edge.target))

    return touching


def graph(links: set[Edge], *refs: str, limit: int = 10_000) -> Graph:
    return reach(refs or NAMES, around(links), limit)


def standing(links: set[Edge], ref: str) -> RefStanding:
    return graph(links, ref).standing(ref)


def by_definition(links: set[Edge]) -> dict[str, str]:
    """Every name's state, by the sentences at the top of the module, until nothing changes any more."""
    superseded = {edge.target for edge in links if edge.relation == "supersedes"}
    contested = {e.target for e in links if e.relation == "contradicts" and e.source not in superseded}
    rests = {(e.source, e.target) for e in links if e.relation in ("derived_from", "produced_by")}
    rests |= {(e.target, e.source) for e in links if e.relation == "supports"}
    rests -= {(e.source, e.target) for e in links if e.relation == "supersedes"}
    while more := {above for above, under in rests if under in superseded | contested} - contested:
        contested |= more
    return {name: SUPERSEDED if name in superseded else CONTESTED if name in contested else STANDS for name in NAMES}


@given(graphs)
def test_every_ref_stands_as_the_definition_says_asked_for_alone_or_with_others(links: set[Edge]) -> None:
    expected = by_definition(links)
    together = graph(links)
    assert {name: together.standing(name).state for name in NAMES} == expected
    assert {name: standing(links, name).state for name in NAMES} == expected


@given(graphs)
def test_every_cause_is_true_and_what_stands_has_none(links: set[Edge]) -> None:
    expected = by_definition(links)
    for name in NAMES:
        found = standing(links, name)
        assert bool(found.causes) == (expected[name] != STANDS)
        for cause in found.causes:
            assert (
                Edge(cause.by, {"superseded": "supersedes", "contradicted": "contradicts"}[cause.what], cause.ref)
                in links
            )
            assert (cause.through[-1] if cause.through else name) == cause.ref
            assert name not in cause.through
            assert len(set(cause.through)) == len(cause.through)


@given(graphs, st.randoms())
def test_the_order_of_links_never_matters(links: set[Edge], chance: Random) -> None:
    shuffled = sorted(links)
    chance.shuffle(shuffled)
    given_so = reach(NAMES, lambda ref: [edge for edge in shuffled if ref in (edge.source, edge.target)])
    assert [given_so.standing(name) for name in NAMES] == [graph(links).standing(name) for name in NAMES]


def test_a_contradiction_contests_until_what_made_it_is_superseded() -> None:
    links = {Edge("b", "contradicts", "a")}
    assert standing(links, "a") == RefStanding(CONTESTED, (Cause("contradicted", "a", "b"),))
    assert standing(links, "b").stands
    links.add(Edge("c", "supersedes", "b"))
    assert standing(links, "a").stands
    assert standing(links, "b").state == SUPERSEDED


def test_a_contradiction_of_each_other_contests_both() -> None:
    links = {Edge("a", "contradicts", "b"), Edge("b", "contradicts", "a")}
    assert [standing(links, name).state for name in "ab"] == [CONTESTED, CONTESTED]


@pytest.mark.parametrize(
    "rests", [Edge("a", "derived_from", "b"), Edge("a", "produced_by", "b"), Edge("b", "supports", "a")], ids=str
)
def test_what_rests_on_something_contradicted_or_superseded_is_contested(rests: Edge) -> None:
    for hit, word in (("contradicts", "contradicted"), ("supersedes", "superseded")):
        found = standing({rests, Edge("c", hit, "b")}, "a")
        assert (found.state, found.causes) == (CONTESTED, (Cause(word, "b", "c", ("b",)),))
        assert str(found) == f"contested: rests on b, {word} by c"


@pytest.mark.parametrize(
    "other", [Edge("b", "derived_from", "a"), Edge("a", "supports", "b"), Edge("a", "contradicts", "b")]
)
def test_what_rests_on_a_ref_does_not_weigh_on_it(other: Edge) -> None:
    assert standing({other, Edge("c", "contradicts", "b")}, "a").stands


def test_it_spreads_along_a_chain_and_says_the_way() -> None:
    links = {Edge(str(n), "derived_from", str(n + 1)) for n in range(500)} | {Edge("x", "contradicts", "500")}
    (cause,) = standing(links, "0").causes
    assert (cause.through[0], cause.through[-1], len(cause.through)) == ("1", "500", 500)
    assert str(cause) == "rests on 1, 499 steps above 500, contradicted by x"


def test_circles_end_and_contest_nothing_by_themselves() -> None:
    circle = {Edge("a", "derived_from", "b"), Edge("b", "derived_from", "c"), Edge("c", "derived_from", "a")}
    assert all(standing(circle, name).stands for name in "abc")
    hit = circle | {Edge("d", "contradicts", "b")}
    assert [standing(hit, name).state for name in "abc"] == [CONTESTED] * 3


def test_a_correction_that_is_derived_from_what_it_supersedes_stands() -> None:
    links = {Edge("new", "supersedes", "old"), Edge("new", "derived_from", "old"), Edge("x", "contradicts", "old")}
    assert standing(links, "new").stands
    assert standing(links, "old").state == SUPERSEDED


def test_more_links_than_are_followed_never_stand() -> None:
    links = {Edge("a", "derived_from", f"b{n}") for n in range(50)}
    assert graph(links, "a", limit=1000).standing("a").stands
    assert graph(links, "a", limit=20).standing("a").causes == (Cause("too_far", "a", ""),)
