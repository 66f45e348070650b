"""AsyncOutlast: the same surface on an event loop, for plain and async flows."""

import asyncio
from typing import Any

import pytest

from outlast import AsyncOutlast, AsyncRun, Run, effect, flow, step
from outlast.errors import Contested, RunFinished, RunHeld

from ..kit.place import KNOBS, Place, ran, reach


@step
def work(text: str) -> str:
    ran(f"work {text}")
    return text.upper()


@step
async def work_async(text: str) -> str:
    ran(f"work {text}")
    await asyncio.sleep(0)
    return text.upper()


@effect
async def send(text: str) -> str:
    ran(f"send {text}")
    raise RuntimeError("what was that")


@flow
def plain(run: Run, text: str) -> str:
    found = work(text)
    reach("worked")
    return found


@flow
async def of_async(run: AsyncRun, text: str) -> str:
    found = await work_async(text)
    reach("worked")
    return found


@flow
async def sends(run: AsyncRun, text: str) -> str:
    return await send(text)


both = pytest.mark.parametrize("body", [plain, of_async], ids=lambda flow: flow.__name__)


def on_loop(place: Place, work: Any) -> Any:
    """Run `work(outlast)` on a loop of its own."""

    async def main() -> Any:
        async with AsyncOutlast(place.home, clock=place.clock) as outlast:
            return await work(outlast)

    place.close()
    return asyncio.run(main())


@both
def test_a_flow_runs_to_its_end(place: Place, body: Any) -> None:
    outcome = on_loop(place, lambda outlast: outlast.run(body, "x"))
    assert (outcome.status, outcome.result) == ("succeeded", "X")


@both
def test_a_crashed_run_goes_on(place: Place, body: Any) -> None:
    place.crash(body, "x", at="worked")
    outcome = on_loop(place, lambda outlast: outlast.run(body, "x"))
    assert (outcome.result, outcome.replayed_steps) == ("X", 1)


@both
def test_resume_by_id(place: Place, body: Any) -> None:
    place.crash(body, "x", at="worked")
    run_id = place.run_id
    assert on_loop(place, lambda outlast: outlast.resume(run_id)).result == "X"
    with pytest.raises(RunFinished):
        on_loop(place, lambda outlast: outlast.resume(run_id))


@both
def test_start_goes_on_in_a_task(place: Place, body: Any) -> None:
    async def work(outlast: AsyncOutlast) -> Any:
        started = await outlast.start(body, "x")
        assert outlast.blocking.get(started.run_id).status == "running"  # before the loop can go on with it
        return await started

    assert on_loop(place, work).result == "X"


def test_many_runs_at_once_on_one_loop(place: Place) -> None:
    async def work(outlast: AsyncOutlast) -> list[Any]:
        flows = [plain if number % 4 == 0 else of_async for number in range(24)]
        return await asyncio.gather(*(outlast.run(body, f"text {n}") for n, body in enumerate(flows)))

    outcomes = on_loop(place, work)
    assert [outcome.result for outcome in outcomes] == [f"TEXT {number}" for number in range(24)]
    assert len(place.ran) == 24
    assert place.outlast.verify().ok


def test_the_second_starter_on_the_same_loop_is_told_who_holds_the_run(place: Place) -> None:
    async def work(outlast: AsyncOutlast) -> str:
        started = await outlast.start(of_async, "x")
        try:
            await outlast.run(of_async, "x")
        except RunHeld:
            return str((await started).status) + " alone"
        return "met"

    assert on_loop(place, work) == "succeeded alone"


def test_a_wait_is_answered_on_the_loop(place: Place) -> None:
    async def work(outlast: AsyncOutlast) -> Any:
        outcome = await outlast.run(sends, "x")
        assert outcome.status == "waiting"
        await outlast.skip(outcome.run_id, "send", result="by hand", why="seen")
        return await outlast.run(sends, "x")

    assert on_loop(place, work).result == "by hand"
    assert place.count("send x") == 1


def test_one_run_that_fails_leaves_the_others_alone(place: Place) -> None:
    async def work(outlast: AsyncOutlast) -> list[str]:
        KNOBS["bad"] = "b"
        outcomes = await asyncio.gather(*(outlast.run(picky, text) for text in "abc"))
        return [outcome.status for outcome in outcomes]

    assert on_loop(place, work) == ["succeeded", "failed", "succeeded"]


@flow
async def picky(run: AsyncRun, text: str) -> str:
    if KNOBS["bad"] == text:
        raise ValueError("no")
    return await work_async(text)


def test_closing_asks_live_runs_to_stop(place: Place) -> None:
    assert Contested.code == "contested"

    async def main() -> Any:
        outlast = AsyncOutlast(place.home)
        outlast.stop()
        await outlast.close()

    asyncio.run(main())
    assert place.outlast.runs() == []
