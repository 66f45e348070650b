"""`outlast session`: conversations. The list of its commands; each is imported when it is called."""

from __future__ import annotations

import click

from outlast.doors.cli.group import Commands, Sections

SECTIONS: Sections = {
    "Look": {
        "list": ("session.commands:list_", "The sessions, those written to last first."),
        "show": ("session.commands:show", "A session: its memo, its runs, its newest messages."),
        "window": ("session.commands:window", "What of it fits in a number of tokens."),
    },
    "Write": {
        "append": ("session.commands:append", "Append a message."),
        "memo": ("session.commands:memo", "Show the memo, or set it."),
    },
}


@click.group("session", cls=Commands, sections=SECTIONS)
def session() -> None:
    """Conversations: messages in order, a window of them that fits a model,
    and a memo that may stand for the older ones. SESSION is an id of your
    choice, whole. The first message makes a session.

    A session is not a task's memory: no run depends on it. What is in it is
    kept as plain text.
    """
