"""Every noun of the store on one SQLite connection, the appends that lengthen journals, and proofs of all other rows.

A proof is what a row said when it was written last, kept beside it. The database tells the writing connection which
rows a piece of work touched; each is proven again before the commit, in the same transaction. So no statement can
forget it. Entries, which are chained, take no part in this, and nor does the path of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import apsw
import msgspec

from outlast.errors import LeaseLost
from outlast.ledger.journal import Break, JournalEntry, link
from outlast.store.contract.runs import Hold
from outlast.store.sqlite.handoffs import HandoffReader, HandoffWriter
from outlast.store.sqlite.rows import Rows
from outlast.store.sqlite.runs import RunReader, RunWriter
from outlast.store.sqlite.sessions import SessionReader, SessionWriter
from outlast.store.sqlite.tasks import TaskReader, TaskWriter
from outlast.store.sqlite.workspace import WorkspaceReader, WorkspaceWriter

CHANGED = "it is not what was stored"
MISSING = "its row is missing"
UNPROVEN = "nothing proves that it was stored: its proof is missing"
_END = 1 << 62


def _named(text: str) -> Callable[[Any], str]:
    return lambda row: text.format(*row)


# How a row of each table is called: its key is 0, what was selected after it follows.
NAMES: dict[str, Callable[[Any], str]] = {
    "runs": _named("run {2}"),
    "chains": _named("lease {1}"),
    "claims": _named("claim number {0}"),
    "processes": _named("process {1}"),
    "interrupts": _named("wait {2}"),
    "inbox": _named("request {0} to run number {2}"),
    "operations": _named("operation {2}"),
    "deliveries": _named("delivery of run number {0}"),
    "tombstones": _named("removed run {2}"),
    "anchors": lambda row: f"handoff {row[4]}" if row[3] == "default" else f"handoff {row[4]} in scope {row[3]}",
    "handoffs": _named("handoff row {2}"),
    "signals": _named("signal {2}"),
    "sessions": lambda row: f"session {row[3]}" if row[2] == "default" else f"session {row[3]} in scope {row[2]}",
    "tasks": lambda row: f"task {row[3]}" if row[2] == "default" else f"task {row[3]} in scope {row[2]}",
    "artifacts": _named("artifact number {0}"),
    "artifact_names": _named("the versions of artifact {3} in scope {2}"),
    "artifact_dropped": _named("dropped version {4} of artifact {3} in scope {2}"),
    "artifact_removed": _named("removed artifact {3}@{4} in scope {2}"),
    "checkpoints": _named("checkpoint {1}"),
    "records": _named("record:{1}"),
    "links": _named("link {1}"),
    "stored_by": _named("what is counted for blob {2}"),
    "workspace_shown": _named("entry {0} of the workspace"),
}


def proof_of(table: str, row: tuple[Any, ...]) -> bytes:
    """What a row says, in short."""
    return sha256(msgspec.msgpack.encode((table, *row))).digest()[:16]


class Proofs(Rows):
    """Lookups of rows against their proofs."""

    def unproven(self, table: str, after: int, limit: int) -> tuple[int, list[Break]]:
        """What is wrong with the rows of a table after a key, and the key to go on from; 0 when that was all."""
        rows = {row[0]: row for row in self._all(f"rows_of_{table}", after, limit)}
        proofs = dict(self._all("proofs_after", table, after, limit))
        ends = [max(found) for found in (rows, proofs) if len(found) == limit]
        upto = min(ends, default=_END)
        keys = sorted(key for key in {*rows, *proofs} if key <= upto)
        breaks = [Break(*told) for key in keys for told in _told(table, key, rows.get(key), proofs.get(key))]
        return upto if ends else 0, breaks

    def unproven_row(self, table: str, key: int) -> Break | None:
        """What is wrong with one row."""
        row, proof = self._one(f"rows_of_{table}", key - 1, 1), self._one("proofs_after", table, key - 1, 1)
        found = row if row and row[0] == key else None
        told = _told(table, key, found, proof[1] if proof and proof[0] == key else None)
        return next((Break(*each) for each in told), None)


def _told(table: str, key: int, row: Any, proof: bytes | None) -> Iterator[tuple[str, str]]:
    if row is None:
        noun = table.removesuffix("s").replace("_", " ")
        yield f"{noun} number {key}", MISSING
    elif proof is None:
        yield NAMES[table](row), UNPROVEN
    elif proof_of(table, row) != proof:
        yield NAMES[table](row), CHANGED


class Prover:
    """Proves again what a piece of work has written, before it is committed."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._touched: set[tuple[str, int]] = set()
        self._hook = rows.connection.set_update_hook

    def begin(self) -> None:
        """Be told of every row from now on."""
        self._touched.clear()
        self._hook(self._note)

    def end(self) -> None:
        self._hook(None)

    def prove(self) -> None:
        """Prove what was touched, as it is now."""
        for table, key in sorted(self._touched):
            self._prove(table, key)
        self._touched.clear()

    def _note(self, kind: int, database: str, table: str, key: int) -> None:
        if table in NAMES:
            self._touched.add((table, key))

    def _prove(self, table: str, key: int) -> None:
        execute, sql = self._rows.execute, self._rows.sql
        row = next(iter(execute(sql[f"rows_of_{table}"], (key - 1, 1))), None)
        if row is not None and row[0] == key:
            execute(sql["put_proof"], (table, key, proof_of(table, row)))
        else:
            execute(sql["drop_proof"], (table, key))


