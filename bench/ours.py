"""Outlast, as a user would call it: plain flows, async flows, and plain flows on threads."""

import itertools
import os
from pathlib import Path

from work import result_of

from outlast import AsyncOutlast, AsyncRun, Outlast, Run, flow, step


@step
def work(i: int) -> str:
    return result_of(i)


@flow
def sequence(run: Run, steps: int) -> int:
    for i in range(steps):
        work(i)
    return steps


@step
def work_on(before: str, i: int) -> str:
    return f"{i:06}{result_of(i)[6:]}"


@flow
def passing_on(run: Run, steps: int) -> int:
    result = ""
    for i in range(steps):
        result = work_on(result, i)
    return steps


@step
async def work_async(i: int) -> str:
    return result_of(i)


@flow
async def sequence_async(run: AsyncRun, steps: int) -> int:
    for i in range(steps):
        await work_async(i)
    return steps


def _tasks() -> "itertools.count[int]":
    """A task of its own for every run of this process."""
    return itertools.count(os.getpid() * 1_000_000)


class Plain:
    """`def` flows; many at once on as many threads."""

    flow = staticmethod(sequence)

    def open(self, home: Path) -> None:
        self.tasks = _tasks()
        self.outlast = Outlast(home)

    def sequential(self, steps: int) -> None:
        self._run(f"task{next(self.tasks)}", steps)

    def together(self, runs: int, steps: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        names = [f"task{next(self.tasks)}" for _ in range(runs)]
        with ThreadPoolExecutor(runs) as pool:
            list(pool.map(lambda name: self._run(name, steps), names))

    def begin(self, steps: int) -> None:
        self._run("long", steps + 1)

    go_on = begin  # the same call continues the run

    def close(self) -> None:
        self.outlast.close()

    def _run(self, task: str, steps: int) -> None:
        assert self.outlast.run(self.flow, steps, task=task).unwrap() == steps


class PassingOn(Plain):
    """`def` flows whose steps are each given what the step before gave."""

    flow = staticmethod(passing_on)


class Async:
    """`async def` flows on one event loop."""

    def open(self, home: Path) -> None:
        import asyncio

        self.tasks, self.loop = _tasks(), asyncio.Runner()
        self.outlast = AsyncOutlast(home)
        self.loop.run(self.outlast.__aenter__())

    def sequential(self, steps: int) -> None:
        self.loop.run(self._run(f"task{next(self.tasks)}", steps))

    def together(self, runs: int, steps: int) -> None:
        self.loop.run(self._gather(runs, steps))

    def begin(self, steps: int) -> None:
        self.loop.run(self._run("long", steps + 1))

    go_on = begin

    def close(self) -> None:
        self.loop.run(self.outlast.__aexit__(None, None, None))
        self.loop.close()

    async def _gather(self, runs: int, steps: int) -> None:
        import asyncio

        names = [f"task{next(self.tasks)}" for _ in range(runs)]
        await asyncio.gather(*(self._run(name, steps) for name in names))

    async def _run(self, task: str, steps: int) -> None:
        outcome = await self.outlast.run(sequence_async, steps, task=task)
        assert outcome.unwrap() == steps


SUBJECTS = {"def": Plain, "passing": PassingOn, "async": Async}
