"""A process that runs one flow and says what happens, line by line: the other side of processes.Actor.

`actor.py HOME FLOW ARGS SETTINGS` (the last two JSON). Lines on stdout are JSON lists: `["open"]`, what the bodies say,
and last `["outcome", status, result]` or `["refused", code, text]`. A body that waits goes on at a byte on stdin.
"""

import asyncio
import json
import os
import sys
from typing import Any

from outlast import AsyncRun, Outlast, OutlastError, Run, current, flow, step
from outlast.home.settings import Settings


def say(*words: Any) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


@step
def note(number: int) -> int:
    say("ran", number)
    return number


@step
def wait(name: str) -> str:
    say("waits", name)
    os.read(0, 1)  # not sys.stdin: several threads may wait at once
    return name


@step
def wait_for(number: int) -> int:
    """One of several at once: the odd ones end, the others wait."""
    if number % 2 == 0:
        wait.plain(str(number))
    say("ran", number)
    return number


@step
def count(name: str) -> int:
    run = current()
    run.state[name] = run.state.get(name, 0) + 1
    return int(run.state[name])


@flow
def waits_between(run: Run) -> list[object]:
    return [note(1), wait("between"), note(2)]


@flow
def counts(run: Run) -> list[int]:
    for _ in range(4):
        run.state["body"] = run.state.get("body", 0) + 1
        count("step")
        count("other") if run.state["step"] % 2 else None
    return [run.state["body"], run.state["step"], run.state["other"]]


@flow
def maps(run: Run) -> list[int]:
    return run.map(wait_for, [1, 2, 3, 4], concurrency=4)


@flow
async def gathers(run: AsyncRun) -> list[int]:
    return list(await asyncio.gather(*(run.step(wait_for, number) for number in (1, 2, 3, 4))))


@step
async def block(name: str) -> str:
    """Hold the event loop: nothing else of it runs meanwhile."""
    say("waits", name)
    os.read(0, 1)
    return name


@flow
async def blocks_its_loop(run: AsyncRun) -> list[str]:
    return [await run.step(block, "the loop"), "done"]


if __name__ == "__main__":
    home, name, args, settings = sys.argv[1:]
    try:
        with Outlast(home, settings=Settings(**json.loads(settings))) as outlast:
            say("open")
            outcome = outlast.run(globals()[name], *json.loads(args))
            say("outcome", outcome.status, outcome.result, *([outcome.error] if outcome.error else []))
    except OutlastError as error:
        say("refused", error.code, str(error))
