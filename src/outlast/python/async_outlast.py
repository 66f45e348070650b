"""`AsyncOutlast`: a home on an event loop. What touches the store is awaited.

Flows run on the loop. All else is done by the blocking `Outlast` that it has, in threads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, cast, overload

from outlast import errors
from outlast.errors import Invalid
from outlast.flows.spec import FlowSpec
from outlast.python import rooms
from outlast.python.awaited import AsyncStarted, AwaitedRun, awaited, passed_on, signed_like, to_its_end
from outlast.python.outlast import JsonMap, Outlast, acceptance_of, leave, on_record, remote_surface, taken_because
from outlast.python.shared import FlowCall, Shared, make_run
from outlast.runs.run import Options, Outcome, unseen
from outlast.values.late import late

if TYPE_CHECKING:
    import asyncio

    from outlast.commands.logs import CommandLog
    from outlast.home.caller import Acceptance, Caller
    from outlast.home.place import FoundHome
    from outlast.python.decorators import Flow, FlowFile
    from outlast.python.handoffs import AsyncHandoffs
    from outlast.python.queues import AsyncSchedules, Worker
    from outlast.python.run import AsyncRun
    from outlast.python.sessions import AsyncSessions
    from outlast.python.tasks import AsyncTasks
    from outlast.python.workspace import AsyncWorkspace
    from outlast.runs.claim import RunClaim
    from outlast.runs.events import HomeEvent
    from outlast.runs.live import Executor
    from outlast.runs.receipt import Event
    from outlast.runs.replay.replay import RunReplay
    from outlast.runs.run import CallOptions
    from outlast.runs.waits.interrupt import Interrupt
else:
    asyncio = late("asyncio")  # who imports this beside `Outlast` may have no loop

P = ParamSpec("P")
T = TypeVar("T")


class AsyncOutlast:
    """A home, opened on an event loop: the surface of `Outlast`, with its guarantees; what touches it is awaited."""

    blocking: Outlast  # the same home for threads

    def __new__(cls, home: str | Path | FoundHome | None = None, **_: Any) -> Self:
        kind = remote_surface(home, "AsyncRemoteOutlast") if cls is AsyncOutlast else None
        return cast(Self, object.__new__(kind or cls))

    @signed_like(Shared.__init__)
    def __init__(self, home: str | Path | FoundHome | None = None, **how: Any) -> None:
        self.blocking = Outlast(home, **how)

    @property
    def _executor(self) -> Executor:
        return self.blocking._executor

    @property
    def _caller(self) -> Caller:
        return self.blocking._caller

    @property
    def home(self) -> Path:
        """The folder everything is kept in."""
        return self.blocking.home

    @property
    def handoff(self) -> AsyncHandoffs:
        """Contracts for whoever continues; each call is awaited."""
        return rooms.handoffs.AsyncHandoffs(self.blocking.handoff)

    @property
    def sessions(self) -> AsyncSessions:
        """Conversations; each call is awaited."""
        return rooms.sessions.AsyncSessions(self.blocking.sessions)

    @property
    def workspace(self) -> AsyncWorkspace:
        """Artifacts, records and checkpoints; each call is awaited."""
        return rooms.workspace.AsyncWorkspace(self.blocking.workspace)

    @property
    def schedules(self) -> AsyncSchedules:
        """Flows that workers run at certain times; each call is awaited."""
        return rooms.queues.AsyncSchedules(self.blocking.schedules)

    @property
    def tasks(self) -> AsyncTasks:
        """Tasks of a host; each call is awaited."""
        return rooms.tasks.AsyncTasks(self.blocking.tasks)

    # -- running flows ---------------------------------------------------------------------------

    @overload
    async def run(self, flow: Flow[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[T]: ...
    @overload
    async def run(self, flow: Flow[..., T], *args: Any, task: str | None, **more: Any) -> Outcome[T]: ...
    @overload
    async def run(self, flow: Flow[..., T], *args: Any, fresh: bool, **more: Any) -> Outcome[T]: ...
    @overload
    async def run(self, flow: Flow[..., T], *args: Any, session: str, **more: Any) -> Outcome[T]: ...
    @overload
    async def run(self, flow: Flow[..., T], *args: Any, trace_id: str, **more: Any) -> Outcome[T]: ...
    @overload
    async def run(self, flow: Flow[..., T], *args: Any, meta: JsonMap | None, **more: Any) -> Outcome[T]: ...
    @overload
    async def run(self, flow: FlowFile, *args: Any, **more: Any) -> Outcome[Any]: ...
    async def run(  # type: ignore[misc]  # no input of a flow has the name of one of these
        self,
        flow: Flow[..., Any] | FlowFile,
        *args: Any,
        task: str | None = None,
        fresh: bool = False,
        session: str = "",
        trace_id: str = "",
        meta: JsonMap | None = None,
        **kwargs: Any,
    ) -> Outcome[Any]:
        """Run a flow; a plain one runs in a thread. See Outlast.run."""
        options = self.blocking._asked(task, fresh, session, trace_id, meta, returns=True)
        return await self._run(FlowCall(flow, args, kwargs, options))

    async def _run(self, call: FlowCall) -> Outcome[Any]:
        try:
            spec, begun = await self.blocking._begin_async(call)
        except errors.RunHeld as held:
            spec, begun = call.flow.spec, await self._wait_for(held, call.flow.spec, call.options)
        if isinstance(begun, Outcome) and begun.status == "queued":
            begun = await rooms.outcomes.await_end_async(rooms.outcomes.Awaited(self._caller, begun.run_id, None, spec))
        return await self._received(begun, spec)

    async def _received(
        self, begun: RunClaim | Outcome[Any], spec: FlowSpec | None = None, accept: Acceptance | None = None
    ) -> Outcome[Any]:
        """The outcome of a run that was begun, for the caller who waits here for it."""
        if isinstance(begun, Outcome):
            return unseen(rooms.outcomes.given(self._caller, begun))
        with rooms.outcomes.Receiving(self._caller, begun.run.id):
            caller, accepted = self._caller, accept or rooms.caller.NOTHING_ACCEPTED
            going, given = rooms.start.go_on_async, rooms.outcomes.given
            # no name for the outcome: the trace of its error keeps this frame
            return unseen(given(caller, await going(self._executor, begun, spec, accepted), noted=begun.delivers))

    async def _wait_for(self, held: errors.RunHeld, spec: FlowSpec | None, options: Options) -> RunClaim | Outcome[Any]:
        """What becomes of a run that somebody else runs, if the caller would wait. Raises RunHeld."""
        waited_for = self.blocking._awaited(held, spec, options)
        try:
            return await rooms.outcomes.await_end_async(waited_for)
        except TimeoutError:
            raise held from None

    async def wait(self, run_id: str, *, timeout: float | None = None) -> Outcome[Any]:
        """How a run stands once nobody runs it. See Outlast.wait."""
        waited_for = rooms.outcomes.Awaited(self._caller, run_id, timeout)
        return await self._received(await rooms.outcomes.await_end_async(waited_for))

    @overload
    async def start(self, flow: Flow[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AsyncStarted[T]: ...
    @overload
    async def start(self, flow: Flow[..., T], *args: Any, task: str | None, **more: Any) -> AsyncStarted[T]: ...
    @overload
    async def start(self, flow: Flow[..., T], *args: Any, fresh: bool, **more: Any) -> AsyncStarted[T]: ...
    @overload
    async def start(self, flow: Flow[..., T], *args: Any, session: str, **more: Any) -> AsyncStarted[T]: ...
    @overload
    async def start(self, flow: Flow[..., T], *args: Any, trace_id: str, **more: Any) -> AsyncStarted[T]: ...
    @overload
    async def start(self, flow: Flow[..., T], *args: Any, meta: JsonMap | None, **more: Any) -> AsyncStarted[T]: ...
    @overload
    async def start(self, flow: FlowFile, *args: Any, **more: Any) -> AsyncStarted[Any]: ...
    async def start(  # type: ignore[misc]  # no input of a flow has the name of one of these
        self,
        flow: Flow[..., Any] | FlowFile,
        *args: Any,
        task: str | None = None,
        fresh: bool = False,
        session: str = "",
        trace_id: str = "",
        meta: JsonMap | None = None,
        **kwargs: Any,
    ) -> AsyncStarted[Any]:
        """Like run, in a background task. The run is durable before this returns."""
        options = self.blocking._asked(task, fresh, session, trace_id, meta)
        return await self._start(FlowCall(flow, args, kwargs, options))

    async def _start(self, call: FlowCall) -> AsyncStarted[Any]:
        try:
            spec, begun = await self.blocking._begin_async(call)
        except errors.RunHeld as held:
            if call.options.wait is False:
                raise
            return AsyncStarted(held.run_id, asyncio.ensure_future(self._after(held, call.flow.spec, call.options)))
        if isinstance(begun, Outcome) and begun.status == "queued":
            return AsyncStarted(begun.run_id, AwaitedRun(self._caller, begun.run_id, spec))
        if isinstance(begun, Outcome):
            done: asyncio.Future[Outcome[Any]] = asyncio.get_running_loop().create_future()
            done.set_result(begun)
            return AsyncStarted(begun.run_id, done)
        going = asyncio.ensure_future(rooms.start.go_on_async(self._executor, begun, spec))
        claimed = self._caller.home.held.claimed
        going.add_done_callback(lambda _: claimed.discard(begun.run.id))  # cancelled before it began
        return AsyncStarted(begun.run.id, going)

    async def _after(self, held: errors.RunHeld, spec: FlowSpec, options: Options) -> Outcome[Any]:
        """The outcome of a run that somebody else runs."""
        begun = await self._wait_for(held, spec, options)
        return begun if isinstance(begun, Outcome) else await rooms.start.go_on_async(self._executor, begun, spec)

    async def resume(
        self,
        run_id: str,
        *,
        accept: Iterable[str] = (),
        why: str = "",
        partial: str | None = None,
        flow: Flow[..., Any] | FlowFile | str | None = None,
        take: bool = False,
    ) -> Outcome[Any]:
        """Continue a run by its id. See Outlast.resume."""
        acceptance = acceptance_of(accept, why, partial, self._caller.actor)
        spec = self.blocking._spec_of(flow)
        claimed = rooms.start.claim_run(self._caller, run_id, taken_because(take, why))
        return await self._received(claimed, spec, acceptance)

    async def replay(self, run_id: str) -> RunReplay:
        """Run a run's body on its receipts only. See Outlast.replay."""
        return await rooms.replay.replay_run_async(self._executor, run_id)

    async def _opened(self, name: str, options: Options) -> RunClaim | Outcome[Any]:
        """The run of a script; one that somebody else runs once that has ended, if the caller would wait."""
        try:
            return self.blocking._open(name, options)[1]
        except errors.RunHeld as held:
            begun = await self._wait_for(held, None, options)
        return await self._opened(name, options) if isinstance(begun, Outcome) else begun

    @asynccontextmanager
    async def open(
        self,
        name: str,
        *,
        task: str | None = None,
        fresh: bool = False,
        session: str = "",
        trace_id: str = "",
        meta: JsonMap | None = None,
    ) -> AsyncIterator[AsyncRun]:
        """A run around existing async code. See Outlast.open."""
        rooms.branches.watch_tasks(asyncio.get_running_loop())
        options = self.blocking._asked(task, fresh, session, trace_id, meta)
        begun = await self._opened(name, options)
        if isinstance(begun, Outcome):
            with on_record(self._executor, begun, options, is_async=True) as run:
                yield run
            return
        execution, _ = rooms.body.prepare(self._executor, begun, rooms.caller.NOTHING_ACCEPTED)
        execution.branches = rooms.branches.Branches(execution.turns(), can_park=False)
        with rooms.body.body(self._executor, execution) as ended:
            yield make_run(execution, True)
        if ended.outcome is not None and ended.outcome.status == "waiting":
            leave(ended.outcome)

    # -- people's choices, looking, care of the home ---------------------------------------------

    @signed_like(awaited(Shared.answer))
    async def answer(self, interrupt_id: str, answer: Any, **how: Any) -> Interrupt:
        """Answer a wait, durable on return. With `resume` only at a server: here, resume the run then."""
        if how.get("resume") and not self._answers_go_on:
            raise Invalid(detail="answer it without resume, then `await outlast.resume(run_id)`")
        return await to_its_end(lambda: self.blocking.answer(interrupt_id, answer, **how))

    _answers_go_on = False  # whether an answer can go on with its run before it returns

    retry = awaited(Shared.retry)
    skip = awaited(Shared.skip)
    rewind = awaited(Shared.rewind)
    fork = awaited(Shared.fork)
    abort = awaited(Shared.abort)
    pause = awaited(Shared.pause)
    cancel = awaited(Shared.cancel)
    signal = awaited(Shared.signal)

    get = awaited(Shared.get)
    runs = awaited(Shared.runs)
    receipts = awaited(Shared.receipts)
    events = awaited(Shared.events)
    timeline = awaited(Shared.timeline)
    outputs = awaited(Shared.outputs)
    restore_outputs = awaited(Shared.restore_outputs)
    displaced = awaited(Shared.displaced)
    logs = awaited(Shared.logs)
    mirror = awaited(Shared.mirror)
    interrupts = awaited(Shared.interrupts)
    interrupt = awaited(Shared.interrupt)
    inbox = awaited(Shared.inbox)
    due = awaited(Shared.due)
    queues = awaited(Shared.queues)
    pause_queue = awaited(Shared.pause_queue)
    limits = awaited(Shared.limits)
    workers = awaited(Shared.workers)
    set_limit = awaited(Shared.set_limit)
    remove_limit = awaited(Shared.remove_limit)
    resume_queue = awaited(Shared.resume_queue)
    plan = awaited(Shared.plan)

    check_writable = awaited(Shared.check_writable)
    facts = awaited(Shared.facts)
    export = awaited(Shared.export)
    import_ = awaited(Shared.import_)
    backup = awaited(Shared.backup)
    audit = awaited(Shared.audit)
    verify = awaited(Shared.verify)
    gc = awaited(Shared.gc)
    all_events = awaited(Shared.all_events)
    acts = awaited(Shared.acts)

    def follow_events(self, run_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """The events of a run as they come: `async for event in outlast.follow_events(run)`."""
        return rooms.events.follow_async(rooms.events.Following(self._caller, run_id, after))

    def follow_all_events(
        self,
        *,
        after: int | None = None,
        scope: str | None = None,
        flow: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        name: str | None = None,
        inbox: bool = False,
    ) -> AsyncIterator[HomeEvent]:
        """The events of all runs as they come, without an end: from now on, or after a number. As `all_events`."""
        asked = rooms.events.event_query(inbox, scope=scope, flow=flow, task=task, tag=tag, name=name)
        return rooms.events.follow_async(rooms.events.HomeFollowing(self._caller.home, asked, after))

    async def follow_logs(
        self, run_id: str, step: str | None = None, *, attempt: int | None = None
    ) -> AsyncIterator[tuple[CommandLog, bytes]]:
        """What the commands of a run print, piece by piece as it comes. See Outlast.follow_logs."""
        pieces = self.blocking.follow_logs(run_id, step, attempt=attempt)
        while (piece := await to_its_end(lambda: next(pieces, None))) is not None:
            yield piece

    # -- this process ----------------------------------------------------------------------------

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """The same home, whose `run`, `start` and `open` have these options besides. See Outlast.with_options."""
        view = object.__new__(type(self))
        view.blocking = self.blocking.with_options(**options)
        return view

    resource = passed_on(Shared.resource)
    listen = passed_on(Shared.listen)
    signals = passed_on(Shared.signals)
    stop = passed_on(Shared.stop)
    probing = passed_on(Shared.probing)

    def worker(
        self,
        *flows: Flow[..., Any] | FlowFile,
        queues: Iterable[str] = (),
        concurrency: int | None = None,
        drain: float | str | None = None,
    ) -> Worker:
        """See Outlast.worker; for `async with`. Async flows run on this loop, plain ones in threads."""
        loop = asyncio.get_running_loop()
        return rooms.queues.make_worker(self.blocking, flows, concurrency, drain, queues=tuple(queues), loop=loop)

    async def close(self) -> None:
        """Let go of the files. Runs of this process are asked to stop, and given time to do so."""
        live = self._executor.live
        await rooms.call_async.in_thread(live.settle)
        await live.resources.close_loop()
        live.resources.close()  # where they were opened: some objects may be closed by that thread only
        await rooms.call_async.in_thread(self._executor.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
