"""Burr: an application of one action that loops, saved to SQLite after every action.

The state holds the last result only. A state that gathers results grows by all of it at every step.
"""

import asyncio
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import aiosqlite
from burr.core import ApplicationBuilder, State, action, default
from burr.core.persistence import SQLitePersister
from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister
from work import result_of


@action(reads=["i"], writes=["i", "result"])
def work(state: State) -> State:
    return state.update(i=state["i"] + 1, result=result_of(state["i"]))


@action(reads=["i"], writes=["i", "result"])
async def work_async(state: State) -> State:
    return state.update(i=state["i"] + 1, result=result_of(state["i"]))


def builder(node: Any, persister: Any, name: str) -> Any:
    return (
        ApplicationBuilder()
        .with_actions(work=node)
        .with_transitions(("work", "work", default))
        .with_identifiers(app_id=name)
        .with_state_persister(persister)
        .initialize_from(persister, resume_at_next_action=True, default_state={"i": 0}, default_entrypoint="work")
    )


class Plain:
    """As installed: a rollback journal."""

    journal = "DELETE"

    def open(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.names = home, itertools.count()
        connection = sqlite3.connect(home / "burr.db")
        connection.execute(f"PRAGMA journal_mode={self.journal}")
        self.persister = SQLitePersister(str(home / "burr.db"), connection=connection)
        self.persister.initialize()

    def sequential(self, steps: int) -> None:
        self._step(f"r{next(self.names)}", steps)

    def together(self, runs: int, steps: int) -> None:
        asyncio.run(self._gather(runs, steps))

    def begin(self, steps: int) -> None:
        self._step("long", steps + 1)

    def go_on(self, steps: int) -> None:
        self._step("long", 1)

    def close(self) -> None:
        self.persister.connection.close()

    def _step(self, name: str, steps: int) -> None:
        application = builder(work, self.persister, name).build()
        for _ in range(steps):
            application.step()

    async def _gather(self, runs: int, steps: int) -> None:
        async with aiosqlite.connect(self.home / "burr-async.db") as connection:
            await connection.execute(f"PRAGMA journal_mode={self.journal}")
            persister = AsyncSQLitePersister(connection)
            await persister.initialize()
            names = [f"a{next(self.names)}" for _ in range(runs)]
            await asyncio.gather(*(self._step_async(persister, name, steps) for name in names))

    async def _step_async(self, persister: Any, name: str, steps: int) -> None:
        application = await builder(work_async, persister, name).abuild()
        for _ in range(steps):
            await application.astep()


class Wal(Plain):
    """On connections that were given a WAL."""

    journal = "WAL"


SUBJECTS = {"default": Plain, "wal": Wal}
