"""`outlast tick`: wake what is due, several runs side by side. Meant for cron.

Each run goes on in a thread of its own, so many at a time: one that hangs keeps nobody else waiting. A run that does
nothing but ask a probe whether something happened, for longer than is waited for probes, gives its place to the next;
when there are only such runs left they are stopped, or left behind, and go on at another time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import FAILED, REFUSED, SUCCEEDED, exit_code, is_declined, told
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import STYLES, counted, emit, say, turned_away
from outlast.doors.cli.waits import asks, interrupted, mirror, say_ways, ways, with_children
from outlast.errors import NoThread, OutlastError, RunFinished, RunHeld
from outlast.values.ambient import begin
from outlast.values.text import duration

if TYPE_CHECKING:
    from outlast import Due, Interrupt, Outcome, Outlast


JOBS = 4
REASONS = {
    "crashed": "had crashed",
    "stopped": "was stopped by a shutdown",
    "answered": "was answered",
    "asked": "was decided on",
    "over": "has waited long enough",
    "queued": "was queued",
    "not_taken": "was not taken out of its queue in time",
}
ENDED = {"succeeded": "succeeded", "aborted": "was given up"}
LATE = "was not answered before its deadline"
STANDS = {"held": "somebody else has it", "refused": "it was refused", "finished": "it had been finished"}
STANDS |= {"left": "it is left to the next tick"}


def _seconds(context: click.Context, option: click.Parameter, given: str) -> float:
    found = duration(given if not given.isdigit() else float(given))
    if found is None or found < 0:
        raise click.BadParameter(f"{given!r} is no time; use 30s, 5m or 1h")
    return found


@command("tick")
@click.option("--dry-run", is_flag=True, help="Only say what is due.")
@click.option("--all", "every", is_flag=True, help="Also what was left more than a week ago.")
@click.option("--jobs", default=JOBS, type=click.IntRange(1, 64), help=f"How many runs go on at once [{JOBS}].")
@click.option(
    "--wait",
    "probe_seconds",
    default="60s",
    callback=_seconds,
    metavar="TIME",
    help="How long runs may do nothing but ask a probe before they are left to the next tick [60s].",
)
@click.option("--quiet", is_flag=True, help="Say nothing of what is well: only what failed or was refused.")
def tick(call: Invocation, dry_run: bool, every: bool, jobs: int, probe_seconds: float, quiet: bool) -> int:
    """Continue every run that is crashed, answered, due, or was stopped by a shutdown. For cron.

    Failed runs, and those that a person stopped, are left to people; queued ones to workers, but one that nobody took
    in time ends. One that fails, hangs or is refused does not keep the others from going on; one that somebody else has
    just taken is theirs. Exit 0: all went on; 1: one failed; 4: one was refused. Asked to stop, it stops its runs after
    their steps, and begins no others.
    """
    with call.open() as outlast:
        outlast._receive_when("never")  # whoever asked for them has not been told
        found = [one for one in outlast.due(all=True) if call.scope in (None, one.scope) and not one.engine]
        chosen = [one for one in found if every or not one.old]
        sys.path.insert(0, os.getcwd())
        whys = {one.run_id: why_due(outlast, one.run_id, one.reason) for one in chosen}
        waking = RunWaker(call, outlast, [] if dry_run else chosen, jobs, probe_seconds)
        woken = []
        with turned_away(call.json):
            ended = _ended(call, outlast, dry_run)
            for one in chain(ended, [Woken(one.run_id, one.reason) for one in chosen] if dry_run else waking):
                woken.append(one)
                if not call.json and (one.code or not quiet):
                    _say(call, outlast, one, whys.get(one.run_id, REASONS[one.reason]))
        if waking.left_behind:
            late.door.leave_runs(outlast)
    if call.json:
        old = [one.run_id for one in found if one not in chosen]
        emit({"ok": not any(one.code for one in woken), "runs": [_plain(one) for one in woken], "old": old})
    elif not quiet:
        _say_rest(call, len(woken), len(found) - len(chosen))
    return 128 + waking.signal if waking.signal else max((one.code for one in woken), default=SUCCEEDED)


def _ended(call: Invocation, outlast: Outlast, dry_run: bool) -> list[Woken]:
    """The queued runs that nobody took in time: with a tick they end."""
    found = [outlast.get(run_id) for run_id in late.door.end_overdue(outlast, call.scope, dry_run=dry_run)]
    if dry_run:
        return [Woken(run.id, "not_taken") for run in found]
    return [Woken(run.id, "not_taken", run.status, run.error, (run.error or {}).get("message", "")) for run in found]


def _say_rest(call: Invocation, woken: int, old: int) -> None:
    if not woken:
        say("nothing is due")
    if old:
        say(f"{counted(old, 'run')} left more than a week ago: {call.command('tick', '--all')} goes on with them too")


def why_due(outlast: Outlast, run_id: str, reason: str) -> str:
    """Why a run can go on, in words: of a child that is over, what became of it."""
    if reason == "answered":
        found = _answers(outlast, run_id)
        return LATE if found and all(wait.is_answered_by_deadline for wait in found) else REASONS[reason]
    if reason != "over":
        return REASONS[reason]
    waits = outlast.interrupts(run_id)
    if any(wait.is_overdue for wait in waits):
        return LATE
    if any(wait.due_at is not None and wait.due_at <= datetime.now(UTC) for wait in waits):
        return REASONS[reason]
    children = [str(wait.payload.get("child", "")) for wait in waits if wait.type == "child"]
    return next(filter(None, (_of_child(outlast, child) for child in children)), REASONS[reason])


def _of_child(outlast: Outlast, run_id: str) -> str:
    """What became of a child that its parent waits for; empty while it only waits itself."""
    run = outlast.get(run_id)
    if run.finished:
        ended = "was declined" if is_declined(run.status, run.error) else ENDED[run.status]
        return f"has a child run {run.id} that {ended}"
    if run.status == "crashed":
        return f"has a child run {run.id} that had crashed"
    reason = "answered" if _answers(outlast, run_id) else "over"
    return f"has a child run {run.id} that {why_due(outlast, run_id, reason)}"


def _answers(outlast: Outlast, run_id: str) -> list[Interrupt]:
    """What was answered, and has not been used since."""
    ids = [item.interrupt for item in outlast.timeline(run_id) if item.interrupt and item.ended_at is None]
    return [wait for wait in map(outlast.interrupt, ids) if wait.status in ("answered", "cancelled")]


def _say(call: Invocation, outlast: Outlast, one: Woken, why: str) -> None:
    if one.status is None:
        say(f"run {one.run_id} {why}")
        return
    stands = STANDS.get(one.status, f"it is {one.status}")
    say(f"run {one.run_id} {why}; now {stands}", STYLES.get(one.status, ""))
    if one.said:
        say(f"  {one.said}")
    for wait in with_children(outlast, one.interrupts):
        say(f"  {asks(wait)}")
        if wait.type not in ("timer", "child"):
            say_ways(ways(call, wait, top=one.run_id))
    if one.status in ("failed", "waiting", "interrupted"):
        say(f"  see: {call.command('show', one.run_id)}")


def _plain(one: Woken) -> dict[str, Any]:
    told = {"run_id": one.run_id, "reason": one.reason, "status": one.status, "error": one.error}
    return told | {"interrupts": late.shown.shown(list(one.interrupts))}


LOOK_SECONDS = 0.1
SOON_SECONDS = 2.0  # after a signal, for what is not executed here
WELL = ("succeeded", "waiting", "aborted", "held", "finished", "left")


class Woken(NamedTuple):
    """What came of one run."""

    run_id: str
    reason: str
    status: str | None = None
    error: dict[str, Any] | None = None
    said: str = ""
    code: int = SUCCEEDED
    interrupts: tuple[Interrupt, ...] = ()


def wake(call: Invocation, outlast: Outlast, one: Due) -> Woken:
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
    failure = outcome.error.message if outcome.error else ""
    said, waits = ("", outcome.interrupts) if outcome.interrupts else (failure, ())
    return Woken(one.run_id, one.reason, outcome.status, outcome.error, said, code, waits)


def _resumed(outlast: Outlast, run_id: str) -> Outcome[Any]:
    try:
        outcome = outlast._wake(run_id)
    except (SystemExit, KeyboardInterrupt):  # the flow ended itself, or was ended: its record says how it stands
        outcome = interrupted(outlast, run_id)
    mirror(outlast, run_id)
    return outcome


class RunWaker:
    """Wakes runs, `jobs` at a time. `signal` is the first one that asked to stop; then no further run is begun."""

    def __init__(
        self, call: Invocation, outlast: Outlast, found: Sequence[Due], jobs: int, probe_seconds: float
    ) -> None:
        self._door, self._outlast, self._jobs, self._probe_seconds = call, outlast, jobs, probe_seconds
        self._left = deque(found)
        self._under_way: dict[str, Due] = {}
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

    def _work(self, one: Due) -> None:
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
        if self.signal:
            # those of a server go on there, and are not waited for
            executing = late.door.is_executing(self._outlast)
            patience = late.door.seconds_to_stop(self._outlast) if executing else SOON_SECONDS
            if time.monotonic() - self._stopped_at > patience:
                return True
        return not self._left and self._under_way.keys() <= self._slow_probes().keys()

    def _give_up(self) -> Iterator[Woken]:
        """Stop what can be stopped, and leave the rest behind: all of it goes on at another time."""
        asked = self._slow_probes()
        self._outlast.stop(now=True)
        until = time.monotonic() + late.door.seconds_to_stop(self._outlast, now=True)
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
    return woken._replace(status="left", error=None, code=SUCCEEDED, said=f"{why}; it goes on with the next tick")
