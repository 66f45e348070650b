"""Handoffs that a run stores about its own task: once, however often its body is replayed, and while it is its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from outlast.errors import HandoffInvalid, LeaseLost, Severed
from outlast.handoffs.find import HandoffQuery, get
from outlast.handoffs.handoff import Handoff
from outlast.handoffs.store import Storing, store
from outlast.home.find import run_row
from outlast.runs.attempt import Attempt, Frame
from outlast.runs.call import Call
from outlast.runs.claim import refuse_lost
from outlast.runs.execution import Execution
from outlast.tasks.task import anchor_of
from outlast.values.codec import encode
from outlast.values.digest import identity

_OPTIONS = ("strict", "baseline", "redact", "bind", "expected_revision")


def store_from_run(
    execution: Execution, frame: Frame, summary: str, text: str, anchor: str | None, fields: Mapping[str, Any]
) -> Handoff:
    """The handoff that this call stored. Killed between storing and remembering it, the call finds it by its own id.

    When another worker has taken the run over nothing is stored, and the body ends.
    """
    executor = execution.executor
    run = run_row(executor.home, execution.id)
    given = {"anchor": anchor or anchor_of(run.task), "summary": summary, "handoff_text": text, **fields}
    options = {name: given.pop(name) for name in _OPTIONS if name in given}
    for name in ("scope", "actor", "tenant_id", "operation_id", "claim_id"):
        if name in given:
            raise HandoffInvalid(name, "a run stores as itself", "leave it out, or use outlast.handoff.store")

    def make(call: Call | None) -> str:
        place = identity(encode(call)) if call is not None else _in_step(execution, frame)
        operation, guard = f"run:{run.id}:{place}", partial(refuse_lost, hold=execution.hold)
        how = Storing(scope=run.scope, actor=run.actor, operation_id=operation, guard=guard, **options)
        try:
            return store(executor, given, how).id
        except LeaseLost as lost:
            execution.pen.sever(lost)

    stored = execution.value_of_call(frame, "run.handoff", make)
    return get(executor.home, HandoffQuery(run.scope, handoff_id=stored))


def _in_step(execution: Execution, frame: Frame) -> str:
    """Which call of which attempt it is. Raises Severed when the run is not this worker's any more."""
    if execution.pen.severed is not None:
        raise Severed from execution.pen.severed
    attempt: Attempt | None = frame.attempt
    assert attempt is not None
    attempt.handoffs += 1
    return f"{identity(encode(attempt.asked.call))}:{execution.hold.epoch}:{attempt.number}:{attempt.handoffs}"
