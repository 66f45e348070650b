"""Events: one sequence that never repeats or goes back, also over deaths, and ids by which all records join."""

import asyncio
import os
import signal
import threading
import time
from typing import Any

import pytest

from outlast import AsyncOutlast, AsyncRun, Event, Interrupt, Outlast, Receipt, Run, current, effect, flow, step
from outlast.clock import moment
from outlast.errors import RunNotFound
from outlast.ledger.journal import Header, Payload, Row, entry
from outlast.runs.receipt import Attempts, events_of

from ..kit.empty import put_empty_home
from ..kit.place import KNOBS, Place, reach


@step(retries=1, backoff=0)
def work(number: int) -> int:
    run = current()
    run.emit("halfway", {"number": number})
    reach(f"work {number} attempt {run.attempt}")
    if number == 2 and run.attempt == 1:
        raise ConnectionError("no line")
    run.emit("noted", number, kind="fact")
    return number


@effect
def publish(text: str) -> str:
    reach("publishing")
    if not KNOBS.get("smooth"):
        raise RuntimeError("the line broke")
    return text


@flow
def child(run: Run) -> int:
    return work(7)


@flow
def parent(run: Run) -> str:
    run.phase = "working"
    done = [work(1), work(1), work(2)]
    reach("between")
    done.append(run.spawn(child).result())
    reach("after the child")
    run.phase = "publishing"
    return publish(str(done))


# -- the sequence ------------------------------------------------------------------------------------


def told(events: list[Event]) -> list[tuple[Any, ...]]:
    return [(event.seq, event.kind, event.name, event.at, event.step, event.attempt, event.body) for event in events]


def test_the_sequence_never_repeats_goes_back_or_changes_over_deaths(place: Place) -> None:
    known: list[tuple[Any, ...]] = []
    for point in ("work 1 attempt 1", "work 2 attempt 2", "between", "after the child", "publishing"):
        place.crash(parent, at=point)
        (run,) = [each for each in place.outlast.runs() if not each.parent]
        found = told(place.outlast.events(run.id))
        assert found[: len(known)] == known
        assert [event[0] for event in found] == [*range(1, len(found) + 1)]
        assert len(found) > len(known)
        known = found
    place.run(parent)
    assert told(place.outlast.events(run.id))[: len(known)] == known


def test_events_are_read_after_a_number_and_so_many_at_a_time(place: Place) -> None:
    run = place.run(parent).run_id
    every = place.outlast.events(run)
    assert place.outlast.events(run, after=3) == every[3:]
    assert place.outlast.events(run, after=3, limit=2) == every[3:5]
    assert place.outlast.events(run, after=len(every)) == []


@pytest.mark.parametrize(("kind", "name"), [("progress", "halfway"), ("fact", "noted")])
def test_an_event_is_a_fact_or_progress(place: Place, kind: str, name: str) -> None:
    place.run(child)
    assert [event.kind for event in place.events(name)] == [kind]
    assert {event.kind for event in place.outlast.events(place.run_id) if event.name.startswith(("run.", "step."))} == {
        "fact"
    }


@step
def says_run_now() -> str:
    current().emit("run.now", "never")
    current().emit("run.sleep", "never")
    return "said"


@flow
def tells_the_time(run: Run) -> str:
    says_run_now()
    reach("said")
    run.sleep(0)
    return run.now().isoformat()


def test_no_name_of_an_event_is_taken_for_a_call_of_the_body(place: Place) -> None:
    place.crash(tells_the_time, at="said")
    assert place.run(tells_the_time).unwrap() == moment(place.clock.now()).isoformat()


# -- following ---------------------------------------------------------------------------------------


@flow
def slow(run: Run) -> str:
    work(1)
    KNOBS["begun"].set()
    KNOBS["go"].wait(20)
    return str(work(3))


def test_following_gives_each_event_once_and_ends_with_the_run(place: Place) -> None:
    KNOBS["begun"], KNOBS["go"] = threading.Event(), threading.Event()
    started = place.outlast.start(slow)
    assert KNOBS["begun"].wait(20)
    found: list[Event] = []
    for event in place.outlast.follow_events(started.run_id):
        found.append(event)
        KNOBS["go"].set()
    assert found == place.outlast.events(started.run_id)
    assert found[-1].name == "run.succeeded"
    assert [*place.outlast.follow_events(started.run_id, after=found[-2].seq)] == found[-1:]


