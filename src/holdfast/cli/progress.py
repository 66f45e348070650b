"""While a run executes here: a line per step on stderr, and signals turned into a clean stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any

from holdfast.cli.render import note, took
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast import Event, Holdfast

GRACE_SECONDS = 30.0
POLL_SECONDS = 0.1
LINES_A_POLL = 20  # of a run faster than people read, the rest is counted


class Watch:
    """Watches the run that this process executes, for as long as the block lasts."""

    def __init__(self, hold: Holdfast, run_id: str = "", *, quiet: bool = False) -> None:
        self.hold, self.run_id, self.quiet = hold, run_id, quiet
        self.signal = 0  # the first one that asked to stop
        self._since = datetime.now(UTC)
        self._after = -1
        self._running: dict[tuple[str, int], datetime] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="holdfast-progress", daemon=True)
        self._handlers: dict[int, Any] = {}
        self._timer = threading.Timer(GRACE_SECONDS, self._time_is_up)

    def __enter__(self) -> Watch:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._asked_to_stop)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._over.set()
        self._thread.join()
        self._look()

    # -- signals -----------------------------------------------------------------------------------

    def _asked_to_stop(self, number: int, _: FrameType | None) -> None:
        """The first signal lets the step finish; the second ends it. No locks and no buffers in here."""
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        step = next(reversed(self._running), ("the current step", 0))[0]
        os.write(2, f"\nfinishing {step}, up to {GRACE_SECONDS:.0f} s; again to stop now\n".encode())
        self.hold.stop()
        self._timer.daemon = True
        self._timer.start()

    def _time_is_up(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    # -- progress ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            if self.signal:
                self.hold.stop()  # again: the first may have come before the run was live
            self._look()

    def _look(self) -> None:
        try:
            self.run_id = self.run_id or self._own_run()
            if self.run_id:
                self._tell(self._news())
        except HoldfastError:
            self._over.set()  # progress is for people; the run itself reports what is wrong

    def _own_run(self) -> str:
        runs = self.hold.runs(status="running", limit=50)
        return next((run.id for run in runs if run.holder == "this process" and not run.parent), "")

    def _news(self) -> list[Event]:
        """Events since the last look; at the first, those since this command began."""
        if self._after < 0:
            self._after = self._first()
        events = self.hold.events(self.run_id, after=self._after)
        self._after = events[-1].seq if events else self._after
        return [event for event in events if event.at >= self._since]

    def _first(self) -> int:
        head, back = self.hold.get(self.run_id).head, 64
        while back < head:
            if self.hold.events(self.run_id, after=head - back, limit=1)[0].at < self._since:
                return head - back
            back *= 4
        return 0

    def _tell(self, events: list[Event]) -> None:
        before = set(self._running)
        lines = [line for event in events if (line := self._line(event))]
        begun = [step for step in self._running if step not in before]
        if self.quiet:
            return
        for line in lines[:LINES_A_POLL]:
            note(line)
        if len(lines) > LINES_A_POLL:
            note(f"  … {len(lines) - LINES_A_POLL} more steps")
        for step, attempt in begun[:LINES_A_POLL]:
            note(f"  {step} …{_again(attempt)}")

    def _line(self, event: Event) -> str:
        kind, _, status = event.name.partition(".")
        if event.kind != "fact" or kind not in ("step", "effect"):
            return ""
        place = (event.step, event.attempt)
        if status == "started":
            self._running[place] = event.at
            return ""
        began = self._running.pop(place, None)
        length = f" in {took(began, event.at)}" if began else ""
        why = f": {_trouble(event.body)}" if isinstance(event.body, dict) else ""
        return f"  {event.step} {status}{length}{_again(event.attempt)}{why}"


def _again(attempt: int) -> str:
    return f" (attempt {attempt})" if attempt > 1 else ""


def _trouble(error: dict[str, Any]) -> str:
    kind, message = str(error.get("type", "")).rpartition(":")[2], str(error.get("message", ""))
    return f"{kind}: {message}" if message else kind


def watched(hold: Holdfast, run_id: str, work: Callable[[], Any], *, quiet: bool) -> tuple[Any, Watch]:
    """The outcome of `work`, None if it was interrupted; and what watching it has learnt."""
    watch = Watch(hold, run_id, quiet=quiet)
    try:
        with watch:
            outcome = work()
            watch.run_id = outcome.run_id
        return outcome, watch
    except KeyboardInterrupt:
        watch.signal = watch.signal or signal.SIGINT
        return None, watch
    except SystemExit as error:
        note(f"the flow ended itself by sys.exit({error.code!r}); raise an error to fail, return to succeed")
        return None, watch
