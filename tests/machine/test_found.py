"""What the machine has found, each as a sentence."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from .oracle import FILE, Step
from .python_rig import PythonRig
from .rig import EACH, FIRST, LOOP, SUB, WHY, Rig


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
    assert rig.files()[FILE] == "half\nwhole 0\n"


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


def test_going_back_to_a_step_that_was_set_aside_leaves_what_the_flow_did_not_come_to(rig: Rig) -> None:
    rig.go("", "mail", "refuse")
    run_id = rig.newest()
    rig.touch("look.in", "two")
    assert rig.go(run_id, "look", "fail") == "failed"  # the first look, and all else, stands behind this one now
    for _ in ("sets it aside", "finds it set aside"):
        rig.outlast.rewind(run_id, "use", why=WHY)
        assert rig.go(run_id, "look", "fail") == "failed"
    rig.touch("look.in", "one")
    before = len(rig.diary())
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["use", "mail"]


def test_a_fork_has_what_it_took_over_in_the_order_of_the_flow(rig: Rig) -> None:
    rig.go("", "mail", "refuse")
    rig.outlast.rewind(rig.newest(), "look", why=WHY)
    assert rig.go(rig.newest(), "mail", "refuse") == "failed"
    fork = rig.outlast.fork(rig.newest(), "use", why=WHY)
    rig.outlast.rewind(fork.id, "pay", why=WHY)
    before = len(rig.diary())
    assert rig.go(fork.id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["use", "mail"]


def test_two_skips_of_a_step_before_a_resume_are_two_attempts(rig: Rig) -> None:
    rig.go("", "look", "fail")
    run_id = rig.newest()
    rig.outlast.skip(run_id, "look", result=1, why=WHY)
    rig.outlast.skip(run_id, "look", result=2, why=WHY)
    assert rig.go(run_id, "mail", "refuse") == "failed"
    looked = [(receipt.attempt, receipt.status, receipt.result) for receipt in rig.receipts(run_id)][:3]
    assert looked == [(1, "failed", None), (2, "skipped", 1), (3, "skipped", 2)]


def test_the_plan_names_an_effect_that_somebody_lets_happen_again_with_other_inputs(rig: Rig) -> None:
    rig.go("", "mail", "refuse")
    run_id = rig.newest()
    rig.touch("pay.in", "two")
    assert rig.go(run_id, "", "") == "waiting"
    (wait,) = rig.outlast.interrupts(run_id)
    rig.outlast.answer(wait.id, {"choice": "again", "why": WHY})
    assert (planned(rig, run_id)["pay"], planned(rig, run_id)["mail"]) == ("redo", "retry")
    before = len(rig.diary())
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["pay", "mail"]


def with_files(rig: Rig, on_partial: str, back: str = "") -> None:
    flow = (replace(step, writes=on_partial) if step.writes else step for step in FIRST)
    rig.write(replace(step, back=back) if step.id == "use" else step for step in flow)


def test_a_call_to_which_the_flow_comes_again_stands_before_what_follows_it(rig: Rig) -> None:
    rig.go("", "pay", "fail late")
    run_id = rig.newest()
    for text in ("two", "one"):
        rig.touch("look.in", text)
        assert rig.go(run_id, "", "") == "waiting"
    for _ in range(2):
        rig.outlast.rewind(run_id, "look~2", why=WHY)
        assert rig.go(run_id, "", "") == "waiting"
    assert rig.diary() == ["look", "make", "pay", "look"]
    assert planned(rig, run_id) == {"look": "reuse", "make": "reuse", "pay": "decide", "look~2": "later"}


def test_the_plan_of_a_run_with_a_damaged_record_counts_what_was_decided(rig: Rig) -> None:
    rig.go("", "mail", "refuse")
    run_id = rig.newest()
    rig.damage(run_id, next(receipt for receipt in rig.receipts(run_id) if receipt.step == "look"))
    rig.outlast.rewind(run_id, "use", why=WHY)
    actions = {step.label: step.action for step in rig.plan(run_id, accept=["integrity_broken"]).steps}
    assert actions == {"look": "retry", "make": "reuse", "pay": "reuse", "use": "retry", "mail": "retry"}


def test_what_was_said_about_files_stays_said_when_the_run_goes_back_to_a_later_step(rig: Rig) -> None:
    with_files(rig, "ask", back="make")
    rig.go("", "use", "fail")
    run_id = rig.newest()
    assert rig.go(run_id, "", "") == "waiting"
    (wait,) = rig.outlast.interrupts(run_id)
    rig.outlast.answer(wait.id, {"choice": "restore", "why": WHY})
    rig.outlast.rewind(run_id, "use", why=WHY)
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.files()[FILE] == "half\nwhole 0\n"


def test_a_step_whose_receipt_is_damaged_finds_its_files_as_it_declared(rig: Rig) -> None:
    with_files(rig, "restore")
    rig.go("", "mail", "refuse")
    run_id = rig.newest()
    rig.damage(run_id, next(receipt for receipt in rig.receipts(run_id) if receipt.step == "make"))
    assert rig.go(run_id, "", "", ["integrity_broken"]) == "succeeded"
    assert rig.diary().count("make") == 2
    assert rig.files()[FILE] == "half\nwhole 0\n"


def test_a_fork_knows_who_wrote_a_file_last(rig: Rig) -> None:
    with_files(rig, "restore", back="look")
    rig.go("", "use", "fail")
    rig.write(replace(step, id="makex") if step.id == "make" else step for step in rig.flow)
    assert rig.go(rig.newest(), "", "") == "succeeded"
    fork = rig.outlast.fork(rig.newest(), "pay", why=WHY, yes=True)
    rig.remove(FILE)
    assert [reason.code for reason in rig.plan(fork.id).verdict.contesting] == ["output_missing"]


def test_a_step_that_was_set_aside_and_skipped_has_no_files_to_miss(rig: Rig) -> None:
    with_files(rig, "ask")
    rig.go("", "mail", "refuse")
    run_id = rig.newest()
    rig.outlast.rewind(run_id, "make", why=WHY)
    assert rig.go(run_id, "", "") == "waiting"
    rig.outlast.skip(run_id, "make", result=0, why=WHY)
    rig.remove(FILE)
    assert rig.go(run_id, "", "") == "succeeded"


def damaged(rig: Rig, step: str, forged: bytes = b'{"result":"forged"}') -> str:
    """A run that failed at its end, with a damaged receipt that somebody has accepted."""
    rig.go("", "mail", "refuse")
    run_id = rig.newest()
    rig.damage(run_id, next(receipt for receipt in rig.receipts(run_id) if receipt.step == step), forged)
    rig.go(run_id, "mail", "refuse", ["integrity_broken"])
    return run_id


def test_a_run_whose_damage_was_accepted_can_be_forked_and_its_effect_stays_in_doubt(rig: Rig) -> None:
    run_id = damaged(rig, "pay")
    fork = rig.outlast.fork(run_id, "mail", why=WHY, yes=True)
    assert planned(rig, fork.id)["pay"] == "decide"
    assert rig.go(fork.id, "", "") == "waiting"
    assert rig.diary().count("pay") == 1
    assert [problem.record for problem in rig.outlast.verify(fork.id).problems] == []


@pytest.mark.parametrize("forged", [b'{"result":"forged"}', b"\xff\x00 no json"])
def test_the_events_of_a_run_whose_damage_was_accepted_can_be_read(rig: Rig, forged: bytes) -> None:
    run_id = damaged(rig, "look", forged)
    names = [event.name for event in rig.outlast.events(run_id)]
    assert names[0] == "run.started"
    assert "run.accepted" in names
    assert rig.folder.cli("events", run_id).code == 0


BESIDE = """
- {id: first, run: echo first >> diary}
- id: both
  parallel:
    - {id: left, run: echo left >> diary}
    - {id: right, run: echo right >> diary}
