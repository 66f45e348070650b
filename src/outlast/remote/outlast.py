"""`Outlast("http://…")`: the surface of a home, over HTTP. What it says of files is seen where the client is.

Every method is one of the embedded surface (`python/outlast.py`, `python/shared.py`), with its signature and its
errors. What needs the process that has the home is refused with `embedded_only`.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.clock import Clock
from outlast.errors import EmbeddedOnly, NameInvalid
from outlast.home.home import nobody
from outlast.home.settings import Settings
from outlast.ids import Ids, random_id
from outlast.python.awaited import AsyncStarted, Started, _to_its_end
from outlast.python.decorators import Flow, FlowFile
from outlast.python.outlast import AsyncOutlast, Outlast
from outlast.python.shared import Shared, url_of
from outlast.remote import events as client_events
from outlast.remote.calls import (
    Given,
    all_items,
    checked_json,
    cursor_at,
    embedded_only,
    items,
    like,
    read,
    value_of,
    write,
)
from outlast.remote.line import ClientPatience, Line, Who
from outlast.remote.place import close_client, open_client
from outlast.remote.runs import Runs
from outlast.runs.options import Options
from outlast.runs.plan import Plan
from outlast.runs.receipt import Event, Receipt
from outlast.runs.run import STATUSES, Outcome, RunRecord
from outlast.runs.timeline import TimelineItem
from outlast.values.ambient import begin

if TYPE_CHECKING:
    from outlast.care.audit.flow import Audit
    from outlast.care.verify import Verification
    from outlast.commands.logs import CommandLog
    from outlast.python.handoffs import AsyncHandoffs
    from outlast.python.inbox import Inbox
    from outlast.python.sessions import AsyncSessions
    from outlast.python.tasks import AsyncTasks
    from outlast.python.workspace import AsyncWorkspace
    from outlast.remote.handoffs import RemoteHandoffs
    from outlast.remote.sessions import RemoteSessions
    from outlast.remote.tasks import RemoteTasks
    from outlast.remote.workspace import RemoteWorkspace
    from outlast.runs.displaced import Displaced
    from outlast.runs.due import Due
    from outlast.runs.outputs import Output
    from outlast.runs.restored_outputs import RestoredOutputs
    from outlast.runs.waits.interrupt import Interrupt
    from outlast.runs.waits.signal import Signal

T = TypeVar("T")
JsonMap = Mapping[str, Any]
RUN = "/v1/runs/{run_id}"
AT_HOME = "do it where the home is: Outlast(PATH), or the command of the same name there"
ON_SERVER = "flows run at the server: `outlast serve --flows MODULE`, then outlast.run(flow)"


class RemoteShared(Shared):
    """What both surfaces of a client share."""

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        key: str | None = None,
        tenant: str = "default",
        scope: str = "default",
        actor: str = "local",
        clock: Clock | None = None,
        ids: Ids = random_id,
        settings: Settings | None = None,
        store_options: Mapping[str, Any] | None = None,
    ) -> None:
        who = Who(tenant, scope, actor)
        self._line = Line(url_of(home), key, who, _patience(store_options or {}))
        self._executor = open_client(self._line, who, clock, ids, settings)
        self._runs = Runs(self._line, self._executor.home)

    @property
    def home(self) -> Path:
        """A server keeps everything where it is."""
        raise EmbeddedOnly("Outlast.home", f"everything is kept by {self._line.url}")

    # -- the person's choices --------------------------------------------------------------------

    @like(Shared.retry)
    def retry(self, given: Given) -> RunRecord:
        return self._decided("retry", given)

    @like(Shared.skip)
    def skip(self, given: Given) -> RunRecord:
        if not given["why"].strip():
            raise NameInvalid("why", given["why"], "say why the step is skipped; it is on the record")
        checked_json(given, "result")
        return self._decided("skip", given)

    @like(Shared.rewind)
    def rewind(self, given: Given) -> RunRecord:
        return self._decided("rewind", given)

    @like(Shared.fork)
    def fork(self, given: Given) -> RunRecord:
        checked_json(given, "inputs", "state")
        return self._decided("fork", given)

    @like(Shared.abort)
    def abort(self, given: Given) -> RunRecord:
        return self._decided("abort", given)

    @like(Shared.pause)
    def pause(self, given: Given) -> RunRecord:
        return self._decided("pause", given)

    def _decided(self, verb: str, given: Given) -> RunRecord:
        return value_of(write(self._line, f"{RUN}/{verb}", given).raw, RunRecord)

    @like(Shared.answer)
    def answer(self, given: Given) -> Interrupt:
        checked_json(given, "answer")
        return self._wait("answer", given)

    @like(Shared.cancel)
    def cancel(self, given: Given) -> Interrupt:
        return self._wait("cancel", given)

    def _wait(self, verb: str, given: Given) -> Interrupt:
        from outlast.runs.waits.interrupt import Interrupt

        return value_of(write(self._line, f"/v1/interrupts/{{interrupt_id}}/{verb}", given).raw, Interrupt)

    @like(Shared.signal)
    def signal(self, given: Given) -> Signal:
        from outlast.runs.waits.signal import Signal

        checked_json(given, "body")
        return value_of(write(self._line, "/v1/signals", given).raw, Signal)

    # -- looking ---------------------------------------------------------------------------------

    @like(Shared.get)
    def get(self, given: Given) -> RunRecord:
        return read(self._line, RUN, given, RunRecord)

    @like(Shared.runs)
    def runs(self, given: Given) -> list[RunRecord]:
        limit, before = given.pop("limit"), given.pop("before")
        if given["status"] not in (None, *STATUSES):
            return []  # no run has it
        cursor = cursor_at(before) if before is not None else ""
        return [value_of(each, RunRecord) for each in items(self._line, "/v1/runs", given, limit, cursor)]

    @like(Shared.receipts)
    def receipts(self, given: Given) -> list[Receipt]:
        return [value_of(each, Receipt) for each in items(self._line, f"{RUN}/receipts", given)]

    @like(Shared.events)
    def events(self, given: Given) -> list[Event]:
        limit = given.pop("limit")
        return [value_of(each, Event) for each in items(self._line, f"{RUN}/events", given, limit)]

    @like(Shared.timeline)
    def timeline(self, given: Given) -> list[TimelineItem]:
        return [value_of(each, TimelineItem) for each in all_items(self._line, f"{RUN}/timeline", given)]

    @like(Shared.outputs)
    def outputs(self, given: Given) -> list[Output]:
        from outlast.runs.outputs import Output

        return [value_of(each, Output) for each in all_items(self._line, f"{RUN}/outputs", given)]

    @like(Shared.restore_outputs)
    def restore_outputs(self, given: Given) -> RestoredOutputs:
        from outlast.runs.restored_outputs import RestoredOutputs

        given["paths"] = list(given["paths"])
        return value_of(write(self._line, f"{RUN}/outputs/restore", given).raw, RestoredOutputs)

    @like(Shared.displaced)
    def displaced(self, given: Given) -> list[Displaced]:
        from outlast.remote.events import displaced_of

        return [displaced_of(self._line, each) for each in all_items(self._line, f"{RUN}/displaced", given)]

    @like(Shared.logs)
    def logs(self, given: Given) -> list[CommandLog]:
        from outlast.remote.events import log_of

        found = all_items(self._line, f"{RUN}/logs", given)
        return [log_of(self._line, given["run_id"], each) for each in found]

    @like(Shared.interrupts)
    def interrupts(self, given: Given) -> list[Interrupt]:
        from outlast.runs.waits.interrupt import Interrupt

        return [value_of(each, Interrupt) for each in items(self._line, "/v1/interrupts", given)]

    @like(Shared.interrupt)
    def interrupt(self, given: Given) -> Interrupt:
        from outlast.runs.waits.interrupt import Interrupt

        return read(self._line, "/v1/interrupts/{interrupt_id}", given, Interrupt)

    @like(Shared.inbox)
    def inbox(self, given: Given) -> Inbox:
        from outlast.python.inbox import inbox_of
        from outlast.remote.handoffs import RemoteHandoffs
        from outlast.runs.inbox import InboxItem

        waits = [value_of(each, InboxItem) for each in all_items(self._line, "/v1/inbox", given)]
        return inbox_of(
            waits, RemoteHandoffs(self._line, self._executor), given["assignee"], given["type"]
        )  # judged by the files that are here

    @like(Shared.due)
    def due(self, given: Given) -> list[Due]:
        from outlast.runs.due import Due

        return [value_of(each, Due) for each in all_items(self._line, "/v1/due", given)]

    @like(Shared.plan)
    def plan(self, given: Given) -> Plan:
        from outlast.home.acceptance import supposed

        given["accept"] = supposed(given["accept"], given["partial"]).codes
        return read(self._line, f"{RUN}/plan", given, Plan)

    @like(Shared.check_writable)
    def check_writable(self, given: Given) -> None:
        self._line.ask("GET", "/readyz")

    @like(Shared.facts)
    def facts(self, given: Given) -> dict[str, Any]:
        return read(self._line, "/v1/facts", given, dict[str, Any])

    @like(Shared.audit)
    def audit(self, given: Given) -> Audit:
        from outlast.care.audit.audit import audit_flow, names_a_flow
        from outlast.care.audit.flow import Audit

        target = given["flow_or_run"]
        if isinstance(target, Flow | FlowFile):
            return audit_flow(target.spec)
        if names_a_flow(str(target)):
            raise EmbeddedOnly("an audit of a flow by its name", "give the flow itself, or the id of a run")
        return read(self._line, f"{RUN}/audit", {"run_id": str(target)}, Audit)

    @like(Shared.verify)
    def verify(self, given: Given) -> Verification:
        from outlast.care.verify import Verification

        return read(self._line, "/v1/verify", given, Verification)

    # -- what needs the home ---------------------------------------------------------------------

    follow_logs = embedded_only(
        Shared.follow_logs, "logs(RUN) gives what was printed so far; follow_events(RUN) tells when there is more"
    )
    mirror = embedded_only(Shared.mirror, AT_HOME)
    export = embedded_only(Shared.export, AT_HOME)
    import_ = embedded_only(Shared.import_, AT_HOME)
    gc = embedded_only(Shared.gc, AT_HOME)
    backup = embedded_only(Shared.backup, AT_HOME)
    resource = embedded_only(Shared.resource, "provide it at the server: @resource(KEY) in a module of `--flows`")

    # -- this process ----------------------------------------------------------------------------

    @like(Shared.listen)
    def listen(self, given: Given) -> None:
        self._executor.home.tell = given["notes"] or nobody  # commands print where the server is

    def _maps(self, run_id: str) -> dict[str, tuple[int, int]]:
        """None: what a server executes is not executed here."""
        return {}

    def _labels(self, run_id: str) -> Callable[[str], str]:
        """None, as above."""
        return lambda call: ""

    def act_for_terminal(self, *claims: str) -> None:
        """Show these claims with each request: whoever shows a claim is its claimer."""
        for claim in claims:
            self._line.hold(claim)

    @like(Shared.stop)
    def stop(self, given: Given) -> bool:
        return True  # nothing runs in this process: who waits here is ended by an exception

    def _receive_when(self, when: str) -> None:
        """What a server started is read by its id."""

    def _receive(self, outcome: Outcome[Any]) -> None:
        """What a server started is read by its id."""

    @like(Shared.probing)
    def probing(self, given: Given) -> dict[str, tuple[str, float]]:
        return {}  # nothing runs in this process

    def _let_go(self) -> None:
        close_client(self._executor)
        self._line.close()


class RemoteOutlast(RemoteShared, Outlast):
    """A home behind a URL, blocking."""

    @property
    def handoff(self) -> RemoteHandoffs:
        """Contracts for whoever continues; files are looked at here."""
        from outlast.remote.handoffs import RemoteHandoffs

        return RemoteHandoffs(self._line, self._executor)

    @property
    def sessions(self) -> RemoteSessions:
        """Conversations."""
        from outlast.remote.sessions import RemoteSessions

        return RemoteSessions(self._line, self._executor.caller)

    @property
    def workspace(self) -> RemoteWorkspace:
        """Content that outlives a run."""
        from outlast.remote.workspace import RemoteWorkspace

        return RemoteWorkspace(self._line, self._executor.caller)

    @property
    def tasks(self) -> RemoteTasks:
        """Tasks of a host."""
        from outlast.remote.tasks import RemoteTasks

        return RemoteTasks(self._line, self._executor)

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
        """Run a flow at the server, which knows it by its name, and wait. Ctrl-C ends the waiting, not the run.

        Raises NoFlows when the server was not given the flow, and what Outlast.run raises.
        """
        return self._run(self._asked(task, fresh, session, trace_id, meta), flow, args, kwargs)

    def _run(
        self, options: Options, flow: Flow[..., T] | FlowFile, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Outcome[T]:
        begun = self._runs.begin(flow, args, kwargs, options)
        return self._runs.finish(begun, flow.spec.decode, options)

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
        """Like run, without waiting. The run is durable before this returns."""
        return self._start(self._asked(task, fresh, session, trace_id, meta), flow, args, kwargs)

    def _start(
        self, options: Options, flow: Flow[..., T] | FlowFile, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Started[T]:
        begun = self._runs.begin(flow, args, kwargs, options, look=0.0)
        started: Started[T] = Started(begun.run_id, begun.notes)
        wait = lambda: self._runs.finish(begun, flow.spec.decode, options)  # noqa: E731
        thread = threading.Thread(target=started._work, args=(wait,), name=f"outlast-{begun.run_id}", daemon=True)
        begin(thread, f"waiting for run {begun.run_id}")
        return started

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
        """Continue a run at the server, and wait. Its result is plain JSON: only the server has the flow's types.

        `flow` goes on with the flow of that name that the server was given. Raises NoFlows.
        """
        return self._runs.until_over(self._runs.resume(run_id, accept, why, partial, flow, take))

    def wait(self, run_id: str, *, timeout: float | None = None) -> Outcome[Any]:
        """How a run of the server stands once nobody runs it. See Outlast.wait."""
        return self._runs.wait(run_id, timeout)

    replay = embedded_only(Outlast.replay, AT_HOME)
    open = embedded_only(Outlast.open, ON_SERVER)

    @like(Outlast.follow_events)
    def follow_events(self, given: Given) -> Iterator[Event]:
        return client_events.follow(self._line, given["run_id"], given["after"])

    @like(Outlast.close)
    def close(self, given: Given) -> None:
        self._let_go()


class AsyncRemoteOutlast(RemoteShared, AsyncOutlast):
    """A home behind a URL, on an event loop."""

    @property
    def handoff(self) -> AsyncHandoffs:
        """Contracts for whoever continues; each call is awaited."""
        from outlast.python.handoffs import AsyncHandoffs
        from outlast.remote.handoffs import RemoteHandoffs

        return _twin(AsyncHandoffs, RemoteHandoffs(self._line, self._executor))

    @property
    def sessions(self) -> AsyncSessions:
        """Conversations; each call is awaited."""
        from outlast.python.sessions import AsyncSessions
        from outlast.remote.sessions import RemoteSessions

        return _twin(AsyncSessions, RemoteSessions(self._line, self._executor.caller))

    @property
    def workspace(self) -> AsyncWorkspace:
        """Artifacts, records and checkpoints; each call is awaited."""
        from outlast.python.workspace import AsyncWorkspace
        from outlast.remote.workspace import RemoteWorkspace

        return _twin(AsyncWorkspace, RemoteWorkspace(self._line, self._executor.caller))

    @property
    def tasks(self) -> AsyncTasks:
        """Tasks of a host; each call is awaited."""
        from outlast.python.tasks import AsyncTasks
        from outlast.remote.tasks import RemoteTasks

        return _twin(AsyncTasks, RemoteTasks(self._line, self._executor))

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
        """Run a flow at the server and wait; cancelling ends the waiting, not the run. See Outlast.run."""
        return await self._run(self._asked(task, fresh, session, trace_id, meta), flow, args, kwargs)

    async def _run(
        self, options: Options, flow: Flow[..., T] | FlowFile, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Outcome[T]:
        begun = await _to_its_end(lambda: self._runs.begin(flow, args, kwargs, options))
        return await _to_its_end(lambda: self._runs.finish(begun, flow.spec.decode, options))

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
        """Like run, without waiting. The run is durable before this returns."""
        return await self._start(self._asked(task, fresh, session, trace_id, meta), flow, args, kwargs)

    async def _start(
        self, options: Options, flow: Flow[..., T] | FlowFile, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AsyncStarted[T]:
        import asyncio

        begun = await _to_its_end(lambda: self._runs.begin(flow, args, kwargs, options, look=0.0))
        waiting = _to_its_end(lambda: self._runs.finish(begun, flow.spec.decode, options))
        return AsyncStarted(begun.run_id, asyncio.ensure_future(waiting))

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
        """Continue a run at the server, and wait. See Outlast.resume."""
        begun = await _to_its_end(lambda: self._runs.resume(run_id, accept, why, partial, flow, take))
        return await _to_its_end(lambda: self._runs.until_over(begun))

    async def wait(self, run_id: str, *, timeout: float | None = None) -> Outcome[Any]:
        """How a run of the server stands once nobody runs it. See Outlast.wait."""
        return await _to_its_end(lambda: self._runs.wait(run_id, timeout))

    replay = embedded_only(AsyncOutlast.replay, AT_HOME)
    open = embedded_only(AsyncOutlast.open, ON_SERVER)

    def follow_events(self, run_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """The events of a run as they come: `async for event in outlast.follow_events(run)`."""
        return client_events.follow_async(self._line, run_id, after)

    async def close(self) -> None:
        """Let go of the line. Runs of the server go on."""
        await _to_its_end(self._let_go)


def _twin(kind: type[T], blocking: Any) -> T:
    """The awaited surface of something blocking."""
    made = object.__new__(kind)
    vars(made)["blocking"] = blocking
    return made


def _patience(given: Mapping[str, Any]) -> ClientPatience:
    try:
        return ClientPatience(**given)
    except TypeError as error:
        known = ", ".join(ClientPatience.__dataclass_fields__)
        raise NameInvalid("store_options", str(dict(given))[:200], f"over HTTP it may have {known}") from error
