"""Runs that travel: moved once, copied to be looked at, never two that can go on."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from outlast import Outlast, Run, flow
from outlast.care.travel import export_run as travel
from outlast.errors import Invalid, Refused, RunExists, RunHeld, RunSealed
from outlast.runs.start import claim_run

from ..kit.place import KNOBS, Place
from ..kit.travellers import above, all_of, curious, doubtful, gate, job, journal, row, sleeper, stopped, travelled

# -- going and coming --------------------------------------------------------------------------------


def test_a_copy_has_every_receipt_event_wait_and_blob_of_the_run(place: Place, other: Place) -> None:
    run_id = stopped(place)
    done = place.outlast.export(run_id, place.folder / "copy.zip")
    came = other.outlast.import_(done.path)
    assert (came.run_id, came.status, came.seal, came.replayed) == (run_id, "failed", "copy", False)
    assert (came.entries, came.blobs) == (done.entries, done.blobs) == (len(journal(place, run_id)), 1)
    assert all_of(place, run_id) == all_of(other, run_id)
    assert row(other, run_id)._replace(key=0, seal="") == row(place, run_id)._replace(key=0)
    assert other.outlast.verify().ok


def test_a_copy_leaves_the_run_where_it_is(place: Place) -> None:
    run_id = stopped(place)
    place.outlast.export(run_id, place.folder / "copy.zip")
    assert place.run(job, 5).status == "succeeded"


def test_a_moved_run_goes_on_elsewhere_and_repeats_nothing(place: Place, other: Place) -> None:
    run_id = stopped(place)
    came = travelled(place, other, run_id, move=True)
    assert (came.status, came.seal) == ("failed", "")
    outcome = other.outlast.resume(run_id)
    assert (outcome.status, outcome.result) == ("succeeded", 5)
    assert [place.count(what) for what in ("fetch 5", "send 5", "gate")] == [1, 1, 2]
    assert other.outlast.verify().ok


def test_the_same_call_continues_a_moved_run_where_it_is_now(place: Place, other: Place) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=True)
    outcome = other.run(job, 5)
    assert (outcome.run_id, outcome.status, place.count("send 5")) == (run_id, "succeeded", 1)


def test_a_crashed_run_is_found_crashed_where_it_is_moved_to(place: Place, other: Place) -> None:
    place.crash(job, 5, at="gate")
    run_id = place.run_id
    assert travelled(place, other, run_id, move=True).status == "crashed"
    assert other.outlast.resume(run_id).status == "succeeded"
    assert place.count("send 5") == 1


def test_waits_and_their_answers_travel(place: Place, other: Place) -> None:
    outcome = place.run(doubtful)
    (wait,) = outcome.interrupts
    place.outlast.answer(wait.id, {"choice": "skip", "result": 3, "why": "it happened"})
    travelled(place, other, outcome.run_id, move=True)
    assert other.outlast.resume(outcome.run_id).result == 3
    assert place.count("stumble") == 1


def test_a_sleep_goes_on_sleeping_elsewhere(place: Place, other: Place) -> None:
    run_id = place.run(sleeper).run_id
    travelled(place, other, run_id, move=True)
    assert other.outlast.resume(run_id).status == "waiting"
    other.clock.advance(7201)
    assert other.outlast.resume(run_id).result == "awake"


def test_what_a_run_was_asked_travels_with_it(place: Place, other: Place) -> None:
    run_id = stopped(place)
    place.outlast.skip(run_id, "gate", result=9, why="opened by hand")
    travelled(place, other, run_id, move=True)
    assert other.outlast.resume(run_id).result == 9
    assert place.count("gate") == 1


def test_a_finished_run_travels_too(place: Place, other: Place) -> None:
    outcome = place.run(job, 5)
    came = travelled(place, other, outcome.run_id, move=True)
    assert (came.status, other.outlast.get(outcome.run_id).result) == ("succeeded", 5)
    assert other.outlast.verify().ok
    assert place.outlast.verify().ok


def test_children_travel_with_their_parent(place: Place, other: Place) -> None:
    run_id = stopped(place, above)
    (child,) = place.outlast._executor.home.store.read(lambda look: look.children_of(run_id))
    done = place.outlast.export(run_id, place.folder, move=True)
    assert done.children == (child.id,)
    assert place.outlast.get(child.id).seal == "moved"
    assert other.outlast.import_(done.path).children == (child.id,)
    assert other.outlast.resume(run_id).result == 8
    assert place.count("send 7") == 1


def test_a_child_does_not_move_without_its_parent(place: Place) -> None:
    run_id = stopped(place, above)
    (child,) = place.outlast._executor.home.store.read(lambda look: look.children_of(run_id))
    with pytest.raises(Invalid, match=f"export {run_id} --move"):
        place.outlast.export(child.id, place.folder, move=True)
    assert place.outlast.get(child.id).seal == ""


# -- never two that can go on ------------------------------------------------------------------------


def refusals(outlast: Outlast, run_id: str) -> list[Callable[[], Any]]:
    return [
        lambda: outlast.resume(run_id),
        lambda: outlast.retry(run_id, "gate"),
        lambda: outlast.skip(run_id, "gate", result=1, why="so"),
        lambda: outlast.rewind(run_id, "fetch"),
        lambda: outlast.abort(run_id, why="so"),
        lambda: outlast.pause(run_id),
    ]


@pytest.mark.parametrize("move", [True, False])
def test_a_sealed_run_can_be_looked_at_but_not_changed(place: Place, other: Place, move: bool) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=move)
    sealed = place if move else other
    before = all_of(sealed, run_id)
    for refused in refusals(sealed.outlast, run_id):
        with pytest.raises(RunSealed) as caught:
            refused()
        assert caught.value.seal == ("moved" if move else "copy")
    assert all_of(sealed, run_id) == before
    assert sealed.outlast.plan(run_id).of("reuse") == ("fetch", "send")
    assert sealed.outlast.verify().ok


def test_a_wait_of_a_sealed_run_is_no_open_one_and_cannot_be_answered(place: Place, other: Place) -> None:
    outcome = place.run(doubtful)
    travelled(place, other, outcome.run_id, move=False)
    (wait,) = outcome.interrupts
    assert [one.id for one in other.outlast.interrupts(outcome.run_id)] == [wait.id]
    assert other.outlast.interrupts() == []
    for choice in ("retry", "abort"):
        with pytest.raises(RunSealed):
            other.outlast.answer(wait.id, {"choice": choice})


def test_a_task_whose_run_was_moved_is_not_begun_again_unless_it_is_given_up(place: Place) -> None:
    run_id = stopped(place)
    place.outlast.export(run_id, place.folder, move=True)
    with pytest.raises(RunSealed, match="import its file back"):
        place.run(job, 5)
    fresh = place.fresh(job, 5)
    assert (fresh.status, fresh.run_id != run_id) == ("succeeded", True)
    assert (place.outlast.get(run_id).status, place.outlast.get(run_id).seal) == ("aborted", "moved")


def test_a_task_whose_waiting_run_was_moved_is_refused_and_not_told_to_wait(place: Place) -> None:
    run_id = place.run(sleeper).run_id
    place.outlast.export(run_id, place.folder, move=True)
    with pytest.raises(RunSealed):
        place.run(sleeper)


def test_what_was_given_up_here_cannot_come_back(place: Place) -> None:
    run_id = stopped(place)
    done = place.outlast.export(run_id, place.folder, move=True)
    place.fresh(job, 5)
    with pytest.raises(RunExists, match="another history"):
        place.outlast.import_(done.path)


def test_a_copy_does_not_keep_its_task_from_being_worked_on(place: Place, other: Place) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=False)
    assert other.run(job, 5).run_id != run_id


def test_a_run_that_is_held_cannot_be_moved_and_stays_as_it_is(place: Place) -> None:
    KNOBS["inside"] = lambda run: place.outlast.export(run.id, place.folder, move=True)
    with pytest.raises(RunHeld):
        place.run(curious).unwrap()
    assert place.outlast.get(place.run_id).seal == ""
    assert list(place.folder.glob("*.zip")) == list(place.folder.glob(".*.tmp")) == []


def test_a_held_child_keeps_its_whole_family_here(place: Place) -> None:
    run_id = stopped(place, above)
    (child,) = place.outlast._executor.home.store.read(lambda look: look.children_of(run_id))
    claimed = claim_run(place.outlast._executor.caller, child.id)
    with pytest.raises(RunHeld):
        place.outlast.export(run_id, place.folder, move=True)
    assert [place.outlast.get(one).seal for one in (run_id, claimed.run.id)] == ["", ""]


def test_a_copy_of_a_running_run_is_what_it_was_at_that_moment(place: Place, other: Place) -> None:
    files: list[str] = []
    KNOBS["inside"] = lambda run: files.append(place.outlast.export(run.id, place.folder / "now.zip").path)
    outcome = place.run(curious)
    came = other.outlast.import_(files[0])
    assert (outcome.status, came.status, came.seal) == ("succeeded", "running", "copy")
    assert journal(other, came.run_id) == journal(place, came.run_id)[: came.entries]
    assert [receipt.step for receipt in other.outlast.receipts(came.run_id)] == ["fetch"]


def test_no_owner_of_before_can_commit_to_a_moved_run(place: Place, other: Place) -> None:
    run_id = stopped(place)
    before = place.outlast.get(run_id).epoch
    travelled(place, other, run_id, move=True)
    sealed = place.outlast.get(run_id).epoch
    assert before < sealed < other.outlast.get(run_id).epoch


# -- coming again ------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [True, False])
def test_the_same_file_again_is_told_that_it_is_here(place: Place, other: Place, move: bool) -> None:
    run_id = stopped(place)
    done = place.outlast.export(run_id, place.folder, move=move)
    other.outlast.import_(done.path)
    before = all_of(other, run_id), row(other, run_id)
    assert other.outlast.import_(done.path).replayed
    assert (all_of(other, run_id), row(other, run_id)) == before


def test_the_same_file_again_after_the_run_went_on_changes_nothing(place: Place, other: Place) -> None:
    run_id = stopped(place)
    done = place.outlast.export(run_id, place.folder, move=True)
    other.outlast.import_(done.path)
    other.outlast.resume(run_id)
    again = other.outlast.import_(done.path)
    assert (again.replayed, again.status) == (True, "succeeded")


def test_the_same_file_again_puts_a_lost_blob_back(place: Place, other: Place) -> None:
    run_id = stopped(place)
    done = place.outlast.export(run_id, place.folder, move=False)
    other.outlast.import_(done.path)
    (blob,) = [path for path in (other.home / "default" / "blobs").rglob("*") if path.is_file()]
    blob.write_bytes(b"spoilt")
    assert not other.outlast.verify().ok
    assert other.outlast.import_(done.path).replayed
    assert other.outlast.verify().ok


def test_a_run_comes_back_with_what_was_done_elsewhere(place: Place, other: Place) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=True)
    KNOBS["raise"] = ("gate", RuntimeError("still closed"))
    assert other.outlast.resume(run_id).status == "failed"
    KNOBS.pop("raise")
    came = travelled(other, place, run_id, move=True)
    assert (came.seal, came.replayed, place.outlast.get(run_id).seal) == ("", False, "")
    assert place.outlast.resume(run_id).status == "succeeded"
    assert [place.count(what) for what in ("fetch 5", "send 5", "gate")] == [1, 1, 3]
    assert place.outlast.verify().ok
    with pytest.raises(RunSealed):
        other.outlast.resume(run_id)


def test_an_old_file_does_not_undo_a_later_move(place: Place, other: Place) -> None:
    run_id = stopped(place)
    first = place.outlast.export(run_id, place.folder, move=True)
    other.outlast.import_(first.path)
    other.outlast.export(run_id, other.folder, move=True)
    with pytest.raises(RunExists):
        other.outlast.import_(first.path)
    assert other.outlast.get(run_id).seal == "moved"


def test_a_move_takes_the_place_of_a_copy(place: Place, other: Place) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=False)
    assert travelled(place, other, run_id, move=True).seal == ""
    assert other.outlast.resume(run_id).status == "succeeded"
    assert place.count("send 5") == 1


def test_a_copy_does_not_bring_a_moved_run_back(place: Place, other: Place) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=True)
    other.outlast.resume(run_id)
    copy = other.outlast.export(run_id, other.folder / "copy.zip")
    with pytest.raises(RunExists, match="only a copy"):
        place.outlast.import_(copy.path)
    assert place.outlast.get(run_id).seal == "moved"


def test_a_copy_of_a_run_that_lives_here_is_refused(place: Place) -> None:
    done = place.outlast.export(stopped(place), place.folder)
    with pytest.raises(RunExists, match="lives here"):
        place.outlast.import_(done.path)


def test_a_task_with_an_unfinished_run_here_is_in_the_way_and_nothing_is_written(place: Place, other: Place) -> None:
    run_id = stopped(place)
    theirs = stopped(other)
    done = place.outlast.export(run_id, place.folder, move=True)
    shutil.rmtree(other.home / "default" / "blobs")
    with pytest.raises(RunExists, match=f"outlast abort {theirs}"):
        other.outlast.import_(done.path)
    assert [run.id for run in other.outlast.runs()] == [theirs]
    assert not (other.home / "default" / "blobs").exists()
    other.outlast.abort(theirs, why="the other one came")
    assert other.outlast.import_(done.path).seal == ""


# -- what cannot travel yet --------------------------------------------------------------------------


@flow
def saving(run: Run) -> str:
    ref = run.workspace.save("draft.md", "mine").ref
    gate(1)
    return run.workspace.get(ref).text() + run.workspace.save("draft.md", "mine").ref


@flow
def pinning(run: Run) -> None:
    run.checkpoint("half way")
    gate(1)


def test_a_run_with_artifacts_is_not_moved_and_goes_on_where_it_is(place: Place) -> None:
    run_id = stopped(place, saving)
    with pytest.raises(Refused, match=r"artifact:default/draft\.md@1; finish it here"):
        place.outlast.export(run_id, place.folder / "moved.zip", move=True)
    assert not (place.folder / "moved.zip").exists()
    assert place.outlast.export(run_id, place.folder / "copy.zip").moved is False
    assert place.outlast.resume(run_id).status == "succeeded"


def test_a_run_whose_save_was_a_version_that_was_there_already_is_not_moved_either(place: Place) -> None:
    place.outlast.workspace.save("draft.md", "mine")
    run_id = stopped(place, saving)
    with pytest.raises(Refused, match="artifacts"):
        place.outlast.export(run_id, place.folder / "moved.zip", move=True)


def test_a_run_with_checkpoints_is_not_moved(place: Place) -> None:
    run_id = stopped(place, pinning)
    with pytest.raises(Refused, match="checkpoints, which do not travel yet: half way"):
        place.outlast.export(run_id, place.folder / "moved.zip", move=True)
    assert place.outlast.resume(run_id).status == "succeeded"


def test_a_run_with_signals_that_nobody_has_taken_is_not_moved(place: Place) -> None:
    run_id = stopped(place)
    place.outlast.signal("go", {"now": True}, run_id=run_id)
    with pytest.raises(Refused, match="signals that it has not taken, which do not travel yet: go"):
        place.outlast.export(run_id, place.folder / "moved.zip", move=True)
    assert place.outlast.resume(run_id).status == "succeeded"


def test_a_run_that_was_moved_without_its_artifacts_is_given_nobody_elses(
    place: Place, other: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = stopped(place, saving)
    monkeypatch.setattr(travel, "_refuse_left", lambda run, what, names: None)  # as versions before did
    travelled(place, other, run_id, move=True)
    other.outlast.workspace.save("draft.md", "somebody else's")
    outcome = other.outlast.resume(run_id)
    assert outcome.status == "failed"
    assert "did not travel" in str(outcome.error)
    assert place.count("gate") == 1