- {id: sub, flow: other.yaml}
- {id: each, foreach: {items: [a, b], steps: [{id: item, run: echo item >> diary}]}}
- {id: last, run: 'echo last >> diary; test -e go'}
"""
OTHER = "flow: other\nsteps:\n  - {id: inner, run: echo inner >> diary}\n"


@pytest.mark.parametrize(
    ("step", "again"),
    [
        ("both", {"left", "right", "item", "last"}),
        ("sub", {"item", "last"}),
        ("each", {"item", "last"}),
    ],
)
def test_going_back_to_what_stands_for_many_does_them_again_and_says_so(rig: Rig, step: str, again: set[str]) -> None:
    rig.folder.write("other.yaml", OTHER)
    rig.folder.flow(BESIDE)
    assert rig.folder.run().status == "failed"
    run_id = next(run.id for run in rig.outlast.runs() if not run.parent)
    plan = rig.plan(run_id, from_step=step)
    actions = {each.label: (each.action, each.why) for each in plan.steps}
    assert {each.step for each in plan.steps if each.action in ("retry", "redo")} - {"each"} == again
    assert actions["each"][0] == "retry"
    assert actions["sub"][0] == "reuse"
    assert ("kept" in actions["sub"][1]) == (step != "each")
    before = len(rig.diary())
    rig.folder.write("go", "")
    rig.folder.cli("resume", run_id, "--from", step)
    assert set(rig.diary()[before:]) == again


def test_the_plan_and_the_show_of_a_run_whose_sub_flow_failed_name_what_failed(rig: Rig) -> None:
    rig.folder.write("other.yaml", OTHER + "  - {id: bad, run: 'echo bad >> diary; test -e go'}\n")
    rig.folder.flow(BESIDE)
    assert rig.folder.run().status == "failed"
    run_id = next(run.id for run in rig.outlast.runs() if not run.parent)
    (child,) = [run for run in rig.outlast.runs() if run.parent]
    plan = rig.plan(run_id)
    assert plan.ahead == ("sub/bad", "each[a]/item", "each[b]/item", "last")
    assert child.id in rig.folder.cli("show", run_id).out
    before = len(rig.diary())
    rig.folder.write("go", "")
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["bad", "item", "item", "last"]


def test_a_loop_that_has_begun_is_not_told_as_without_receipt(rig: Rig) -> None:
    item = "{id: item, run: 'test -e go'}"
    rig.folder.flow(f"- {{id: each, foreach: {{items: [a, b], steps: [{item}]}}}}\n- {{id: last, run: 'true'}}")
    assert rig.folder.run().status == "failed"
    said = rig.folder.cli("run", "flow.yaml", "--dry-run", "--json").json
    assert [step["id"] for step in said["steps"]] == ["last"]


def test_an_effect_of_an_item_happens_without_a_question_though_that_of_a_later_item_has(rig: Rig) -> None:
    rig.write([EACH, Step("last")])
    assert rig.go("", "item@a", "fail") == "failed"
    run_id = rig.newest()
    assert rig.plan(run_id).ahead == ("each[a]/send", "last")
    before = len(rig.diary())
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["item@a", "send@a", "last"]


def test_the_plan_of_going_back_into_a_loop_names_the_rounds_that_follow_and_the_loop(rig: Rig) -> None:
    rig.write([LOOP, Step("last")])
    rig.go("", "last", "fail")
    run_id = rig.newest()
    again = ("fix[1]/author", "fix[1]/until", "fix[2]/author", "fix[2]/until", "fix", "last")
    assert rig.plan(run_id, from_step="fix[1]/author").of("retry") == again
    before = len(rig.diary())
    assert rig.from_(run_id, "fix[1]/author") == "succeeded"
    assert rig.diary()[before:] == ["author@1", "until@1", "author@2", "until@2", "last"]


def test_going_back_to_a_loop_begins_it_anew_also_when_its_end_was_set_aside(rig: Rig) -> None:
    rig.write([LOOP, Step("last")])
    rig.go("", "last", "fail")
    run_id = rig.newest()
    assert rig.outlast.rewind(run_id, "fix[1]/until", why=WHY)
    assert rig.go(run_id, "until@1", "fail") == "failed"
    assert "fix[1]/author" in rig.plan(run_id, from_step="fix").of("retry")
    before = len(rig.diary())
    assert rig.from_(run_id, "fix") == "succeeded"
    assert rig.diary()[before:] == ["author@1", "until@1", "author@2", "until@2", "last"]


@pytest.mark.parametrize(
    ("result", "then"),
    [
        (True, ["last"]),
        (False, ["author@2", "bill@2", "until@2", "last"]),
        (0, ["author@2", "bill@2", "until@2", "last"]),
    ],
)
def test_who_skips_a_condition_says_by_the_result_whether_it_holds(rig: Rig, result: object, then: list[str]) -> None:
    rig.write([LOOP, Step("last")])
    assert rig.go("", "until@1", "fail") == "failed"
    rig.outlast.skip(rig.newest(), "fix[1]/until", result=result, why=WHY)
    before = len(rig.diary())
    assert rig.go(rig.newest(), "", "") == "succeeded"
    assert rig.diary()[before:] == then


def in_another_flow(rig: Rig, how: str) -> tuple[str, str]:
    """A run that ended in another flow; and the run of that."""
    rig.write([SUB, Step("last")])
    rig.go("", "charge", how)
    return rig.newest(), next(run.id for run in rig.outlast.runs() if run.parent)


def test_the_plan_of_a_run_whose_child_waited_counts_what_was_decided_there(rig: Rig) -> None:
    run_id, child = in_another_flow(rig, "fail late")
    assert (rig.outlast.get(run_id).status, rig.plan(run_id).ahead) == ("waiting", ())
    rig.outlast.skip(child, "charge", result=0, why=WHY)
    assert rig.plan(run_id).ahead == ("last",)
    assert rig.go(run_id, "", "") == "succeeded"


def test_a_child_whose_flow_does_not_ask_any_more_for_what_it_waits_for_goes_on_with_its_parent(rig: Rig) -> None:
    run_id, child = in_another_flow(rig, "fail late")
    rig.write([replace(SUB, steps=(Step("inner"), Step("chargex", "effect"))), Step("last")])
    assert rig.plan(run_id).ahead == ("sub/chargex", "last")
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.diary() == ["inner", "charge", "chargex", "last"]
    assert rig.outlast.interrupts(child) == []


def test_the_plan_names_nothing_of_a_child_that_is_refused_nor_of_what_follows_it(rig: Rig) -> None:
    run_id, child = in_another_flow(rig, "refuse")
    rig.damage(child, rig.receipts(child)[0])
    before = rig.diary()
    assert rig.plan(run_id).ahead == ()
    assert rig.go(run_id, "", "") == "failed"
    assert rig.diary() == before


def test_the_plan_of_a_run_whose_child_was_resumed_alone_goes_on_behind_it(rig: Rig) -> None:
    run_id, child = in_another_flow(rig, "refuse")
    assert rig.go(child, "", "") == "succeeded"
    assert rig.plan(run_id).ahead == ("last",)
    before = len(rig.diary())
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["last"]


def test_a_fork_has_no_receipts_of_what_it_does_anew_but_of_steps_that_wrote_files(rig: Rig) -> None:
    rig.write([*FIRST[:2], LOOP, Step("last")])
    rig.go("", "last", "fail")
    fork = rig.outlast.fork(rig.newest(), "make", why=WHY, yes=True)
    assert [receipt.label for receipt in rig.receipts(fork.id)] == ["look", "make"]


def test_a_fork_knows_of_a_damaged_effect_that_it_took_over_that_its_probe_can_be_asked() -> None:
    rig = PythonRig()
    rig.write(FIRST)
    assert rig.go("", "", "") == "succeeded"
    fork = rig.outlast.fork(rig.newest(), "look", why=WHY, reuse_effects=True)
    rig.damage(fork.id, next(receipt for receipt in rig.receipts(fork.id) if receipt.step == "mail"))
    accepted = ["integrity_broken"]
    assert rig.plan(fork.id, accept=accepted).of("confirm") == ("mail",)
    assert rig.go(fork.id, "", "", accepted) == "succeeded"
    assert rig.diary().count("mail") == 1
    rig.end()


def test_a_fork_begins_another_flow_anew_that_the_flow_came_to_after_its_step(rig: Rig) -> None:
    rig.write([Step("look"), SUB, Step("last")])
    rig.go("", "last", "fail")
    moved(rig, 1, 2)
    assert rig.go(rig.newest(), "last", "fail") == "failed"
    fork = rig.outlast.fork(rig.newest(), "last", why=WHY, yes=True)
    assert rig.plan(fork.id).ahead == ("last", "sub")
    before = len(rig.diary())
    assert rig.go(fork.id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["last", "inner", "charge"]


def test_a_fork_takes_another_flow_over_to_which_the_flow_came_again_before_its_step(rig: Rig) -> None:
    rig.write([Step("look"), SUB, Step("last")])
    rig.go("", "last", "fail")
    assert rig.outlast.rewind(rig.newest(), "look", why=WHY)
    assert rig.go(rig.newest(), "last", "fail") == "failed"
    fork = rig.outlast.fork(rig.newest(), "last", why=WHY, yes=True)
    before = len(rig.diary())
    assert rig.go(fork.id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["last"]


@pytest.mark.parametrize("how", ["fail", "kill"])
def test_another_flow_that_goes_on_stands_where_the_flow_came_to_it(rig: Rig, how: str) -> None:
    rig.write([Step("look"), Step("then"), SUB])
    rig.go("", "inner", "fail")
    run_id = rig.newest()
    moved(rig, 2, 1)
    rig.go(run_id, "inner", how)
    plan = rig.plan(run_id, from_step="sub")
    assert ("then" in plan.of("retry"), plan.of("reuse")) == (True, ("look",))


def test_items_that_the_flow_came_to_stand_before_a_call_that_it_did_not_come_to(rig: Rig) -> None:
    rig.write([FIRST[0], EACH])
    assert rig.go("", "send@b", "fail") == "waiting"
    run_id = rig.newest()
    rig.touch("look.in", "two")
    assert rig.go(run_id, "", "") == "waiting"
    rig.outlast.rewind(run_id, "each[a]/item", why=WHY)
    rig.touch("look.in", "one")
    assert rig.plan(run_id).of("retry") == ("look", "each[a]/item", "each[b]/item")
    before = len(rig.diary())
    assert rig.go(run_id, "", "") == "waiting"
    assert rig.diary()[before:] == ["look", "item@a", "item@b"]


def test_a_question_about_files_stays_asked_until_it_is_answered(rig: Rig) -> None:
    with_files(rig, "restore")
    assert rig.go("", "make", "fail") == "failed"
    fork = rig.outlast.fork(rig.newest(), "look", why=WHY)
    rig.touch(FILE, "edited\n")
    for _ in range(2):
        assert rig.go(fork.id, "", "") == "waiting"
        assert rig.plan(fork.id).of("decide") == ("make",)
    (wait,) = (wait for wait in rig.outlast.interrupts(fork.id) if wait.status == "open")
    rig.outlast.answer(wait.id, {"choice": "keep", "why": WHY})
    assert rig.go(fork.id, "", "") == "succeeded"
    assert rig.files()[FILE] == "edited\nhalf\nwhole 0\n"


def test_who_removes_the_step_that_made_a_file_lets_its_readers_read_it_as_one_from_outside(rig: Rig) -> None:
    assert rig.go("", "mail", "refuse") == "failed"
    run_id = rig.newest()
    rig.write(step for step in FIRST if step.id != "make")
    assert planned(rig, run_id) == {"look": "reuse", "make": "leave", "pay": "reuse", "use": "redo", "mail": "retry"}
    before = len(rig.diary())
    assert rig.go(run_id, "", "") == "succeeded"
    assert rig.diary()[before:] == ["use", "mail"]
