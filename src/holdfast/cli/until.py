"""`--until-done`: going on with a run for as long as it only waits for the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.cli.render import at, note
from holdfast.errors import RunFinished, RunHeld

if TYPE_CHECKING:
    from holdfast import Holdfast, Interrupt, Outcome

NAP_SECONDS = 0.5  # short, so that a changed clock or a machine that slept is noticed
ELSEWHERE = timedelta(seconds=1)  # how often to look at a run that another process has taken

Ended = tuple["Outcome[Any]", int]  # and the signal that asked it to stop


def until_done(hold: Holdfast, first: Ended, resume: Callable[[str], Ended], *, quiet: bool) -> Ended:
    """The outcome once the run has ended, or waits for anything but the time. Ctrl-C in between leaves it waiting."""
    outcome, signal = first
    while not signal and (due := wakes_at(hold, outcome)) is not None:
        if not quiet and outcome.status == "waiting":
            note(f"run {outcome.run_id} sleeps until {at(due)}; Ctrl-C leaves it asleep")
        _nap_until(due)
        try:
            outcome, signal = resume(outcome.run_id)
        except (RunHeld, RunFinished):  # another process was quicker
            outcome = standing(hold, outcome.run_id)
    return outcome, signal


def wakes_at(hold: Holdfast, outcome: Outcome[Any]) -> datetime | None:
    """When to go on with a run; None when it has ended or needs more than time."""
    if outcome.status == "running":
        return datetime.now(UTC) + ELSEWHERE
    return _earliest(hold, outcome.interrupts) if outcome.status == "waiting" else None


def standing(hold: Holdfast, run_id: str) -> Outcome[Any]:
    """How a run stands by its record."""
    from holdfast import Outcome

    run = hold.get(run_id)
    waits = tuple(hold.interrupts(run_id)) if run.status == "waiting" else ()
    return Outcome(run.id, run.status, run.result, waits, run.error)


def _earliest(hold: Holdfast, waits: tuple[Interrupt, ...]) -> datetime | None:
    """The first moment at which one of these is over, if time ends them all."""
    moments = [_over_at(hold, wait) for wait in waits]
    known = [moment for moment in moments if moment is not None]
    return min(known) if known and len(known) == len(moments) else None


def _over_at(hold: Holdfast, wait: Interrupt) -> datetime | None:
    if wait.type == "timer":
        return wait.due_at
    if wait.type == "child":
        return wakes_at(hold, standing(hold, str(wait.payload.get("child", ""))))
    return None


def _nap_until(due: datetime) -> None:
    while (left := (due - datetime.now(UTC)).total_seconds()) > 0:
        time.sleep(min(left, NAP_SECONDS))
