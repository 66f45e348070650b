"""Links and why: two ends that exist, one link however often it is made, and the evidence as a tree."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, current, flow, step
from outlast.errors import (
    ArtifactNotFound,
    CheckpointNotFound,
    Contested,
    HandoffNotFound,
    OperationConflict,
    OutlastError,
    RecordNotFound,
    RunNotFound,
    SecretFound,
    ValueRefused,
)
from outlast.workspace import why as evidence
from outlast.workspace.link import RELATIONS

from ..kit.place import KNOBS, Place, reach

KEY = "AKIAIOSFODNN7EXAMPLQ"


def said(place: Place, *texts: str) -> list[str]:
    return [place.outlast.workspace.record("observation", text).ref for text in texts]


@flow
def plain(run: Run) -> str:
    return run.id


def test_a_link_joins_refs_of_every_kind_and_keeps_them_whole(place: Place) -> None:
    workspace = place.outlast.workspace
    run_id = place.run(plain).unwrap()
    handoff = place.outlast.handoff.store("a", "s", "t", bind=False)
    pinned = workspace.checkpoint("here", task="t")
    made = workspace.record("note", "n", scope="other")
    ends = [f"run:{run_id}", f"handoff:{handoff.id}", f"checkpoint:{pinned.id}", workspace.save("x", b"").ref]
    for end in ends:
        short = end if end.startswith("artifact") else end[:-2]
        link = workspace.link(made.ref[:-2], "supports", short, note="ünï 🌊\n", actor="ann")
        assert (link.source, link.relation, link.target, link.note) == (made.ref, "supports", end, "ünï 🌊\n")
        assert (link.by.actor, link.scope, link.replayed) == ("ann", "default", False)
        assert workspace.links(end) == [link]
    assert [link.target for link in workspace.links(made.ref)] == ends
    assert place.outlast.verify().links == 4
    assert [len(workspace.why(end).children) for end in ends] == [1, 1, 1, 1]
    assert workspace.why(ends[0]).says.endswith("succeeded")
    assert workspace.why(ends[1]).says == "a@1, open"


@pytest.mark.parametrize(
    ("given", "error", "path"),
    [
        ({"source": "record:nothing"}, RecordNotFound, None),
        ({"target": "artifact:default/x@9"}, ArtifactNotFound, None),
        ({"target": "checkpoint:nothing"}, CheckpointNotFound, None),
        ({"target": "handoff:nothing"}, HandoffNotFound, None),
        ({"target": "run:nothing"}, RunNotFound, None),
        ({"target": "nonsense"}, ValueRefused, "target"),
        ({"target": ""}, ValueRefused, "target"),
        ({"source": None}, ValueRefused, "source"),
        ({"source": "record:"}, ValueRefused, "source"),
        ({"target": "source"}, ValueRefused, "target"),
        ({"relation": "likes"}, ValueRefused, "relation"),
        ({"note": "x" * 10_001}, ValueRefused, "note"),
        ({"note": 7}, ValueRefused, "note"),
        ({"note": f"see {KEY}"}, SecretFound, "note"),
    ],
)
def test_what_cannot_be_linked_is_refused_and_leaves_nothing(
    place: Place, given: dict[str, Any], error: type[OutlastError], path: str | None
) -> None:
    a, b = said(place, "a", "b")
    ends = {"source": a, "relation": "supports", "target": b} | given
    ends["target"] = a if ends["target"] == "source" else ends["target"]
    with pytest.raises(error) as caught:
        place.outlast.workspace.link(**ends)
    assert caught.value.facts.get("path") == path
    assert place.outlast.verify().links == 0


def test_a_secret_in_a_note_is_masked_when_asked_for(place: Place) -> None:
    a, b = said(place, "a", "b")
    made = place.outlast.workspace.link(a, "supports", b, f"see {KEY}", redact=True)
    assert (made.note, made.masked) == ("see ***", ("note",))


def test_the_same_link_again_is_the_first_one(place: Place) -> None:
    a, b = said(place, "a", "b")
    link = place.outlast.workspace.link
    first = link(a, "supports", b, "because", operation_id="op")
    again = link(a, "supports", b, "another note", actor="ann")
    assert (again, again.replayed, again.note) == (first, True, "because")
    assert link(a, "supports", b, "because", operation_id="op").replayed
    with pytest.raises(OperationConflict):
        link(a, "contradicts", b, "because", operation_id="op")
    assert link(b, "supports", a).id != first.id
    assert place.outlast.verify().links == 2


def test_sixty_four_at_once_make_one_link(place: Place) -> None:
    a, b = said(place, "a", "b")
    found: list[Any] = []
    start = threading.Barrier(64)

    def make() -> None:
        start.wait()
        found.append(place.outlast.workspace.link(a, "supports", b))

    threads = [threading.Thread(target=make) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({link.id for link in found}) == 1
    assert sorted(link.replayed for link in found) == [False] + [True] * 63
    assert len(place.outlast.workspace.links(a)) == 1


# -- in a run ----------------------------------------------------------------------------------------


@step
def links(a: str, b: str) -> str:
    made = current().workspace.link(a, "supports", b).id
    KNOBS["meanwhile"]()
    return made


@flow
def links_in_a_step(run: Run, a: str, b: str) -> str:
    return links(a, b)


def test_a_link_that_somebody_else_made_meanwhile_is_that_one(place: Place) -> None:
    a, b = said(place, "a", "b")
    KNOBS["meanwhile"] = lambda: place.outlast.workspace.link(a, "supports", b, "first")
    place.run(links_in_a_step, a, b).unwrap()
    assert [link.note for link in place.outlast.workspace.links(a)] == ["first"]
    assert place.outlast.verify().ok
    assert place.outlast.verify().links == 1


# -- why ---------------------------------------------------------------------------------------------


def test_why_shows_what_a_ref_rests_on_and_how_it_stands(place: Place) -> None:
    workspace = place.outlast.workspace
    report = workspace.save("report.md", b"x", summary="The report").ref
    (seen, doubt) = said(place, "The tests\npass.", "The tests are flaky.")
    decision = workspace.record("decision", "Ship it.", [report]).ref
    workspace.link(seen, "supports", decision)
    workspace.link(seen, "derived_from", report)
    workspace.link(doubt, "contradicts", seen, "on the build machine")
    found = workspace.why(decision)
    assert (found.standing, found.stands) == ("contested", False)
    assert found.reasons == (f"rests on {seen}, contradicted by {doubt}",)
    assert str(found) == "\n".join(
        [
            f"{decision} [contested] (decision): Ship it.",
            f"  ! rests on {seen}, contradicted by {doubt}",
            f"  supported by {seen} [contested] (observation): The tests pass.",
            f"    ! contradicted by {doubt}",
            f"    derived from {report} (artifact): The report, saved by local (see above)",
            f"    contradicted by [on the build machine] {doubt} (observation): The tests are flaky.",
            f"  refers to {report} (artifact): The report, saved by local",
        ]
    )
    correction = workspace.record("evidence", "The machine was broken.").ref
    workspace.link(correction, "supersedes", doubt)
    assert workspace.why(decision).stands
    assert workspace.why(doubt).reasons == (f"superseded by {correction}",)


def test_why_ends_in_circles_and_counts_what_it_cuts(place: Place) -> None:
    workspace = place.outlast.workspace
    refs = said(place, *(str(number) for number in range(30)))
    for above, under in zip(refs, [*refs[1:], refs[0]], strict=True):
        workspace.link(above, "derived_from", under)
    whole = workspace.why(refs[0], depth=100)
    assert (whole.left_out, whole.standing) == (0, "stands")
    last = whole
    while last.children:
        last = last.children[0].of
    assert (last.ref, last.seen) == (refs[0], True)
    cut = workspace.why(refs[0], depth=3)
    assert cut.left_out == 1
    assert f"1 more not shown; ask for them: outlast workspace why {refs[3]}" in str(cut)
    assert workspace.why(refs[0], depth=0).cut == 1
    assert workspace.why(refs[0]).standing == "stands"
    for depth in (-1, 101, "all", True):
        with pytest.raises(ValueRefused):
            workspace.why(refs[0], depth=depth)
    with pytest.raises(RecordNotFound):
        workspace.why("record:nothing")


def test_what_is_not_shown_is_counted_and_weighs_as_well(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "NODES", 20)
    workspace = place.outlast.workspace
    (root, doubt, *others) = said(place, "root", "doubt", *(str(number) for number in range(25)))
    for ref in others:
        workspace.link(ref, "supports", root)
    workspace.link(doubt, "contradicts", others[-1])
    found = workspace.why(root)
    assert (len(found.children), found.cut, found.left_out) == (19, 6, 6)
    assert found.reasons == (f"rests on {others[-1]}, contradicted by {doubt}",)
    assert f"6 more not shown; ask for them: outlast workspace links {root}" in str(found)
    assert f"25 more not shown; ask for them: outlast workspace why {root}" in str(workspace.why(root, depth=0))


def test_one_that_rests_on_too_much_contests_no_other_that_is_asked_for_with_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "reach", partial(evidence.reach, limit=3))
    small, large, *others = said(place, "small", "large", *(str(number) for number in range(5)))
    for ref in others:
        place.outlast.workspace.link(ref, "supports", large)
    place.outlast.workspace.link(others[0], "supports", small)
    found = place.outlast._executor.home.store.read(lambda look: evidence.standings(look, [small, large]))
    assert {ref: each.state for ref, each in found.items()} == {small: "stands", large: "contested"}


def test_a_text_shows_some_of_very_many_reasons_and_counts_the_rest(place: Place) -> None:
    root, *doubts = said(place, "root", *(str(number) for number in range(23)))
    for doubt in doubts:
        place.outlast.workspace.link(doubt, "contradicts", root)
    found = place.outlast.workspace.why(root)
    assert len(found.reasons) == 23
    assert str(found).count("  ! contradicted by") == 20
    assert "  ! and 3 more reasons; --json has all of them" in str(found)


def test_every_relation_has_its_meaning_at_each_end(place: Place) -> None:
    """What bears on a ref is in its tree; what it bears on is not."""
    shown = {}
    for relation in RELATIONS:
        a, b = said(place, relation, relation)
        place.outlast.workspace.link(a, relation, b)
        shown[relation] = tuple(len(place.outlast.workspace.why(ref).children) for ref in (a, b))
    out, in_ = (1, 0), (0, 1)
    expected = {"supports": in_, "contradicts": in_, "derived_from": out, "supersedes": in_, "produced_by": out}
    assert shown == expected


# -- the verdict of a run ----------------------------------------------------------------------------


@step
def drafts() -> str:
    return current().workspace.save("draft.md", "a draft").ref


@flow
def writes(run: Run) -> str:
    ref = drafts()
    seen = run.workspace.record("observation", "The sources are good.")
    run.checkpoint("drafted", refs=[ref, seen.ref])
    if KNOBS.get("own"):
        run.workspace.link(run.workspace.save("final.md", "final").ref, "supersedes", ref)
    reach("drafted")
    return ref


def crashed(place: Place) -> tuple[str, str]:
    place.crash(writes, at="drafted")
    (pinned,) = place.outlast.workspace.checkpoints(run=place.run_id)
    return pinned.refs[0], pinned.refs[1]


def test_a_run_whose_evidence_was_contradicted_is_contested_until_somebody_accepts_it(place: Place) -> None:
    _, seen = crashed(place)
    assert place.outlast.plan(place.run_id).verdict.word != "contested"
    doubt = place.outlast.workspace.record("evidence", "One of them is forged.").ref
    place.outlast.workspace.link(doubt, "contradicts", seen)
    (reason,) = place.outlast.plan(place.run_id).verdict.contesting
    assert (reason.code, reason.subject, reason.expected) == ("evidence_contradicted", seen, "stands")
    assert reason.found == f"contradicted by {doubt}"
    assert f"outlast workspace why {seen}" in reason.advice
    assert f"outlast resume {place.run_id} --accept evidence_contradicted:{seen} --why WHY" in reason.advice
    with pytest.raises(Contested):
        place.run(writes)
    outcome = place.outlast.resume(place.run_id, accept=[f"evidence_contradicted:{seen}"], why="not one we use")
    assert outcome.status == "succeeded"


def test_a_contradiction_that_was_withdrawn_contests_no_run(place: Place) -> None:
    draft, _ = crashed(place)
    doubt, correction = said(place, "It is wrong.", "It is not.")
    place.outlast.workspace.link(doubt, "contradicts", draft)
    assert place.outlast.plan(place.run_id).verdict.word == "contested"
    place.outlast.workspace.link(correction, "supersedes", doubt)
    assert place.run(writes).unwrap() == draft


def test_what_a_run_says_of_its_own_work_does_not_contest_it(place: Place) -> None:
    KNOBS["own"] = True
    draft, _ = crashed(place)
    assert not place.outlast.workspace.why(draft).stands
    assert place.run(writes).unwrap() == draft


def test_an_artifact_of_a_run_that_is_missing_or_was_changed_contests_it(place: Place) -> None:
    draft, _ = crashed(place)
    row = place.outlast._executor.home.store.read(lambda look: look.artifact_at("default", "draft.md", 1))
    assert row is not None
    blob = next(Path(place.home / "default" / "blobs").glob(f"??/{row.blob}*"))
    content = blob.read_bytes()
    blob.chmod(0o600)
    blob.write_bytes(b"A" + content[1:])
    (reason,) = place.outlast.plan(place.run_id).verdict.contesting
    assert (reason.code, reason.subject) == ("artifact_corrupt", draft)
    blob.unlink()
    (reason,) = place.outlast.plan(place.run_id).verdict.contesting
    assert (reason.code, reason.subject, reason.found) == ("artifact_missing", draft, "nothing")
    with pytest.raises(Contested):
        place.run(writes)
    blob.write_bytes(content)
    assert place.run(writes).unwrap() == draft


def test_links_of_another_tenant_weigh_nothing(place: Place) -> None:
    draft, _ = crashed(place)
    with Outlast(place.home, tenant="other") as outlast:
        outlast.workspace.save("draft.md", "a draft")
        theirs = outlast.workspace.record("evidence", "no").ref
        outlast.workspace.link(theirs, "contradicts", draft)
    assert place.run(writes).unwrap() == draft
