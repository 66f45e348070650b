"""The host bridge: a task is opened, paused, resumed by one, completed by what is shown, and all of it is on record."""

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, Run, flow, step
from outlast.errors import (
    ClaimLost,
    HandoffClaimed,
    HandoffContested,
    HandoffInvalid,
    NameInvalid,
    NotSettled,
    OperationConflict,
    OutlastError,
    RevisionConflict,
    TaskExists,
    TaskNotFound,
    TaskRefused,
    TenantNotFound,
    ValueRefused,
)
from outlast.handoffs.task_state import MOVES, STATE_AFTER, STATES, may_move
from outlast.python.tasks import TaskSession
from outlast.tasks.task import ACTIONS, TaskContext

from ..kit.desk import GOOD, Desk
from ..kit.ledgers import change as tamper
from ..kit.place import Place, reach

FIELDS: dict[str, Any] = {name: value for name, value in GOOD.items() if name != "anchor"}
NAME = "export-repair"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.close()


def sit(desk: Desk, actor: str = "local", **how: Any) -> TaskSession:
    """A session at the task, of somebody with a home of his own."""
    return desk.sit_down(actor).tasks.open(NAME, repo_root=str(desk.repo), **how)


def paused(desk: Desk, **fields: Any) -> TaskSession:
    session = sit(desk)
    session.pause_task(**FIELDS | fields)
    return session


def kinds(session: TaskSession) -> list[str]:
    return [event.kind for event in session.events()]


def action(context: TaskContext, name: str) -> tuple[bool, str]:
    (found,) = (each for each in context.allowed_actions if each.name == name)
    return found.allowed, found.why


# -- states ------------------------------------------------------------------------------------------


def test_the_table_of_states_is_whole() -> None:
    assert set(MOVES) == set(STATES) == set(STATE_AFTER.values())
    assert all(may_move(before, after) for before, moves in MOVES.items() for after in moves)
    assert [state for state in STATES if may_move("completed", state)] == ["active"]


