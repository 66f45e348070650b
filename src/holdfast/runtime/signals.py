"""SIGINT and SIGTERM while a run executes: the first asks it to stop after its step, the second stops the step too.

Nothing is forwarded to commands. In a handler there are no locks and no buffers: it sets flags, writes one line, and
for user code in the main thread raises KeyboardInterrupt.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.runtime import Runtime

GRACE_SECONDS = 30.0
HEARD = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Listens for as long as the block lasts, then puts the handlers back that were there."""

    def __init__(
        self, stop: Callable[[bool], bool], step: Callable[[], str], *, grace_seconds: float = GRACE_SECONDS
    ) -> None:
        self.first = 0  # the first one that came
        self._stop, self._step, self._grace_seconds = stop, step, grace_seconds
        self._handlers: dict[int, Any] = {}
        self._timer = threading.Timer(grace_seconds, self._time_is_up)

    def __enter__(self) -> Signals:
        for number in HEARD:
            self._handlers[number] = signal.signal(number, self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _heard(self, number: int, _: FrameType | None) -> None:
        if not self.first:
            self.first = number
            line = f"\nfinishing {self._step()}, up to {self._grace_seconds:.0f} s; again to stop now\n"
            os.write(2, line.encode())
            self._stop(False)
            self._timer.daemon = True
            self._timer.start()
        elif self._stop(True):
            raise KeyboardInterrupt

    def _time_is_up(self) -> None:
        """As if it had come again, and where a blocked main thread feels it."""
        ident = threading.main_thread().ident
        if ident is not None:
            signal.pthread_kill(ident, signal.SIGINT)


@contextmanager
def over_defaults(runtime: Runtime) -> Iterator[None]:
    """Listen while a library's run executes: only in the main thread, and only over Python's own handlers.

    When the run has ended the signal still counts: KeyboardInterrupt, or for SIGTERM SystemExit(143).
    """
    if not _may_listen():
        yield
        return
    listening = Signals(runtime.stop, lambda: step_of(runtime))
    try:
        with listening:
            yield
    finally:
        if listening.first == signal.SIGINT:
            raise KeyboardInterrupt
        if listening.first:
            raise SystemExit(128 + listening.first)


def _may_listen() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    return (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == (
        signal.default_int_handler,
        signal.SIG_DFL,
    )


def step_of(runtime: Runtime) -> str:
    """The step under way, for the line that is written: whatever can be told without a lock."""
    for execution in list(runtime.live.values()):
        for attempt in list(execution.open.values()):
            return f"{attempt.asked.call.scope}{attempt.asked.spec.name}"
    return "the current step"
