"""`outlast queue`: what waits in queues, and letting nothing out of one for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import at, say, table

if TYPE_CHECKING:
    from outlast.python.shared import Queue

SECTIONS: Sections = {
    "Queues": {
        "list": ("queue:list_", "Every queue: how many runs wait, since when, how many go on."),
        "pause": ("queue:pause", "Let no run out of a queue any more."),
        "resume": ("queue:resume", "Let runs out of it again."),
    },
}


@click.group("queue", cls=CommandGroup, sections=SECTIONS)
def queue() -> None:
    """Queues, in which runs wait until a worker takes them (`outlast work`)."""


@command("list", of="queue_list")
def list_(call: Invocation) -> int:
    """Every queue that a run ever waited in: how many wait, since when, and how many go on."""
    with call.open() as outlast:
        found = outlast.queues()
    if call.json:
        call.tell(found)
    elif found:
        table(("QUEUE", "READY", "SINCE", "DELAYED", "RUNNING", "IDLE", "PAUSED"), [_row(each) for each in found])
    else:
        say("no queues; a run waits in one by `outlast run FLOW --queue NAME`")
    return 0


@command("pause", of="queue_pause")
@click.argument("queue", metavar="QUEUE")
def pause(call: Invocation, queue: str, **given: Any) -> int:
    """Let no run out of a queue any more. Those that go on do so."""
    with call.open() as outlast:
        return _said(call, outlast.pause_queue(queue, **given), f"queue {queue} is paused; again: ", "resume")


@command("resume", of="queue_resume")
@click.argument("queue", metavar="QUEUE")
def resume(call: Invocation, queue: str, **given: Any) -> int:
    """Let runs out of a queue again."""
    with call.open() as outlast:
        found = outlast.resume_queue(queue, **given)
        return _said(call, found, f"runs are taken out of queue {queue}; no more: ", "pause")


def _said(call: Invocation, found: Queue, line: str, back: str) -> int:
    if call.json:
        call.tell(found)
    else:
        say(line + call.command("queue", back, found.name))
    return 0


def _row(each: Queue) -> tuple[str, ...]:
    since = at(each.oldest_at) if each.oldest_at else ""
    paused = f"by {each.paused_by}, {at(each.paused_at)}" if each.paused_at else ""
    return each.name, str(each.ready), since, str(each.delayed), str(each.running), str(each.idle), paused
