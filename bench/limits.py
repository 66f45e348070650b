"""The limits: what bare SQLite does with the same bytes, synced, and nothing around it."""

import mmap
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import msgspec  # as row 5 has it: whoever keeps steps as JSON in SQLite loads both
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


class LeastCode(OurRows):
    """The same rows, and the least that Python has to do for what they promise, all of it in one place.

    The inputs and the result as JSON, what tells them apart and proves them, two looks at the clock, a header, its link
    to the chain and a note of what a killed process was at. No call is looked up, none may fail, wait or be replayed.
    """

    def open(self, home: Path) -> None:
        super().open(home)
        self.note = mmap.mmap(-1, 512)
        self.encode = msgspec.json.Encoder().encode

    def sequential(self, steps: int) -> None:
        chain = self._chain()
        for i in range(steps):
            self.connection.execute(self.append, self._entry(chain, i))

    def together(self, runs: int, steps: int) -> None:
        """All runs have their step ready, and it is one commit."""
        chains = [self._chain() for _ in range(runs)]
        for i in range(steps):
            self.connection.execute("BEGIN IMMEDIATE")
            for chain in chains:
                self.connection.execute(self.append, self._entry(chain, i))
            self.connection.execute("COMMIT")

    def _chain(self) -> list[Any]:
        self.chains = getattr(self, "chains", 0) + 1
        ((key,),) = self.connection.execute(self.add_chain, (f"run:{self.chains}", 1, 0, bytes(32), None))
        return [key, bytes(32)]

    def _entry(self, chain: list[Any], i: int) -> tuple[Any, ...]:
        inputs = sha256(self.encode({"i": i})).hexdigest()[:32]
        began = time.time_ns() // 1000
        note = NOTE % (inputs.encode(), i, began)
        self.note[1 : 1 + len(note)] = note
        payload = b'{"result":%b,"in":%b}' % (self.encode(result_of(i)), self.encode({"i": i}))
        proof = sha256(payload).hexdigest().encode()
        header = MADE % (inputs.encode(), i, began, time.time_ns() // 1000, proof)
        chain[1] = link = sha256(chain[1] + header).digest()
        return chain[0], 1, chain[0], i + 1, header, link, payload


HEADER = b"h" * 340  # as long as that of such a step
CODE, RUN, TRACE = b"c" * 32, b"r" * 26, b"t" * 32
MADE = b'["step","work","","%b",%d,1,"succeeded",true,"","main",%d,%d,"","'
MADE += CODE + b'",1,"' + TRACE + b'","","%b"]'
NOTE = b'["' + RUN + b'",1,["","work","%b",%d],1,%d,0,"","main","' + CODE + b'",null]\n'
SUBJECTS = {"commit": OneCommit, "group": GroupCommit, "rows": OurRows, "least": LeastCode}
