"""A run that is given up, or past its deadline, while it goes on: what is awaited ends, effects are let end first."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from outlast import AsyncRun, Outcome, Outlast, Run, current, effect, flow, flow_file, step
from outlast.clock import ManualClock
from outlast.errors import FlowInvalid, RunTimedOut
from outlast.home.settings import Settings

from ..kit.place import KNOBS, Place, ran, reach

WAIT_SECONDS = 20  # until a test that is stuck fails
REACHED: dict[str, threading.Event] = {}


def reached(name: str) -> threading.Event:
    return REACHED.setdefault(name, threading.Event())


def await_it(name: str) -> None:
    assert reached(name).wait(WAIT_SECONDS), name


@pytest.fixture(autouse=True)
def nothing_reached() -> Any:
    REACHED.clear()
    yield
    for event in REACHED.values():
        event.set()


def begun(place: Place, body: Any, *args: Any) -> tuple[threading.Thread, list[Outcome[Any]]]:
    """A run in a thread of its own, and what comes of it."""
    found: list[Outcome[Any]] = []
    hold = place.outlast
    thread = threading.Thread(target=lambda: found.append(hold.run(body, *args)), daemon=True)
    thread.start()
    return thread, found


def ended(thread: threading.Thread, found: list[Outcome[Any]]) -> Outcome[Any]:
    thread.join(WAIT_SECONDS)
    assert found, "the run has not ended"
    return found[0]


def until(holds: Callable[[], Any]) -> None:
    limit = time.monotonic() + WAIT_SECONDS
    while not holds() and time.monotonic() < limit:
        threading.Event().wait(0.005)
    assert holds()


# -- bodies that would go on for ever ----------------------------------------------------------------


@step
async def listens() -> str:
    try:
        reached("listening").set()
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        ran("cancelled")
        raise
    return "never"


@step
def digs() -> str:
    reached("digging").set()
    await_it("dug")
    ran("dug")
    reached("has dug").set()
    return "late"


@step(timeout=60)
def digs_in_time() -> str:
    return digs.plain()


@effect
async def sends() -> str:
    reached("sending").set()
    while not reached("send on").is_set():
        await asyncio.sleep(0.005)
    ran("sent")
    return "sent"


@flow
async def awaits(run: AsyncRun) -> str:
    return await listens()


@flow
def awaits_in_plain(run: Run) -> str:
    return run.step(listens)


@flow
def awaits_on_own_loop(run: Run) -> str:
    return asyncio.run(listens())


@step
async def listens_to(item: int) -> str:
    return await listens.plain()


@flow
def awaits_in_map(run: Run) -> list[str]:
    return run.map(listens_to, range(3), concurrency=2, on_error="collect")  # type: ignore[return-value]


@flow
async def awaits_in_async_map(run: AsyncRun) -> list[str]:
    return await run.map(listens_to, range(3), concurrency=2)


@flow
async def awaits_by_itself(run: AsyncRun) -> str:
    reached("listening").set()
    await asyncio.Event().wait()
    return "never"


AWAITING = [awaits, awaits_in_plain, awaits_on_own_loop, awaits_in_map, awaits_in_async_map, awaits_by_itself]
awaiting = pytest.mark.parametrize("body", AWAITING, ids=lambda flow: flow.__name__)


# -- abort -------------------------------------------------------------------------------------------


@awaiting
def test_abort_cancels_an_awaited_step(place: Place, body: Any) -> None:
    run = begun(place, body)
    await_it("listening")
    place.outlast.abort(place.run_id, why="enough")
    outcome = ended(*run)
    assert (outcome.status, outcome.error["message"]) == ("aborted", "enough")
    if body is not awaits_by_itself:
        assert place.count("cancelled") in (1, 2)  # two of the maps' were under way
    assert {receipt.status for receipt in place.receipts()} <= {"started"}  # fenced: nothing of it counts


def test_abort_by_another_process_cancels_it_too(place: Place) -> None:
    run = begun(place, awaits)
    await_it("listening")
    other = Outlast(place.home, clock=place.clock, store_options={"synchronous": "OFF"})
    other.abort(place.run_id, why="enough")
    other.close()
    assert ended(*run).status == "aborted"
    assert place.count("cancelled") == 1


@flow
async def digs_in_async(run: AsyncRun) -> str:
    return await run.step(digs)


@flow
def digs_with_timeout(run: Run) -> str:
    return digs_in_time()


@pytest.mark.parametrize("body", [digs_in_async, digs_with_timeout], ids=lambda flow: flow.__name__)
def test_a_plain_step_in_a_thread_is_left_behind_and_its_result_is_dropped(place: Place, body: Any) -> None:
    run = begun(place, body)
    await_it("digging")
    place.outlast.abort(place.run_id, why="enough")
    assert ended(*run).status == "aborted"
    reached("dug").set()
    await_it("has dug")
    assert place.outlast.get(place.run_id).status == "aborted"
    assert not any(receipt.delivered for receipt in place.receipts())


@flow
async def sends_and_listens(run: AsyncRun) -> list[str]:
    return await asyncio.gather(listens(), sends())


def test_an_effect_under_way_is_let_end_when_its_run_is_given_up(place: Place) -> None:
    run = begun(place, sends_and_listens)
    await_it("listening")
    await_it("sending")
    place.outlast.abort(place.run_id, why="enough")
    until(lambda: place.count("cancelled"))
    assert not run[1]  # it waits for the effect
    reached("send on").set()
    assert ended(*run).status == "aborted"
    assert place.count("sent") == 1


def test_after_the_grace_the_effect_is_stopped_too_and_stays_in_doubt(place: Place) -> None:
    place.settings = Settings(grace_seconds=0.0)
    run = begun(place, sends_and_listens)
    await_it("listening")
    await_it("sending")
    place.outlast.abort(place.run_id, why="enough")
    assert ended(*run).status == "aborted"
    assert (place.count("sent"), place.statuses("sends")) == (0, ["started"])


COMMAND = """
flow: digging
steps:
  - id: dig
    run: |
      echo begun > begun.txt
      sleep 600
