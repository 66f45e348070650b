"""What can go on by itself, and how people name the step they mean."""

import asyncio
import threading

import pytest

from outlast import AsyncRun, Run, current, effect, flow, step
from outlast.errors import Invalid, NameInvalid, StepAmbiguous, StepNotFound, SyncInLoop
from outlast.home.home import run_row
from outlast.runs import find, look
from outlast.runs.look import outcome_now
from outlast.store.contract import Writing

from ..kit.place import KNOBS, Place, ran, reach
from ..store.support import new_run, start_of


@step
def work(what: str) -> str:
    ran(f"work {what}")
    reach(f"work {what}")
    return what


@effect
def send(what: str) -> str:
    ran(f"send {what}")
    if what in KNOBS.get("broken", ()):
        raise RuntimeError("the line broke")
    return what


@step
def halt(by: str) -> None:
    if "stop" in KNOBS:
        KNOBS["stop"]()


@flow
def stops(run: Run, by: str) -> str:
    halt(by)
    return work("after")


@flow
async def stops_on_a_loop(run: AsyncRun, by: str) -> None:
    await run.step(halt, by)
    await run.step(work, "after")


@flow
def sleeps(run: Run) -> None:
    run.sleep("2h")


@flow
def works(run: Run) -> list[str]:
    work("a")
    with run.branch("inner"):
        work("b")
    work("c")
    return [work("d")]


@flow
def sends(run: Run) -> list[str]:
    return run.map(send, ["a", "b", "c"], concurrency=1)


@flow
async def sleeps_and_asks(run: AsyncRun) -> None:
    async def rest() -> None:
        await run.sleep("2h")

    async def ask() -> None:
        await run.effect(send, "x")

    await asyncio.gather(rest(), ask())


@flow
def parent(run: Run) -> None:
    run.spawn(sends).result()


@flow
def sleeping_parent(run: Run) -> None:
    run.spawn(sleeps).result()


def reasons(place: Place) -> list[tuple[str, str]]:
    return [(one.run_id, one.reason) for one in place.outlast.due()]


def test_a_crashed_run_is_due(place: Place) -> None:
    place.crash(works, at="work c")
    assert reasons(place) == [(place.run_id, "crashed")]
    place.outlast.resume(place.run_id)
    assert reasons(place) == []


