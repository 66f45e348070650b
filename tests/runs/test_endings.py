"""Endings are told apart: asked to stop, given up, exited, interrupted from the keyboard."""

import asyncio
import signal
import threading
from typing import Any

import pytest

from outlast import AsyncRun, Run, StepFailed, current, flow, step
from outlast.care import verify
from outlast.errors import Invalid, RunAborted, RunFinished, RunInterrupted

from ..kit.place import KNOBS, Place, ran, reach


def misbehave() -> str:
    ran("work")
    if KNOBS.get("trouble"):
        raise KNOBS.pop("trouble")
    return "done"


@step
def work() -> str:
    return misbehave()


@step
async def work_async() -> str:
    return misbehave()


@step(timeout=30)
def work_timed() -> str:
    return misbehave()


@step
def before() -> str:
    ran("before")
    return "before"


@flow
def plain(run: Run) -> list[str]:
    return [before(), work()]


@flow
def plain_timed(run: Run) -> list[str]:
    return [before(), work_timed()]


@flow
def plain_of_async(run: Run) -> list[str]:
    return [before(), run.step(work_async)]


@flow
async def of_async(run: AsyncRun) -> list[str]:
    return [before(), await work_async()]


@flow
async def of_awaited_plain(run: AsyncRun) -> list[str]:
    return [before(), str(await run.step(work))]


@flow
def mapped(run: Run) -> list[str]:
    return [before(), *run.map(work_item, [1, 2], concurrency=2)]


@step
def work_item(item: int) -> str:
    return misbehave() if item == 1 else "done"


MIXES = [plain, plain_timed, plain_of_async, of_async, of_awaited_plain, mapped]
every_mix = pytest.mark.parametrize("body", MIXES, ids=lambda flow: flow.__name__)


@every_mix
@pytest.mark.parametrize("code", [0, 3, "goodbye"])
def test_sys_exit_in_a_step_is_a_failure_of_that_step(place: Place, body: Any, code: Any) -> None:
    KNOBS["trouble"] = SystemExit(code)
    outcome = place.run(body)
    assert outcome.status == "failed"
    assert isinstance(outcome.exception, StepFailed)
    assert "SystemExit" in str(outcome.exception)
    assert place.run(body).status == "succeeded"
    assert place.count("before") == 1


