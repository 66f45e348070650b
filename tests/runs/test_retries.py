"""Retries with backoff, and timeouts. The clock is told the time; nothing waits."""

import asyncio
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from outlast import AsyncRun, Run, current, effect, flow, step
from outlast.clock import ManualClock
from outlast.errors import FlowInvalid, StepInvalid, StepTimedOut, StillRunning

from ..kit.place import KNOBS, Place, ran, reach


def work() -> int:
    attempt = current().attempt
    ran(f"attempt {attempt}")
    reach(f"attempt {attempt}")
    if attempt <= KNOBS.get("bad", 0):
        raise ConnectionError(f"attempt {attempt}")
    return attempt


@step(retries=3, backoff=10)
def flaky() -> int:
    return work()


@step(retries=3, backoff=10)
async def flaky_async() -> int:
    return work()


@flow
def plain(run: Run) -> int:
    return flaky()


@flow
async def of_async(run: AsyncRun) -> int:
    return await flaky_async()


@flow
async def of_awaited_plain(run: AsyncRun) -> int:
    return int(await run.step(flaky))


@flow
def of_async_in_plain(run: Run) -> int:
    return run.step(flaky_async)


@flow
def mapped(run: Run) -> int:
    return run.map(flaky_item, [1])[0]


@step(retries=3, backoff=10)
def flaky_item(item: int) -> int:
    return work()


MIXES = [plain, of_async, of_awaited_plain, of_async_in_plain, mapped]
every_mix = pytest.mark.parametrize("body", MIXES, ids=lambda flow: flow.__name__)


@every_mix
def test_a_step_is_tried_again_until_it_succeeds(place: Place, body: Any) -> None:
    KNOBS["bad"] = 2
    outcome = place.run(body)
    assert (outcome.status, outcome.result) == ("succeeded", 3)
    assert [(r.attempt, r.status, r.delivered) for r in place.receipts()] == [
        (1, "failed", False),
        (2, "failed", False),
        (3, "succeeded", True),
    ]


@every_mix
def test_the_last_failure_is_the_flows(place: Place, body: Any) -> None:
    KNOBS["bad"] = 9
    outcome = place.run(body)
    assert (outcome.status, str(outcome.exception)) == ("failed", "attempt 4")
    assert [r.delivered for r in place.receipts()] == [False, False, False, True]


@every_mix
def test_the_waits_between_attempts_double_with_jitter(place: Place, body: Any) -> None:
    KNOBS["bad"] = 3
    place.run(body)
    times = [receipt.started_at for receipt in place.receipts()]
    waits = [(after - before).total_seconds() for before, after in pairwise(times)]
    for wait, most in zip(waits, [10, 20, 40], strict=True):
        assert most / 2 <= wait <= most


def test_waits_are_capped_at_a_minute(place: Place) -> None:
    started = place.clock.now()
    place.run(patient)
    assert place.clock.now() - started <= 8 * 60 * 1_000_000


@step(retries=8, backoff="1m")
def hopeless() -> None:
    raise ConnectionError("no")


@flow
def patient(run: Run) -> None:
    hopeless()


@every_mix
def test_attempts_are_counted_over_a_crash(place: Place, body: Any) -> None:
    KNOBS["bad"] = 9
    place.crash(body, at="attempt 3")
    assert place.run(body).status == "failed"
    attempts = [int(line.split()[1]) for line in place.ran]
    assert attempts[:3] == [1, 2, 3]
    assert attempts[-1] in (5, 4)  # the attempt that died did not fail: it is not counted against the retries
    failed = [receipt for receipt in place.receipts() if receipt.status == "failed"]
    assert len(failed) == 4


@every_mix
def test_a_resume_after_the_last_failure_has_all_its_retries_again(place: Place, body: Any) -> None:
    KNOBS["bad"] = 6
    assert place.run(body).status == "failed"
    outcome = place.run(body)
    assert (outcome.result, len(place.receipts())) == (7, 7)


# -- which failures, and how long to wait ------------------------------------------------------------


@step(retries=3, retry_on=(ConnectionError, TimeoutError), backoff=0)
def picky() -> str:
    attempt = current().attempt
    ran(f"attempt {attempt}")
    if attempt <= 2:
        raise KNOBS["errors"][attempt - 1]
    return "done"


@step(retries=3, retry_on=ConnectionError, backoff=0)
async def picky_async() -> str:
    attempt = current().attempt
    ran(f"attempt {attempt}")
    if attempt <= 2:
        raise KNOBS["errors"][attempt - 1]
    return "done"


@flow
def picks(run: Run) -> str:
    return picky()


@flow
async def picks_async(run: AsyncRun) -> str:
    return await picky_async()


