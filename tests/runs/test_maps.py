"""run.map: calls in parallel that end together, however they end, and give the same again on replay."""

import asyncio
import os
import signal
import threading
import time
from typing import Any

import pytest

from outlast import AsyncRun, NotDone, Run, current, effect, flow, step
from outlast.errors import StateTooLarge

from ..kit.place import KNOBS, Place, ran, reach

WAIT_SECONDS = 20  # until a test that is stuck fails


def meet(name: str) -> threading.Event:
    return KNOBS.setdefault("meetings", {}).setdefault(name, threading.Event())


def await_meeting(name: str) -> None:
    assert meet(name).wait(WAIT_SECONDS), name


@pytest.fixture
def meetings(place: Place) -> Place:
    KNOBS["meetings"] = {}
    return place


# -- stopping ----------------------------------------------------------------------------------------


@step
def stops_at_three(item: int) -> int:
    ran(f"item {item}")
    if item == 3:
        KNOBS["outlast"].stop()
        meet("stopped").set()
    elif item > 3:
        await_meeting("stopped")
    return item


@flow
def stopped_map(run: Run) -> list[int]:
    return run.map(stops_at_three, range(30), concurrency=2)


@flow
async def stopped_map_async(run: AsyncRun) -> list[int]:
    return await run.map(stops_at_three, range(30), concurrency=2)


@flow
async def stopped_map_async_caught(run: AsyncRun) -> Any:
    try:
        return await run.map(stops_at_three, range(30), concurrency=2)
    except Exception as error:
        return f"caught {error!r}"


both_stopped = pytest.mark.parametrize(
    "body", [stopped_map, stopped_map_async, stopped_map_async_caught], ids=lambda flow: flow.__name__
)


@both_stopped
def test_a_request_to_stop_ends_a_map_after_the_calls_under_way(meetings: Place, body: Any) -> None:
    KNOBS["outlast"] = meetings.outlast
    outcome = meetings.run(body)
    assert (outcome.status, outcome.result) == ("interrupted", None)
    assert len(meetings.ran) <= 5  # the first three, the third's, and the one beside it
    meetings.reopen()
    assert meetings.run(body).result == list(range(30))
    assert len(meetings.ran) == 30


# -- Ctrl-C ------------------------------------------------------------------------------------------


@effect
def send(item: int) -> int:
    ran(f"sending {item}")
    if item == 0:
        os.kill(os.getpid(), signal.SIGINT)  # for the main thread, which waits for the map
    await_stop()
    ran(f"sent {item}")
    return item


def await_stop() -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not current().stopping and time.monotonic() < deadline:
        threading.Event().wait(0.001)


@flow
def sends(run: Run) -> list[int]:
    return run.map(send, range(20), concurrency=2)


def test_ctrl_c_during_a_map_lets_the_calls_under_way_end_and_begins_no_more(place: Place) -> None:
    before = {thread for thread in threading.enumerate() if thread.name.startswith("outlast-map")}
    with pytest.raises(KeyboardInterrupt):
        place.run(sends)
    sent = place.ran
    assert place.outlast.get(place.run_id).status == "interrupted"
    assert {receipt.status for receipt in place.receipts()} == {"succeeded"}
    assert len(place.receipts()) == len([line for line in sent if line.startswith("sent")]) <= 2
    left = {thread for thread in threading.enumerate() if thread.name.startswith("outlast-map")} - before
    for thread in left:
        thread.join(WAIT_SECONDS)
    assert place.ran == sent


# -- failures, waits, signals ------------------------------------------------------------------------


@effect
def charge(item: int) -> int:
    ran(f"charge {item}")
    if item == KNOBS.get("doubtful"):
        raise RuntimeError("was that charged")
    if item == KNOBS.get("refused"):
        raise NotDone("no such card")
    return item


@flow
def charges(run: Run) -> str:
    try:
        return str(run.map(charge, [1, 2, 3], concurrency=KNOBS.get("at once", 1)))
    except NotDone:
        ran("caught")
        return "caught"


@flow
async def charges_async(run: AsyncRun) -> str:
    try:
        return str(await run.map(charge, [1, 2, 3], concurrency=KNOBS.get("at once", 1)))
    except NotDone:
        ran("caught")
        return "caught"


both_charge = pytest.mark.parametrize("body", [charges, charges_async], ids=lambda flow: flow.__name__)
at_once = pytest.mark.parametrize("at_once", [1, 3])


@both_charge
@at_once
def test_a_flow_that_catches_a_maps_failure_waits_for_the_effect_that_is_in_doubt(
    place: Place, body: Any, at_once: int
) -> None:
    KNOBS.update({"doubtful": 1, "refused": 2, "at once": at_once})
    outcome = place.run(body)
    assert (outcome.status, [wait.type for wait in outcome.interrupts]) == ("waiting", ["in_doubt"])
    assert place.count("caught") == 1
    place.outlast.answer(outcome.interrupts[0].id, {"choice": "skip", "result": 1, "why": "seen"})
    outcome = place.run(body)
    assert (outcome.status, outcome.result) == ("succeeded", "caught")
    assert (place.count("charge 1"), place.count("charge 2")) == (1, 1)


@both_charge
def test_a_call_that_waits_makes_room_for_the_next(place: Place, body: Any) -> None:
    KNOBS["doubtful"] = 1
    outcome = place.run(body)
    assert (outcome.status, len(outcome.interrupts)) == ("waiting", 1)
    assert place.ran == ["charge 1", "charge 2", "charge 3"]
    place.outlast.answer(outcome.interrupts[0].id, {"choice": "skip", "result": 1, "why": "seen"})
    assert place.run(body).result == "[1, 2, 3]"


