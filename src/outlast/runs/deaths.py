"""What the death of a run's owner says about the steps that were under way in it.

A step is blamed for a death that it was alone in: nothing else was under way in its run, nor in another run of the
same process, and the machine went on. Who shared a death is counted apart, and asked about only after many of them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from outlast.home.process import is_alive
from outlast.ledger.lease import was_rebooted
from outlast.runs import journal
from outlast.runs.call import fold
from outlast.store.contract import LeaseRow, Reading, Writing

if TYPE_CHECKING:
    from outlast.home.home import Runtime

TAKEN, REBOOTED, SHARED = "taken", "rebooted", "shared"


def death_of(runtime: Runtime, look: Reading, lease: LeaseRow) -> str:
    """Why the end of a run's last owner is no step's doing alone, as far as others than the run can tell.

    `taken`: it lives; `rebooted`: its machine was; `shared`: it was at work on several runs; else empty.
    """
    beat = look.beat_of(str(lease.holder)) if lease.holder else None
    if beat is None:
        return ""
    if is_alive(beat.process, runtime.process):
        return TAKEN
    if was_rebooted(beat.process, runtime.process):
        return REBOOTED
    return SHARED if beat.shared or _several_at_work(look, str(lease.holder)) else ""


def note_death(tx: Writing, lease: LeaseRow, death: str) -> None:
    """Keep with the dead process that its runs shared its death: those that are taken up later would not see it."""
    if death == SHARED:
        tx.note_shared(str(lease.holder))


def _several_at_work(look: Reading, process_id: str) -> bool:
    """Whether steps of more than one of its runs were under way. A parent that only waits for its child has none."""
    at_work = (run_id for run_id in look.runs_held_by(process_id) if _is_at_work(look, run_id))
    return len(list(islice(at_work, 2))) > 1


def _is_at_work(look: Reading, run_id: str) -> bool:
    run = look.run_by_id(run_id)
    return run is not None and bool(fold(*journal.read(look, run)[:2]).in_flight)
