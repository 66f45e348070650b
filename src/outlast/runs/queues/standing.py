"""How a run stands beside its status: its queue, the times that count for it, and what keeps it from going on."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from outlast.clock import moment
from outlast.runs.queues.reason import is_of_its_own, reason_of
from outlast.runs.run import FINISHED
from outlast.store.contract import QueueEntry, Reading, RunRow

if TYPE_CHECKING:
    from outlast.runs.queues.workers import AtWork

NO_WORKER, PAUSED, DELAYED = "no_worker", "queue_paused", "delayed"


class RunPlace(NamedTuple):
    """What is read beside the row of an unfinished run."""

    queue: str = ""
    engine: str = ""  # of that queue, where it is not ours
    priority: int = 0
    not_before: datetime | None = None  # it is not taken out of its queue before
    take_by: datetime | None = None  # it ends unless it was taken by then
    deadline_at: datetime | None = None
    held_up: str = ""  # what keeps it: no_worker, queue_paused, delayed, limit:NAME; empty: nothing that is known


NOWHERE = RunPlace()


def place_of_run(look: Reading, row: RunRow, at_work: AtWork) -> RunPlace:
    """Where a run stands. A finished one stands nowhere."""
    if row.status in FINISHED:
        return NOWHERE
    entry, deadline = look.entry_of(row.key), look.deadline_of(row.key)
    if entry is None:
        return RunPlace(deadline_at=_moment(deadline), held_up=_limits(look, row) or _unserved(look, row, at_work))
    if entry.state in ("ready", "delayed"):
        held_up = _held_up(look, row, entry, at_work)
    else:
        held_up = _limits(look, row) or _unserved(look, row, at_work, entry.queue)
    not_before = entry.due_at if entry.state == "delayed" else None
    first, last, done = (_moment(at) for at in (not_before, entry.expires_at, deadline))
    queue = look.queue_of(entry.queue)
    engine = queue.engine if queue is not None else ""
    return RunPlace(entry.queue, engine, entry.priority, first, last, done, held_up)


def _moment(at: int | None) -> datetime | None:
    return moment(at) if at else None


def _limits(look: Reading, row: RunRow) -> str:
    """The limit that its steps wait for, of a run that is executed."""
    slots = look.slots_of_run(row.id) if row.status == "running" else []
    return next((f"limit:{slot.name}" for slot in slots if slot.state == "waiting"), "")


def _held_up(look: Reading, row: RunRow, entry: QueueEntry, at_work: AtWork) -> str:
    """Why a run is still in its queue; empty when its turn will come."""
    if not at_work.has_one_for(row, entry.queue):
        return NO_WORKER
    if look.is_paused(entry.queue):
        return PAUSED
    return DELAYED if entry.state == "delayed" else ""


def _unserved(look: Reading, row: RunRow, at_work: AtWork, queue: str = "") -> str:
    """That a run could go on by itself, and no worker has its flow.

    One that is in no queue goes on by hand as well: where nobody works at all, nothing is said of it.
    """
    if not is_of_its_own(row) or not (queue or at_work.is_any) or at_work.has_one_for(row, queue):
        return ""
    return NO_WORKER if reason_of(at_work.caller, look, row.id) else ""
