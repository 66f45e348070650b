"""`outlast tick`: wake what is due, one run after another. Meant for cron."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import FAILED, REFUSED, SUCCEEDED, exit_code, is_declined, told
from outlast.doors.cli.render import STYLES, emit, say
from outlast.doors.cli.ways import asks, is_overdue, say_ways, ways, with_children
from outlast.runs.waits.interrupt import BY_DEADLINE

if TYPE_CHECKING:
    from outlast import Interrupt, Outlast
    from outlast.runs.due import Due

REASONS = {
    "crashed": "had crashed",
    "answered": "was answered",
    "asked": "was decided on",
    "over": "has waited long enough",
}
ENDED = {"succeeded": "succeeded", "aborted": "was given up"}
LATE = "was not answered before its deadline"
STANDS = {"held": "somebody else has it", "refused": "it was refused", "finished": "it had been finished"}
WELL = ("succeeded", "waiting", "aborted", "held", "finished")


@dataclass(frozen=True)
class Woken:
    """What came of one run."""

    run_id: str
    reason: str
    status: str | None = None
    error: dict[str, Any] | None = None
    said: str = ""
    code: int = SUCCEEDED
    signal: int = 0
    interrupts: tuple[Interrupt, ...] = ()


@command("tick")
@click.option("--dry-run", is_flag=True, help="Only say what is due.")
def tick(door: Door, dry_run: bool) -> int:
    """Continue every run that is crashed, answered or due. For cron.

    Failed and interrupted runs are left to people. One that fails or is refused does not keep the others from going
    on; one that somebody else has just taken is theirs. Exit 0: all went on; 1: one failed; 4: one was refused.
    """
    with door.open() as outlast:
        outlast._receive_when("never")  # whoever asked for them has not been told
        found = [one for one in outlast.due() if door.scope in (None, one.scope)]
        sys.path.insert(0, os.getcwd())
        whys = {one.run_id: why_due(outlast, one.run_id, one.reason) for one in found}
        work = (Woken(one.run_id, one.reason) for one in found) if dry_run else _wake_all(door, outlast, found)
        woken = []
        for one in work:
            woken.append(one)
            if not door.json:
                _say(door, outlast, one, whys[one.run_id])
    if door.json:
        emit({"ok": not any(one.code for one in woken), "runs": [_plain(one) for one in woken]})
    elif not woken:
        say("nothing is due")
    stopped = max((one.signal for one in woken), default=0)
    return 128 + stopped if stopped else max((one.code for one in woken), default=SUCCEEDED)


def _wake_all(door: Door, outlast: Outlast, found: Sequence[Due]) -> Iterator[Woken]:
    """One after another; a signal stops the one under way and leaves the others."""
    for one in found:
        woken = wake(door, outlast, one)
        yield woken
        if woken.signal:
            return


def wake(door: Door, outlast: Outlast, one: Due) -> Woken:
    """Go on with one run; whatever becomes of it is told, not raised."""
    from outlast.doors.cli.run import outcome_of
    from outlast.errors import OutlastError, RunFinished, RunHeld

    try:
        outcome, signal = outcome_of(door, outlast, one.run_id, lambda: outlast.resume(one.run_id))
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
    return Woken(one.run_id, one.reason, outcome.status, outcome.error, said, code, signal, waits)


def why_due(outlast: Outlast, run_id: str, reason: str) -> str:
    """Why a run can go on, in words: of a child that is over, what became of it."""
    if reason == "answered":
        return LATE if _by_deadline(outlast, run_id) else REASONS[reason]
    if reason != "over":
        return REASONS[reason]
    waits = outlast.interrupts(run_id)
    if any(is_overdue(wait) for wait in waits):
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


def _by_deadline(outlast: Outlast, run_id: str) -> bool:
    found = _answers(outlast, run_id)
    return bool(found) and all(wait.answered_by == BY_DEADLINE for wait in found)


def _say(door: Door, outlast: Outlast, one: Woken, why: str) -> None:
    if one.status is None:
        say(f"run {one.run_id} {why}")
        return
    stands = STANDS.get(one.status, f"it is {one.status}")
    say(f"run {one.run_id} {why}; now {stands}", STYLES.get(one.status, ""))
    if one.said:
        say(f"  {one.said}", prose=True)
    for wait in with_children(outlast, one.interrupts):
        say(f"  {asks(wait)}", prose=True)
        if wait.type not in ("timer", "child"):
            say_ways(ways(door, wait, top=one.run_id))
    if one.status in ("failed", "waiting", "interrupted"):
        say(f"  see: {door.command('show', one.run_id)}")


def _plain(one: Woken) -> dict[str, Any]:
    from outlast.python.shown import wait_json

    told = {"run_id": one.run_id, "reason": one.reason, "status": one.status, "error": one.error}
    return told | {"interrupts": [wait_json(wait) for wait in one.interrupts]}
