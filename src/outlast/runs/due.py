"""What can go on by itself: crashed runs, and waiting ones whose wait is over.

A failure and a stop that was asked for are for people to look at, and a child goes on with its parent. A run that a
script opened goes on in that script. None of these is ever due.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from outlast.runs import claim as claims
from outlast.runs.run import FINISHED
from outlast.store.contract import InterruptRow, Reading, RunRow
from outlast.values.codec import decode
from outlast.values.frozen import dataclass

if TYPE_CHECKING:
    from outlast.home.home import Runtime


@dataclass(frozen=True, slots=True)
class Due:
    """A run that can go on now, and why."""

    run_id: str
    reason: str  # crashed; answered, asked, or over: what it waited for
    scope: str = "default"


def due(runtime: Runtime) -> list[Due]:
    """Every run that can go on now; the one that was last touched longest ago comes first.

    In that order a run that kills its process each time does not keep the others from their turn.
    """
    rows = [row for status in ("running", "crashed", "waiting") for row in runtime.rows(status)]
    own = {row.id: row for row in rows if not (row.parent or row.seal or row.flow.startswith("script:"))}
    oldest_first = sorted(own.values(), key=lambda row: (row.updated_at, row.key))
    found = [Due(row.id, runtime.store.read(partial(_reason, runtime, row.id)), row.scope) for row in oldest_first]
    return [one for one in found if one.reason]


def _reason(runtime: Runtime, run_id: str, look: Reading) -> str:
    """Why a run can go on now; empty when it cannot. All of it is read at one moment."""
    row, lease = look.run_by_id(run_id), look.lease_of(run_id)
    if row is None or lease is None or claims.holder_of(runtime, look, run_id, lease):
        return ""
    if row.status in ("running", "crashed"):
        return "crashed"
    return _over(runtime, look, row) if row.status == "waiting" else ""


def _over(runtime: Runtime, look: Reading, row: RunRow) -> str:
    """Which of a waiting run's waits is over."""
    if any(kind != "pause" for _, kind, _, _ in look.untaken(row.key)):
        return "asked"
    for wait in look.waits_of(row.key):
        if wait.status == "answered":
            return "answered"
        if wait.due_at is not None and wait.due_at <= runtime.clock.now():
            return "over"
        if wait.type == "child" and _child_is_over(runtime, look, wait):
            return "over"
    return ""


def _child_is_over(runtime: Runtime, look: Reading, wait: InterruptRow) -> bool:
    """Whether a child that is waited for has finished, or could itself go on."""
    child = look.run_by_id(str(decode(wait.payload).get("child", "")))
    return child is not None and (child.status in FINISHED or bool(_reason(runtime, child.id, look)))
