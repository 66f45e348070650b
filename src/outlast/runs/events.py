"""Reading the journal of a run: as events, also while it grows, and as a timeline."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from outlast.runs.receipt import Event, events_of
from outlast.store.contract import RunRow

if TYPE_CHECKING:
    from outlast.home.home import Runtime
    from outlast.runs.timeline import TimelineItem

PAGE = 1000
POLL_SECONDS = 0.2


def read(runtime: Runtime, row: RunRow, after: int, limit: int) -> list[Event]:
    """The events there are after `after`, the oldest first, `limit` at most."""
    return events_of(row.id, runtime.store.read(lambda look: look.journal_of(row.key, after, limit)), row.trace_id)


class Following:
    """A reader of a run's events that knows how far it has come and whether more may follow."""

    def __init__(self, runtime: Runtime, run_id: str, after: int) -> None:
        self._runtime, self._row, self._after = runtime, runtime.row(run_id), after
        self.going = True

    def news(self) -> Iterator[Event]:
        """Those that have come since. Of a run that nobody runs any more these are the last."""
        self.going = self._runtime.record(self._row).status == "running"  # before its journal is read
        while page := read(self._runtime, self._row, self._after, PAGE):
            self._after = page[-1].seq
            yield from page


def follow(following: Following) -> Iterator[Event]:
    """Events as they come, until a run that nobody runs any more has no further ones."""
    while True:
        yield from following.news()
        if not following.going:
            return
        time.sleep(POLL_SECONDS)


async def follow_async(following: Following) -> AsyncIterator[Event]:
    """The same on an event loop."""
    import asyncio

    while True:
        for event in following.news():
            yield event
        if not following.going:
            return
        await asyncio.sleep(POLL_SECONDS)


def timeline(runtime: Runtime, run_id: str) -> list[TimelineItem]:
    """Everything that happened in a run, in order, from the ledger alone."""
    from outlast.runs import journal
    from outlast.runs.look import interrupt_of
    from outlast.runs.timeline import timeline_of

    row = runtime.row(run_id)
    status = runtime.record(row).status  # before its journal is read
    kept, waits = runtime.store.read(lambda look: (journal.read(look, row), look.interrupts_of(row.key)))
    return timeline_of(row.id, status, kept.rows, [interrupt_of(wait) for wait in waits])
