"""The end of runs that nobody took out of their queue in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.runs import decisions
from outlast.runs.queues.workers import AtWork
from outlast.store.contract import RunRow, Writing

if TYPE_CHECKING:
    from outlast.home.caller import Caller

BY = "its queue"  # who ends such a run, for the record


def expire(caller: Caller) -> int:
    """End queued runs that were not taken in time: how many. Whoever looks first does it, once."""
    now, store = caller.home.clock.now(), caller.home.store
    if not store.read(lambda look: look.expired(now)):
        return 0
    return store.write(lambda tx: sum(_expired(caller, tx, key) for key in tx.expired(now)))


def _expired(caller: Caller, tx: Writing, run_key: int) -> bool:
    row, entry = tx.run_by_key(run_key), tx.entry_of(run_key)
    if row is None or entry is None or row.status != "queued":
        tx.keep_entry(run_key)  # it was taken, or cannot be read: no time-out is left
        return False
    why = _why(caller, tx, row, entry.queue, entry.expires_at - entry.added_at)
    decisions.time_out(caller, tx, row.id, why, BY)
    return True


def _why(caller: Caller, tx: Writing, row: RunRow, queue: str, span_us: int) -> str:
    served = AtWork(caller.home, tx).has_one_for(row, queue)
    cause = "its turn did not come" if served else "no worker has its flow (no_worker): `outlast workers`"
    return f"it was not taken out of the queue {queue} within {span_us / 1_000_000:g} s: {cause}"
