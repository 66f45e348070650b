"""Whether whoever waits for this work has given up: asked between checks, and before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from outlast.errors import Stopped

STOP: ContextVar[Callable[[], bool] | None] = ContextVar("outlast_stop", default=None)


def refuse_stopped() -> None:
    """Raises Stopped when nobody waits for the outcome any more."""
    stop = STOP.get()
    if stop is not None and stop():
        raise Stopped