@step
def fails_at_two(item: int) -> int:
    ran(f"item {item}")
    if item == 2:
        raise ValueError("no two")
    return item


@flow
def catches(run: Run) -> str:
    try:
        return str(run.map(fails_at_two, range(1, 9), concurrency=2))
    except ValueError as error:
        reach("caught")
        return str(error)


@flow
async def catches_async(run: AsyncRun) -> str:
    try:
        return str(await run.map(fails_at_two, range(1, 9), concurrency=2))
    except ValueError as error:
        reach("caught")
        return str(error)


@pytest.mark.parametrize("body", [catches, catches_async], ids=lambda flow: flow.__name__)
def test_a_map_that_failed_begins_nothing_more_on_replay(place: Place, body: Any) -> None:
    place.crash(body, at="caught")
    ran_then = place.ran
    assert place.run(body).result == "no two"
    assert place.ran == ran_then


# -- several that fail at once -----------------------------------------------------------------------


@step
def fails_beside(item: int) -> int:
    """The first two begin before either of them ends, and fail."""
    ran(f"item {item}")
    if item < 2 and not KNOBS.get("mended"):
        meet(f"began {item}").set()
        await_meeting(f"began {1 - item}")
        raise ValueError(f"no {item}")
    return item


@step
async def fails_beside_async(item: int) -> int:
    ran(f"item {item}")
    if item < 2 and not KNOBS.get("mended"):
        meet(f"began {item}").set()
        while not meet(f"began {1 - item}").is_set():
            await asyncio.sleep(0)
        raise ValueError(f"no {item}")
    return item


@flow
def two_fail(run: Run) -> list[int]:
    return run.map(fails_beside, range(4), concurrency=2)


@flow
async def two_fail_async(run: AsyncRun) -> list[int]:
    return await run.map(fails_beside_async, range(4), concurrency=2)


@pytest.mark.parametrize("body", [two_fail, two_fail_async], ids=lambda flow: flow.__name__)
def test_all_items_that_failed_are_tried_again_and_not_one_with_each_resume(meetings: Place, body: Any) -> None:
    failed = meetings.run(body)
    assert failed.status == "failed"
    assert len(meetings.outlast.plan(failed.run_id).of("retry")) == 2
    KNOBS["mended"] = True
    assert meetings.run(body).result == [0, 1, 2, 3]
    assert sorted(meetings.ran) == ["item 0", "item 0", "item 1", "item 1", "item 2", "item 3"]


# -- state -------------------------------------------------------------------------------------------


@step
def signs(item: int) -> int:
    """Items end in the opposite order."""
    state = current().state
    state["seen"] = state.get("last", "nobody")
    state["last"] = f"item {item}"
    if item < 3:
        await_meeting(f"signed {item + 1}")
    return item


def let_the_next_go(execution: Any) -> None:
    """Lets item n go on once the receipt of item n + 1 is queued."""
    close = execution.close

    def closing(attempt: Any, *args: Any, **how: Any) -> Any:
        entries = close(attempt, *args, **how)
        if attempt.asked.spec.name == "signs":
            meet(f"signed {attempt.asked.inputs['item']}").set()
        return entries

    execution.close = closing


@flow
def signed(run: Run) -> dict[str, Any]:
    let_the_next_go(run._execution)
    run.state["last"] = "body"
    run.map(signs, [1, 2, 3], concurrency=3)
    reach("mapped")
    return dict(run.state)


@flow
async def signed_async(run: AsyncRun) -> dict[str, Any]:
    let_the_next_go(run._execution)
    run.state["last"] = "body"
    await run.map(signs, [1, 2, 3], concurrency=3)
    reach("mapped")
    return dict(run.state)


both_sign = pytest.mark.parametrize("body", [signed, signed_async], ids=lambda flow: flow.__name__)
IN_ORDER = {"last": "item 3", "seen": "body"}


@both_sign
def test_parallel_items_that_write_one_key_are_applied_in_the_order_of_the_items(meetings: Place, body: Any) -> None:
    assert meetings.run(body).result == IN_ORDER
    ended = [receipt.result for receipt in meetings.receipts("signs")]
    assert ended == [3, 2, 1]


@both_sign
def test_replay_applies_what_parallel_items_wrote_in_the_same_order(meetings: Place, body: Any) -> None:
    meetings.crash(body, at="mapped")
    outcome = meetings.run(body)
    assert (outcome.result, outcome.replayed_steps) == (IN_ORDER, 3)


@step
def after() -> None:
    reach("after")


@flow
def signed_and_on(run: Run) -> None:
    let_the_next_go(run._execution)
    run.map(signs, [1, 2, 3], concurrency=3)
    run.step(after)
    reach("went on")


def test_a_plan_shows_the_state_as_the_flow_saw_it(meetings: Place) -> None:
    meetings.crash(signed_and_on, at="went on")
    assert meetings.outlast.plan(meetings.run_id).state["last"] == "item 3"


@step
def writes_much(item: int) -> None:
    current().state[f"part {item}"] = "x" * 20_000


@flow
def writes_too_much(run: Run) -> dict[str, Any]:
    try:
        run.map(writes_much, [1, 2, 3, 4], concurrency=KNOBS.get("at once", 1))
    except StateTooLarge:
        reach("too large")
        return dict(run.state)
    return {"all": "kept"}


@at_once
def test_items_that_together_write_more_than_the_state_holds_are_refused(place: Place, at_once: int) -> None:
    KNOBS["at once"] = at_once
    place.crash(writes_too_much, at="too large")
    assert place.run(writes_too_much).result == {}
