"""`outlast schedule`: flows that workers run at certain times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import at, note, say, table

if TYPE_CHECKING:
    from outlast.python.schedules import Schedule

SECTIONS: Sections = {
    "Schedules": {
        "add": ("schedule:add", "Run a flow at certain times; the same name changes it."),
        "list": ("schedule:list_", "Every schedule, and when it fires next."),
        "pause": ("schedule:pause", "Let one fire no more."),
        "resume": ("schedule:resume", "Let it fire again."),
        "remove": ("schedule:remove", "Forget one; its runs stay."),
        "trigger": ("schedule:trigger", "Put a run of one into its queue now."),
    },
}


@click.group("schedule", cls=CommandGroup, sections=SECTIONS)
def schedule() -> None:
    """Flows that workers run at certain times (`outlast work`)."""


@command("add", of="schedule_add")
@click.argument("name", metavar="NAME")
@click.argument("flow", metavar="FLOW")
@click.argument("inputs", nargs=-1, metavar="[INPUTS]...")
@click.option("--cron", required=True, metavar="TIMES", help='A line of cron, such as "0 7 * * MON-FRI".')
@click.option("--timezone", default="UTC", metavar="ZONE", help="Whose clock it means, such as Europe/Paris [UTC].")
@click.option("--missed", default="once", type=click.Choice(["once", "all", "skip"]), help="Of missed times [once].")
@click.option("--queue", default="", metavar="QUEUE", help="In which its runs wait [the flow's, else schedules].")
def add(call: Invocation, name: str, flow: str, inputs: tuple[str, ...], **given: Any) -> int:
    """Run a flow at certain times; a schedule of the same NAME is changed.

    FLOW and its inputs are given as to `outlast run`. A worker that has the flow puts a run into its queue at each of
    these times, once, however many workers there are.
    """
    found = late.named_flows.find_flow(flow, call.home, note)
    typed = late.named_flows.inputs_of(found, inputs)
    with call.open(make=True) as outlast:
        return _said(call, outlast.schedules.add(name, found, inputs=typed, **given))


@command("list", of="schedule_list")
def list_(call: Invocation) -> int:
    """Every schedule, and when it fires next."""
    with call.open() as outlast:
        found = outlast.schedules.list()
    if call.json:
        call.tell(found)
    elif found:
        table(("SCHEDULE", "FLOW", "TIMES", "ZONE", "MISSED", "QUEUE", "NEXT"), [_row(each) for each in found])
        _say_unserved(call, found)
    else:
        say("no schedules; make one: outlast schedule add NAME FLOW --cron TIMES")
    return 0


@command("pause", of="schedule_pause")
@click.argument("name", metavar="NAME")
def pause(call: Invocation, name: str, **given: str | None) -> int:
    """Let a schedule fire no more."""
    with call.open() as outlast:
        return _said(call, outlast.schedules.pause(name, **given))


@command("resume", of="schedule_resume")
@click.argument("name", metavar="NAME")
def resume(call: Invocation, name: str, **given: str | None) -> int:
    """Let a schedule fire again, from its next time on."""
    with call.open() as outlast:
        return _said(call, outlast.schedules.resume(name, **given))


@command("remove", of="schedule_remove")
@click.argument("name", metavar="NAME")
def remove(call: Invocation, name: str, **given: str | None) -> int:
    """Forget a schedule. Runs that it began stay."""
    with call.open() as outlast:
        return call.tell_line(outlast.schedules.remove(name, **given), f"schedule {name} is removed")


@command("trigger", of="schedule_trigger")
@click.argument("name", metavar="NAME")
def trigger(call: Invocation, name: str, **given: str | None) -> int:
    """Put a run of a schedule into its queue now, besides those of its times."""
    with call.open() as outlast:
        run = outlast.schedules.trigger(name, **given)
    return call.tell_line(run, f"run {run.id} is {run.status}; see: {call.command('show', run.id)}")


def _said(call: Invocation, found: Schedule) -> int:
    if call.json:
        call.tell(found)
    else:
        say(f"schedule {found.name} is paused" if found.next_at is None else f"{found.name} fires {at(found.next_at)}")
        _say_unserved(call, [found])
    return 0


def _say_unserved(call: Invocation, found: Sequence[Schedule]) -> None:
    """That some do not fire, because nobody works on their flows."""
    flows = list(dict.fromkeys(each.flow for each in found if each.held_up == "no_worker"))
    if flows:
        say(f"no worker has {', '.join(flows)} (no_worker); start one: {call.command('work', *flows)}", "yellow")


def _row(each: Schedule) -> tuple[str, ...]:
    next_at = at(each.next_at) if each.next_at else "paused"
    next_at += f" ({each.held_up})" if each.held_up else ""
    return each.name, each.flow, each.cron, each.timezone, each.missed, each.queue, next_at
