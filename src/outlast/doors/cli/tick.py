"""`outlast tick`: wake what is due, several runs side by side. Meant for cron."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import SUCCEEDED, is_declined
from outlast.doors.cli.render import STYLES, counted, emit, say
from outlast.doors.cli.waking import RunWaker, Woken
from outlast.doors.cli.ways import asks, is_overdue, say_ways, ways, with_children
from outlast.runs.waits.interrupt import BY_DEADLINE
from outlast.values.text import duration

if TYPE_CHECKING:
    from outlast import Interrupt, Outlast

JOBS = 4
REASONS = {
    "crashed": "had crashed",
    "stopped": "was stopped by a shutdown",
    "answered": "was answered",
    "asked": "was decided on",
    "over": "has waited long enough",
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
def tick(door: Door, dry_run: bool, every: bool, jobs: int, probe_seconds: float, quiet: bool) -> int:
    """Continue every run that is crashed, answered, due, or was stopped by a shutdown. For cron.

    Failed runs, and those that a person stopped, are left to people. One that fails, hangs or is refused does not keep
    the others from going on; one that somebody else has just taken is theirs. Exit 0: all went on; 1: one failed; 4:
    one was refused. Asked to stop, it stops its runs after their steps, and begins no others.
    """
    from outlast.doors.cli.run import turned_away

    with door.open() as outlast:
        outlast._receive_when("never")  # whoever asked for them has not been told
        found = [one for one in outlast.due(all=True) if door.scope in (None, one.scope)]
        chosen = [one for one in found if every or not one.old]
        sys.path.insert(0, os.getcwd())
        whys = {one.run_id: why_due(outlast, one.run_id, one.reason) for one in chosen}
        waking = RunWaker(door, outlast, [] if dry_run else chosen, jobs, probe_seconds)
        woken = []
        with turned_away(door.json):
            for one in [Woken(one.run_id, one.reason) for one in chosen] if dry_run else waking:
                woken.append(one)
                if not door.json and (one.code or not quiet):
                    _say(door, outlast, one, whys[one.run_id])
        if waking.left_behind:
            outlast._executor.close(wait=False)
    if door.json:
        old = [one.run_id for one in found if one not in chosen]
        emit({"ok": not any(one.code for one in woken), "runs": [_plain(one) for one in woken], "old": old})
    elif not quiet:
        _say_rest(door, len(woken), len(found) - len(chosen))
    return 128 + waking.signal if waking.signal else max((one.code for one in woken), default=SUCCEEDED)


def _say_rest(door: Door, woken: int, old: int) -> None:
    if not woken:
        say("nothing is due")
    if old:
        say(f"{counted(old, 'run')} left more than a week ago: {door.command('tick', '--all')} goes on with them too")


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
        say(f"  {one.said}")
    for wait in with_children(outlast, one.interrupts):
        say(f"  {asks(wait)}")
        if wait.type not in ("timer", "child"):
            say_ways(ways(door, wait, top=one.run_id))
    if one.status in ("failed", "waiting", "interrupted"):
        say(f"  see: {door.command('show', one.run_id)}")


def _plain(one: Woken) -> dict[str, Any]:
    from outlast.python.shown import wait_json

    told = {"run_id": one.run_id, "reason": one.reason, "status": one.status, "error": one.error}
    return told | {"interrupts": [wait_json(wait) for wait in one.interrupts]}
