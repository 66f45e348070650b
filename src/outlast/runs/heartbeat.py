"""The heart of a process: renews its leases, writes late starts, and hears what outsiders ask of its runs.

What the death of a run's owner says about the steps that were under way in it.

A step is blamed for a death that it was alone in: nothing else was under way in its run, nor in another run of the
same process, and the machine went on. Who shared a death is counted apart, and asked about only after many of them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from outlast.errors import LeaseLost, OutlastError, Severed, StoreFailed
from outlast.home.process import is_alive
from outlast.ledger.lease import was_rebooted
from outlast.runs import journal, stops
from outlast.runs.call import fold
from outlast.runs.stops import PERSON
from outlast.store.contract import LeaseRow, Reading, Writing
from outlast.values.ambient import begin

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs.execution import Execution
    from outlast.runs.under_way import StepNotes


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


def note_death(tx: Writing, lease: LeaseRow, death: str) -> None:
    """Keep with the dead process that its runs shared its death: those that are taken up later would not see it."""
    if death == SHARED:
        tx.note_shared(str(lease.holder))


def _several_at_work(home: Home, look: Reading, process_id: str) -> bool:
    """Whether steps of more than one of its runs were under way. A parent that only waits for its child has none."""
    at_work = (run_id for run_id in look.runs_held_by(process_id) if _is_at_work(home, look, run_id))
    return len(list(islice(at_work, 2))) > 1


def _is_at_work(home: Home, look: Reading, run_id: str) -> bool:
    run, lease = look.run_by_id(run_id), look.lease_of(run_id)
    if run is None or lease is None:
        return False
    from outlast.runs.under_way import starts_of

    return bool(fold(*journal.read(look, run)[:2]).in_flight or starts_of(home, look, run, lease))


TICK_SECONDS = 0.05  # a step that runs for longer has its start written


class Heart:
    """A thread that beats while this process has live runs."""

    def __init__(self, home: Home, executions: Mapping[str, Execution]) -> None:
        self._home, self._executions = home, executions
        self._lock = threading.Lock()
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self._beaten_at = 0
        self._notes: StepNotes | None = None

    @property
    def notes(self) -> StepNotes:
        """What this process is at, for who finds it dead; made for its first step."""
        with self._lock:
            if self._notes is None:
                from outlast.runs.under_way import StepNotes

                self._notes = StepNotes(self._home.folder, self._home.process.id)
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
        """One beat: late starts of every live run, the process's own row when it is due, the inbox."""
        home = self._home
        for execution in list(self._executions.values()):
            try:
                self._tend(execution)
            except (OutlastError, Severed):
                continue  # the run's own next commit tells it
            except Exception as error:  # a heart that stands still would let the lease run out unnoticed
                execution.pen.severed = StoreFailed(home.store.path, f"{type(error).__name__}: {error}")
        now = home.clock.boot()
        if self._executions and now - self._beaten_at >= home.settings.beat_seconds * 1_000_000:
            self._beaten_at = now
            self._beat()
            self._look_for_the_store()

    def _tend(self, execution: Execution) -> None:
        late = execution.late_starts()
        if late is not None:
            execution.pen.write(late)
        if execution.phase_changed:
            execution.phase_changed = False
            execution.write_phase()
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
            execution.pen.severed = execution.pen.severed or LeaseLost(hold.run_id, hold.epoch)
            stops.call_off(execution, execution.pen.severed)
        stops.look(execution)
        if execution.stopped_by != PERSON and any(kind == "pause" for _, kind, _, _ in asked):
            execution.ask_to_stop(PERSON)
            execution.pen.note(execution.pen.fact("run", "pausing", None))  # written at the next tick, for who looks

    def _look_for_the_store(self) -> None:
        try:
            self._home.store.still_there()
        except OutlastError as error:
            for execution in list(self._executions.values()):
                execution.pen.severed = error

    def _beat(self) -> None:
        try:
            self._home.store.write(lambda tx: tx.beat(self._home.beat()))
        except OutlastError:
            return  # a store that cannot be written now: the lease runs out, which is what it is for
