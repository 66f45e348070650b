"""Saving a wait, inside the transaction that writes what led to it."""

from __future__ import annotations

from outlast.runs.waits.interrupt import is_told
from outlast.store.contract import NewWait, Writing


def save(
    tx: Writing, run_id: str, run_key: int, interrupt_id: str, wait: NewWait, signal: str | None
) -> tuple[str, str, str] | None:
    """Save a wait, if it is not there yet. A `signal` of that name which came before answers it at once."""
    is_new = tx.add_interrupt(interrupt_id, run_key, wait)
    if not is_new and is_told(wait.type) and _close_changed(tx, run_key, wait):
        is_new = tx.add_interrupt(interrupt_id, run_key, wait)
    return _take_signal(tx, run_id, interrupt_id, signal) if is_new and signal is not None else None


def _close_changed(tx: Writing, run_key: int, wait: NewWait) -> bool:
    """Close a question that is still open and asks something else by now: nobody is to answer the old one."""
    for old in tx.waits_of(run_key):
        if old.call == wait.call and old.status == "open" and (old.payload, old.form) != (wait.payload, wait.form):
            tx.use_interrupt(old.id)
            return True
    return False


def _take_signal(tx: Writing, run_id: str, interrupt_id: str, name: str) -> tuple[str, str, str] | None:
    """Answer a wait by a signal that came before it: the wait's id, the signal's body and its sender."""
    run = tx.run_by_id(run_id)
    found = tx.signal_for(run, name) if run is not None else None
    if found is None:
        return None
    tx.take_signal(found.key, interrupt_id)
    tx.answer_interrupt(interrupt_id, found.body, found.actor)
    return interrupt_id, found.body, found.actor
