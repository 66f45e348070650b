"""`outlast inbox`, `approve` and `decline`: every wait of every run, and the answers to those for approval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.answering import NotLikeThat, answered
from outlast.doors.cli.choices import decided, go_on, top_of
from outlast.doors.cli.door import Door, command
from outlast.doors.cli.exits import REFUSED
from outlast.doors.cli.render import ago, brief, clean, counted, emit, say
from outlast.runs.waits.interrupt import is_for_people

if TYPE_CHECKING:
    from outlast import Interrupt, Outlast
    from outlast.runs.inbox import InboxItem

SHOWN = 50


@command("inbox")
@click.option("--assignee", metavar="NAME", help="Only what is asked of NAME.")
@click.option("--type", "kind", metavar="TYPE", help="Only waits of this type: approval, in_doubt, signal, …")
@click.option("--limit", type=click.IntRange(1), metavar="N", help=f"How many at most [{SHOWN}; with --json all].")
def inbox(door: Door, assignee: str | None, kind: str | None, limit: int | None) -> int:
    """Every open wait of every run, with the commands that answer it. Questions for people come first."""
    from outlast.doors.cli.ways import is_overdue

    with door.open() as outlast:
        found = [item for item in outlast.inbox(assignee=assignee, type=kind) if door.scope in (None, item.scope)]
        hint = "" if found or door.json else _meant(outlast, assignee, kind)
        late = {item.interrupt.run_id for item in found if is_overdue(item.interrupt)}
        tops = {run: top_of(outlast, outlast.get(run)).id for run in late}
        going = _can_go_on(door, outlast)
    if door.json:
        emit({"waits": [_json(door, item, tops) for item in found[:limit]], "answered": going})
        return 0
    if found:
        _say_inbox(door, found, tops, limit or SHOWN)
    elif assignee or kind:
        say(f"nothing of that kind waits; {hint or '`outlast inbox` lists every wait'}")
    elif not going:
        say("no run waits for anything; `outlast runs` lists them all")
    if going:
        _say_going(door, going)
    return 0


def _meant(outlast: Outlast, assignee: str | None, kind: str | None) -> str:
    """What somebody may have meant who asked for waits of which there are none."""
    from outlast.runs.waits.interrupt import CHOICES
    from outlast.values.nearest import meant

    every = [item.interrupt for item in outlast.inbox()] if assignee or kind else []
    kinds = {*CHOICES, "approval", "signal", *(wait.type for wait in every)}
    if kind and kind not in kinds:
        return meant(kind, kinds)
    return meant(assignee, {wait.assignee for wait in every if wait.assignee}) if assignee else ""


def _can_go_on(door: Door, outlast: Outlast) -> list[str]:
    """The runs that only wait for somebody to go on with them: what they waited for was answered."""
    from outlast.doors.cli.ways import is_overdue, with_children

    now = datetime.now(UTC)
    found = [one for one in outlast.due() if one.reason != "crashed" and door.scope in (None, one.scope)]
    return [
        one.run_id
        for one in found
        if one.reason in ("answered", "asked")
        or not any(
            is_overdue(wait) or (wait.type == "timer" and wait.due_at is not None and wait.due_at <= now)
            for wait in with_children(outlast, outlast.interrupts(one.run_id))
        )
    ]


def _say_going(door: Door, going: Sequence[str]) -> None:
    how = door.command("resume", going[0]) if len(going) == 1 else door.command("tick")
    were = "run was" if len(going) == 1 else "runs were"
    say(f"{len(going):,} {were} answered and can go on: {how}")


def _json(door: Door, item: InboxItem, tops: Mapping[str, str]) -> dict[str, Any]:
    from outlast.doors.cli.ways import ways
    from outlast.python.shown import wait_json

    commands = dict(ways(door, item.interrupt, resume=True, top=tops.get(item.interrupt.run_id, "")))
    whose = {"task": item.task, "flow": item.flow, "scope": item.scope}
    return wait_json(item.interrupt) | whose | {"commands": commands}


def _say_inbox(door: Door, found: Sequence[InboxItem], tops: Mapping[str, str], limit: int) -> None:
    from outlast.doors.cli.ways import asks, is_overdue, say_shown, say_ways, until_when, ways

    asked = [item for item in found if is_for_people(item.interrupt.type) and not is_overdue(item.interrupt)]
    needs = f"{counted(len(asked), 'question')} for you" if asked else "no question for you"
    late = sum(1 for item in found if is_overdue(item.interrupt))
    others = [item for item in found if not is_for_people(item.interrupt.type) and not is_overdue(item.interrupt)]
    say(needs + _rest(others) + (f"; {counted(late, 'wait')} past the deadline" if late else ""))
    for item in found[:limit]:
        wait = item.interrupt
        say()
        say(asks(wait), "yellow")
        say(f"  run {wait.run_id}, {brief(clean(item.task), 40)}, {ago(wait.opened_at)}", "dim")
        say(f"  {'; '.join([wait.type, *until_when(wait)])}", "dim")
        say_shown(door, wait)
        say_ways(ways(door, wait, resume=True, top=tops.get(wait.run_id, "")))
    if len(found) > limit:
        say()
        say(f"and {len(found) - limit:,} more; --limit shows more, --json has all of them")


def _rest(others: Sequence[InboxItem]) -> str:
    """How many waits no person has to answer."""
    if not others:
        return ""
    signals = any(item.interrupt.type == "signal" for item in others)
    return f"; {counted(len(others), 'wait')} for a time{', a signal' if signals else ''} or another run"


def _approval(door: Door, outlast: Outlast, interrupt_id: str) -> Interrupt:
    """The wait, if yes or no answers it. Raises AnswerInvalid, which says what does."""
    wait = outlast.interrupt(interrupt_id)
    if wait.type != "approval" and not wait.choices and is_for_people(wait.type):
        use = f"use `{door.command('answer', wait.id, 'JSON')}`"
        raise NotLikeThat(wait.id, f"is for {wait.type}, which is no approval", use)
    return wait


@command("approve")
@click.argument("interrupt_id", metavar="ID")
@click.option("-m", "--comment", default="", metavar="COMMENT", help="What the flow is told with it.")
@go_on
def approve(door: Door, interrupt_id: str, comment: str, resume: bool) -> int:
    """Say yes to the approval ID. `outlast inbox` lists what waits."""
    said: dict[str, Any] = {"approved": True} | ({"comment": comment} if comment else {})
    with door.open() as outlast:
        wait = answered(door, outlast, _approval(door, outlast, interrupt_id), said, resume)
        return decided(door, outlast, outlast.get(wait.run_id), f"{wait.step} is approved", resume)


@command("decline")
@click.argument("interrupt_id", metavar="ID")
@click.option("-m", "--why", required=True, metavar="WHY", help="Why; it is on the record.")
@go_on
def decline(door: Door, interrupt_id: str, why: str, resume: bool) -> int:
    """Say no to the approval ID. The run ends, aborted, unless its flow says how it goes on."""
    if not why.strip():
        raise click.UsageError("-m needs a reason; it is on the record")
    with door.open() as outlast:
        said = {"approved": False, "comment": why}
        wait = answered(door, outlast, _approval(door, outlast, interrupt_id), said, resume)
        run = outlast.get(wait.run_id)
        what = f"{wait.step} is declined" + ("; the run has ended" if run.finished else "")
        code = decided(door, outlast, run, what, resume)
        return REFUSED if resume and run.finished else code