def test_the_page_has_the_same_states_and_moves() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z]+)` \|.*\| ([^|]*) \|$", page.partition("## States")[2], re.MULTILINE)
    assert {state: tuple(re.findall("`([a-z]+)`", moves)) for state, moves in rows} == MOVES


def test_a_day_in_the_life_of_a_task(desk: Desk) -> None:
    ann, bob = sit(desk, "ann", meta={"ticket": 12}, session="chat-1"), sit(desk, "bob")
    assert ann.inspect_task_context().state == "active"
    stored = ann.pause_task(**FIELDS | {"acceptance_checks": ["grep -q 'return 2' src/export.py"]})
    assert (stored.handoff.anchor, stored.handoff.revision, stored.notes) == ("task:export-repair", 1, ())
    assert bob.inspect_task_context().state == "paused"
    resumed = bob.resume_task()
    assert (str(resumed.recovered.verdict), resumed.recovered.resume) == ("trusted", "attached")
    assert ann.inspect_task_context().state == "resumed"
    with pytest.raises(NotSettled, match="return 2"):
        bob.complete_task()
    desk.write("src/export.py", "def export():\n    return 2\n")
    done = bob.complete_task()
    assert done.settlement is not None
    assert [each.passed for each in done.settlement.evidence] == [True]
    context = ann.inspect_task_context()
    assert (context.state, context.meta, context.session) == ("completed", {"ticket": 12}, "chat-1")
    assert [(each.seq, each.kind, each.actor) for each in context.history] == [
        (1, "opened", "ann"),
        (2, "paused", "ann"),
        (3, "resumed", "bob"),
        (4, "completed", "bob"),
    ]
    assert desk.outlast.verify().ok


def test_the_state_outlives_the_process(desk: Desk) -> None:
    paused(desk)
    desk.close()
    assert desk.sit_down().tasks.get(NAME).state == "paused"


def test_opening_again_changes_nothing_but_the_session_it_is_for(desk: Desk) -> None:
    paused(desk)
    assert kinds(sit(desk)) == ["opened", "paused"]
    again = sit(desk, session="chat-2")
    assert (kinds(again), again.inspect_task_context().state) == (["opened", "paused", "opened"], "paused")
    assert again.inspect_task_context().session == "chat-2"
    with pytest.raises(TaskExists, match="other meta"):
        sit(desk, meta={"other": 1})
    assert desk.outlast.verify().ok


def test_a_completed_task_allows_only_to_be_opened_again(desk: Desk) -> None:
    session = paused(desk)
    session.complete_task()
    context = sit(desk).inspect_task_context()
    assert [each.name for each in context.allowed_actions if each.allowed] == ["reopen"]
    assert all("completed by local" in each.why for each in context.allowed_actions if not each.allowed)
    for call in (
        lambda: session.pause_task(**FIELDS),
        session.resume_task,
        session.complete_task,
        lambda: session.record_event("late"),
    ):
        with pytest.raises(TaskRefused, match="reopen=True"):
            call()
    again = sit(desk, reopen=True)
    context = again.inspect_task_context()
    assert (context.state, kinds(again)[-1]) == ("active", "reopened")
    assert "nothing was handed over since" in context.why_not("resume")
    with pytest.raises(TaskRefused, match="nothing was handed over since"):
        again.resume_task()
    with pytest.raises(NotSettled, match="nothing shows it"):
        again.complete_task()
    again.pause_task(**FIELDS)
    assert again.resume_task().recovered.handoff.revision == 2


# -- one worker --------------------------------------------------------------------------------------


def test_the_second_to_resume_is_refused_and_told_who(desk: Desk) -> None:
    paused(desk)
    bob, cyd = sit(desk, "bob"), sit(desk, "cyd")
    bob.resume_task()
    for call in (cyd.resume_task, lambda: cyd.pause_task(**FIELDS), cyd.complete_task):
        with pytest.raises(HandoffClaimed, match=r"claimed by bob \(pid \d+"):
            call()
    allowed, why = action(cyd.inspect_task_context(), "resume")
    assert (allowed, why.startswith("claimed by bob (pid")) == (False, True)
    assert "until" in why
    assert not cyd.inspect_task_context().allows("pause")
    assert bob.inspect_task_context().allows("pause")
    assert kinds(bob) == ["opened", "paused", "resumed"]


def test_two_sessions_of_one_home_are_two_workers(desk: Desk) -> None:
    paused(desk)
    outlast = desk.sit_down("ann")
    first, second = (outlast.tasks.open(NAME, repo_root=str(desk.repo)) for _ in range(2))
    first.resume_task()
    first.resume_task()
    with pytest.raises(HandoffClaimed, match="ann"):
        second.resume_task()
    assert (
        outlast.tasks.open(NAME, repo_root=str(desk.repo), claim_id=first.claim_id)
        .inspect_task_context()
        .allows("pause")
    )
    assert kinds(first) == ["opened", "paused", "resumed"]


def test_of_many_threads_one_resumes(desk: Desk) -> None:
    paused(desk)
    sessions, got = [sit(desk, f"worker-{number}") for number in range(8)], []

    def work(session: TaskSession) -> None:
        try:
            got.append(session.resume_task().claim.actor)
        except HandoffClaimed:
            got.append("")

    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len([name for name in got if name]) == 1
    assert kinds(sessions[0]).count("resumed") == 1


def test_who_lost_the_claim_can_neither_pause_nor_complete(desk: Desk) -> None:
    paused(desk)
    ann, bob = sit(desk, "ann"), sit(desk, "bob")
    ann.resume_task()
    bob.resume_task(take=True, why="ann is on holiday")
    with pytest.raises(ClaimLost):
        ann.pause_task(**FIELDS)
    bob.pause_task(**FIELDS | {"summary": "Further"})
    for call in (lambda: ann.pause_task(**FIELDS), ann.complete_task):
        with pytest.raises(ClaimLost, match="nobody holds"):
            call()
    assert desk.outlast.handoff.get(anchor=f"task:{NAME}").summary == "Further"
    assert kinds(ann) == ["opened", "paused", "resumed", "resumed", "paused"]


def test_a_claim_of_before_does_not_complete_what_was_opened_again(desk: Desk) -> None:
    paused(desk)
    ann, bob = sit(desk, "ann"), sit(desk, "bob")
    ann.resume_task()
    bob.resume_task(take=True, why="ann is on holiday")
    bob.complete_task()
    sit(desk, "bob", reopen=True)
    with pytest.raises(ClaimLost):
        ann.complete_task(override="it is done")
    assert bob.inspect_task_context().state == "active"


def test_whoever_shows_the_claim_of_another_actor_goes_on_with_it(desk: Desk) -> None:
    paused(desk)
    claim = sit(desk, "ann").resume_task().claim
    bob = sit(desk, "bob", claim_id=claim.id)
    assert bob.inspect_task_context().allows("resume")
    assert bob.resume_task().claim.id == claim.id
    with pytest.raises(HandoffClaimed):
        sit(desk, "bob").resume_task()
    assert bob.complete_task().by == "bob"


def test_a_claim_is_shown_in_another_process(desk: Desk) -> None:
    paused(desk)
    claim = sit(desk, "ann").resume_task().claim
    elsewhere = sit(desk, "ann", claim_id=claim.id)
    assert elsewhere.claim_id == claim.id
    elsewhere.pause_task(**FIELDS | {"summary": "Further"})
    assert (elsewhere.claim_id, sit(desk, "bob").resume_task().claim.actor) == (None, "bob")


def test_pausing_gives_the_claim_back_so_that_drift_is_drift(desk: Desk) -> None:
    session = paused(desk)
    session.resume_task()
    session.pause_task(**FIELDS | {"summary": "Further"})
    events = [event.kind for event in desk.outlast.handoff.history(f"task:{NAME}")]
    assert events == ["stored", "claimed", "attached", "released", "stored"]
    desk.write("src/export.py", "edited by somebody\n")
    bob = sit(desk, "bob")
    allowed, why = action(bob.inspect_task_context(), "resume")
    assert (allowed, "contested by file_changed (src/export.py:" in why) == (False, True)
    with pytest.raises(HandoffContested, match="file_changed"):
        bob.resume_task()
    assert bob.inspect_task_context().state == "paused"
    got = bob.resume_task(accept="file_changed:src/export.py", why="the edit is mine")
    assert got.recovered.resume == "attached"


def test_pausing_again_makes_a_better_revision(desk: Desk) -> None:
    session = paused(desk)
    assert session.pause_task(**FIELDS | {"summary": "Better"}).handoff.revision == 2
    with pytest.raises(RevisionConflict):
        session.pause_task(**FIELDS, expected_revision=1)
    assert kinds(session) == ["opened", "paused", "paused"]


# -- runs of the task --------------------------------------------------------------------------------


@step
def diagnose() -> str:
    return "diagnosed"


@flow
def works(run: Run) -> str:
    said = diagnose()
    reach("working")
    return said


@flow
def asks(run: Run) -> Any:
    return run.pause_for("approval", payload={"what": "it"})


@flow
def fails(run: Run) -> None:
    raise ValueError("no luck")


def test_a_task_whose_run_died_is_resumed_without_a_goodbye(place: Place) -> None:
    place.crash(works, at="working", task="tides")
    session = place.outlast.tasks.open("tides")
    context = session.inspect_task_context()
    assert (context.state, [run.status for run in context.runs]) == ("active", ["crashed"])
    assert context.handoff is not None
    assert context.handoff.run is not None
    assert context.allows("resume")
    assert context.why_not("complete") == f"run {place.run_id} of it is crashed"
    got = session.resume_task()
    assert (got.claim.run_id, got.command) == (place.run_id, f"outlast resume {place.run_id}")
    other = place.outlast.tasks.open("tides", actor="bob")
    with pytest.raises(HandoffClaimed, match="local"):
        other.resume_task()
    with pytest.raises(HandoffClaimed):
        other.pause_task("Half way", "Go on from here.", bind=False)
    assert place.outlast.resume(place.run_id).status == "succeeded"
    done = session.complete_task()
    assert (done.settlement, done.shown_by, done.override) == (None, place.run_id, "")
    assert kinds(session) == ["opened", "resumed", "completed"]


def test_pausing_gives_a_claimed_run_back(place: Place) -> None:
    place.crash(works, at="working", task="tides")
    session = place.outlast.tasks.open("tides")
    session.resume_task()
    session.pause_task("Half way", "Go on from here.", bind=False)
    assert place.outlast.tasks.open("tides", actor="bob").resume_task().claim.run_id == ""
    assert place.outlast.get(place.run_id).holder == ""
    assert place.outlast.verify().ok


def test_a_task_is_not_completed_while_a_run_of_it_is_unfinished(place: Place) -> None:
    assert place.run(fails, task="tides").status == "failed"
    session = place.outlast.tasks.open("tides")
    with pytest.raises(NotSettled, match=f"run {place.run_id} of it is failed"):
        session.complete_task()
    session.pause_task("Half way", "Go on from here.", bind=False)
    with pytest.raises(NotSettled, match=f"run {place.run_id} of it is failed"):
        session.complete_task()
    done = session.complete_task(override="it is not needed any more")
    assert done.settlement is not None
    assert done.settlement.override == "it is not needed any more"
    assert done.notes == (f"run {place.run_id} is left failed; give it up: `outlast abort {place.run_id} --why WHY`",)
    assert place.outlast.verify().ok


def test_without_a_handoff_something_must_show_that_it_is_done(place: Place) -> None:
    assert place.run(works, task="tides").status == "succeeded"
    place.clock.advance(1)
    session = place.outlast.tasks.open("tides")
    with pytest.raises(NotSettled, match="no run of it succeeded since it was opened"):
        session.complete_task(note="done")
    assert not session.inspect_task_context().allows("complete")
    done = session.complete_task(
        evidence=[{"check": "by eye", "passed": True}], override="seen by eye", operation_id="1"
    )
    assert done.override == "seen by eye"
    again = session.complete_task(
        evidence=[{"check": "by eye", "passed": True}], override="seen by eye", operation_id="1"
    )
    assert (again, again.replayed) == (done, True)
    body = session.events()[-1].body
    assert (body["override"], body["evidence"]) == ("seen by eye", [{"check": "by eye", "passed": True}])


def test_a_task_that_nobody_opened_is_completed_by_its_run(place: Place) -> None:
    assert place.run(works, task="tides").status == "succeeded"
    place.clock.advance(1)
    session = place.outlast.tasks.session("tides")
    with pytest.raises(NotSettled, match="'by eye' failed, says local"):
        session.complete_task([{"check": "by eye", "passed": False}])
    with pytest.raises(HandoffInvalid, match="evidence"):
        session.complete_task(["by eye"])  # type: ignore[list-item]
    assert (session.complete_task().shown_by, kinds(session)) == (place.run_id, ["opened", "completed"])


def test_the_waits_of_its_runs_are_shown(place: Place) -> None:
    assert place.run(asks, task="tides").status == "waiting"
    context = place.outlast.tasks.open("tides").inspect_task_context()
    assert [(wait.type, wait.payload) for wait in context.waits] == [("approval", {"what": "it"})]
    assert (context.checkpoints, [run.status for run in context.runs]) == ((), ["waiting"])
    assert context.why_not("complete") == f"run {place.run_id} of it is waiting"


def test_the_checkpoints_of_the_task_are_shown(place: Place) -> None:
    session = place.outlast.tasks.open("tides")
    place.outlast.workspace.checkpoint("charted", task="tides", summary="Every tide is on the chart.")
    place.outlast.workspace.checkpoint("elsewhere", task="other")
    assert [each.name for each in session.inspect_task_context().checkpoints] == ["charted"]


GATES: dict[str, threading.Event] = {}


@step
def waits_at_gate() -> str:
    GATES["begun"].set()
    assert GATES["open"].wait(30)
    return "through"


@flow
def gated(run: Run) -> str:
    first = waits_at_gate()
    return first + diagnose()


@pytest.mark.parametrize("stop_run", [False, True])
def test_a_running_run_is_noted_and_stopped_only_if_that_is_said(place: Place, stop_run: bool) -> None:
    GATES.update(begun=threading.Event(), open=threading.Event())
    outcomes: list[str] = []
    worker = threading.Thread(target=lambda: outcomes.append(place.outlast.run(gated, task="tides").status))
    outlast = place.outlast
    worker.start()
    try:
        assert GATES["begun"].wait(30)
        session = outlast.tasks.open("tides")
        stored = session.pause_task("Half way", "Go on from here.", bind=False, stop_run=stop_run, operation_id="p")
        again = session.pause_task("Half way", "Go on from here.", bind=False, stop_run=stop_run, operation_id="p")
        outlast._executor.live.heartbeat.tick()  # it reads what was asked of the run
    finally:
        GATES["open"].set()
        worker.join(30)
    said = "was asked to stop" if stop_run else "is still running"
    assert said in stored.notes[0]
    assert (bool(stored.stopping), again.replayed, again.handoff.revision) == (stop_run, True, 1)
    assert outcomes == ["interrupted" if stop_run else "succeeded"]


# -- completing --------------------------------------------------------------------------------------


def test_what_completing_needs_is_said_beforehand(desk: Desk) -> None:
    session = paused(
        desk,
        must_keep=["the public names", {"file": "src/other.py", "contains": "OTHER = 1"}],
        acceptance_checks=["test -d ."],
    )
    allowed, why = action(session.inspect_task_context(), "complete")
    assert (allowed, why) == (True, "check 'test -d .' must pass; acknowledge 'the public names'")
    with pytest.raises(NotSettled, match="is not acknowledged"):
        session.complete_task()
    desk.write("src/other.py", "OTHER = 2\n")
    assert "must_keep" in session.inspect_task_context().why_not("complete")
    desk.write("src/other.py", "OTHER = 1\n")
    assert session.complete_task(acknowledged="the public names").settlement is not None


def test_checks_that_cannot_be_run_here_refuse_to_complete(desk: Desk, tmp_path: Path) -> None:
    paused(desk)
    desk.repo.rename(tmp_path / "gone")
    context = desk.sit_down().tasks.open(NAME).inspect_task_context()
    assert "was not run by a runner, and the files are not here" in context.why_not("complete")


# -- used directly -----------------------------------------------------------------------------------


def test_a_task_follows_its_handoff_when_that_is_used_directly(desk: Desk) -> None:
    session, states = sit(desk), []

    def now() -> str:
        states.append(session.inspect_task_context().state)
        return states[-1]

    desk.store()
    assert now() == "active"
    desk.recover(claim=True)
    assert now() == "resumed"
    desk.settle("released")
    assert now() == "paused"
    desk.settle("completed")
    assert now() == "completed"
    desk.store()
    assert now() == "active"
    assert kinds(session) == ["opened", "resumed", "paused", "completed", "reopened"]
    assert desk.outlast.verify().ok


def test_handoffs_of_tasks_that_nobody_opened_make_none(desk: Desk) -> None:
    desk.store()
    desk.store(anchor="elsewhere")
    assert list(desk.outlast.tasks.list()) == []
    found = desk.outlast.tasks.get(NAME)
    assert (found.state, found.opened_at) == ("active", None)
    session = desk.outlast.tasks.session(NAME, repo_root=str(desk.repo))
    assert session.inspect_task_context().history == ()
    session.resume_task()
    assert kinds(session) == ["opened", "resumed"]


def test_an_unknown_task_is_not_made_by_looking(desk: Desk) -> None:
    for call in (desk.outlast.tasks.get, desk.outlast.tasks.session):
        with pytest.raises(TaskNotFound, match="task open"):
            call("nothing")
    with pytest.raises(TaskRefused, match="nothing was handed over"):
        desk.outlast.tasks.open("nothing").resume_task()


# -- events, and writes that are repeated ------------------------------------------------------------


def test_events_are_kept_in_order_and_never_edited(desk: Desk) -> None:
    session = sit(desk)
    written = [session.record_event(f"step {number}", {"number": number}) for number in range(5)]
    assert [event.seq for event in written] == [2, 3, 4, 5, 6]
    assert session.events(after=1) == written
    assert session.events(after=2, limit=2) == written[1:3]
    assert session.inspect_task_context(history=2).history == tuple(written[-2:])
    assert session.inspect_task_context(history=2).events == 6


def test_secrets_in_an_event_are_masked_and_counted(desk: Desk) -> None:
    secret = "ghp_" + "a1B2" * 9
    event = sit(desk).record_event("login", {"token": secret, "who": "ann"})
    assert (event.masked, secret in str(event.body), event.body["who"]) == (1, False, "ann")


def test_each_write_is_done_once_under_its_operation_id(desk: Desk) -> None:
    outlast = desk.sit_down("ann")

    def opened(**how: Any) -> TaskSession:
        return outlast.tasks.open(NAME, repo_root=str(desk.repo), **how)

    session = opened(operation_id="open")
    assert opened(operation_id="open").task_id == NAME
    events = [session.record_event("begun", [1], operation_id="event") for _ in range(2)]
    pauses = [session.pause_task(**FIELDS, operation_id="pause") for _ in range(2)]
    resumes = [session.resume_task(operation_id="resume") for _ in range(2)]
    dones = [session.complete_task(operation_id="complete") for _ in range(2)]
    for first, second in (events, pauses, resumes, dones):
        assert (first.replayed, second.replayed) == (False, True)
    assert resumes[0].claim.id == resumes[1].claim.id
    assert kinds(session) == ["opened", "event", "paused", "resumed", "completed"]
    with pytest.raises(OperationConflict):
        session.record_event("begun", [2], operation_id="event")
    with pytest.raises(OperationConflict):
        session.complete_task(note="other", operation_id="complete")
    assert len(session.events()) == 5


# -- hostile input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "a\0b", "x" * 10_000, "x" * 496, 5, None])
def test_a_task_needs_a_name_that_can_be_an_anchor(desk: Desk, name: Any) -> None:
    with pytest.raises(NameInvalid):
        desk.outlast.tasks.open(name)
    assert list(desk.outlast.tasks.list()) == []


@pytest.mark.parametrize("name", ["x" * 495, "../up", "a 'b' \"c\"", "⚓ émigré", "task:task:x", "%_"])
def test_any_other_name_works(desk: Desk, name: str) -> None:
    session = desk.outlast.tasks.open(name)
    session.pause_task("Half way", "Go on from here.", bind=False)
    assert desk.sit_down("bob").tasks.open(name).resume_task().recovered.anchor == f"task:{name}"
    assert [task.task for task in desk.outlast.tasks.list("resumed")] == [name]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"next_step": "x"}, "next_step"),
        ({"anchor": "task:other"}, "anchor"),
        ({"scope": "elsewhere"}, "scope"),
        ({"actor": "somebody"}, "actor"),
        ({"target_files": ["../up"]}, "target_files[0]"),
        ({"summary": "x" * 2_000_000}, "summary"),
    ],
)
def test_wrong_fields_are_refused_by_name_and_nothing_is_written(desk: Desk, fields: dict[str, Any], path: str) -> None:
    session = sit(desk)
    with pytest.raises(HandoffInvalid) as error:
        session.pause_task(**FIELDS | fields)
    assert path in str(error.value)
    assert (kinds(session), desk.outlast.handoff.list()) == (["opened"], [])


@pytest.mark.parametrize("body", [object(), {"at": {1, 2}}, float("nan"), "x" * 70_000, {1: "number"}])
def test_what_is_no_json_or_too_large_is_no_event(desk: Desk, body: Any) -> None:
    session = sit(desk)
    with pytest.raises(ValueRefused, match="body"):
        session.record_event("wrong", body)
    with pytest.raises(NameInvalid):
        session.record_event("", {})
    assert kinds(session) == ["opened"]


def test_scopes_and_tenants_do_not_see_each_other(desk: Desk) -> None:
    paused(desk)
    other = desk.outlast.tasks.open(NAME, scope="other")
    assert other.inspect_task_context().handoff is None
    assert (other.inspect_task_context().state, kinds(other)) == ("active", ["opened"])
    with pytest.raises(TenantNotFound, match="acme"):
        desk.outlast.tasks.open(NAME, tenant_id="acme")
    assert list(desk.sit_down(tenant="acme").tasks.list()) == []
    with pytest.raises(ValueRefused, match="state"):
        desk.outlast.tasks.list("sleeping")  # type: ignore[arg-type]


# -- proof -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "record"),
    [
        ("UPDATE task_events SET body = '{\"x\":1}' WHERE seq = 2", "event task export-repair/2"),
        ("UPDATE task_events SET actor = 'mallory' WHERE seq = 1", "event task export-repair/1"),
        ("DELETE FROM task_events WHERE seq = 2", "event task export-repair/2"),
        ("UPDATE tasks SET state = 'completed'", "task export-repair"),
        ("DELETE FROM tasks", "events of task number 1"),
    ],
)
def test_verify_names_what_was_changed(desk: Desk, statement: str, record: str) -> None:
    paused(desk)
    assert desk.outlast.verify().tasks == 1
    desk.close()
    tamper(desk.home, statement)
    assert record in [problem.record for problem in desk.sit_down().verify().problems]


def test_a_handoff_that_was_tampered_with_is_shown_as_trouble(desk: Desk) -> None:
    paused(desk)
    desk.close()
    tamper(desk.home, "UPDATE journal SET payload = x'7b7d' WHERE chain IN (SELECT key FROM anchors)")
    context = desk.sit_down().tasks.open(NAME).inspect_task_context()
    assert (context.handoff, context.state) == (None, "paused")
    assert context.trouble
    assert [each.name for each in context.allowed_actions if each.allowed] == ["record_event"]


# -- on an event loop --------------------------------------------------------------------------------


def test_the_same_on_an_event_loop(tmp_path: Path) -> None:
    async def work() -> list[str]:
        async with AsyncOutlast(tmp_path) as outlast:
            session = await outlast.tasks.open_task_session("tides", meta={"a": 1})
            await session.record_event("begun")
            await session.pause_task("Half way", "Go on from here.", bind=False)
            got = await session.resume_task()
            assert session.claim_id == got.claim.id
            assert (await session.inspect_task_context()).state == "resumed"
            await session.complete_task(evidence=[{"check": "make test", "passed": True}])
            assert [task.state for task in await outlast.tasks.list()] == ["completed"]
            return [event.kind for event in await (await outlast.tasks.session("tides")).events()]

    assert asyncio.run(work()) == ["opened", "event", "paused", "resumed", "completed"]


def test_every_action_has_an_answer_in_every_state(desk: Desk) -> None:
    session = sit(desk)
    for move in (
        lambda: None,
        lambda: session.pause_task(**FIELDS),
        session.resume_task,
        session.complete_task,
    ):
        move()
        context = session.inspect_task_context()
        assert tuple(each.name for each in context.allowed_actions) == ACTIONS
        assert all(each.allowed or each.why for each in context.allowed_actions)


def test_what_is_allowed_works(desk: Desk) -> None:
    """The answers are tried: what is refused raises, what is allowed does not."""
    paused(desk)
    sit(desk, "ann").resume_task()
    bob = sit(desk, "bob")
    tries: dict[str, Any] = {"pause": lambda: bob.pause_task(**FIELDS), "record_event": lambda: bob.record_event("x")}
    tries |= {"resume": bob.resume_task, "complete": bob.complete_task}
    for name, call in tries.items():
        if bob.inspect_task_context().allows(name):
            call()
            continue
        with pytest.raises(OutlastError):
            call()
    assert isinstance(desk.outlast, Outlast)
    assert kinds(bob) == ["opened", "paused", "resumed", "event"]
