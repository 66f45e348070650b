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
    from holdfast.runtime.inbox import InboxItem

SHOWN = 50


@command("inbox")
@click.option("--assignee", metavar="NAME", help="Only what is asked of NAME.")
@click.option("--type", "kind", metavar="TYPE", help="Only waits of this type: approval, in_doubt, signal, …")
@click.option("--limit", type=click.IntRange(1), metavar="N", help=f"How many at most [{SHOWN}; with --json all].")
def inbox(door: Door, assignee: str | None, kind: str | None, limit: int | None) -> int:
    """Every open wait of every run, with the commands that answer it. Questions for people come first."""
    with door.open() as hold:
        found = [item for item in hold.inbox(assignee=assignee, type=kind) if door.scope in (None, item.scope)]
    if door.json:
        emit({"waits": [_json(door, item) for item in found[:limit]]})
    elif found:
        _say_inbox(door, found, limit or SHOWN)
    elif assignee or kind:
        say("nothing of that kind waits; `holdfast inbox` lists every wait")
    else:
        say("no run waits for anything; `holdfast runs` lists them all")
    return 0


def _json(door: Door, item: InboxItem) -> dict[str, Any]:
    from holdfast.cli.outcomes import wait_json
    from holdfast.cli.ways import ways

    commands = dict(ways(door, item.interrupt, resume=True))
    whose = {"task": item.task, "flow": item.flow, "scope": item.scope}
    return wait_json(item.interrupt) | whose | {"commands": commands}


def _say_inbox(door: Door, found: Sequence[InboxItem], limit: int) -> None:
    from holdfast.cli.ways import say_shown, say_ways, until_when, ways

    asked = [item for item in found if is_for_people(item.interrupt.type)]
    needs = f"{counted(len(asked), 'question')} for you" if asked else "no question for you"
    say(needs + _rest([item for item in found if not is_for_people(item.interrupt.type)]))
    for item in found[:limit]:
        wait = item.interrupt
        say()
        say(f"{wait.says}", "yellow", prose=True)
        say(f"  run {wait.run_id}, {brief(clean(item.task), 40)}, {ago(wait.opened_at)}", "dim")
        say(f"  {'; '.join([wait.type, *until_when(wait)])}", "dim", prose=True)
        say_shown(wait)
        say_ways(ways(door, wait, resume=True))
    if len(found) > limit:
        say()
        say(f"and {len(found) - limit:,} more; --limit shows more, --json has all of them")


def _rest(others: Sequence[InboxItem]) -> str:
    """How many waits no person has to answer."""
    if not others:
        return ""
    signals = any(item.interrupt.type == "signal" for item in others)
    return f"; {counted(len(others), 'wait')} for a time{', a signal' if signals else ''} or another run"


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
