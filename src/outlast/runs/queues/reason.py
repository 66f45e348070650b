"""Why a run can go on by itself: its process is gone, a shutdown stopped it, or what it waited for is over.

All of it is read at one moment, by who looks for such runs, who takes one, and who says what keeps one. And how a run
stands beside its status: its queue, the times that count for it, and what keeps it from going on.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from outlast.clock import moment
from outlast.runs.holder import holder_of
from outlast.runs.run import FINISHED
from outlast.runs.stops import SHUTDOWN, who_stopped
from outlast.store.contract import InterruptRow, QueueEntry, Reading, RunRow
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.runs.queues.workers import AtWork


def is_of_its_own(row: RunRow) -> bool:
    """Whether a run could go on by itself: a child goes on with its parent, a script's run in its script."""
    return not (row.parent or row.seal or row.flow.startswith("script:"))


def reason_of(caller: Caller, look: Reading, run_id: str) -> str:
    """Why a run can go on now: crashed, stopped, answered, asked, over; empty when it cannot."""
    row, lease = look.run_by_id(run_id), look.lease_of(run_id)
    if row is None or lease is None or holder_of(caller, look, run_id, lease):
        return ""
    if row.status == "waiting":
        return _over(caller, look, row)
    if any(kind == "pause" for _, kind, _, _ in look.untaken(row.key)):
        return ""  # a person stopped it, and its owner was gone before it heard
    if row.status in ("running", "crashed"):
        return "crashed"
    return "stopped" if row.status == "interrupted" and who_stopped(look, row, lease) == SHUTDOWN else ""


def _over(caller: Caller, look: Reading, row: RunRow) -> str:
    """Which of a waiting run's waits is over."""
    if any(kind != "pause" for _, kind, _, _ in look.untaken(row.key)):
        return "asked"
    for wait in look.waits_of(row.key):
        if wait.status == "answered":
            return "answered"
        if wait.due_at is not None and wait.due_at <= caller.home.clock.now():
            return "over"
        if wait.type == "child" and _child_is_over(caller, look, wait):
            return "over"
    return ""


def _child_is_over(caller: Caller, look: Reading, wait: InterruptRow) -> bool:
    """Whether a child that is waited for has finished, or could itself go on."""
    child = look.run_by_id(str(decode(wait.payload).get("child", "")))
    return child is not None and (child.status in FINISHED or bool(reason_of(caller, look, child.id)))


# -- how a run stands --------------------------------------------------------------------------------

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
