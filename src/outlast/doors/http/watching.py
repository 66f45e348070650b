"""Watching runs: one look at a run serves everybody who follows it, however many they are.

A watch reads the journal at short intervals while somebody follows, makes each new event into bytes once, and keeps the
newest of them. A follower has only a place in the journal: what is kept beyond it is sent from memory, and one who is
further behind reads the journal himself. So nothing is lost or sent twice, and a slow follower costs nobody anything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from outlast.errors import OutlastError, StoreFailed
from outlast.values.codec import encode

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.state import State
    from outlast.runs.receipt import Event

PAGE = 1000
KEPT = 2000  # events in memory for each run that is watched
SLOWER = 5  # between two looks at a run that nobody runs now


class Frame(NamedTuple):
    """An event, ready to be sent."""

    seq: int
    text: bytes


class Follower:
    """Somebody who follows a run; woken when there may be something to do."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.gone = False

    def leave(self) -> None:
        self.gone = True
        self.wake.set()


class Watch:
    """A run that is followed."""

    def __init__(self, state: State, outlast: Outlast, run_id: str) -> None:
        self._state, self._outlast, self._run_id = state, outlast, run_id
        self.followers: set[Follower] = set()
        self.status = ""
        self.begins = self.head = 0  # in memory is what came after the first, up to the second
        self.error: OutlastError | None = None
        self._kept: deque[Frame] = deque()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """The first look: from here on nothing is missed. Raises RunNotFound."""
        run = await self._state.in_thread(lambda: self._outlast.get(self._run_id))
        self.begins = self.head = run.head
        await self._look()
        self._task = asyncio.ensure_future(self._live())

    def after(self, seq: int) -> list[Frame] | None:
        """What is known to come after a place; None for a place before all that is in memory."""
        return None if seq < self.begins else [frame for frame in self._kept if frame.seq > seq]

    def wake_all(self) -> None:
        for follower in self.followers:
            follower.wake.set()

    async def _live(self) -> None:
        while self.error is None:
            seconds = self._state.settings.poll_seconds
            await asyncio.sleep(seconds if self.status == "running" else seconds * SLOWER)
            before = (self.status, self.head)
            try:
                await self._look()
            except OutlastError as error:
                self.error = error
            except Exception as error:  # followers are told, whatever it was: silence would look like a quiet run
                self.error = StoreFailed(str(self._outlast.home), type(error).__name__)
            if self.error is not None or (self.status, self.head) != before:
                self.wake_all()

    async def _look(self) -> None:
        while True:
            status, events = await self._state.in_thread(self._read)
            for event in events:
                self._kept.append(frame_of(event))
                self.head = event.seq
            while len(self._kept) > KEPT:
                self.begins = self._kept.popleft().seq
            if len(events) < PAGE:
                self.status = status  # only with all of its events: who sees it ended has seen them
                return

    def _read(self) -> tuple[str, list[Event]]:
        status = self._outlast.get(self._run_id).status  # before its journal is read
        return status, self._outlast.events(self._run_id, after=self.head, limit=PAGE)

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()


class Watchers:
    """The runs that somebody follows now, by tenant and id."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._watches: dict[tuple[str, str], asyncio.Future[Watch]] = {}

    async def join(self, outlast: Outlast, tenant: str, run_id: str, follower: Follower) -> Watch:
        """The one watch of a run, with one more follower. Raises RunNotFound."""
        place = (tenant, run_id)
        while True:
            found = self._watches.get(place)
            if found is None:
                found = self._watches[place] = asyncio.ensure_future(self._begun(outlast, run_id))
            try:
                watch = await asyncio.shield(found)
            except BaseException:
                if found.done() and self._watches.get(place) is found:
                    del self._watches[place]
                raise
            if self._watches.get(place) is found and watch.error is None:
                watch.followers.add(follower)
                return watch
            self._watches.pop(place, None)

    async def _begun(self, outlast: Outlast, run_id: str) -> Watch:
        watch = Watch(self._state, outlast, run_id)
        await watch.begin()
        return watch

    def leave(self, tenant: str, run_id: str, watch: Watch, follower: Follower) -> None:
        """The last one to leave ends the watch."""
        watch.followers.discard(follower)
        if not watch.followers:
            watch.end()
            self._watches.pop((tenant, run_id), None)

    def wake_all(self) -> None:
        for watch in self._begun_ones():
            watch.wake_all()

    @property
    def count(self) -> int:
        """How many runs are watched."""
        return len(self._watches)

    def _begun_ones(self) -> Iterable[Watch]:
        for found in self._watches.values():
            with suppress(asyncio.InvalidStateError, asyncio.CancelledError, OutlastError):
                yield found.result()


def frame_of(event: Event) -> Frame:
    """An event as a part of a stream: its number is the id to go on after."""
    return Frame(event.seq, b"id: %d\ndata: %s\n\n" % (event.seq, encode(event)))
