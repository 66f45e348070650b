"""While a run executes here: a line per step, what commands print, and signals turned into a clean stop.

`--until-done`: going on with a run for as long as it waits for what time will end.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

from outlast.clock import moment
from outlast.doors.cli import late
from outlast.doors.cli.entry import trouble
from outlast.doors.cli.render import at, note, took
from outlast.doors.cli.screen import Screen
from outlast.doors.cli.waits import ways, whose, with_children
from outlast.errors import IntegrityBroken, OutlastError, RunFinished, RunHeld

if TYPE_CHECKING:
    from outlast import Event, Interrupt, Outcome, Outlast
    from outlast.doors.cli.invocation import Invocation


POLL_SECONDS = 0.1
LINES_A_POLL = 20  # of a run faster than people read, the rest is counted
BAR_COLUMNS = 20
BAR, BAR_IN_ASCII = ("█", "░"), ("#", "-")


class ProgressWatch:
    """Watches the run that this process executes, for as long as the block lasts."""

    def __init__(self, outlast: Outlast, run_id: str = "", *, quiet: bool = False) -> None:
        self.outlast, self.run_id = outlast, run_id
        self.screen = Screen(quiet=quiet)
        self.screen.before_output = self._before_output
        self._printing: set[str] = set()
        self._looking = threading.Lock()
        self._shared = self.screen.shared()
        self._maps: dict[str, Map] = {}
        self._labels: Callable[[str], str] | None = None
        self._since = datetime.now(UTC)
        self._after = -1
        self._done = 0
        self._running: dict[tuple[str, int, str], datetime] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="outlast-progress", daemon=True)
        self._signals = outlast.signals()

    def __enter__(self) -> ProgressWatch:
        self.outlast.listen(self.screen.output, self.screen.line)
        self._signals.__enter__()
        self._shared.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._shared.__exit__(None, None, None)
            self._over.set()
            self._thread.join()
            self._look(is_last=True)
            self.screen.end()
            self.outlast.listen(None, note)  # what is told when the home is closed
        finally:
            self._signals.__exit__()

    @property
    def signal(self) -> int:
        """The first one that asked to stop."""
        return self._signals.first

    # -- progress ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            self._look()
            self.screen.status(self._status())

    def _status(self) -> str:
        """What is done now, for how long, and what is behind us."""
        bars = [each.shown(path) for path, each in self._maps.items() if not each.told]
        steps = [(step, began) for step, began in self._running.items() if step[0] not in self._maps]
        now = datetime.now(UTC)
        parts = [f"{self._label(*step)}{_again(step[1])} {took(began, now)}" for step, began in steps[:3]]
        more = f" and {len(steps) - 3} more" if len(steps) > 3 else ""
        doing = ", ".join([*bars, *parts]) + more if bars or parts else "between steps"
        stop = "; stopping after it" if self.signal else ""
        return f"· {doing} · {self._done} done{stop}"

    def _label(self, step: str, attempt: int, call: str) -> str:
        """What people call it: of a map's items each its own name."""
        if self._labels is None:
            self._labels = self.outlast._labels(self.run_id)
        return self._labels(call) or step

    def _before_output(self, step: str, is_over: bool) -> None:
        """What happened before a command prints is said before; a step's start is on record before it begins."""
        if is_over:
            self._printing.discard(step)
        elif step not in self._printing:
            self._printing.add(step)
            self._look()

    def _look(self, *, is_last: bool = False) -> None:
        with self._looking:
            try:
                if not self.run_id and (found := self._own_run()):  # who has its outcome names it, meanwhile
                    self.run_id = found
                if self.run_id:
                    self._tell(self._news())
                    # a line that stays, for each map that is through
                    for path, each in self._maps.items():
                        each.is_over = each.is_over or (is_last and each.has_tried_all)
                        if (each.is_over or each.is_through) and not each.told:
                            each.told = True
                            self.screen.line(f"  {each.counted(path)} in {took(each.began, datetime.now(UTC))}")
            except OutlastError:
                self._over.set()  # progress is for people; the run itself reports what is wrong

    def _own_run(self) -> str:
        runs = self.outlast.runs(status="running", limit=50)
        return next((run.id for run in runs if run.holder == "this process" and not run.parent), "")

    def _news(self) -> list[Event]:
        """Events since the last look; at the first, those since this command began."""
        try:
            if self._after < 0:
                self._after = self._first()
            events = self.outlast.events(self.run_id, after=self._after)
        except IntegrityBroken:  # it goes on all the same: somebody has accepted that
            # all that is new comes after the last receipt that is not what was stored
            self._after = max((each.seq for each in self.outlast._attempts(self.run_id).broken()), default=0)
            events = self.outlast.events(self.run_id, after=self._after)
        self._after = events[-1].seq if events else self._after
        return [event for event in events if event.at >= self._since]

    def _first(self) -> int:
        head, back = self.outlast.get(self.run_id, state=False).head, 64
        while back < head:
            if self.outlast.events(self.run_id, after=head - back, limit=1)[0].at < self._since:
                return head - back
            back *= 4
        return 0

    def _tell(self, events: list[Event]) -> None:
        if self.screen.moves:  # elsewhere each item has its lines
            for path, (total, known) in self.outlast._maps(self.run_id).items():
                self._maps.setdefault(path, Map(total, known))
        before = set(self._running)
        lines = [line for event in events if (line := self._line(event))]
        begun = [step for step in self._running if step not in before and step[0] not in self._maps]
        for line in lines[:LINES_A_POLL]:
            self.screen.line(line)
        if len(lines) > LINES_A_POLL:
            self.screen.line(f"  … {len(lines) - LINES_A_POLL} more steps")
        for step in begun[:LINES_A_POLL]:
            self.screen.line(f"  {self._label(*step)} …{_again(step[1])}")

    def _line(self, event: Event) -> str:
        kind, _, status = event.name.partition(".")
        if event.name == "run.retrying" and event.kind == "fact":
            return _retrying(event)
        if event.kind != "fact" or event.emitted or kind not in ("step", "effect"):
            return ""
        place = (event.step, event.attempt, event.call)
        found = self._maps.get(event.step)
        for each in self._maps.values():
            each.is_over = each.is_over or (each is not found and each.has_tried_all)
        if status == "started":
            self._running[place] = event.at
            return ""
        began = self._running.pop(place, None)
        self._done += status in ("succeeded", "skipped")
        if found is not None:
            found.ended(event.call, status)
            if status in ("succeeded", "skipped"):
                return ""
        length = f" in {took(began, event.at)}" if began else ""
        why = f": {_trouble(event.body)}" if isinstance(event.body, dict) else ""
        return f"  {self._label(*place)} {status}{length}{_again(event.attempt)}{why}"


