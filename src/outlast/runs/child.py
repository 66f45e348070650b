"""Child runs: spawned once, found again on replay, finished before their parent is.

A child's outcome is an outcome for its parent like a step's: before the parent's body is given it, it is in the
parent's journal, and on replay it is given from there. Only what was not given, or what ended the parent's run, lets
the child run on.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from outlast.errors import NoThread, OutlastError, Paused, Refused, ResourceMissing, RunFailed, Stopped, ValueRefused
from outlast.flows.spec import FlowSpec
from outlast.ledger.journal import Payload, decode_payload, entry, genesis
from outlast.runs import claim as claims
from outlast.runs import failure
from outlast.runs.attempt import CURRENT, Frame
from outlast.runs.begin import lacking, new_run
from outlast.runs.call import Call, Past, header_of
from outlast.runs.claim import RunClaim
from outlast.runs.journal_writer import Entries
from outlast.runs.run import Options, Outcome
from outlast.values.ambient import begin
from outlast.values.codec import encode, identity
from outlast.values.late import asyncio, late

if TYPE_CHECKING:
    from outlast.runs import branches, call_async, start
    from outlast.runs.execution import Execution
    from outlast.runs.live import Executor
    from outlast.runs.replay import execution as replays
else:
    branches = late("outlast.runs.branches")
    call_async = late("outlast.runs.call_async")
    start = late("outlast.runs.start")
    replays = late("outlast.runs.replay.execution")

T = TypeVar("T")


class Child(Generic[T]):
    """A child run under way. `result()` waits for it; in an async flow, await the child."""

    def __init__(self, execution: Execution, spec: FlowSpec, run_id: str, call: Call, past: Past | None = None) -> None:
        self.run_id = run_id
        self._execution, self._spec, self._call = execution, spec, call
        self._outcome: Outcome[Any] | None = None
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._kept: Payload | None = None  # the outcome that the body is given: in the journal
        self._given: tuple[Any, BaseException | None] | None = None
        self._cancelled = 0  # how often the flow gave up waiting for it
        if past is not None and past.payload:
            kept = decode_payload(past.payload)
            self._cancelled = int(kept.facts.get("cancelled", 0))
            if past.decided:  # what became of it ended the run: it is tried again
                self._cancelled -= past.last.status == "cancelled"
            elif past.given:
                self._kept = kept
                self._done.set()
        self._to_cancel = self._cancelled  # of those, the ones that this run of the body has not come to

    @property
    def delivered(self) -> bool:
        """Whether the body has been given its outcome, now or before: it is final."""
        return self._kept is not None

    def work(self, executor: Executor, claimed: RunClaim | None) -> None:
        """Run the child to its end, in a thread of its own."""
        CURRENT.set(None)
        try:
            if claimed is not None:
                self._outcome = start.go_on(executor, claimed, self._spec)
            else:
                self._outcome = start.continue_child(executor, self.run_id, self._spec)
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    # -- asking for its outcome ------------------------------------------------------------------

    def result(self) -> T:
        """The child's result. Raises what failed it; ends the body when the child waits."""
        return self.take(park=True)

    def take(self, *, park: bool) -> T:
        """The same. Without `park`, a child that waits ends the branch that asks, and the others go on."""
        self._execution.gate()
        self._done.wait()
        with self._lock:
            if self._kept is None:
                self._end_if_it_waits(park=park)
                kept = self._packed()
                self._execution.writer.write(self._queue(kept))
                self._kept = kept
        return self._deliver()

    def __await__(self) -> Generator[Any, None, T]:
        return self._joined().__await__()

    async def _joined(self) -> T:
        self._execution.gate()
        branches = self._execution.branches
        with branches.call() if branches is not None else nullcontext():
            if self._to_cancel:
                await self._hang()
            if self._kept is None:
                try:
                    await self._join()
                except asyncio.CancelledError:
                    if not self._execution.ending:  # an outcome of this waiting, not of the child
                        self._execution.endings.cancelled(self._call)
                        self._cancelled += 1
                        self._execution.writer.write(self._queue(Payload(), "cancelled"))
                    raise
        return self._deliver()

    async def _join(self) -> None:
        execution = self._execution
        await call_async.in_thread(self._done.wait)
        if self._waits() and not execution.stopping and execution.branches is not None:
            self._open_wait()
            await execution.branches.park()
        self._end_if_it_waits()
        kept = self._packed()
        queued = self._queue(kept)
        later = execution.writer.write_soon(queued)
        if later is not None:
            try:
                await later
            except OutlastError as error:
                execution.writer.sever(error)
            execution.writer.is_safe(queued)
        self._kept = kept

    async def _hang(self) -> None:
        """The flow gave up waiting here before, and will again."""
        self._to_cancel -= 1
        try:
            await branches.Branches.hang()
        finally:
            self._execution.endings.cancelled(self._call)

    def _deliver(self) -> T:
        if self._given is None:
            assert self._kept is not None
            self._given = self._unpacked(self._kept)
        value, error = self._given
        endings = self._execution.endings
        endings.settled()
        if error is not None:
            raise endings.failed(error, self._call)
        return cast(T, value)

    # -- its outcome in the parent's journal -----------------------------------------------------

    def _packed(self) -> Payload:
        """How the child ended, as the parent's journal keeps it."""
        error = self._failure()
        if error is not None:
            self._given = (None, error)
            return Payload(error=failure.record(error))
        assert self._outcome is not None
        home = self._execution.executor.home
        raw = encode(self._outcome.result)
        if len(raw) > home.settings.inline_bytes:
            return Payload(blob=home.blobs.put(raw))
        return Payload() if raw == b"null" else Payload(result=msgspec.Raw(raw))

    def _unpacked(self, kept: Payload) -> tuple[Any, BaseException | None]:
        """The outcome as the body is given it: the same live and on replay."""
        if kept.error is not None:
            return None, failure.rebuild(kept.error, self._spec.name)
        raw = self._execution.executor.home.blobs.get(kept.blob) if kept.blob else kept.result
        if raw is msgspec.UNSET:
            return None, None
        try:
            return self._spec.decode(raw), None
        except msgspec.ValidationError as error:
            remedy = "annotate what it returned then"
            raise ValueRefused(f"the recorded result of {self._spec.name}", str(error), remedy) from error

    def _queue(self, kept: Payload, status: str = "") -> Entries:
        """An entry about this child, queued: what the body is given of it."""
        status = status or ("failed" if kept.error is not None else "succeeded")
        facts: dict[str, Any] = {"child": self.run_id, "status": status}
        if self._cancelled:
            facts["cancelled"] = self._cancelled
        writer, call = self._execution.writer, self._call
        now = self._execution.clock.now()
        header = header_of("spawn", call, status=status, delivered=True, started_at=now, ended_at=now)
        header = msgspec.structs.replace(header, epoch=writer.hold.epoch, trace_id=writer.trace_id)
        with writer.lock:
            return writer.queue(entry(header, msgspec.structs.replace(kept, facts=facts)))

    def _failure(self) -> Exception | None:
        """What failed the child: itself if replay can rebuild it, else RunFailed."""
        error: Exception
        if isinstance(self._error, OutlastError):
            error = self._error
        elif self._error is not None:
            error = Refused(detail=f"child run {self.run_id} ended by {self._error!r}")
            error.__cause__ = self._error
        else:
            assert self._outcome is not None
            try:
                self._outcome.unwrap()
                return None
            except Exception as raised:
                error = raised
        kept = failure.record(error)
        if type(failure.rebuild(kept, self._spec.name)) is type(error):
            return error
        wrapped = RunFailed(self.run_id, kept["type"], kept["message"])
        wrapped.__cause__ = error
        return wrapped

    # -- children that wait, stop, or were forgotten ---------------------------------------------

    def stop(self) -> None:
        """Ask the child to stop at its next step."""
        live = self._execution.executor.live.executions.get(self.run_id)
        if live is not None:
            live.ask_to_stop(self._execution.stopped_by)

    def wait(self) -> None:
        """Until the child has ended or waits."""
        self._done.wait()

    def settle(self) -> None:
        """At the end of the parent: a child that nobody asked about must have ended well too."""
        self._done.wait()
        self._judge()

    async def settle_async(self) -> None:
        await call_async.in_thread(self._done.wait)
        self._judge()

    def _judge(self) -> None:
        if self._kept is not None:
            return
        self._end_if_it_waits()
        error = self._failure()
        if error is not None:
            raise self._execution.endings.failed(error, self._call)

    def _waits(self) -> bool:
        return self._outcome is not None and self._outcome.status in ("waiting", "interrupted")

    def _open_wait(self) -> None:
        if self._call not in self._execution.waits:
            self._execution.open_wait(self._call, "child", {"child": self.run_id})

    def _end_if_it_waits(self, *, park: bool = True) -> None:
        if not self._waits():
            return
        if self._execution.stopping:
            self._execution.cut_short = True
            raise Stopped
        self._open_wait()
        self._execution.paused = self._execution.paused or park
        raise Paused


