"""The inbox as callers get it: every open wait and, looked at only when it is asked for, what is contested."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from outlast.handoffs.recovered import Listed
from outlast.python.handoffs import Handoffs
from outlast.runs.inbox import InboxItem

MOST = 50  # so many of the newest handoffs are judged


class Inbox(list[InboxItem]):
    """The open waits: questions for people first. `contested` has the handoffs that something contests."""

    def __init__(self, waits: Iterable[InboxItem], look: Callable[[], list[Listed]] = list) -> None:
        super().__init__(waits)
        self._look = look

    @cached_property
    def contested(self) -> list[Listed]:
        """Of the newest handoffs those that something contests here and now: checks, files, rivals.

        They are judged when this is read first; none where only some waits were asked for.
        """
        return self._look()


def inbox_of(waits: Iterable[InboxItem], handoffs: Handoffs, *asked_for: str | None) -> Inbox:
    """The waits, with what is contested unless only some of them were asked for."""

    def look() -> list[Listed]:
        return [*handoffs.list("contested", limit=MOST)]

    return Inbox(waits) if any(each is not None for each in asked_for) else Inbox(waits, look)
