"""The server goes on with the runs that can go on by themselves: when it starts, and every so often.

Crashed ones, those that a shutdown stopped, answered ones and those whose time has come: of every tenant, of the flows
that it serves, so many at a time. One that is refused is told in the log, and tried again after a while.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from outlast.errors import NoFlows, OutlastError, RunFinished, RunHeld

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.state import State
    from outlast.python.started import Started

REFUSED_SECONDS = 600.0  # before a run that was refused is tried again


class Waking:
    """Looks for what is due, and goes on with it in the background of the server."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._awake: set[tuple[str, str]] = set()  # tenant and run, of those that go on
        self._refused: dict[tuple[str, str], float] = {}  # and of those that were refused: until when

    async def live(self) -> None:
        """Look until cancelled. A server without flows wakes nothing, and nor does one that was told not to."""
        settings = self._state.settings
        while settings.wake_seconds and settings.flows:
            try:
                await self._state.threads.starts(self.look, "waking")
            except Exception as error:  # of the disk, say: the next look may fare better
                self._state.log.failed(error, wake="look")
            await asyncio.sleep(settings.wake_seconds)

    def look(self) -> None:
        """Wake what is due in every tenant."""
        for tenant in self._state.tenants.names():
            try:
                outlast = self._state.tenants.open(tenant, make=False)
                self._wake_due(tenant, outlast)
            except OutlastError as error:  # one home that cannot be read keeps no other from going on
                self._state.log.line("warning", wake="look", tenant=tenant, error=f"{error.code}: {error}")

    def _wake_due(self, tenant: str, outlast: Outlast) -> None:
        for one in outlast.due():
            if len(self._awake) >= self._state.settings.wake_runs or self._state.ending.is_set():
                return
            if self._may_wake(tenant, one.run_id):
                self._wake(tenant, one.run_id, outlast)

    def _may_wake(self, tenant: str, run_id: str) -> bool:
        self._refused = {each: until for each, until in self._refused.items() if until > time.monotonic()}
        return (tenant, run_id) not in self._refused and (tenant, run_id) not in self._awake

    def _wake(self, tenant: str, run_id: str, outlast: Outlast) -> None:
        self._awake.add((tenant, run_id))
        try:
            self._state.flows.refuse_unserved(outlast, outlast.get(run_id))
            started = outlast._acting()._resume_soon(run_id)
        except OutlastError as error:
            self._over(tenant, run_id, error)
            return
        self._state.log.line("info", wake="resumed", tenant=tenant, run_id=run_id)
        started.when_done(partial(self._ended, tenant, run_id, started))

    def _ended(self, tenant: str, run_id: str, started: Started[object]) -> None:
        try:
            started.outcome(0)
        except BaseException as error:
            self._over(tenant, run_id, error)
        else:
            self._awake.discard((tenant, run_id))

    def _over(self, tenant: str, run_id: str, error: BaseException) -> None:
        """It did not go on: that somebody else has it, or serves its flow, is no trouble, everything else is told."""
        self._awake.discard((tenant, run_id))
        if isinstance(error, RunHeld | RunFinished | NoFlows):
            return
        self._refused[tenant, run_id] = time.monotonic() + REFUSED_SECONDS
        why = f"{error.code}: {error}" if isinstance(error, OutlastError) else f"{type(error).__name__}: {error}"
        self._state.log.line("warning", wake="refused", tenant=tenant, run_id=run_id, error=why)
