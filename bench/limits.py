"""The limits: what bare SQLite does with the same bytes, synced, and nothing around it."""

from pathlib import Path

import apsw
import msgspec  # noqa: F401  as row 5 has it: whoever keeps steps as JSON in SQLite loads both
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


class OurRows(OneCommit):
    """One synced commit for each step, of the rows that ours writes: the guarded end of the chain, and the entry."""

    def open(self, home: Path) -> None:
        from outlast.store.nouns.rows import migrations, statements

        home.mkdir(parents=True, exist_ok=True)
        sql = statements("sqlite")
        self.connection = apsw.Connection(str(home / "rows.db"))
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute("PRAGMA temp_store=MEMORY")
        for _, migration in migrations("sqlite"):
            self.connection.execute(migration)
        self.connection.execute(sql["append_view"])
        self.connection.execute(sql["append_trigger"])
        self.append, self.add_chain = sql["append_entry"], sql["add_chain"]

    def sequential(self, steps: int) -> None:
        self.chains = getattr(self, "chains", 0) + 1
        chain = (f"run:{self.chains}", 1, 0, bytes(32), None)
        ((key,),) = self.connection.execute(self.add_chain, chain)
        for i in range(steps):
            payload = b'{"result":"%b"}' % result_of(i).encode()
            self.connection.execute(self.append, (key, 1, key, i + 1, HEADER, bytes(32), payload))


HEADER = b"h" * 340  # as long as that of such a step
SUBJECTS = {"commit": OneCommit, "group": GroupCommit, "rows": OurRows}
