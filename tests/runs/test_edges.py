"""The edges of a run: between claim and body, between two attempts, between the last step and the end, and after it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import UNKNOWN, AsyncOutlast, AsyncRun, Outlast, Run, effect, failpoints, flow, step
from outlast.errors import Invalid, LeaseLost, RunHeld, Stopped
from outlast.runs import claim as claims
from outlast.runs.start import claim_run

KNOBS: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def _fresh_knobs() -> Iterator[None]:
    KNOBS.clear()
    yield
    failpoints.arm(None)


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    with Outlast(tmp_path, store_options={"synchronous": "OFF"}) as opened:
        yield opened


@step
def work(n: int) -> int:
    KNOBS["ran"] = KNOBS.get("ran", 0) + 1
    if KNOBS.get("fail"):
        raise RuntimeError("as asked")
    hook = KNOBS.get("in step")
    if hook:
        hook(n)
    return n


@flow
def one(run: Run) -> int:
    return work(1)


@flow
def many(run: Run, n: int) -> int:
    return sum(work(i) for i in range(n))


def failed(outlast: Outlast) -> str:
    KNOBS["fail"] = True
    outcome = outlast.run(one)
    KNOBS["fail"] = False
    assert outcome.status == "failed"
    return outcome.run_id


# -- between claim and body --------------------------------------------------------------------------


def test_giving_a_claim_back_does_not_revive_a_run_that_was_aborted_meanwhile(outlast: Outlast) -> None:
    run_id = failed(outlast)
    claimed = claim_run(outlast._executor.caller, run_id)
    outlast.abort(run_id, why="given up")
    claims.release(outlast._executor.home, claimed, claimed.found)
    assert outlast.get(run_id).status == "aborted"
    assert outlast.verify().ok


def test_a_run_that_was_given_back_can_be_claimed_again(outlast: Outlast) -> None:
    run_id = failed(outlast)
    claimed = claim_run(outlast._executor.caller, run_id)
    claims.release(outlast._executor.home, claimed, claimed.found)
    assert outlast.get(run_id).status == "failed"
    with pytest.raises(LeaseLost):
        outlast._executor.home.store.finish(outlast._executor.home.store.put(claimed.hold, []))


# -- between two attempts ----------------------------------------------------------------------------


@step(retries=3, backoff=60)
async def flaky() -> str:
    KNOBS["ran"] = KNOBS.get("ran", 0) + 1
    if KNOBS.get("well"):
        return "well"
    raise ConnectionError("not yet")


@step
async def die() -> None:
    if not KNOBS.get("well"):
        raise RuntimeError("the run ends here")


@flow
async def impatient(run: AsyncRun) -> str:
    try:
        async with asyncio.timeout(0.2):
            seen = await flaky()
    except TimeoutError:
        seen = "gave up"
    await die()
    return seen


def test_a_call_cancelled_while_it_waits_for_its_next_attempt_stays_cancelled(outlast: Outlast) -> None:
    assert outlast.run(impatient).status == "failed"
    KNOBS["well"] = True
    assert outlast.run(impatient).unwrap() == "gave up"
    assert KNOBS["ran"] == 1


# -- questions that a flow cannot get past -----------------------------------------------------------


async def slow_probe() -> Any:
    await asyncio.sleep(60)
    return UNKNOWN


@effect(confirm=slow_probe)
async def probed() -> str:
    raise ConnectionError("sent, or not")


@effect
async def unprobed() -> str:
    raise ConnectionError("sent, or not")


@flow
async def cancels_a_probe(run: AsyncRun) -> str:
    try:
        async with asyncio.timeout(0.1):
            await probed()
    except TimeoutError:
        pass
    return "all is well"


@flow
async def cancels_a_wait(run: AsyncRun) -> str:
    waiting = asyncio.ensure_future(unprobed())
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return "all is well"


@pytest.mark.parametrize("doubtful", [cancels_a_probe, cancels_a_wait])
def test_a_run_does_not_succeed_while_an_effect_is_in_doubt(outlast: Outlast, doubtful: Any) -> None:
    outcome = outlast.run(doubtful)
    assert outcome.status == "waiting"
    assert [wait.type for wait in outlast.interrupts(outcome.run_id)] == ["in_doubt"]


@effect
def send(x: str) -> str:
    raise ConnectionError("sent, or not")


@flow
def asks(run: Run) -> str:
    work(1)
    return send("x")


def test_a_wait_stays_open_when_the_body_fails_before_it_gets_there(outlast: Outlast) -> None:
    outcome = outlast.run(asks)
    assert outcome.status == "waiting"
    outlast.rewind(outcome.run_id, "work", why="do it again")
    KNOBS["fail"] = True
    assert outlast.run(asks).status == "failed"
    assert [wait.id for wait in outlast.interrupts()] == [outcome.interrupts[0].id]


# -- the end, and after it ---------------------------------------------------------------------------


@flow
def leaves_a_thread(run: Run) -> str:
    KNOBS["later"] = run.bind(work.__call__)
    return "done"


def test_nothing_is_done_in_the_name_of_a_run_that_is_over(outlast: Outlast) -> None:
    outcome = outlast.run(leaves_a_thread)
    seen: list[BaseException] = []

    def late() -> None:
        try:
            KNOBS["later"](1)
        except BaseException as error:
            seen.append(error)

    thread = threading.Thread(target=late)
    thread.start()
    thread.join()
    assert [type(error) for error in seen] == [Stopped]
    assert "ran" not in KNOBS
    assert outlast.events(outcome.run_id)[-1].name == "run.succeeded"
    assert outlast.verify().ok


@flow
def aborted_at_the_last_moment(run: Run) -> str:
    work(1)
    KNOBS["abort"](run.id)
    return "too late"


def test_an_abort_after_the_last_step_is_the_outcome(outlast: Outlast) -> None:
    KNOBS["abort"] = lambda run_id: outlast.abort(run_id, why="enough")
    outcome = outlast.run(aborted_at_the_last_moment)
    assert (outcome.status, outcome.result) == ("aborted", None)


# -- deciding ----------------------------------------------------------------------------------------


def test_what_has_succeeded_cannot_be_retried(outlast: Outlast) -> None:
    outcome = outlast.run(asks)
    with pytest.raises(Invalid, match="has succeeded already"):
        outlast.retry(outcome.run_id, "work")


def test_a_live_run_takes_no_decisions_about_its_steps(outlast: Outlast) -> None:
    seen: list[type] = []

    def decide(_: int) -> None:
        run_id = outlast.runs()[0].id
        for choice in (outlast.retry, outlast.rewind):
            with pytest.raises(RunHeld) as refused:
                choice(run_id, "work")
            seen.append(refused.type)

    KNOBS["in step"] = decide
    outlast.run(one).unwrap()
    assert seen == [RunHeld, RunHeld]


def test_only_a_run_that_somebody_runs_can_be_paused(outlast: Outlast) -> None:
    run_id = failed(outlast)
    with pytest.raises(Invalid, match="is failed; only a running one"):
        outlast.pause(run_id)


# -- stopping from outside ---------------------------------------------------------------------------


def test_cancelling_a_plain_flow_on_a_loop_stops_it(tmp_path: Path) -> None:
    async def main() -> str:
        async with AsyncOutlast(tmp_path, store_options={"synchronous": "OFF"}) as outlast:
            began = asyncio.Event()
            loop = asyncio.get_running_loop()
            KNOBS["in step"] = lambda n: loop.call_soon_threadsafe(began.set)
            running = asyncio.ensure_future(outlast.run(many, 100_000))
            await began.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return (await outlast.runs())[0].status

    assert asyncio.run(main()) == "interrupted"


@pytest.mark.parametrize("point", ["commit.begin", "commit.applied", "commit.done"])
def test_ctrl_c_in_the_middle_of_a_commit_loses_and_doubles_nothing(outlast: Outlast, point: str) -> None:
    reached = 0

    def interrupt(name: str) -> None:
        nonlocal reached
        reached += name == point
        if reached == 4 and name == point:
            raise KeyboardInterrupt

    failpoints.arm(interrupt)
    with pytest.raises(KeyboardInterrupt):
        outlast.run(many, 5)
    failpoints.arm(None)
    assert outlast.run(many, 5).unwrap() == 10
    receipts = outlast.receipts(outlast.runs()[0].id)
    done = [receipt.label for receipt in receipts if receipt.status == "succeeded"]
    assert done == ["work", "work~2", "work~3", "work~4", "work~5"]
    assert outlast.verify().ok
