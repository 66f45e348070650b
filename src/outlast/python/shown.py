"""Values as every door shows them in JSON, where that is more than their fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outlast.errors import OutlastError
from outlast.handoffs.reading import handoff_in_order, in_order, ready, ready_text
from outlast.ledger.verdict import Verdict
from outlast.runs.displaced import Displaced
from outlast.runs.plan import Plan
from outlast.runs.run import Outcome, RunRecord
from outlast.runs.waits.interrupt import Interrupt
from outlast.tasks.task import TaskContext, TaskPaused, TaskResumed
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.python.shared import Shared


def outcome_json(outcome: Outcome[Any]) -> dict[str, Any]:
    return {
        "run_id": outcome.run_id or None,
        "status": outcome.status,
        "result": jsonable(outcome.result),
        "interrupts": [wait_json(wait) for wait in outcome.interrupts],
        "error": outcome.error,
        "verdict": verdict_json(outcome.verdict),
        "replayed_steps": outcome.replayed_steps,
        "unasked": list(outcome.unasked),
        "replayed": outcome.replayed,
        "notes": list(outcome.notes),
        "redelivered": outcome.redelivered,
        "holder": outcome.holder,
        "stopped_by": outcome.stopped_by,
    }


def wait_json(wait: Interrupt) -> dict[str, Any]:
    return {**jsonable(wait), "says": wait.says, "choices": list(wait.choices), "digest": wait.digest}


def verdict_json(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {"word": verdict.word, "reasons": [reason.to_dict() for reason in verdict.reasons]}


def displaced_json(one: Displaced) -> dict[str, Any]:
    """A file that gave way; its content is asked for by itself."""
    return {name: jsonable(getattr(one, name)) for name in ("run_id", "seq", "step", "path", "digest", "at")}


def failed_below(outlast: Shared, run: RunRecord) -> list[dict[str, Any]]:
    """The runs that a failed one began and that failed: what went wrong is there. With the step that failed in each."""
    if run.status != "failed":
        return []
    with suppress(OutlastError):  # what cannot be read is said elsewhere
        began = dict.fromkeys(event.child for event in outlast.events(run.id) if event.child)
        failed = [child for child in map(outlast.get, began) if child.status == "failed"]
        return [_failed(outlast, child) for child in failed]
    return []


def _failed(outlast: Shared, child: RunRecord) -> dict[str, Any]:
    bad = [each.label for each in outlast.receipts(child.id) if each.status in ("failed", "timed_out")]
    return {"run_id": child.id, "flow": child.flow, "step": bad[-1] if bad else "", "error": child.error}


def plan_json(plan: Plan, waits: Iterable[Interrupt]) -> dict[str, Any]:
    return {
        **jsonable(plan),
        "verdict": verdict_json(plan.verdict),
        "interrupts": [wait_json(wait) for wait in waits],
    }


# -- tasks: handoffs in reading order ----------------------------------------------------------------


def context_json(found: TaskContext, options: Sequence[str] = ()) -> dict[str, Any]:
    """`options`: what commands in it are given, such as where the home is; without any they stay as they are."""
    told = ready(found.handoff, options) if found.handoff and options else found.handoff
    handoff = in_order(told) if told else None
    return {**jsonable(replace(found, handoff=None)), "handoff": handoff}


def paused_json(paused: TaskPaused) -> dict[str, Any]:
    kept = {"task": paused.task, "handoff": handoff_in_order(paused.handoff), "replayed": paused.replayed}
    return kept | {"stopping": jsonable(paused.stopping), "notes": jsonable(paused.notes)}


def resumed_json(got: TaskResumed, options: Sequence[str] = ()) -> dict[str, Any]:
    """`options`: what commands in it are given, such as where the home is; without any they stay as they are."""
    recovered, command = got.recovered, got.command
    if options:
        recovered, command = ready(recovered, options), ready_text(recovered, command, options)
    kept = {"task": got.task, "claim": jsonable(got.claim), "command": command, "replayed": got.replayed}
    return kept | {"recovered": in_order(recovered)}