def test_following_over_a_death_goes_on_after_the_last_one(place: Place) -> None:
    put_empty_home(place.home)  # both of them open it
    child = os.fork()
    if child == 0:  # works until it is killed
        try:
            KNOBS["begun"], KNOBS["go"] = threading.Event(), threading.Event()
            with Outlast(place.home) as outlast:
                outlast.run(slow)
        finally:
            os._exit(0)
    outlast, found = place.outlast, list[Event]()
    deadline = time.monotonic() + 20
    while not (runs := outlast.runs()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    for event in outlast.follow_events(runs[0].id):
        found.append(event)
        if event.name == "step.succeeded":
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert outlast.get(runs[0].id).status == "crashed"
    KNOBS["begun"], KNOBS["go"] = threading.Event(), threading.Event()
    KNOBS["go"].set()
    outlast.resume(runs[0].id)
    found += outlast.follow_events(runs[0].id, after=found[-1].seq)
    assert found == outlast.events(runs[0].id)
    assert [event.seq for event in found] == [*range(1, len(found) + 1)]


def test_an_async_outlast_is_followed_by_async_for(place: Place) -> None:
    async def followed() -> tuple[list[Event], list[Event]]:
        async with AsyncOutlast(place.home) as outlast:
            started = await outlast.start(async_flow)
            found = [event async for event in outlast.follow_events(started.run_id)]
            return found, await outlast.events(started.run_id)

    found, there = asyncio.run(followed())
    assert found == there
    assert found[-1].name == "run.succeeded"


@flow
async def async_flow(run: AsyncRun) -> None:
    run.emit("one", 1)
    await run.step(work, 1)


def test_an_unknown_run_is_refused_before_the_first_event(place: Place) -> None:
    with pytest.raises(RunNotFound):
        place.outlast.follow_events("nowhere")


# -- joining -----------------------------------------------------------------------------------------


@pytest.fixture
def joined(place: Place) -> tuple[Place, str, list[Interrupt]]:
    """A run with retries, equal calls, a child, and an effect in doubt that a person skipped."""
    run = place.run(parent, trace_id="trace-1").run_id
    waits = place.outlast.interrupts(run)
    place.outlast.answer(waits[0].id, {"choice": "skip", "result": "seen", "why": "it is on the page"})
    assert place.outlast.resume(run).unwrap() == "seen"
    return place, run, waits


def test_every_record_of_a_run_has_its_run_and_its_trace(joined: tuple[Place, str, list[Interrupt]]) -> None:
    place, run, waits = joined
    events, receipts = place.outlast.events(run), place.outlast.receipts(run)
    assert {each.run_id for each in [*events, *receipts, *waits, *place.outlast.timeline(run)]} == {run}
    assert {each.trace_id for each in [*events, *receipts, place.outlast.get(run)]} == {"trace-1"}
    (spawned,) = [event.body["child"] for event in events if event.name == "child.started"]
    assert (place.outlast.get(spawned).parent, place.outlast.get(spawned).trace_id) == (run, "trace-1")
    assert {event.trace_id for event in place.outlast.events(spawned)} == {"trace-1"}


def test_an_event_and_a_receipt_are_joined_by_call_and_attempt(joined: tuple[Place, str, list[Interrupt]]) -> None:
    place, run, _ = joined
    events, receipts = place.outlast.events(run), place.outlast.receipts(run)
    of_work = [receipt for receipt in receipts if receipt.step == "work"]
    assert len({receipt.call for receipt in of_work}) == 3  # equal inputs are told apart: work, work~2, work~3

    def said(receipt: Receipt) -> list[str]:
        place = (receipt.call, receipt.attempt)
        return [event.name for event in events if (event.call, event.attempt) == place]

    assert [(receipt.label, receipt.attempt, said(receipt)) for receipt in of_work] == [
        ("work", 1, ["halfway", "noted", "step.succeeded"]),
        ("work~2", 1, ["halfway", "noted", "step.succeeded"]),
        ("work~3", 1, ["halfway", "step.failed"]),
        ("work~3", 2, ["halfway", "noted", "step.succeeded"]),
    ]
    assert all(event.seq in [each.seq for each in receipts] for event in events if event.name == "step.succeeded")


def test_a_wait_is_joined_with_its_receipt_event_and_place_in_time(joined: tuple[Place, str, list[Interrupt]]) -> None:
    place, run, (wait,) = joined
    (receipt,) = [each for each in place.outlast.receipts(run) if each.interrupt == wait.id]
    assert (receipt.label, receipt.status, receipt.call) == ("publish", "skipped", wait.call)
    events = [each for each in place.outlast.events(run) if each.interrupt == wait.id]
    assert [each.name for each in events] == ["interrupt.opened", "interrupt.answered", "effect.skipped"]
    assert ({each.call for each in events}, events[-1].seq) == ({wait.call}, receipt.seq)
    (item,) = [each for each in place.outlast.timeline(run) if each.interrupt == wait.id]
    assert (item.kind, item.call, item.started_at) == ("decision", wait.call, wait.opened_at)
    before = [each for each in place.outlast.events(run) if each.call == wait.call]
    names = [each.name for each in before if not each.name.startswith("interrupt.")]
    assert names == ["effect.started", "effect.failed", "effect.skipped"]


def test_the_artifacts_of_a_receipt_are_in_its_event() -> None:
    header = Header("step", "save", inputs="d", attempt=1, status="succeeded", delivered=True, started_at=1, ended_at=2)
    made = entry(header, Payload(artifacts=["report.md", "plan.md"]))
    rows = [Row(1, made.header, b"", made.payload)]
    (event,), (receipt,) = events_of("r", rows, "t"), Attempts("r", "f", rows, trace_id="t")
    assert event.artifacts == receipt.artifacts == ("report.md", "plan.md")
    assert (event.call, event.trace_id) == (receipt.call, receipt.trace_id)
    assert (event.trace_id, len(event.call)) == ("t", 16)


def test_a_user_s_own_event_cannot_pass_for_an_answer() -> None:
    made = entry(Header("emit", "said", started_at=1, mark="fact"), Payload(facts={"interrupt": "forged"}))
    (event,) = events_of("r", [Row(1, made.header, b"", made.payload)])
    assert (event.interrupt, event.call) == ("", "")


def test_a_call_has_the_same_id_in_its_key(joined: tuple[Place, str, list[Interrupt]]) -> None:
    place, run, _ = joined
    (receipt, *_) = [each for each in place.outlast.receipts(run) if each.key]
    assert receipt.key == f"{run}-{receipt.call}"
