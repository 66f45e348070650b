"""Modules that only some commands need, each loaded when it is first asked for: `late.reading.prompt(…)`.

`outlast --help`, the help of a command, and what only lists runs load none of them. This is the one place that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.values.late import modules_in

if TYPE_CHECKING:
    import shutil as shutil
    import webbrowser as webbrowser
    from importlib import metadata as metadata

    import msgspec as msgspec
    from click import shell_completion as shell_completion
    from msgspec import structs as structs
    from rich import cells as cells
    from rich import console as console
    from rich import text as text

    import outlast as outlast
    from outlast.adapters import temporal as temporal
    from outlast.doors.console import screens as screens
    from outlast.doors.hooks import leave as leave
    from outlast.doors.http import identity as identity
    from outlast.doors.http import serve as serve
    from outlast.doors.http import state as state
    from outlast.doors.mcp import stdio as stdio
    from outlast.operations import reading as reading
    from outlast.operations import shown as shown
    from outlast.python import backups as backups
    from outlast.python import door as door
    from outlast.python import handoffs as handoffs
    from outlast.python import named_flows as named_flows
    from outlast.python import project as project
    from outlast.python import queues as queues
    from outlast.python import shared as shared
    from outlast.python import workspace as workspace
    from outlast.values import codec as codec
    from outlast.values import schema as schema
    from outlast.worker import notify as notify
    from outlast.worker import targets as targets

_PLACES = {
    "": "msgspec outlast shutil webbrowser",
    "click": "shell_completion",
    "importlib": "metadata",
    "msgspec": "structs",
    "outlast.adapters": "temporal",
    "outlast.doors.console": "screens",
    "outlast.doors.hooks": "leave",
    "outlast.doors.http": "identity serve state",
    "outlast.doors.mcp": "stdio",
    "outlast.operations": "reading shown",
    "outlast.python": "backups door handoffs named_flows project queues shared workspace",
    "outlast.values": "codec schema",
    "outlast.worker": "notify targets",
    "rich": "cells console text",
}

if not TYPE_CHECKING:  # a checker sees the imports above, and misses a name that is not among them
    __getattr__ = modules_in(globals(), _PLACES)
