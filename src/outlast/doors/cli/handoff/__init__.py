"""`outlast handoff`: the list of its commands. Each is imported when it is called."""

from __future__ import annotations

import click

from outlast.doors.cli.group import CommandGroup, Sections

SECTIONS: Sections = {
    "Hand over": {
        "store": ("handoff.store:store", "Store the next revision of a handoff."),
        "lint": ("handoff.store:lint", "What would make a handoff better; nothing is stored."),
    },
    "Continue": {
        "recover": ("handoff.recover:recover", "A handoff with its verdict, here and now."),
        "claim": ("handoff.recover:claim", "The exclusive right to continue it, for 15 minutes."),
        "renew": ("handoff.recover:renew", "Begin the claim's time anew."),
        "verify": ("handoff.recover:verify", "Run its checks, and record what came of them."),
        "settle": ("handoff.recover:settle", "Say how the work ended, and give the claim back."),
    },
    "Look": {
        "list": ("handoff.look:list_", "The newest handoffs."),
        "show": ("handoff.look:show", "A revision exactly as it was stored."),
        "history": ("handoff.look:history", "Everything that happened under an anchor."),
    },
    "Carry": {
        "diff": ("handoff.look:diff", "What changed since it was stored, or between revisions."),
        "apply": ("handoff.look:apply", "Bring its work into this clone: all of it, or nothing."),
        "export": ("handoff.look:export", "A handoff with its history as one file."),
        "import": ("handoff.look:import_", "Bring in such a file."),
    },
}


@click.group("handoff", cls=CommandGroup, sections=SECTIONS)
def handoff() -> None:
    """Hand work over to whoever continues it: another process, machine, agent
    or person. What is stored is a contract under an ANCHOR, a name of your
    choice; recovering it says with reasons how far it may be trusted.

    ANCHOR@3 names its third revision. Claims belong to the terminal that made
    them; elsewhere a claim is shown by --claim-id ID or OUTLAST_CLAIM=ID.
    """
