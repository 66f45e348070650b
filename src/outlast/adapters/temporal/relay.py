"""What tells Temporal, and how that is reached: the ledger is the outbox.

A run that can go on is ready in its queue, by the same commit that made it so, and stays ready until it is claimed.
So whoever tells may die at any time: who looks next tells it again. One process tells at once; the others only what
nobody has taken for a while. What Temporal missed, or has and should not, is found by comparing both now and then.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Callable, Collection, Coroutine, Iterable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from temporalio import converter
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.converter import PayloadCodec
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from outlast.adapters.temporal.settings import (
    TemporalSettings,
    flow_name,
    memo_of,
    prefix_of,
    run_of,
    summary_of,
    task_queue_of,
    workflow_id,
)
from outlast.adapters.temporal.workflow import NUDGE, STATUS, WORKFLOW, RunRef, RunWorkflow
from outlast.errors import EngineUnreachable, ValueRefused
from outlast.runs.events import EventQuery, read_home
from outlast.runs.queues import engine
from outlast.runs.run import FINISHED, TEMPORAL

if TYPE_CHECKING:
    from outlast.runs.queues.engine import EngineRun
    from outlast.worker.place import WorkPlace

T = TypeVar("T")
LATE_SECONDS = 3.0  # after which others than the first tell it too
AGAIN_SECONDS, LONGEST_SECONDS = 10.0, 300.0  # before it is told again; doubles
COMPARE_SECONDS = 30.0
ABORTED = EventQuery(name="run.aborted")
Do = Callable[[Coroutine[Any, Any, T]], T]


class ToldRun:
    """When a run was seen ready, and told."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.seen_at = epoch, time.monotonic()
        self.times, self.next_at = 0, 0.0

    def note(self) -> None:
        self.times += 1
        self.next_at = time.monotonic() + min(AGAIN_SECONDS * 2 ** (self.times - 1), LONGEST_SECONDS)


class Relay:
    """Tells Temporal of the runs of one home."""

    def __init__(self, place: WorkPlace, link: Workflows, do: Do[Any]) -> None:
        """`do` awaits on the loop that the link is on."""
        self._place, self._link, self._do = place, link, do
        self._home = place.executor.home
        self._told: dict[str, ToldRun] = {}
        self.queues: list[str] = []
        self._compare_at = 0.0
        self._upto = read_home(self._home, ABORTED, None, 0).upto  # before the first comparison

    def look(self) -> None:
        """Tell what there is to tell. Raises RPCError when Temporal is away: nothing is lost by that."""
        for _ in self._place.due():  # makes ready what can go on; what is in no queue is left to our own workers
            pass
        engine.wake_asked(self._place.executor.caller)
        queues = engine.queues_of(self._home, TEMPORAL)
        if queues != self.queues:
            self.queues, self._compare_at = queues, 0.0
        first = self._place.is_first()
        self._tell_ready(first)
        if first:
            self._tell_ended()
            if time.monotonic() >= self._compare_at:
                self._compare_at = time.monotonic() + COMPARE_SECONDS
                self._compare()

    # -- what can go on --------------------------------------------------------------------------

    def _tell_ready(self, first: bool) -> None:
        found = [run for queue in self.queues for run in engine.runs_in(self._home, queue, "delayed", "ready")]
        kept = {run.id: self._told.get(run.id) for run in found}
        self._told = {run.id: _same(kept[run.id], run) for run in found}
        now = time.monotonic()
        due = [run for run in found if self._is_due(run, first, now)]
        for run_id in self._do(self._link.tell((run, self._nudges(run)) for run in due)) if due else ():
            self._told[run_id].note()

    def _is_due(self, run: EngineRun, first: bool, now: float) -> bool:
        told = self._told[run.id]
        return now >= told.next_at and (first or now - told.seen_at >= LATE_SECONDS)

    def _nudges(self, run: EngineRun) -> bool:
        """Whether its workflow may be there, and wait. One that was never told has its first look when it starts."""
        return run.status != "queued" or self._told[run.id].times > 0

    # -- what has ended, or is somebody else's ---------------------------------------------------

    def _tell_ended(self) -> None:
        page = read_home(self._home, ABORTED, self._upto, 1000)
        for each in page.items:
            run = engine.EngineRun(each.event.run_id, each.scope, each.task, each.flow, "aborted", "", 0)
            self._do(self._link.nudge(workflow_id(self._home.tenant, run)))
        self._upto = page.upto

    def _compare(self) -> None:
        """Start what is missing in Temporal, and end what is there and should not be."""
        there = {run_of(each): (each, queue) for each, queue in self._do(self._link.open()).items()}
        ours = {run.id: run for queue in self.queues for run in engine.runs_in(self._home, queue)}
        missing = [run for run in ours.values() if run.id not in there and run.status != "failed"]
        self._do(self._link.tell((run, False) for run in missing))
        for run_id in there.keys() - ours.keys():
            self._settle(run_id, *there[run_id])

    def _settle(self, run_id: str, workflow: str, queue: str) -> None:
        """A workflow whose run has ended looks and ends; one of a queue that Temporal has no more is ended."""
        row = self._home.store.read(lambda look: look.run_by_id(run_id))
        if row is not None and row.status in FINISHED and queue in self.queues:
            self._do(self._link.nudge(workflow))
        elif row is not None:
            ended = row.status if row.status in FINISHED else "goes on"
            self._do(self._link.end(workflow, f"the run {ended} with Outlast's own workers"))


