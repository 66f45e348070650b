"""Branches of an async flow: the order in which tasks finish is never identity."""

import asyncio
from typing import Any

import pytest

from outlast import AsyncRun, flow, step
from outlast.runs.branches import Branches

from ..kit.place import KNOBS, Place, happen, ran, reach, until


@step
async def fetch(name: str) -> str:
    """Ends only after the one before it in the order that the test wants."""
    ran(f"fetch {name}")
    if KNOBS.get("yields"):
        await asyncio.sleep(0)
    order = KNOBS.get("order", [])
    if name in order and order.index(name) > 0:
        await until(order[order.index(name) - 1])
    happen(name)
    return name


@step
async def shout(text: str) -> str:
    ran(f"shout {text}")
    return text.upper()


@step
async def draw() -> int:
    """Equal calls with different results: only their place tells them apart."""
    KNOBS["drawn"] = drawn = KNOBS.get("drawn", 0) + 1
    ran("draw")
    if KNOBS.get("yields"):
        await asyncio.sleep(0)
    return int(drawn)


@step
def draw_plain() -> int:
    KNOBS["drawn"] = KNOBS.get("drawn", 0) + 1
    ran("draw")
    return int(KNOBS["drawn"])


async def two_steps(name: str) -> str:
    got = await fetch(name)
    reach(f"fetched {name}")
    loud = await shout(got)
    reach(f"shouted {name}")
    return f"{name}={loud}"


@flow
async def gathered(run: AsyncRun) -> list[str]:
    return list(await asyncio.gather(two_steps("a"), two_steps("b"), two_steps("c")))


@flow
async def grouped(run: AsyncRun) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(two_steps(name)) for name in "abc"]
    return [task.result() for task in tasks]


@flow
async def completed(run: AsyncRun) -> list[str]:
    return sorted([await done for done in asyncio.as_completed([two_steps(name) for name in "abc"])])


@flow
async def created(run: AsyncRun) -> list[str]:
    tasks = [asyncio.create_task(two_steps(name)) for name in "abc"]
    await asyncio.wait(tasks)
    return [task.result() for task in tasks]


@flow
async def shielded(run: AsyncRun) -> list[str]:
    return list(await asyncio.gather(*(asyncio.shield(two_steps(name)) for name in "abc")))


@flow
async def timed(run: AsyncRun) -> list[str]:
    return list(await asyncio.gather(*(asyncio.wait_for(two_steps(name), 60) for name in "abc")))


@flow
async def under_timeout(run: AsyncRun) -> list[str]:
    async with asyncio.timeout(60):
        return list(await asyncio.gather(*(two_steps(name) for name in "abc")))


ALL = [gathered, grouped, completed, created, shielded, timed, under_timeout]
RESULT = ["a=A", "b=B", "c=C"]


@pytest.mark.parametrize("body", ALL, ids=lambda flow: flow.__name__)
def test_branches_killed_half_way_go_on_when_they_finish_in_another_order(place: Place, body: Any) -> None:
    KNOBS["order"] = ["c", "b", "a"]
    place.crash(body, at="shouted b")
    KNOBS["order"] = []
    assert place.run(body).result == RESULT
    assert all(place.count(f"{what} {name}") == 1 for what in ("fetch", "shout") for name in "bc")
    assert place.count("shout a") == 1  # its fetch was under way when the process died, and ran again


@pytest.mark.parametrize("body", ALL, ids=lambda flow: flow.__name__)
@pytest.mark.parametrize("point", ["fetched a", "fetched c", "shouted c", "shouted a"])
def test_a_finished_branch_is_not_repeated_wherever_the_others_die(place: Place, body: Any, point: str) -> None:
    KNOBS["order"] = ["c", "a", "b"]
    place.crash(body, at=point)
    done = {receipt.result for receipt in place.receipts() if receipt.status == "succeeded"}
    before = len(place.ran)
    KNOBS["order"] = []
    outcome = place.run(body)
    assert outcome.result == RESULT
    assert outcome.replayed_steps == len(done)
    again = [line.split()[1] for line in place.ran[before:] if line.startswith("fetch")]
    assert not set(again) & done


@flow
async def drawing(run: AsyncRun) -> list[int]:
    async def one() -> int:
        got = await draw()
        await fetch(str(got))
        reach(f"drew {got}")
        return got

    return list(await asyncio.gather(one(), one(), one()))


def test_equal_calls_in_two_tasks_keep_their_own_results(place: Place) -> None:
    KNOBS["order"] = ["3", "2", "1"]
    place.crash(drawing, at="drew 2")
    KNOBS["order"] = []
    assert place.run(drawing).result == [1, 2, 3]
    assert place.count("draw") == 3


@flow
async def drawing_in_the_background(run: AsyncRun) -> list[int]:
    """A task that is made from a step's own coroutine starts whenever the loop gets to it."""
    behind = asyncio.create_task(draw())
    await fetch("a")
    front = await draw()
    reach("both drawn")
    return [await behind, front]


def test_a_step_started_as_a_task_keeps_its_result_when_replay_does_not_wait(place: Place) -> None:
    KNOBS["yields"] = True
    place.crash(drawing_in_the_background, at="both drawn")
    by_scope = {receipt.occurrence: receipt.result for receipt in place.receipts("draw")}
    assert place.run(drawing_in_the_background).result == [by_scope[0], by_scope[1]]


@flow
async def drawing_in_wait_for(run: AsyncRun) -> list[int]:
    async def one() -> int:
        first = await asyncio.wait_for(draw(), 60)
        second = await draw()
        reach(f"drew {second}")
        return first * 10 + second

    return list(await asyncio.gather(one(), one()))


