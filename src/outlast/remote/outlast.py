"""`Outlast("http://…")`: the surface of a home, over HTTP. What it says of files is seen where the client is.

Every method is one of the embedded surface (`python/outlast.py`, `python/shared.py`), with its signature and its
errors. What needs the process that has the home is refused with `embedded_only`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.care.audit.audit import audit_flow
from outlast.clock import moment
from outlast.errors import EmbeddedOnly, NameInvalid
from outlast.flows.loading import names_a_flow
from outlast.home.caller import ACTOR, LOCAL, supposed
from outlast.home.home import nobody
from outlast.home.place import check_text
from outlast.operations.table import OPERATIONS
from outlast.python.async_outlast import AsyncOutlast
from outlast.python.awaited import AsyncStarted, Started, awaited, to_its_end
from outlast.python.decorators import Flow, FlowFile
from outlast.python.handoffs import Inbox, inbox_of
from outlast.python.outlast import Outlast
from outlast.python.shared import FlowCall, Shared, url_of
from outlast.remote import runs as client_events
from outlast.remote.calls import Given, answer_of, ask, checked_json, embedded_only, from_operations, like, page_of
from outlast.remote.handoffs import RemoteHandoffs
from outlast.remote.line import ClientPatience, Line, Who
from outlast.remote.observe import close_client, open_client
from outlast.remote.runs import GivenReceipts, RemoteSchedules, Runs
from outlast.remote.tasks import RemoteSessions, RemoteTasks
from outlast.remote.workspace import RemoteWorkspace
from outlast.runs.find import run_query, time_of
from outlast.runs.run import Outcome, RunRecord
from outlast.values.ambient import begin

if TYPE_CHECKING:
    from outlast.care.audit.flow import Audit
    from outlast.commands.logs import CommandLog
    from outlast.runs.events import HomeEvent
    from outlast.runs.look import Displaced
    from outlast.runs.plan import Plan
    from outlast.runs.receipt import Event
    from outlast.runs.waits.interrupt import Interrupt

JsonMap = Mapping[str, Any]
AT_HOME = "do it where the home is: Outlast(PATH), or the command of the same name there"
FOLLOW = "logs(RUN) gives what was printed so far; follow_events(RUN) tells when there is more"
ON_SERVER = "flows run at the server: `outlast serve --flows MODULE`, then outlast.run(flow)"


@from_operations("", Shared)
class RemoteShared(Shared):
    """What both surfaces of a client share."""

    @like(Shared.__init__)
    def __init__(self, given: Given) -> None:
        if given["blobs"] is not None:
            raise EmbeddedOnly("blobs", "a server keeps content where its own home says: outlast serve --blobs URL")
        who = Who(given["tenant"], given["scope"], given["actor"] or os.environ.get(ACTOR) or LOCAL)
        self._line = Line(url_of(given["home"]), given["key"], who, _patience(given["store_options"] or {}))
        self._executor = open_client(self._line, who, given["clock"], given["ids"], given["settings"])
        self._runs = Runs(self._line, self._executor.home)

    @property
    def _url(self) -> str:  # type: ignore[override]
        return str(self._line.url)

    def _show_claims(self, claims: Iterable[str]) -> None:
        for claim_id in claims:
            self._line.take(claim_id)

    @property
    def home(self) -> Path:
        """A server keeps everything where it is."""
        raise EmbeddedOnly("Outlast.home", f"everything is kept by {self._line.url}")

    def _project(self) -> Path | None:
        return None  # its files may be here as well, but nobody knows where

    # -- what embedded is refused before anything is looked for ----------------------------------

    def _check_skip(self, given: Given) -> None:
        check_text("why", given["why"])
        if not given["why"].strip():
            raise NameInvalid("why", given["why"], "say why the step is skipped; it is on the record")
        checked_json(given, "result")

    def _check_fork(self, given: Given) -> None:
        checked_json(given, "inputs", "state")

    def _check_answer(self, given: Given) -> None:
        checked_json(given, "answer")

    def _check_signal(self, given: Given) -> None:
        checked_json(given, "body")

    def _check_restore_outputs(self, given: Given) -> None:
        given["paths"] = list(given["paths"])

    def _check_acts(self, given: Given) -> None:
        given["since"] = _iso(time_of("since", given["since"], self._executor.home.clock.now()))

    # -- looking ---------------------------------------------------------------------------------

    @like(Shared.runs)
    def runs(self, given: Given) -> list[RunRecord]:
        named = {name: value for name, value in given.items() if name not in ("limit", "cursor")}
        asked = run_query(self._executor.home.clock.now(), **named)
        given |= {name: _iso(getattr(asked, name)) for name in ("since", "until")} | {"started_by": given.pop("actor")}
        found: list[RunRecord] = answer_of(self._line, OPERATIONS["run_list"], given)
        return found

    @like(Shared.displaced)
    def displaced(self, given: Given) -> list[Displaced]:
        raw = ask(self._line, OPERATIONS["run_displaced"], given).raw
        return [client_events.displaced_of(self._line, each) for each in page_of(raw)[0]]

    @like(Shared.logs)
    def logs(self, given: Given) -> list[CommandLog]:
        raw = ask(self._line, OPERATIONS["run_logs"], given).raw
        return [client_events.log_of(self._line, given["run_id"], each) for each in page_of(raw)[0]]

    @like(Shared.interrupts)
    def interrupts(self, given: Given) -> list[Interrupt]:
        found: list[Interrupt] = answer_of(self._line, OPERATIONS["interrupt_list"], given)
        return found

    @like(Shared.inbox)
    def inbox(self, given: Given) -> Inbox:
        waits = answer_of(self._line, OPERATIONS["interrupt_inbox"], given)
        handoffs = RemoteHandoffs(self._line, self._executor)  # judged by the files that are here
        return inbox_of(waits, handoffs, given["assignee"], given["type"])

    def _check_plan(self, given: Given) -> None:
        given["accept"] = supposed(given["accept"], given["partial"]).codes

    @like(Shared.check_writable)
    def check_writable(self, given: Given) -> None:
        self._line.ask("GET", "/readyz")

    @like(Shared.audit)
    def audit(self, given: Given) -> Audit:
        target = given["flow_or_run"]
        if isinstance(target, Flow | FlowFile):
            return audit_flow(target.spec)
        if names_a_flow(str(target)):
            raise EmbeddedOnly("an audit of a flow by its name", "give the flow itself, or the id of a run")
        found: Audit = answer_of(self._line, OPERATIONS["run_audit"], {"run_id": str(target)})
        return found

    # -- what needs the home ---------------------------------------------------------------------

    follow_logs = embedded_only(Shared.follow_logs, FOLLOW)
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

    def _attempts(self, run_id: str) -> GivenReceipts:
        """Its receipts, which a server gives in pages."""
        return GivenReceipts(self.receipts(run_id))

    def _plan_of_rest(self, run_id: str) -> Plan:
        return self.plan(run_id)

    def _look_once(self) -> None:
        """A server reads for many."""

    def _whole(self, run_id: str) -> tuple[RunRecord, GivenReceipts]:
        return self.get(run_id), self._attempts(run_id)

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
        return RemoteHandoffs(self._line, self._executor)

    @property
    def sessions(self) -> RemoteSessions:
        """Conversations."""
        return RemoteSessions(self._line, self._executor.caller)

    @property
    def workspace(self) -> RemoteWorkspace:
        """Content that outlives a run."""
        return RemoteWorkspace(self._line, self._executor.caller)

    @property
    def tasks(self) -> RemoteTasks:
        """Tasks of a host."""
        return RemoteTasks(self._line, self._executor)

    def _run(self, call: FlowCall) -> Outcome[Any]:
        """At the server, which knows the flow by its name. Ctrl-C ends the waiting, not the run. Raises NoFlows."""
        return self._runs.finish(self._runs.begin(call), call)

    def _start(self, call: FlowCall) -> Started[Any]:
        begun = self._runs.begin(call, look=0.0)
        started: Started[Any] = Started(begun.run_id, begun.notes)
        wait = lambda: self._runs.finish(begun, call)  # noqa: E731
        thread = threading.Thread(target=started._work, args=(wait,), name=f"outlast-{begun.run_id}", daemon=True)
        begin(thread, f"waiting for run {begun.run_id}")
        return started

    @like(Outlast.resume)
    def resume(self, given: Given) -> Outcome[Any]:
        """Its result is plain JSON: only the server has the flow's types. Raises NoFlows."""
        return self._runs.until_over(self._runs.resume(**given))

    def _wake(self, run_id: str) -> Outcome[Any]:
        return self.resume(run_id)

    @like(Outlast.wait)
    def wait(self, given: Given) -> Outcome[Any]:
        return self._runs.wait(given["run_id"], given["timeout"])

    replay = embedded_only(Outlast.replay, AT_HOME)
    worker = embedded_only(Outlast.worker, ON_SERVER)

    @property
    def schedules(self) -> RemoteSchedules:
        """Flows that the workers of the server run at certain times."""
        return RemoteSchedules(self._line)

    open = embedded_only(Outlast.open, ON_SERVER)

    @like(Outlast.follow_events)
    def follow_events(self, given: Given) -> Iterator[Event]:
        return client_events.follow(client_events.of_run(self._line, given["run_id"], given["after"]))

    @like(Outlast.follow_all_events)
    def follow_all_events(self, given: Given) -> Iterator[HomeEvent]:
        return client_events.follow(client_events.of_all(self._line, self._number(given), given))

    def _number(self, given: Given) -> int:
        """The number after which events are wanted: that of now, if none is given."""
        after = given.pop("after")
        return self.all_events().upto if after is None else int(after)

    @like(Outlast.close)
    def close(self, given: Given) -> None:
        self._let_go()


