"""A completed task is finished, whatever way it was completed; claiming opens it no more than recovering does."""

from pathlib import Path

import pytest

from outlast import Run, flow, step
from outlast.errors import Finished, TaskRefused

from ..kit.place import Place, reach


@step
def first() -> int:
    reach("first")
    return 1


@flow
def works(run: Run) -> int:
    return first()


@flow
def other_work(run: Run) -> int:
    return first()


def completed_with_an_override(place: Place) -> None:
    place.crash(works, at="first", task="report")
    place.outlast.tasks.open("report", actor="bob").complete_task(override="it was done by hand")


def completed_by_its_run(place: Place) -> None:
    place.outlast.tasks.open("report")
    place.run(works, task="report")
    place.outlast.tasks.session("report", actor="bob").complete_task()


def completed_by_settling(place: Place) -> None:
    place.crash(works, at="first", task="report")
    place.clock.advance(1)
    place.outlast.handoff.store("task:report", "Half of it", "Do the other half.", next_action="Do it.")
    place.outlast.handoff.settle("task:report", "completed", override="it was done by hand", actor="bob")


def completed_through_the_bridge(place: Place) -> None:
    place.crash(works, at="first", task="report")
    place.clock.advance(1)
    session = place.outlast.tasks.open("report", actor="bob")
    session.pause_task("Half of it", "Do the other half.", next_action="Do it.")
    session.complete_task(override="it was done by hand")


WAYS = [completed_with_an_override, completed_by_its_run, completed_by_settling, completed_through_the_bridge]


@pytest.mark.parametrize("complete", WAYS)
def test_a_completed_task_is_finished_whatever_way_it_was_completed(place: Place, complete: object) -> None:
    complete(place)  # type: ignore[operator]
    for asks in (place.outlast.handoff.recover, place.outlast.handoff.claim):
        with pytest.raises(Finished) as told:
            asks("task:report")
        assert "completed by bob" in told.value.detail


@pytest.mark.parametrize("complete", WAYS)
def test_claiming_does_not_open_a_completed_task_again(place: Place, complete: object) -> None:
    complete(place)  # type: ignore[operator]
    before = [event.kind for event in place.outlast.tasks.session("report").inspect_task_context().history]
    with pytest.raises(Finished):
        place.outlast.handoff.recover("task:report", claim=True)
    with pytest.raises((Finished, TaskRefused)):
        place.outlast.tasks.session("report").resume_task()
    context = place.outlast.tasks.session("report").inspect_task_context()
    assert (context.state, [event.kind for event in context.history]) == ("completed", before)


def test_who_completed_it_is_named_also_after_others_have_opened_it(place: Place) -> None:
    completed_with_an_override(place)
    place.outlast.tasks.open("report", session="another", actor="cyd")
    with pytest.raises(Finished, match="completed by bob"):
        place.outlast.handoff.recover("task:report")


def test_a_task_that_is_opened_again_recovers_what_its_run_left(place: Place) -> None:
    completed_with_an_override(place)
    place.outlast.tasks.open("report", reopen=True)
    assert place.outlast.handoff.recover("task:report", claim=True).run is not None
    assert place.outlast.tasks.get("report").state == "resumed"


def test_a_run_that_began_after_the_task_was_completed_is_other_work(place: Place, tmp_path: Path) -> None:
    completed_by_its_run(place)
    place.clock.advance(1)
    place.crash(other_work, at="first", task="report")
    found = place.outlast.handoff.recover("task:report", claim=True)
    assert found.run is not None
    assert found.run.flow.endswith("other_work")
    assert place.outlast.tasks.get("report").state == "completed"
