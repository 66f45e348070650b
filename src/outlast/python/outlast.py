"""`Outlast`: a home, opened: what runs flows. What it shares with no flow is in `shared.py`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Self, TypeVar, cast, overload

from outlast import errors
from outlast.flows.spec import FlowSpec, spec_of
from outlast.python import rooms
from outlast.python.shared import FlowCall as FlowCall
from outlast.python.shared import Shared, make_run, url_of
from outlast.runs.run import Options as Options
from outlast.runs.run import Outcome, unseen
from outlast.values.ambient import begin

if TYPE_CHECKING:  # `Run` and what executes it are loaded by who runs something: to look at runs takes neither
    from outlast.home.caller import Acceptance
    from outlast.home.place import FoundHome
    from outlast.python.awaited import Started
    from outlast.python.decorators import Flow, FlowFile
    from outlast.python.handoffs import Handoffs
    from outlast.python.queues import Schedules, Worker
    from outlast.python.run import Run
    from outlast.python.sessions import Sessions
    from outlast.python.tasks import Tasks
    from outlast.python.workspace import Workspace
    from outlast.runs.claim import RunClaim
    from outlast.runs.events import HomeEvent
    from outlast.runs.live import Executor
    from outlast.runs.receipt import Event
    from outlast.runs.replay.replay import RunReplay

P = ParamSpec("P")
T = TypeVar("T")
JsonMap = Mapping[str, Any]


class Outlast(Shared):
    """A home, opened: runs flows and knows every run, blocking. Behind a URL it is a server's (`remote/outlast.py`)."""

    def __new__(cls, home: str | Path | FoundHome | None = None, **_: Any) -> Self:
        kind = remote_surface(home, "RemoteOutlast") if cls is Outlast else None
        return cast(Self, object.__new__(kind or cls))

    @cached_property
    def handoff(self) -> Handoffs:
        """Contracts for whoever continues: store, recover with a verdict, claim, settle."""
        return rooms.handoffs.Handoffs(self._executor)

    @cached_property
    def schedules(self) -> Schedules:
        """Flows that workers run at certain times: add, list, pause, resume, remove, trigger."""
        return rooms.queues.Schedules(self._executor)

    @cached_property
    def sessions(self) -> Sessions:
        """Conversations: append, read, fit into a window, sum up in a memo."""
        return rooms.sessions.Sessions(self._caller)

    @cached_property
    def workspace(self) -> Workspace:
        """Content that outlives a run: artifacts by ref, and checkpoints of tasks."""
        return rooms.workspace.Workspace(self._caller)

    @cached_property
    def tasks(self) -> Tasks:
        """Tasks of a host: open one, and pause, resume and complete it."""
        return rooms.tasks.Tasks(self._executor)

    @overload
    def run(self, flow: Flow[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Outcome[T]: ...
    @overload
    def run(self, flow: Flow[..., T], *args: Any, task: str | None, **more: Any) -> Outcome[T]: ...
    @overload
    def run(self, flow: Flow[..., T], *args: Any, fresh: bool, **more: Any) -> Outcome[T]: ...
    @overload
    def run(self, flow: Flow[..., T], *args: Any, session: str, **more: Any) -> Outcome[T]: ...
    @overload
    def run(self, flow: Flow[..., T], *args: Any, trace_id: str, **more: Any) -> Outcome[T]: ...
    @overload
    def run(self, flow: Flow[..., T], *args: Any, meta: JsonMap | None, **more: Any) -> Outcome[T]: ...
    @overload
    def run(self, flow: FlowFile, *args: Any, **more: Any) -> Outcome[Any]: ...
    def run(  # type: ignore[misc]  # no input of a flow has the name of one of these
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
        """Run a flow; the same call after a crash continues the same run.

        Raises RunHeld when someone else is running it, InputsConflict when the task's unfinished run has other
        inputs, Contested when its records cannot be trusted.
        """
        return self._run(FlowCall(flow, args, kwargs, self._asked(task, fresh, session, trace_id, meta, returns=True)))

    def _run(self, call: FlowCall) -> Outcome[Any]:
        if spec_of(call.flow).is_async:
            rooms.home.refuse_loop(f"outlast.run({call.flow.spec.name})")
        try:
            spec, begun = self._begin(call)
        except errors.RunHeld as held:
            spec, begun = call.flow.spec, self._wait_for(held, call.flow.spec, call.options)
        if isinstance(begun, Outcome) and begun.status == "queued":
            begun = rooms.outcomes.await_end(rooms.outcomes.Awaited(self._caller, begun.run_id, None, spec))
        return self._received(begun, spec)

    def _received(
        self, begun: RunClaim | Outcome[Any], spec: FlowSpec | None = None, accept: Acceptance | None = None
    ) -> Outcome[Any]:
        """The outcome of a run that was begun, for the caller who waits here for it."""
        if isinstance(begun, Outcome):
            return unseen(rooms.outcomes.given(self._caller, begun))
        with rooms.outcomes.Receiving(self._caller, begun.run.id):
            caller, accepted = self._caller, accept or rooms.caller.NOTHING_ACCEPTED
            going, given = rooms.start.go_on_here, rooms.outcomes.given
            # no name for the outcome: the trace of its error keeps this frame
            return unseen(given(caller, going(self._executor, begun, spec, accepted), noted=begun.delivers))

    def _wait_for(self, held: errors.RunHeld, spec: FlowSpec | None, options: Options) -> RunClaim | Outcome[Any]:
        """What becomes of a run that somebody else runs, if the caller would wait. Raises RunHeld."""
        awaited = self._awaited(held, spec, options)
        try:
            return rooms.outcomes.await_end(awaited)
        except TimeoutError:
            raise held from None

    def wait(self, run_id: str, *, timeout: float | None = None) -> Outcome[Any]:
        """How a run stands once nobody runs it: its result, its waits or its error. The result is plain JSON.

        Should whoever runs it die meanwhile, it is continued here. Raises TimeoutError, and what `resume` raises.
        """
        return self._received(rooms.outcomes.await_end(rooms.outcomes.Awaited(self._caller, run_id, timeout)))

    @overload
    def start(self, flow: Flow[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Started[T]: ...
    @overload
    def start(self, flow: Flow[..., T], *args: Any, task: str | None, **more: Any) -> Started[T]: ...
    @overload
    def start(self, flow: Flow[..., T], *args: Any, fresh: bool, **more: Any) -> Started[T]: ...
    @overload
    def start(self, flow: Flow[..., T], *args: Any, session: str, **more: Any) -> Started[T]: ...
    @overload
    def start(self, flow: Flow[..., T], *args: Any, trace_id: str, **more: Any) -> Started[T]: ...
    @overload
    def start(self, flow: Flow[..., T], *args: Any, meta: JsonMap | None, **more: Any) -> Started[T]: ...
    @overload
    def start(self, flow: FlowFile, *args: Any, **more: Any) -> Started[Any]: ...
    def start(  # type: ignore[misc]  # no input of a flow has the name of one of these
        self,
        flow: Flow[..., Any] | FlowFile,
        *args: Any,
        task: str | None = None,
        fresh: bool = False,
        session: str = "",
        trace_id: str = "",
        meta: JsonMap | None = None,
        **kwargs: Any,
    ) -> Started[Any]:
        """Like run, in a background thread. The run is durable before this returns."""
        return self._start(FlowCall(flow, args, kwargs, self._asked(task, fresh, session, trace_id, meta)))

    def _start(self, call: FlowCall) -> Started[Any]:
        try:
            spec, begun = self._begin(call)
        except errors.RunHeld as held:
            return self._after(held, call.flow.spec, call.options)
        if isinstance(begun, Outcome) and begun.status == "queued":
            return rooms.awaited.Queued(self._caller, begun.run_id, spec)
        return self._in_background(begun, spec)

    def _after(self, held: errors.RunHeld, spec: FlowSpec, options: Options) -> Started[Any]:
        """A run that somebody else runs, waited for in a thread of its own. Raises RunHeld."""
        if options.wait is False:
            raise held
        started: Started[Any] = rooms.awaited.Started(held.run_id)

        def work() -> Outcome[Any]:
            begun = self._wait_for(held, spec, options)
            return begun if isinstance(begun, Outcome) else rooms.start.go_on(self._executor, begun, spec)

        thread = threading.Thread(target=started._work, args=(work,), name=f"outlast-{held.run_id}", daemon=True)
        begin(thread, f"waiting for run {held.run_id}")
        return started

    def _in_background(
        self, begun: RunClaim | Outcome[Any], spec: FlowSpec | None = None, accept: Acceptance | None = None
    ) -> Started[Any]:
        """A run that was begun or claimed, going on in a thread of its own."""
        if isinstance(begun, Outcome):
            ready: Started[Any] = rooms.awaited.Started(begun.run_id, begun.notes)
            ready._work(lambda: begun)
            return ready
        started: Started[Any] = rooms.awaited.Started(begun.run.id, begun.notes)
        work = lambda: rooms.start.go_on(self._executor, begun, spec, accept or rooms.caller.NOTHING_ACCEPTED)  # noqa: E731
        thread = threading.Thread(target=started._work, args=(work,), name=f"outlast-{begun.run.id}", daemon=True)
        with rooms.start.given_back(self._home, begun):
            begin(thread, f"run {begun.run.id}")
        return started

    def _begin_soon(self, flow: Flow[..., Any] | FlowFile, inputs: Mapping[str, Any], options: Options) -> Started[Any]:
        """Like start, once for each operation_id. Raises RunHeld."""
        spec, begun = self._begin(FlowCall(flow, (), dict(inputs), options), warns=False)
        started = self._in_background(begun, spec)
        started.replayed = isinstance(begun, Outcome) and begun.replayed
        return started

    def _go_on(self, run_id: str) -> None:
        rooms.awaited.go_on(self, run_id, lambda run: self._wake(run.id))

    def _resume_soon(
        self,
        run_id: str,
        acceptance: Acceptance | None = None,
        flow: Flow[..., Any] | FlowFile | str | None = None,
        *,
        take: str = "",
    ) -> Started[Any]:
        """Like resume, in a background thread. Raises RunHeld, RunFinished."""
        spec = self._spec_of(flow)
        return self._in_background(rooms.start.claim_run(self._caller, run_id, take), spec, acceptance)

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
        acceptance, spec = acceptance_of(accept, why, partial, self._caller.actor), self._spec_of(flow)
        return self._received(rooms.start.claim_run(self._caller, run_id, taken_because(take, why)), spec, acceptance)

    def _wake(self, run_id: str) -> Outcome[Any]:
        """Like resume, of a run that goes on because it can: nobody is on record for it."""
        return self._received(rooms.start.claim_run(self._caller, run_id, ""))

    def replay(self, run_id: str) -> RunReplay:
        """Run a run's body on its receipts only, and say where it does not do what is recorded.

        No step, effect, probe, sleep, child or command is executed and nothing is written. What the body does by
        itself, outside of calls, it does again. Raises RunNotFound, FlowNotFound, IntegrityBroken.
        """
        return rooms.replay.replay_run(self._executor, run_id)

    def _opened(self, name: str, options: Options) -> RunClaim | Outcome[Any]:
        """The run of a script; one that somebody else runs once that has ended, if the caller would wait."""
        try:
            return self._open(name, options)[1]
        except errors.RunHeld as held:
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
        options = self._asked(task, fresh, session, trace_id, meta)
        begun = self._opened(name, options)
        if isinstance(begun, Outcome):
            with on_record(self._executor, begun, options, is_async=False) as run:
                yield run
            return
        execution, _ = rooms.body.prepare(self._executor, begun, rooms.caller.NOTHING_ACCEPTED)
        with rooms.start.heard(self._executor, begun), rooms.body.body(self._executor, execution) as ended:
            yield make_run(execution, False)
        if ended.outcome is not None and ended.outcome.status == "waiting":
            leave(ended.outcome)

    def follow_events(self, run_id: str, *, after: int = 0) -> Iterator[Event]:
        """The events of a run as they come, until nobody runs it any more and there are no further ones."""
        return rooms.events.follow(rooms.events.Following(self._caller, run_id, after))

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
    ) -> Iterator[HomeEvent]:
        """The events of all runs as they come, without an end: from now on, or after a number. As `all_events`."""
        asked = rooms.events.event_query(inbox, scope=scope, flow=flow, task=task, tag=tag, name=name)
        return rooms.events.follow(rooms.events.HomeFollowing(self._home, asked, after))

    def worker(
        self,
        *flows: Flow[..., Any] | FlowFile,
        queues: Iterable[str] = (),
        concurrency: int | None = None,
        drain: float | str | None = None,
    ) -> Worker:
        """What goes on with runs that can go on by themselves, for as long as a `with` block lasts.

        Of these `flows` only, or of all whose flow is found where it lies; out of these `queues`, or of all. At most
        `concurrency` (8) runs at once, each in a thread. When the block ends they end their steps within `drain`
        (30 s), and go on where somebody works.
        """
        return rooms.queues.make_worker(self, flows, concurrency, drain, queues=tuple(queues))

    def close(self) -> None:
        """Let go of the files. Runs of this process are asked to stop, and given time to do so."""
        self._executor.close()

    def __enter__(self) -> Outlast:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Homes that are not folders, by how their names begin: whoever builds on this module cannot be imported by it.
ELSEWHERE = {"http": "outlast.remote.outlast"}


def remote_surface(home: str | Path | FoundHome | None, name: str) -> type | None:
    """The class of that name for a home behind a URL; None for a folder."""
    url = url_of(home)
    return getattr(import_module(ELSEWHERE["http"]), name) if url else None


def taken_because(take: bool, why: str) -> str:
    """Why a run is taken from who holds it; empty when it is not. Raises NameInvalid."""
    if take and not why.strip():
        raise errors.NameInvalid("why", why, "say why you take the run from who holds it; it is on the record")
    return why if take else ""


def acceptance_of(accept: Iterable[str], why: str, partial: str | None, by: str = "") -> Acceptance:
    """What a resume takes upon itself, and who resumes. Raises NameInvalid."""
    wanted = rooms.caller.supposed(accept, partial)
    if wanted.codes and not why.strip():
        raise errors.NameInvalid("why", why, "say why you accept it; it is on the record")
    return wanted._replace(why=why, by=by)


def on_record(
    executor: Executor, outcome: Outcome[Any], options: Options, *, is_async: bool
) -> AbstractContextManager[Any]:
    """For a block whose named task has happened: its receipts. One whose run only waits is left."""
    if outcome.status == "aborted":  # of an operation_id, which gives what became of it
        outcome.unwrap()
    if outcome.status != "succeeded":
        leave(outcome)
    return rooms.replay.body_on_record(executor, outcome, options.task or "", is_async=is_async)


def leave(outcome: Outcome[Any]) -> NoReturn:
    """Tell a script's user what is waited for, and exit 3."""
    print(str(errors.RunWaiting(outcome.run_id, "; ".join(wait.says for wait in outcome.interrupts))), file=sys.stderr)
    raise SystemExit(3)
