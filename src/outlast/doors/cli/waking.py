"""Going on with several runs side by side: each in a thread of its own, so many at a time.

One that hangs keeps nobody else waiting. A run that does nothing but ask a probe whether something happened, for longer
than is waited for probes, gives its place to the next; when there are only such runs left they are stopped, or left
behind, and go on at another time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from outlast.doors.cli.exits import FAILED, REFUSED, SUCCEEDED, exit_code, told
from outlast.errors import NoThread, OutlastError, RunFinished, RunHeld
from outlast.values.ambient import begin

if TYPE_CHECKING:
    from outlast import Interrupt, Outcome, Outlast
    from outlast.doors.cli.door import Door

LOOK_SECONDS = 0.1
SOON_SECONDS = 2.0  # after a signal, for what is not executed here
WELL = ("succeeded", "waiting", "aborted", "held", "finished", "left")


class DueRun(Protocol):
    """A run that can go on, and why."""

    @property
    def run_id(self) -> str: ...
    @property
    def reason(self) -> str: ...


@dataclass(frozen=True)
class Woken:
    """What came of one run."""

    run_id: str
    reason: str
    status: str | None = None
    error: dict[str, Any] | None = None
    said: str = ""
    code: int = SUCCEEDED
    interrupts: tuple[Interrupt, ...] = ()


def wake(door: Door, outlast: Outlast, one: DueRun) -> Woken:
    """Go on with one run; whatever becomes of it is told, not raised."""
    try:
        outcome = _resumed(outlast, one.run_id)
    except RunHeld as error:
        return Woken(one.run_id, one.reason, "held", said=f"taken by {error.holder}")
    except RunFinished as error:
        return Woken(one.run_id, one.reason, "finished", said=f"it {error.status} meanwhile")
    except OutlastError as error:
        code = FAILED if exit_code(error) == FAILED else REFUSED
        return Woken(one.run_id, one.reason, "refused", error.to_dict(), f"{told(error)} [{error.code}]", code)
    code = SUCCEEDED if outcome.status in WELL else FAILED
    failure = str((outcome.error or {}).get("message", ""))
    said, waits = ("", outcome.interrupts) if outcome.interrupts else (failure, ())
    return Woken(one.run_id, one.reason, outcome.status, outcome.error, said, code, waits)


def _resumed(outlast: Outlast, run_id: str) -> Outcome[Any]:
    from outlast.doors.cli.run import interrupted, mirror

    try:
        outcome = outlast.resume(run_id)
    except (SystemExit, KeyboardInterrupt):  # the flow ended itself, or was ended: its record says how it stands
        outcome = interrupted(outlast, run_id)
    mirror(outlast, run_id)
    return outcome


class RunWaker:
    """Wakes runs, `jobs` at a time. `signal` is the first one that asked to stop; then no further run is begun."""

    def __init__(self, door: Door, outlast: Outlast, found: Sequence[DueRun], jobs: int, probe_seconds: float) -> None:
        self._door, self._outlast, self._jobs, self._probe_seconds = door, outlast, jobs, probe_seconds
        self._left = deque(found)
        self._under_way: dict[str, DueRun] = {}
        self._ended: SimpleQueue[Woken] = SimpleQueue()
        self.signal, self._stopped_at = 0, 0.0
        self.left_behind = False  # something hangs still

    def __iter__(self) -> Iterator[Woken]:
        """What came of each, as it ends."""
        with self._outlast.signals() as signals:
            while self._under_way or self._left:
                self._hear(signals.first)
                self._begin()
                try:
                    yield self._next(LOOK_SECONDS)
                except Empty:
                    if self._hangs():
                        yield from self._give_up()
            self._hear(signals.first)

    def _hear(self, number: int) -> None:
        if number and not self.signal:
            self.signal, self._stopped_at = number, time.monotonic()
            self._left.clear()

    def _begin(self) -> None:
        """Begin as many runs as there is room for."""
        while self._left and len(self._under_way) < self._jobs + len(self._slow_probes()):
            one = self._left.popleft()
            self._under_way[one.run_id] = one
            thread = threading.Thread(target=self._work, args=(one,), name=f"outlast-{one.run_id}", daemon=True)
            try:
                begin(thread, f"run {one.run_id}")
            except NoThread:
                self._work(one)

    def _work(self, one: DueRun) -> None:
        try:
            self._ended.put(wake(self._door, self._outlast, one))
        except BaseException as error:  # it is told: nobody else would notice that this thread is gone
            said = f"{type(error).__name__}: {error}"
            self._ended.put(Woken(one.run_id, one.reason, "refused", said=said, code=FAILED))

    def _next(self, seconds: float) -> Woken:
        woken = self._ended.get(timeout=seconds)
        self._under_way.pop(woken.run_id, None)
        return woken

    # -- what hangs ------------------------------------------------------------------------------

    def _slow_probes(self) -> dict[str, str]:
        """The runs that only ask a probe, and have for longer than is waited for, with the step that it is about."""
        found = self._outlast.probing()
        return {run_id: step for run_id, (step, seconds) in found.items() if seconds > self._probe_seconds}

    def _hangs(self) -> bool:
        """Whether nothing is left but probes that take too long, or what does not heed that it was to stop."""
        if self.signal and time.monotonic() - self._stopped_at > self._patience():
            return True
        return not self._left and self._under_way.keys() <= self._slow_probes().keys()

    def _patience(self) -> float:
        """How long runs may take to stop; those of a server go on there, and are not waited for."""
        executor = self._outlast._executor
        settings = executor.home.settings
        return settings.grace_seconds + settings.patience_seconds + 1 if executor.live.executions else SOON_SECONDS

    def _give_up(self) -> Iterator[Woken]:
        """Stop what can be stopped, and leave the rest behind: all of it goes on at another time."""
        asked = self._slow_probes()
        self._outlast.stop(now=True)
        until = time.monotonic() + self._outlast._executor.home.settings.patience_seconds + 1
        while self._under_way and (left := until - time.monotonic()) > 0:
            try:
                woken = self._next(left)
            except Empty:
                break
            yield _told_left(woken, asked) if woken.status == "interrupted" else woken
        self.left_behind = bool(self._under_way)
        yield from [_told_left(Woken(one.run_id, one.reason), asked) for one in self._under_way.values()]
        self._under_way.clear()


def _told_left(woken: Woken, asked: dict[str, str]) -> Woken:
    step = asked.get(woken.run_id)
    why = f"it still asks whether {step} happened" if step else "it does not stop"
    return replace(woken, status="left", error=None, code=SUCCEEDED, said=f"{why}; it goes on with the next tick")
