"""What can go on by itself: crashed runs, those that a shutdown stopped, and waiting ones whose wait is over.

A failure and a stop that a person asked for are for people to look at, and a child goes on with its parent. A run that
a script opened goes on in that script. None of these is ever due, and nor is work that nobody has touched for a week.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from outlast.ledger.journal import read_header
from outlast.runs import claim as claims
from outlast.runs.look import UNREADABLE, each_run
from outlast.runs.run import FINISHED
from outlast.runs.stops import SHUTDOWN, who_stopped
from outlast.store.contract import InterruptRow, LeaseRow, Reading, RunRow
from outlast.values.codec import decode
from outlast.values.frozen import dataclass

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home

OLD_US = 7 * 86_400_000_000  # since the last sign of life of a crashed run, or since a run was stopped


@dataclass(frozen=True, slots=True)
class Due:
    """A run that can go on now, and why."""

    run_id: str
    reason: str  # crashed; stopped, by a shutdown; answered, asked, or over: what it waited for
    scope: str = "default"
    old: bool = False  # it was left more than a week ago: it is only woken by who asks for all


def due(caller: Caller, *, all: bool = False) -> list[Due]:
    """Every run that can go on now; the one that was last touched longest ago comes first. `all`: old ones too.

    In that order a run that kills its process each time does not keep the others from their turn.
    """
    rows = [row for status in ("running", "crashed", "waiting", "interrupted") for row in each_run(caller.home, status)]
    own = {row.id: row for row in rows if _is_looked_at(caller.home, row, all)}
    oldest_first = sorted(own.values(), key=lambda row: (row.updated_at, row.key))
    found = [caller.home.store.read(partial(_look, caller, row)) for row in oldest_first]
    return [one for one in found if one.reason and (all or not one.old)]


def _is_looked_at(home: Home, row: RunRow, all: bool) -> bool:
    """Whether a run may be due at all: its own row is enough to rule out most that were stopped long ago."""
    if row.parent or row.seal or row.flow.startswith("script:"):
        return False
    return all or row.status != "interrupted" or home.clock.now() - row.updated_at <= OLD_US


def _look(caller: Caller, row: RunRow, look: Reading) -> Due:
    """Why a run can go on now, and whether it is old. All of it is read at one moment.

    One whose records cannot be read is not due: who resumes it, or verifies, is told why.
    """
    try:
        reason = _reason(caller, row.id, look)
        lease = look.lease_of(row.id) if reason in ("crashed", "stopped") else None
        return Due(row.id, reason, row.scope, lease is not None and _is_old(caller.home, look, row, lease))
    except UNREADABLE:
        return Due(row.id, "", row.scope)


def _reason(caller: Caller, run_id: str, look: Reading) -> str:
    """Why a run can go on now; empty when it cannot."""
    row, lease = look.run_by_id(run_id), look.lease_of(run_id)
    if row is None or lease is None or claims.holder_of(caller, look, run_id, lease):
        return ""
    if row.status == "waiting":
        return _over(caller, look, row)
    if any(kind == "pause" for _, kind, _, _ in look.untaken(row.key)):
        return ""  # a person stopped it, and its owner was gone before it heard
    if row.status in ("running", "crashed"):
        return "crashed"
    return "stopped" if row.status == "interrupted" and who_stopped(look, row, lease) == SHUTDOWN else ""


def _is_old(home: Home, look: Reading, row: RunRow, lease: LeaseRow) -> bool:
    """Whether nothing was heard of a stopped or crashed run for a week."""
    beat = look.beat_of(lease.holder) if lease.holder else None
    ended = [read_header(entry.header).ended_at for entry in look.entries_of(row.key, [lease.head])]
    last = max(row.updated_at, beat.wall_us if beat else 0, *ended, 0)
    return home.clock.now() - last > OLD_US


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
    return child is not None and (child.status in FINISHED or bool(_reason(caller, child.id, look)))
