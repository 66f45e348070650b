"""Rows beside a run's chain that are acted on: a run goes on only with what was stored.

A chain proves its entries. Where a run's code is, what its waits were answered and what was asked of it lie in rows,
each with a proof of its own, which is made anew with every write: so they are looked at before the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outlast.errors import IntegrityBroken
from outlast.runs.journal import differences_of_run

if TYPE_CHECKING:
    from outlast.ledger.journal import Break
    from outlast.store.contract import LeaseRow, Reading, RunRow


def refuse_unproven(look: Reading, run: RunRow, lease: LeaseRow) -> None:
    """Raises IntegrityBroken for a row that is not what was stored. What the chain tells of it is judged later."""
    wrong = next(_unproven(look, run), None)
    if wrong is None:
        return
    if look.unproven_row("runs", run.key) != wrong:
        raise _changed(wrong)
    from outlast.runs.recovery import find

    found = find(look, run, lease)
    if any(one.record in (wrong.record, f"entry {run.id}/1") for one in found.breaks):
        return  # its inputs, or what its first entry begins with
    is_only_mark = found.run.mark != run.mark and not any(differences_of_run(run, found.rows))  # then all is read
    if not is_only_mark:
        raise _changed(wrong)


def refuse_unproven_wait(look: Reading, key: int) -> None:
    """Raises IntegrityBroken for a question that is not the one that was asked."""
    wrong = look.unproven_row("interrupts", key)
    if wrong is not None:
        raise _changed(wrong)


def _changed(wrong: Break) -> IntegrityBroken:
    return IntegrityBroken(wrong.record, f"its row was changed ({wrong.why})")


def _unproven(look: Reading, run: RunRow) -> Iterator[Break]:
    waits = [("interrupts", wait.key) for wait in look.waits_of(run.key)]
    asked = [("inbox", key) for key, *_ in look.untaken(run.key)]
    for table, key in (*waits, *asked, ("runs", run.key)):
        if (wrong := look.unproven_row(table, key)) is not None:
            yield wrong
