"""Saving a wait, inside the transaction that writes what led to it."""

from __future__ import annotations

from outlast.runs.waits.interrupt import is_told
from outlast.runs.waits.notes import Notes
from outlast.store.contract import Hold, InterruptRow, NewWait, Writing


def save(
    tx: Writing, hold: Hold, notes: Notes, interrupt_id: str, wait: NewWait, signal: str | None
) -> tuple[str, str, str] | None:
    """Save a wait, if it is not there yet, and say so. A `signal` of that name which came before answers it at once."""
    is_new = tx.add_interrupt(interrupt_id, hold.run_key, wait)
    if not is_new and is_told(wait.type) and _close_changed(tx, hold, notes, wait):
        is_new = tx.add_interrupt(interrupt_id, hold.run_key, wait)
    if not is_new:
        return None
    row = _saved(tx, interrupt_id)
    taken = _take_signal(tx, hold.run_id, interrupt_id, signal) if signal is not None else None
    told = notes.answered(row, taken[1], taken[2]) if taken is not None else []
    tx.append(hold, [*notes.opened(row), *told])
    return taken


def _saved(tx: Writing, interrupt_id: str) -> InterruptRow:
    return next(row for row in tx.interrupts_by_prefix(interrupt_id) if row.id == interrupt_id)


def _close_changed(tx: Writing, hold: Hold, notes: Notes, wait: NewWait) -> bool:
    """Close a question that is still open and asks something else by now: nobody is to answer the old one."""
    for old in tx.waits_of(hold.run_key):
        if old.call == wait.call and old.status == "open" and (old.payload, old.form) != (wait.payload, wait.form):
            tx.append(hold, notes.closed(old, "it is asked anew, with something else"))
            tx.use_interrupt(old.id)
            return True
    return False


def _take_signal(tx: Writing, run_id: str, interrupt_id: str, name: str) -> tuple[str, str, str] | None:
    """Answer a wait by a signal that came before it: the wait's id, the signal's body and its sender."""
    run = tx.run_by_id(run_id)
    found = tx.signal_for(run, name) if run is not None else None
    if found is None or tx.unproven_row("signals", found.key):  # one that was changed tells nothing; `verify` names it
        return None
    tx.take_signal(found.key, interrupt_id)
    tx.answer_interrupt(interrupt_id, found.body, found.actor)
    return interrupt_id, found.body, found.actor
