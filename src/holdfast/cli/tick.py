"""`holdfast tick`: wake what is due, one run after another. Meant for cron."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.door import Door, command
from holdfast.cli.exits import FAILED, REFUSED, SUCCEEDED, exit_code, told
from holdfast.cli.render import STYLES, emit, say
from holdfast.cli.ways import say_ways, ways

if TYPE_CHECKING:
    from holdfast import Holdfast, Interrupt
    from holdfast.runtime.due import Due

REASONS = {
    "crashed": "had crashed",
    "answered": "was answered",
    "asked": "was decided on",
    "over": "has waited long enough",
}
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
    with door.open() as hold:
        found = [one for one in hold.due() if door.scope in (None, one.scope)]
        sys.path.insert(0, os.getcwd())
        work = (Woken(one.run_id, one.reason) for one in found) if dry_run else _wake_all(door, hold, found)
        woken = []
        for one in work:
            woken.append(one)
            if not door.json:
                _say(door, one)
    if door.json:
        emit({"ok": not any(one.code for one in woken), "runs": [_plain(one) for one in woken]})
    elif not woken:
        say("nothing is due")
    stopped = max((one.signal for one in woken), default=0)
    return 128 + stopped if stopped else max((one.code for one in woken), default=SUCCEEDED)


def _wake_all(door: Door, hold: Holdfast, found: Sequence[Due]) -> Iterator[Woken]:
    """One after another; a signal stops the one under way and leaves the others."""
    for one in found:
        woken = wake(door, hold, one)
        yield woken
        if woken.signal:
            return


def wake(door: Door, hold: Holdfast, one: Due) -> Woken:
    """Go on with one run; whatever becomes of it is told, not raised."""
    from holdfast.cli.run import outcome_of
    from holdfast.errors import HoldfastError, RunFinished, RunHeld

    try:
        outcome, signal = outcome_of(door, hold, one.run_id, lambda: hold.resume(one.run_id))
    except RunHeld as error:
        return Woken(one.run_id, one.reason, "held", said=f"taken by {error.holder}")
    except RunFinished as error:
        return Woken(one.run_id, one.reason, "finished", said=f"it {error.status} meanwhile")
    except HoldfastError as error:
        code = FAILED if exit_code(error) == FAILED else REFUSED
        return Woken(one.run_id, one.reason, "refused", error.to_dict(), f"{told(error)} [{error.code}]", code)
    code = SUCCEEDED if outcome.status in WELL else FAILED
    failure = str((outcome.error or {}).get("message", ""))
    said, waits = ("", outcome.interrupts) if outcome.interrupts else (failure, ())
    return Woken(one.run_id, one.reason, outcome.status, outcome.error, said, code, signal, waits)


def _say(door: Door, one: Woken) -> None:
    if one.status is None:
        say(f"run {one.run_id} {REASONS[one.reason]}")
        return
    stands = STANDS.get(one.status, f"it is {one.status}")
    say(f"run {one.run_id} {REASONS[one.reason]}; now {stands}", STYLES.get(one.status, ""))
    if one.said:
        say(f"  {one.said}", prose=True)
    for wait in one.interrupts:
        say(f"  {wait.says}", prose=True)
        if wait.type not in ("timer", "child"):
            say_ways(ways(door, wait))
    if one.status in ("failed", "waiting", "interrupted"):
        say(f"  see: {door.command('show', one.run_id)}")


def _plain(one: Woken) -> dict[str, Any]:
    from holdfast.cli.outcomes import wait_json

    told = {"run_id": one.run_id, "reason": one.reason, "status": one.status, "error": one.error}
    return told | {"interrupts": [wait_json(wait) for wait in one.interrupts]}
