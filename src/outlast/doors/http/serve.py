"""Listening: a socket, uvicorn on it, its connections, and an end that lets everybody finish.

Asked to end (SIGTERM, SIGHUP, SIGINT), the server asks the runs of this process to stop, takes no new connections, lets
open streams say goodbye and gives requests under way a few seconds. Its runs are `interrupted`; after a shutdown they
go on by themselves, with the next server or tick, after Ctrl-C when they are resumed.

There are as many connections as there are files for, and none that only waits for ever. A connection is *fresh* until
its headers have come, *busy* while its request is answered, and *resting* between two requests. When there is no room
for one more, the oldest fresh one gives way, then the oldest resting one; who is being answered is never cut off for
somebody else. Headers have a time to arrive in, however they are cut into pieces. What a request's body and answer may
take is for the request itself to say (bodies.py, exchange.py).

What is written in one go leaves in one call of the system. Each such call lets the interpreter go, and while runs are
at work one of their threads takes it: a loop that asks the system four times for an answer waits four times. So the
head of an answer leaves together with its body, and where a connection comes from and leads to is asked once.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from outlast.doors.http.app import Pages, make_app
from outlast.doors.http.exchange import MEDIA_TYPE, problem_of, shown_problem
from outlast.doors.http.identity import BACKLOG
from outlast.doors.http.log import Handler, RequestLog
from outlast.doors.http.plain import PlainCycle, PlainRequest, plain_in
from outlast.doors.http.state import ServerSettings, ServerState
from outlast.errors import HeadersTooSlow, OutlastError, ServerFull

if TYPE_CHECKING:
    from outlast.doors.http.limits import Turnstile

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SWITCH_SECONDS = 0.001  # between threads: the loop, which serves everybody, waits for none that computes


class Server(uvicorn.Server):
    """A server on one socket; `run` blocks until it has ended."""

    def __init__(
        self,
        settings: ServerSettings,
        opened: socket.socket,
        ready: Callable[[], None] | None = None,
        pages: Pages | None = None,
    ) -> None:
        self.app = make_app(settings, pages)
        self.state: ServerState = self.app.state
        self.signal = 0  # that asked it to end
        self._opened, self._ready = opened, ready
        most = most_connections(settings.connections)
        self.connections = Connections(
            most, settings.header_seconds, settings.send_seconds, self.state.entry, settings.idle_seconds
        )
        config = uvicorn.Config(
            self.app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # what a proxy says of others is nobody's word
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=int(settings.shutdown_seconds) or 1,
            timeout_keep_alive=max(round(settings.idle_seconds), 1),
            http=cast(Any, self.connections.protocol),
            h11_max_incomplete_event_size=HEADER_BYTES,
            backlog=min(ACCEPTED, self.connections.most),
        )
        super().__init__(config)
        _take_logging(self.state.log)

    def serve_all(self) -> int:
        """Serve until asked to end; the signal that asked, 0 if none did."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            self.run(sockets=[self._opened])
        finally:
            sys.setswitchinterval(before)
        return self.signal

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._opened.listen(BACKLOG)  # so many may wait, however few are taken at once
        if self._ready is not None and not self.should_exit:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # once a second
            self.connections.sweep(asyncio.get_running_loop().time())
            self.state.log.flush()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.state.end_streams()  # before connections are waited for: a stream ends only when told to
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The first signal asks to end, the second one ends at once. Afterwards all is as before."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.force_exit or (self.should_exit and sig != signal.SIGHUP)
        self.signal = self.signal or sig
        self.should_exit = True
        self.state.tenants.stop("person" if sig == signal.SIGINT else "shutdown")  # at once: their commands may die too


def _take_logging(log: RequestLog) -> None:
    """What uvicorn, asyncio and our own runs have to say goes into the same log, from warnings on."""
    handler = Handler(log)
    for name in ("uvicorn", "uvicorn.error", "asyncio", "outlast.runs"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)


# -- connections -------------------------------------------------------------------------------------

FEWEST = 16  # connections, however few files there may be
ACCEPTED = 64  # at once, before the first of them is looked at
HEADER_BYTES = 32 << 10
END_OF_HEADERS = b"\r\n\r\n"
LEAVING, LEAVING_SECONDS = 32, 1.0  # connections that are being refused, and for how long


HELD_BYTES = 16 << 10  # so much waits for what follows it
LENGTH = b"\r\ncontent-length: "


