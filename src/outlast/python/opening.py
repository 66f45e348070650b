"""A home, opened for one short use in which nothing runs: for the events of coding agents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.home.caller import Caller as Caller
    from outlast.home.home import Home as Home
    from outlast.runs.live import Executor as Executor

BUSY_SECONDS = 30.0  # that is waited for others who write


@contextmanager
def opened(home: str, actor: str, *, busy_seconds: float = BUSY_SECONDS) -> Iterator[Executor]:
    """The home, for one short use; nothing runs here, so there is nothing to end. Raises OutlastError."""
    from outlast.handoffs.observer import HERE
    from outlast.home.caller import Caller
    from outlast.home.home import open_home
    from outlast.home.place import check_name
    from outlast.runs.live import Executor, Live

    who = check_name("actor", actor)
    place = open_home(home, store_options={"busy_seconds": busy_seconds})
    claims = set(filter(None, [os.environ.get("OUTLAST_CLAIM")]))
    try:
        yield Executor(Caller(place, who, "default", HERE, tokens=claims, door="hook"), Live(place))
    finally:
        place.store.close()