def test_more_runs_than_are_read_at_once_are_all_due(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (find, look):
        monkeypatch.setattr(module, "PAGE", 2)

    def leave(tx: Writing) -> None:  # as a process does that died at all of them
        for number in range(5):
            tx.add_run(new_run(f"run{number}", at=place.outlast._home.clock.now()), start_of(f"run{number}"), "gone")

    place.outlast._home.store.write(leave)
    assert reasons(place) == [(f"run{number}", "crashed") for number in range(5)]


def test_a_sleeping_run_is_due_when_its_time_has_come(place: Place) -> None:
    place.run(sleeps)
    assert reasons(place) == []
    place.clock.advance(7200)
    assert reasons(place) == [(place.run_id, "over")]
    assert place.outlast.resume(place.run_id).status == "succeeded"
    assert reasons(place) == []


def test_a_run_is_woken_once_for_a_time_that_has_come_while_it_also_waits_for_a_person(place: Place) -> None:
    KNOBS["broken"] = "x"
    place.run(sleeps_and_asks)
    place.clock.advance(7200)
    assert [reason for _, reason in reasons(place)] == ["over"]
    assert place.outlast.resume(place.run_id).status == "waiting"
    assert reasons(place) == []


def test_a_question_is_due_once_it_is_answered(place: Place) -> None:
    KNOBS["broken"] = "b"
    place.run(sends)
    assert reasons(place) == []
    (wait,) = place.outlast.interrupts()
    place.outlast.answer(wait.id, {"choice": "retry"})
    assert reasons(place) == [(place.run_id, "answered")]


def test_a_request_to_a_waiting_run_makes_it_due(place: Place) -> None:
    KNOBS["broken"] = "b"
    place.run(sends)
    place.outlast.rewind(place.run_id, place.outlast.receipts(place.run_id)[0].label)
    assert reasons(place) == [(place.run_id, "asked")]


def test_a_run_that_a_shutdown_stopped_is_due_and_one_that_a_person_stopped_is_not(place: Place) -> None:
    for by in ("shutdown", "person"):
        KNOBS["stop"] = lambda by=by: place.outlast.stop(by=by)
        outcome = place.run(stops, by)
        assert (outcome.status, outcome.stopped_by) == ("interrupted", by)
        assert (
            outcome_now(
                place.outlast._executor.caller, run_row(place.outlast._executor.home, outcome.run_id)
            ).stopped_by
            == by
        )
    (due,) = place.outlast.due()
    assert (due.reason, place.outlast.get(due.run_id).inputs) == ("stopped", {"by": "shutdown"})
    KNOBS.pop("stop")
    assert place.outlast.resume(due.run_id).status == "succeeded"


def test_closing_is_a_shutdown(place: Place) -> None:
    began, never = threading.Event(), threading.Event()

    def until_asked() -> None:
        began.set()
        while not current().stopping:
            never.wait(0.01)

    KNOBS["stop"] = until_asked
    started = place.outlast.start(stops, "closing")
    assert began.wait(30)
    place.reopen()
    assert (place.outlast.get(started.run_id).status, reasons(place)) == ("interrupted", [(started.run_id, "stopped")])


def test_who_stops_is_a_person_or_a_shutdown(place: Place) -> None:
    with pytest.raises(NameInvalid):
        place.outlast.stop(by="nobody")  # type: ignore[arg-type]


def test_a_resume_that_was_refused_leaves_a_shutdown_what_it_was(place: Place) -> None:
    KNOBS["stop"] = place.outlast.stop
    place.run(stops_on_a_loop, "shutdown")
    before = reasons(place)

    async def resume() -> None:
        place.outlast.resume(place.run_id)

    with pytest.raises(SyncInLoop):
        asyncio.run(resume())
    assert before == reasons(place) == [(place.run_id, "stopped")]


@pytest.mark.parametrize("ends", ["crashed", "stopped"])
def test_what_was_left_more_than_a_week_ago_is_due_only_for_who_asks_for_all(place: Place, ends: str) -> None:
    if ends == "crashed":
        place.crash(works, at="work c")
    else:
        KNOBS["stop"] = place.outlast.stop
        place.run(stops, "shutdown")
    place.clock.advance(7 * 86_400 - 60)
    assert reasons(place) == [(place.run_id, ends)]
    place.clock.advance(120)
    assert reasons(place) == []
    assert [(one.run_id, one.reason, one.old) for one in place.outlast.due(all=True)] == [(place.run_id, ends, True)]


def test_a_long_sleep_is_not_old_when_its_time_has_come(place: Place) -> None:
    place.run(sleeps)
    place.clock.advance(30 * 86_400)
    assert reasons(place) == [(place.run_id, "over")]


@pytest.mark.parametrize("raised", [ValueError("no"), KeyboardInterrupt()], ids=["failed", "interrupted"])
def test_failed_and_interrupted_runs_are_never_due(place: Place, raised: BaseException) -> None:
    KNOBS["raise"] = ("work c", raised)
    try:
        place.run(works)
    except KeyboardInterrupt:
        assert place.outlast.runs()[0].status == "interrupted"
    place.outlast.rewind(place.run_id, "work")
    assert reasons(place) == []


def test_a_child_is_never_due_and_its_parent_is_when_the_child_can_go_on(place: Place) -> None:
    KNOBS["broken"] = "b"
    place.run(parent)
    (above,) = [run.id for run in place.outlast.runs() if not run.parent]
    assert reasons(place) == []
    question = next(wait for wait in place.outlast.interrupts() if wait.type == "in_doubt")
    place.outlast.answer(question.id, {"choice": "skip", "result": "b"})
    assert reasons(place) == [(above, "over")]
    assert place.outlast.resume(above).status == "succeeded"
    assert reasons(place) == []


def test_a_parent_is_due_when_its_sleeping_child_is(place: Place) -> None:
    above = place.run(sleeping_parent).run_id
    assert reasons(place) == []
    place.clock.advance(7200)
    assert reasons(place) == [(above, "over")]


def test_a_run_that_a_script_opened_is_left_to_that_script(place: Place) -> None:
    def script(outlast):  # type: ignore[no-untyped-def]
        with outlast.open("nightly") as run:
            run.step(work, "a")

    place.killed(script, at="work a")
    assert [run.status for run in place.outlast.runs()] == ["crashed"]
    assert reasons(place) == []


def test_a_sealed_run_is_never_due(place: Place) -> None:
    place.crash(works, at="work c")
    assert [reason for _, reason in reasons(place)] == ["crashed"]
    place.outlast.export(place.run_id, place.folder / "away.outlast", move=True)
    assert [run.seal for run in place.outlast.runs()] == ["moved"]
    assert reasons(place) == []


# -- naming a step -------------------------------------------------------------------------------------


def test_a_step_is_named_by_its_label_or_by_its_bare_name_if_one_call_has_it(place: Place) -> None:
    KNOBS["raise"] = ("work c", ValueError("no"))
    place.run(works)
    assert [receipt.label for receipt in place.outlast.receipts(place.run_id)] == ["work", "inner/work", "work~2"]
    with pytest.raises(Invalid, match="work has succeeded already"):
        place.outlast.retry(place.run_id, "work")  # a label is meant as it stands
    place.outlast.retry(place.run_id, "work~2")
    place.outlast.rewind(place.run_id, "inner/work")
    with pytest.raises(StepNotFound, match="work, inner/work, work~2"):
        place.outlast.retry(place.run_id, "wor")


def test_a_bare_name_means_the_one_call_of_it_that_is_not_finished(place: Place) -> None:
    KNOBS["broken"] = "b"
    place.run(sends)
    (wait,) = place.outlast.interrupts()
    assert wait.step != "send"
    place.outlast.skip(place.run_id, "send", result="B", why="I saw it")
    assert place.outlast.resume(place.run_id).result == ["a", "B", "c"]


def test_a_bare_name_that_could_be_several_calls_is_refused_with_their_labels(place: Place) -> None:
    KNOBS["broken"] = "bc"
    place.run(sends)
    labels = ", ".join(wait.step for wait in place.outlast.interrupts())
    with pytest.raises(StepAmbiguous) as refused:
        place.outlast.retry(place.run_id, "send")
    assert refused.value.labels == labels
    assert [wait.status for wait in place.outlast.interrupts()] == ["open", "open"]
    assert place.outlast.due() == []
