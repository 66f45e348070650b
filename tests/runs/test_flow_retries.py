"""@flow(retries=…): a run that failed goes on at the failure by itself, also after the process that saw it is gone."""

import asyncio
from typing import Any

import pytest

from outlast import AsyncOutlast, AsyncRun, Failed, NotDone, Outlast, Run, effect, flow, step, unwrap_all
from outlast.errors import RunTimedOut

from ..kit.place import KNOBS, Place, ran, reach


@step
def first() -> str:
    ran("first")
    return "first"


@step
def flaky() -> int:
    tried = KNOBS["tried"] = KNOBS.get("tried", 0) + 1
    ran("flaky")
    if tried <= KNOBS.get("bad", 0):
        raise KNOBS.get("error", ConnectionError)(f"try {tried}")
    return tried


def body_of(run: Any) -> int:
    first()
    reach("in the middle")
    if KNOBS.get("by the body"):
        KNOBS["tried"] = KNOBS.get("tried", 0) + 1
        if KNOBS["tried"] <= KNOBS["bad"]:
            raise ConnectionError("the body's own")
        return int(KNOBS["tried"])
    return flaky()


@flow(retries=2, backoff=10, jitter=0)
def plain(run: Run) -> int:
    return body_of(run)


@flow(retries=2, backoff=10, jitter=0)
async def in_async(run: AsyncRun) -> int:
    return body_of(run)


both = pytest.mark.parametrize("body", [plain, in_async], ids=lambda flow: flow.__name__)


@both
def test_a_run_that_failed_goes_on_at_the_failure_by_itself(place: Place, body: Any) -> None:
    KNOBS["bad"] = 2
    began = place.clock.now()
    outcome = place.run(body)
    assert (outcome.status, outcome.result) == ("succeeded", 3)
    assert place.ran == ["first", "flaky", "flaky", "flaky"]  # what was done before the failure is not done again
    assert 30 <= (place.clock.now() - began) / 1_000_000 < 32  # 10 and 20 seconds between the tries
    assert place.outlast.interrupts() == []
    assert place.outlast.verify(place.run_id).ok


@both
def test_a_failure_of_the_body_itself_is_tried_again_too(place: Place, body: Any) -> None:
    KNOBS.update({"bad": 2, "by the body": True})
    assert place.run(body).result == 3
    assert place.ran == ["first"]


@both
def test_the_last_failure_is_the_runs_and_a_person_who_resumes_it_has_all_tries_again(place: Place, body: Any) -> None:
    KNOBS["bad"] = 5
    outcome = place.run(body)
    assert (outcome.status, str(outcome.exception)) == ("failed", "try 3")
    assert place.outlast.get(place.run_id).status == "failed"
    assert place.run(body).result == 6


@both
def test_every_try_is_on_the_record(place: Place, body: Any) -> None:
    KNOBS["bad"] = 9
    place.run(body)
    tries = [event.body for event in place.events("run.retrying")]
    assert [(each["retry"], each["of"], each["error"]["message"]) for each in tries] == [
        (1, 2, "try 1"),
        (2, 2, "try 2"),
    ]
    assert [event.body["error"]["message"] for event in place.events("run.failed")] == ["try 3"]
    assert any("try 1 of 2 follows" in item.note for item in place.outlast.timeline(place.run_id))


@flow(retries=5, retry_on=ConnectionError, backoff=0)
def picky(run: Run) -> int:
    return flaky()


def test_only_failures_of_the_named_types_are_tried_again(place: Place) -> None:
    KNOBS.update({"bad": 9, "error": ValueError})
    assert place.run(picky).status == "failed"
    assert place.count("flaky") == 1


@flow(retries=3, backoff="2h", max_delay="1d")
def patient(run: Run) -> int:
    return flaky()


def test_a_long_wait_before_the_next_try_is_a_timer_that_a_tick_finds(place: Place) -> None:
    KNOBS["bad"] = 1
    outcome = place.run(patient)
    assert outcome.status == "waiting"
    (wait,) = outcome.interrupts
    assert wait.says.startswith("the run is tried again at ")
    assert "1 of 3, after ConnectionError: try 1" in wait.says
    assert place.run(patient).status == "waiting"  # asking again does not hurry it
    assert (place.count("flaky"), place.outlast.due()) == (1, [])
    place.reopen()
    place.clock.advance(7200)
    (due,) = place.outlast.due()
    assert place.outlast.resume(due.run_id).result == 2
    assert place.outlast.interrupts() == []


def test_a_person_need_not_wait_for_it(place: Place) -> None:
    KNOBS["bad"] = 1
    place.run(patient)
    place.outlast.retry(place.run_id, "flaky")
    assert place.run(patient).result == 2


def test_tries_are_counted_over_processes(place: Place) -> None:
    KNOBS["bad"] = 99
    assert place.run(patient).status == "waiting"
    for tries in (2, 3):
        place.reopen()
        place.clock.advance(86_400)
        assert place.outlast.resume(place.run_id).status == "waiting"
        assert place.count("flaky") == tries
    place.clock.advance(86_400)
    assert place.outlast.resume(place.run_id).status == "failed"
    assert place.count("flaky") == 4


@both
def test_a_process_that_dies_between_two_tries_leaves_the_next_one_to_others(place: Place, body: Any) -> None:
    KNOBS["bad"] = 1

    def dies_asleep(outlast: Outlast) -> None:
        place.clock.sleep = lambda seconds: reach("asleep")  # type: ignore[method-assign]
        place.clock.sleep_async = lambda seconds: reach("asleep")  # type: ignore[method-assign,assignment,return-value]
        outlast.run(body)

    place.killed(dies_asleep, at="asleep")
    assert place.ran == ["first", "flaky"]
    KNOBS["tried"] = 1
    assert place.outlast.due() == []
    place.clock.advance(10)
    (due,) = place.outlast.due()
    assert place.outlast.resume(due.run_id).result == 2
    assert place.ran == ["first", "flaky", "flaky"]


