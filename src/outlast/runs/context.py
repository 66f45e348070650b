"""Where in a run the current code is: a context variable that tasks inherit and threads do not."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.runs.attempt import Attempt
    from outlast.runs.execution import Execution


class Frame:
    """A place in a run: its scope, and the attempt whose body is running, if one is.

    The scope of a task is not known before its first call (`scope` is None until then): a task is told from its
    siblings by the call it begins with, since the order in which tasks start or finish is never identity.
    """

    __slots__ = ("attempt", "base", "execution", "lanes", "scope")

    def __init__(
        self, execution: Execution, scope: str | None = "", attempt: Attempt | None = None, base: str = ""
    ) -> None:
        self.execution = execution
        self.scope = scope
        self.attempt = attempt
        self.base = base
        self.lanes = 0

    def outer(self) -> str:
        """The scope that anything started here begins in."""
        return self.base if self.scope is None else self.scope

    def task(self) -> Frame:
        """The place of a task started here."""
        return Frame(self.execution, None, base=self.outer())

    def lane(self) -> Frame:
        """The place of a function bound here for another thread, numbered in program order."""
        self.lanes += 1
        return Frame(self.execution, f"{self.outer()}~{self.lanes}/")

    def within(self, name: str) -> Frame:
        """A named scope inside this one. In a task that has made no call yet, two such scopes may have one name."""
        if self.scope is None:
            return Frame(self.execution, None, base=f"{self.base}{name}/")
        return Frame(self.execution, f"{self.outer()}{name}/")


CURRENT: ContextVar[Frame | None] = ContextVar("outlast_frame", default=None)
