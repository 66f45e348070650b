"""`outlast queue`: what waits in queues, and letting nothing out of one for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli.group import CommandGroup, Sections
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import at

if TYPE_CHECKING:
    from outlast.python.shared import Queue

SECTIONS: Sections = {
    "Queues": {
        "list": ("queue:list_", "Every queue: how many runs wait, since when, how many go on."),
        "pause": ("queue:pause", "Let no run out of a queue any more."),
        "resume": ("queue:resume", "Let runs out of it again."),
        "move": ("queue:move", "Let another engine take its runs."),
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
    columns = ("QUEUE", "ENGINE", "READY", "SINCE", "DELAYED", "RUNNING", "IDLE", "PAUSED")
    return call.tell_list(found, columns, _row, "no queues; a run waits in one by `outlast run FLOW --queue NAME`")


@command("pause", of="queue_pause")
@click.argument("queue", metavar="QUEUE")
def pause(call: Invocation, queue: str, **given: Any) -> int:
    """Let no run out of a queue any more. Those that go on do so."""
    with call.open() as outlast:
        found = outlast.pause_queue(queue, **given)
    return call.tell_line(found, f"queue {queue} is paused; again: {call.command('queue', 'resume', found.name)}")


@command("resume", of="queue_resume")
@click.argument("queue", metavar="QUEUE")
def resume(call: Invocation, queue: str, **given: Any) -> int:
    """Let runs out of a queue again."""
    with call.open() as outlast:
        found = outlast.resume_queue(queue, **given)
    back = call.command("queue", "pause", found.name)
    return call.tell_line(found, f"runs are taken out of queue {queue}; no more: {back}")


@command("move", of="queue_move")
@click.argument("queue", metavar="QUEUE")
def move(call: Invocation, queue: str, to: str, **given: Any) -> int:
    """Let another engine take the runs of a queue: Outlast's own workers, or Temporal.

    What waits, is queued or was interrupted goes on under it, and nothing twice; what executes does so to its next
    wait.
    """
    with call.open() as outlast:
        found = outlast.move_queue(queue, to=to, **given)
    work = call.command("work") if to == "outlast" else call.command("work", "--engine", to)
    return call.tell_line(found, f"runs of queue {queue} are taken by {to} from now on; workers: {work}")


def _row(each: Queue) -> tuple[str, ...]:
    since = at(each.oldest_at) if each.oldest_at else ""
    paused = f"by {each.paused_by}, {at(each.paused_at)}" if each.paused_at else ""
    return (
        each.name,
        each.engine or "outlast",
        str(each.ready),
        since,
        str(each.delayed),
        str(each.running),
        str(each.idle),
        paused,
    )
