"""Where in a run the current code is: a context variable that tasks inherit and threads do not."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runtime.attempt import Attempt
    from holdfast.runtime.execution import Execution


class Frame:
    """A place in a run: its scope, and the attempt whose body is running, if one is."""

    __slots__ = ("attempt", "execution", "lanes", "scope")

    def __init__(self, execution: Execution, scope: str = "", attempt: Attempt | None = None) -> None:
        self.execution = execution
        self.scope = scope
        self.attempt = attempt
        self.lanes = 0

    def lane(self) -> Frame:
        """A new scope for a task or thread started here, numbered in program order."""
        self.lanes += 1
        return Frame(self.execution, f"{self.scope}~{self.lanes}/")

    def within(self, name: str) -> Frame:
        """A named scope inside this one."""
        return Frame(self.execution, f"{self.scope}{name}/")


CURRENT: ContextVar[Frame | None] = ContextVar("holdfast_frame", default=None)
