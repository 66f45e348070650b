"""Waiting for a run that somebody else runs: until it ends or waits, going on with it should whoever runs it die."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outlast.errors import RunFinished, RunHeld
from outlast.home.find import run_row
from outlast.runs import claim as claims
from outlast.runs.claim import RunClaim
from outlast.runs.repeated import ended
from outlast.runs.run import FINISHED, Outcome

if TYPE_CHECKING:
    from outlast.flows.spec import FlowSpec
    from outlast.home.caller import Caller

POLL_SECONDS = 0.05


class Awaited:
    """A run that is waited for: each look gives its outcome, the run itself once it can be taken up, or nothing yet."""

    def __init__(self, caller: Caller, run_id: str, seconds: float | None, spec: FlowSpec | None = None) -> None:
        self._caller, self.run_id, self.seconds, self._spec = caller, run_row(caller.home, run_id).id, seconds, spec
        self._until = None if seconds is None else time.monotonic() + seconds

    def look(self) -> Outcome[Any] | RunClaim | None:
        """How it stands once nobody runs it; a run whose owner died, claimed. Raises RunSealed."""
        row = run_row(self._caller.home, self.run_id)
        if row.status not in FINISHED:
            claims.refuse_sealed(row)  # it goes on elsewhere, if it does
        found = ended(self._caller, self._spec, row)
        if found.status == "crashed":
            return self._taken()
        return None if found.status == "running" else found

    def _taken(self) -> RunClaim | None:
        try:
            return claims.claim(self._caller, self.run_id)
        except (RunHeld, RunFinished):  # somebody was quicker
            return None

    def naps(self) -> Iterator[float]:
        """How long to wait before each further look. Ends when the time is over."""
        while self._until is None or (left := self._until - time.monotonic()) > 0:
            yield POLL_SECONDS if self._until is None else min(POLL_SECONDS, left)

    def late(self) -> TimeoutError:
        return TimeoutError(f"run {self.run_id} has not ended within {self.seconds} s")


def await_end(awaited: Awaited) -> Outcome[Any] | RunClaim:
    """The outcome of a run, or the run to go on with, once nobody runs it. Raises TimeoutError."""
    if (found := awaited.look()) is not None:
        return found
    for seconds in awaited.naps():
        time.sleep(seconds)
        if (found := awaited.look()) is not None:
            return found
    raise awaited.late()


async def await_end_async(awaited: Awaited) -> Outcome[Any] | RunClaim:
    """The same on an event loop."""
    import asyncio

    if (found := awaited.look()) is not None:
        return found
    for seconds in awaited.naps():
        await asyncio.sleep(seconds)
        if (found := awaited.look()) is not None:
            return found
    raise awaited.late()
