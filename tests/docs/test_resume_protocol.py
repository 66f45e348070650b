"""The page on the resume protocol, sentence by sentence: each is quoted, and a run on the command line keeps it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.errors import RunFinished

from ..crash.command_folder import KILLED, Folder, Said
from ..kit.commands import lives, wait_until

DIE = "{ kill -9 $RUNTIME; sleep 300; }"
THREE = """\
- {id: plan, agent: planner, run: 'echo plan >> diary; echo plan > plan.md; echo 1 > $OUTLAST_RESULT', writes: plan.md}
- {id: build, run: echo build >> diary; test -f good}
- {id: ship, run: echo ship >> diary}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    yield found
    found.end()


def well(said: Said, code: int = 0) -> Said:
    assert said.code == code, said
    return said


def stopped_in(folder: Folder, command: str, *more: str) -> Folder:
    """A run that died in its second step, which left `half` in `out`."""
    lines = ["  writes: out", *(f"  {line}" for line in more)]
    steps = ["- {id: first, run: echo first >> diary}", "- id: second", f"  run: {json.dumps(command)}", *lines]
    folder.flow("\n".join([*steps, "- {id: third, run: echo third >> diary}"]))
    well(folder.cli("run", "flow.yaml"), KILLED)
    return folder


HALF = (
    'echo second >> diary; echo said $OUTLAST_ATTEMPT; cp "$OUTLAST_PREVIOUS" previous 2> /dev/null; cat out > found;'
    " echo half > out; test -f died || { touch died;"
    " while ! grep -qs said .outlast/default/work/*/*/transcript; do sleep 0.01; done; kill -9 $RUNTIME; sleep 300; };"
    " echo whole > out"
)


# -- the problem -------------------------------------------------------------------------------------


def test_a_run_that_failed_does_not_start_over_from_scratch_nor_lose_completed_work(folder: Folder) -> None:
    """> "Without a resume protocol: start over from scratch, lose completed work, repeat expensive operations"."""
    well(folder.flow(THREE).cli("run", "flow.yaml"), 1)
    folder.write("good", "")
    well(folder.cli("run", "flow.yaml"))
    assert folder.lines() == ["plan", "build", "build", "ship"]


def test_a_timeout_a_crash_an_interrupt_are_told_apart(folder: Folder) -> None:
    """> "Runs can fail for many reasons: API timeout, process crash, human interrupt, infrastructure failure"."""
    folder.flow("- {id: a, run: 'echo began >> diary; sleep 300', timeout: 0.3}")
    well(folder.cli("run", "flow.yaml"), 1)
    assert folder.statuses("a") == ["timed_out"]
    folder.flow(f"- {{id: a, run: '{DIE}'}}")
    well(folder.cli("run", "flow.yaml"), KILLED)
    assert folder.outlast.get(folder.run_id).status == "crashed"
    folder.flow("- {id: a, run: 'echo again >> diary; sleep 300'}")
    interrupted(folder, "again", signal.SIGINT, signal.SIGINT)
    assert folder.outlast.get(folder.run_id).status == "interrupted"


def interrupted(folder: Folder, line: str, *signals: int) -> Said:
    """A run that was asked to stop when its diary had the line; a second signal follows what the first one said."""
    child = folder.start("run", "flow.yaml")
    wait_until(lambda: line in folder.lines(), line)
    child.signal(signals[0])
    wait_until(lambda: "finishing" in child.err, "the answer to the signal")
    for number in signals[1:]:
        child.signal(number)
    if len(signals) == 1:
        folder.write("go", "")
    return child.wait()


# -- the checkpoint invariant ------------------------------------------------------------------------


def test_after_each_step_completes_its_receipt_is_written_to_disk(folder: Folder) -> None:
    """> "After each step completes: 1. Receipt written to disk". Seen by the next step, while the run goes on."""
    folder.flow(
        "- {id: one, agent: a, run: 'true'}\n- {id: two, run: cat .outlast/runs/$OUTLAST_RUN/build/receipts/one-a.json}"
    )
    well(folder.cli("run", "flow.yaml"))
    (facts,) = folder.facts("two")
    assert json.loads(facts["transcript"]["text"])["status"] == "succeeded"