class StoreReader(RunReader, HandoffReader, SessionReader, TaskReader, WorkspaceReader, Proofs):
    """Lookups on a connection."""


class Transaction(RunWriter, HandoffWriter, SessionWriter, TaskWriter, WorkspaceWriter, StoreReader):
    """Lookups and writes inside one open transaction."""

    def __init__(self, connection: apsw.Connection, sql: dict[str, str]) -> None:
        super().__init__(connection, sql)
        self.total_changes = connection.total_changes
        self.prover = Prover(self)
        self.moved: list[tuple[Hold, int, bytes]] = []  # heads to put back if the transaction fails
        self._advance, self._entry = sql["advance_lease"], sql["add_entry"]

    def append(self, hold: Hold, entries: Sequence[JournalEntry]) -> None:
        """Chain entries to a run's journal. Raises LeaseLost when the epoch is over."""
        self.append_all([(hold, entries)])

    def append_all(self, appends: Sequence[tuple[Hold, Sequence[JournalEntry]]]) -> None:
        """Chain entries to the journals of many runs.

        Each is guarded by its epoch and head. Raises LeaseLost when one of them is stale: the caller rolls all
        back and tries each alone.
        """
        rows: list[tuple[int, int, bytes, bytes, bytes | None]] = []
        guards, blobs = [], []
        for hold, entries in appends:
            head, before, run_key = hold.head, hold.hash, hold.run_key
            self.moved.append((hold, head, before))
            seq = head
            for header, payload, names in entries:
                seq += 1
                before = link(before, header)
                rows.append((run_key, seq, header, before, payload))
                if names:
                    blobs += [(name, run_key, seq) for name in names]
            guards.append((seq, before, hold.lease_key, hold.epoch, head))
            hold.head, hold.hash = seq, before
        expected = self.total_changes() + len(guards)
        self.do_many(self._advance, guards)
        if self.total_changes() != expected:
            self.put_back(len(self.moved) - len(appends))
            raise LeaseLost(appends[0][0].run_id, appends[0][0].epoch)
        self.do_many(self._entry, rows)
        if blobs:
            self.do_many(self.sql["add_blob_ref"], blobs)

    def put_back(self, to: int = 0) -> None:
        """Forget heads that were moved since: what moved them was rolled back."""
        for hold, head, before in reversed(self.moved[to:]):
            hold.head, hold.hash = head, before
        del self.moved[to:]