def test_wait_for_is_no_scope_so_equal_calls_around_it_are_counted_together(place: Place) -> None:
    place.crash(drawing_in_wait_for, at="drew 4")
    live = [receipt.result for receipt in place.receipts("draw")]
    assert live == [1, 2, 3, 4]
    assert place.run(drawing_in_wait_for).result == [13, 24]


@flow
async def plain_steps(run: AsyncRun) -> list[int]:
    async def one() -> list[int]:
        return [await run.step(draw_plain), await run.step(draw_plain)]

    pairs = await asyncio.gather(one(), one())
    reach("all drawn")
    return [*pairs[0], *pairs[1]]


def test_plain_steps_awaited_in_branches_keep_their_own_results(place: Place) -> None:
    place.crash(plain_steps, at="all drawn")
    live: dict[str, list[int]] = {}
    for receipt in place.receipts():
        live.setdefault(receipt.scope, []).append(receipt.result)
    first, second = sorted(live, key=len)
    assert place.run(plain_steps).result == [*live[first], *live[second]]
    assert place.count("draw") == 4


@flow
async def nested(run: AsyncRun) -> list[int]:
    async def leaf() -> int:
        return await draw()

    async def inner() -> list[int]:
        return list(await asyncio.gather(leaf(), leaf()))

    pairs = await asyncio.gather(inner(), inner())
    reach("all drawn")
    return [*pairs[0], *pairs[1]]


def test_branches_of_branches_have_scopes_of_their_own(place: Place) -> None:
    place.crash(nested, at="all drawn")
    assert len({receipt.scope for receipt in place.receipts()}) == 4
    KNOBS["drawn"] = 90
    assert sorted(place.run(nested).result) == [1, 2, 3, 4]
    assert place.count("draw") == 4


@flow
async def one_after_another(run: AsyncRun) -> list[str]:
    """New branches are started as others finish, so their order depends on who was first."""
    found: list[str] = []

    async def follow(name: str) -> None:
        found.append(await shout(name))
        reach(f"followed {name}")

    async with asyncio.TaskGroup() as group:
        firsts = [asyncio.ensure_future(fetch(name)) for name in ("a", "b")]
        for done in asyncio.as_completed(firsts):
            group.create_task(follow(await done))
    reach("all followed")
    return sorted(found)


def test_branches_started_as_others_finish_are_not_computed_again(place: Place) -> None:
    KNOBS["order"] = ["b", "a"]
    place.crash(one_after_another, at="all followed")
    KNOBS["order"] = []
    assert place.run(one_after_another).result == ["A", "B"]
    assert place.count("shout a") == place.count("shout b") == 1


@flow
async def first_wins(run: AsyncRun) -> str:
    tasks = {asyncio.create_task(fetch(name)) for name in ("a", "b")}
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    (winner,) = done
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    reach("won")
    return await shout(winner.result())


def test_the_winner_of_a_race_wins_again_on_replay(place: Place) -> None:
    KNOBS["order"] = ["b", "never", "a"]
    place.crash(first_wins, at="won")
    KNOBS["order"] = []
    assert place.run(first_wins).result == "B"
    assert place.count("fetch a") == 1


@flow
async def mapped(run: AsyncRun) -> list[str]:
    found = await run.map(fetch, ["a", "b", "c", "d"], concurrency=2)
    reach("mapped")
    return list(found)


def test_an_async_map_gives_results_in_the_order_of_its_items(place: Place) -> None:
    KNOBS["order"] = ["b", "a", "d", "c"]
    place.crash(mapped, at="mapped")
    KNOBS["order"] = []
    outcome = place.run(mapped)
    assert outcome.result == ["a", "b", "c", "d"]
    assert outcome.replayed_steps == 4


@flow
async def same_branch_name(run: AsyncRun) -> list[int]:
    async def one() -> int:
        with run.branch("work"):
            first = await draw()
            second = await draw()
        reach(f"drew {second}")
        return first * 10 + second

    return list(await asyncio.gather(one(), one()))


def test_two_tasks_that_open_a_branch_of_one_name_keep_their_own_results(place: Place) -> None:
    KNOBS["yields"] = True
    place.crash(same_branch_name, at="drew 4")
    assert place.run(same_branch_name).result == [13, 24]


@flow
async def branch_names(run: AsyncRun) -> list[int]:
    async def one(name: str) -> int:
        with run.branch(name):
            got = await draw()
        reach(f"{name} drew")
        return got

    if KNOBS.get("swapped"):
        right, left = await asyncio.gather(one("right"), one("left"))
    else:
        left, right = await asyncio.gather(one("left"), one("right"))
    return [left, right]


def test_a_named_branch_inside_a_task_shows_both_in_its_scope(place: Place) -> None:
    assert place.run(branch_names).result == [1, 2]
    assert [receipt.scope.split("/")[0] for receipt in place.receipts()] == ["left", "right"]


def test_a_recorded_outcome_is_given_at_once_only_where_it_is_next_and_nobody_runs_beside() -> None:
    async def given() -> list[bool]:
        branches = Branches([3, 5, 7])
        found = [branches.give_next(5), branches.give_next(3), branches.give_next(3)]
        others = [asyncio.ensure_future(asyncio.sleep(0)) for _ in range(2)]
        for task in others:
            branches.add(task)
        found.append(branches.give_next(5))
        await asyncio.gather(*others)
        await asyncio.sleep(0)
        return [*found, branches.give_next(5), list(branches.turns) == [7]]

    assert asyncio.run(given()) == [False, True, False, False, True, True]
