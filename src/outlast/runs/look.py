"""Rows of the store as the values people read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.clock import moment
from outlast.errors import OutlastError, RunNotFound
from outlast.ledger.journal import decode_payload
from outlast.runs import stops
from outlast.runs.call import Call, id_of
from outlast.runs.run import FORK, RunRecord
from outlast.runs.waits.interrupt import Interrupt
from outlast.store.contract import InterruptRow, LeaseRow, Reading, RunRow
from outlast.store.contract.damaged import damage_of
from outlast.values.codec import decode

if TYPE_CHECKING:
    from outlast.home.home import Runtime

# What reading a record that no store wrote may end in.
UNREADABLE = (OutlastError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


DAMAGED = "damaged"  # how a record stands that is not what was stored: it is listed, and nobody may act on it
SEE = "see `outlast verify`"


def interrupt_of(row: InterruptRow) -> Interrupt:
    """A wait; one whose row cannot be read is called damaged."""
    form = decode(row.form)
    if why := damage_of(row):
        row = row._replace(status=DAMAGED, reason="")
        return replace(_interrupt(row, form), reason=f"{why}; {SEE}")
    return _interrupt(row, form)


def _interrupt(row: InterruptRow, form: dict[str, Any]) -> Interrupt:
    return Interrupt(
        id=row.id,
        run_id=row.run_id,
        type=row.type,
        step=row.step,
        payload=decode(row.payload),
        status="cancelled" if row.reason else row.status,
        answer=decode(row.answer) if row.answer else None,
        answered_by=row.answered_by,
        opened_at=moment(row.opened_at),
        due_at=moment(row.due_at) if row.due_at is not None else None,
        schema=form.get("schema"),
        default=form.get("default"),
        has_default="default" in form,
        assignee=form.get("assignee", ""),
        reason=row.reason,
        by_flow="digest" in form,
        call=id_of(Call(*decode(row.call))),
    )


class Held(NamedTuple):
    """A run of a list, with its lease and who held it at that moment; no lease where that could not be read."""

    row: RunRow
    lease: LeaseRow | None
    holder: str = ""
    origin: tuple[str, str] = ("", "")


def rows_with_leases(runtime: Runtime, look: Reading, status: str | None, page: int, before: int) -> list[Held]:
    """A page of runs, the newest first, in as few statements as can be."""
    rows = look.newest_runs(status, page, before)
    leases = look.leases_of([row.id for row in rows if not damage_of(row)])
    return [_held(runtime, look, row, leases.get(row.id)) for row in rows]


def _held(runtime: Runtime, look: Reading, row: RunRow, lease: LeaseRow | None) -> Held:
    from outlast.runs.claim import holder_of

    try:
        return Held(row, lease, holder_of(runtime, look, row.id, lease) if lease else "", origin_of(look, row))
    except UNREADABLE:
        return Held(row, None)


def listed(runtime: Runtime, held: Held) -> RunRecord | None:
    """A run of a list; None when it was removed since. What cannot be read is shown as damaged."""
    row, lease, holder, origin = held
    if damage_of(row):
        return damaged(row, damage_of(row))
    try:
        if lease is not None:
            return run_record(row, lease, holder, runtime.result_of(row), origin)
    except UNREADABLE:
        pass  # it may have been removed since
    return runtime.store.read(lambda look: _looked_at_again(runtime, look, row.id))


def _looked_at_again(runtime: Runtime, look: Reading, run_id: str) -> RunRecord | None:
    now = look.run_by_id(run_id)
    if now is None:
        return None
    try:
        return runtime.record_in(look, run_id)
    except UNREADABLE as error:
        return damaged(now, "its lease row is missing" if isinstance(error, RunNotFound) else str(error))


def damaged(row: RunRow, why: str) -> RunRecord:
    """What is left of a run that is not what was stored."""
    kept = row._replace(result=None, error=None, inputs="{}", meta="{}")
    found = run_record(kept, LeaseRow(0, 0, 0, b"", None), "", None)
    return replace(found, status=DAMAGED, error={"type": DAMAGED, "message": f"{why}; {SEE}"})


def run_record(row: RunRow, lease: LeaseRow, holder: str, result: Any, origin: tuple[str, str] = ("", "")) -> RunRecord:
    """A run; one whose status is `running` and that nobody holds any more is called crashed."""
    status = "crashed" if row.status == "running" and not holder and not row.seal else row.status
    return RunRecord(
        id=row.id,
        flow=row.flow,
        task=row.task,
        scope=row.scope,
        status=status,
        phase=row.phase,
        inputs=decode(row.inputs),
        result=result,
        error=decode(row.error) if row.error else None,
        parent=row.parent,
        session=row.session,
        trace_id=row.trace_id,
        meta=decode(row.meta),
        actor=row.actor,
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
        epoch=lease.epoch,
        head=lease.head,
        holder=holder,
        seal=row.seal,
        identity=row.identity,
        source=row.source,
        worktree=row.worktree,
        origin=origin[0],
        origin_step=origin[1],
    )


def origin_of(look: Reading, run: RunRow) -> tuple[str, str]:
    """The run and the step that a run was forked from; empty for one that was not."""
    first = look.entries_of(run.key, [1]) if FORK in run.task else []
    payload = first[0].payload if first else None
    facts = decode_payload(payload).facts if payload and b'"origin":' in payload else None
    return (str(facts["origin"]["run"]), str(facts["origin"]["step"])) if isinstance(facts, dict) else ("", "")


def who_stopped(runtime: Runtime, run_id: str) -> str:
    """Who stopped an interrupted run: a person, a shutdown; empty when that is not known."""

    def look(reading: Reading) -> str:
        row, lease = reading.run_by_id(run_id), reading.lease_of(run_id)
        return stops.who_stopped(reading, row, lease) if row is not None and lease is not None else ""

    return runtime.store.read(look)
