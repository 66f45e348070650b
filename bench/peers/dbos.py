"""DBOS: a workflow of steps on its SQLite system database, recovered by the next launch."""

import sqlite3
import threading
from pathlib import Path

from dbos import DBOS
from work import result_of


@DBOS.step()
def work(i: int) -> str:
    return result_of(i)


@DBOS.workflow()
def sequence(steps: int) -> int:
    for i in range(steps):
        work(i)
    return steps


class Plain:
    """As installed: a rollback journal."""

    journal = "DELETE"

    def open(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(home / "dbos.db")
        connection.execute(f"PRAGMA journal_mode={self.journal}")
        connection.close()
        DBOS(
            config={
                "name": "bench",
                "system_database_url": f"sqlite:///{home / 'dbos.db'}",
                "log_level": "ERROR",
            }
        )
        DBOS.launch()

    def sequential(self, steps: int) -> None:
        sequence(steps)

    def together(self, runs: int, steps: int) -> None:
        handles = [DBOS.start_workflow(sequence, steps) for _ in range(runs)]
        for handle in handles:
            handle.get_result()

    def begin(self, steps: int) -> None:
        sequence(steps + 1)

    def go_on(self, steps: int) -> None:
        threading.Event().wait()  # `launch` has begun the recovery; its next step ends the process

    def close(self) -> None:
        DBOS.destroy()


class Wal(Plain):
    """On a file that was given a WAL beforehand."""

    journal = "WAL"


SUBJECTS = {"default": Plain, "wal": Wal}
