"""What makes a named task happen once outlives its run: gc, moves, copies and backups keep it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import outlast as public
from outlast import Outlast, Run, effect, flow, flow_file
from outlast.errors import (
    ArchiveInvalid,
    InputsConflict,
    RepeatsEffects,
    RunExists,
    RunSealed,
    TaskAborted,
    TaskDeclined,
)
from outlast.python.shared import FlowCall
from outlast.runs.run import Options

from ..kit.place import KNOBS, Place, ran
from ..kit.travellers import travelled

DECLINED = "flow: bill\nsteps:\n  - {id: ok, pause_for: approval}\n"


@effect
def charge(to: str) -> str:
    ran(f"charge {to}")
    return to


@flow
def pay(run: Run, to: str = "kelp") -> str:
    paid = charge(to)
    if KNOBS.get("fail"):
        raise ValueError("no")
    return paid


def swept(place: Place) -> None:
    """Everything that is finished is gone, and the home opened anew."""
    place.clock.advance(3600)
    gone = place.outlast.gc(older_than=1, dry_run=False)
    assert gone.runs
    assert place.reopen().runs() == []


# -- gc ----------------------------------------------------------------------------------------------


def test_after_gc_the_same_call_says_succeeded_and_does_nothing(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    swept(place)
    again = place.run(pay, task="bill-7")
    assert (again.run_id, again.status, again.result) == (first.run_id, "succeeded", None)
    assert (again.replayed, again.notes, place.count("charge kelp")) == (True, ("result_pruned",), 1)
    assert place.outlast.verify().ok


def test_after_gc_other_inputs_are_a_conflict_still(place: Place) -> None:
    place.run(pay, task="bill-7")
    swept(place)
    with pytest.raises(InputsConflict):
        place.run(pay, "otters", task="bill-7")


def test_after_gc_an_aborted_task_is_refused_still(place: Place) -> None:
    KNOBS["fail"] = True
    place.outlast.abort(place.run(pay, task="bill-7").run_id, why="never mind")
    swept(place)
    with pytest.raises(TaskAborted):
        place.run(pay, task="bill-7")


def test_after_gc_a_declined_task_is_refused_still(place: Place) -> None:
    bill = flow_file(place.script("bill.yaml", DECLINED))
    (wait,) = place.run(bill, task="bill-7").interrupts
    place.outlast.answer(wait.id, {"approved": False, "comment": "too dear"})
    swept(place)
    with pytest.raises(TaskDeclined):
        place.run(bill, task="bill-7")


def test_after_gc_again_asks_since_nobody_knows_what_was_done(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    swept(place)
    for named in ((), ("charge",)):  # a name cannot stand for what is not known
        with pytest.raises(RepeatsEffects, match=f"whatever run {first.run_id} did"):
            place.outlast._run(FlowCall(pay, (), {}, Options("bill-7", again=True, effects=named)))
    assert place.again(pay, task="bill-7").result == "kelp"
    assert place.run(pay, task="bill-7").result == "kelp"


def test_after_gc_a_block_with_a_task_is_refused_its_calls(place: Place) -> None:
    def nightly() -> None:
        with place.outlast.open("nightly", task="monday"):
            charge("kelp")

    nightly()
    swept(place)
    with pytest.raises(public.OutlastError) as caught:
        nightly()
    assert (caught.value.code, place.count("charge kelp")) == ("finished", 1)


def test_the_newest_run_counts_also_when_the_older_one_is_still_there(place: Place) -> None:
    place.run(pay, task="bill-7")
    place.clock.advance(10)
    second = place.again(pay, "otters", task="bill-7")
    assert place.run(pay, "otters", task="bill-7").run_id == second.run_id
    swept(place)
    assert place.run(pay, "otters", task="bill-7").run_id == second.run_id


def test_a_removed_run_without_a_name_is_done_anew(place: Place) -> None:
    place.run(pay)
    swept(place)
    assert place.run(pay).result == "kelp"


def test_a_removed_run_whose_name_was_edited_away_is_named_by_verify(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    swept(place)
    place.close()
    edit(place, "UPDATE tombstones SET named = 0")
    problems = place.outlast.verify().problems
    assert [problem.record for problem in problems] == [f"removed run {first.run_id}"]


def test_a_run_whose_name_was_edited_away_is_named_by_verify(place: Place) -> None:
    first = place.run(pay, task="bill-7")
    place.close()
    edit(place, "UPDATE runs SET named = 0")
    problems = place.outlast.verify().problems
    assert {problem.record for problem in problems} == {f"run {first.run_id}"}
    assert any("named" in problem.why for problem in problems)


def edit(place: Place, sql: str) -> None:
    connection = apsw.Connection(str(place.home / "default" / "outlast.db"))
    connection.execute(sql)
    connection.close()


# -- moving and copying ------------------------------------------------------------------------------


def test_a_moved_run_keeps_its_name_and_happens_once_where_it_is_now(place: Place, other: Place) -> None:
    KNOBS["fail"] = True
    first = place.run(pay, task="bill-7")
    travelled(place, other, first.run_id, move=True)
    KNOBS["fail"] = False
    with pytest.raises(RunSealed):
        place.run(pay, task="bill-7")
    done, again = other.run(pay, task="bill-7"), other.run(pay, task="bill-7")
    assert (done.run_id, done.replayed, again.replayed) == (first.run_id, False, True)
    assert (place.count("charge kelp"), other.outlast.verify().ok) == (1, True)


def test_a_finished_run_that_was_moved_counts_here_and_there(place: Place, other: Place) -> None:
    first = place.run(pay, task="bill-7")
    travelled(place, other, first.run_id, move=True)
    for home in (place, other):
        again = home.run(pay, task="bill-7")
        assert (again.run_id, again.replayed, again.result) == (first.run_id, True, "kelp")
    assert place.count("charge kelp") == 1


def test_the_operation_id_of_a_moved_run_means_it_there_too(place: Place, other: Place) -> None:
    KNOBS["fail"] = True
    first = place.outlast.with_options(operation_id="order 7").run(pay)
    travelled(place, other, first.run_id, move=True)
    KNOBS["fail"] = False
    for replayed in (False, True):
        done = other.outlast.with_options(operation_id="order 7").run(pay)
        assert (done.run_id, done.status, done.replayed) == (first.run_id, "succeeded", replayed)
    assert (place.count("charge kelp"), other.outlast.verify().ok) == (1, True)


def test_an_operation_id_that_means_something_else_there_is_in_the_way(place: Place, other: Place) -> None:
    first = place.outlast.with_options(operation_id="order 7").run(pay)
    other.outlast.with_options(operation_id="order 7").run(pay, "otters")
    with pytest.raises(RunExists, match="order 7"):
        travelled(place, other, first.run_id, move=True)
    assert len(other.outlast.runs()) == 1


def test_a_copy_brings_no_operation_id(place: Place, other: Place) -> None:
    first = place.outlast.with_options(operation_id="order 7").run(pay)
    travelled(place, other, first.run_id, move=False)
    assert other.outlast.with_options(operation_id="order 7").run(pay).run_id != first.run_id


def test_a_copy_says_nothing_about_what_happened_here(place: Place, other: Place) -> None:
    first = place.run(pay, task="bill-7")
    travelled(place, other, first.run_id, move=False)
    own = other.run(pay, task="bill-7")
    assert (own.run_id != first.run_id, own.replayed) == (True, False)


def test_a_removed_copy_says_nothing_either(place: Place, other: Place) -> None:
    first = place.run(pay, task="bill-7")
    travelled(place, other, first.run_id, move=False)
    swept(other)
    assert not other.run(pay, task="bill-7").replayed


def test_a_file_whose_name_was_taken_away_is_refused(place: Place, other: Place) -> None:
    first = place.run(pay, task="bill-7")
    place.outlast._executor.home.store.write(lambda tx: tx.execute("UPDATE runs SET named = 0"))  # with a new proof
    done = place.outlast.export(first.run_id, place.folder / "moved.zip", move=True)
    with pytest.raises(ArchiveInvalid, match="named"):
        other.outlast.import_(done.path)


def test_a_restored_backup_has_happened_too(place: Place, tmp_path: Path) -> None:
    first = place.run(pay, task="bill-7")
    place.outlast.backup(tmp_path / "backup")
    (tmp_path / "new").mkdir()
    public.restore(tmp_path / "backup", home=tmp_path / "new" / ".outlast")
    with Outlast(tmp_path / "new" / ".outlast") as restored:
        assert restored.run(pay, task="bill-7").run_id == first.run_id
    assert place.count("charge kelp") == 1
