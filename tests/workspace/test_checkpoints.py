"""Checkpoints: a boundary is pinned once, with its state, its refs and its place in the journal."""

from typing import Any

import pytest

from outlast import Run, current, flow, step
from outlast.errors import (
    AmbiguousPrefix,
    ArtifactNotFound,
    CheckpointNotFound,
    NameInvalid,
    OperationConflict,
    RunNotFound,
    ValueRefused,
)
from outlast.workspace.checkpoint import StateChange

from ..kit.place import KNOBS, Place, reach
from .test_artifacts import tamper


@step
def finds(number: int) -> int:
    current().state["found"] = number
    return number


@flow
def works(run: Run) -> list[str]:
    run.phase = "looking"
    run.state["a"] = 1
    first = run.checkpoint("begun")
    draft = run.workspace.save("draft", KNOBS.get("content", "draft"))
    finds(12)
    run.state["a"] = 2
    second = run.checkpoint("selected", summary="Selected 12 sources.", refs=[draft.ref])
    reach("pinned")
    return [first.id, second.id]


def test_a_run_pins_its_state_refs_and_position(place: Place) -> None:
    outcome = place.run(works, task="t")
    second, first = place.outlast.workspace.checkpoints(task="t")
    assert [first.id, second.id] == outcome.unwrap()
    assert (first.name, first.state, first.refs, first.phase) == ("begun", {"a": 1}, (), "looking")
    assert (second.state, second.refs) == ({"a": 2, "found": 12}, ("artifact:default/draft@1",))
    assert (second.summary, second.run_id, second.task) == ("Selected 12 sources.", outcome.run_id, "t")
    events = {event.seq: event for event in place.outlast.events(outcome.run_id)}
    assert [events[one.position].body["id"] for one in (first, second)] == [first.id, second.id]
    assert place.outlast.workspace.checkpoints(run=outcome.run_id[:6]) == [second, first]
    assert place.outlast.verify().ok


def test_on_replay_it_is_the_one_that_was_pinned_first(place: Place) -> None:
    place.crash(works, task="t", at="pinned")
    KNOBS.pop("die", None)
    KNOBS["content"] = "something else"
    before = place.outlast.workspace.checkpoints(task="t")
    assert place.run(works, task="t").unwrap() == [one.id for one in reversed(before)]
    assert place.outlast.workspace.checkpoints(task="t") == before
    assert place.outlast.replay(place.run_id).ok


def test_two_checkpoints_are_compared_by_state_and_refs(place: Place) -> None:
    first, second = place.run(works).unwrap()
    changed = place.outlast.workspace.diff(first, second)
    assert changed.state == (StateChange("a", 1, 2), StateChange("found", after=12, kind="added"))
    assert (changed.refs_added, changed.refs_removed, changed.same) == (("artifact:default/draft@1",), (), False)
    back = place.outlast.workspace.diff(second, first)
    assert [change.kind for change in back.state] == ["changed", "removed"]
    assert back.refs_removed == changed.refs_added
    assert place.outlast.workspace.diff(first, first).same


def test_from_outside_it_is_where_the_newest_run_of_the_task_stands(place: Place) -> None:
    place.crash(works, task="t", at="pinned")
    KNOBS.pop("die", None)
    saved = place.outlast.workspace.save("review", b"fine")
    pinned = place.outlast.workspace.checkpoint("reviewed", task="t", summary="By Ann", refs=[saved.ref, saved.ref])
    assert (pinned.run_id, pinned.refs) == (place.run_id, (saved.ref,))
    assert pinned.state["found"] == 12  # what the body wrote last is in no entry yet
    assert pinned.position == place.outlast.events(place.run_id)[-1].seq
    assert place.outlast.workspace.checkpoints()[0] == pinned


def test_a_task_without_a_run_can_have_one(place: Place) -> None:
    pinned = place.outlast.workspace.checkpoint("planned", task="later")
    assert (pinned.run_id, pinned.state, pinned.position) == ("", {}, 0)
    assert place.reopen().workspace.checkpoints(task="later") == [pinned]
    assert place.outlast.workspace.checkpoints(task="other") == []


