"""What runs leave to Python's search for garbage, which goes through all that is new again and again."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, AsyncRun, Outlast, Run, flow, step
from outlast.runs.attempt import Attempt, StepCall
from outlast.runs.call import Call
from outlast.runs.execution import Execution
from outlast.store.sqlite.writer import Writer

RUNS = 12
SEEN: list[int] = []


@pytest.fixture
def searched_never() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@step
def work(number: int) -> str:
    return "kelp " * 50


@step
async def work_async(number: int) -> str:
    return "kelp " * 50


@flow
def sequence(run: Run, steps: int) -> None:
    for number in range(steps):
        work(number)
        look(number, steps)


@flow
async def sequence_async(run: AsyncRun, steps: int) -> None:
    for number in range(steps):
        await work_async(number)
        look(number, steps)


def look(number: int, steps: int) -> None:
    """What is there after a third of the steps, and near their end."""
    if number in (steps // 3, steps - 2):
        gc.collect()
        SEEN.append(sum(type(each) in (tuple, dict, list, Call) for each in gc.get_objects()))


def left(kind: type) -> int:
    return sum(type(each) is kind for each in gc.get_objects())


async def many(home: Path, flow: Any, *args: Any) -> None:
    async with AsyncOutlast(home) as outlast:
        runs = (outlast.run(flow, *args, task=f"task{number}") for number in range(RUNS))
        for outcome in await asyncio.gather(*runs):
            outcome.unwrap()


def test_nothing_of_a_run_is_left_to_be_found(tmp_path: Path, searched_never: None) -> None:
    before = left(Execution)
    with Outlast(tmp_path / "home") as outlast:
        outlast.run(sequence, 3).unwrap()
        assert left(Execution) == before


def test_nor_of_runs_on_a_loop(tmp_path: Path, searched_never: None) -> None:
    before = left(Execution)
    asyncio.run(many(tmp_path / "home", sequence_async, 3))
    assert left(Execution) == before


def test_nothing_of_a_call_is_kept_while_its_receipt_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searched_never: None
) -> None:
    kept, before = list[int](), left(StepCall) + left(Attempt)
    commit = Writer._commit_together

    def committed(self: Writer, batch: list[Any]) -> None:
        if all(item.hold is not None for item in batch):
            kept.append(left(StepCall) + left(Attempt))
        commit(self, batch)

    monkeypatch.setattr(Writer, "_commit_together", committed)
    asyncio.run(many(tmp_path / "home", sequence_async, 4))
    assert min(kept) <= before


def test_nor_of_one_in_a_plain_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searched_never: None) -> None:
    kept, before = list[int](), left(StepCall) + left(Attempt)
    commit = Writer._commit_entries

    def committed(self: Writer, appends: Any) -> None:
        kept.append(left(StepCall) + left(Attempt))
        commit(self, appends)

    monkeypatch.setattr(Writer, "_commit_entries", committed)
    with Outlast(tmp_path / "home") as outlast:
        outlast.run(sequence, 4).unwrap()
    assert kept == [before] * 4


def test_a_long_run_has_no_more_to_be_searched_than_a_short_one(tmp_path: Path) -> None:
    SEEN.clear()
    with Outlast(tmp_path / "home") as outlast:
        outlast.run(sequence, 300).unwrap()
    assert SEEN[1] - SEEN[0] < 50


def test_nor_has_one_on_a_loop(tmp_path: Path) -> None:
    SEEN.clear()

    async def one() -> None:
        async with AsyncOutlast(tmp_path / "home") as outlast:
            (await outlast.run(sequence_async, 300)).unwrap()

    asyncio.run(one())
    assert SEEN[1] - SEEN[0] < 50


def test_of_a_named_task_that_has_happened_nothing_more_is_kept_each_time_it_is_asked_for(tmp_path: Path) -> None:
    async def asked_again() -> set[str]:
        async with AsyncOutlast(tmp_path / "home") as outlast:
            for _ in range(3):
                await outlast.run(sequence_async, 2, task="once")
            return set(outlast.blocking._home.held.claimed)

    with Outlast(tmp_path / "home") as outlast:
        for _ in range(3):
            outlast.run(sequence, 2, task="once of a plain one").unwrap()
        assert outlast._home.held.claimed == set()
    assert asyncio.run(asked_again()) == set()