def let_end(execution: Execution, error: BaseException | None) -> None:
    """Wait for the children that still run: a parent that is over leaves nobody behind who holds a run.

    A parent that was told to stop tells them.
    """
    if execution.writer.severed is not None:
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
    home = execution.executor.home
    inputs = spec.bind(args, kwargs)
    raw = start.pack_inputs(spec, inputs)
    call = execution.numbered(frame, "run.spawn", identity(encode([spec.identity]) + raw))
    past = execution.ledger.calls.get(call)
    if execution.on_receipts_only:
        return known_child(execution, spec, call, past)
    claimed: RunClaim | None = None
    run_id = _known(execution, spec, call, past)
    if past is not None:
        execution.come_to_child(past)
    else:
        execution.come_to_new()
    if run_id is not None:
        child: Child[Any] = Child(execution, spec, run_id, call, past)
    else:
        claimed = _create(execution, spec, raw, call)
        child = Child(execution, spec, claimed.run.id, call)
    execution.children.append(child)
    if not child.delivered:
        name = f"outlast-{child.run_id}"
        thread = threading.Thread(target=child.work, args=(execution.executor, claimed), name=name, daemon=True)
        try:
            begin(thread, "a child run")
        except NoThread:
            execution.children.remove(child)  # nobody waits for it
            if claimed is not None:  # it goes on when its parent does
                claims.release(home, claimed, "interrupted")
            raise
    return child


