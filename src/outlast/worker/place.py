"""One home that a worker works on: what of it can go on now, when to look again, and what was refused.

The home's own writes ring at once, those of other processes change its version, and what becomes due by itself has its
time. Between those a slower look finds what leaves no trace when it happens: a process that died. Where no run is under
way and none waits to be taken, that concerns nobody, and it is not looked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from outlast.errors import NoFlows, OutlastError, RunFinished, RunHeld, Unavailable
from outlast.ids import chance
from outlast.python.named_flows import find_flow
from outlast.runs import find, same_flow
from outlast.runs.live import Executor
from outlast.runs.queues import queue, schedule, workers
from outlast.runs.queues.queue import expire

if TYPE_CHECKING:
    from outlast.flows.spec import FlowSpec
    from outlast.python.outlast import Outlast
    from outlast.runs.claim import RunClaim
    from outlast.runs.find import Due
    from outlast.store.contract import RunRow, ScheduleRow, WorkerRow

SWEEP_SECONDS = 0.5  # between two looks for processes that died; of all workers together, where machines share a home
SPARED = 250  # after a look that took so long, such a multiple passes before the next sweep
SPARED_SOON = 4  # and before one that something rang for
REFUSED_SECONDS = 60.0  # before a run that was refused is tried again; doubles
REFUSED_MOST = 600.0
AWAY_SECONDS, AWAY_MOST = 1.0, 60.0  # the same, of one that only the store has kept from going on
FAILED_SECONDS = 0.5  # before a store that failed is asked again


class WorkPlace:
    """A home, what was last seen of it, and its runs that a worker here leaves alone for now."""

    def __init__(
        self,
        outlast: Outlast,
        ring: Callable[[], None],
        *,
        only_given: bool,
        queues: Collection[str] = (),
        engine: str = "",
    ) -> None:
        """`engine`: another one than ours has the queues; what is ready in them is told to it."""
        self.outlast, self._only_given, self._queues, self._engine = outlast, only_given, queues, engine
        self._served: dict[tuple[str, str, str], bool] = {}
        self._caller = outlast._caller
        self.executor = Executor(outlast._caller, outlast._executor.live, owns=False, waits_for_retries=False)
        self._home = self.executor.home
        self._rung = True  # by a write of this process
        self._looks = self._swept = False  # its queues may have something; and the last look was a wider one
        self._is_still = False  # as it was at the last look, the death of a process would concern no run
        self._version = -1
        self._next_due: int | None = None
        self._sweep_at = self._spared_until = 0.0
        self._refused: dict[str, tuple[float, float]] = {}  # until when, and for how long
        self._ring = ring
        self.unhook = self._home.store.when_written(self.rung)
        self._enlisted: WorkerRow | None = None
        self._sign_at, self._sweep_seconds = 0.0, SWEEP_SECONDS

    def rung(self) -> None:
        """Something was written here."""
        self._rung = True
        self._ring()

    def failed(self) -> None:
        """The store did not answer: whatever was to be seen is looked for after a while."""
        self._rung, self._spared_until = True, time.monotonic() + FAILED_SECONDS

    def enlist(self, concurrency: int) -> None:
        """Let others know that a worker is here, with its flows."""
        flows = self.executor.live.flows if self._only_given else None
        self._enlisted = workers.new_worker(self._home, flows, self._queues, concurrency, self._engine)
        workers.enlist(self._home, self._enlisted)
        self._signed()

    def sign(self) -> None:
        """Say now and then that it lives: while nothing runs here nobody else does."""
        if self._enlisted is not None and time.monotonic() >= self._sign_at:
            workers.sign(self._home)
            self._signed()

    def _signed(self) -> None:
        """A home of many machines may have a thousand workers: what each would look for is looked for by turns."""
        most = self._home.settings.lease_seconds / 3
        self._sign_at = time.monotonic() + most
        if self._home.database:
            others = self._home.store.read(lambda look: len(look.workers_at_work()))
            self._sweep_seconds = max(SWEEP_SECONDS, min(SWEEP_SECONDS * others * (0.5 + chance()), most))

    def is_first(self) -> bool:
        """Whether of the living workers of its engine it is the one that began first: what one does, it does."""
        me = self._enlisted
        return me is not None and workers.first_of(self._home, self._engine) == me.id

    def leave(self) -> None:
        """It works here no more."""
        enlisted, self._enlisted = self._enlisted, None
        if enlisted is not None:
            with suppress(OutlastError):  # a row that is left behind is not shown once its process is gone
                workers.leave(self._home, enlisted)

    def due(self) -> Iterator[Due]:
        """What can go on now, if anything has happened since the last look, or it is time for a wider one."""
        now = time.monotonic()
        if now < self._spared_until or not (self._has_changed() or now >= self._next_sweep()):
            return
        if self._is_still:  # from now on a process that dies may concern a run
            self._is_still, self._sweep_at = False, now + self._sweep_seconds
        wide, before = now >= self._sweep_at, time.thread_time()
        at = self._home.clock.now()  # what comes after it is looked for the next time, whatever passes meanwhile
        rows = find.may_be_due(self._home, wide=wide)
        found = find.due_of(self._caller, rows)
        coming = self._home.store.read(lambda look: look.coming(at))
        took = time.thread_time() - before  # of the look alone: what is done about it is no cost of looking
        self._is_still = wide and not (rows or coming.expired or coming.scheduled or coming.queued)
        if coming.expired:
            expire(self._caller)
        if coming.scheduled and self._fire(at):
            coming = self._home.store.read(lambda look: look.coming(at))
        self._next_due = coming.next_at
        self._spared_until = now + took * SPARED_SOON
        self._swept = wide
        if wide:
            self._sweep_at = now + max(self._sweep_seconds, took * SPARED)
        self._looks = True  # whatever came of this look: what was queued meanwhile is not to wait for another
        for one in found:
            if self._may_take(one.run_id) and not queue.make_ready(self._caller, one.run_id):
                yield one

    def next_queued(self) -> RunClaim | None:
        """The run whose turn it is in its queue, claimed; None when there is none since the last look."""
        if not self._looks:
            return None
        (swept, self._swept), before = (self._swept, False), time.thread_time()
        claimed = queue.claim_next(self._caller, self._queues, self.serves)
        if swept and claimed is None:  # this was a part of the wider look, at nothing
            self._sweep_at += (time.thread_time() - before) * SPARED
        self._looks = claimed is not None
        return claimed

    def serves(self, run: RunRow) -> bool:
        """Whether runs of its flow are worked on here."""
        known = (run.identity, run.source, run.worktree)
        if self._only_given and known not in self._served:
            try:
                self._served[known] = same_flow.given(self.executor, run) is not None
            except OutlastError:  # only a person can say whether it is the same flow
                self._served[known] = False
        return not self._only_given or self._served[known]

    # -- schedules -------------------------------------------------------------------------------

    def declare(self) -> None:
        """Note the schedules that the flows of this worker say."""
        for spec in self.executor.live.flows if self._only_given else ():
            if spec.limits.schedule:
                words = {"timezone": spec.limits.timezone}
                schedule.put(self._caller, spec, spec.name, spec.limits.schedule, {}, **words)

    def _fire(self, now: int) -> int:
        """Put a run into its queue for each time that has come, of flows that are worked on here: how many."""
        due = [(row, self._spec_of(row)) for row in self._home.store.read(lambda look: look.due_schedules(now))]
        return sum(len(schedule.fire_due(self.executor, row, spec)) for row, spec in due if spec is not None)

    def _spec_of(self, row: ScheduleRow) -> FlowSpec | None:
        found = schedule.given_spec(self.executor, row)
        if found is not None or self._only_given:
            return found
        try:
            return find_flow(row.flow, str(self._home.path)).spec
        except OutlastError:  # it is not here: another worker may have it
            return None

    def _has_changed(self) -> bool:
        """Whether somebody has written, or the time of a wait has come, since the last look."""
        rung, self._rung = self._rung, False
        before, self._version = self._version, self._home.store.version()
        return rung or before != self._version or self._is_due()

    def _next_sweep(self) -> float:
        """When to look for processes that died; while nothing changes, not at all where that concerns no run."""
        return inf if self._is_still else self._sweep_at

    def _is_due(self) -> bool:
        return self._next_due is not None and self._next_due <= self._home.clock.now()

    def has_news(self) -> bool:
        """The same at a glance, which changes nothing: another process has written, or a time has come."""
        return self._home.store.version() != self._version or self._is_due()

    def seconds_left(self) -> float:
        """How long nothing here has to be looked at, unless something happens."""
        now = time.monotonic()
        left = 0.0 if self._rung else min(self._next_sweep(), self._sign_at or inf) - now
        if self._next_due is not None:
            left = min(left, (self._next_due - self._home.clock.now()) / 1_000_000)
        return max(left, self._spared_until - now, 0.0)

    # -- what is left alone ----------------------------------------------------------------------

    def _may_take(self, run_id: str) -> bool:
        until, _ = self._refused.get(run_id, (0.0, 0.0))
        return time.monotonic() >= until

    def check_served(self, run_id: str) -> None:
        """Raises NoFlows for a run of a flow that was not given, where only those that were are worked on."""
        if self._only_given:
            run = self.outlast.get(run_id)
            if not self.outlast._is_of_given(run):
                raise NoFlows(run.source, "other flows")

    def refuse(self, run_id: str, error: BaseException) -> bool:
        """Leave a run alone for a while. Whether that is to be told: that somebody else has it is no trouble."""
        if isinstance(error, RunHeld | RunFinished):
            return False
        _, before = self._refused.get(run_id, (0.0, 0.0))
        least, most = (AWAY_SECONDS, AWAY_MOST) if isinstance(error, Unavailable) else (REFUSED_SECONDS, REFUSED_MOST)
        seconds = min(max(2 * before, least), most)
        self._refused[run_id] = (time.monotonic() + seconds, seconds)
        return not isinstance(error, NoFlows)

    def went_on(self, run_id: str) -> None:
        """It did go on: whatever was refused before is over."""
        self._refused.pop(run_id, None)


def told_of(error: BaseException) -> str:
    """What went wrong, with its code where it has one."""
    return f"{error.code}: {error}" if isinstance(error, OutlastError) else f"{type(error).__name__}: {error}"
