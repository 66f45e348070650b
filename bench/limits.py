"""The limits: what bare SQLite does with the same bytes, synced, and nothing around it."""

from pathlib import Path

import apsw
from work import RESULT, result_of

SCHEMA = """
CREATE TABLE IF NOT EXISTS step (
    id INTEGER PRIMARY KEY, run TEXT NOT NULL, name TEXT NOT NULL, inputs TEXT NOT NULL, result TEXT NOT NULL
) STRICT;
"""
INSERT = "INSERT INTO step (run, name, inputs, result) VALUES (?, ?, ?, ?)"
DIGEST = "d" * 64


class OneCommit:
    """One synced commit for each step."""

    def open(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.connection = apsw.Connection(str(home / "limit.db"))
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute(SCHEMA)

    def sequential(self, steps: int) -> None:
        for i in range(steps):
            self._commit([("run", "work", DIGEST, result_of(i))])

    def together(self, runs: int, steps: int) -> None:
        self.sequential(runs * steps)

    def begin(self, steps: int) -> None:
        for first in range(0, steps, 1000):
            rows = [("run", "work", DIGEST, RESULT)] * min(1000, steps - first)
            self._commit(rows)
        result_of(steps)

    def go_on(self, steps: int) -> None:
        rows = self.connection.execute("SELECT name, inputs, result FROM step ORDER BY id")
        assert sum(1 for _ in rows) == steps
        result_of(steps)

    def close(self) -> None:
        self.connection.close()

    def _commit(self, rows: list[tuple[str, str, str, str]]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        for row in rows:
            self.connection.execute(INSERT, row)
        self.connection.execute("COMMIT")


class GroupCommit(OneCommit):
    """One synced commit for the steps that all runs have ready."""

    def together(self, runs: int, steps: int) -> None:
        for i in range(steps):
            self._commit([(f"run{k}", "work", DIGEST, result_of(i)) for k in range(runs)])


SUBJECTS = {"commit": OneCommit, "group": GroupCommit}