@every_mix
def test_a_keyboard_interrupt_in_a_step_interrupts_the_run(place: Place, body: Any) -> None:
    KNOBS["trouble"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        place.run(body)
    assert place.outlast.get(place.run_id).status == "interrupted"
    assert "interrupted" in place.statuses()
    assert place.run(body).status == "succeeded"
    assert place.count("before") == 1


@flow
def body_raises(run: Run) -> str:
    before()
    misbehave()
    return "done"


@flow
async def body_raises_async(run: AsyncRun) -> str:
    await run.step(before)
    misbehave()
    return "done"


@pytest.mark.parametrize("body", [body_raises, body_raises_async], ids=lambda flow: flow.__name__)
@pytest.mark.parametrize("trouble", [SystemExit(3), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_an_exit_in_the_body_interrupts_the_run_and_goes_on_outward(
    place: Place, body: Any, trouble: BaseException
) -> None:
    KNOBS["trouble"] = trouble
    with pytest.raises(type(trouble)):
        place.run(body)
    assert place.outlast.get(place.run_id).status == "interrupted"
    assert place.run(body).result == "done"
    assert place.count("before") == 1


@step
async def presses_ctrl_c() -> str:
    ran("pressed")
    if not KNOBS.get("smooth"):
        signal.raise_signal(signal.SIGINT)  # the first asks to stop after this step
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGINT)  # the second stops it
        await asyncio.Event().wait()
    return "done"


@flow
def ctrl_c_in_plain(run: Run) -> str:
    before()
    return run.step(presses_ctrl_c)


@flow
async def ctrl_c_in_async(run: AsyncRun) -> str:
    await run.step(before)
    return await presses_ctrl_c()


@pytest.mark.parametrize("body", [ctrl_c_in_plain, ctrl_c_in_async], ids=lambda flow: flow.__name__)
def test_ctrl_c_during_an_async_step_interrupts_the_run(place: Place, body: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        place.run(body)
    assert place.outlast.get(place.run_id).status == "interrupted"
    assert place.statuses("presses_ctrl_c") == ["interrupted"]
    KNOBS["smooth"] = True
    assert place.run(body).result == "done"


# -- asked to stop -----------------------------------------------------------------------------------

ARRIVED, GO_ON = threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def closed_gates() -> Any:
    ARRIVED.clear()
    GO_ON.clear()
    yield
    GO_ON.set()


@step
def gate(name: str) -> str:
    ran(f"gate {name}")
    ARRIVED.set()
    assert GO_ON.wait(10)
    return name


@flow
def gated(run: Run) -> list[str]:
    return [gate("a"), gate("b")]


@flow
async def gated_async(run: AsyncRun) -> list[str]:
    return [str(await run.step(gate, "a")), str(await run.step(gate, "b"))]


both = pytest.mark.parametrize("body", [gated, gated_async], ids=lambda flow: flow.__name__)


def heard(place: Place) -> None:
    """The heart has read what was asked of the run."""
    place.outlast._executor.live.heartbeat.tick()


@both
def test_pause_lets_the_step_end_and_interrupts_the_run(place: Place, body: Any) -> None:
    started = place.outlast.start(body)
    assert ARRIVED.wait(10)
    assert place.outlast.pause(started.run_id).status == "running"
    heard(place)
    GO_ON.set()
    outcome = started.outcome(10)
    assert outcome.status == "interrupted"
    with pytest.raises(RunInterrupted):
        outcome.unwrap()
    assert place.run(body).result == ["a", "b"]
    assert (place.count("gate a"), place.count("gate b")) == (1, 1)


@both
def test_stop_asks_every_run_of_this_process(place: Place, body: Any) -> None:
    started = place.outlast.start(body)
    assert ARRIVED.wait(10)
    place.outlast.stop()
    GO_ON.set()
    assert started.outcome(10).status == "interrupted"


def test_only_a_running_run_can_be_paused(place: Place) -> None:
    KNOBS["trouble"] = ValueError("no")
    outcome = place.run(plain)
    with pytest.raises(Invalid):
        place.outlast.pause(outcome.run_id)


def test_a_step_may_look_whether_it_should_stop(place: Place) -> None:
    started = place.outlast.start(looks)
    assert ARRIVED.wait(10)
    place.outlast.stop()
    GO_ON.set()
    assert started.outcome(10).status == "interrupted"
    assert place.receipts("look")[0].result is True


@step
def look() -> bool:
    ARRIVED.set()
    assert GO_ON.wait(10)
    return current().stopping


@flow
def looks(run: Run) -> bool:
    found = look()
    before()
    return found


# -- given up ----------------------------------------------------------------------------------------


@both
def test_abort_ends_a_live_run_from_another_thread(place: Place, body: Any) -> None:
    started = place.outlast.start(body)
    assert ARRIVED.wait(10)
    assert place.outlast.abort(started.run_id, why="no use").status == "aborted"
    GO_ON.set()
    outcome = started.outcome(10)
    assert outcome.status == "aborted"
    with pytest.raises(RunAborted, match="no use"):
        outcome.unwrap()
    assert place.count("gate b") == 0


def test_nothing_of_an_aborted_run_is_recorded_any_more(place: Place) -> None:
    started = place.outlast.start(gated)
    assert ARRIVED.wait(10)
    place.outlast.abort(started.run_id, why="no use")
    seen = place.outlast.events(started.run_id)[-1].seq
    GO_ON.set()
    started.outcome(10)
    assert place.outlast.events(started.run_id)[-1].seq == seen
    assert place.outlast.verify().ok


def test_an_aborted_run_refuses_everything_but_a_new_run(place: Place) -> None:
    KNOBS["trouble"] = ValueError("no")
    outcome = place.run(plain)
    place.outlast.abort(outcome.run_id, why="no use")
    for refused in (
        lambda: place.outlast.resume(outcome.run_id),
        lambda: place.outlast.abort(outcome.run_id, why="again"),
        lambda: place.outlast.retry(outcome.run_id, "work"),
        lambda: place.outlast.plan(outcome.run_id),
    ):
        with pytest.raises(RunFinished):
            refused()
    assert place.run(plain).run_id != outcome.run_id


def test_a_crashed_run_can_be_aborted(place: Place) -> None:
    place.crash(crashes, at="here")
    assert place.outlast.abort(place.run_id, why="no use").status == "aborted"


@flow
def crashes(run: Run) -> None:
    before()
    reach("here")


def test_statuses_are_told_apart_from_outside(place: Place) -> None:
    place.crash(crashes, at="here")
    assert place.outlast.get(place.run_id).status == "crashed"
    assert [run.status for run in place.outlast.runs(status="crashed")] == ["crashed"]
    assert place.outlast.runs(status="running") == []
    place.run(crashes)
    assert [run.status for run in place.outlast.runs(status="succeeded")] == ["succeeded"]


def test_a_run_that_went_on_after_verify_had_listed_it_is_not_called_damaged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    KNOBS["trouble"] = ValueError("not yet")
    assert place.outlast.run(plain).status == "failed"
    listed = list(verify.each_run(place.outlast._home))
    assert place.outlast.resume(place.run_id).status == "succeeded"
    monkeypatch.setattr(verify, "each_run", lambda home: listed)
    assert place.outlast.verify().problems == ()
