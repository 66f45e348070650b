"""`Holdfast` and `AsyncHoldfast`: a home, opened. The same surface, blocking and awaited."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from holdfast.clock import Clock
from holdfast.domain.run import Outcome, RunRecord
from holdfast.errors import ExtraMissing, NameInvalid, RunWaiting
from holdfast.ids import Ids, random_id
from holdfast.runtime import Runtime, nobody, refuse_loop, runner, signals
from holdfast.runtime.claims import Claim
from holdfast.runtime.resources import NOTHING
from holdfast.runtime.runner import Acceptance
from holdfast.runtime.settings import Settings
from holdfast.runtime.specs import FlowSpec, Signature
from holdfast.sdk.flow import Flow, FlowFile
from holdfast.sdk.run import AsyncRun, Run, make_run
from holdfast.sdk.started import AsyncStarted, Started

if TYPE_CHECKING:
    from holdfast.domain.interrupt import Interrupt
    from holdfast.domain.plan import Plan
    from holdfast.domain.receipt import Event, Receipt
    from holdfast.domain.replay import Replay
    from holdfast.domain.signal import Signal
    from holdfast.runtime.arrival import Imported
    from holdfast.runtime.due import Due
    from holdfast.runtime.logs import Log
    from holdfast.runtime.sweep import Swept
    from holdfast.runtime.travel import Exported
    from holdfast.runtime.verify import Verification
    from holdfast.sdk.handoffs import AsyncHandoffs, Handoffs
    from holdfast.sdk.sessions import AsyncSessions, Sessions

T = TypeVar("T")
JsonMap = Mapping[str, Any]


class _Hold:
    """What both surfaces share: everything that takes no user code and only a moment."""

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        tenant: str = "default",
        scope: str = "default",
        actor: str = "local",
        clock: Clock | None = None,
        ids: Ids = random_id,
        settings: Settings | None = None,
        store_options: Mapping[str, Any] | None = None,
    ) -> None:
        if str(home).startswith(("http://", "https://")):
            raise ExtraMissing("a home behind a URL", "server")
        self._runtime = Runtime(
            home,
            facade=make_run,
            tenant=tenant,
            scope=scope,
            actor=actor,
            clock=clock,
            ids=ids,
            settings=settings,
            store_options=store_options,
        )

    @property
    def home(self) -> Path:
        """The folder everything is kept in."""
        return self._runtime.home

    # -- the person's choices --------------------------------------------------------------------

    def retry(self, run_id: str, step: str, *, why: str = "", operation_id: str | None = None) -> RunRecord:
        """Let the next resume try this step (or effect in doubt) again."""
        return self._ask(run_id, "retry", step, {"why": why}, operation_id)

    def skip(
        self, run_id: str, step: str, *, result: Any = None, why: str, operation_id: str | None = None
    ) -> RunRecord:
        """Let the next resume take `result` as the step's outcome without running it."""
        if not why.strip():
            raise NameInvalid("why", why, "say why the step is skipped; it is on the record")
        return self._ask(run_id, "skip", step, {"result": result, "why": why}, operation_id)

    def rewind(self, run_id: str, step: str, *, why: str = "", operation_id: str | None = None) -> RunRecord:
        """Let the next resume do this step and all after it again. Effects are kept: equal inputs reuse them."""
        return self._ask(run_id, "rewind", step, {"why": why}, operation_id)

    def abort(self, run_id: str, *, why: str, operation_id: str | None = None) -> RunRecord:
        """Give a run up, now, whoever owns it. Its children with it."""
        from holdfast.runtime import decisions

        row = self._runtime.row(run_id)
        return decisions.abort(self._runtime, row.id, why, operation_id)

    def pause(self, run_id: str, *, operation_id: str | None = None) -> RunRecord:
        """Ask a running run to stop at its next step; it ends `interrupted`."""
        from holdfast.runtime import decisions

        row = self._runtime.row(run_id)
        return decisions.pause(self._runtime, row.id, operation_id)

    def answer(
        self, interrupt_id: str, answer: Any, *, shown: str | None = None, operation_id: str | None = None
    ) -> Interrupt:
        """Answer a wait. It is durable before it takes effect, checked, and used once: one of many wins.

        `shown`, the interrupt's `digest`, binds the answer to what was shown. Raises AlreadyAnswered, AnswerInvalid.
        """
        from holdfast.runtime import decisions

        return decisions.answer(self._runtime, interrupt_id, answer, operation_id, shown)

    def cancel(self, interrupt_id: str, why: str, *, operation_id: str | None = None) -> Interrupt:
        """End a wait of a flow without an answer: its `pause_for` raises WaitCancelled, with the reason."""
        from holdfast.runtime import decisions

        return decisions.cancel(self._runtime, interrupt_id, why, operation_id)

    def signal(
        self,
        name: str,
        body: Any = None,
        *,
        task: str | None = None,
        run_id: str | None = None,
        operation_id: str | None = None,
    ) -> Signal:
        """Send a named message to a task, or to one run. It is kept until a `wait_for` takes it, once."""
        from holdfast.runtime.signalling import send

        return send(self._runtime, name, body, task=task, run_id=run_id, operation_id=operation_id)

    def _ask(self, run_id: str, kind: str, step: str, body: dict[str, Any], operation_id: str | None) -> RunRecord:
        from holdfast.runtime import decisions

        row = self._runtime.row(run_id)
        return decisions.ask(self._runtime, row.id, kind, step, body, operation_id)

    # -- looking ---------------------------------------------------------------------------------

    def get(self, run_id: str) -> RunRecord:
        """A run by its id or a unique prefix of it. Raises RunNotFound, AmbiguousPrefix."""
        return self._runtime.record(self._runtime.row(run_id))

    def runs(self, *, status: str | None = None, limit: int = 50) -> list[RunRecord]:
        """The newest runs first."""
        return self._runtime.runs(status, limit)

    def receipts(self, run_id: str) -> list[Receipt]:
        """One receipt per attempt, in the order in which they were written."""
        return self._runtime.receipts(run_id)

    def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """The run's journal from `after` on. The sequence never repeats or goes back."""
        return self._runtime.events(run_id, after, limit)

    def logs(self, run_id: str, step: str | None = None, *, attempt: int | None = None) -> list[Log]:
        """What the commands of a run printed, in order; with `step` only that one. Python steps leave none."""
        from holdfast.runtime.logs import logs

        return logs(self._runtime, run_id, step, attempt)

    def follow_logs(
        self, run_id: str, step: str | None = None, *, attempt: int | None = None
    ) -> Iterator[tuple[Log, bytes]]:
        """The same piece by piece, as it is printed, until the run ends or waits; an empty piece ends an attempt."""
        from holdfast.runtime.logs import follow

        return follow(self._runtime, run_id, step, attempt)

    def mirror(self, run_id: str, *, write: bool = True) -> Path:
        """Write receipts and handoffs of a run as files, and give their folder. Raises OSError if the disk is full."""
        from holdfast.runtime import mirror

        row = self._runtime.row(run_id)
        if write:
            return mirror.write_mirror(self._runtime, row.id)
        return mirror.folder_of(self._runtime, row.id, row.flow)

    def interrupts(self, run_id: str | None = None) -> list[Interrupt]:
        """Every open wait, or those of one run."""
        return self._runtime.interrupts(run_id)

    def due(self) -> list[Due]:
        """The runs that can go on by themselves: crashed, or waiting for what is over. Resume each of them."""
        from holdfast.runtime.due import due

        return due(self._runtime)

    def plan(self, run_id: str) -> Plan:
        """What resuming would do, with the verdict and its reasons. Reads the ledger only."""
        return self._runtime.plan(run_id)

    def facts(self) -> dict[str, Any]:
        """What this home stands on: versions, paths, settings, sizes, runs by status."""
        return self._runtime.facts()

    def export(self, run_id: str, path: str | Path, *, move: bool = False, force: bool = False) -> Exported:
        """A run and its children as one file: a copy to look at, or with `move` the run itself, which leaves here."""
        from holdfast.runtime.travel import export_run

        return export_run(self._runtime, run_id, Path(path), move=move, force=force)

    def import_(self, path: str | Path, *, flow: str | None = None) -> Imported:
        """Bring in a file that `export` wrote; or a folder of receipts that others wrote, as testimony."""
        from holdfast.runtime.arrival import import_any

        return import_any(self._runtime, Path(path), flow)

    def verify(self, run_id: str | None = None) -> Verification:
        """Check every record of a run, or of the whole store."""
        return self._runtime.verify(self._runtime.row(run_id).id if run_id else None)

    def gc(
        self,
        *,
        older_than: float | None = None,
        keep: int | None = None,
        max_bytes: int | None = None,
        scope: str | None = None,
        dry_run: bool = True,
        vacuum: bool = False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Swept:
        """Remove finished runs, and what nobody needs any more; a dry run only says what would go.

        Seconds since a run ended, how many of the newest to keep of each flow, a size to come down to: several narrow
        each other, and without any of them no run goes. An unfinished run and what it needs are never touched.
        """
        from holdfast.runtime.sweep import sweep

        return sweep(
            self._runtime,
            older_than=older_than,
            keep=keep,
            max_bytes=max_bytes,
            scope=scope,
            dry_run=dry_run,
            vacuum=vacuum,
            progress=progress,
        )

    def resource(
        self,
        key: str,
        value: Any = NOTHING,
        *,
        factory: Callable[..., Any] | None = None,
        health: Callable[[Any], Any] | None = None,
        close: Callable[[Any], Any] | None = None,
    ) -> None:
        """Provide a live object for `inject(key)`: itself, or a factory called when it is first needed.

        `health` is asked of an open one when a run takes it up and when a step is tried again: if it says no or
        raises, the object is closed and made anew. `close` is called with it when this Holdfast closes. It comes
        before what `@resource(key)` registered. Raises NameInvalid, ResourceInvalid.
        """
        self._runtime.resources.provide(key, value, factory, health, close)

    def listen(self, output: Callable[[str, bytes], None] | None, notes: Callable[[str], None] | None) -> None:
        """Be shown what commands print (the step's name, some bytes), and notes for people, as they come."""
        self._runtime.sink = output
        self._runtime.tell = notes or nobody

    def act_for_terminal(self, *claims: str) -> None:
        """For a program of one short call: claims are bound to whoever sits at this terminal, and outlive the program.

        What was claimed at the same terminal before is its own; and so is every claim whose id is shown here.
        """
        from holdfast.runtime.claimers import nobody, terminal_leader

        self._runtime.claimer = terminal_leader() or nobody()
        self._runtime.tokens.update(claims)

    def signals(self) -> signals.Signals:
        """For a block in the main thread of a program of its own: SIGINT and SIGTERM let the step under way finish."""
        return signals.Signals(self._runtime, own_process=True)

    def stop(self, *, now: bool = False) -> bool:
        """Ask every run of this process to stop at its next step, or `now`: then commands under way are ended too.

        True when a Python body is under way: that one ends only by an exception in its own thread.
        """
        return self._runtime.stop(now)

    # -- shared by run, start, open --------------------------------------------------------------

    def _begin(
        self, flow: Flow[..., Any] | FlowFile, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> tuple[FlowSpec, Claim | Outcome[Any]]:
        spec = flow.spec
        fresh = options.pop("fresh")
        raw = self._runtime.pack_inputs(spec, spec.bind(args, kwargs))
        return spec, self._runtime.begin(spec, self._runtime.new_run(spec, raw, **options), fresh=fresh)

    def _open(self, name: str, options: dict[str, Any]) -> tuple[FlowSpec, Claim | Outcome[Any]]:
        def script(run: Any) -> None:
            """Stands for the script's own code."""

        fresh = options.pop("fresh")
        spec = FlowSpec(script, name, f"script:{name}", False, Signature(script, skip=1))
        new = self._runtime.new_run(spec, b"{}", **{**options, "task": options["task"] or name})
        return spec, self._runtime.begin(spec, new, fresh=fresh)


class Holdfast(_Hold):
    """A home, opened: runs flows and knows every run, blocking."""

    @property
    def handoff(self) -> Handoffs:
        """Contracts for whoever continues: store, recover with a verdict, claim, settle."""
        from holdfast.sdk.handoffs import Handoffs

        return Handoffs(self._runtime)

    @property
    def sessions(self) -> Sessions:
        """Conversations: append, read, fit into a window, sum up in a memo."""
        from holdfast.sdk.sessions import Sessions

        return Sessions(self._runtime)

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
        options = {"task": task, "fresh": fresh, "session": session, "trace_id": trace_id, "meta": meta}
        if flow.spec.is_async:
            refuse_loop(f"hold.run({flow.spec.name})")
        spec, begun = self._begin(flow, args, kwargs, options)
        return begun if isinstance(begun, Outcome) else self._runtime.go_on_here(begun, spec)

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
        options = {"task": task, "fresh": fresh, "session": session, "trace_id": trace_id, "meta": meta}
        spec, begun = self._begin(flow, args, kwargs, options)
        if isinstance(begun, Outcome):
            ready: Started[T] = Started(begun.run_id)
            ready._work(lambda: begun)
            return ready
        started: Started[T] = Started(begun.run.id)
        work = lambda: self._runtime.go_on(begun, spec)  # noqa: E731
        threading.Thread(target=started._work, args=(work,), name=f"holdfast-{begun.run.id}", daemon=True).start()
        return started

    def resume(
        self, run_id: str, *, accept: Iterable[str] = (), why: str = "", partial: str | None = None
    ) -> Outcome[Any]:
        """Continue a run by its id. `accept` takes contested reasons (`code` or `code:subject`) upon oneself.

        `partial` says what becomes of what an unfinished attempt left in the files it declared: `keep` or `restore`.
        """
        acceptance = _acceptance(accept, why, partial)
        claimed = self._runtime.claim(run_id)
        return self._runtime.go_on_here(claimed, None, acceptance)

    def replay(self, run_id: str) -> Replay:
        """Run a run's body on its receipts only, and say where it does not do what is recorded.

        No step, effect, probe, sleep, child or command is executed and nothing is written. What the body does by itself,
        outside of calls, it does again. Raises RunNotFound, FlowNotFound, IntegrityBroken.
        """
        return self._runtime.replay(run_id)

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
        """A run around existing code: run the script again to continue it. On a wait it says so and exits 3."""
        options = {"task": task, "fresh": fresh, "session": session, "trace_id": trace_id, "meta": meta}
        _, begun = self._open(name, options)
        if isinstance(begun, Outcome):
            _leave(begun)
        execution, _ = runner.prepare(self._runtime, begun, Acceptance())
        with signals.over_defaults(self._runtime), runner.body(self._runtime, execution) as ended:
            yield Run(execution)
        if ended.outcome is not None and ended.outcome.status == "waiting":
            _leave(ended.outcome)

    def close(self) -> None:
        """Let go of the files. Runs of this process are asked to stop, and given time to do so."""
        self._runtime.close()

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncHoldfast(_Hold):
    """The same on an event loop: what runs flows is awaited."""

    @property
    def handoff(self) -> AsyncHandoffs:
        """Contracts for whoever continues; each call is awaited."""
        from holdfast.sdk.handoffs import AsyncHandoffs

        return AsyncHandoffs(self._runtime)

    @property
    def sessions(self) -> AsyncSessions:
        """Conversations; each call is awaited."""
        from holdfast.sdk.sessions import AsyncSessions

        return AsyncSessions(self._runtime)

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
        """Run a flow; a plain one runs in a thread. See Holdfast.run."""
        options = {"task": task, "fresh": fresh, "session": session, "trace_id": trace_id, "meta": meta}
        spec, begun = self._begin(flow, args, kwargs, options)
        return begun if isinstance(begun, Outcome) else await self._runtime.go_on_async(begun, spec)

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
        import asyncio

        options = {"task": task, "fresh": fresh, "session": session, "trace_id": trace_id, "meta": meta}
        spec, begun = self._begin(flow, args, kwargs, options)
        if isinstance(begun, Outcome):
            done: asyncio.Future[Outcome[T]] = asyncio.get_running_loop().create_future()
            done.set_result(begun)
            return AsyncStarted(begun.run_id, done)
        going = asyncio.ensure_future(self._runtime.go_on_async(begun, spec))
        going.add_done_callback(lambda _: self._runtime.claimed.discard(begun.run.id))  # cancelled before it began
        return AsyncStarted(begun.run.id, going)

    async def resume(
        self, run_id: str, *, accept: Iterable[str] = (), why: str = "", partial: str | None = None
    ) -> Outcome[Any]:
        """Continue a run by its id. See Holdfast.resume."""
        acceptance = _acceptance(accept, why, partial)
        claimed = self._runtime.claim(run_id)
        return await self._runtime.go_on_async(claimed, None, acceptance)

    async def replay(self, run_id: str) -> Replay:
        """Run a run's body on its receipts only. See Holdfast.replay."""
        return await self._runtime.replay_async(run_id)

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
        """A run around existing async code. See Holdfast.open."""
        import asyncio

        from holdfast.runtime.branches import Branches, watch_tasks

        watch_tasks(asyncio.get_running_loop())
        options = {"task": task, "fresh": fresh, "session": session, "trace_id": trace_id, "meta": meta}
        _, begun = self._open(name, options)
        if isinstance(begun, Outcome):
            _leave(begun)
        execution, _ = runner.prepare(self._runtime, begun, Acceptance())
        execution.branches = Branches(execution.turns(), can_park=False)
        with runner.body(self._runtime, execution) as ended:
            yield AsyncRun(execution)
        if ended.outcome is not None and ended.outcome.status == "waiting":
            _leave(ended.outcome)

    async def close(self) -> None:
        """Let go of the files. Runs of this process are asked to stop, and given time to do so."""
        from holdfast.runtime.async_calls import in_thread

        await in_thread(self._runtime.settle)
        await self._runtime.resources.close_loop()
        await in_thread(self._runtime.close)

    async def __aenter__(self) -> AsyncHoldfast:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _acceptance(accept: Iterable[str], why: str, partial: str | None) -> Acceptance:
    codes = (accept,) if isinstance(accept, str) else tuple(accept)
    if codes and not why.strip():
        raise NameInvalid("why", why, "say why you accept it; it is on the record")
    if partial not in (None, "keep", "restore"):
        raise NameInvalid("partial", str(partial), "use keep or restore")
    return Acceptance(codes, why, partial or "")


def _leave(outcome: Outcome[Any]) -> NoReturn:
    """Tell a script's user what is waited for, and exit 3."""
    print(str(RunWaiting(outcome.run_id, "; ".join(wait.says for wait in outcome.interrupts))), file=sys.stderr)
    raise SystemExit(3)
