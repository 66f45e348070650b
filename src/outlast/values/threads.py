"""Threads that may not be had: the system has a limit of them, and then says so by an error that is ours."""

from __future__ import annotations

import threading

from outlast.errors import NoThread


def begin(thread: threading.Thread, what: str) -> threading.Thread:
    """The thread, started. Raises NoThread; then nothing of its work was done, and whoever claimed gives back."""
    try:
        thread.start()
    except RuntimeError as error:
        raise NoThread(what, str(error)) from error
    return thread
