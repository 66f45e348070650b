"""Replay gives recorded outcomes in the order of the journal: which branch went on first is part of what happened."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, AsyncRun, Outlast, effect, flow, step

KNOBS: dict[str, Any] = {}


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[Outlast]:
    KNOBS.clear()
    KNOBS["ran"] = Counter()
    with Outlast(tmp_path, store_options={"synchronous": "OFF"}) as opened:
        yield opened


@step
async def think(i: int) -> int:
    KNOBS["ran"][f"think {i}"] += 1
    await asyncio.sleep(random.Random(i).uniform(0, 0.02))
    return i


@effect
async def send(i: int) -> int:
    KNOBS["ran"][f"send {i}"] += 1
    await asyncio.sleep(random.Random(-i).uniform(0, 0.02))
    return i


@step
async def gate() -> None:
    if not KNOBS.get("open"):
        raise RuntimeError("closed")


@flow
async def pool(run: AsyncRun, items: int) -> list[tuple[int, int]]:
    """Workers pull from a queue: who does what depends on who is done first."""
    todo = list(range(items))
    done: list[tuple[int, int]] = []

    async def worker(number: int) -> None:
        while todo:
            item = todo.pop(0)
            done.append((number, await send(await think(item))))

    await asyncio.gather(*(worker(number) for number in range(4)))
    KNOBS.setdefault("orders", []).append(list(done))
    await gate()
    return done


def test_a_worker_pool_resumes_with_the_same_work_in_the_same_hands(outlast: Outlast) -> None:
    assert outlast.run(pool, 12).status == "failed"
    KNOBS["open"] = True
    outcome = outlast.run(pool, 12)
    assert outcome.status == "succeeded"
    assert outcome.replayed_steps == 24
    first, again = KNOBS["orders"]
    assert first == again
    assert set(KNOBS["ran"].values()) == {1}


@step
async def racer(name: str, ticks: int) -> str:
    await asyncio.sleep(0.02 * ticks)
    return name


@step
async def use(name: str) -> str:
    KNOBS["ran"][f"use {name}"] += 1
    return name


@flow
async def race(run: AsyncRun) -> str:
    racers = [asyncio.ensure_future(racer("slow", 4)), asyncio.ensure_future(racer("fast", 1))]
    done, left = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
    winner = await use(next(iter(done)).result())
    await asyncio.wait(left)
    await gate()
    return winner


def test_the_winner_of_a_race_is_the_same_on_replay(outlast: Outlast) -> None:
    assert outlast.run(race).status == "failed"
    KNOBS["open"] = True
    assert outlast.run(race).unwrap() == "fast"
    assert KNOBS["ran"] == {"use fast": 1}


def test_tasks_of_an_opened_block_keep_their_own_results(tmp_path: Path) -> None:
    KNOBS.clear()
    KNOBS["ran"] = Counter()

    async def block(late: int) -> list[str]:
        async with AsyncOutlast(tmp_path, store_options={"synchronous": "OFF"}) as outlast, outlast.open("block"):

            async def branch(name: str, place: int) -> str:
                await asyncio.sleep(0.02 * (place == late))
                return await use(f"{name}{await think(7)}")

            used = await asyncio.gather(branch("a", 0), branch("b", 1))
            await gate()
            return list(used)

    with pytest.raises(RuntimeError, match="closed"):
        asyncio.run(block(1))
    KNOBS["open"] = True
    assert asyncio.run(block(1)) == ["a7", "b7"]
    assert KNOBS["ran"]["use a7"] == KNOBS["ran"]["use b7"] == 1


@flow
async def as_they_come(run: AsyncRun) -> list[int]:
    got = []
    for coming in asyncio.as_completed([think(i) for i in range(6)]):
        got.append(await send(await coming))
    KNOBS.setdefault("orders", []).append(list(got))
    await gate()
    return got


def test_effects_fed_by_whoever_is_first_are_not_repeated(outlast: Outlast) -> None:
    assert outlast.run(as_they_come).status == "failed"
    KNOBS["open"] = True
    assert outlast.run(as_they_come).status == "succeeded"
    assert KNOBS["orders"][0] == KNOBS["orders"][1]
    assert set(KNOBS["ran"].values()) == {1}


@flow
async def moved(run: AsyncRun) -> int:
    async def branch() -> int:
        if KNOBS.get("open"):
            await think(99)  # an edit: the task begins with another call now
        return await send(await think(1))

    result = (await asyncio.gather(branch(), think(2)))[0]
    await gate()
    return result


def test_an_effect_that_moved_to_another_branch_asks_before_it_happens_again(outlast: Outlast) -> None:
    assert outlast.run(moved).status == "failed"
    KNOBS["open"] = True
    outcome = outlast.run(moved)
    assert outcome.status == "waiting"
    assert [wait.type for wait in outcome.interrupts] == ["inputs_changed"]
    assert KNOBS["ran"]["send 1"] == 1
    outlast.answer(outcome.interrupts[0].id, {"choice": "reuse"})
    assert outlast.run(moved).unwrap() == 1
    assert KNOBS["ran"]["send 1"] == 1


@flow
async def alike(run: AsyncRun) -> list[int]:
    async def branch(number: int) -> int:
        await think(number)
        sent = await send(7)  # equal inputs in every branch, and meant so
        if number == 2:
            await gate()
        return sent

    return list(await asyncio.gather(*(branch(number) for number in range(4))))


def test_equal_effects_of_sibling_branches_are_their_own(outlast: Outlast) -> None:
    assert outlast.run(alike).status == "failed"
    KNOBS["open"] = True
    assert outlast.run(alike).unwrap() == [7, 7, 7, 7]
    assert KNOBS["ran"]["send 7"] == 4
