"""Reaching Temporal, and what is said to it: start the workflow of a run, nudge it, end it, and which there are."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Collection, Iterable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    summary_of,
    task_queue_of,
    workflow_id,
)
from outlast.adapters.temporal.workflow import NUDGE, STATUS, WORKFLOW, RunRef, RunWorkflow
from outlast.errors import EngineUnreachable, ValueRefused

if TYPE_CHECKING:
    from outlast.runs.queues.engine import EngineRun

FLOW, TASK = SearchAttributeKey.for_keyword("OutlastFlow"), SearchAttributeKey.for_keyword("OutlastTask")
TAGS = SearchAttributeKey.for_keyword_list("OutlastTags")
AT_ONCE = 32  # calls
TASK_SECONDS = timedelta(seconds=3)  # that a look of the workflow may take: a dead worker may have been given it


class Workflows:
    """The workflows of one tenant's ledger."""

    def __init__(
        self,
        client: Client,
        tenant: str,
        mark: str,
        heartbeat_seconds: float,
        attributes: Collection[str] = (),
        console: str = "",
    ) -> None:
        """`attributes`: the search attributes that the namespace has; `console`: where our own pages are."""
        self.client, self._tenant, self._mark, self._heartbeat_seconds = client, tenant, mark, heartbeat_seconds
        self._attributes, self._console = attributes, console

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
