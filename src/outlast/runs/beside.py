"""A new run beside an unfinished one of the same flow, which nobody named: whoever started it is told.

The same call with other inputs, perhaps only because a default was edited, is another task. That may be meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.runs import claim as claims
from outlast.runs import same_flow
from outlast.store.contract import Reading, RunRow

if TYPE_CHECKING:
    from outlast.home.home import Runtime

LOOKED_AT = 8  # of the newest unfinished runs of a flow


def beside(runtime: Runtime, run: RunRow) -> tuple[str, ...]:
    """What to tell who started this run; nothing when it has a name of its own, or no unfinished one lies idle."""
    return () if run.named else runtime.store.read(lambda look: _told(runtime, look, run))


def _told(runtime: Runtime, look: Reading, run: RunRow) -> tuple[str, ...]:
    rows = look.unfinished_of_flow(run.scope, run.identity, LOOKED_AT)
    others = [row for row in rows if row.id != run.id and not (row.seal or row.named or row.parent)]
    for other in others:
        lease = look.lease_of(other.id)
        is_idle = lease is not None and not claims.holder_of(runtime, look, other.id, lease)
        if is_idle and same_flow.compared(runtime.project, other, run) == "same":
            status = "crashed" if other.status == "running" else other.status
            return (
                f"run {other.id} of this flow is {status}, with other inputs; run {run.id} was started beside it. "
                f"To continue that one: outlast resume {other.id}",
            )
    return ()