class AsyncRemoteOutlast(AsyncOutlast):
    """A home behind a URL, on an event loop."""

    blocking: RemoteOutlast
    _answers_go_on = True  # at the server, in its background

    async def _run(self, call: FlowCall) -> Outcome[Any]:
        runs = self.blocking._runs
        begun = await to_its_end(lambda: runs.begin(call))
        return await to_its_end(lambda: runs.finish(begun, call))

    async def _start(self, call: FlowCall) -> AsyncStarted[Any]:
        runs = self.blocking._runs
        begun = await to_its_end(lambda: runs.begin(call, look=0.0))
        waiting = to_its_end(lambda: runs.finish(begun, call))
        return AsyncStarted(begun.run_id, asyncio.ensure_future(waiting))

    resume = awaited(Outlast.resume)
    wait = awaited(Outlast.wait)
    replay = embedded_only(AsyncOutlast.replay, AT_HOME)
    worker = embedded_only(AsyncOutlast.worker, ON_SERVER)
    open = embedded_only(AsyncOutlast.open, ON_SERVER)
    follow_logs = embedded_only(AsyncOutlast.follow_logs, FOLLOW)

    @like(AsyncOutlast.follow_events)
    def follow_events(self, given: Given) -> AsyncIterator[Event]:
        return client_events.follow_async(client_events.of_run(self.blocking._line, given["run_id"], given["after"]))

    @like(AsyncOutlast.follow_all_events)
    def follow_all_events(self, given: Given) -> AsyncIterator[HomeEvent]:
        line, number = self.blocking._line, self.blocking._number(given)
        return client_events.follow_async(client_events.of_all(line, number, given))

    async def close(self) -> None:
        """Let go of the line. Runs of the server go on."""
        await to_its_end(self.blocking._let_go)


def _iso(at: int | None) -> str | None:
    return None if at is None else moment(at).isoformat()


def _patience(given: Mapping[str, Any]) -> ClientPatience:
    try:
        return ClientPatience(**given)
    except TypeError as error:
        known = ", ".join(ClientPatience.__struct_fields__)
        raise NameInvalid("store_options", str(dict(given))[:200], f"over HTTP it may have {known}") from error