"""


def test_abort_ends_a_command(place: Place) -> None:
    found = flow_file(place.script("digging.yaml", COMMAND))
    run = begun(place, found)
    until((place.folder / "begun.txt").exists)
    place.outlast.abort(place.run_id, why="enough")
    assert ended(*run).status == "aborted"


# -- a deadline --------------------------------------------------------------------------------------


@step
def takes_minutes(minutes: int) -> int:
    clock: ManualClock = KNOBS["clock"]
    ran(f"took {minutes}")
    clock.advance(minutes * 60)
    if KNOBS.get("wait for the heart", True):
        until(lambda: current().stopping or not KNOBS.get("late"))
    return minutes


@flow(deadline="1h")
def in_an_hour(run: Run) -> list[int]:
    found = []
    for minutes in KNOBS["minutes"]:
        KNOBS["late"] = sum([*found, minutes]) >= 60
        found.append(takes_minutes(minutes))
        reach(f"after {len(found)}")
    return found


@pytest.fixture
def timed(place: Place) -> Place:
    KNOBS["clock"] = place.clock
    return place


def test_a_run_that_is_done_in_time_knows_nothing_of_its_deadline(timed: Place) -> None:
    KNOBS["minutes"] = [20, 30]
    assert timed.run(in_an_hour).result == [20, 30]
    assert timed.outlast.interrupts() == []


def test_past_its_deadline_no_further_step_begins_and_the_run_fails_with_a_code(timed: Place) -> None:
    KNOBS["minutes"] = [20, 50, 1]
    outcome = timed.run(in_an_hour)
    assert isinstance(outcome.exception, RunTimedOut)
    assert (outcome.status, outcome.error["code"]) == ("failed", "run_timed_out")
    assert "3600 s after its start" in str(outcome.exception)
    assert timed.ran == ["took 20", "took 50"]
    assert [receipt.status for receipt in timed.receipts()] == ["succeeded", "succeeded"]  # the last one was let end


def test_a_body_that_comes_to_its_end_all_the_same_has_succeeded(timed: Place) -> None:
    KNOBS["minutes"] = [20, 50]
    assert timed.run(in_an_hour).result == [20, 50]


def test_the_time_is_measured_from_the_start_over_all_resumes(timed: Place) -> None:
    KNOBS["minutes"] = [20, 20, 30, 1]
    timed.crash(in_an_hour, at="after 2")
    timed.clock.advance(40 * 60)  # the child's time is not ours
    outcome = timed.run(in_an_hour)
    assert outcome.status == "failed"
    assert timed.ran == ["took 20", "took 20", "took 30"]
    timed.clock.advance(60)
    assert isinstance(timed.run(in_an_hour).exception, RunTimedOut)  # a resume without a later deadline
    assert len(timed.ran) == 3


def test_a_later_deadline_lets_it_go_on(timed: Place) -> None:
    KNOBS["minutes"] = [20, 50, 1]
    assert timed.run(in_an_hour).status == "failed"
    longer = flow(deadline="3h")(in_an_hour.function)
    KNOBS["late"] = False
    KNOBS["wait for the heart"] = False
    assert timed.run(longer).result == [20, 50, 1]
    assert timed.ran == ["took 20", "took 50", "took 1"]


@flow(deadline="1h")
async def sleeps_past_it(run: AsyncRun) -> None:
    await run.sleep("10h")


@flow(deadline="1h")
def asks_past_it(run: Run) -> Any:
    return run.pause_for("approval", {"what": "all"})


@pytest.mark.parametrize("body", [sleeps_past_it, asks_past_it], ids=lambda flow: flow.__name__)
def test_a_run_that_waits_is_woken_at_its_deadline_and_fails(timed: Place, body: Any) -> None:
    outcome = timed.run(body)
    assert outcome.status == "waiting"
    (own,) = [wait for wait in outcome.interrupts if wait.step == "run.deadline"]
    assert own.says.startswith("the run is to be done by ")
    assert timed.outlast.due() == []
    timed.clock.advance(3600)
    (due,) = timed.outlast.due()
    assert isinstance(timed.outlast.resume(due.run_id).exception, RunTimedOut)


def test_an_answer_in_time_goes_on_as_ever_and_the_deadline_is_no_question(timed: Place) -> None:
    outcome = timed.run(asks_past_it)
    (asked,) = [wait for wait in outcome.interrupts if wait.type == "approval"]
    timed.outlast.answer(asked.id, {"approved": True})
    assert timed.run(asks_past_it).status == "succeeded"
    assert timed.outlast.interrupts() == []
    assert timed.outlast.verify(timed.run_id).ok


@flow(deadline="1h")
async def listens_for_an_hour(run: AsyncRun) -> list[str]:
    return await asyncio.gather(listens(), sends())


@flow(deadline="1h")
def listens_in_plain_for_an_hour(run: Run) -> str:
    return run.step(listens)


def test_at_the_deadline_an_awaited_step_is_cancelled_and_an_effect_let_end(timed: Place) -> None:
    run = begun(timed, listens_for_an_hour)
    await_it("listening")
    await_it("sending")
    timed.clock.advance(3600)
    until(lambda: timed.count("cancelled"))
    reached("send on").set()
    outcome = ended(*run)
    assert isinstance(outcome.exception, RunTimedOut)
    assert {receipt.step: receipt.status for receipt in timed.receipts()} == {
        "listens": "interrupted",
        "sends": "succeeded",
    }


def test_in_a_plain_flow_too(timed: Place) -> None:
    run = begun(timed, listens_in_plain_for_an_hour)
    await_it("listening")
    timed.clock.advance(3600)
    assert isinstance(ended(*run).exception, RunTimedOut)
    assert timed.statuses() == ["interrupted"]


def test_after_the_grace_an_effect_is_stopped_and_asked_about(timed: Place) -> None:
    timed.settings = Settings(grace_seconds=0.0)
    run = begun(timed, listens_for_an_hour)
    await_it("listening")
    await_it("sending")
    timed.clock.advance(3600)
    assert isinstance(ended(*run).exception, RunTimedOut)
    assert {receipt.step: receipt.status for receipt in timed.receipts()} == {
        "listens": "interrupted",
        "sends": "interrupted",
    }
    reasons = {reason.code for reason in timed.outlast.plan(timed.run_id).verdict.reasons}
    assert "effect_in_doubt" in reasons


@flow
async def inner(run: AsyncRun) -> str:
    return await listens()


@flow(deadline="1h")
def outer(run: Run) -> str:
    return run.spawn(inner).result()


def test_a_child_run_is_stopped_with_its_parent_and_goes_on_with_it(timed: Place) -> None:
    run = begun(timed, outer)
    await_it("listening")
    timed.clock.advance(3600)
    outcome = ended(*run)
    assert isinstance(outcome.exception, RunTimedOut)
    statuses = {record.flow.rpartition(":")[2]: record.status for record in timed.outlast.runs()}
    assert statuses == {"outer": "failed", "inner": "interrupted"}


@pytest.mark.parametrize("deadline", ["soon", -1, 0, "0s", float("nan"), True])
def test_what_is_no_deadline_is_refused_where_it_is_written(deadline: Any) -> None:
    with pytest.raises(FlowInvalid, match="deadline"):
        flow(deadline=deadline)


@pytest.mark.filterwarnings("error")
def test_nothing_of_a_body_that_was_called_off_is_left_for_asyncio_to_complain_about(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    run = begun(place, sends_and_listens)
    await_it("listening")
    await_it("sending")
    place.outlast.abort(place.run_id, why="enough")
    until(lambda: place.count("cancelled"))
    reached("send on").set()
    assert ended(*run).status == "aborted"
    gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


# -- a request to stop -------------------------------------------------------------------------------


@step
async def hears(number: int) -> int:
    reached("hearing").set()
    while not current().stopping:
        await asyncio.sleep(0.005)
    return number


async def hears_on() -> int:
    return await hears(1) + await hears(2)


@flow
async def hears_and_sends(run: AsyncRun) -> list[Any]:
    return await asyncio.gather(hears_on(), sends())


@flow
async def hears_and_sends_in_a_group(run: AsyncRun) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(hears_on())
        group.create_task(sends())


both_hear = pytest.mark.parametrize(
    "body", [hears_and_sends, hears_and_sends_in_a_group], ids=lambda flow: flow.__name__
)


@both_hear
def test_a_branch_that_may_not_go_on_leaves_the_effect_of_another_to_its_end(place: Place, body: Any) -> None:
    run = begun(place, body)
    await_it("hearing")
    await_it("sending")
    place.outlast.stop()
    until(lambda: "succeeded" in place.statuses("hears"))
    reached("send on").set()
    assert ended(*run).status == "interrupted"
    assert place.statuses("sends") == ["succeeded"]


@both_hear
def test_one_that_is_to_stop_now_does_not_wait_for_it(place: Place, body: Any) -> None:
    run = begun(place, body)
    await_it("hearing")
    await_it("sending")
    place.outlast.stop(now=True)
    assert ended(*run).status == "interrupted"
    assert place.statuses("sends") == ["interrupted"]
