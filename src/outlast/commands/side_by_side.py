"""Branches of a flow file in threads of their own, at most so many at once; all of them end before the flow goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from outlast.errors import NoThread, Paused, Severed, Stopped
from outlast.runs.context import CURRENT
from outlast.values.threads import begin

_LOOK_SECONDS = 0.1

Work = Callable[[], None]


class _Shared:
    """Work that several threads take from, in order. What ends the run ends that; a failure or a wait does not."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works, self._next = works, 0
        self._lock = threading.Lock()
        self._over = False
        self.ended: dict[int, BaseException] = {}

    def work(self) -> None:
        while (at := self._take()) is not None:
            try:
                self._works[at]()
            except BaseException as error:
                self.ended[at] = error
                self._over = self._over or not isinstance(error, Exception | Paused)

    def _take(self) -> int | None:
        with self._lock:
            if self._over or self._next >= len(self._works):
                return None
            self._next += 1
            return self._next - 1


def side_by_side(works: Sequence[Work], limit: int = 0) -> list[BaseException]:
    """Do all of it, `limit` pieces at once (0: all). Gives what they raised, in their order. Raises NoThread."""
    shared, threads = _Shared(works), list[threading.Thread]()
    for _ in range(min(limit or len(works), len(works))):
        thread = threading.Thread(target=shared.work, daemon=True)
        try:
            begin(thread, "a branch")
        except NoThread:
            if not threads:  # else those that have begun do its work
                raise
            break
        threads.append(thread)
    for thread in threads:
        while thread.is_alive():  # in short waits: a signal must find the main thread awake
            thread.join(_LOOK_SECONDS)
    return [shared.ended[at] for at in sorted(shared.ended)]


def raise_first(what: str, errors: Sequence[BaseException]) -> None:
    """What becomes of a flow whose branches ended so: taken from it, failed, asked to stop, or waiting."""
    for kind in (Severed, Exception, Stopped, Paused, BaseException):
        found = [error for error in errors if isinstance(error, kind)]
        if found and kind is Exception and len(found) > 1:
            failures = [error for error in found if isinstance(error, Exception)]
            raise ExceptionGroup(f"{len(failures)} {what} failed", failures)
        if found:
            if isinstance(found[0], Paused):
                frame = CURRENT.get()
                if frame is not None:
                    frame.execution.paused = True
            raise found[0]