def _same(told: ToldRun | None, run: EngineRun) -> ToldRun:
    return told if told is not None and told.epoch == run.epoch else ToldRun(run.epoch)


# -- what is said to it: start the workflow of a run, nudge it, end it, and which there are --------------


FLOW, TASK = SearchAttributeKey.for_keyword("OutlastFlow"), SearchAttributeKey.for_keyword("OutlastTask")
TAGS = SearchAttributeKey.for_keyword_list("OutlastTags")
AT_ONCE = 32  # calls
TASK_SECONDS = timedelta(seconds=3)  # that a look of the workflow may take: a dead worker may have been given it


class Workflows:
    """The workflows of one tenant's ledger."""

    def __init__(
        self, client: Client, tenant: str, mark: str, settings: TemporalSettings, attributes: Collection[str]
    ) -> None:
        """`attributes`: the search attributes that the namespace has."""
        self.client, self._tenant, self._mark, self._attributes = client, tenant, mark, attributes
        self._heartbeat_seconds, self._console = settings.heartbeat_seconds, settings.console

    async def tell(self, runs: Iterable[tuple[EngineRun, bool]]) -> list[str]:
        """Start the workflow of each, or nudge it where there is one already (or only that: False). Those told."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(run: EngineRun, nudges: bool) -> str:
            async with gate:
                await self._start(run, nudges)
            return run.id

        done = await asyncio.gather(*(one(run, nudges) for run, nudges in runs), return_exceptions=True)
        for failed in done:
            if isinstance(failed, BaseException) and not isinstance(failed, RPCError):
                raise failed
        return [each for each in done if isinstance(each, str)]

    async def _start(self, run: EngineRun, nudges: bool) -> None:
        """Equal starts are one workflow. One that ended although its run goes on is started again: the ledger says."""
        for reuse in (WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY, WorkflowIDReusePolicy.ALLOW_DUPLICATE):
            try:
                await self.client.start_workflow(
                    RunWorkflow.run,
                    RunRef(self._tenant, run.id, self._heartbeat_seconds, shows_status=STATUS.name in self._attributes),
                    id=workflow_id(self._tenant, run),
                    task_queue=task_queue_of(run.queue, self._mark),
                    id_reuse_policy=reuse,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                    task_timeout=TASK_SECONDS,
                    memo=memo_of(self._tenant, run),
                    search_attributes=self._searched_by(run),
                    static_summary=summary_of(run),
                    static_details=f"[Outlast]({self._console.rstrip('/')}/runs/{run.id})" if self._console else None,
                    start_signal=NUDGE if nudges else None,
                )
            except WorkflowAlreadyStartedError:
                continue
            return

    def _searched_by(self, run: EngineRun) -> TypedSearchAttributes | None:
        found: list[SearchAttributePair[Any]] = [
            SearchAttributePair(FLOW, flow_name(run)),
            SearchAttributePair(TASK, run.task),
            SearchAttributePair(STATUS, "queued"),
            SearchAttributePair(TAGS, run.tags),
        ]
        known = [each for each in found if each.key.name in self._attributes]
        return TypedSearchAttributes(known) if known else None

    async def nudge(self, workflow: str) -> None:
        """Let a workflow look at its run, if it is there still."""
        try:
            await self.client.get_workflow_handle(workflow).signal(NUDGE)
        except RPCError as error:
            _unless_gone(error)

    async def end(self, workflow: str, why: str) -> None:
        """End a workflow whose run is another engine's, or that nobody looks at any more."""
        try:
            await self.client.get_workflow_handle(workflow).terminate(reason=why)
        except RPCError as error:
            _unless_gone(error)

    async def open(self) -> dict[str, str]:
        """The workflows of the ledger that are open, as Temporal last listed them: a moment ago. And their queues."""
        asked = f"WorkflowType = '{WORKFLOW}' AND ExecutionStatus = 'Running'"
        ours, there = f"{prefix_of(self._tenant)}/", task_queue_of("", self._mark)
        every = self.client.list_workflows(asked, page_size=1000)
        found = [each async for each in every if each.id.startswith(ours) and each.task_queue.endswith(there)]
        return {each.id: each.task_queue.removesuffix(there) for each in found}


