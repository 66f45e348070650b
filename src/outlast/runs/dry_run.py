"""What a call of a flow would begin: the same question as in `begin.py`, answered by looking; nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors import InputsConflict
from outlast.flows.spec import FlowSpec
from outlast.runs import begin as beginning
from outlast.runs import claim as claims
from outlast.runs import delivery, same_flow
from outlast.runs.finished import outcome_of
from outlast.runs.options import Options, agreed
from outlast.runs.run import FINISHED
from outlast.store.contract import FinishedRow, NewRun, Reading, RunRow
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.runs.live import Executor

START, CONTINUE, GIVE = "start", "continue", "give"


class DryRun(NamedTuple):
    """What `run` would do now."""

    action: str  # START a new run, CONTINUE one, GIVE the outcome of one
    task: str
    run_id: str = ""  # the one that would be continued or given
    instead_of: str = ""  # the one that would be given up, or happen again


def dry_run(executor: Executor, spec: FlowSpec, new: NewRun, options: Options) -> DryRun:
    """What `begin` would do. Raises what it would: InputsConflict, TaskAborted, RepeatsEffects, FlowElsewhere, …"""
    found = executor.home.store.read(lambda look: _decided(executor, look, spec, new, options))
    if isinstance(found, DryRun):
        return found
    if isinstance(found, FinishedRow):
        return DryRun(GIVE, new.task, outcome_of(executor.caller, spec, new, found).run_id)
    claims.refuse_sealed(found)
    if found.inputs_digest != new.inputs_digest:
        raise InputsConflict(new.task, found.id)
    return DryRun(CONTINUE, new.task, found.id)


def _decided(
    executor: Executor, look: Reading, spec: FlowSpec, new: NewRun, options: Options
) -> DryRun | RunRow | FinishedRow:
    before = beginning.operation_of(new, options).answered(look)
    row = look.run_by_id(before) if before is not None else None
    if row is not None:
        return DryRun(GIVE, row.task, row.id) if row.status in FINISHED else DryRun(CONTINUE, row.task, row.id)
    found = same_flow.unfinished_run(executor.home, look, new)
    if found is not None and not options.fresh:
        return found
    done = same_flow.finished_runs(executor.home, look, new) if new.named else []
    if found is None and done and not options.again:
        return beginning.given(new, done[0], options)
    left = delivery.find_undelivered(executor.home, look, new, options)
    if left is not None:
        return DryRun(GIVE, new.task, left.id)
    if (lacks := beginning.lacking(executor, spec)) is not None:
        raise lacks
    return DryRun(START, new.task, instead_of=_agreed(look, new, found, done, options))


def _agreed(look: Reading, new: NewRun, found: RunRow | None, done: list[FinishedRow], options: Options) -> str:
    """The run that a new one takes the place of, if the effects of that may happen again. Raises RepeatsEffects."""
    if found is not None:
        agreed(look, "fresh", new.task, [found], options)
        return found.id
    if done:
        agreed(look, "again", new.task, done, options)
        return done[0].id
    return ""