def test_after_each_step_completes_its_artifacts_are_persisted(folder: Folder) -> None:
    """> "2. Artifacts persisted". The declared files are synced before the receipt, which has their digests."""
    folder.flow("- {id: one, run: echo made > out, writes: out}\n- {id: two, run: " + f"'{DIE}'}}")
    well(folder.cli("run", "flow.yaml"), KILLED)
    (facts,) = folder.facts("one")
    assert list(facts["files"]) == ["out"]
    assert len(facts["files"]["out"]) == 64
    assert folder.read("out") == "made\n"


def test_after_each_step_completes_its_handoff_envelope_is_committed(folder: Folder) -> None:
    """> "3. Handoff envelope committed". Together with the receipt; the next step of a later process is given it."""
    said = '{"done": "planned", "next": "build it", "artifacts": ["plan.md"], "state": {"risk": "low"}}'
    folder.flow(
        f"- id: one\n  run: |\n    echo '{said}' > $OUTLAST_ENVELOPE\n"
        f"- {{id: two, run: 'test -f died || {{ touch died; {DIE}; }}; cp $OUTLAST_HANDOFF handed'}}"
    )
    well(folder.cli("run", "flow.yaml"), KILLED)
    well(folder.cli("resume"))
    assert json.loads(said).items() <= json.loads(folder.read("handed")).items()


def test_after_each_step_completes_the_state_is_resumable(folder: Folder) -> None:
    """> "4. State is resumable". Killed after any of its steps, the run goes on with the next one."""
    steps = "\n".join(f"- {{id: s{n}, run: 'echo s{n} >> diary; test \"$AT\" != s{n} || {DIE}'}}" for n in range(4))
    folder.flow(steps)
    for number in range(4):
        well(folder.cli("run", "flow.yaml", AT=f"s{number}"), KILLED)
    well(folder.cli("run", "flow.yaml"))
    assert folder.lines() == ["s0", "s0", "s1", "s1", "s2", "s2", "s3", "s3"]


# -- what constitutes a checkpoint -------------------------------------------------------------------


def test_a_valid_checkpoint_exists_when_its_two_files_do(folder: Folder) -> None:
    """> "RUN_BASE/<flow>/receipts/<step_id>-<agent>.json exists, RUN_BASE/<flow>/handoffs/<step_id>-<agent>.json exists
    (if finalized)". RUN_BASE is `.outlast/runs/<run>`; a failed step has a receipt and hands nothing over."""
    well(folder.flow(THREE).cli("run", "flow.yaml"), 1)
    base = folder.path / ".outlast" / "runs" / folder.run_id / "build"
    assert sorted(file.name for file in (base / "receipts").iterdir()) == ["build-main.json", "plan-planner.json"]
    assert sorted(file.name for file in (base / "handoffs").iterdir()) == ["plan-planner.json"]
    assert folder.mirror("receipts", "plan-planner")["status"] == "succeeded"
    assert folder.mirror("receipts", "build-main")["status"] == "failed"
    assert folder.mirror("handoffs", "plan-planner")["result"] == 1


def test_the_files_of_a_checkpoint_are_never_read_back(folder: Folder) -> None:
    """The database is the truth: a receipt that somebody wrote, changed or removed decides nothing."""
    well(folder.flow(THREE).cli("run", "flow.yaml"), 1)
    base = folder.path / ".outlast" / "runs" / folder.run_id / "build" / "receipts"
    (base / "plan-planner.json").unlink()
    (base / "build-main.json").write_text(json.dumps({"step": "build", "status": "succeeded"}))
    folder.write("good", "")
    well(folder.cli("resume"))
    assert folder.lines() == ["plan", "build", "build", "ship"]


# -- resume logic ------------------------------------------------------------------------------------


def test_after_a_step_that_succeeded_the_run_resumes_from_the_next(folder: Folder) -> None:
    """> "if last_completed.status == "succeeded": return last_completed.step_index + 1  # Resume from next"."""
    folder.flow(THREE)
    well(folder.cli("run", "flow.yaml", failpoint="step.begun:2"), KILLED)
    assert folder.lines() == ["plan"]
    folder.write("good", "")
    well(folder.cli("resume"))
    assert folder.lines() == ["plan", "build", "ship"]