def most_connections(wanted: int) -> int:
    """How many connections there may be: half of the files that this process may open, at most as many as wanted."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if files == resource.RLIM_INFINITY else max(min(wanted, files // 2), FEWEST)


class Connections:
    """The open connections of one server. Everything happens in its loop."""

    def __init__(
        self, most: int, header_seconds: float, close_seconds: float, entry: Turnstile, idle_seconds: float = 30.0
    ) -> None:
        self.entry, self.most = entry, most
        self._header_seconds, self._close_seconds, self._idle_seconds = header_seconds, close_seconds, idle_seconds
        self._open: set[Connection] = set()
        self._fresh: dict[Connection, float] = {}  # and since when, the oldest first
        self._resting: dict[Connection, float] = {}
        self._leaving: set[Connection] = set()  # who were refused, and may not have heard it yet
        self._closing: dict[Connection, float] = {}
        self._full = _raw(ServerFull(most))
        self._slow = _raw(HeadersTooSlow(header_seconds))

    @property
    def count(self) -> int:
        return len(self._open)

    @property
    def protocol(self) -> Callable[..., asyncio.Protocol]:
        """What uvicorn makes for every connection."""
        return partial(Connection, self)

    def admit(self, connection: Connection, transport: asyncio.Transport) -> bool:
        """Whether there is room for it, or somebody gave way; otherwise it is told so, and closed."""
        if len(self._open) >= self.most and not self._evict():
            self._refuse(connection, transport)
            return False
        self._open.add(connection)
        return True

    def _refuse(self, connection: Connection, transport: asyncio.Transport) -> None:
        """Say that there is no room. What it still sends is let go by for a moment: else it would not hear it."""
        transport.write(self._full)
        if len(self._leaving) >= LEAVING:
            transport.close()
            return
        self._leaving.add(connection)
        transport.write_eof()
        connection.loop.call_later(LEAVING_SECONDS, transport.abort)

    def _evict(self) -> bool:
        for waiting in (self._fresh, self._resting):
            for connection in waiting:
                self.forget(connection)
                connection.transport.abort()
                return True
        return False

    def begins_headers(self, connection: Connection, now: float) -> None:
        self._resting.pop(connection, None)
        self._fresh.setdefault(connection, now)

    def begins_request(self, connection: Connection) -> None:
        self._fresh.pop(connection, None)
        self._resting.pop(connection, None)

    def rests(self, connection: Connection, now: float) -> None:
        self.begins_request(connection)
        self._resting[connection] = now

    def is_resting(self, connection: Connection) -> bool:
        return connection in self._resting

    def forget(self, connection: Connection) -> None:
        self.begins_request(connection)
        self._open.discard(connection)
        self._leaving.discard(connection)
        self._closing.pop(connection, None)

    def sweep(self, now: float) -> None:
        """End those whose headers did not come in time, or that rest for too long.

        And those that are closed but take nothing of what is left.
        """
        late = [each for each, since in self._fresh.items() if now - since > self._header_seconds]
        for connection in late:
            self.begins_request(connection)
            connection.end(self._slow)
        for connection in [each for each, since in self._resting.items() if now - since > self._idle_seconds]:
            self.begins_request(connection)
            connection.timeout_keep_alive_handler()
        for connection in self._open:
            if connection.transport.is_closing():
                self._closing.setdefault(connection, now)
        for connection in [each for each, since in self._closing.items() if now - since > self._close_seconds]:
            self.forget(connection)
            connection.transport.abort()


class Connection(H11Protocol):
    """One connection, which tells the table what it is about."""

    def __init__(self, table: Connections, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._table, self._is_let_in, self._has_sent = table, False, False
        self._is_queued = False  # until it is its turn to enter
        self._came = b""  # what h11 has not got yet

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._is_let_in = self._table.admit(self, transport)
        if self._is_let_in:
            self._writing = OneWrite(transport, self.loop)
            super().connection_made(cast(asyncio.Transport, self._writing))
            self._table.begins_headers(self, self.loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.forget(self)
        if self._is_let_in:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_let_in or self.transport.is_closing():
            return
        self._has_sent = True
        if self._table.is_resting(self):
            self._table.begins_headers(self, self.loop.time())
        self._unset_keepalive_if_required()
        self._came += data
        self.handle_events()

    def handle_events(self) -> None:
        """Take what has come apart: of a request under way at once, of a new one when it is its turn."""
        if self._is_asking():
            self._go_on()
            return
        head = self._left
        if END_OF_HEADERS in head:
            self._table.begins_request(self)
        if len(head) > HEADER_BYTES:
            self.flow.pause_reading()
        if not self._is_queued and head:
            if self._table.entry.lets_in(head):
                self._enter()
            else:
                self._is_queued = True
                self._table.entry.turn_of(head).add_done_callback(self._enter)

    def _go_on(self) -> None:
        """Take what came during a request. What follows a plain one waits until that is answered, or h11 has it."""
        if isinstance(self.cycle, PlainCycle) and self.cycle.is_plain:
            self._came = self.cycle.take(self._came)
            if len(self._came) > HEADER_BYTES:
                self.flow.pause_reading()
        else:
            self._give_to_h11()
            super().handle_events()

    def _enter(self, turn: asyncio.Future[None] | None = None) -> None:
        self._is_queued = False
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        request = plain_in(self._came) if not self.conn.trailing_data[0] else None
        if request is not None:
            self._begin(request)
        else:
            self._give_to_h11()
            super().handle_events()
        if self._is_asking():
            self._table.begins_request(self)

    def _begin(self, request: PlainRequest) -> None:
        """Answer a request that h11 does not hear of, as uvicorn does one that h11 has read."""
        self._came = b""
        raw_path, _, query = request.target.partition(b"?")
        self.headers = request.headers
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": cast(Any, self.scheme),
            "method": request.method,
            "root_path": "",
            "path": unquote(raw_path.decode("ascii")),
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
            "state": self.app_state.copy(),
            "extensions": {"outlast.plain": {}},
        }
        self.cycle = PlainCycle(
            request,
            self._tell_h11,
            scope=self.scope,
            conn=self.conn,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=self.on_response_complete,
        )
        task = self.loop.create_task(self.cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _tell_h11(self, request: bytes) -> None:
        """Of a request that it is to answer, and to read what is missing of it: that has taken what has come."""
        self.conn.receive_data(request)
        while self.conn.next_event() not in (h11.NEED_DATA, h11.PAUSED):
            pass
        self._give_to_h11()

    def _give_to_h11(self) -> None:
        if self._came:
            came, self._came = self._came, b""
            self.conn.receive_data(came)

    @property
    def _left(self) -> bytes:
        """What has come and is not taken apart yet."""
        return self.conn.trailing_data[0] + self._came

    def on_response_complete(self) -> None:
        self._writing.flush()
        self._has_sent = False
        self._table.rests(self, self.loop.time())
        if isinstance(self.cycle, PlainCycle) and self.cycle.is_plain:
            self.server_state.total_requests += 1  # the table has an eye on how long it rests, at less than a timer
            self.flow.resume_reading()
        else:
            super().on_response_complete()
        if self._came and not self._is_asking() and not self.transport.is_closing():
            self.handle_events()  # what h11 does not know of
        if self._left and not self._is_asking() and not self._is_queued:  # a part of the next one
            self._table.begins_headers(self, self.loop.time())

    def end(self, answer: bytes) -> None:
        """Close it; who has sent something is told why."""
        if not self.transport.is_closing():
            if self._has_sent and (self.cycle is None or self.cycle.response_complete):
                self.transport.write(answer)
            self.transport.close()

    def _is_asking(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def _raw(error: OutlastError) -> bytes:
    """An answer as it goes over the line, for who gets no further than here."""
    status, body, headers = shown_problem(error)
    phrase = problem_of(error).title
    headers += [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(body))]
    lines = [f"HTTP/1.1 {status} {phrase}".encode(), *(name + b": " + value for name, value in headers)]
    return b"\r\n".join([*lines, b"connection: close", b"", body])


class OneWrite:
    """A transport that holds what is written until the answer ends; the rest is the transport's own.

    A head that says how long its body is waits for all of it, as long as that is little; any other one, as of a stream,
    until the next round of the loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""
        self.is_closing, self.abort = transport.is_closing, transport.abort
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading

    def write(self, data: bytes) -> None:
        """Write it, soon."""
        if not self._held and data and not (data.startswith(b"HTTP/") and LENGTH in data):
            self._loop.call_soon(self.flush)
        self._held += data
        if len(self._held) >= HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held, now."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def get_extra_info(self, name: str) -> Any:
        """What is known of the connection. Not its socket, which would be asked for both addresses again."""
        found = None if name == "socket" else self._transport.get_extra_info(name)
        return found[:2] if name in ("peername", "sockname") and isinstance(found, tuple) else found
