"""What the machine has found, each as a sentence."""

from collections.abc import Iterator

import pytest

from .oracle import FILE, Step
from .rig import FIRST, WHY, Rig


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    rig.write(FIRST)
    yield rig
    rig.end()


def planned(rig: Rig, run_id: str) -> dict[str, str]:
    return {step.label: step.action for step in rig.plan(run_id).steps}


def test_the_plan_of_a_run_that_goes_back_over_a_step_with_files_names_all_that_follows(rig: Rig) -> None:
    assert rig.go("", "mail", "refuse") == "failed"
    run_id = rig.newest()
    rig.outlast.rewind(run_id, "look", why=WHY)
    redone, kept = dict.fromkeys(("look", "make", "use", "mail"), "retry"), {"pay": "reuse"}
    assert planned(rig, run_id) == redone | kept
    before = len(rig.diary())
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["look", "make", "use", "mail"]


def test_files_of_finished_steps_are_looked_at_also_where_a_record_is_damaged(rig: Rig) -> None:
    rig.go("", "mail", "refuse")
    run_id = rig.newest()
    rig.damage(run_id, next(receipt for receipt in rig.receipts(run_id) if receipt.step == "use"))
    rig.remove(FILE)
    contesting = [reason.code for reason in rig.plan(run_id).verdict.contesting]
    assert sorted(contesting) == ["integrity_broken", "output_missing"]
    assert rig.go(run_id, "", "", ["integrity_broken"]) == "contested"
    assert rig.diary().count("use") == 1


def test_a_file_is_put_back_in_a_run_whose_damage_was_accepted(rig: Rig) -> None:
    rig.go("", "mail", "refuse")
    run_id = rig.newest()
    rig.damage(run_id, next(receipt for receipt in rig.receipts(run_id) if receipt.step == "look"))
    assert rig.go(run_id, "mail", "refuse", ["integrity_broken"]) == "failed"
    rig.remove(FILE)
    assert [output.found for output in rig.outlast.outputs(run_id)] == ["missing"]
    rig.outlast.restore_outputs(run_id)
    assert rig.files()[FILE] == "whole 0\n"


def moved(rig: Rig, at: int, to: int) -> None:
    flow = list(rig.flow)
    flow.insert(to, flow.pop(at))
    rig.write(flow)


def test_going_back_to_a_step_that_failed_and_was_moved_behind_others_leaves_those_alone(rig: Rig) -> None:
    rig.go("", "look", "fail")
    run_id = rig.newest()
    moved(rig, 0, 4)
    assert rig.go(run_id, "look", "fail") == "failed"
    rig.outlast.rewind(run_id, "look", why=WHY)
    before = len(rig.diary())
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["look"]


def test_going_back_sets_aside_also_what_the_flow_did_not_come_to_the_last_time(rig: Rig) -> None:
    rig.go("", "mail", "refuse")
    run_id = rig.newest()
    rig.touch("look.in", "two")
    rig.write([*FIRST[:2], Step("new"), *FIRST[2:]])
    assert rig.go(run_id, "new", "fail") == "failed"
    rig.outlast.rewind(run_id, "make", why=WHY)
    before = len(rig.diary())
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["make", "new", "use", "mail"]


def test_a_fork_has_what_it_took_over_in_the_order_of_the_flow(rig: Rig) -> None:
    rig.go("", "mail", "refuse")
    rig.outlast.rewind(rig.newest(), "look", why=WHY)
    assert rig.go(rig.newest(), "mail", "refuse") == "failed"
    fork = rig.outlast.fork(rig.newest(), "use", why=WHY)
    rig.outlast.rewind(fork.id, "pay", why=WHY)
    before = len(rig.diary())
    assert rig.go(fork.id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["use", "mail"]
