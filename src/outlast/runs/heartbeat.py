"""The heart of a process: renews its leases, writes late starts, and hears what outsiders ask of its runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from outlast.errors import LeaseLost, OutlastError, Severed, StoreFailed
from outlast.ledger.lease import Beat
from outlast.runs.stops import PERSON
from outlast.values.threads import begin

if TYPE_CHECKING:
    from outlast.home.home import Runtime
    from outlast.runs.execution import Execution

TICK_SECONDS = 0.05  # a step that runs for longer has its start written


class Heart:
    """A thread that beats while this process has live runs."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self._beaten_at = 0

    def start(self) -> None:
        """Begin to beat, if not beating yet."""
        with self._lock:
            if self._thread is None:
                self._quit = threading.Event()  # of this thread alone: one that is ending keeps its own
                self._beaten_at = self._runtime.clock.boot()
                thread = threading.Thread(target=self._live, args=(self._quit,), name="outlast-heart", daemon=True)
                self._thread = begin(thread, "renewing leases")

    def stop(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
            self._quit.set()
        if thread is not None:
            thread.join()

    def _live(self, over: threading.Event) -> None:
        while not over.wait(TICK_SECONDS):
            self.tick()

    def tick(self) -> None:
        """One beat: late starts of every live run, the process's own row when it is due, the inbox."""
        runtime = self._runtime
        for execution in list(runtime.live.values()):
            try:
                self._tend(execution)
            except (OutlastError, Severed):
                continue  # the run's own next commit tells it
            except Exception as error:  # a heart that stands still would let the lease run out unnoticed
                execution.pen.severed = StoreFailed(runtime.store.path, f"{type(error).__name__}: {error}")
        now = runtime.clock.boot()
        if runtime.live and now - self._beaten_at >= runtime.settings.beat_seconds * 1_000_000:
            self._beaten_at = now
            self._beat()
            self._look_for_the_store()

    def _tend(self, execution: Execution) -> None:
        from outlast.runs import call_off  # late: who only looks has no heart that beats

        runtime = self._runtime
        late = execution.late_starts()
        if late is not None:
            execution.pen.write(late)
        if execution.phase_changed:
            execution.phase_changed = False
            execution.write_phase()
        hold = execution.hold
        lease, asked, waits = runtime.store.read(
            lambda look: (
                look.lease_of(hold.run_id),
                look.untaken(hold.run_key),
                look.waits_of(hold.run_key) if execution.waits else (),
            )
        )
        execution.hear_answers(waits)
        if lease is None or lease.epoch != hold.epoch:  # given up or taken: nothing it does counts any more
            execution.pen.severed = execution.pen.severed or LeaseLost(hold.run_id, hold.epoch)
            call_off.call_off(execution, execution.pen.severed)
        call_off.look(execution)
        if execution.stopped_by != PERSON and any(kind == "pause" for _, kind, _, _ in asked):
            execution.ask_to_stop(PERSON)
            execution.pen.note(execution.pen.fact("run", "pausing", None))  # written at the next tick, for who looks

    def _look_for_the_store(self) -> None:
        try:
            self._runtime.store.still_there()
        except OutlastError as error:
            for execution in list(self._runtime.live.values()):
                execution.pen.severed = error

    def _beat(self) -> None:
        try:
            self._runtime.store.write(lambda tx: tx.beat(self._runtime.beat()))
        except OutlastError:
            return  # a store that cannot be written now: the lease runs out, which is what it is for


def beat_of(runtime: Runtime) -> Beat:
    """This process's sign of life, now."""
    clock = runtime.clock
    return Beat(runtime.process, clock.boot(), clock.now(), runtime.settings.lease_seconds)
