"""Handoffs that a run stores about its own task: once, however often its body is replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.domain.call import Call
from holdfast.domain.codec import encode
from holdfast.domain.digest import identity
from holdfast.domain.handoff import Handoff
from holdfast.errors import HandoffInvalid
from holdfast.runtime.context import Frame
from holdfast.runtime.execution import Execution
from holdfast.runtime.handoffs import Asked, get
from holdfast.runtime.storing import TASK, Storing, store

_OPTIONS = ("strict", "baseline", "redact", "bind", "expected_revision")


def store_from_run(
    execution: Execution, frame: Frame, summary: str, text: str, anchor: str | None, fields: Mapping[str, Any]
) -> Handoff:
    """The handoff that this call stored. Killed between storing and remembering it, the call finds it by its own id."""
    runtime = execution.runtime
    run = runtime.row(execution.id)
    given = {"anchor": anchor or TASK + run.task, "summary": summary, "handoff_text": text, **fields}
    options = {name: given.pop(name) for name in _OPTIONS if name in given}
    for name in ("scope", "actor", "tenant_id", "operation_id", "claim_id"):
        if name in given:
            raise HandoffInvalid(name, "a run stores as itself", "leave it out, or use hold.handoff.store")

    def make(call: Call | None) -> str:
        operation = f"run:{run.id}:{identity(encode(call))}" if call is not None else None
        how = Storing(scope=run.scope, actor=run.actor, operation_id=operation, **options)
        return store(runtime, given, how).id

    stored = execution.value_of_call(frame, "run.handoff", make)
    return get(runtime, Asked(run.scope, handoff_id=stored))
