"""`--until-done`: going on with a run for as long as it waits for what time will end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING, Any

from outlast.doors.cli.render import at, note
from outlast.errors import RunFinished, RunHeld

if TYPE_CHECKING:
    from outlast import Interrupt, Outcome, Outlast
    from outlast.doors.cli.door import Door

NAP_SECONDS = 0.5  # short, so that a changed clock or a machine that slept is noticed
ELSEWHERE = timedelta(seconds=1)  # how often to look at a run that another process has taken

Ended = tuple["Outcome[Any]", int]  # and the signal that asked it to stop


def until_done(
    outlast: Outlast, first: Ended, resume: Callable[[str], Ended], *, quiet: bool, door: Door | None = None
) -> Ended:
    """The outcome once the run has ended, or waits for what time does not end. Ctrl-C in between leaves it waiting.

    A deadline is a matter of time; whoever answers before it is not waited for any longer.
    """
    outcome, stopped = first
    while not stopped and (due := wakes_at(outlast, outcome)) is not None:
        with _ctrl_c_noted() as pressed:
            if not quiet and outcome.status == "waiting":
                _tell(outlast, outcome, due, door)
            _nap_until(
                due, pressed, partial(_is_answered, outlast, outcome.run_id, _open_ids(outlast, outcome.interrupts))
            )
        try:
            outcome, stopped = resume(outcome.run_id)
        except (RunHeld, RunFinished):  # another process was quicker
            outcome = standing(outlast, outcome.run_id)
    return outcome, stopped


def _tell(outlast: Outlast, outcome: Outcome[Any], due: datetime, door: Door | None) -> None:
    from outlast.doors.cli.ways import ways, whose, with_children

    found = with_children(outlast, outcome.interrupts)
    asked = [wait for wait in found if wait.type not in ("timer", "child")]
    how = (
        "waits until {} at the latest; Ctrl-C leaves it waiting"
        if asked
        else "sleeps until {}; Ctrl-C leaves it asleep"
    )
    note(f"run {outcome.run_id} {how.format(at(due))}")
    for wait in asked:
        note(whose(wait, outcome.run_id))
        for words, command in ways(door, wait, top=outcome.run_id) if door is not None else ():
            note(f"  {words}: {command}")


def _open_ids(outlast: Outlast, waits: Iterable[Interrupt]) -> set[str]:
    """The open waits of a run and of the children that it waits for."""
    from outlast.doors.cli.ways import with_children

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
    from outlast import Outcome

    run = outlast.get(run_id)
    waits = tuple(outlast.interrupts(run_id)) if run.status == "waiting" else ()
    return Outcome(run.id, run.status, run.result, waits, run.error)


def _earliest(outlast: Outlast, waits: tuple[Interrupt, ...]) -> datetime | None:
    """The first moment at which one of these is over, if time ends them all."""
    moments = [_over_at(outlast, wait) for wait in waits]
    known = [moment for moment in moments if moment is not None]
    return min(known) if known and len(known) == len(moments) else None


def _over_at(outlast: Outlast, wait: Interrupt) -> datetime | None:
    if wait.type == "child":
        return wakes_at(outlast, standing(outlast, str(wait.payload.get("child", ""))))
    return wait.due_at


def _nap_until(due: datetime, pressed: Event, is_over: Callable[[], bool]) -> None:
    while (left := (due - datetime.now(UTC)).total_seconds()) > 0 and not is_over() and not pressed.is_set():
        time.sleep(min(left, NAP_SECONDS))


@contextmanager
def _ctrl_c_noted() -> Iterator[Event]:
    """A Ctrl-C inside is raised at the end of the block, between two looks at the store and not amid one."""
    pressed, before = Event(), signal.getsignal(signal.SIGINT)
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
