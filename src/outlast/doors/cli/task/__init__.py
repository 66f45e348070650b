"""`outlast task`: the host bridge. The list of its commands; each is imported when it is called."""

from __future__ import annotations

import click

from outlast.doors.cli.group import Commands, Sections

SECTIONS: Sections = {
    "Work": {
        "open": ("task.commands:open_", "Open a task, or a completed one again."),
        "pause": ("task.commands:pause", "Hand it over, and give the claim back."),
        "resume": ("task.commands:resume", "Claim it, with what was handed over and a verdict."),
        "complete": ("task.commands:complete", "Run its checks and say that it is done."),
        "event": ("task.commands:event", "Record something that happened to it."),
    },
    "Look": {
        "inspect": ("task.commands:inspect", "How it stands, and what may be done with it now."),
        "list": ("task.commands:list_", "The tasks that were opened."),
    },
}


@click.group("task", cls=Commands, sections=SECTIONS)
def task() -> None:
    """What is worked on over many runs, by one worker at a time. A task is
    active, paused, resumed or completed. Pausing stores a handoff under
    task:TASK, resuming claims and recovers it, completing settles it.

    Claims belong to the terminal that made them; elsewhere a claim is shown
    by --claim-id ID or OUTLAST_CLAIM=ID.
    """
