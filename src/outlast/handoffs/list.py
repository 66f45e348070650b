"""The list of handoffs: what unfinished runs left, then what was stored, the newest first, judged if that is asked.

Of what a run left the line has what its rows tell: how it stands, what it waits for, who holds it. Nothing is composed,
judged or read of its flow for that: the whole of one is what `compose.py` makes of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime
from functools import cache, partial
from heapq import merge
from itertools import chain, islice
from typing import TYPE_CHECKING

from msgspec import Struct

from outlast.clock import moment
from outlast.errors import HandoffInvalid, HandoffNotFound, IntegrityBroken
from outlast.files.ask_git import one_look
from outlast.flows.loading import one_look_at_source
from outlast.handoffs import anchor as anchors
from outlast.handoffs import find as finding
from outlast.handoffs import task_state as unfinished
from outlast.handoffs.claim import holder_of, standing_reasons
from outlast.handoffs.find import HandoffQuery
from outlast.handoffs.handoff import STALE_SECONDS, Listed, Standing, anchor_of, task_of
from outlast.handoffs.recover import judge_handoff, judge_run
from outlast.home.home import run_row
from outlast.ledger.verdict import Reason, judge
from outlast.runs.look import record_now
from outlast.runs.waits.interrupt import is_for_people
from outlast.runs.waits.stored import waits_now
from outlast.store.contract import AnchorRow, Reading, RunRow
from outlast.values.codec import value_of

if TYPE_CHECKING:
    from outlast.handoffs.compose import Composed
    from outlast.home.caller import Caller
    from outlast.home.home import Home
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
            if finding.has_gone_on(executor, HandoffQuery(scope, anchor_of(row.task))):
                yield line_of(executor.caller, row)
        except IntegrityBroken as broken:
            finding.pass_over(executor.home, f"run {row.id}", broken)


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


def list_handoffs(
    executor: Executor, scope: str, standing: Standing | None, limit: int, looking: bool, before: str | None = None
) -> list[Listed]:
    """The newest handoffs that stand so; with `looking`, or for contested ones, each with its verdict here and now.

    `before` is the id of the last one of a list that this one continues. One that cannot be read is contested.
    Raises HandoffInvalid for a limit that is none, HandoffNotFound.
    """
    if type(limit) is not int or limit < 1:
        raise HandoffInvalid("limit", "it is no whole number above 0", "say how many are wanted at most, such as 50")
    looking = looking or standing == "contested"
    found = chain(_runs(executor, scope, looking, before), _stored(executor, scope, standing, looking, before))
    wanted = islice((one for one in found if standing in (None, one.standing)), min(limit, sys.maxsize))
    with one_look_at_source(), one_look() if looking else nullcontext():
        return [*wanted]


def list_stored(
    executor: Executor, scope: str, standing: Standing | None, limit: int, before: str | None = None
) -> list[Listed]:
    """The newest handoffs that somebody stored, without what unfinished runs left. Nothing is judged."""
    found = _stored(executor, scope, standing, False, before)
    return [*islice((one for one in found if standing in (None, one.standing)), limit)]


def contested_ones(executor: Executor, scope: str, judged: int) -> list[Listed]:
    """Of so many runs that began last, and so many handoffs that were stored last, those that something contests.

    What it costs does not grow with what there is: to judge all is what a list of contested ones does.
    """
    runs, stored = _runs(executor, scope, True, None), _stored(executor, scope, "contested", True, None)
    with one_look_at_source(), one_look():
        found = [*islice(runs, judged), *islice(stored, judged)]
    return [one for one in found if one.standing == "contested"]


def _runs(executor: Executor, scope: str, looking: bool, before: str | None) -> Iterator[Listed]:
    """What unfinished runs left, those that began last first, unless somebody handed the task over since."""
    last = unfinished.run_of(before)
    if before is not None and last is None:
        return  # it goes on among those that were stored
    rows = unfinished.tasks_of(executor.home, scope)
    place = next((row.key for row in rows if row.id == last), 0)
    if last is not None and not place:  # it has ended meanwhile
        place = run_row(executor.home, last).key
    for row in rows:
        if place and row.key >= place:
            continue
        try:
            composed = finding.subject_of(executor, HandoffQuery(scope, anchor_of(row.task))).instead
            listed = listed_run(executor.caller, composed, looking=looking) if composed is not None else None
        except IntegrityBroken as broken:
            finding.pass_over(executor.home, f"run {row.id}", broken)
            continue
        if listed is not None:
            yield listed


def _stored(
    executor: Executor, scope: str, standing: Standing | None, looking: bool, before: str | None
) -> Iterator[Listed]:
    """What was stored, but for the anchors of tasks whose run has gone on since."""
    last = _last(executor.home, scope, before) if unfinished.run_of(before) is None else None
    running = cache(lambda: {anchor_of(row.task) for row in unfinished.tasks_of(executor.home, scope)})
    for row in _rows(executor.home, scope, standing, last):
        if not _has_run(executor.home, row) or row.anchor not in running() or not _has_gone_on(executor, scope, row):
            yield _one(executor.caller, row, looking)


def _has_run(home: Home, row: AnchorRow) -> bool:
    """Whether its task has a run that is not finished: most have none, and need no look at all the others."""
    task = task_of(row.anchor)
    return task is not None and bool(home.store.read(lambda look: look.unfinished_of_task(row.scope, task)))


def _has_gone_on(executor: Executor, scope: str, row: AnchorRow) -> bool:
    """Whether the task's run has gone on since it was handed over. One that cannot be read is passed over, and told."""
    try:
        return finding.has_gone_on(executor, HandoffQuery(scope, row.anchor))
    except IntegrityBroken as broken:
        finding.pass_over(executor.home, f"the run of {row.anchor!r}", broken)
        return False


