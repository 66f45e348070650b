"""`holdfast inbox`, `approve` and `decline`: every wait of every run, and the answers to those for approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.choices import decided, go_on
from holdfast.cli.door import Door, command
from holdfast.cli.exits import REFUSED
from holdfast.cli.render import ago, brief, clean, counted, emit, say
from holdfast.domain.interrupt import is_for_people

if TYPE_CHECKING:
    from holdfast import Holdfast, Interrupt, RunRecord

SHOWN = 50
Wait = tuple["Interrupt", "RunRecord"]


@command("inbox")
def inbox(door: Door) -> int:
    """Every open wait of every run, with the commands that answer it. Questions for people come first."""
    from holdfast.cli.outcomes import wait_json

    with door.open() as hold:
        found = _waits(hold, door.scope)
    if door.json:
        emit({"waits": [wait_json(wait) | _whose(run) for wait, run in found]})
    elif found:
        _say_inbox(door, found)
    else:
        say("no run waits for anything; `holdfast runs` lists them all")
    return 0


def _waits(hold: Holdfast, scope: str | None) -> list[Wait]:
    """Open waits with their runs: questions first, each kind the oldest first."""
    from holdfast.errors import RunNotFound

    found = []
    for wait in hold.interrupts():
        try:
            run = hold.get(wait.run_id)
        except RunNotFound:  # removed a moment ago
            continue
        if scope in (None, run.scope):
            found.append((wait, run))
    return sorted(found, key=lambda each: (not is_for_people(each[0].type), each[0].opened_at))


def _whose(run: RunRecord) -> dict[str, Any]:
    return {"task": run.task, "flow": run.flow, "scope": run.scope}


def _say_inbox(door: Door, found: Sequence[Wait]) -> None:
    from holdfast.cli.ways import say_shown, say_ways, ways

    asked = sum(is_for_people(wait.type) for wait, _ in found)
    rest = len(found) - asked
    needs = f"{counted(asked, 'question')} for you" if asked else "no question for you"
    say(needs + (f"; {counted(rest, 'wait')} for a time or another run" if rest else ""))
    for wait, run in found[:SHOWN]:
        say()
        say(f"{wait.says}", "yellow", prose=True)
        say(f"  run {run.id}, {brief(clean(run.task), 40)}, {ago(wait.opened_at)}", "dim")
        say_shown(wait)
        say_ways(ways(door, wait, resume=True))
    if len(found) > SHOWN:
        say()
        say(f"and {len(found) - SHOWN:,} more; --json has all of them")


@command("approve")
@click.argument("interrupt_id", metavar="ID")
@click.option("-m", "--comment", default="", metavar="COMMENT", help="What the flow is told with it.")
@go_on
def approve(door: Door, interrupt_id: str, comment: str, resume: bool) -> int:
    """Say yes to the approval ID. `holdfast inbox` lists what waits."""
    said: dict[str, Any] = {"approved": True} | ({"comment": comment} if comment else {})
    with door.open() as hold:
        wait = hold.answer(interrupt_id, said)
        return decided(door, hold, hold.get(wait.run_id), f"{wait.step} is approved", resume)


@command("decline")
@click.argument("interrupt_id", metavar="ID")
@click.option("-m", "--why", required=True, metavar="WHY", help="Why; it is on the record.")
@go_on
def decline(door: Door, interrupt_id: str, why: str, resume: bool) -> int:
    """Say no to the approval ID. The run ends, aborted, unless its flow says how it goes on."""
    if not why.strip():
        raise click.UsageError("-m needs a reason; it is on the record")
    with door.open() as hold:
        wait = hold.answer(interrupt_id, {"approved": False, "comment": why})
        run = hold.get(wait.run_id)
        what = f"{wait.step} is declined" + ("; the run has ended" if run.finished else "")
        code = decided(door, hold, run, what, resume)
        return REFUSED if resume and run.finished else code
