"""`outlast workspace`: the list of its commands. Each is imported when it is called."""

from __future__ import annotations

import click

from outlast.doors.cli.group import CommandGroup, Sections

SECTIONS: Sections = {
    "Artifacts": {
        "save": ("workspace.artifacts:save", "Save a file under a name, as its next version."),
        "get": ("workspace.artifacts:get", "The content of an artifact, checked."),
        "list": ("workspace.artifacts:list_", "The artifacts, those saved last first."),
        "versions": ("workspace.artifacts:versions", "Every version of a name."),
    },
    "Checkpoints": {
        "checkpoint": ("workspace.artifacts:checkpoint", "Pin where a task stands, under a name."),
        "checkpoints": ("workspace.artifacts:checkpoints", "What was pinned, the newest first; or one of them."),
        "diff": ("workspace.artifacts:diff", "What changed between two checkpoints."),
    },
    "Records": {
        "record": ("workspace.records:record", "Record an observation, a decision, evidence or a note."),
        "record-many": ("workspace.records:record_many", "Record what the lines of a file say, all or none."),
        "records": ("workspace.records:records", "What was recorded, the newest first."),
        "pin": ("workspace.records:pin", "Let recall never leave a record out."),
        "unpin": ("workspace.records:unpin", "Take a pin away."),
    },
    "Recall": {
        "recall": ("workspace.records:recall", "What matters for a goal, within a number of tokens."),
    },
    "Evidence": {
        "link": ("workspace.records:link", "Say how two things with refs bear on each other."),
        "links": ("workspace.records:links", "The links from and to a ref."),
        "why": ("workspace.records:why", "What a ref rests on, and how that stands."),
    },
}


@click.group("workspace", cls=CommandGroup, sections=SECTIONS)
def workspace() -> None:
    """Content that outlives a run, named boundaries of tasks, records and links.

    REF is what saving gave: artifact:SCOPE/NAME@VERSION; or a name, for its
    newest version; or NAME@2. A name is only a name, never a path. What is
    read is checked, and refused if it is not what was saved. Records and links
    take refs of every kind: also record:ID, checkpoint:ID, handoff:ID, run:ID.
    """