both_pick = pytest.mark.parametrize("body", [picks, picks_async], ids=lambda flow: flow.__name__)


@both_pick
def test_failures_of_the_named_types_are_tried_again(place: Place, body: Any) -> None:
    KNOBS["errors"] = [ConnectionError("a"), ConnectionResetError("b")]
    assert place.run(body).result == "done"
    assert len(place.ran) == 3


@both_pick
def test_a_failure_of_another_type_is_the_last(place: Place, body: Any) -> None:
    KNOBS["errors"] = [ConnectionError("a"), ValueError("b")]
    outcome = place.run(body)
    assert (outcome.status, str(outcome.exception)) == ("failed", "b")
    assert [receipt.delivered for receipt in place.receipts()] == [False, True]
    assert place.run(body).result == "done"  # a person wants it: then it is tried again


@effect(not_done=(ValueError, ConnectionError), retries=3, retry_on=ConnectionError, backoff=0)
def picky_effect() -> None:
    ran("effect")
    raise KNOBS["errors"][current().attempt - 1]


@flow
def picks_effect(run: Run) -> None:
    picky_effect()


def test_an_effect_that_did_not_happen_is_tried_again_for_the_named_types_only(place: Place) -> None:
    KNOBS["errors"] = [ConnectionError("a"), ValueError("b")]
    assert str(place.run(picks_effect).exception) == "b"
    assert place.count("effect") == 2


@step(timeout=0.2, retries=1, retry_on=TimeoutError, backoff=0)
async def times_out() -> str:
    ran("times out")
    if current().attempt == 1:
        await asyncio.Event().wait()
    return "in time"


@flow
async def waits_for_timeout(run: AsyncRun) -> str:
    return await times_out()


def test_a_steps_own_timeout_is_a_timeout_error_for_retry_on(place: Place) -> None:
    assert place.run(waits_for_timeout).result == "in time"


@step(retries=6, backoff=10, max_delay="15s", jitter=0)
def steady() -> None:
    raise ConnectionError("no")


@flow
def steadily(run: Run) -> None:
    steady()


def test_without_jitter_the_waits_are_exact_and_no_longer_than_the_cap(place: Place) -> None:
    place.run(steadily)
    times = [receipt.started_at for receipt in place.receipts()]
    waits = [(after - before).total_seconds() for before, after in pairwise(times)]
    assert waits == pytest.approx([10, 15, 15, 15, 15, 15])


@step(retries=4, backoff=100, max_delay="1h", jitter=1)
def wild() -> None:
    raise ConnectionError("no")


@flow
def wildly(run: Run) -> None:
    wild()


def waits_of(place: Place, run_id: str) -> list[float]:
    times = [receipt.started_at for receipt in place.outlast.receipts(run_id)]
    return [(after - before).total_seconds() for before, after in pairwise(times)]


def test_jitter_is_spread_over_runs_and_is_the_same_whoever_waits(place: Place) -> None:
    first, second = place.run(wildly), place.fresh(wildly)
    waits = [waits_of(place, outcome.run_id) for outcome in (first, second)]
    assert waits[0] != waits[1]
    for each in waits:
        assert all(0 <= wait <= 100 * 2**number for number, wait in enumerate(each))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"retry_on": (5,)}, "retry_on takes types of exceptions, not 5"),
        ({"retry_on": "ValueError"}, "retry_on takes types of exceptions, not 'V'"),
        ({"retry_on": int}, "retry_on takes types"),
        ({"jitter": 1.5}, "jitter must be from 0 to 1"),
        ({"jitter": float("nan")}, "jitter must be from 0 to 1"),
        ({"jitter": True}, "jitter must be from 0 to 1"),
        ({"max_delay": "soon"}, "no duration"),
        ({"backoff": -1}, "no duration"),
        ({"retries": True}, "retries must be 0 or more"),
    ],
)
def test_wrong_options_of_retries_are_refused_where_they_are_written(options: Any, why: str) -> None:
    for decorate in (step, effect):
        with pytest.raises(StepInvalid, match=why):
            decorate(**options)(work)
    with pytest.raises(FlowInvalid, match=why):
        flow(**options)


def test_attempts_have_a_number_and_the_body_has_none(place: Place) -> None:
    assert place.run(asks_for_its_attempt).result == [0, 1]


@step
def number() -> int:
    return current().attempt


@flow
def asks_for_its_attempt(run: Run) -> list[int]:
    return [run.attempt, number()]


# -- timeouts ----------------------------------------------------------------------------------------


RELEASE = threading.Event()


@step(timeout=0.05)
def slow() -> str:
    ran("slow")
    RELEASE.wait(10)
    return "late"


