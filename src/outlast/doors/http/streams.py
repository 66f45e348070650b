"""The events of a run: as a page of JSON, or as a stream (SSE) that can be taken up where it broke off.

Watching runs: one look at a run serves everybody who follows it, however many they are.

A watch reads the journal at short intervals while somebody follows, makes each new event into bytes once, and keeps the
newest of them. A follower has only a place in the journal: what is kept beyond it is sent from memory, and one who is
further behind reads the journal himself. So nothing is lost or sent twice, and a slow follower costs nobody anything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.doors.http.calls import CallRequest, Does, done, limit_asked, page_asked, page_of, told
from outlast.doors.http.exchange import problem_of
from outlast.errors import OutlastError, RequestInvalid, StoreFailed
from outlast.operations.operation import cursor_of
from outlast.operations.runs import FINISHED, STREAM
from outlast.operations.table import OPERATIONS
from outlast.python.door import whose
from outlast.values.codec import encode

if TYPE_CHECKING:
    from outlast import Event, HomeEvents, Outlast
    from outlast.doors.http.exchange import Exchange
    from outlast.doors.http.state import ServerState
    from outlast.operations.operation import Operation


PAGE = 1000
KEPT = 2000  # events in memory for each run that is watched
SLOWER = 5  # between two looks at a run that nobody runs now


class EventFrame(NamedTuple):
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


class WatchedRun:
    """A run that is followed."""

    def __init__(self, state: ServerState, outlast: Outlast, run_id: str) -> None:
        self._state, self._outlast, self._run_id = state, outlast, run_id
        self.followers: set[Follower] = set()
        self.status = ""
        self.begins = self.head = 0  # in memory is what came after the first, up to the second
        self.error: OutlastError | None = None
        self._kept: deque[EventFrame] = deque()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """The first look: from here on nothing is missed. Raises RunNotFound."""
        run = await self._state.in_thread(lambda: self._outlast.get(self._run_id))
        self.begins = self.head = run.head
        await self._look()
        self._task = asyncio.ensure_future(self._live())

    def after(self, seq: int) -> list[EventFrame] | None:
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


class WatchedHome(WatchedRun):
    """All runs of a tenant, followed: how far their events go. What each follower is told he reads by himself."""

    async def begin(self) -> None:
        """The first look."""
        await self._look()
        self._task = asyncio.ensure_future(self._live())

    async def _look(self) -> None:
        found = await self._state.in_thread(self._outlast.all_events)
        self.status, self.head = "running", found.upto


ALL = ""  # in place of a run: all of them


class Watchers:
    """The runs that somebody follows now, by tenant and id."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._watches: dict[tuple[str, str], asyncio.Future[WatchedRun]] = {}

    async def join(self, outlast: Outlast, tenant: str, run_id: str, follower: Follower) -> WatchedRun:
        """The one watch of a run, or of all, with one more follower. Raises RunNotFound."""
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

    async def _begun(self, outlast: Outlast, run_id: str) -> WatchedRun:
        watch = (WatchedHome if run_id == ALL else WatchedRun)(self._state, outlast, run_id)
        await watch.begin()
        return watch

    def leave(self, tenant: str, run_id: str, watch: WatchedRun, follower: Follower) -> None:
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

    def _begun_ones(self) -> Iterable[WatchedRun]:
        for found in self._watches.values():
            with suppress(asyncio.InvalidStateError, asyncio.CancelledError, OutlastError):
                yield found.result()


def frame_of(event: Event) -> EventFrame:
    """An event as a part of a stream: its number is the id to go on after."""
    return EventFrame(event.seq, b"id: %d\ndata: %s\n\n" % (event.seq, encode(event)))


EVENTS, HOME_EVENTS = OPERATIONS["run_events"], OPERATIONS["home_events"]
HEARTBEAT = b": still here\n\n"
RETRY = b"retry: 2000\n\n"  # how long a browser waits before it takes the stream up again


class Left(Exception):
    """The client is gone, or takes nothing any more."""


