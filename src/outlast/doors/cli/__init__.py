"""The command line: parse, one call of Outlast, render.

What every command shares is `entry.py` and `invocation.py`. An event of a coding agent goes another way,
`outlast.doors.hooks`, before anything is imported: the agent waits for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["hook"]:
        from outlast.doors.hooks.fire import called, fire

        if (call := called(given)) is not None:
            fire(call)
    from outlast.doors.cli.entry import run_command

    run_command(given)
