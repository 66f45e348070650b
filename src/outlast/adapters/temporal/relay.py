"""What tells Temporal: the ledger is the outbox.

A run that can go on is ready in its queue, by the same commit that made it so, and stays ready until it is claimed.
So whoever tells may die at any time: who looks next tells it again. One process tells at once; the others only what
nobody has taken for a while. What Temporal missed, or has and should not, is found by comparing both now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.adapters.temporal.settings import run_of, workflow_id
from outlast.runs import home_events
from outlast.runs.home_events import EventQuery
from outlast.runs.queues import engine
from outlast.runs.run import FINISHED, TEMPORAL

if TYPE_CHECKING:
    from outlast.adapters.temporal.link import Workflows
    from outlast.runs.queues.engine import EngineRun
    from outlast.worker.place import WorkPlace

T = TypeVar("T")
LATE_SECONDS = 3.0  # after which others than the first tell it too
AGAIN_SECONDS, LONGEST_SECONDS = 10.0, 300.0  # before it is told again; doubles
COMPARE_SECONDS = 30.0
ABORTED = EventQuery(name="run.aborted")
Do = Callable[[Coroutine[Any, Any, T]], T]


class ToldRun:
    """When a run was seen ready, and told."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.seen_at = epoch, time.monotonic()
        self.times, self.next_at = 0, 0.0

    def note(self) -> None:
        self.times += 1
        self.next_at = time.monotonic() + min(AGAIN_SECONDS * 2 ** (self.times - 1), LONGEST_SECONDS)


class Relay:
    """Tells Temporal of the runs of one home."""

    def __init__(self, place: WorkPlace, link: Workflows, do: Do[Any]) -> None:
        """`do` awaits on the loop that the link is on."""
        self._place, self._link, self._do = place, link, do
        self._home = place.executor.home
        self._told: dict[str, ToldRun] = {}
        self.queues: list[str] = []
        self._compare_at = 0.0
        self._upto = home_events.read(self._home, ABORTED, None, 0).upto  # before the first comparison

    def look(self) -> None:
        """Tell what there is to tell. Raises RPCError when Temporal is away: nothing is lost by that."""
        for _ in self._place.due():  # makes ready what can go on; what is in no queue is left to our own workers
            pass
        engine.wake_asked(self._place.executor.caller)
        queues = engine.queues_of(self._home, TEMPORAL)
        if queues != self.queues:
            self.queues, self._compare_at = queues, 0.0
        first = self._place.is_first()
        self._tell_ready(first)
        if first:
            self._tell_ended()
            if time.monotonic() >= self._compare_at:
                self._compare_at = time.monotonic() + COMPARE_SECONDS
                self._compare()

    # -- what can go on --------------------------------------------------------------------------

    def _tell_ready(self, first: bool) -> None:
        found = [run for queue in self.queues for run in engine.runs_in(self._home, queue, "delayed", "ready")]
        kept = {run.id: self._told.get(run.id) for run in found}
        self._told = {run.id: _same(kept[run.id], run) for run in found}
        now = time.monotonic()
        due = [run for run in found if self._is_due(run, first, now)]
        for run_id in self._do(self._link.tell((run, self._nudges(run)) for run in due)) if due else ():
            self._told[run_id].note()

    def _is_due(self, run: EngineRun, first: bool, now: float) -> bool:
        told = self._told[run.id]
        return now >= told.next_at and (first or now - told.seen_at >= LATE_SECONDS)

    def _nudges(self, run: EngineRun) -> bool:
        """Whether its workflow may be there, and wait. One that was never told has its first look when it starts."""
        return run.status != "queued" or self._told[run.id].times > 0

    # -- what has ended, or is somebody else's ---------------------------------------------------

    def _tell_ended(self) -> None:
        page = home_events.read(self._home, ABORTED, self._upto, 1000)
        for each in page.items:
            run = engine.EngineRun(each.event.run_id, each.scope, each.task, each.flow, "aborted", "", 0)
            self._do(self._link.nudge(workflow_id(self._home.tenant, run)))
        self._upto = page.upto

    def _compare(self) -> None:
        """Start what is missing in Temporal, and end what is there and should not be."""
        there = {run_of(each): (each, queue) for each, queue in self._do(self._link.open()).items()}
        ours = {run.id: run for queue in self.queues for run in engine.runs_in(self._home, queue)}
        missing = [run for run in ours.values() if run.id not in there and run.status != "failed"]
        self._do(self._link.tell((run, False) for run in missing))
        for run_id in there.keys() - ours.keys():
            self._settle(run_id, *there[run_id])

    def _settle(self, run_id: str, workflow: str, queue: str) -> None:
        """A workflow whose run has ended looks and ends; one of a queue that Temporal has no more is ended."""
        row = self._home.store.read(lambda look: look.run_by_id(run_id))
        if row is not None and row.status in FINISHED and queue in self.queues:
            self._do(self._link.nudge(workflow))
        elif row is not None:
            ended = row.status if row.status in FINISHED else "goes on"
            self._do(self._link.end(workflow, f"the run {ended} with Outlast's own workers"))


def _same(told: ToldRun | None, run: EngineRun) -> ToldRun:
    return told if told is not None and told.epoch == run.epoch else ToldRun(run.epoch)
