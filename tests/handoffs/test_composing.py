"""Never a goodbye: what an unfinished run gives to whoever continues its task, though nobody wrote it down."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from outlast import Outlast, Run, current, effect, flow, step
from outlast.commands.mirror import _handoff as mirrored
from outlast.errors import StepAmbiguous, StepNotFound
from outlast.handoffs.compose import Composed, compose, step_handoff
from outlast.handoffs.handoff import MAX_BYTES, Handoff, Lint, encode_handoff

from ..crash.command_folder import Folder
from ..kit.place import Place, reach
from ..ready import completed


@step(agent="planner")
def plan(topic: str) -> str:
    current().envelope(done=f"planned {topic}", next="write the draft")
    return "a plan"


@step
def count(name: str) -> int:
    run = current()
    run.state[name] = run.state.get(name, 0) + 1
    return int(run.state[name])


@step(writes=["draft.md", "parts/*.md"])
def write(folder: str) -> str:
    Path(folder, "draft.md").write_text("half of it")
    reach("writing")
    return "a draft"


@step
def fail() -> str:
    raise ValueError("no paper\nleft")


@effect
def publish() -> str:
    reach("publishing")
    return "published"


@flow
def reports(run: Run, folder: str) -> str:
    run.phase = "planning"
    run.state["topic"] = "tides"
    plan("tides")
    reach("planned")
    write(folder)
    return publish()


@flow
def fails(run: Run) -> str:
    plan("tides")
    return fail()


@flow
def stops(run: Run) -> None:
    plan("tides")
    raise KeyboardInterrupt


def composed(place: Place, task: str = "report", base: Handoff | None = None) -> Composed:
    found = compose(place.outlast._executor, "default", task, base)
    assert found is not None
    return found


def crash(place: Place, at: str) -> None:
    place.crash(reports, str(place.folder), at=at, task="report")


# -- what it says ------------------------------------------------------------------------------------


def test_a_crashed_run_says_what_is_done_what_was_under_way_and_how_to_go_on(place: Place) -> None:
    crash(place, "writing")
    handoff = composed(place).handoff
    run = place.run_id
    assert handoff.summary == f"run {run} of reports crashed in step write, attempt 1; 1 step is done"
    assert "Done (1):\n- plan: planned tides\n" in handoff.handoff_text
    assert "- write, attempt 1: crashed; its work in files: partial (draft.md created)" in handoff.handoff_text
    assert 'State: {"topic":"tides"}' in handoff.handoff_text
    assert handoff.next_action == f"write the draft; continue with step write, attempt 2: outlast resume {run}"
    assert handoff.handoff_text.endswith(f"Next: {handoff.next_action}")
    assert handoff.target_files == ("draft.md",)
    assert handoff.repo_root == str(place.folder)


def test_it_is_known_by_its_run_and_anchored_at_its_task(place: Place) -> None:
    crash(place, "planned")
    found = composed(place)
    handoff, run = found.handoff, place.run_id
    assert (handoff.id, handoff.revision, handoff.anchor, handoff.source) == (f"run:{run}", 0, "task:report", "run")
    assert (handoff.actor, handoff.scope, handoff.binding) == ("local", "default", None)
    assert handoff.stored_us == place.clock.now()
    assert (found.run.run_id, found.run.status, found.run.command) == (run, "crashed", f"outlast resume {run}")
    assert handoff.summary.endswith("crashed between steps; 1 step is done")


def test_programs_are_given_the_state_and_the_steps_of_the_run(place: Place) -> None:
    crash(place, "writing")
    assert composed(place).handoff.state == {
        "run_id": place.run_id,
        "flow": place.outlast.get(place.run_id).flow,
        "task": "report",
        "status": "crashed",
        "phase": place.outlast.get(place.run_id).phase,
        "state": {"topic": "tides"},
        "steps": [
            {"step": "plan", "kind": "step", "status": "succeeded", "attempts": 1, "action": "reuse"},
            {"step": "write", "kind": "step", "status": "started", "attempts": 1, "action": "retry"},
        ],
    }


def test_the_reasons_are_those_that_a_resume_would_be_told(place: Place) -> None:
    crash(place, "writing")
    assert composed(place).reasons == place.outlast.plan(place.run_id).verdict.reasons
    assert [reason.code for reason in composed(place).reasons] == ["partial_work"]


def test_an_effect_in_doubt_is_told_and_once_it_is_asked_about_the_question_too(place: Place) -> None:
    crash(place, "publishing")
    found = composed(place)
    assert "- publish (an effect, in doubt), attempt 1: crashed" in found.handoff.handoff_text
    assert [reason.code for reason in found.reasons] == ["effect_in_doubt"]
    place.outlast.resume(place.run_id)
    (wait,) = place.outlast.interrupts()
    waiting = composed(place)
    assert f"Waits for (1):\n- {wait.id} (in_doubt): effect publish may have happened" in waiting.handoff.handoff_text
    assert f"run {place.run_id} of reports waits: effect publish may" in waiting.handoff.summary
    commands = f"answer what it waits for: outlast inbox; continue after step write: outlast resume {place.run_id}"
    assert waiting.handoff.next_action == commands  # the last finished step said nothing of what comes next
    assert waiting.run.status == "waiting"


def test_a_failed_run_says_why(place: Place) -> None:
    assert place.run(fails, task="report").status == "failed"
    handoff = composed(place).handoff
    again = f"continue with step fail, attempt 2: outlast resume {place.run_id}"
    assert handoff.next_action == f"write the draft; mend what fail failed of; {again}"
    assert handoff.summary == f"run {place.run_id} of fails failed in step fail, attempt 1; 1 step is done"
    assert "It failed: ValueError: no paper left" in handoff.handoff_text
    assert "- fail, attempt 1: failed (ValueError: no paper left)" in handoff.handoff_text


def test_an_interrupted_run_is_composed_too(place: Place) -> None:
    with pytest.raises(KeyboardInterrupt):
        place.run(stops, task="report")
    handoff = composed(place).handoff
    assert handoff.summary == f"run {place.run_id} of stops was interrupted between steps; 1 step is done"


def test_nothing_is_written_to_compose(place: Place) -> None:
    crash(place, "writing")
    before = place.outlast.get(place.run_id)
    first = composed(place)
    place.clock.advance(60)
    assert composed(place) == first
    assert place.outlast.get(place.run_id) == before


def test_commands_are_composed_with_their_files_and_their_question(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "work")
    folder.write("said.json", '{"done": "drafted", "next": "ask"}')
    folder.flow(
        "- {id: draft, run: cp said.json $OUTLAST_ENVELOPE}\n"
        "- {id: ask, pause_for: approval}\n"
        "- {id: build, run: 'mkdir -p out; echo half > out/a b.txt; exit 3', writes: ['out/*', result.txt]}"
    )
    try:
        (wait,) = folder.run().interrupts
        task = folder.outlast.get(folder.run_id).task
        executor = folder.outlast._executor
        found = compose(executor, "default", task)
        assert found is not None
        assert f"outlast approve {wait.id}, or outlast decline {wait.id} -m WHY" in found.handoff.handoff_text
        assert str(found.handoff.next_action).startswith(
            "ask; answer what it waits for: outlast inbox; continue after "
        )
        folder.outlast.answer(wait.id, {"approved": True})
        assert folder.resume().status == "failed"
        found = compose(executor, "default", task)
        assert found is not None
        assert found.handoff.target_files == ("out/a", "result.txt")
        assert "its work in files: partial (out/a created)" in found.handoff.handoff_text
        assert "- draft: drafted" in found.handoff.handoff_text
    finally:
        folder.end()


CHECKED = """
- {id: draft, run: 'echo a > draft.txt', accept: test -s draft.txt, writes: [draft.txt]}
- {id: dry, when: 'false', run: 'true', accept: test -e never.txt}
- {id: each, foreach: {items: [a], steps: [{id: one, run: 'true', accept: 'test -n "$OUTLAST_ITEM"'}]}}
- {id: build, run: 'exit 3', cwd: sub, shell: bash, env: {WORD: "it's"}, accept: ['grep -q "$WORD" a', 'grep -q i a']}
"""


def test_the_checks_are_what_the_flow_accepts_its_steps_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path / "work")
    (folder.path / "sub").mkdir(parents=True)
    folder.flow(CHECKED.strip())
    try:
        assert folder.run().status == "failed"
        found = compose(folder.outlast._executor, "default", folder.outlast.get(folder.run_id).task)
        assert found is not None
        grep = """export WORD='it'"'"'s'; bash -eo pipefail -c 'grep -q "$WORD" a'"""
        other = "bash -eo pipefail -c 'grep -q i a'"
        checks = ("test -s draft.txt", {"run": grep, "cwd": "sub"}, {"run": other, "cwd": "sub"})
        assert found.handoff.acceptance_checks == checks
        (folder.path / "sub" / "a").write_text("it's")
        monkeypatch.chdir(folder.path)
        ran = folder.outlast.handoff.recover(found.handoff.anchor, run_checks=True)
        assert [each.passed for each in ran.evidence] == [True, True, True]
    finally:
        folder.end()


def test_the_score_is_earned_as_that_of_any_handoff(place: Place) -> None:
    crash(place, "planned")
    handoff = composed(place).handoff
    assert [each.code for each in handoff.lint.findings] == ["no_files", "no_checks"]
    assert handoff.lint.weak
    recovered = place.outlast.handoff.recover("task:report", repo_root=str(place.home.parent))
    assert [each.code for each in recovered.reasons] == ["auto_composed", "weak"]


def test_conditions_are_no_steps_that_hand_something_over(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "work")
    folder.write("said.json", '{"next": "mend it"}')
    inner = "{id: author, run: cp said.json $OUTLAST_ENVELOPE}"
    folder.flow(f"- {{id: fix, repeat: {{max: 1, until: test -f no, on_limit: pause, steps: [{inner}]}}}}")
    try:
        assert folder.run().status == "waiting"
        found = compose(folder.outlast._executor, "default", folder.outlast.get(folder.run_id).task)
        assert found is not None
        assert found.handoff.summary.endswith("; 1 step is done")
        assert str(found.handoff.next_action).startswith("mend it; answer what it waits for")
    finally:
        folder.end()


@flow
def parent(run: Run, folder: str) -> str:
    return run.spawn(reports, folder).result()


def test_a_child_goes_on_with_its_parent(place: Place) -> None:
    place.crash(parent, str(place.folder), at="writing", task="report")
    child = next(run for run in place.outlast.runs() if run.parent)
    found = composed(place, child.task)
    assert found.run.run_id == child.id
    assert found.run.command == f"outlast resume {child.parent}"


# -- whether there is something to compose -----------------------------------------------------------


def test_a_task_without_an_unfinished_run_gives_nothing(place: Place) -> None:
    executor = place.outlast._executor
    assert compose(executor, "default", "report") is None
    place.run(reports, str(place.folder), task="report")
    assert compose(executor, "default", "report") is None


def test_a_run_of_another_scope_is_not_found(place: Place) -> None:
    crash(place, "planned")
    assert compose(place.outlast._executor, "other", "report") is None


def test_a_run_that_was_moved_away_is_not_ours_to_continue(place: Place) -> None:
    crash(place, "planned")
    place.outlast.export(place.run_id, place.folder / "run.hold", move=True)
    assert compose(place.outlast._executor, "default", "report") is None


release, waiting = threading.Event(), threading.Event()


@step
def linger() -> int:
    waiting.set()
    assert release.wait(20)
    return 1


@flow
def lingers(run: Run) -> int:
    return linger()


@pytest.fixture
def lingering(place: Place) -> Iterator[str]:
    release.clear()
    waiting.clear()
    with Outlast(place.home, clock=place.clock) as other:
        started = other.start(lingers, task="report")
        assert waiting.wait(20)
        yield started.run_id
        release.set()
        started.outcome(20)


def test_a_run_that_lives_is_composed_as_claimed(place: Place, lingering: str) -> None:
    found = composed(place)
    assert "claimed" in [reason.code for reason in found.reasons]
    assert found.run.status == "running"
    assert "of lingers is running" in found.handoff.summary


def test_a_run_that_lives_is_told_as_living_and_nothing_of_it_as_crashed(place: Place, lingering: str) -> None:
    found = composed(place)
    assert "crashed" not in found.handoff.handoff_text
    assert [reason.code for reason in found.reasons] == ["claimed"]
    assert found.handoff.next_action == f"wait for it, or look at it: outlast show {lingering}"
    plan = place.outlast.plan(lingering)
    assert not [reason for reason in plan.verdict.reasons if "crashed" in reason.found]


def test_of_several_unfinished_runs_the_newest_is_composed_and_the_others_are_named(place: Place) -> None:
    crash(place, "planned")
    place.clock.advance(1)
    assert place.run(fails, task="report").status == "failed"
    newest, oldest = place.outlast.runs()
    found = composed(place)
    assert found.run.run_id == newest.id
    assert f"Also unfinished for this task (1):\n- run {oldest.id} of " in found.handoff.handoff_text
    assert "(crashed): outlast show" in found.handoff.handoff_text


def test_a_script_is_to_be_run_again(place: Place) -> None:
    def opened(outlast: Outlast) -> None:
        with outlast.open("nightly") as run:
            run.step(plan, "tides")
            reach("half")

    place.killed(opened, at="half")
    found = composed(place, place.outlast.runs()[0].task)  # in a linked work tree it is not the bare name
    assert found.run.command == "run the script that opens 'nightly' again"
    again = "continue after step plan: run the script that opens 'nightly' again"
    assert found.handoff.next_action == f"write the draft; {again}"


def test_a_flow_whose_file_is_gone_is_to_be_put_back(place: Place) -> None:
    text = "from outlast import Run, flow\n\n@flow\ndef breaks(run: Run) -> None:\n    raise ValueError('no')\n"
    file = place.script("gone.py", text)
    program = f"import sys; sys.path.insert(0, {str(place.folder)!r})\nfrom outlast import Outlast\n"
    program += f"from outlast.flows.loading import load\nfound = load({str(file)!r} + ':breaks')\n"
    program += f"Outlast({str(place.home)!r}).run(found, task='report')"
    completed(("-c", program), check=True)
    assert composed(place).run.command == f"outlast resume {place.run_id}"
    file.unlink()
    resume = f"outlast resume {place.run_id}"
    assert composed(place).run.command == f"put gone.py back, then {resume}; or {resume} --flow PATH"


def test_a_broken_record_is_believed_in_nothing(place: Place) -> None:
    crash(place, "writing")
    place.close()
    edit = "UPDATE journal SET payload = CAST(replace(payload, 'tides', 'Tides') AS BLOB)"
    program = f"import apsw; apsw.Connection({str(place.home / 'default' / 'outlast.db')!r}).execute({edit!r})"
    completed(("-c", program), check=True)
    found = composed(place)
    assert [reason.code for reason in found.reasons] == ["integrity_broken"]
    assert "its record is broken" in found.handoff.summary
    assert "ides" not in found.handoff.handoff_text
    assert found.handoff.next_action == f"continue: outlast resume {place.run_id}"


# -- limits ------------------------------------------------------------------------------------------


@step
def talk(number: int) -> int:
    current().envelope(done=f"{number} " + "\u0001é\n" * 2_000)
    return number


@flow
def talks(run: Run, times: int) -> None:
    for number in range(times):
        talk(number)
    reach("talked")


def test_a_long_run_stays_small_and_says_how_much_is_left_out(place: Place) -> None:
    place.crash(talks, 1_000, at="talked", task="report")
    handoff = composed(place).handoff
    assert len(encode_handoff(handoff)) < 150_000
    assert handoff.summary.endswith("1000 steps are done")
    assert "Done (1000):\n- 950 earlier ones are left out here; see outlast receipts" in handoff.handoff_text
    assert "- talk~1000: 999 \\x01é" in handoff.handoff_text
    assert "more characters]" in handoff.handoff_text
    assert len(handoff.state["steps"]) == 200
    assert handoff.state["steps_left_out"] == 800


@step(writes=["many/**"])
def write_many(folder: str) -> None:
    Path(folder, "many").mkdir()
    for number in range(250):
        Path(folder, "many", f"{number:03d} \n'é.txt").write_text("x")
    Path(folder, "many").joinpath("caf\udce9").write_text("x")
    reach("written")


@flow
def writes_many(run: Run, folder: str) -> None:
    write_many(folder)


def test_more_files_than_a_handoff_names_are_counted(place: Place) -> None:
    place.crash(writes_many, str(place.folder), at="written", task="report")
    handoff = composed(place).handoff
    assert len(handoff.target_files) == 200
    assert handoff.target_files[0] == "many/000 \n'é.txt"
    assert "50 more files were left changed than a handoff names." in handoff.handoff_text
    assert "have names that are no text: " in handoff.handoff_text
    assert encode_handoff(handoff)


# -- an older handoff as the base --------------------------------------------------------------------


def explicit(**given: Any) -> Handoff:
    fields: dict[str, Any] = {
        "anchor": "task:report",
        "summary": "the report, half way",
        "handoff_text": "it was begun",
        "next_action": "ask the harbour master",
        "target_files": ("report.md",),
        "acceptance_checks": ("test -s report.md",),
        "must_keep": ("the title",),
        "rollback": ("git checkout report.md",),
        "environment": ("tides.csv",),
    }
    stored = {"id": "h1", "scope": "default", "revision": 3, "actor": "ann", "stored_us": 1, "expires_us": 2}
    return Handoff(**(fields | stored | {"lint": Lint(90)} | given))


def test_an_older_handoff_gives_its_checks_musts_and_files(place: Place) -> None:
    crash(place, "writing")
    base = explicit()
    handoff = composed(place, base=base).handoff
    for name in ("acceptance_checks", "must_keep", "rollback", "environment"):
        assert getattr(handoff, name) == getattr(base, name)
    assert handoff.target_files == ("report.md", "draft.md")
    assert "It goes on from handoff h1 (revision 3): the report, half way" in handoff.handoff_text
    assert "Its next action was: ask the harbour master" in handoff.handoff_text
    assert str(handoff.next_action).startswith("write the draft; ")
    assert (handoff.id, handoff.actor, handoff.baseline) == (f"run:{place.run_id}", "local", ())


def test_files_are_named_from_where_the_base_names_its_own(place: Place) -> None:
    crash(place, "writing")
    above = explicit(repo_root=str(place.folder.parent))
    assert composed(place, base=above).handoff.target_files == ("report.md", f"{place.folder.name}/draft.md")
    elsewhere = explicit(repo_root="/somewhere/else")
    handoff = composed(place, base=elsewhere).handoff
    assert handoff.target_files == ("report.md",)
    assert f"lie elsewhere or have names that are no text: {place.folder}/draft.md." in handoff.handoff_text


def test_a_base_that_leaves_no_room_is_named_and_never_cut(place: Place) -> None:
    crash(place, "writing")
    base = explicit(acceptance_checks=tuple(f"echo {number} {'x' * 5_225}" for number in range(200)))
    handoff = composed(place, base=base).handoff
    assert len(encode_handoff(handoff)) <= MAX_BYTES
    assert handoff.acceptance_checks == ()
    assert "they are too large to repeat here: outlast handoff show --id h1" in handoff.handoff_text
    roomy = replace(base, acceptance_checks=base.acceptance_checks[:190])
    assert composed(place, base=roomy).handoff.acceptance_checks == roomy.acceptance_checks


# -- the handoff of one step -------------------------------------------------------------------------


@step(retries=1)
def twice(number: int) -> str:
    if current().attempt == 1:
        raise ValueError("not yet")
    current().envelope(done="the second time", next="rest")
    current().state["seen"] = number
    return "x" * 50_000


@flow
def tries(run: Run) -> None:
    plan("tides")
    twice(1)
    plan("winds")
    for name in ("left", "right"):
        with run.branch(name):
            count(name)
    reach("tried")


def test_a_step_hands_over_the_envelope_of_its_newest_attempt(place: Place) -> None:
    place.crash(tries, at="tried", task="report")
    found = step_handoff(place.outlast._executor.home, place.run_id[:6], "twice")
    receipt = place.receipts("twice")[-1]
    assert (found.run_id, found.task, found.step, found.attempt) == (place.run_id, "report", "twice", 2)
    assert (found.done, found.next, found.state) == ("the second time", "rest", {"seen": 1})
    assert found.result == "x" * 50_000  # which lives in a blob
    assert (found.seq, found.hash, found.at) == (receipt.seq, receipt.hash, receipt.ended_at)


def test_a_steps_handoff_has_all_that_the_mirror_writes(place: Place) -> None:
    place.crash(tries, at="tried", task="report")
    found = step_handoff(place.outlast._executor.home, place.run_id, "plan~2")
    wanted = mirrored(place.receipts("plan")[-1])
    assert {name: getattr(found, name) for name in wanted} == wanted | {"artifacts": ()}
    assert found.agent == "planner"


def test_a_step_is_found_by_the_rules_that_hold_everywhere(place: Place) -> None:
    place.crash(tries, at="tried", task="report")
    home = place.outlast._executor.home
    with pytest.raises(StepAmbiguous, match="left/count, right/count"):
        step_handoff(home, place.run_id, "count")
    with pytest.raises(StepNotFound):
        step_handoff(home, place.run_id, "missing")
    assert step_handoff(home, place.run_id, "plan~2").done == "planned winds"


def test_a_step_that_only_waits_has_handed_nothing_over(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "work").flow("- {id: ask, pause_for: approval}")
    try:
        assert folder.run().status == "waiting"
        with pytest.raises(StepNotFound):
            step_handoff(folder.outlast._executor.home, folder.run_id, "ask")
    finally:
        folder.end()
