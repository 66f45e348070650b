"""Why a run can go on by itself: its process is gone, a shutdown stopped it, or what it waited for is over.

All of it is read at one moment, by who looks for such runs, who takes one, and who says what keeps one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.runs.holder import holder_of
from outlast.runs.run import FINISHED
from outlast.runs.stops import SHUTDOWN, who_stopped
from outlast.store.contract import InterruptRow, Reading, RunRow
from outlast.values.codec import decode

if TYPE_CHECKING:
    from outlast.home.caller import Caller


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
