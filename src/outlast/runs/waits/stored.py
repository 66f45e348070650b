"""The waits of a run as the store has them, as the values people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast.clock import moment
from outlast.runs.call import Call, id_of
from outlast.runs.waits.interrupt import Interrupt
from outlast.store.contract.runs import InterruptRow, damage_of
from outlast.values.codec import decode

if TYPE_CHECKING:
    from outlast.home.home import Home

DAMAGED = "damaged"  # how a record stands that is not what was stored: it is listed, and nobody may act on it
SEE = "see `outlast verify`"


def waits_now(home: Home, run_key: int) -> list[Interrupt]:
    """The open waits of a run."""
    rows = home.store.read(lambda look: look.waits_of(run_key))
    return [interrupt_of(row) for row in rows if row.status == "open"]


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