async def events(exchange: Exchange) -> None:
    """A page, or a stream for who accepts one: every event once, in order, then a last one that says why it ends."""
    outlast, asked = await _entered(exchange, EVENTS, _page)
    if not exchange.is_stream:
        return
    after = begins_after(exchange, asked.request) or 0
    run = await exchange.in_thread(outlast.get, asked.request.run_id)

    async def sends(watch: WatchedRun, follower: Follower) -> None:
        await SentStream(exchange, outlast, run.id, watch, follower, after).all(asked.request.follow)

    await followed(exchange, outlast, run.id, sends)


async def _entered(exchange: Exchange, call: Operation, page: Does) -> tuple[Outlast, CallRequest]:
    """The home for who asks, and what is asked; who accepts no stream has been answered with a page."""
    exchange.is_stream = STREAM in (exchange.header("accept") or "") and exchange.method != "HEAD"
    outlast, asked = await exchange.in_thread(exchange.opened, call, exchange.enter(call))
    if not exchange.is_stream:
        await exchange.answer(200, await exchange.in_thread(done, page, outlast, asked))
    return outlast, asked


def _page(outlast: Outlast, asked: CallRequest) -> bytes:
    limit, place = page_asked(asked, int)
    after = place[0] if place else asked.request.after
    found = outlast.events(asked.request.run_id, after=after, limit=limit + 1)
    return told(page_of(found, limit, lambda last: cursor_of(last.seq)))


def begins_after(exchange: Exchange, query: Any) -> int | None:
    """Where a stream begins: after the last event that the client has seen; None: now. Raises RequestInvalid."""
    last = exchange.header("last-event-id")
    if last is None or last == "":
        if query.after is not None and query.after < 0:
            raise RequestInvalid("after", f"it is {query.after}; give the number of an event, or 0")
        return None if query.after is None else int(query.after)
    if not last.isdigit() or len(last) > 18:
        raise RequestInvalid("Last-Event-ID", "it is no number that this stream gave")
    return int(last)


Sends = Callable[[WatchedRun, Follower], Awaitable[None]]


async def followed(exchange: Exchange, outlast: Outlast, run_id: str, sends: Sends) -> None:
    """A stream of a run, or of all, from its beginning to its end."""
    tenant, follower, state = whose(outlast).tenant, Follower(), exchange.state
    exchange.on_end = follower.wake.set
    watch = await state.watchers.join(outlast, tenant, run_id, follower)
    gone = asyncio.ensure_future(until_gone(exchange, follower))
    state.metrics.streams.inc()
    try:
        await begin_stream(exchange)
        with suppress(Left):
            await sends(watch, follower)
    finally:
        gone.cancel()
        state.metrics.streams.dec()
        state.watchers.leave(tenant, run_id, watch, follower)


async def until_gone(exchange: Exchange, follower: Follower) -> None:
    with suppress(OutlastError):  # its key is over: it is told so, and leaves then
        while (await exchange.receive())["type"] != "http.disconnect":
            pass
        follower.leave()


async def begin_stream(exchange: Exchange) -> None:
    headers = [(b"content-type", f"{STREAM}; charset=utf-8".encode()), (b"x-accel-buffering", b"no")]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
    await exchange.send({"type": "http.response.body", "body": RETRY, "more_body": True})