class Map:
    """How far a map is, as the events of its items tell."""

    def __init__(self, total: int, before: int) -> None:
        self.total, self._before = total, before
        self.began = datetime.now(UTC)
        self.told = False  # that it is through
        self.is_over = False  # the body is past it, though some items have failed
        self._good: set[str] = set()
        self._bad: set[str] = set()

    def ended(self, call: str, status: str) -> None:
        """An item has ended; one that failed may be tried again."""
        self._bad.discard(call)
        (self._good if status in ("succeeded", "skipped") else self._bad).add(call)

    @property
    def done(self) -> int:
        return min(self._before + len(self._good), self.total)

    @property
    def has_tried_all(self) -> bool:
        """Every item has ended at least once; one that failed may be tried again."""
        return self.done + len(self._bad) >= self.total

    @property
    def is_through(self) -> bool:
        return self.done >= self.total

    def counted(self, path: str) -> str:
        """Its name and how far it is: `fetch 312/500, 2 failed`."""
        failed = f", {len(self._bad)} failed" if self._bad else ""
        return f"{path.rpartition('/')[2]} {self.done}/{self.total}{failed}"

    def shown(self, path: str) -> str:
        """The same with a bar."""
        full, empty = BAR if "utf" in (sys.stderr.encoding or "").lower() else BAR_IN_ASCII
        name, _, count = self.counted(path).partition(" ")
        filled = self.done * BAR_COLUMNS // self.total
        return f"{name} {full * filled}{empty * (BAR_COLUMNS - filled)} {count}"


def _retrying(event: Event) -> str:
    """That the flow itself failed, and when it is tried again."""
    said = event.body if isinstance(event.body, dict) else {}
    wait = took(event.at, moment(int(said.get("due", 0))))
    tries = f"try {said.get('retry')} of {said.get('of')} in {wait}"
    return f"  the flow failed: {_trouble(said.get('error') or {})}; {tries}"


def _again(attempt: int) -> str:
    return f" (attempt {attempt})" if attempt > 1 else ""


def _trouble(error: dict[str, Any]) -> str:
    kind, message = str(error.get("type", "")).rpartition(":")[2], trouble(error)
    return f"{kind}: {message}" if message else kind


