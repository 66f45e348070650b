"""Rows of the store as the values people read."""

from __future__ import annotations

from typing import Any

from outlast.clock import moment
from outlast.runs.call import Call, id_of
from outlast.runs.run import RunRecord
from outlast.runs.waits.interrupt import Interrupt
from outlast.store.contract import InterruptRow, LeaseRow, RunRow
from outlast.values.codec import decode


def interrupt_of(row: InterruptRow) -> Interrupt:
    form = decode(row.form)
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


def run_record(row: RunRow, lease: LeaseRow, holder: str, result: Any) -> RunRecord:
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
    )
