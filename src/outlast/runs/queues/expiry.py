"""The end of runs that nobody took out of their queue in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outlast.runs.queues.workers import AtWork
from outlast.store.contract import Reading, RunRow, Writing
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.runs import decisions
else:
    decisions = late("outlast.runs.decisions")

BY = "its queue"  # who ends such a run, for the record


def overdue(caller: Caller, scope: str | None = None) -> list[str]:
    """The ids of queued runs that were not taken in time, and that nobody has ended yet. Nothing is written."""

    def look(reading: Reading) -> list[str]:
        rows = [reading.run_by_key(key) for key in reading.expired(caller.home.clock.now())]
        return [row.id for row in rows if row is not None and _ends(row, scope)]

    return caller.home.store.read(look)


def expire(caller: Caller, scope: str | None = None) -> list[str]:
    """End queued runs that were not taken in time, of this scope or all: their ids. Who looks first does it, once."""
    now, store = caller.home.clock.now(), caller.home.store
    if not store.read(lambda look: look.expired(now)):
        return []
    return store.write(lambda tx: [row.id for key in tx.expired(now) for row in _expired(caller, tx, key, scope)])


def _expired(caller: Caller, tx: Writing, run_key: int, scope: str | None) -> Iterator[RunRow]:
    row, entry = tx.run_by_key(run_key), tx.entry_of(run_key)
    if row is None or entry is None or row.status != "queued":
        tx.keep_entry(run_key)  # it was taken, or cannot be read: no time-out is left
    elif _ends(row, scope):
        why = _why(caller, tx, row, entry.queue, entry.expires_at - entry.added_at)
        decisions.time_out(caller, tx, row.id, why, BY)
        yield row


def _ends(row: RunRow, scope: str | None) -> bool:
    return row.status == "queued" and scope in (None, row.scope)


def _why(caller: Caller, tx: Writing, row: RunRow, queue: str, span_us: int) -> str:
    served = AtWork(caller, tx).has_one_for(row, queue)
    cause = "its turn did not come" if served else "no worker has its flow (no_worker): `outlast workers`"
    return f"it was not taken out of the queue {queue} within {span_us / 1_000_000:g} s: {cause}"