def watched(outlast: Outlast, run_id: str, work: Callable[[], Any], *, quiet: bool) -> tuple[Any, str, int]:
    """The outcome of `work`, None if it was interrupted; the run it was about; and the signal that asked to stop."""
    watch = ProgressWatch(outlast, run_id, quiet=quiet)
    try:
        with watch:
            outcome = work()
            watch.run_id = outcome.run_id
        return outcome, watch.run_id, watch.signal
    except KeyboardInterrupt:
        return None, watch.run_id, watch.signal or signal.SIGINT
    except SystemExit as error:
        note(f"the flow ended itself by sys.exit({error.code!r}); raise an error to fail, return to succeed")
        return None, watch.run_id, watch.signal


NAP_SECONDS = 0.5  # short, so that a changed clock or a machine that slept is noticed
ELSEWHERE = timedelta(seconds=1)  # how often to look at a run that another process has taken

Ended = tuple["Outcome[Any]", int]  # and the signal that asked it to stop


def until_done(
    outlast: Outlast, first: Ended, resume: Callable[[str], Ended], *, quiet: bool, call: Invocation | None = None
) -> Ended:
    """The outcome once the run has ended, or waits for what time does not end. Ctrl-C in between leaves it waiting.

    A deadline is a matter of time; whoever answers before it is not waited for any longer.
    """
    outcome, stopped = first
    while not stopped and (due := wakes_at(outlast, outcome)) is not None:
        with _ctrl_c_noted() as pressed:
            if not quiet and outcome.status == "waiting":
                _tell_wait(outlast, outcome, due, call)
            is_over = partial(_is_answered, outlast, outcome.run_id, _open_ids(outlast, outcome.interrupts))
            while (left := (due - datetime.now(UTC)).total_seconds()) > 0 and not is_over() and not pressed.is_set():
                time.sleep(min(left, NAP_SECONDS))
        try:
            outcome, stopped = resume(outcome.run_id)
        except (RunHeld, RunFinished):  # another process was quicker
            outcome = standing(outlast, outcome.run_id)
    return outcome, stopped


def _tell_wait(outlast: Outlast, outcome: Outcome[Any], due: datetime, call: Invocation | None) -> None:
    found = with_children(outlast, outcome.interrupts)
    asked = [wait for wait in found if wait.type not in ("timer", "child")]
    until, left = ("waits until {} at the latest", "waiting") if asked else ("sleeps until {}", "asleep")
    note(f"run {outcome.run_id} {until.format(at(due))}; Ctrl-C leaves it {left}")
    for wait in asked:
        note(whose(wait, outcome.run_id))
        for words, command in ways(call, wait, top=outcome.run_id) if call is not None else ():
            note(f"  {words}: {command}")


def _open_ids(outlast: Outlast, waits: Iterable[Interrupt]) -> set[str]:
    """The open waits of a run and of the children that it waits for."""
    return {wait.id for wait in with_children(outlast, waits)}


def _is_answered(outlast: Outlast, run_id: str, before: set[str]) -> bool:
    """Whether one of the waits is over before its time."""
    return not before <= _open_ids(outlast, outlast.interrupts(run_id))


def wakes_at(outlast: Outlast, outcome: Outcome[Any]) -> datetime | None:
    """When to go on with a run; None when it has ended or needs more than time."""
    if outcome.status == "running":
        return datetime.now(UTC) + ELSEWHERE
    if outcome.status == "waiting" and not outcome.interrupts:
        return datetime.now(UTC)  # answered while it was still running
    return _earliest(outlast, outcome.interrupts) if outcome.status == "waiting" else None


def standing(outlast: Outlast, run_id: str) -> Outcome[Any]:
    """How a run stands by its record."""
    run = outlast.get(run_id, state=False)
    waits = tuple(outlast.interrupts(run_id)) if run.status == "waiting" else ()
    return late.outlast.Outcome(run.id, run.status, run.result, waits, late.outlast.RunError.of(run.error))


def _earliest(outlast: Outlast, waits: tuple[Interrupt, ...]) -> datetime | None:
    """The first moment at which one of these is over, if time ends them all."""
    moments = [_over_at(outlast, wait) for wait in waits]
    known = [moment for moment in moments if moment is not None]
    return min(known) if known and len(known) == len(moments) else None


def _over_at(outlast: Outlast, wait: Interrupt) -> datetime | None:
    if wait.type == "child":
        return wakes_at(outlast, standing(outlast, str(wait.payload.get("child", ""))))
    return wait.due_at


@contextmanager
def _ctrl_c_noted() -> Iterator[threading.Event]:
    """A Ctrl-C inside is raised at the end of the block, between two looks at the store and not amid one."""
    pressed, before = threading.Event(), signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or current_thread() is not main_thread():
        yield pressed
        return
    signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed.is_set():
            raise KeyboardInterrupt