def _last(home: Home, scope: str, handoff_id: str | None) -> AnchorRow | None:
    """Where a list ended: its last anchor as it was then, also if another revision was stored since."""
    if handoff_id is None:
        return None
    anchor, revision = home.store.read(lambda look: finding.by_id(look, HandoffQuery("", handoff_id=handoff_id)))
    if anchor.scope != scope:
        raise HandoffNotFound(f"id {handoff_id!r} in scope {scope!r}")
    if anchor.newest == revision.key:
        return anchor
    found = home.store.read(lambda look: anchors.find(look, anchor, revision))
    return anchor._replace(newest=revision.key, expires_at=found.handoff.expires_us)


def _rows(home: Home, scope: str, standing: Standing | None, last: AnchorRow | None = None) -> Iterator[AnchorRow]:
    """The anchors that may stand so, after the last one seen, each read when it is needed."""
    if standing == "expired":
        return finding.paged(home, partial(_expired, scope, home.clock.now()), last)
    if standing == "claimed":
        claimed = home.store.read(lambda look: look.claimed_anchors(scope))
        return (row for row in claimed if last is None or row.newest < last.newest)
    statuses = {None: ("open", "finished"), "finished": ("finished",)}.get(standing, ("open",))
    pages = [finding.paged(home, partial(finding.of_status, scope, status), last) for status in statuses]
    return merge(*pages, key=lambda row: row.newest, reverse=True)


def _expired(scope: str, now: int, last: AnchorRow | None, look: Reading) -> list[AnchorRow]:
    at, before = (last.expires_at, last.key) if last else (now, 0)
    return look.expired_anchors(scope, at, finding.PAGE, before)


def _one(caller: Caller, row: AnchorRow, looking: bool) -> Listed:
    try:
        found = finding.read(caller.home, row)
    except IntegrityBroken as broken:
        return _unreadable(caller.home, row, broken)
    handoff = found.handoff
    holder = caller.home.store.read(lambda look: holder_of(caller, look, found))
    verdict = judge_handoff(caller, found, None, ()).verdict if looking and row.status == "open" else None
    contested = verdict is not None and bool(standing_reasons(verdict, anchors.accepted_since(found)))
    return value_of(
        Listed,
        row,
        standing=finding.standing_of(row, claimed=holder is not None, contested=contested, at=caller.home.clock.now()),
        handoff_id=handoff.id,
        summary=handoff.summary,
        next_action=handoff.next_action,
        holder=holder.who if holder else "",
        actor=handoff.actor,
        verdict=verdict,
    )


def _unreadable(home: Home, row: AnchorRow, broken: IntegrityBroken) -> Listed:
    """What the anchor's row alone says, and that its record is broken."""
    reason = Reason("integrity_broken", broken.record, "what was stored", broken.why, broken.advice)
    revision = home.store.read(lambda look: look.handoff_at(row.key, row.revision))
    standing = finding.standing_of(row, claimed=False, contested=True, at=home.clock.now())
    unknown = {"summary": "", "next_action": None, "holder": "", "actor": ""}
    handoff_id = revision.id if revision else ""
    return value_of(Listed, row, standing=standing, handoff_id=handoff_id, verdict=judge([reason]), **unknown)


def listed_run(caller: Caller, composed: Composed, *, looking: bool) -> Listed:
    """What a run left, as a list has it; with `looking` judged here and now."""
    handoff, now = composed.handoff, caller.home.clock.now()
    held = next((one.found for one in composed.reasons if one.code == "claimed"), "")
    verdict = judge_run(caller, composed, None, (), composed.reasons).verdict if looking else None
    contested = verdict is not None and bool(verdict.unaccepted(composed.accepted))
    expired = handoff.expires_us <= now
    return Listed(
        anchor=handoff.anchor,
        scope=handoff.scope,
        standing="claimed" if held else "contested" if contested else "expired" if expired else "open",
        handoff_id=handoff.id,
        revision=0,
        summary=handoff.summary,
        next_action=handoff.next_action,
        score=handoff.lint.score,
        outcome="",
        holder=held,
        branch="",
        actor=handoff.actor,
        stored_at=handoff.stored_at,
        expires_at=handoff.expires_at,
        verdict=verdict,
    )
