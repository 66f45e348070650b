"""Flows that wait, for the tests that kill them. What they do to the world is a line in a file, once."""

import asyncio
from typing import Any

from outlast import AsyncRun, Run, flow
from outlast.errors import DeadlinePassed, WaitCancelled

from .flows import add, charge


@flow
def approved(run: Run, world: str) -> list[Any]:
    before = add(1, 2)
    answer = run.pause_for("approval", payload={"sum": before})
    return [charge(world, before), answer]


@flow
def hurried(run: Run, world: str) -> list[Any]:
    answer = run.pause_for("decision", deadline="1h", default={"pick": "a"})
    return [charge(world, 1), answer]


@flow
def patient(run: Run, world: str) -> list[Any]:
    try:
        answer = run.pause_for("decision", deadline="1h")
    except (DeadlinePassed, WaitCancelled) as error:
        answer = error.code
    return [charge(world, 1), answer]


@flow
def listening(run: Run, world: str) -> list[Any]:
    heard = run.wait_for("news")
    return [charge(world, 1), heard, run.wait_for("news", deadline="1h", default="no more")]


@flow
def sleeping(run: Run, world: str) -> str:
    run.sleep("2h")
    return charge(world, 1)


@flow
def inner(run: Run, world: str) -> list[Any]:
    answer = run.pause_for("input")
    return [charge(world, 1), answer]


@flow
def outer(run: Run, world: str) -> list[Any]:
    return ["outer", run.spawn(inner, world).result()]


@flow
async def three(run: AsyncRun, world: str) -> list[Any]:
    async def branch(number: int) -> list[Any]:
        answer = await run.pause_for("input", payload={"number": number})
        return [await run.effect(charge, world, number), answer]

    return list(await asyncio.gather(*(branch(number) for number in (1, 2, 3))))
