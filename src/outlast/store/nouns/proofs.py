"""Rows against their proofs: what a row said when it was written last is kept beside it.

Which rows a piece of work has touched, each database tells its writing connection in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from outlast.ledger.journal import Break
from outlast.store.nouns.rows import Rows

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
    "schedules": _named("schedule {3} in scope {2}"),
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
