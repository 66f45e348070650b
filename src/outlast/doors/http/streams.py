"""The events of a run: as a page of JSON, or as a stream (SSE) that can be taken up where it broke off."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from outlast.doors.http import problems
from outlast.doors.http.calls import Asked, Call, Page, Paged, cursor_of, done, limit_of, place_in, shown
from outlast.doors.http.watching import PAGE, Follower, Frame, Watch, frame_of
from outlast.errors import OutlastError, RequestInvalid, RunNotFound, RunRemoved
from outlast.runs.receipt import Event
from outlast.runs.run import FINISHED
from outlast.values.codec import encode, jsonable

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.exchange import Exchange

STREAM = "text/event-stream"
HEARTBEAT = b": still here\n\n"
RETRY = b"retry: 2000\n\n"  # how long a browser waits before it takes the stream up again


class EventsQuery(Paged, kw_only=True):
    """Which events: those after a number; for a stream also how long to follow."""

    limit: int = 1000
    after: int = 0
    follow: Literal["idle", "finished", "no"] = "idle"


class _Left(Exception):
    """The client is gone, or takes nothing any more."""


async def events(exchange: Exchange) -> None:
    """A page, or a stream for who accepts one."""
    exchange.is_stream = STREAM in (exchange.header("accept") or "") and exchange.method != "HEAD"
    query: EventsQuery = exchange.enter(EVENTS)
    outlast, asked = await exchange.in_thread(exchange.opened, EVENTS, query)
    if not exchange.is_stream:
        await exchange.answer(200, await exchange.in_thread(done, _page, outlast, asked))
        return
    await _stream(exchange, outlast, asked, _begins_after(exchange, query))


def _page(outlast: Outlast, asked: Asked) -> bytes:
    query: EventsQuery = asked.query
    limit, place = limit_of(query), place_in(query.cursor, int)
    found = outlast.events(asked.path["run_id"], after=place[0] if place else query.after, limit=limit + 1)
    more = cursor_of(found[limit - 1].seq) if len(found) > limit else None
    return shown(EVENTS, Page(found[:limit], more))


def _begins_after(exchange: Exchange, query: EventsQuery) -> int:
    """Where a stream begins: after the last event that the client has seen. Raises RequestInvalid."""
    last = exchange.header("last-event-id")
    if last is None or last == "":
        if query.after < 0:
            raise RequestInvalid("after", f"it is {query.after}; give the number of an event, or 0")
        return query.after
    if not last.isdigit() or len(last) > 18:
        raise RequestInvalid("Last-Event-ID", "it is no number that this stream gave")
    return int(last)


async def _stream(exchange: Exchange, outlast: Outlast, asked: Asked, after: int) -> None:
    """Every event once, in order, then a last one that says why the stream ends."""
    run = await exchange.in_thread(outlast.get, asked.path["run_id"])
    tenant, follower, state = outlast._runtime.tenant, Follower(), exchange.state
    exchange.on_end = follower.wake.set
    watch = await state.watchers.join(outlast, tenant, run.id, follower)
    gone = asyncio.ensure_future(_until_gone(exchange, follower))
    state.metrics.streams.inc()
    try:
        await _begin(exchange)
        with suppress(_Left):
            await _Following(exchange, outlast, run.id, watch, follower, after).all(asked.query.follow)
    finally:
        gone.cancel()
        state.metrics.streams.dec()
        state.watchers.leave(tenant, run.id, watch, follower)


async def _until_gone(exchange: Exchange, follower: Follower) -> None:
    with suppress(OutlastError):  # its key is over: it is told so, and leaves then
        while (await exchange.receive())["type"] != "http.disconnect":
            pass
        follower.leave()


async def _begin(exchange: Exchange) -> None:
    headers = [(b"content-type", f"{STREAM}; charset=utf-8".encode()), (b"x-accel-buffering", b"no")]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
    await exchange.send({"type": "http.response.body", "body": RETRY, "more_body": True})


class _Following:
    """One client's way through the events of a run."""

    def __init__(
        self, exchange: Exchange, outlast: Outlast, run_id: str, watch: Watch, follower: Follower, after: int
    ) -> None:
        self._exchange, self._outlast, self._run_id = exchange, outlast, run_id
        self._watch, self._follower, self._after = watch, follower, after

    async def all(self, follow: str) -> None:
        """Send what there is and what comes, until there is a reason to end; the reason too. Raises _Left."""
        settings, state = self._exchange.state.settings, self._exchange.state
        while True:
            self._follower.wake.clear()  # first: what comes from here on wakes again
            await self._send_known()
            if self._watch.error is not None:
                await self._end(b"problem", problems.problem_of(self._watch.error))
                return
            if self._exchange.ended is not None:
                await self._end(b"problem", problems.problem_of(self._exchange.ended))
                return
            if state.ending.is_set():
                await self._end(b"end", {"why": "shutdown", "status": self._watch.status})
                return
            if self._is_over(follow):
                await self._end(b"end", {"why": "run", "status": self._watch.status})
                return
            if self._watch.head <= self._after and not await self._woken(settings.heartbeat_seconds):
                await self._send(HEARTBEAT)

    def _is_over(self, follow: str) -> bool:
        status = self._watch.status
        ended = {"no": True, "idle": status != "running", "finished": status in FINISHED}[follow]
        return ended and self._after >= self._watch.head

    async def _send_known(self) -> None:
        while (frames := await self._further()) is not None:
            if self._follower.gone:
                raise _Left
            if frames:
                await self._send(b"".join(frame.text for frame in frames))
                self._after = frames[-1].seq
            else:
                return

    async def _further(self) -> list[Frame] | None:
        """What comes next: from the watch's memory, or for one who is further behind from the journal."""
        frames = self._watch.after(self._after)
        if frames is not None:
            return frames
        found = await self._exchange.in_thread(self._read)
        if not found:
            self._after = max(self._after, self._watch.begins)
            return self._watch.after(self._after)
        return found

    def _read(self) -> list[Frame]:
        return [frame_of(event) for event in self._outlast.events(self._run_id, after=self._after, limit=PAGE)]

    async def _woken(self, seconds: float) -> bool:
        """Whether something happened within that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._follower.wake.wait()
                if self._follower.gone:
                    raise _Left
                return True
        return False

    async def _send(self, piece: bytes) -> None:
        try:
            async with asyncio.timeout(self._exchange.state.settings.send_seconds):
                await self._exchange.send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            raise _Left from None

    async def _end(self, name: bytes, data: Any) -> None:
        await self._send(b"event: %s\ndata: %s\n\n" % (name, encode(data)))
        await self._exchange.send({"type": "http.response.body", "body": b""})


EVENTS = Call(
    method="GET",
    path="/v1/runs/{run_id}/events",
    name="run_events",
    summary="The journal of a run: a page, or a stream of it",
    role="read",
    serves=events,
    query=EventsQuery,
    gives=Event,
    shows=jsonable,
    page=True,
    errors=(RunNotFound, RunRemoved),
    answers=STREAM,
    headers={
        "Accept": f"`{STREAM}`: a stream, each event's `id` its number; otherwise a page",
        "Last-Event-ID": "the last event seen: the stream goes on after it",
    },
    detail=(
        "A stream ends with an event `end` (`why`: `run` when nobody runs it any more, or `shutdown`) or `problem`. "
        "`follow=idle` ends it when the run ends or waits, `finished` only when it succeeded or was aborted, `no` "
        "after what there is now. A comment comes every 15 seconds, so that nobody takes silence for a broken line."
    ),
)