def test_after_a_step_that_failed_the_run_resumes_with_that_step(folder: Folder) -> None:
    """> "else: return last_completed.step_index  # Retry failed step"."""
    well(folder.flow(THREE).cli("run", "flow.yaml"), 1)
    well(folder.cli("resume"), 1)
    assert folder.lines() == ["plan", "build", "build"]
    assert [receipt.attempt for receipt in folder.receipts("build")] == [1, 2]


def test_a_finished_run_has_no_resume_point(folder: Folder) -> None:
    """The page's index past the last step is an end: a finished run refuses to resume."""
    folder.write("good", "")
    well(folder.flow(THREE).cli("run", "flow.yaml"))
    with pytest.raises(RunFinished):
        folder.resume()
    assert folder.lines() == ["plan", "build", "ship"]


# -- partial artifacts -------------------------------------------------------------------------------


def test_what_is_preserved_any_files_written_to_disk(folder: Folder) -> None:
    """> "What's Preserved: Any files written to disk". They are there, and named to the next attempt."""
    well(stopped_in(folder, HALF).cli("resume"))
    assert folder.read("found") == "half\n"
    previous = json.loads(folder.read("previous"))
    assert [(file["path"], file["change"]) for file in previous["files"]] == [("out", "created")]


def test_what_is_preserved_the_partial_transcript(folder: Folder) -> None:
    """> "Partial transcript (up to failure point)"."""
    well(stopped_in(folder, HALF).cli("resume"))
    previous = json.loads(folder.read("previous"))
    assert "said 1" in previous["tail"]


def test_what_is_preserved_uncommitted_git_changes(folder: Folder) -> None:
    """> "Git changes (uncommitted)". They are there, and named, whether they were declared or not."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    folder.write("tracked", "old\n")
    for words in (["init", "-q"], ["add", "tracked"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], cwd=folder.path, check=True)
    well(stopped_in(folder, f"echo new > tracked; {HALF}").cli("resume"))
    assert folder.read("tracked") == "new\n"
    assert {"tracked", "out"} <= set(json.loads(folder.read("previous"))["git"])


def test_what_is_lost_memory_the_uncommitted_handoff_and_the_route(folder: Folder) -> None:
    """> "What's Lost: In-memory state, Uncommitted handoff, Routing decision (never made)". Nothing of a crashed
    attempt is handed on: the next one says it anew, and what comes after is decided by that."""
    folder.flow(
        "- id: one\n  run: |\n    echo '{\"state\": {\"from\": '$OUTLAST_ATTEMPT'}}' > $OUTLAST_ENVELOPE\n"
        f"    test -f died || {{ touch died; {DIE}; }}\n"
        "- {id: two, run: cp $OUTLAST_HANDOFF handed, when: test -f died}"
    )
    well(folder.cli("run", "flow.yaml"), KILLED)
    assert [receipt.status for receipt in folder.receipts()] == ["started"]
    well(folder.cli("resume"))
    assert json.loads(folder.read("handed"))["state"] == {"from": 2}


# -- recovery strategy -------------------------------------------------------------------------------


def test_recovery_checks_for_partial_artifacts_and_assesses_their_completeness(folder: Folder) -> None:
    """> "1. Check for partial artifacts 2. Assess completeness"."""
    well(stopped_in(folder, HALF).cli("resume"))
    assert json.loads(folder.read("previous"))["judgement"] == "partial"


def test_recovery_either_resumes_with_partial_context(folder: Folder) -> None:
    """> "3. Either: Resume with partial context"."""
    well(stopped_in(folder, HALF, "on_partial: restore").cli("resume", "--partial", "keep"))
    assert folder.read("found") == "half\n"
    assert folder.read("out") == "whole\n"


def test_or_it_retries_the_step_from_scratch(folder: Folder) -> None:
    """> "Retry step from scratch". What gives way is kept."""
    folder.write("out", "before\n")
    well(stopped_in(folder, HALF).cli("resume", "--partial", "restore"))
    assert folder.read("found") == "before\n"
    assert folder.read("out") == "whole\n"
    assert [list(event.body["files"]) for event in folder.events("run.displaced")] == [["out"]]


def test_or_it_escalates_for_human_decision(folder: Folder) -> None:
    """> "Escalate for human decision"."""
    stopped_in(folder, HALF, "on_partial: ask")
    (wait,) = well(folder.cli("resume", "--json"), 4).json["interrupts"]
    assert wait["type"] == "partial"
    well(folder.cli("answer", wait["id"], '{"choice": "restore"}'))
    well(folder.cli("resume"))
    assert folder.read("found") == ""
    assert folder.read("out") == "whole\n"


# -- idempotence -------------------------------------------------------------------------------------


def test_an_idempotent_step_may_run_twice_and_the_result_is_the_same(folder: Folder) -> None:
    """> "Steps SHOULD be idempotent: running twice produces same result, no harmful side effects on retry, safe to
    resume after crash"."""
    stopped_in(folder, HALF)
    well(folder.cli("resume"))
    assert folder.read("out") == "whole\n"
    assert folder.lines() == ["first", "second", "second", "third"]


