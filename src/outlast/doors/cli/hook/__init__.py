"""`outlast hook`: hooks for coding agents. Events never come here: `outlast.doors.hooks.fire` takes them."""

from __future__ import annotations

import click

from outlast.doors.cli.group import Commands, Sections

_EVENT = "What a client calls {}; it reads its JSON on stdin."
SECTIONS: Sections = {
    "Set up": {
        "install": ("hook.setup:install", "Let a coding agent call Outlast."),
        "uninstall": ("hook.setup:uninstall", "Take our hooks out of its settings, and nothing else."),
        "status": ("hook.setup:status", "Who calls what, open sessions, and what went wrong."),
        "drain": ("hook.setup:drain", "Store now what hooks noted and nobody stored yet."),
    },
    "Called by agents": {
        "start": ("hook.setup:start", _EVENT.format("when a session starts")),
        "stop": ("hook.setup:stop", _EVENT.format("after a turn")),
        "compact": ("hook.setup:compact", _EVENT.format("before it compacts")),
        "end": ("hook.setup:end", _EVENT.format("when a session ends")),
    },
}


@click.group("hook", cls=Commands, sections=SECTIONS)
def hook() -> None:
    """A coding agent's session that ends, compacts or dies leaves a handoff,
    and the next one starts from it, verdict first.

    Stored under task:$OUTLAST_TASK, else branch:BRANCH, in the home of the
    main worktree. What a hook stored says so (source: hook). A hook never
    blocks or fails the agent; what went wrong is in hooks.log in the home.
    """
