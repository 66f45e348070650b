"""What a call is given that was made before: the run its operation_id began, or an outcome that nobody received."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outlast.clock import moment
from outlast.errors import RunFinished, RunRemoved
from outlast.home.find import run_row
from outlast.runs import claim as claims
from outlast.runs import finished
from outlast.runs.begin import standing
from outlast.runs.claim import RunClaim
from outlast.runs.look import outcome_now
from outlast.runs.run import Outcome

if TYPE_CHECKING:
    from outlast.flows.spec import FlowSpec
    from outlast.home.caller import Caller
    from outlast.store.contract import RunRow


def repeated(caller: Caller, spec: FlowSpec, run_id: str) -> RunClaim | Outcome[Any]:
    """What became of the run that an operation_id began, or the run to go on with. Raises RunHeld, RunSealed."""
    try:
        row = run_row(caller.home, run_id)
    except RunRemoved as gone:
        return finished.pruned(run_id, gone.status)
    if row.status == "succeeded":
        return finished.succeeded(caller, spec, run_id)
    if row.status == "aborted":
        return replace(outcome_now(caller, row), replayed=True)
    claims.refuse_sealed(row)
    try:
        return standing(caller.home, row) or claims.claim(caller, run_id)
    except RunFinished:  # a moment ago
        return repeated(caller, spec, run_id)


def redelivered(caller: Caller, spec: FlowSpec, row: RunRow) -> Outcome[Any]:
    """What nobody received, with a line that says so."""
    found = finished.succeeded(caller, spec, row.id)
    at = f"{moment(row.updated_at):%Y-%m-%d %H:%M:%S} UTC"
    caller.home.warn(
        f"run {row.id} succeeded at {at}, and nobody received it: this call is given its outcome, once; "
        "the next equal call starts a new run"
    )
    return replace(found, replayed=False, redelivered=True)


def ended(caller: Caller, spec: FlowSpec | None, row: RunRow) -> Outcome[Any]:
    """How a run stands now; a result as the flow's annotation types it, or plain where the flow is not at hand."""
    if spec is None or row.status != "succeeded":
        return outcome_now(caller, row)
    return replace(finished.succeeded(caller, spec, row.id), replayed=False)
