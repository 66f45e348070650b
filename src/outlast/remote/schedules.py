"""Schedules of a server: the surface of `outlast.schedules`. The server knows the flow by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.python.schedules import Schedules
from outlast.remote.calls import Given, from_operations

if TYPE_CHECKING:
    from outlast.remote.line import Line


@from_operations("schedules", Schedules)
class RemoteSchedules(Schedules):
    """The schedules of a server; its workers fire them."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def _check_add(self, given: Given) -> None:
        given["flow"] = given["flow"].spec.name
