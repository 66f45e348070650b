"""What unfinished runs left, a line each: for whoever looks at many of them and opens one.

A line has what the rows of the run tell: how it stands, what it waits for, who holds it. Nothing is composed, judged or
read of its flow for that: the whole of one is what `compose.py` makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from outlast.clock import moment
from outlast.errors import IntegrityBroken
from outlast.handoffs import unfinished
from outlast.handoffs.find import HandoffQuery, has_gone_on, pass_over
from outlast.handoffs.handoff import STALE_SECONDS, Standing, anchor_of
from outlast.runs.look import record_now, waits_now
from outlast.runs.waits.interrupt import is_for_people
from outlast.store.contract import RunRow

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.runs.live import Executor
    from outlast.runs.run import RunRecord
    from outlast.runs.waits.interrupt import Interrupt


class RunLeft(Struct, frozen=True):
    """What an unfinished run left, in one line."""

    anchor: str
    scope: str
    standing: Standing
    run_id: str
    flow: str
    status: str
    says: str  # what it waits for or failed of
    next_action: str
    holder: str
    actor: str
    heard_at: datetime


def left_by_runs(executor: Executor, scope: str, limit: int, before: str = "") -> tuple[list[RunLeft], int]:
    """So many lines, of those that began last first, and how many unfinished tasks there are.

    `before`: the run of the last line of a list that this one continues; one that has ended meanwhile begins it anew.
    """
    rows = unfinished.tasks_of(executor.home, scope)
    place = next((row.key for row in rows if row.id == before), 0)
    found = (row for row in rows if not place or row.key < place)
    return [*islice(_lines(executor, scope, found), limit)], len(rows)


def _lines(executor: Executor, scope: str, rows: Iterator[RunRow]) -> Iterator[RunLeft]:
    """Those whose task nobody handed over since. One that cannot be read is passed over, and told."""
    for row in rows:
        try:
            if has_gone_on(executor, HandoffQuery(scope, anchor_of(row.task))):
                yield line_of(executor.caller, row)
        except IntegrityBroken as broken:
            pass_over(executor.home, f"run {row.id}", broken)


def line_of(caller: Caller, row: RunRow) -> RunLeft:
    """The line of a run as it stands now. Raises RunNotFound, IntegrityBroken."""
    run, waits = record_now(caller, row), waits_now(caller.home, row.key)
    is_old = row.updated_at + STALE_SECONDS * 1_000_000 <= caller.home.clock.now()
    return RunLeft(
        anchor=anchor_of(row.task),
        scope=row.scope,
        standing="claimed" if run.holder else "expired" if is_old else "open",
        run_id=run.id,
        flow=run.flow,
        status=run.status,
        says=_says(run, waits),
        next_action=_next(run, waits),
        holder=run.holder,
        actor=run.actor,
        heard_at=moment(row.updated_at),
    )


def _says(run: RunRecord, waits: list[Interrupt]) -> str:
    if waits:
        return waits[0].says + (f" and {len(waits) - 1} more" if len(waits) > 1 else "")
    error = run.error or {}
    return str(error.get("message") or run.phase)


def _next(run: RunRecord, waits: list[Interrupt]) -> str:
    if any(is_for_people(wait.type) for wait in waits):
        return "answer what it waits for"
    words = {"running": "wait for it, or look at it", "failed": "mend what it failed of, then resume it"}
    words |= {"queued": "wait until a worker takes it out of its queue"}
    return words.get(run.status, "wait until it is due" if waits else "resume it")
