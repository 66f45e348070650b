"""The evidence that a handoff rests on: refs that exist, shown in their place, weighed whenever it is recovered."""

from pathlib import Path
from typing import Any

import pytest

from outlast import Run, flow, step
from outlast.errors import (
    ArtifactNotFound,
    HandoffContested,
    HandoffInvalid,
    OutlastError,
    RecordNotFound,
    SecretFound,
    ValueRefused,
)
from outlast.operations.reading import handoff_in_order, prompt

from ..kit.place import Place, reach

KEY = "AKIAIOSFODNN7EXAMPLQ"


def stored(place: Place, *refs: str, **more: Any) -> Any:
    return place.outlast.handoff.store("a", "Ship it.", "Go on.", next_action="Ship it.", refs=refs, bind=False, **more)


def against(place: Place) -> list[tuple[str, str, str]]:
    found = place.outlast.handoff.recover("a").verdict.contesting
    return [(reason.code, reason.subject, reason.found) for reason in found]


def test_refs_are_kept_whole_and_read_after_the_musts(place: Place) -> None:
    workspace = place.outlast.workspace
    seen, report = workspace.record("observation", "seen").ref, workspace.save("r", b"x").ref
    handoff = stored(place, seen[:10], report, seen, rollback=["go back"])
    assert handoff.refs == (seen, report)
    assert place.outlast.handoff.get(anchor="a").refs == (seen, report)
    names = list(handoff_in_order(handoff))
    assert names.index("rollback") + 1 == names.index("refs")
    shown = prompt(place.outlast.handoff.recover("a"))
    assert shown.index("## Rollback") < shown.index("## Evidence") < shown.index(seen)
    assert place.outlast.verify().ok


@pytest.mark.parametrize(
    ("refs", "error"),
    [
        (["record:nothing"], RecordNotFound),
        (["artifact:default/x@1"], ArtifactNotFound),
        (["nonsense"], ValueRefused),
        ("record:x", HandoffInvalid),
        ([7], HandoffInvalid),
        ([" record:x"], HandoffInvalid),
        ([f"record:{number}" for number in range(101)], HandoffInvalid),
        ([f"artifact:default/{KEY}@1"], SecretFound),
    ],
)
def test_what_is_no_ref_or_names_nothing_is_refused(place: Place, refs: Any, error: type[OutlastError]) -> None:
    with pytest.raises(error):
        place.outlast.handoff.store("a", "s", "t", refs=refs, bind=False)
    assert place.outlast.handoff.list() == []


def test_a_repeat_gives_the_first_revision_and_a_later_ref_is_a_difference(place: Place) -> None:
    seen, other = (place.outlast.workspace.record("note", text).ref for text in "ab")
    first = stored(place, seen[:10], operation_id="op")
    assert stored(place, seen[:10], operation_id="op") == first
    second = stored(place, seen, other)
    (changed,) = [one for one in place.outlast.handoff.diff("a", revisions=(1, 2)).fields if one.field == "refs"]
    assert changed.added == (other,)
    assert second.revision == 2


def test_evidence_that_was_contradicted_since_contests_until_it_is_accepted_or_withdrawn(place: Place) -> None:
    workspace = place.outlast.workspace
    seen = workspace.record("observation", "The tests pass.").ref
    stored(place, seen)
    assert against(place) == []
    doubt = workspace.record("evidence", "They are flaky.").ref
    workspace.link(doubt, "contradicts", seen)
    assert against(place) == [("evidence_contradicted", seen, f"contradicted by {doubt}")]
    (reason,) = place.outlast.handoff.recover("a").verdict.contesting
    assert f"outlast workspace why {seen}" in reason.advice
    assert f"outlast handoff recover a --claim --accept evidence_contradicted:{seen} --why WHY" in reason.advice
    with pytest.raises(HandoffContested):
        place.outlast.handoff.claim("a")
    taken = place.outlast.handoff.recover("a", claim=True, accept=[f"evidence_contradicted:{seen}"], why="not these")
    assert taken.claim is not None
    better = workspace.record("evidence", "They are not.").ref
    workspace.link(better, "supersedes", doubt)
    assert against(place) == []


def test_a_handoff_stands_by_its_own_links_too(place: Place) -> None:
    workspace = place.outlast.workspace
    seen, doubt, report = (workspace.record("observation", text).ref for text in ("seen", "doubt", "report"))
    ref = f"handoff:{stored(place).id}"
    workspace.link(ref, "derived_from", report)
    workspace.link(seen, "supports", report)
    assert against(place) == []
    workspace.link(doubt, "contradicts", seen)
    through = f"rests on {report} on {seen}, contradicted by {doubt}"
    assert against(place) == [("evidence_contradicted", ref, through)]
    workspace.link(doubt, "contradicts", ref)
    assert against(place) == [("evidence_contradicted", ref, f"contradicted by {doubt}; {through}")]
    assert place.outlast.workspace.why(ref).standing == "contested"


def test_evidence_that_is_missing_or_was_changed_contests(place: Place) -> None:
    saved = place.outlast.workspace.save("r", b"content")
    stored(place, saved.ref)
    blob = next(Path(place.home / "default" / "blobs").glob(f"??/{saved.digest}*"))
    blob.chmod(0o600)
    blob.write_bytes(b"CONTENT")
    ((code, subject, _),) = against(place)
    assert (code, subject) == ("artifact_corrupt", saved.ref)
    blob.unlink()
    assert against(place) == [("artifact_missing", saved.ref, "nothing")]


def test_evidence_that_did_not_travel_is_said_to_be_missing(place: Place, other: Place) -> None:
    seen = place.outlast.workspace.record("note", "seen").ref
    stored(place, seen)
    place.outlast.handoff.export("a", place.folder / "bundle")
    other.outlast.handoff.import_(place.folder / "bundle")
    assert against(other) == [("artifact_missing", seen, "it is not in this home")]


@step
def works_on() -> int:
    return 1


@flow
def goes_on(run: Run) -> str:
    works_on()
    reach("worked")
    return run.id


def test_what_is_composed_from_a_run_rests_on_what_the_handoff_before_it_did(place: Place) -> None:
    seen = place.outlast.workspace.record("observation", "seen").ref
    place.outlast.handoff.store("task:t", "Half way.", "Go on.", next_action="Go on.", refs=[seen], bind=False)
    place.clock.sleep(60)
    place.crash(goes_on, task="t", at="worked")
    doubt = place.outlast.workspace.record("evidence", "no").ref
    place.outlast.workspace.link(doubt, "contradicts", seen)
    found = place.outlast.handoff.recover("task:t")
    assert (found.handoff.refs, found.handoff.source) == ((seen,), "run")
    reasons = [reason for reason in found.verdict.contesting if reason.code == "evidence_contradicted"]
    assert [(reason.subject, reason.found) for reason in reasons] == [(seen, f"contradicted by {doubt}")]
