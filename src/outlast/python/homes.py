"""Homes as doors and hooks ask about them. Hooks load this at every event: it imports next to nothing.

What gets past a gate: where work waits for a person, these let it go on. Doors ask for the right to use them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from outlast.home.ours import check_found, remember, why_not
from outlast.values import private


def why_unused(home: str) -> str:
    """Why a hook uses nothing of the home that it found; "" when it is ours. One that is named by OUTLAST_HOME is."""
    return "" if os.environ.get("OUTLAST_HOME") else why_not(home)


def check_home(home: str, tell: Callable[[str], None]) -> None:
    """Make sure, for a command, that a home is ours; one that is not known yet is adopted. Raises HomeNotOurs."""
    if not os.environ.get("OUTLAST_HOME"):
        check_found(home, tell)


def make_home(home: str) -> None:
    """The folder of a home; that it was made here is remembered. Raises OSError."""
    if private.make_home(home):
        remember(home, "made")


# Fields of a call, by whatever door, that take something upon oneself which stopped the work. Calls that do so by
# themselves (answer, cancel, skip, rewind, and retry of an effect) say so in the tables of the doors.
GATES = ("accept", "take", "override", "again", "fork")
GATES_OF_RESUME = (*GATES, "flow")  # another flow that the run goes on with may ask nobody
