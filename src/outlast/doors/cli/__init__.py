"""The command line: parse, one call of Outlast, render.

What every command shares is `entry.py` and `invocation.py`. An event of a coding agent goes another way,
`outlast.doors.hooks`, before anything is imported: the agent waits for it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import NoReturn

GARBAGE = 20_000  # new objects after which it is looked for: what modules make stays, and a command mostly ends before


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["hook"]:
        from outlast.doors.hooks.fire import called, fire

        if (call := called(given)) is not None:
            fire(call)
    gc.set_threshold(GARBAGE)
    from outlast.doors.cli.entry import run_command

    run_command(given)
