"""The waits of a run as the store has them, as the values people read; and what the journal says of one to who watches.

It says that a wait was opened, with what, and how it was closed. Such an entry steers nothing: what a flow is given is
an entry of its own. It is written in the transaction that opens or closes the wait, by whoever may write the run's
journal then. While the run is being executed that is its owner alone: what others decide meanwhile it notes as soon as
it hears of it, and at the latest with its own end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast.clock import moment
from outlast.home.home import Home, interrupt_row
from outlast.ledger.journal import Header, JournalEntry, Payload, entry
from outlast.runs.call import Call, id_of
from outlast.runs.waits.interrupt import BY_DEADLINE, Interrupt
from outlast.store.contract import Hold, InterruptRow, LeaseRow, RunRow, Writing
from outlast.store.contract.runs import damage_of
from outlast.values.codec import decode, value_of
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.secrets import SecretRules, find
    from outlast.values import schema
else:
    schema = late("outlast.values.schema")
    find = late("outlast.secrets.find")  # it is dear, and most runs ask nobody

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
    return value_of(
        Interrupt,
        row,
        status="cancelled" if row.reason else row.status,
        answer=decode(row.answer) if row.answer else None,
        due_at=moment(row.due_at) if row.due_at is not None else None,
        schema=form.get("schema"),
        default=form.get("default"),
        has_default="default" in form,
        assignee=form.get("assignee", ""),
        by_flow="digest" in form,
        call=id_of(Call(*decode(row.call))),
    )


# -- what the journal says of them --------------------------------------------------------------------

UNTOLD = ("timer", "child")  # sleeps and child runs have events of their own
LARGEST_ANSWER = 32 * 1024  # a larger one stands in the entry that gives it to the flow, and not here too


class Notes:
    """Entries about waits, made for one run."""

    def __init__(self, epoch: int, at: int, trace_id: str, secrets: SecretRules) -> None:
        self._epoch, self._at, self._trace_id, self._secrets = epoch, at, trace_id, secrets

    def opened(self, row: InterruptRow) -> list[JournalEntry]:
        """What is asked, of whom, until when, and what an answer looks like."""
        wait = interrupt_of(row)
        body = _named(wait) | {
            "says": wait.says,
            "payload": wait.payload,
            "digest": wait.digest,
            "assignee": wait.assignee,
            "deadline": wait.due_at.isoformat() if wait.due_at is not None else None,
            "choices": list(wait.choices),
            "schema": schema.APPROVAL if wait.type == "approval" else wait.schema,
        }
        return self._made("opened", wait, body | ({"default": wait.default} if wait.has_default else {}))

    def closed(self, row: InterruptRow, why: str = "") -> list[JournalEntry]:
        """How it was closed: by an answer, its deadline, or without one. `why`: of one that is not asked any more."""
        wait = interrupt_of(row)
        if why or row.status == "open" or row.answered_by == "":
            return self._made("cancelled", wait, _named(wait) | {"by": "", "why": why})
        if row.answered_by == BY_DEADLINE:
            given = {"default": wait.answer} if row.answer is not None else {}
            return self._made("expired", wait, _named(wait) | given)
        if row.answer is None:
            return self._made("cancelled", wait, _named(wait) | {"by": row.answered_by, "why": row.reason})
        return self.answered(row, row.answer, row.answered_by)

    def answered(self, row: InterruptRow, answer: str, by: str) -> list[JournalEntry]:
        """What was answered, and by whom."""
        wait, size = interrupt_of(row), len(answer.encode())
        given = {"answer": decode(answer)} if size <= LARGEST_ANSWER else {"answer_bytes": size}
        return self._made("answered", wait, _named(wait) | {"by": by} | given)

    def _made(self, name: str, wait: Interrupt, body: dict[str, Any]) -> list[JournalEntry]:
        if wait.type in UNTOLD:
            return []
        clean, masked = find.counted(body, self._secrets.rules)
        header = Header("interrupt", name, delivered=True, started_at=self._at, ended_at=self._at, key=wait.call)
        header = replace(header, epoch=self._epoch, trace_id=self._trace_id)
        return [entry(header, Payload(facts=clean, masked=masked))]


def _named(wait: Interrupt) -> dict[str, Any]:
    return {"id": wait.id, "type": wait.type, "step": wait.step}


def notes_of(home: Home, epoch: int, trace_id: str) -> Notes:
    """Notes about waits of a run, at this moment."""
    return Notes(epoch, home.clock.now(), trace_id, home.secrets)


def note_closed(home: Home, tx: Writing, interrupt_id: str) -> None:
    """Note how a wait was closed by somebody who does not own its run. If somebody executes it, he will."""
    row = interrupt_row(tx, interrupt_id)
    run, lease = tx.run_by_id(row.run_id), tx.lease_of(row.run_id)
    if run is not None and lease is not None and run.status != "running":
        append_notes(tx, run, lease, notes_of(home, lease.epoch, run.trace_id).closed(row))


def append_notes(tx: Writing, run: RunRow, lease: LeaseRow, made: Iterable[JournalEntry]) -> None:
    """Chain notes to the journal of a run that nobody executes."""
    tx.append(Hold(run.key, run.id, lease.key, lease.epoch, lease.head, lease.hash), list(made))
