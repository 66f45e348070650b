"""Child runs: spawned once, found again on replay, finished before their parent is."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdfast.domain.call import Call
from holdfast.domain.codec import encode
from holdfast.domain.digest import identity
from holdfast.domain.journal import decode_payload, genesis
from holdfast.domain.run import Outcome
from holdfast.errors import HoldfastError, Paused, Refused
from holdfast.runtime import claims
from holdfast.runtime.claims import Claim
from holdfast.runtime.context import CURRENT, Frame
from holdfast.runtime.specs import FlowSpec

if TYPE_CHECKING:
    from holdfast.runtime import Runtime
    from holdfast.runtime.execution import Execution

T = TypeVar("T")


class Child(Generic[T]):
    """A child run under way. `result()` waits for it; in an async flow, await the child."""

    def __init__(self, execution: Execution, run_id: str, call: Call) -> None:
        self.run_id = run_id
        self._execution, self._call = execution, call
        self._outcome: Outcome[Any] | None = None
        self._error: BaseException | None = None
        self._done = threading.Event()

    def work(self, runtime: Runtime, claimed: Claim | None) -> None:
        """Run the child to its end, in a thread of its own."""
        CURRENT.set(None)
        try:
            if claimed is not None:
                self._outcome = runtime.go_on(claimed)
            else:
                self._outcome = runtime.continue_child(self.run_id)
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    def result(self) -> T:
        """The child's result. Raises what failed it; ends the body when the child waits."""
        self._done.wait()
        return self._taken()

    def __await__(self) -> Any:
        return self._joined().__await__()

    async def _joined(self) -> T:
        from holdfast.runtime.async_calls import in_thread

        branches = self._execution.branches
        with branches.call() if branches is not None else nullcontext():
            await in_thread(self._done.wait)
            if self._waits() and branches is not None:
                self._open_wait()
                await branches.park()
        return self._taken()

    def stop(self) -> None:
        """Ask the child to stop at its next step."""
        live = self._execution.runtime.live.get(self.run_id)
        if live is not None:
            live.stopping = True

    def wait(self) -> None:
        """Until the child has ended or waits."""
        self._done.wait()

    def settle(self) -> None:
        """At the end of the parent: a child that nobody asked about must have ended well too."""
        self.result()

    async def settle_async(self) -> None:
        from holdfast.runtime.async_calls import in_thread

        await in_thread(self._done.wait)
        self._taken()

    def _waits(self) -> bool:
        return self._outcome is not None and self._outcome.status in ("waiting", "interrupted")

    def _open_wait(self) -> None:
        if self._call not in self._execution.waits:
            self._execution.open_wait(self._call, "child", {"child": self.run_id})

    def _taken(self) -> T:
        if self._error is not None:
            if not isinstance(self._error, HoldfastError):
                raise Refused(detail=f"child run {self.run_id} ended by {self._error!r}") from self._error
            raise self._error
        outcome = self._outcome
        assert outcome is not None
        if self._waits():
            self._open_wait()
            self._execution.paused = True
            raise Paused
        return cast(T, outcome.unwrap())


def let_end(execution: Execution, error: BaseException | None) -> None:
    """Wait for the children that still run: a parent that is over leaves nobody behind who holds a run.

    A parent that was told to stop tells them.
    """
    if execution.pen.severed is not None:
        return
    if execution.stopping or not isinstance(error, Exception | Paused | None):
        for child in execution.children:
            child.stop()
    for child in execution.children:
        child.wait()


def spawn(frame: Frame, spec: FlowSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Child[Any]:
    """Start a child run, or find the one that this call started before."""
    execution = frame.execution
    if frame.attempt is not None:
        raise Refused(detail="a child run cannot be spawned inside a step; spawn it from the flow's body")
    execution.gate()
    runtime = execution.runtime
    inputs = spec.bind(args, kwargs)
    raw = runtime.pack_inputs(spec, inputs)
    call = execution.numbered(frame, "run.spawn", identity(encode([spec.source]) + raw))
    past = execution.ledger.calls.get(call)
    claimed: Claim | None = None
    if past is not None and past.payload:
        past.asked = True
        child: Child[Any] = Child(execution, str(decode_payload(past.payload).facts["child"]), call)
    else:
        claimed = _create(execution, spec, raw, call)
        child = Child(execution, claimed.run.id, call)
    execution.children.append(child)
    threading.Thread(target=child.work, args=(runtime, claimed), name=f"holdfast-{child.run_id}", daemon=True).start()
    return child


def _create(execution: Execution, spec: FlowSpec, raw: bytes, call: Call) -> Claim:
    """The child and the parent's knowledge of it, in one transaction: never one without the other."""
    runtime = execution.runtime
    task = f"{execution.id}/{spec.name}-{identity(encode(call))[:12]}"
    new = runtime.new_run(spec, raw, task=task, parent=execution.id, trace_id=execution.trace_id)
    start = genesis(new.id, new.flow, new.task, new.inputs_digest)
    facts = {"flow": new.flow, "task": new.task, "parent": execution.id}
    pen = execution.pen
    with pen.lock:
        known = pen.fact("spawn", "run.spawn", {"child": new.id}, call)
        queued = pen.queue_work(lambda tx: claims.add(runtime, tx, new, start, facts), known)
    claimed: Claim = pen.write(queued)
    return claimed
