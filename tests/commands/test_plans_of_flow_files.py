"""The plan of a flow file says what a resume then does: asked first, resumed, and compared."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Plan
from outlast.errors import OutlastError

from ..crash.command_folder import KILLED, Folder
from ..kit.commands import lives


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def say(name: str) -> str:
    return f"echo {name} >> diary"


LAST = "- {id: last, run: 'echo last >> diary; test -e go'}"


def actions(plan: Plan) -> dict[str, str]:
    return {step.label: step.action for step in plan.steps}


def codes(plan: Plan) -> list[tuple[str, str]]:
    return [(reason.code, reason.subject) for reason in plan.verdict.reasons]


def planned(folder: Folder) -> Plan:
    return folder.outlast.plan(folder.run_id)


def as_planned(folder: Folder, plan: Plan) -> list[str]:
    """Resume, see that the verdict is that of the plan, and say what ran."""
    before = folder.lines()
    folder.write("go", "")
    outcome = folder.resume()
    assert outcome.verdict == plan.verdict
    return folder.lines()[len(before) :]


# -- what a step reads -------------------------------------------------------------------------------


def test_a_step_that_reads_a_changed_file_is_planned_anew_and_done_anew(folder: Folder) -> None:
    folder.write("in.txt", "one")
    folder.flow(f"- {{id: first, run: {say('first')}}}\n- {{id: build, run: {say('build')}, reads: in.txt}}\n{LAST}")
    assert folder.run().status == "failed"
    assert actions(planned(folder)) == {"first": "reuse", "build": "reuse", "last": "retry"}
    folder.write("in.txt", "two")
    plan = planned(folder)
    assert actions(plan) == {"first": "reuse", "build": "redo", "last": "retry"}
    assert codes(plan) == [("inputs_changed", "build")]
    assert as_planned(folder, plan) == ["build", "last"]


def test_an_effect_that_reads_a_changed_file_is_planned_to_be_asked_about(folder: Folder) -> None:
    folder.write("in.txt", "one")
    folder.flow(f"- {{id: send, run: {say('send')}, reads: in.txt, effect: true}}\n{LAST}")
    folder.run()
    folder.write("in.txt", "two")
    plan = planned(folder)
    assert actions(plan) == {"send": "decide", "last": "later"}
    assert (plan.refused, plan.ahead) == (None, ())
    assert as_planned(folder, plan) == []
    assert [wait.type for wait in folder.outlast.interrupts(folder.run_id)] == ["inputs_changed"]


def test_what_a_failed_step_left_is_dealt_with_though_the_file_that_it_reads_was_mended(folder: Folder) -> None:
    folder.write("in.txt", "bad")
    build = "cat in.txt >> out.txt; grep -q good in.txt"
    folder.flow(f"- {{id: build, run: '{build}', reads: in.txt, writes: out.txt, on_partial: restore}}")
    assert folder.run().status == "failed"
    folder.write("in.txt", "good")
    assert actions(planned(folder)) == {"build": "retry"}
    assert folder.resume().status == "succeeded"
    assert folder.read("out.txt") == "good"


# -- partial work ------------------------------------------------------------------------------------

HALF = "echo build >> diary; echo half >> out.txt; test -e go"


def test_partial_files_are_named_after_a_failure_as_after_a_crash(folder: Folder) -> None:
    folder.flow(f"- {{id: build, run: '{HALF} || exit 1', writes: out.txt}}")
    assert folder.run().status == "failed"
    failed = planned(folder)
    assert [(r.code, r.subject, r.found) for r in failed.verdict.reasons] == [
        ("partial_work", "build", "attempt 1 failed, left partial: out.txt created")
    ]
    assert as_planned(folder, failed) == ["build"]


def test_a_crash_leaves_the_same_reason_for_the_plan_and_for_the_resume(folder: Folder) -> None:
    folder.flow("- {id: build, run: 'echo half >> out.txt; test -e go || kill -9 $RUNTIME', writes: out.txt}")
    assert folder.cli("run", "flow.yaml").code == KILLED
    folder.write("go", "")
    plan = planned(folder)
    (partial,) = [reason for reason in plan.verdict.reasons if reason.code == "partial_work"]
    assert partial.found == "attempt 1 crashed, left partial: out.txt created"
    outcome = folder.resume()
    assert outcome.verdict is not None
    assert [reason for reason in outcome.verdict.reasons if reason.code == "partial_work"] == [partial]


def test_on_partial_ask_is_planned_as_a_decision_and_asked(folder: Folder) -> None:
    folder.flow(f"- {{id: build, run: '{HALF}', writes: out.txt, on_partial: ask}}\n- {{id: end, run: {say('end')}}}")
    folder.run()
    plan = planned(folder)
    assert (actions(plan), plan.ahead) == ({"build": "decide"}, ())
    assert as_planned(folder, plan) == []
    (wait,) = folder.outlast.interrupts(folder.run_id)
    assert wait.type == "partial"
    folder.outlast.answer(wait.id, {"choice": "keep"}, resume=False)
    plan = planned(folder)
    assert (actions(plan), plan.ahead) == ({"build": "retry"}, ("end",))
    assert as_planned(folder, plan) == ["build", "end"]


def test_a_file_edited_since_is_planned_to_be_asked_about_where_it_was_to_be_restored(folder: Folder) -> None:
    folder.flow(f"- {{id: build, run: '{HALF}', writes: out.txt, on_partial: restore}}")
    folder.run()
    assert actions(planned(folder)) == {"build": "retry"}
    folder.write("out.txt", "mine")
    plan = planned(folder)
    assert actions(plan) == {"build": "decide"}
    assert as_planned(folder, plan) == []
    assert folder.read("out.txt") == "mine"


# -- where the flow goes -----------------------------------------------------------------------------


def test_steps_that_resume_to_goes_back_over_are_planned_anew(folder: Folder) -> None:
    folder.flow(
        f"- {{id: first, run: {say('first')}}}\n- {{id: fetch, run: {say('fetch')}}}\n"
        f"- {{id: mix, run: {say('mix')}}}\n"
        "- {id: use, run: 'echo use >> diary; test -e go', resume_to: fetch}"
    )
    folder.run()
    plan = planned(folder)
    assert actions(plan) == {"first": "reuse", "fetch": "redo", "mix": "redo", "use": "retry"}
    assert as_planned(folder, plan) == ["fetch", "mix", "use"]


def test_a_renamed_step_is_planned_as_left_and_as_ahead(folder: Folder) -> None:
    steps = f"- {{id: build, run: {say('build')}}}\n{LAST}"
    folder.flow(steps)
    folder.run()
    folder.flow(steps.replace("id: build", "id: make"))
    plan = planned(folder)
    assert (actions(plan), plan.ahead) == ({"build": "leave", "last": "retry"}, ("make",))
    assert codes(plan) == [("code_changed", "build")]
    assert as_planned(folder, plan) == ["build", "last"]
    assert folder.statuses("make") == ["succeeded"]


def test_a_plan_names_the_steps_ahead_until_the_flow_has_to_wait(folder: Folder) -> None:
    folder.flow(
        f"{LAST}\n- {{id: both, parallel: [{{id: a, run: {say('a')}}}, {{id: b, run: {say('b')}}}]}}\n"
        f"- {{id: ok, pause_for: approval}}\n- {{id: after, run: {say('after')}}}"
    )
    folder.run()
    plan = planned(folder)
    assert (actions(plan), plan.ahead) == ({"last": "retry"}, ("a", "b"))
    assert sorted(as_planned(folder, plan)) == ["a", "b", "last"]
    (wait,) = folder.outlast.interrupts(folder.run_id)
    assert planned(folder).ahead == ()
    folder.outlast.answer(wait.id, {"approved": True}, resume=False)
    plan = planned(folder)
    assert plan.ahead == ("after",)
    assert as_planned(folder, plan) == ["after"]


def test_a_decision_that_nobody_has_taken_yet_is_in_the_plan(folder: Folder) -> None:
    folder.flow(f"- {{id: first, run: {say('first')}}}\n{LAST}\n- {{id: end, run: {say('end')}}}")
    folder.run()
    folder.outlast.skip(folder.run_id, "last", result=None, why="not needed")
    plan = planned(folder)
    assert (actions(plan), plan.ahead) == ({"first": "reuse", "last": "reuse"}, ("end",))
    assert as_planned(folder, plan) == ["end"]


def test_a_rewind_that_nobody_has_taken_yet_is_in_the_plan(folder: Folder) -> None:
    folder.flow(f"- {{id: first, run: {say('first')}}}\n- {{id: then, run: {say('then')}}}\n{LAST}")
    folder.run()
    folder.outlast.rewind(folder.run_id, "then", why="again")
    plan = planned(folder)
    assert actions(plan)["first"] == "reuse"
    assert as_planned(folder, plan) == ["then", "last"]
    assert {"then", "last"} <= {*plan.ahead, *plan.of("redo"), *plan.of("retry")}


# -- what refuses a resume ---------------------------------------------------------------------------


def refused(folder: Folder) -> str:
    """The code that a resume is refused with."""
    with pytest.raises(OutlastError) as caught:
        folder.resume()
    return caught.value.code


def broken(folder: Folder, how: str) -> None:
    folder.write("spare.yaml", folder.read("flow.yaml"))
    match how:
        case "gone":
            (folder.path / "flow.yaml").unlink()
        case "invalid":
            folder.write("flow.yaml", "flow: build\nsteps: [{id: a, rum: x}]\n")
        case "no yaml":
            folder.write("flow.yaml", "flow: [")
        case "other name":
            folder.write("flow.yaml", folder.read("flow.yaml").replace("flow: build", "flow: other"))
        case "other inputs":
            folder.write("flow.yaml", "inputs: {ticket: string}\n" + folder.read("flow.yaml"))
        case "a secret":
            folder.write("flow.yaml", "secrets: [NO_SUCH_SECRET_HERE]\n" + folder.read("flow.yaml"))


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("gone", "flow_not_found"),
        ("invalid", "recipe_invalid"),
        ("no yaml", "recipe_invalid"),
        ("other name", "flow_not_found"),
        ("other inputs", "inputs_invalid"),
        ("a secret", "secret_missing"),
    ],
)
def test_a_flow_file_that_cannot_be_used_is_in_the_plan_with_the_code_that_refuses(
    folder: Folder, how: str, code: str
) -> None:
    folder.flow(LAST)
    folder.run()
    broken(folder, how)
    plan = planned(folder)
    assert plan.refused is not None
    assert (plan.refused.code, plan.ahead) == (code, ())
    assert code == refused(folder)
    assert folder.outlast.get(folder.run_id).status == "failed"
    said = folder.cli("resume", folder.run_id, "--dry-run")
    assert (said.code, f"refused ({code})" in said.out) == (0, True)
    assert f"continue: outlast resume {folder.run_id}" not in said.out


def test_the_plan_of_a_run_that_somebody_holds_says_that_a_resume_is_refused(folder: Folder) -> None:
    folder.flow("- {id: slow, run: 'echo $$ > pid; while ! test -e go; do sleep 0.05; done'}")
    child = folder.start("run", "flow.yaml")
    folder.number("pid")
    plan = planned(folder)
    assert plan.refused is not None
    assert (plan.refused.code, plan.verdict.word) == ("run_held", "contested")
    assert refused(folder) == "run_held"
    folder.write("go", "")
    assert child.wait().code == 0


# -- what is alive, and what came from elsewhere -----------------------------------------------------


def test_a_leftover_process_is_named_by_the_plan_and_by_the_resume_that_ends_it(folder: Folder) -> None:
    slow = "echo slow >> diary; echo $$ > pid; while ! test -e go; do sleep 0.05; done"
    folder.flow(f"- {{id: slow, run: '{slow}'}}")
    child = folder.start("run", "flow.yaml")
    pid = folder.number("pid")
    os.kill(child.guard(), 9)
    child.kill()
    assert lives(pid)
    plan = planned(folder)
    assert (plan.refused, actions(plan)) == (None, {"slow": "retry"})
    assert ("still_running", "slow") in codes(plan)
    (folder.path / "pid").unlink()
    resumed = folder.start("resume", folder.run_id, "--json")
    assert folder.number("pid") != pid
    assert not lives(pid)
    folder.write("go", "")
    told: Any = resumed.wait().json
    assert [reason["code"] for reason in told["verdict"]["reasons"]] == [code for code, _ in codes(plan)]


def test_an_imported_run_is_never_trusted_and_a_copy_says_that_it_cannot_go_on(folder: Folder, tmp_path: Path) -> None:
    folder.flow(f"- {{id: first, run: {say('first')}}}\n{LAST}")
    folder.run()
    run_id = folder.run_id
    assert planned(folder).verdict.word == "trusted"
    copy = folder.outlast.export(run_id, tmp_path / "copy.zip")
    looked = Folder(tmp_path / "looked")
    looked.outlast.import_(copy.path)
    plan = looked.outlast.plan(run_id)
    assert plan.refused is not None
    assert (plan.verdict.word, codes(plan), plan.refused.code) == ("candidate", [("imported", run_id)], "run_sealed")
    moved = folder.outlast.export(run_id, tmp_path / "moved.zip", move=True)
    there = Folder(tmp_path / "there")
    there.flow(f"- {{id: first, run: {say('first')}}}\n{LAST}")
    there.outlast.import_(moved.path)
    plan = there.outlast.plan(run_id)
    assert (plan.verdict.word, codes(plan), plan.refused) == ("candidate", [("imported", run_id)], None)
    assert as_planned(there, plan) == ["last"]
    for each in (looked, there):
        each.end()


def test_a_step_that_was_gone_back_to_and_left_files_is_planned_to_run(folder: Folder) -> None:
    folder.flow(f"- {{id: make, run: {say('make')}; echo 1 > made.txt, writes: made.txt}}\n{LAST}")
    folder.run()
    folder.outlast.rewind(folder.run_id, "make")
    plan = planned(folder)
    assert actions(plan) == {"make": "retry", "last": "retry"}
    assert as_planned(folder, plan) == ["make", "last"]
