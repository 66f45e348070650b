"""Homes as doors and hooks ask about them, and one opened for a short use in which nothing runs.

Hooks load this at every event: it imports next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from outlast.home.ours import check_found, remember, why_not
from outlast.values import private

if TYPE_CHECKING:
    from outlast.home.caller import Caller as Caller
    from outlast.home.home import Home as Home
    from outlast.runs.live import Executor as Executor

BUSY_SECONDS = 30.0  # that is waited for others who write


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


@contextmanager
def opened(home: str, actor: str, *, busy_seconds: float = BUSY_SECONDS) -> Iterator[Executor]:
    """The home, for one short use; nothing runs here, so there is nothing to end. Raises OutlastError."""
    from outlast.home.caller import Caller
    from outlast.home.home import open_home
    from outlast.home.place import DATABASES, check_name
    from outlast.python.rooms import load_commands
    from outlast.runs.live import Executor, Live

    who = check_name("actor", actor)
    named = os.environ.get("OUTLAST_HOME", "")
    place = open_home(named if named.startswith(DATABASES) else home, store_options={"busy_seconds": busy_seconds})
    claims = set(filter(None, [os.environ.get("OUTLAST_CLAIM")]))
    try:
        caller = Caller(place, who, "default", tokens=claims, door="hook")
        yield Executor(caller, Live(place, load_commands=load_commands))
    finally:
        place.store.close()