def test_stopping_the_process_leaves_the_run_asleep_and_says_so(place: Place) -> None:
    KNOBS["bad"] = 1
    hold = place.outlast
    sleep = place.clock.sleep
    naps: list[float] = []

    def stopping(seconds: float) -> None:
        naps.append(seconds)
        hold.stop()
        sleep(seconds)

    place.clock.sleep = stopping  # type: ignore[method-assign]
    assert hold.run(plain).status == "waiting"
    assert len(naps) == 1
    place.clock.sleep = sleep  # type: ignore[method-assign]
    place.clock.advance(10)
    assert hold.run(plain).result == 2


def test_a_run_that_somebody_else_ended_meanwhile_is_not_tried_again(place: Place) -> None:
    KNOBS["bad"] = 9
    sleep = place.clock.sleep

    def giving_up(seconds: float) -> None:
        if place.outlast.get(place.run_id).status == "waiting":
            place.outlast.abort(place.run_id, why="enough")
        sleep(seconds)

    place.clock.sleep = giving_up  # type: ignore[method-assign]
    outcome = place.run(plain)
    assert (outcome.status, place.count("flaky")) == ("aborted", 1)


@effect
def charge() -> str:
    ran("charge")
    if KNOBS.get("refuses"):
        KNOBS["refuses"] -= 1
        raise NotDone("no")
    return "charged"


@effect
def publish() -> str:
    ran("publish")
    return "published"


@flow(retries=2, backoff=0)
def pays(run: Run) -> list[str]:
    return [publish(), charge()]


def test_effects_that_happened_are_not_repeated_by_a_try(place: Place) -> None:
    KNOBS["refuses"] = 2
    assert place.run(pays).result == ["published", "charged"]
    assert place.ran == ["publish", "charge", "charge", "charge"]


@step
def fetch(item: int) -> int:
    ran(f"item {item}")
    if item in KNOBS["bad items"] and place_tries(item) < 2:
        raise ConnectionError(f"no {item}")
    return item


def place_tries(item: int) -> int:
    tries = KNOBS.setdefault("tries", {})
    tries[item] = tries.get(item, 0) + 1
    return int(tries[item])


@flow(retries=1, backoff=0)
def all_of_them(run: Run) -> list[int]:
    results = run.map(fetch, range(20), on_error="collect")
    assert sum(isinstance(one, Failed) for one in results) in (0, 3)
    return unwrap_all(results)


def test_a_try_of_a_map_tries_what_failed_and_nothing_else(place: Place) -> None:
    KNOBS["bad items"] = {3, 4, 19}
    assert place.run(all_of_them).result == list(range(20))
    assert sorted(place.ran[20:]) == ["item 19", "item 3", "item 4"]


@flow(retries=9, backoff="40m", max_delay="2h", jitter=0, deadline="1h")
def in_time(run: Run) -> int:
    return flaky()


def test_a_try_that_would_be_too_late_is_none(place: Place) -> None:
    KNOBS["bad"] = 9
    assert place.run(in_time).status == "waiting"
    place.clock.advance(40 * 60)
    outcome = place.outlast.resume(place.run_id)
    assert (outcome.status, str(outcome.exception)) == ("failed", "try 2")  # the next one would be at two hours


@flow(deadline="1h", retries=3)
def times_out(run: Run) -> None:
    run.sleep("2h")


def test_a_deadline_that_has_passed_is_not_tried_again(place: Place) -> None:
    place.run(times_out)
    place.clock.advance(3600)
    outcome = place.outlast.resume(place.run_id)
    assert (outcome.status, type(outcome.exception)) == ("failed", RunTimedOut)


@flow(retries=1, backoff=0)
def child(run: Run) -> int:
    return flaky()


@flow
def parent(run: Run) -> int:
    return run.spawn(child).result()


def test_a_child_run_is_tried_again_as_its_own_flow_says(place: Place) -> None:
    KNOBS["bad"] = 1
    assert place.run(parent).result == 2


async def run_both(place: Place) -> list[Any]:
    found = []
    async with AsyncOutlast(place.home, clock=place.clock) as hold:
        for body in (in_async, plain):
            KNOBS["tried"] = 0
            found.append((await hold.run(body)).result)
    return found


def test_on_an_event_loop_of_ones_own_too(place: Place) -> None:
    KNOBS["bad"] = 2
    assert asyncio.run(run_both(place)) == [3, 3]


def test_a_run_that_was_only_started_is_tried_again_too(place: Place) -> None:
    KNOBS["bad"] = 2
    assert place.outlast.start(plain).outcome(20).result == 3


@both
def test_replaying_such_a_run_finds_that_its_body_does_what_it_did(place: Place, body: Any) -> None:
    KNOBS["bad"] = 2
    place.run(body)
    assert place.outlast.replay(place.run_id).divergences == ()


@pytest.mark.parametrize("body", [patient, in_time, times_out], ids=lambda flow: flow.__name__)
def test_replaying_one_that_is_asleep_or_late_finds_nothing_wrong(place: Place, body: Any) -> None:
    KNOBS["bad"] = 9
    assert place.run(body).status == "waiting"
    KNOBS["tried"] = 0
    assert place.outlast.replay(place.run_id).divergences == ()
    place.clock.advance(3600)
    place.outlast.resume(place.run_id)
    assert place.outlast.replay(place.run_id).divergences == ()
    assert place.outlast.verify(place.run_id).ok
