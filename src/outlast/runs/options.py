"""How a call of a flow is asked for, besides its inputs: one frozen value from every door to `begin`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from outlast.values.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller says of the run that is to be started, continued or repeated."""

    task: str | None = None  # None: the caller names none, and it is made of the flow and its inputs
    fresh: bool = False  # give an unfinished run up
    session: str = ""
    trace_id: str = ""
    meta: Mapping[str, Any] | None = None
    again: bool = False  # a finished named task is to happen once more
    yes: bool = False  # whatever effects are repeated by that, they may be
    effects: tuple[str, ...] = field(default=())  # or only those, by the names of their steps
    operation_id: str | None = None

    @property
    def named(self) -> bool:
        """Whether the caller gave the task its name: then it happens once."""
        return self.task is not None

    def said(self) -> list[Any]:
        """What makes two calls with one operation_id the same one."""
        return [self.task, self.fresh, self.session, self.trace_id, dict(self.meta or {}), self.again]


AS_EVER = Options()
