"""`Outlast` and `AsyncOutlast`: a home, opened. The same surface, blocking and awaited."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast

from outlast.errors import NameInvalid, RunHeld, RunWaiting
from outlast.flows.spec import FlowSpec
from outlast.home.acceptance import NOTHING_ACCEPTED, Acceptance, supposed
from outlast.home.home import refuse_loop
from outlast.home.place import FoundHome
from outlast.python.awaited import AsyncStarted, Started, go_on
from outlast.python.shared import Shared, make_run, url_of
from outlast.runs.options import Options as Options
from outlast.runs.run import Outcome, unseen
from outlast.values.ambient import begin

if TYPE_CHECKING:  # `Run` and what executes it are loaded by who runs something: to look at runs takes neither
    from outlast.python.decorators import Flow, FlowFile
    from outlast.python.handoffs import AsyncHandoffs, Handoffs
    from outlast.python.run import AsyncRun, Run
    from outlast.python.sessions import AsyncSessions, Sessions
    from outlast.python.tasks import AsyncTasks, Tasks
    from outlast.python.workspace import AsyncWorkspace, Workspace
    from outlast.runs.claim import RunClaim
    from outlast.runs.live import Executor
    from outlast.runs.receipt import Event
    from outlast.runs.replay.model import RunReplay

T = TypeVar("T")
JsonMap = Mapping[str, Any]


class Outlast(Shared):
    """A home, opened: runs flows and knows every run, blocking. Behind a URL it is a server's (`remote/outlast.py`)."""

    def __new__(cls, home: str | Path | FoundHome | None = None, **_: Any) -> Self:
        if cls is Outlast and url_of(home):
            from outlast.remote.outlast import RemoteOutlast

            return cast(Self, object.__new__(RemoteOutlast))
        return object.__new__(cls)

    @property
    def handoff(self) -> Handoffs:
        """Contracts for whoever continues: store, recover with a verdict, claim, settle."""
        from outlast.python.handoffs import Handoffs

        return Handoffs(self._executor)

    @property
    def sessions(self) -> Sessions:
        """Conversations: append, read, fit into a window, sum up in a memo."""
        from outlast.python.sessions import Sessions

        return Sessions(self._executor.caller)

    @property
    def workspace(self) -> Workspace:
        """Content that outlives a run: artifacts by ref, and checkpoints of tasks."""
        from outlast.python.workspace import Workspace

        return Workspace(self._executor.caller)

    @property
    def tasks(self) -> Tasks:
        """Tasks of a host: open one, and pause, resume and complete it."""
        from outlast.python.tasks import Tasks

        return Tasks(self._executor)

    def run(
        self,
        flow: Flow[..., T] | FlowFile,
        *args: Any,
        task: str | None = None,
        fresh: bool = False,
        session: str = "",
        trace_id: str = "",
        meta: JsonMap | None = None,
        **kwargs: Any,
    ) -> Outcome[T]:
        """Run a flow; the same call after a crash continues the same run.

        Raises RunHeld when someone else is running it, InputsConflict when the task's unfinished run has other
        inputs, Contested when its records cannot be trusted.
        """
        return self._run(self._asked(task, fresh, session, trace_id, meta, returns=True), flow, args, kwargs)

    def _run(
        self, options: Options, flow: Flow[..., T] | FlowFile, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Outcome[T]:
        if flow.spec.is_async:
            refuse_loop(f"outlast.run({flow.spec.name})")
        try:
            spec, begun = self._begin(flow, args, kwargs, options)
        except RunHeld as held:
            spec, begun = flow.spec, self._wait_for(held, flow.spec, options)
        return self._received(begun, spec)

    def _received(
        self, begun: RunClaim | Outcome[Any], spec: FlowSpec | None = None, accept: Acceptance = NOTHING_ACCEPTED
    ) -> Outcome[Any]:
        """The outcome of a run that was begun, for the caller who waits here for it."""
        from outlast.runs.delivery import given, receiving
        from outlast.runs.start import go_on_here

        if isinstance(begun, Outcome):
            return unseen(given(self._executor.caller, begun))
        with receiving(self._executor.caller, begun.run.id):
            return unseen(given(self._executor.caller, go_on_here(self._executor, begun, spec, accept)))

    def _wait_for(self, held: RunHeld, spec: FlowSpec | None, options: Options) -> RunClaim | Outcome[Any]:
        """What becomes of a run that somebody else runs, if the caller would wait. Raises RunHeld."""
        from outlast.runs.await_end import await_end

        awaited = self._awaited(held, spec, options)
        try:
            return await_end(awaited)
        except TimeoutError:
            raise held from None

    def wait(self, run_id: str, *, timeout: float | None = None) -> Outcome[Any]:
        """How a run stands once nobody runs it: its result, its waits or its error. The result is plain JSON.

        Should whoever runs it die meanwhile, it is continued here. Raises TimeoutError, and what `resume` raises.
        """
        from outlast.runs.await_end import Awaited, await_end

        return self._received(await_end(Awaited(self._executor.caller, run_id, timeout)))

    def start(
        self,
        flow: Flow[..., T] | FlowFile,
        *args: Any,
        task: str | None = None,
        fresh: bool = False,
        session: str = "",
        trace_id: str = "",
        meta: JsonMap | None = None,
        **kwargs: Any,
    ) -> Started[T]:
        """Like run, in a background thread. The run is durable before this returns."""
        return self._start(self._asked(task, fresh, session, trace_id, meta), flow, args, kwargs)

    def _start(
        self, options: Options, flow: Flow[..., T] | FlowFile, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Started[T]:
        try:
            spec, begun = self._begin(flow, args, kwargs, options)
        except RunHeld as held:
            return self._after(held, flow.spec, options)
        return self._in_background(begun, spec)

    def _after(self, held: RunHeld, spec: FlowSpec, options: Options) -> Started[Any]:
        """A run that somebody else runs, waited for in a thread of its own. Raises RunHeld."""
        from outlast.runs.start import go_on

        self._awaited(held, spec, options)
        started: Started[Any] = Started(held.run_id)

        def work() -> Outcome[Any]:
            begun = self._wait_for(held, spec, options)
            return begun if isinstance(begun, Outcome) else go_on(self._executor, begun, spec)

        thread = threading.Thread(target=started._work, args=(work,), name=f"outlast-{held.run_id}", daemon=True)
        begin(thread, f"waiting for run {held.run_id}")
        return started

    def _in_background(
        self, begun: RunClaim | Outcome[Any], spec: FlowSpec | None = None, accept: Acceptance = NOTHING_ACCEPTED
    ) -> Started[Any]:
        """A run that was begun or claimed, going on in a thread of its own."""
        from outlast.runs.start import given_back, go_on

        if isinstance(begun, Outcome):
            ready: Started[Any] = Started(begun.run_id, begun.notes)
            ready._work(lambda: begun)
            return ready
        started: Started[Any] = Started(begun.run.id, begun.notes)
        work = lambda: go_on(self._executor, begun, spec, accept)  # noqa: E731
        thread = threading.Thread(target=started._work, args=(work,), name=f"outlast-{begun.run.id}", daemon=True)
        with given_back(self._executor.home, begun):
            begin(thread, f"run {begun.run.id}")
        return started

    def _begin_soon(
        self,
        flow: Flow[..., Any] | FlowFile,
        inputs: Mapping[str, Any],
        options: Options,
    ) -> tuple[Started[Any], bool]:
        """Like start, once for each operation_id; whether it gives what the same one did before. Raises RunHeld."""
        spec, begun = self._begin(flow, (), dict(inputs), options, warns=False)
        return self._in_background(begun, spec), isinstance(begun, Outcome) and begun.replayed

    _goes_on_here = True

    def _go_on(self, run_id: str) -> None:
        go_on(self, run_id, lambda run: self.resume(run.id))

    def _resume_soon(
        self,
        run_id: str,
        acceptance: Acceptance = NOTHING_ACCEPTED,
        flow: Flow[..., Any] | FlowFile | str | None = None,
        *,
        take: str = "",
    ) -> Started[Any]:
        """Like resume, in a background thread. Raises RunHeld, RunFinished."""
        from outlast.runs.start import claim_run

        spec = self._spec_of(flow)
        return self._in_background(claim_run(self._executor.caller, run_id, take), spec, acceptance)

    def resume(
        self,
        run_id: str,
        *,
        accept: Iterable[str] = (),
        why: str = "",
        partial: str | None = None,
        flow: Flow[..., Any] | FlowFile | str | None = None,
        take: bool = False,
    ) -> Outcome[Any]:
        """Continue a run by its id. `accept` takes contested reasons (`code` or `code:subject`) upon oneself.

        `partial` says what becomes of what an unfinished attempt left in the files it declared: `keep` or `restore`.
        `flow` goes on with this flow, wherever its code lies, from now on (at a server: the name of one that it was
        given); without it the flow is looked for where the run went on last, and when its file is gone in the current
        folder. `take` takes the run from whoever holds it: `why` is on the record, and the holder can write nothing any
        more. Raises FlowNotFound, FlowElsewhere.
        """
        from outlast.runs.start import claim_run

        acceptance, spec = acceptance_of(accept, why, partial), self._spec_of(flow)
        return self._received(claim_run(self._executor.caller, run_id, taken_because(take, why)), spec, acceptance)

    def replay(self, run_id: str) -> RunReplay:
        """Run a run's body on its receipts only, and say where it does not do what is recorded.

        No step, effect, probe, sleep, child or command is executed and nothing is written. What the body does by
        itself, outside of calls, it does again. Raises RunNotFound, FlowNotFound, IntegrityBroken.
        """
        from outlast.runs.replay.replay import replay_run

        return replay_run(self._executor, run_id)

    def _opened(self, name: str, options: Options) -> RunClaim | Outcome[Any]:
        """The run of a script; one that somebody else runs once that has ended, if the caller would wait."""
        try:
            return self._open(name, options)[1]
        except RunHeld as held:
            begun = self._wait_for(held, None, options)
        return self._opened(name, options) if isinstance(begun, Outcome) else begun

    @contextmanager
    def open(
        self,
        name: str,
        *,
        task: str | None = None,
        fresh: bool = False,
        session: str = "",
        trace_id: str = "",
        meta: JsonMap | None = None,
    ) -> Iterator[Run]:
        """A run around existing code: run the script again to continue it. On a wait it says so and exits 3.

        With a `task` it happens once: after its success the block runs on its receipts, and a call that has none raises
        Finished. Without one, the next time is a new run.
        """
        from outlast.runs import body as runner
        from outlast.runs.start import heard

        options = self._asked(task, fresh, session, trace_id, meta)
        begun = self._opened(name, options)
        if isinstance(begun, Outcome):
            with _on_record(self._executor, begun, options, is_async=False) as run:
                yield run
            return
        execution, _ = runner.prepare(self._executor, begun, Acceptance())
        with heard(self._executor, begun), runner.body(self._executor, execution) as ended:
            yield make_run(execution, False)
        if ended.outcome is not None and ended.outcome.status == "waiting":
            _leave(ended.outcome)

    def follow_events(self, run_id: str, *, after: int = 0) -> Iterator[Event]:
        """The events of a run as they come, until nobody runs it any more and there are no further ones."""
        from outlast.runs.events import Following, follow

        return follow(Following(self._executor.caller, run_id, after))

    def close(self) -> None:
        """Let go of the files. Runs of this process are asked to stop, and given time to do so."""
        self._executor.close()

    def __enter__(self) -> Outlast:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncOutlast(Shared):
    """The same on an event loop: what runs flows is awaited."""

    def __new__(cls, home: str | Path | FoundHome | None = None, **_: Any) -> Self:
        if cls is AsyncOutlast and url_of(home):
            from outlast.remote.outlast import AsyncRemoteOutlast

            return cast(Self, object.__new__(AsyncRemoteOutlast))
        return object.__new__(cls)

    @property
    def handoff(self) -> AsyncHandoffs:
        """Contracts for whoever continues; each call is awaited."""
        from outlast.python.handoffs import AsyncHandoffs

        return AsyncHandoffs(self._executor)

    @property
    def sessions(self) -> AsyncSessions:
        """Conversations; each call is awaited."""
        from outlast.python.sessions import AsyncSessions

        return AsyncSessions(self._executor.caller)

    @property
    def workspace(self) -> AsyncWorkspace:
        """Artifacts and checkpoints; each call is awaited."""
        from outlast.python.workspace import AsyncWorkspace

        return AsyncWorkspace(self._executor.caller)

    @property
    def tasks(self) -> AsyncTasks:
        """Tasks of a host; each call is awaited."""
        from outlast.python.tasks import AsyncTasks

        return AsyncTasks(self._executor)

    async def run(
        self,
        flow: Flow[..., T] | FlowFile,
        *args: Any,
        task: str | None = None,
        fresh: bool = False,
        session: str = "",
        trace_id: str = "",
        meta: JsonMap | None = None,
        **kwargs: Any,
    ) -> Outcome[T]:
        """Run a flow; a plain one runs in a thread. See Outlast.run."""
        options = self._asked(task, fresh, session, trace_id, meta, returns=True)
        return await self._run(options, flow, args, kwargs)

    async def _run(
        self, options: Options, flow: Flow[..., T] | FlowFile, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Outcome[T]:
        try:
            spec, begun = self._begin(flow, args, kwargs, options)
        except RunHeld as held:
            spec, begun = flow.spec, await self._wait_for(held, flow.spec, options)
        return await self._received(begun, spec)

    async def _received(
        self, begun: RunClaim | Outcome[Any], spec: FlowSpec | None = None, accept: Acceptance = NOTHING_ACCEPTED
    ) -> Outcome[Any]:
        """The outcome of a run that was begun, for the caller who waits here for it."""
        from outlast.runs.delivery import given, receiving
        from outlast.runs.start import go_on_async

        if isinstance(begun, Outcome):
            return unseen(given(self._executor.caller, begun))
        with receiving(self._executor.caller, begun.run.id):
            return unseen(given(self._executor.caller, await go_on_async(self._executor, begun, spec, accept)))

    async def _wait_for(self, held: RunHeld, spec: FlowSpec | None, options: Options) -> RunClaim | Outcome[Any]:
        """What becomes of a run that somebody else runs, if the caller would wait. Raises RunHeld."""
        from outlast.runs.await_end import await_end_async

        awaited = self._awaited(held, spec, options)
        try:
            return await await_end_async(awaited)
        except TimeoutError:
            raise held from None

    async def wait(self, run_id: str, *, timeout: float | None = None) -> Outcome[Any]:
        """How a run stands once nobody runs it. See Outlast.wait."""
        from outlast.runs.await_end import Awaited, await_end_async

        return await self._received(await await_end_async(Awaited(self._executor.caller, run_id, timeout)))

    async def start(
        self,
        flow: Flow[..., T] | FlowFile,
        *args: Any,
        task: str | None = None,
        fresh: bool = False,
        session: str = "",
        trace_id: str = "",
        meta: JsonMap | None = None,
        **kwargs: Any,
    ) -> AsyncStarted[T]:
        """Like run, in a background task. The run is durable before this returns."""
        return await self._start(self._asked(task, fresh, session, trace_id, meta), flow, args, kwargs)

    async def _start(
        self, options: Options, flow: Flow[..., T] | FlowFile, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AsyncStarted[T]:
        import asyncio

        from outlast.runs.start import go_on_async

        try:
            spec, begun = self._begin(flow, args, kwargs, options)
        except RunHeld as held:
            self._awaited(held, flow.spec, options)
            return AsyncStarted(held.run_id, asyncio.ensure_future(self._after(held, flow.spec, options)))
        if isinstance(begun, Outcome):
            done: asyncio.Future[Outcome[T]] = asyncio.get_running_loop().create_future()
            done.set_result(begun)
            return AsyncStarted(begun.run_id, done)
        going = asyncio.ensure_future(go_on_async(self._executor, begun, spec))
        going.add_done_callback(
            lambda _: self._executor.home.held.claimed.discard(begun.run.id)
        )  # cancelled before it began
        return AsyncStarted(begun.run.id, going)

    async def _after(self, held: RunHeld, spec: FlowSpec, options: Options) -> Outcome[Any]:
        """The outcome of a run that somebody else runs."""
        from outlast.runs.start import go_on_async

        begun = await self._wait_for(held, spec, options)
        return begun if isinstance(begun, Outcome) else await go_on_async(self._executor, begun, spec)

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
        from outlast.runs.start import claim_run

        acceptance, spec = acceptance_of(accept, why, partial), self._spec_of(flow)
        return await self._received(
            claim_run(self._executor.caller, run_id, taken_because(take, why)), spec, acceptance
        )

    async def replay(self, run_id: str) -> RunReplay:
        """Run a run's body on its receipts only. See Outlast.replay."""
        from outlast.runs.replay.replay import replay_run_async

        return await replay_run_async(self._executor, run_id)

    async def _opened(self, name: str, options: Options) -> RunClaim | Outcome[Any]:
        """The run of a script; one that somebody else runs once that has ended, if the caller would wait."""
        try:
            return self._open(name, options)[1]
        except RunHeld as held:
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
        import asyncio

        from outlast.runs import body as runner
        from outlast.runs.branches import Branches, watch_tasks

        watch_tasks(asyncio.get_running_loop())
        options = self._asked(task, fresh, session, trace_id, meta)
        begun = await self._opened(name, options)
        if isinstance(begun, Outcome):
            with _on_record(self._executor, begun, options, is_async=True) as run:
                yield run
            return
        execution, _ = runner.prepare(self._executor, begun, Acceptance())
        execution.branches = Branches(execution.turns(), can_park=False)
        with runner.body(self._executor, execution) as ended:
            yield make_run(execution, True)
        if ended.outcome is not None and ended.outcome.status == "waiting":
            _leave(ended.outcome)

    def follow_events(self, run_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """The events of a run as they come: `async for event in outlast.follow_events(run)`."""
        from outlast.runs.events import Following, follow_async

        return follow_async(Following(self._executor.caller, run_id, after))

    async def close(self) -> None:
        """Let go of the files. Runs of this process are asked to stop, and given time to do so."""
        from outlast.runs.call_async import in_thread

        await in_thread(self._executor.live.settle)
        await self._executor.live.resources.close_loop()
        self._executor.live.resources.close()  # where they were opened: some objects may be closed by that thread only
        await in_thread(self._executor.close)

    async def __aenter__(self) -> AsyncOutlast:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def taken_because(take: bool, why: str) -> str:
    """Why a run is taken from who holds it; empty when it is not. Raises NameInvalid."""
    if take and not why.strip():
        raise NameInvalid("why", why, "say why you take the run from who holds it; it is on the record")
    return why if take else ""


def acceptance_of(accept: Iterable[str], why: str, partial: str | None) -> Acceptance:
    """What a resume takes upon itself. Raises NameInvalid."""
    wanted = supposed(accept, partial)
    if wanted.codes and not why.strip():
        raise NameInvalid("why", why, "say why you accept it; it is on the record")
    return wanted._replace(why=why)


def _on_record(
    executor: Executor, outcome: Outcome[Any], options: Options, *, is_async: bool
) -> AbstractContextManager[Any]:
    """For a block whose named task has happened: its receipts. One whose run only waits is left."""
    if outcome.status == "aborted":  # of an operation_id, which gives what became of it
        outcome.unwrap()
    if outcome.status != "succeeded":
        _leave(outcome)
    from outlast.runs.replay.replay import body_on_record

    return body_on_record(executor, outcome, options.task or "", is_async=is_async)


def _leave(outcome: Outcome[Any]) -> NoReturn:
    """Tell a script's user what is waited for, and exit 3."""
    print(str(RunWaiting(outcome.run_id, "; ".join(wait.says for wait in outcome.interrupts))), file=sys.stderr)
    raise SystemExit(3)