def test_an_operation_id_pins_once(place: Place) -> None:
    first = place.outlast.workspace.checkpoint("x", task="t", operation_id="op")
    again = place.outlast.workspace.checkpoint("x", task="t", operation_id="op")
    assert (again, again.replayed) == (first, True)
    with pytest.raises(OperationConflict):
        place.outlast.workspace.checkpoint("y", task="t", operation_id="op")
    assert len(place.outlast.workspace.checkpoints(task="t")) == 1


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"refs": ["artifact:default/nothing@1"]}, ArtifactNotFound),
        ({"refs": ["artifact:default/x@2"]}, ArtifactNotFound),
        ({"refs": ["x"]}, ValueRefused),
        ({"refs": "artifact:default/x@1"}, ValueRefused),
        ({"refs": [3]}, ValueRefused),
        ({"refs": [f"r{number}" for number in range(1001)]}, ValueRefused),
        ({"name": ""}, NameInvalid),
        ({"name": "a\nb"}, NameInvalid),
        ({"task": "a\0"}, NameInvalid),
        ({"summary": "x" * 10_001}, ValueRefused),
        ({"summary": None}, ValueRefused),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_pinned(
    place: Place, given: dict[str, Any], error: type[Exception]
) -> None:
    place.outlast.workspace.save("x", b"1")
    with pytest.raises(error):
        place.outlast.workspace.checkpoint(**{"name": "n", "task": "t", **given})
    assert place.outlast.workspace.checkpoints() == []


@flow
def pins_nothing(run: Run) -> str:
    try:
        run.checkpoint("x", refs=["artifact:default/nothing@1"])
    except ArtifactNotFound as error:
        return str(error)
    return "pinned"


def test_a_ref_that_names_nothing_is_refused_in_a_run_and_the_run_goes_on(place: Place) -> None:
    assert "artifact:default/nothing@1" in place.run(pins_nothing).unwrap()
    assert place.outlast.workspace.checkpoints() == []


@step
def pins_in_a_step() -> None:
    current().checkpoint("x")


@flow
def pins_wrongly(run: Run) -> None:
    pins_in_a_step()


def test_in_a_step_it_is_refused(place: Place) -> None:
    outcome = place.run(pins_wrongly)
    assert outcome.status == "failed"
    assert "pin it after the step" in str(outcome.error)


def test_an_unknown_or_ambiguous_id_says_so(place: Place) -> None:
    for number in range(40):
        place.outlast.workspace.checkpoint(f"n{number}", task="t")
    ids = [one.id for one in place.outlast.workspace.checkpoints(task="t")]
    shared = next(one[0] for one in ids if sum(other[0] == one[0] for other in ids) > 1)
    with pytest.raises(AmbiguousPrefix):
        place.outlast.workspace.diff(shared, ids[0])
    for unknown in ("nothing", ""):
        with pytest.raises(CheckpointNotFound):
            place.outlast.workspace.diff(unknown, ids[0])
    with pytest.raises(RunNotFound):
        place.outlast.workspace.checkpoints(run="nothing")
    with pytest.raises(ValueRefused):
        place.outlast.workspace.checkpoints(run="a", task="b")


@pytest.mark.parametrize("change", ["state = '{}'", "refs = '[]'", "summary = 'x'", "position = 1", "task = 'u'"])
def test_a_changed_checkpoint_is_named_by_verify(place: Place, change: str) -> None:
    _, second = place.run(works).unwrap()
    tamper(place, f"UPDATE checkpoints SET {change} WHERE name = 'selected'")
    (problem,) = place.outlast.verify().problems
    assert problem.record == f"checkpoint {second} (selected)"


def test_name_summary_and_refs_may_be_given_in_this_order(place: Place) -> None:
    ref = place.outlast.workspace.save("x", b"x").ref
    pinned = place.outlast.workspace.checkpoint("done", "All of it.", [ref], task="t")
    assert (pinned.name, pinned.summary, pinned.refs) == ("done", "All of it.", (ref,))


@pytest.mark.parametrize("ref", [{"ref": "x"}, ["x"], None, 7])
def test_what_is_no_ref_is_refused_by_its_place(place: Place, ref: Any) -> None:
    with pytest.raises(ValueRefused, match=r"refs\[0\]"):
        place.outlast.workspace.checkpoint("n", refs=[ref], task="t")