class SentStream:
    """One client's way through the events of a run."""

    def __init__(
        self, exchange: Exchange, outlast: Outlast, run_id: str, watch: WatchedRun, follower: Follower, after: int
    ) -> None:
        self._exchange, self._outlast, self._run_id = exchange, outlast, run_id
        self._watch, self._follower, self._after = watch, follower, after

    async def all(self, follow: str) -> None:
        """Send what there is and what comes, until there is a reason to end; the reason too. Raises Left."""
        while True:
            self._follower.wake.clear()  # first: what comes from here on wakes again
            await self._send_known()
            if (last := self._last_word(follow)) is not None:
                await self._send(b"event: %s\ndata: %s\n\n" % last)
                await self._exchange.send({"type": "http.response.body", "body": b""})
                return
            if self._watch.head <= self._after and not await self._woken():
                await self._send(self._heartbeat())

    def _last_word(self, follow: str) -> tuple[bytes, bytes] | None:
        """What ends the stream, and all that is told of it; None while it goes on."""
        error = self._watch.error or self._exchange.ended
        if error is not None:
            return b"problem", encode(problem_of(error))
        why = "shutdown" if self._exchange.state.ending.is_set() else "run" if self._is_over(follow) else ""
        return (b"end", encode({"why": why, "status": self._watch.status})) if why else None

    def _heartbeat(self) -> bytes:
        return HEARTBEAT

    def _is_over(self, follow: str) -> bool:
        status = self._watch.status
        ended = {"no": True, "idle": status not in ("queued", "running"), "finished": status in FINISHED}[follow]
        return ended and self._after >= self._watch.head

    async def _send_known(self) -> None:
        while (frames := await self._further()) is not None:
            if self._follower.gone:
                raise Left
            if frames:
                await self._send(b"".join(frame.text for frame in frames))
                self._after = frames[-1].seq
            else:
                return

    async def _further(self) -> list[EventFrame] | None:
        """What comes next: from the watch's memory, or for one who is further behind from the journal."""
        frames = self._watch.after(self._after)
        if frames is not None:
            return frames
        found = await self._exchange.in_thread(self._read)
        if not found:
            self._after = max(self._after, self._watch.begins)
            return self._watch.after(self._after)
        return found

    def _read(self) -> list[EventFrame]:
        return [frame_of(event) for event in self._outlast.events(self._run_id, after=self._after, limit=PAGE)]

    async def _woken(self) -> bool:
        """Whether something happened before it is time to say that somebody is there."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._exchange.state.settings.heartbeat_seconds):
                await self._follower.wake.wait()
                if self._follower.gone:
                    raise Left
                return True
        return False

    async def _send(self, piece: bytes) -> None:
        try:
            async with asyncio.timeout(self._exchange.state.settings.send_seconds):
                await self._exchange.send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            raise Left from None


# -- all runs ------------------------------------------------------------------------------------------


async def home_events(exchange: Exchange) -> None:
    """The events of all runs: a page, or a stream for who accepts one."""
    outlast, asked = await _entered(exchange, HOME_EVENTS, _home_page)
    if not exchange.is_stream:
        return
    after = begins_after(exchange, asked.request)
    first = await exchange.in_thread(partial(outlast.all_events, **_wanted(asked), after=after, limit=1))

    async def sends(watch: WatchedRun, follower: Follower) -> None:
        begins = first.upto if after is None else after
        stream = HomeStream(exchange, outlast, ALL, watch, follower, begins)
        stream.wanted = _wanted(asked)
        await stream.all("")

    await followed(exchange, outlast, ALL, sends)


def _home_page(outlast: Outlast, asked: CallRequest) -> bytes:
    limit = limit_asked(asked)
    return told(outlast.all_events(**_wanted(asked), after=asked.request.after, limit=limit))


def _wanted(asked: CallRequest) -> dict[str, Any]:
    return {name: getattr(asked.request, name) for name in ("scope", "flow", "task", "tag", "name", "inbox")}


class HomeStream(SentStream):
    """One client's way through the events of all runs."""

    wanted: dict[str, Any]  # which of them

    def _is_over(self, follow: str) -> bool:
        return False

    def _heartbeat(self) -> bytes:
        """Who is not told for long because nothing of it was asked for, goes on from here after a broken line."""
        return b"id: %d\n" % self._after + HEARTBEAT

    async def _send_known(self) -> None:
        more = True
        while more:
            found = await self._exchange.in_thread(self._next)
            if self._follower.gone:
                raise Left
            if found.items:
                await self._send(
                    b"".join(b"id: %d\ndata: %s\n\n" % (each.number, encode(each)) for each in found.items)
                )
            self._after, more = found.upto, found.more

    def _next(self) -> HomeEvents:
        return self._outlast.all_events(**self.wanted, after=self._after, limit=PAGE)


SERVES = {EVENTS.name: events, HOME_EVENTS.name: home_events}
