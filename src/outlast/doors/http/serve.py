"""Listening: a socket, uvicorn on it, and an end that lets everybody finish.

Asked to end (SIGTERM, SIGINT), the server takes no new connections, lets open streams say goodbye, gives requests under
way a few seconds, and asks the runs of this process to stop: they are `interrupted`, and go on when they are resumed.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from outlast.doors.http.app import make_app
from outlast.doors.http.log import Handler, Log
from outlast.doors.http.state import ServerSettings, State

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server(uvicorn.Server):
    """A server on one socket; `run` blocks until it has ended."""

    def __init__(
        self, settings: ServerSettings, opened: socket.socket, ready: Callable[[], None] | None = None
    ) -> None:
        self.app = make_app(settings)
        self.state: State = self.app.state.outlast
        self.signal = 0  # that asked it to end
        self._opened, self._ready = opened, ready
        config = uvicorn.Config(
            self.app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # what a proxy says of others is nobody's word
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=int(settings.shutdown_seconds) or 1,
            timeout_keep_alive=30,
        )
        super().__init__(config)
        _take_logging(settings)

    def serve_all(self) -> int:
        """Serve until asked to end; the signal that asked, 0 if none did."""
        self.run(sockets=[self._opened])
        return self.signal

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None and not self.should_exit:
            self._ready()

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
        self.force_exit = self.should_exit
        self.signal = self.signal or sig
        self.should_exit = True


def _take_logging(settings: ServerSettings) -> None:
    """What uvicorn and asyncio have to say goes into the same log, from warnings on."""
    handler = Handler(Log(settings.log))
    for name in ("uvicorn", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