NOT_IDEMPOTENT = {
    "Git commits (would create duplicates)": (
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m $OUTLAST_EFFECT_KEY",
        "git log --format=%s | grep -q $OUTLAST_EFFECT_KEY",
        "git log --format=%s",
    ),
    "External API calls (might duplicate)": (
        "mkdir -p api; touch api/$OUTLAST_EFFECT_KEY-$$",
        "ls api/$OUTLAST_EFFECT_KEY-* || exit 1",
        "ls api",
    ),
    "File appends (would duplicate content)": (
        "echo $OUTLAST_EFFECT_KEY >> log",
        "grep -qs $OUTLAST_EFFECT_KEY log || exit 1",
        "cat log",
    ),
}


@pytest.mark.parametrize("sentence", NOT_IDEMPOTENT)
@pytest.mark.parametrize("dies", ["before", "after"])
def test_steps_that_are_not_idempotent_are_effects_and_happen_once(folder: Folder, sentence: str, dies: str) -> None:
    """> "Steps that are NOT idempotent: Git commits, External API calls, File appends". As effects with a probe they
    happen once, whether the crash came before or after."""
    subprocess.run(["git", "init", "-q"], cwd=folder.path, check=True)
    act, probe, count = NOT_IDEMPOTENT[sentence]
    die = f"test -f died || {{ touch died; {DIE}; }}"
    command = f"{die}; {act}" if dies == "before" else f"{act}; {die}"
    folder.flow(f"- id: act\n  effect: true\n  run: {json.dumps(command)}\n  confirm: {json.dumps(probe)}")
    well(folder.cli("run", "flow.yaml"), KILLED)
    well(folder.cli("resume"))
    done = subprocess.run(["sh", "-c", count], cwd=folder.path, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1


def test_without_a_probe_an_effect_is_never_repeated_unknowingly(folder: Folder) -> None:
    """The same without a probe: nobody knows, so nothing runs until a person has decided."""
    folder.flow(f"- {{id: act, effect: true, run: 'echo x >> diary; {DIE}'}}")
    well(folder.cli("run", "flow.yaml"), KILLED)
    for _ in range(2):
        (wait,) = well(folder.cli("resume", "--json"), 4).json["interrupts"]
    assert wait["type"] == "in_doubt"
    assert folder.lines() == ["x"]
    well(folder.cli("skip", folder.run_id, "act", "--result", "null", "--why", "it is there"))
    well(folder.cli("resume"))
    assert folder.lines() == ["x"]


def test_making_steps_idempotent_write_complete_state(folder: Folder) -> None:
    """> "Bad: Always appends. Good: Write complete state". Declared and put back, even an append is safe."""
    append = "echo line >> log; test -f died || { touch died; kill -9 $RUNTIME; sleep 300; }"
    folder.write("log", "")
    folder.flow(f"- id: bad\n  run: {json.dumps(append)}\n  writes: log\n  on_partial: restore")
    well(folder.cli("run", "flow.yaml"), KILLED)
    well(folder.cli("resume"))
    assert folder.lines("log") == ["line"]


# -- resume commands ---------------------------------------------------------------------------------


def test_resume_flow_from_last_checkpoint(folder: Folder) -> None:
    """> "Resume flow from last checkpoint: make stepwise-resume RUN_ID=abc123 FLOW=build" is `outlast resume abc123`;
    an id may be shortened."""
    well(folder.flow(THREE).cli("run", "flow.yaml"), 1)
    folder.write("good", "")
    well(folder.cli("resume", folder.run_id[:6]))
    assert folder.lines() == ["plan", "build", "build", "ship"]


def test_resume_from_specific_step(folder: Folder) -> None:
    """> "Resume from specific step: make stepwise-resume RUN_ID=abc123 FLOW=build START_STEP=step-3"."""
    well(folder.flow(THREE).cli("run", "flow.yaml"), 1)
    folder.write("good", "")
    well(folder.cli("resume", folder.run_id, "--from", "plan"))
    assert folder.lines() == ["plan", "build", "plan", "build", "ship"]
    assert folder.outlast.verify().ok


def test_retry_the_step_that_failed(folder: Folder) -> None:
    """> "Retry the step that failed: make stepwise-retry RUN_ID=abc123 FLOW=build STEP=step-3"."""
    well(folder.flow(THREE).cli("run", "flow.yaml"), 1)
    folder.write("good", "")
    well(folder.cli("retry", folder.run_id, "build"))
    well(folder.cli("resume"))
    assert folder.lines() == ["plan", "build", "build", "ship"]


def test_the_real_command_in_a_process_of_its_own(folder: Folder) -> None:
    """The same by the installed command line, killed at a write point and started again."""
    folder.flow(THREE)
    folder.write("good", "")
    env = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
    command = [sys.executable, "-m", "outlast", "run", "flow.yaml"]
    died = subprocess.run(
        command, cwd=folder.path, env=env | {"OUTLAST_FAILPOINT": "step.ended:2"}, capture_output=True, timeout=60
    )
    assert died.returncode == KILLED
    done = subprocess.run(command, cwd=folder.path, env=env, capture_output=True, timeout=60)
    assert done.returncode == 0, done
    assert folder.lines() == ["plan", "build", "build", "ship"]


# -- graceful shutdown -------------------------------------------------------------------------------

SLOW = """\
- id: one
  run: echo one >> diary; echo half > out; while ! test -f go; do sleep 0.02; done; echo whole > out
  writes: out
- {id: two, run: echo two >> diary}
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_on_a_signal_the_current_step_is_completed_if_possible(folder: Folder, number: int, code: int) -> None:
    """> "On SIGINT/SIGTERM: 1. Complete current LLM call (if possible)". The step under way ends well, the next one
    does not begin. "4. Exit cleanly"."""
    well(interrupted(folder.flow(SLOW), "one", number), code)
    assert folder.statuses("one") == ["succeeded"]
    assert folder.lines() == ["one"]
    assert folder.outlast.get(folder.run_id).status == "interrupted"
    well(folder.cli("resume"))
    assert folder.lines() == ["one", "two"]


def test_on_a_second_signal_a_partial_receipt_says_interrupted(folder: Folder) -> None:
    """> "2. Write partial receipt with status="interrupted"". It can be read in the mirror too."""
    well(interrupted(folder.flow(SLOW), "one", signal.SIGTERM, signal.SIGTERM), 143)
    assert folder.mirror("receipts", "one-main")["status"] == "interrupted"
    assert not list((folder.path / ".outlast" / "runs").glob("*/build/handoffs/*"))


def test_on_a_second_signal_any_artifacts_are_persisted(folder: Folder) -> None:
    """> "3. Persist any artifacts". What was left is on the receipt, and shown to the next attempt."""
    well(interrupted(folder.flow(SLOW), "one", signal.SIGTERM, signal.SIGTERM), 143)
    (facts,) = folder.facts("one")
    assert [file["path"] for file in facts["left"]["files"]] == ["out"]
    assert folder.read("out") == "half\n"


def test_after_a_signal_no_process_is_left_and_the_run_can_be_resumed(folder: Folder) -> None:
    """> "4. Exit cleanly"."""
    folder.flow(SLOW.replace("echo one >> diary", "echo $$ > pid; echo one >> diary"))
    well(interrupted(folder, "one", signal.SIGINT, signal.SIGINT), 130)
    assert not lives(folder.number("pid"))
    folder.write("go", "")
    well(folder.cli("resume"))
    assert folder.lines() == ["one", "one", "two"]
    assert folder.outlast.verify().ok


# -- hard crash --------------------------------------------------------------------------------------


def test_on_unexpected_termination_no_receipt_is_written(folder: Folder) -> None:
    """> "1. No receipt written". The journal knows that the attempt began, and how the files were."""
    stopped_in(folder, HALF)
    assert folder.statuses("second") == ["started"]
    assert not list((folder.path / ".outlast" / "runs").glob("*/build/receipts/second-main.json"))


def test_on_unexpected_termination_artifacts_may_be_partial(folder: Folder) -> None:
    """> "2. Artifacts may be partial"."""
    assert stopped_in(folder, HALF).read("out") == "half\n"


def test_the_next_run_detects_incomplete_state(folder: Folder) -> None:
    """> "3. Next run detects incomplete state". The run is `crashed`, the plan names the step and that it left work."""
    stopped_in(folder, HALF)
    assert well(folder.cli("runs", "--json")).json["runs"][0]["status"] == "crashed"
    plan = well(folder.cli("resume", "--dry-run", "--json")).json
    assert {"label": "second", "action": "retry"}.items() <= plan["steps"][-1].items()
    assert ("partial_work", "second") in [(reason["code"], reason["subject"]) for reason in plan["verdict"]["reasons"]]


def test_the_next_run_offers_retry(folder: Folder) -> None:
    """> "4. Offers: retry, skip, or abort": retry."""
    stopped_in(folder, HALF)
    well(folder.cli("retry", folder.run_id, "second"))
    well(folder.cli("resume"))
    assert folder.lines() == ["first", "second", "second", "third"]


def test_the_next_run_offers_skip(folder: Folder) -> None:
    """> "4. Offers: retry, skip, or abort": skip."""
    stopped_in(folder, HALF)
    well(folder.cli("skip", folder.run_id, "second", "--result", '"by hand"', "--why", "done by hand"))
    well(folder.cli("resume"))
    assert folder.lines() == ["first", "second", "third"]
    assert folder.statuses("second")[-1] == "skipped"


def test_the_next_run_offers_abort(folder: Folder) -> None:
    """> "4. Offers: retry, skip, or abort": abort."""
    stopped_in(folder, HALF)
    well(folder.cli("abort", folder.run_id, "--why", "not needed"))
    assert folder.outlast.get(folder.run_id).status == "aborted"
    assert folder.lines() == ["first", "second"]


def test_a_step_that_kills_its_process_again_and_again_makes_the_run_ask_for_one_of_the_three(folder: Folder) -> None:
    """> "4. Offers: retry, skip, or abort": without being asked, after the third crash in one step."""
    folder.flow(f"- {{id: a, run: 'echo a >> diary; {DIE}'}}")
    for _ in range(3):
        well(folder.cli("run", "flow.yaml"), KILLED)
    (wait,) = well(folder.cli("run", "flow.yaml", "--json"), 4).json["interrupts"]
    assert wait["type"] == "crash_loop"
    assert {"retry", "skip", "abort"} <= set(wait["choices"])
    assert folder.lines() == ["a", "a", "a"]


# -- the rule ----------------------------------------------------------------------------------------


def test_every_step_leaves_a_checkpoint_and_runs_are_resumable_by_default(folder: Folder) -> None:
    """> "Every step leaves a checkpoint. Runs are resumable by default. Steps should be idempotent. Partial state is
    explicitly handled." Conditions, loops and branches leave theirs too."""
    folder.flow(
        "- {id: one, run: 'true', when: 'true'}\n- {id: never, run: 'true', when: 'false'}\n"
        "- {id: loop, repeat: {max: 2, until: 'true', steps: [{id: in, run: 'true'}]}}\n"
        "- {id: both, parallel: [{id: left, run: 'true'}, {id: right, run: 'true'}]}"
    )
    well(folder.cli("run", "flow.yaml"))
    base = folder.path / ".outlast" / "runs" / folder.run_id / "build"
    names = {re.sub(r"-main\.json$", "", file.name) for file in (base / "receipts").iterdir()}
    assert {"one", "never", "loop", "in", "left", "right"} <= names
    assert {receipt.status for receipt in folder.receipts()} == {"succeeded", "skipped"}
