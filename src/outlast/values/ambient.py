"""What stands around a piece of work: whether anybody still waits for it, what they are to be told, a thread to do
it on, and which functions of ours call the user's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType
from typing import Any, TypeVar

from outlast.errors import NoThread, Stopped

F = TypeVar("F", bound=Callable[..., Any])

CALLERS: set[CodeType] = set()
STOP: ContextVar[Callable[[], bool] | None] = ContextVar("outlast_stop", default=None)
CURRENT: ContextVar[Any] = ContextVar("outlast_frame", default=None)  # the place in a run; its type is runs' Frame
_noticed: ContextVar[dict[str, None] | None] = ContextVar("noticed", default=None)


def refuse_stopped() -> None:
    """Raises Stopped when nobody waits for the outcome any more."""
    stop = STOP.get()
    if stop is not None and stop():
        raise Stopped


class Noticing:
    """What is met here while this is entered, a line for each, in order."""

    __slots__ = ("_before",)

    def __enter__(self) -> dict[str, None]:
        lines: dict[str, None] = {}
        self._before = _noticed.set(lines)
        return lines

    def __exit__(self, *_: object) -> None:
        _noticed.reset(self._before)


def notice(line: str) -> None:
    """Tell whoever notices what is met here."""
    lines = _noticed.get()
    if lines is not None:
        lines[line] = None


def begin(thread: threading.Thread, what: str) -> threading.Thread:
    """The thread, started. Raises NoThread; then nothing of its work was done, and whoever claimed gives back."""
    try:
        thread.start()
    except RuntimeError as error:
        raise NoThread(what, str(error)) from error
    return thread


def calls_user_code(function: F) -> F:
    """Mark a function that itself calls the user's code: a signal that comes while it waits for that may raise there.

    The innermost decorator: it marks the `def` right below it.
    """
    CALLERS.add(function.__code__)
    return function