async def attributes_of(client: Client) -> frozenset[str]:
    """Which of our search attributes the namespace has. Where that cannot be asked, none."""
    try:
        asked = ListSearchAttributesRequest(namespace=client.namespace)
        found = await client.operator_service.list_search_attributes(asked)
    except RPCError:
        return frozenset()
    return frozenset(key.name for key in (FLOW, TASK, STATUS, TAGS) if key.name in found.custom_attributes)


def _unless_gone(error: RPCError) -> None:
    if error.status != RPCStatusCode.NOT_FOUND:
        raise error


# -- reaching it, by TLS and with a codec where those are given ----------------------------------------


KEY = "TEMPORAL_API_KEY"  # of the environment: a command line is seen by others
CODEC = "give MODULE:NAME of a temporalio.converter.PayloadCodec"


async def connect(settings: TemporalSettings) -> Client:
    """Raises EngineUnreachable, ValueRefused."""
    more: dict[str, Any] = {"tls": _tls(settings), "api_key": os.environ.get(KEY) or None}
    if settings.codec:
        more["data_converter"] = dataclasses.replace(converter.default(), payload_codec=_codec(settings.codec))
    try:
        return await Client.connect(settings.address, namespace=settings.namespace, **more)
    except (RuntimeError, ValueError) as error:
        raise EngineUnreachable(settings.address, str(error)) from error


def _tls(settings: TemporalSettings) -> bool | TLSConfig:
    given = {
        "server_root_ca_cert": _file("tls_ca", settings.tls_ca),
        "client_cert": _file("tls_cert", settings.tls_cert),
        "client_private_key": _file("tls_key", settings.tls_key),
        "domain": settings.tls_server_name or None,
    }
    if any(given.values()):
        return TLSConfig(**given)  # type: ignore[arg-type]
    return settings.tls


def _file(name: str, path: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise ValueRefused(name, f"{path} cannot be read ({error.strerror})", "name a file in PEM") from error


def _codec(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueRefused("codec", f"{name!r:.100} is not there ({error})", CODEC) from error
    made = found() if isinstance(found, type) else found
    if not isinstance(made, PayloadCodec):
        raise ValueRefused("codec", f"{name!r:.100} is a {type(made).__name__}", CODEC)
    return made
