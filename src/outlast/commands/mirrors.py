"""The mirrors of the Python flows that execute in this process: one thread follows their journals, nobody waits for it.

It looks every `mirror_seconds`, writes piece by piece, and rests nine times as long as that took; a hundred times while
steps follow each other quickly, because a file costs more than such a step does. So runs of very many small steps are
not slowed down, and their mirrors are behind; the first look, which loads much, waits as long for steps to be fewer.
When this process closes its home the rest is written, for so long as anybody would wait. After a crash the mirror is
behind, until the run goes on or `export --mirror` writes it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from outlast.errors import OutlastError
from outlast.flows.loading import is_flow_file
from outlast.home.home import Home, run_row
from outlast.values.ambient import begin

if TYPE_CHECKING:
    from outlast.commands.mirror import Mirror
    from outlast.runs.execution import Execution
    from outlast.store.contract import Hold

PIECE = 100  # entries of a run, before others have their turn
WORK_SECONDS = 0.02  # of all of them together, before it rests
RESTS, BUSY_RESTS = 9, 100  # times as long as was worked
BUSY_ENTRIES = 100  # so many new ones in a second: steps follow each other quickly
FIRST_SECONDS = 0.05  # of work, in the first look
CLOSING_SECONDS = 2.0


def rest_seconds(worked: float, entries: int, since: float) -> float:
    """How long to rest after so much work, where so many entries were written since the look before."""
    return worked * (BUSY_RESTS if is_busy(entries, since) else RESTS)


def is_busy(entries: int, since: float) -> bool:
    """Whether steps follow each other quickly, where so many entries were written in so long."""
    return entries > BUSY_ENTRIES * max(since, 1.0)


def _named(behind: Collection[str]) -> str:
    """Which mirrors are behind, for a sentence: of many the first few."""
    if len(behind) == 1:
        return f"the mirror of {min(behind)} is"
    shown = sorted(behind)[:3]
    return f"the mirrors of {len(behind)} runs ({', '.join(shown)}{', …' if len(behind) > len(shown) else ''}) are"


class Mirrors:
    """Follows the runs of a runtime, each from the moment it is told of it to the end of its journal."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._forget()

    def _forget(self) -> None:
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._followed: dict[str, Mirror | None] = {}  # None: it was not looked at yet
        self._holds: dict[str, Hold] = {}  # of these runs: how long their journals are
        self._left: set[str] = set()  # that execute here no more: followed to the end of their journal, then no more
        self._done = 0  # entries of runs that are followed no more
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, execution: Execution) -> None:
        """A run begins to execute here."""
        if self._home.settings.mirror_seconds <= 0:
            return
        if self._owner != os.getpid():
            self._forget()  # the thread and its work are our parent's
        with self._lock:
            self._followed.setdefault(execution.id, None)
            self._holds[execution.id] = execution.hold
            self._left.discard(execution.id)
            if self._thread is None:
                thread = threading.Thread(target=self._live, name="outlast-mirrors", daemon=True)
                with suppress(OutlastError):  # the next run tries again; what is owed is written at the home's closing
                    self._thread = begin(thread, "keeping mirrors")

    def let_go(self, execution: Execution) -> None:
        """It does not execute here any more."""
        with self._lock:
            if execution.id in self._followed:
                self._left.add(execution.id)

    def close(self) -> None:
        """Write what is missing, and follow nobody any more. Before the store is closed."""
        if self._owner != os.getpid():
            return
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        until = time.monotonic() + CLOSING_SECONDS
        while behind := self._look(max(until - time.monotonic(), 0.0)):
            if time.monotonic() >= until:
                self._home.tell(f"{_named(behind)} behind; `outlast export RUN --mirror` writes it")
                return

    def _live(self) -> None:
        pause, length, looked = self._home.settings.mirror_seconds, 0, time.monotonic()
        first = looked + FIRST_SECONDS * BUSY_RESTS
        while not self._closing.wait(pause):
            began, before = time.monotonic(), length
            length = self._length()
            if began < first and is_busy(length - before, pause):
                continue
            since, behind = began - looked, self._look(WORK_SECONDS)
            looked = time.monotonic()
            rest = rest_seconds(looked - began, length - before, since)
            pause = rest if behind else max(rest, self._home.settings.mirror_seconds)

    def _length(self) -> int:
        """How many entries the journals of all runs have that were followed so far."""
        with self._lock:
            return self._done + sum(hold.head for hold in self._holds.values())

    def _look(self, seconds: float = inf) -> set[str]:
        """Write a piece of every mirror, for so long as was said; which of them may be behind still."""
        with self._lock:
            over, followed = set(self._left), [*self._followed]
        behind, until = set(followed), time.monotonic() + seconds
        for run_id in followed:
            if not self._goes_on(run_id):
                behind.discard(run_id)
            elif seconds < inf:
                with self._lock:  # the others first the next time
                    self._followed[run_id] = self._followed.pop(run_id)
            if time.monotonic() > until:
                break
        with self._lock:
            for run_id in over - behind:
                self._left.discard(run_id)
                self._followed.pop(run_id, None)
                self._done += self._holds.pop(run_id).head
        return behind

    def _goes_on(self, run_id: str) -> bool:
        try:
            return self._catch_up(run_id)
        except OutlastError:
            return False  # the store says what is wrong to those who write to it

    def _catch_up(self, run_id: str) -> bool:
        from outlast.commands.mirror import Mirror  # late: the first step need not wait for it

        mirror = self._followed.get(run_id)
        if mirror is not None and mirror.since == self._holds[run_id].head:
            return False  # most of thousands only wait: they cost this look
        if mirror is None:
            row = run_row(self._home, run_id)
            if is_flow_file(row.flow):  # it keeps its own
                self._left.add(run_id)
                return False
            mirror = self._followed[run_id] = Mirror(self._home, run_id, row.key, row.flow, 0, counted=True)
        return mirror.catch_up(PIECE)
