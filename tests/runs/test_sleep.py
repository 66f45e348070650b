"""run.sleep lasts over restarts: short ones wait in place, long ones leave a timer."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outlast import AsyncRun, Run, effect, flow, step
from outlast.clock import ManualClock
from outlast.errors import AnswerInvalid, RunWaiting, StepInvalid

from ..kit.place import KNOBS, Place, ran, reach

START = datetime(2026, 1, 1, tzinfo=UTC)


class NappingClock(ManualClock):
    """Lets the loop turn for a moment while it sleeps, as the real one does."""

    async def sleep_async(self, seconds: float) -> None:
        await asyncio.sleep(0.1)
        self.advance(seconds)


@step
def work(text: str) -> str:
    ran(f"work {text}")
    return text


@flow
def sleeps(run: Run) -> str:
    work("before")
    run.sleep(KNOBS["long"])
    reach("slept")
    return work("after")


@flow
async def sleeps_async(run: AsyncRun) -> str:
    await run.step(work, "before")
    await run.sleep(KNOBS["long"])
    reach("slept")
    return str(await run.step(work, "after"))


both = pytest.mark.parametrize("body", [sleeps, sleeps_async], ids=lambda flow: flow.__name__)


def passed(place: Place) -> timedelta:
    return timedelta(microseconds=place.clock.now()) - (START - datetime(1970, 1, 1, tzinfo=UTC))


@both
def test_a_short_sleep_waits_in_place(place: Place, body: Any) -> None:
    KNOBS["long"] = 10
    assert place.run(body).result == "after"
    assert passed(place) == pytest.approx(timedelta(seconds=10), abs=timedelta(seconds=1))


@both
def test_a_sleep_that_is_over_is_not_slept_again(place: Place, body: Any) -> None:
    KNOBS["long"] = 10
    place.crash(body, at="slept")
    place.clock.advance(10)
    assert place.run(body).result == "after"
    assert passed(place) == pytest.approx(timedelta(seconds=10), abs=timedelta(seconds=1))


@both
def test_a_long_sleep_leaves_a_timer(place: Place, body: Any) -> None:
    KNOBS["long"] = "2h"
    outcome = place.run(body)
    assert outcome.status == "waiting"
    (wait,) = outcome.interrupts
    assert (wait.type, wait.due_at, wait.choices) == ("timer", START + timedelta(hours=2), ())
    with pytest.raises(RunWaiting):
        outcome.unwrap()


@both
def test_before_it_is_due_the_run_still_waits(place: Place, body: Any) -> None:
    KNOBS["long"] = "2h"
    first = place.run(body)
    place.clock.advance(3600)
    assert place.run(body).interrupts == first.interrupts
    assert place.outlast.resume(first.run_id).status == "waiting"
    assert len(place.outlast.interrupts()) == 1


@both
def test_when_it_is_due_the_run_goes_on(place: Place, body: Any) -> None:
    KNOBS["long"] = "2h"
    place.run(body)
    place.clock.advance(2 * 3600)
    assert place.run(body).result == "after"
    assert (place.count("work before"), place.outlast.interrupts()) == (1, [])


@both
def test_the_last_part_of_a_long_sleep_waits_in_place(place: Place, body: Any) -> None:
    KNOBS["long"] = "2h"
    outcome = place.run(body)
    place.clock.advance(2 * 3600 - 30)
    assert place.outlast.resume(outcome.run_id).result == "after"
    assert passed(place) == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=1))


def test_a_timer_takes_no_answer(place: Place) -> None:
    KNOBS["long"] = "2h"
    (wait,) = place.run(sleeps).interrupts
    with pytest.raises(AnswerInvalid):
        place.outlast.answer(wait.id, {"choice": "retry"})


@both
@pytest.mark.parametrize("long", [-1, "soon", None, "5 years"])
def test_a_duration_that_is_none_is_refused(place: Place, body: Any, long: Any) -> None:
    KNOBS["long"] = long
    assert isinstance(place.run(body).exception, StepInvalid)


@flow
def swallows(run: Run) -> str:
    try:
        run.sleep("1h")
    except Exception:
        ran("swallowed")
    return work("after")


def test_a_wait_cannot_be_swallowed_by_except_exception(place: Place) -> None:
    assert place.run(swallows).status == "waiting"
    assert place.ran == []


@flow
def swallows_all(run: Run) -> str:
    try:
        run.sleep("1h")
    except BaseException:
        ran("swallowed")
    return work("after")


def test_one_that_was_swallowed_is_raised_again_at_the_next_call(place: Place) -> None:
    assert place.run(swallows_all).status == "waiting"
    assert place.ran == ["swallowed"]


@flow
async def sleeps_beside(run: AsyncRun) -> list[str]:
    async def slow() -> str:
        await run.sleep("1h")
        return str(await run.step(work, "slept"))

    async def quick() -> str:
        await run.step(work, "one")
        return str(await run.step(work, "two"))

    return list(await asyncio.gather(slow(), quick()))


def test_other_branches_go_on_while_one_sleeps(place: Place) -> None:
    outcome = place.run(sleeps_beside)
    assert (outcome.status, place.ran) == ("waiting", ["work one", "work two"])
    place.clock.advance(3600)
    assert place.run(sleeps_beside).result == ["slept", "two"]
    assert place.ran == ["work one", "work two", "work slept"]


@effect
async def send() -> str:
    if not KNOBS.get("smooth"):
        raise RuntimeError("what was that")
    return "sent"


@flow
async def naps_beside_a_wait(run: AsyncRun) -> list[str]:
    waits = asyncio.create_task(send())
    await asyncio.sleep(0)
    await run.sleep(5)
    return [str(await run.step(work, "napped")), await waits]


def test_a_run_does_not_wait_before_a_short_sleep_beside_it_is_over(place: Place) -> None:
    place.clock = NappingClock()
    outcome = place.run(naps_beside_a_wait)
    assert (outcome.status, place.ran) == ("waiting", ["work napped"])
