"""A process that works until it is killed: many runs at once, each step written down as it runs and as it returns.

`worker.py HOME LOG MODE RUNS STEPS HOW` says `ready` when it begins and `done` when all of its runs have succeeded.
HOW is `repeat`: every call is made again, as a supervisor does, also of what has ended; or `resume`: what there is
goes on by its id. The log has one line per event, appended in one write: `ran` and `effect` from inside a body, `ack`
once the call has returned to the flow. Their order is the order of events.
"""

import asyncio
import os
import secrets
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from outlast import KEY, NOT_DONE, AsyncOutlast, AsyncRun, Happened, Outcome, Outlast, Run, effect, flow, step
from outlast.store.sqlite import log as database_log

database_log.COPIED_PAGES = 100  # of many runs at once: kills are to fall into copies of the database's log, too
LOG = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def log(*words: object) -> None:
    os.write(LOG, (" ".join(map(str, words)) + "\n").encode())


def was_paid(key: str) -> object:
    with open(sys.argv[2]) as lines:
        return Happened(key) if any(line.split()[-1] == key for line in lines if "effect " in line) else NOT_DONE


@step
def advance(lane: int, number: int) -> str:
    token = secrets.token_hex(4)
    log("ran", f"{lane}/{number}", token)
    return token


@effect(confirm=was_paid)
def pay(lane: int, number: int, *, key: str = KEY) -> str:
    log("effect", f"{lane}/{number}", key)
    return key


@step
async def advance_async(lane: int, number: int) -> str:
    return advance.plain(lane, number)


@effect(confirm=was_paid)
async def pay_async(lane: int, number: int, *, key: str = KEY) -> str:
    return pay.plain(lane, number, key=key)


@flow
def work(run: Run, lane: int, steps: int) -> int:
    for number in range(steps):
        run.state["number"] = number
        done = pay(lane, number) if number % 5 == 4 else advance(lane, number)
        log("ack", f"{lane}/{number}", done)
    return int(run.state["number"])


@flow
async def work_async(run: AsyncRun, lane: int, steps: int) -> int:
    for number in range(steps):
        run.state["number"] = number
        done = await (pay_async(lane, number) if number % 5 == 4 else advance_async(lane, number))
        log("ack", f"{lane}/{number}", done)
    return int(run.state["number"])


def begun(outlast: Outlast, how: str) -> dict[str, str]:
    """The runs to resume, by their tasks."""
    return {run.task: run.id for run in outlast.runs(limit=10_000) if not run.finished} if how == "resume" else {}


def answered(outlast: Outlast, outcome: Outcome[Any]) -> bool:
    """A step that was killed three times over is tried again: it is not its fault."""
    for wait in outcome.interrupts:
        log("asked", wait.type)
        outlast.answer(wait.id, {"choice": "retry", "why": "it was the test that killed it"})
    return outcome.status == "waiting"


def in_threads(home: str, runs: int, steps: int, how: str) -> None:
    def call(task: str, lane: int) -> Outcome[Any]:
        return outlast.resume(known[task]) if task in known else outlast.run(work, lane, steps, task=task)

    def one(lane: int) -> None:
        while answered(outlast, outcome := call(f"task-{lane}", lane)):
            pass
        assert outcome.unwrap() == steps - 1

    with Outlast(home) as outlast, ThreadPoolExecutor(runs) as pool:
        known = begun(outlast, how)
        print("ready", flush=True)
        list(pool.map(one, range(runs)))


async def in_tasks(home: str, runs: int, steps: int, how: str) -> None:
    async def call(task: str, lane: int) -> Outcome[Any]:
        if task in known:
            return await outlast.resume(known[task])
        return await outlast.run(work_async, lane, steps, task=task)

    async def one(lane: int) -> None:
        while answered(outlast.blocking, outcome := await call(f"task-{lane}", lane)):
            pass
        assert outcome.unwrap() == steps - 1

    async with AsyncOutlast(home) as outlast:
        known = begun(outlast.blocking, how)
        print("ready", flush=True)
        await asyncio.gather(*map(one, range(runs)))


if __name__ == "__main__":
    home, _, mode, runs, steps, how = sys.argv[1:]
    if mode == "threads":
        in_threads(home, int(runs), int(steps), how)
    else:
        asyncio.run(in_tasks(home, int(runs), int(steps), how))
    print("done", flush=True)
