"""The heartbeat of a process: renews its leases, writes late starts, and hears what outsiders ask of its runs.

What the death of a run's owner says about the steps that were under way in it.

A step is blamed for a death that it was alone in: nothing else was under way in its run, nor in another run of the
same process, and the machine went on. Who shared a death is counted apart, and asked about only after many of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from outlast import errors
from outlast.errors import OutlastError, Severed
from outlast.home.process import is_alive
from outlast.ledger.lease import was_rebooted
from outlast.runs import journal, stops
from outlast.runs.call import fold
from outlast.runs.stops import PERSON
from outlast.store.contract import LeaseRow, Reading
from outlast.values.ambient import begin
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs import under_way
    from outlast.runs.execution import Execution
else:
    under_way = late("outlast.runs.under_way")


TAKEN, REBOOTED, SHARED = "taken", "rebooted", "shared"


def death_of(home: Home, look: Reading, lease: LeaseRow) -> str:
    """Why the end of a run's last owner is no step's doing alone, as far as others than the run can tell.

    `taken`: it lives; `rebooted`: its machine was; `shared`: it was at work on several runs; else empty.
    """
    beat = look.beat_of(str(lease.holder)) if lease.holder else None
    if beat is None:
        return ""
    if is_alive(beat.process, home.process):
        return TAKEN
    if was_rebooted(beat.process, home.process):
        return REBOOTED
    return SHARED if beat.shared or _several_at_work(home, look, str(lease.holder)) else ""


def _several_at_work(home: Home, look: Reading, process_id: str) -> bool:
    """Whether steps of more than one of its runs were under way. A parent that only waits for its child has none."""
    held = look.runs_held_by(process_id)
    at_work = (run_id for run_id in held if _is_at_work(home, look, run_id)) if len(held) > 1 else iter(())
    return len(list(islice(at_work, 2))) > 1


def _is_at_work(home: Home, look: Reading, run_id: str) -> bool:
    run, lease = look.run_by_id(run_id), look.lease_of(run_id)
    if run is None or lease is None:
        return False
    return bool(fold(*journal.read(look, run)[:2]).in_flight or under_way.starts_of(home, look, run, lease))


TICK_SECONDS = 0.05  # a step that runs for longer has its start written


class Heartbeat:
    """A thread that beats while this process has live runs."""

    def __init__(self, home: Home, executions: Mapping[str, Execution]) -> None:
        self._home, self._executions = home, executions
        self._lock = threading.Lock()
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self._beaten_at = 0
        self._heard: tuple[int, ...] = ()  # of which moment of the store, and for which runs
        self._notes: under_way.StepNotes | None = None

    @property
    def notes(self) -> under_way.StepNotes:
        """What this process is at, for who finds it dead; made for its first step."""
        with self._lock:
            if self._notes is None:
                self._notes = under_way.StepNotes(self._home.folder, self._home.process.id)
            return self._notes

    def start(self) -> None:
        """Begin to beat, if not beating yet."""
        with self._lock:
            if self._thread is None:
                self._quit = threading.Event()  # of this thread alone: one that is ending keeps its own
                self._beaten_at = self._home.clock.boot()
                thread = threading.Thread(target=self._live, args=(self._quit,), name="outlast-heart", daemon=True)
                self._thread = begin(thread, "renewing leases")

    def stop(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
            self._quit.set()
        if thread is not None:
            thread.join()
        if self._notes is not None and not self._executions:
            self._notes.remove()

    def _live(self, over: threading.Event) -> None:
        while not over.wait(TICK_SECONDS):
            self.tick()

    def tick(self) -> None:
        """One beat: late starts of every live run, what others ask of them, the process's own row when it is due."""
        home, live = self._home, list(self._executions.values())
        for execution in live:  # most of thousands only wait: they cost this look
            if (
                (execution.open and execution.fresh)
                or execution.writer.waiting
                or execution.phase_changed
                or execution.deadline_at
                or execution.called_off_at
            ):
                self._guarded([execution], partial(self._tend, execution))
        if live:
            self._guarded(live, partial(self._hear, live))
        now = home.clock.boot()
        if live and now - self._beaten_at >= home.settings.beat_seconds * 1_000_000:
            self._beaten_at = now
            # when the store cannot be written now, the lease runs out, which is what it is for
            with suppress(OutlastError):
                home.store.write(lambda tx: tx.beat(home.beat()))
            self._look_for_the_store()

    def _guarded(self, executions: list[Execution], work: Callable[[], None]) -> bool:
        """Whether it was done. A heartbeat that stands still would let leases run out unnoticed: this ends the runs."""
        try:
            work()
            return True
        except (OutlastError, Severed):
            return False  # the run's own next commit tells it
        except Exception as error:
            for execution in executions:
                execution.writer.severed = errors.StoreFailed(
                    self._home.store.place, f"{type(error).__name__}: {error}"
                )
            return False

    def _tend(self, execution: Execution) -> None:
        """What a run has to say by itself."""
        late = execution.late_starts()
        if late is not None:
            execution.writer.write(late)
        if execution.phase_changed:
            execution.phase_changed = False
            execution.write_phase()
        stops.look(execution)

    def _hear(self, live: list[Execution]) -> None:
        """What others have done to runs or ask of them: one look for all, and a closer one where there is something."""
        store, process = self._home.store, self._home.process.id
        now = (store.version(), *map(id, live))  # of before the look: what is written meanwhile is heard the next time
        if now == self._heard:
            return
        held, asked = store.ask(lambda look: look.held_by(process))
        closer = [
            self._guarded([execution], partial(self._look_closer, execution))
            for execution in live
            if asked or execution.waits or held.get(execution.hold.lease_key) != execution.hold.epoch
        ]
        self._heard = now if all(closer) else ()

    def _look_closer(self, execution: Execution) -> None:
        hold = execution.hold
        lease, asked, waits = self._home.store.read(
            lambda look: (
                look.lease_of(hold.run_id),
                look.untaken(hold.run_key),
                look.waits_of(hold.run_key) if execution.waits else (),
            )
        )
        execution.hear_answers(waits)
        if lease is None or lease.epoch != hold.epoch:  # given up or taken: nothing it does counts any more
            execution.writer.severed = execution.writer.severed or errors.LeaseLost(hold.run_id, hold.epoch)
            stops.call_off(execution, execution.writer.severed)
        pausing = [actor for _, kind, _, actor in asked if kind == "pause"]
        if execution.stopped_by != PERSON and pausing:
            execution.ask_to_stop(PERSON)
            # written at the next tick, for who looks
            execution.writer.note(execution.writer.fact("run", "pausing", {"by": pausing[-1]}))

    def _look_for_the_store(self) -> None:
        try:
            self._home.store.still_there()
        except OutlastError as error:
            for execution in list(self._executions.values()):
                execution.writer.severed = error