def _known(execution: Execution, spec: FlowSpec, call: Call, past: Past | None) -> str | None:
    """The child that this call began before; where the entry about it is damaged or may be gone, by its task."""
    if past is not None:
        past.asked = True
    if past is not None and past.payload:
        return str(decode_payload(past.payload).facts["child"])
    if past is None and not execution.ledger.lost:
        return None
    task = _task(execution, spec, call)
    children = execution.store.read(lambda look: look.children_of(execution.id))
    return next((child.id for child in children if child.task == task), None)


def _task(execution: Execution, spec: FlowSpec, call: Call) -> str:
    return f"{execution.id}/{spec.name}-{identity(encode(call))[:12]}"


def _create(execution: Execution, spec: FlowSpec, raw: bytes, call: Call) -> RunClaim:
    """The child and the parent's knowledge of it, in one transaction: never one without the other.

    Raises ResourceMissing for one that could not get through.
    """
    executor = execution.executor
    if (lacks := lacking(executor, spec)) is not None:
        facts = lacks.facts
        raise ResourceMissing(facts["key"], facts["needed_by"], f"{facts['step']} of child flow {spec.name}")
    task = _task(execution, spec, call)
    new = new_run(executor.caller, spec, raw, Options(trace_id=execution.trace_id), task=task, parent=execution.id)
    start = genesis(new.id, new.flow, new.task, new.inputs_digest)
    facts = {"flow": new.flow, "task": new.task, "parent": execution.id} | ({"code": spec.code} if spec.code else {})
    writer = execution.writer
    about = {"child": new.id, "flow": new.flow, "task": new.task}
    known = writer.fact("spawn", "run.spawn", about, call)
    claimed: RunClaim = writer.commit_work(lambda tx: claims.add(executor.home, tx, new, start, facts), known)
    return claimed


# -- on receipts alone -------------------------------------------------------------------------------


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
    assert isinstance(execution, replays.Replaying)
    if past is None or not past.payload:
        execution.end_at(call, "spawn")
    past.asked = True
    run_id = str(decode_payload(past.payload).facts["child"])
    return KnownChild(execution, spec, run_id, call, past)