@step(timeout=1.0, retries=5, backoff=0)
def slow_with_retries() -> str:
    ran("slow")
    RELEASE.wait(10)
    return "late"


@step(timeout=0.2, retries=1, backoff=0)
async def slow_async() -> str:
    ran("slow")
    if current().attempt <= KNOBS.get("bad", 9):
        await asyncio.Event().wait()
    return "in time"


@step(timeout=30)
def quick() -> str:
    return f"attempt {current().attempt}"


@step(timeout=30)
async def quick_async() -> str:
    return f"attempt {current().attempt}"


@pytest.fixture
def stuck() -> Any:
    RELEASE.clear()
    yield
    RELEASE.set()


@flow
def waits_for_plain(run: Run) -> str:
    return slow()


@flow
async def waits_for_plain_async(run: AsyncRun) -> str:
    return str(await run.step(slow))


@pytest.mark.parametrize("body", [waits_for_plain, waits_for_plain_async], ids=lambda flow: flow.__name__)
@pytest.mark.usefixtures("stuck")
def test_a_plain_step_that_takes_too_long_has_timed_out(place: Place, body: Any) -> None:
    outcome = place.run(body)
    assert isinstance(outcome.exception, StepTimedOut)
    assert place.statuses() == ["timed_out"]


@flow
def retries_plain(run: Run) -> str:
    return slow_with_retries()


@flow
async def retries_plain_async(run: AsyncRun) -> str:
    return str(await run.step(slow_with_retries))


@pytest.mark.parametrize("body", [retries_plain, retries_plain_async], ids=lambda flow: flow.__name__)
@pytest.mark.usefixtures("stuck")
def test_it_is_not_tried_again_while_its_thread_lives(place: Place, body: Any) -> None:
    outcome = place.run(body)
    assert isinstance(outcome.exception, StillRunning)
    assert place.count("slow") == 1


@pytest.mark.usefixtures("stuck")
def test_it_is_tried_again_once_its_thread_has_ended(place: Place) -> None:
    place.run(retries_plain)
    RELEASE.set()
    _wait_for_threads()
    assert place.run(retries_plain).result == "late"


def _wait_for_threads() -> None:
    until = time.monotonic() + 60
    while any(thread.name.startswith("Thread-") for thread in threading.enumerate()) and time.monotonic() < until:
        RELEASE.wait(0.001)


@flow
async def waits_for_async(run: AsyncRun) -> str:
    return await slow_async()


@flow
def waits_for_async_in_plain(run: Run) -> str:
    return run.step(slow_async)


@pytest.mark.parametrize("body", [waits_for_async, waits_for_async_in_plain], ids=lambda flow: flow.__name__)
def test_an_async_step_that_takes_too_long_is_stopped_and_tried_again(place: Place, body: Any) -> None:
    KNOBS["bad"] = 1
    assert place.run(body).result == "in time"
    assert place.statuses() == ["timed_out", "succeeded"]


@pytest.mark.parametrize("body", [waits_for_async, waits_for_async_in_plain], ids=lambda flow: flow.__name__)
def test_an_async_step_out_of_retries_has_timed_out_for_the_flow(place: Place, body: Any) -> None:
    outcome = place.run(body)
    assert isinstance(outcome.exception, StepTimedOut)
    assert "slow_async" in str(outcome.exception)


@flow
def catches_timeout(run: Run) -> str:
    try:
        return run.step(slow_async)
    except StepTimedOut as error:
        reach("caught")
        return f"{error.step} {error.seconds}"


def test_a_caught_timeout_is_an_outcome(place: Place) -> None:
    place.crash(catches_timeout, at="caught")
    assert place.run(catches_timeout).result == "slow_async 0.2"
    assert place.count("slow") == 2


@flow
async def in_time(run: AsyncRun) -> list[str]:
    return [await quick_async(), str(await run.step(quick)), quick()]


def test_steps_that_are_in_time_know_nothing_of_their_limit(place: Place) -> None:
    assert place.run(in_time).result == ["attempt 1"] * 3


@step(timeout=30)
async def own_timeout() -> str:
    raise TimeoutError("its own")


@flow
async def has_its_own_timeout(run: AsyncRun) -> str:
    return await own_timeout()


def test_a_timeout_error_of_the_steps_own_is_a_failure_like_others(place: Place) -> None:
    outcome = place.run(has_its_own_timeout)
    assert isinstance(outcome.exception, TimeoutError)
    assert place.statuses() == ["failed"]


def test_the_clock_of_these_tests_moves_only_when_told(place: Place) -> None:
    assert isinstance(place.clock, ManualClock)
    before = place.clock.now()
    place.run(in_time)
    assert place.clock.now() == before
