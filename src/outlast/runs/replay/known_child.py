"""A child run as its parent's journal knows it, for a body on its receipts alone."""

from __future__ import annotations

from typing import Any

from outlast.errors import Paused
from outlast.flows.spec import FlowSpec
from outlast.ledger.journal import decode_payload
from outlast.runs.call import Call, Past
from outlast.runs.child import Child
from outlast.runs.execution import Execution
from outlast.runs.replay.execution import Replaying


class KnownChild(Child[Any]):
    """A child run as its parent's journal knows it. It is never run."""

    def take(self, *, park: bool) -> Any:
        self._execution.gate()
        if self._kept is None:
            self._open_wait()
            self._execution.paused = self._execution.paused or park
            raise Paused
        return self._deliver()

    async def _join(self) -> None:
        self._open_wait()
        if self._execution.branches is not None:
            await self._execution.branches.park()
        self._execution.paused = True
        raise Paused


def known_child(execution: Execution, spec: FlowSpec, call: Call, past: Past | None) -> Child[Any]:
    """The child that this call spawned. A call that spawned none ends the body."""
    assert isinstance(execution, Replaying)
    if past is None or not past.payload:
        execution.end_at(call, "spawn")
    past.asked = True
    run_id = str(decode_payload(past.payload).facts["child"])
    return KnownChild(execution, spec, run_id, call, past)
