"""Values as every door shows them in JSON, where that is more than their fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from outlast.handoffs.reading import handoff_in_order, in_order
from outlast.ledger.verdict import Verdict
from outlast.runs.displaced import Displaced
from outlast.runs.plan import Plan
from outlast.runs.run import Outcome
from outlast.runs.waits.interrupt import Interrupt
from outlast.tasks.task import TaskContext, TaskPaused, TaskResumed
from outlast.values.codec import jsonable


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


def plan_json(plan: Plan, waits: Iterable[Interrupt]) -> dict[str, Any]:
    return {
        **jsonable(plan),
        "verdict": verdict_json(plan.verdict),
        "interrupts": [wait_json(wait) for wait in waits],
    }


# -- tasks: handoffs in reading order ----------------------------------------------------------------


def context_json(found: TaskContext) -> dict[str, Any]:
    handoff = in_order(found.handoff) if found.handoff else None
    return {**jsonable(replace(found, handoff=None)), "handoff": handoff}


def paused_json(paused: TaskPaused) -> dict[str, Any]:
    kept = {"task": paused.task, "handoff": handoff_in_order(paused.handoff), "replayed": paused.replayed}
    return kept | {"stopping": jsonable(paused.stopping), "notes": jsonable(paused.notes)}


def resumed_json(got: TaskResumed) -> dict[str, Any]:
    kept = {"task": got.task, "claim": jsonable(got.claim), "command": got.command, "replayed": got.replayed}
    return kept | {"recovered": in_order(got.recovered)}
