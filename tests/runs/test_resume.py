"""Resuming: the same call goes on with the same run, in every mix of `def` and `async def`."""

from typing import Any

import pytest

from outlast import AsyncRun, Run, flow, step
from outlast.errors import RunFinished

from ..kit.place import KNOBS, Place, ran, reach


@step
def add(number: int) -> int:
    ran(f"add {number}")
    reach(f"adding {number}")
    return number + 1


@step
async def add_async(number: int) -> int:
    ran(f"add {number}")
    reach(f"adding {number}")
    return number + 1


@flow
def plain_of_plain(run: Run, start: int) -> int:
    for _ in range(3):
        start = add(start)
        reach(f"got {start}")
    return start


@flow
def plain_of_async(run: Run, start: int) -> int:
    for _ in range(3):
        start = run.step(add_async, start)
        reach(f"got {start}")
    return start


@flow
async def async_of_async(run: AsyncRun, start: int) -> int:
    for _ in range(3):
        start = await add_async(start)
        reach(f"got {start}")
    return start


@flow
async def async_of_awaited_plain(run: AsyncRun, start: int) -> int:
    for _ in range(3):
        start = await run.step(add, start)
        reach(f"got {start}")
    return start


@flow
async def async_of_blocking_plain(run: AsyncRun, start: int) -> int:
    for _ in range(3):
        start = add(start)
        reach(f"got {start}")
    return start


MIXES = [plain_of_plain, plain_of_async, async_of_async, async_of_awaited_plain, async_of_blocking_plain]
every_mix = pytest.mark.parametrize("body", MIXES, ids=lambda flow: flow.__name__)


@every_mix
def test_a_run_without_trouble_succeeds(place: Place, body: Any) -> None:
    outcome = place.run(body, 1)
    assert (outcome.status, outcome.result, outcome.unwrap()) == ("succeeded", 4, 4)
    assert place.ran == ["add 1", "add 2", "add 3"]
    assert place.outlast.verify().ok


@every_mix
@pytest.mark.parametrize(("point", "again"), [("adding 2", ["add 2"]), ("got 3", []), ("got 4", [])])
def test_the_same_call_after_a_crash_goes_on_with_the_same_run(
    place: Place, body: Any, point: str, again: list[str]
) -> None:
    place.crash(body, 1, at=point)
    (crashed,) = place.outlast.runs()
    assert crashed.status == "crashed"
    outcome = place.run(body, 1)
    assert (outcome.run_id, outcome.result) == (crashed.id, 4)
    assert sorted(place.ran) == sorted(["add 1", "add 2", "add 3", *again])
    assert place.outlast.verify().ok


@every_mix
def test_three_crashes_later_the_result_is_the_same(place: Place, body: Any) -> None:
    for point in ("got 2", "got 3", "got 4"):
        place.crash(body, 1, at=point)
    assert place.run(body, 1).result == 4
    assert place.ran == ["add 1", "add 2", "add 3"]


def test_resume_by_id_finds_the_flow_and_its_inputs(place: Place) -> None:
    place.crash(plain_of_plain, 1, at="got 3")
    outcome = place.outlast.resume(place.run_id)
    assert (outcome.status, outcome.result, outcome.replayed_steps) == ("succeeded", 4, 2)


def test_resume_takes_a_unique_prefix_of_the_id(place: Place) -> None:
    place.crash(async_of_async, 1, at="got 3")
    assert place.outlast.resume(place.run_id[:5]).result == 4


@every_mix
def test_a_finished_run_refuses_to_resume(place: Place, body: Any) -> None:
    outcome = place.run(body, 1)
    with pytest.raises(RunFinished, match="succeeded"):
        place.outlast.resume(outcome.run_id)


def test_after_it_finished_the_same_call_starts_a_new_run(place: Place) -> None:
    first, second = place.run(plain_of_plain, 1), place.run(plain_of_plain, 1)
    assert first.run_id != second.run_id
    assert place.count("add 1") == 2


def test_a_run_found_after_a_crash_says_where_it_came_from(place: Place) -> None:
    place.crash(plain_of_plain, 1, at="got 3")
    place.run(plain_of_plain, 1)
    (resumed,) = place.events("run.resumed")
    assert resumed.body["from"] == "crashed"
    assert [receipt.epoch for receipt in place.receipts()] == [1, 1, 2]


def test_every_attempt_leaves_a_receipt_in_the_order_of_the_commits(place: Place) -> None:
    place.run(plain_of_plain, 1)
    receipts = place.receipts()
    assert [(r.step, r.label, r.attempt, r.status, r.result) for r in receipts] == [
        ("add", "add", 1, "succeeded", 2),
        ("add", "add~2", 1, "succeeded", 3),
        ("add", "add~3", 1, "succeeded", 4),
    ]
    assert [r.seq for r in receipts] == sorted({r.seq for r in receipts})
    assert all(r.delivered and r.code_digest and r.input_digest and r.hash for r in receipts)


def test_a_step_that_kills_its_process_again_and_again_is_left_to_a_person(place: Place) -> None:
    for _ in range(3):
        place.crash(plain_of_plain, 1, at="adding 2")
    outcome = place.run(plain_of_plain, 1)
    assert [wait.type for wait in outcome.interrupts] == ["crash_loop"]
    assert place.count("add 2") == 3
    place.outlast.retry(outcome.run_id, "add~2", why="mended")
    assert place.run(plain_of_plain, 1).result == 4


# -- 10,000 steps ------------------------------------------------------------------------------------


@step
def count(number: int) -> int:
    KNOBS["counted"] = KNOBS.get("counted", 0) + 1
    return number + 1


@flow
def long(run: Run) -> int:
    number = 0
    for _ in range(10_000):
        number = count(number)
    reach("counted all")
    return number


def test_a_run_of_ten_thousand_steps_resumes_without_doing_any_again(place: Place) -> None:
    place.crash(long, at="counted all")
    outcome = place.run(long)
    assert (outcome.result, outcome.replayed_steps, KNOBS.get("counted", 0)) == (10_000, 10_000, 0)
