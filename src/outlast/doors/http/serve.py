"""Listening: a socket, uvicorn on it, and an end that lets everybody finish.

Asked to end (SIGTERM, SIGHUP, SIGINT), the server asks the runs of this process to stop, takes no new connections, lets
open streams say goodbye and gives requests under way a few seconds. Its runs are `interrupted`; after a shutdown they
go on by themselves, with the next server or tick, after Ctrl-C when they are resumed.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import uvicorn

from outlast.doors.http.app import Pages, make_app
from outlast.doors.http.connections import ACCEPTED, HEADER_BYTES, Connections, most_connections
from outlast.doors.http.identity import BACKLOG
from outlast.doors.http.log import Handler, RequestLog
from outlast.doors.http.state import ServerSettings, ServerState

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
        self.connections = Connections(most, settings.header_seconds, settings.send_seconds, self.state.entry)
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
