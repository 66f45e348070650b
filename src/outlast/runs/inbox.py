"""Every open wait of every run, also of child runs: one read, whatever their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.home.find import interrupt_row
from outlast.runs.look import interrupt_of
from outlast.runs.waits.interrupt import Interrupt, is_for_people
from outlast.values.frozen import dataclass

if TYPE_CHECKING:
    from outlast.home.home import Home


@dataclass(frozen=True, slots=True)
class InboxItem:
    """An open wait, and whose it is."""

    interrupt: Interrupt
    task: str
    flow: str
    scope: str


def inbox(home: Home, assignee: str | None = None, type: str | None = None) -> list[InboxItem]:
    """The open waits: questions for people first, each kind the oldest first."""
    rows = home.store.read(lambda look: look.inbox_waits())
    found = (InboxItem(interrupt_of(row.wait), row.task, row.flow, row.scope) for row in rows)
    wanted = [
        item for item in found if assignee in (None, item.interrupt.assignee) and type in (None, item.interrupt.type)
    ]
    return sorted(wanted, key=lambda item: (not is_for_people(item.interrupt.type), item.interrupt.opened_at))


def interrupt(home: Home, interrupt_id: str) -> Interrupt:
    """A wait by its id or a unique prefix of it. Raises InterruptNotFound, AmbiguousPrefix."""
    return interrupt_of(home.store.read(lambda look: interrupt_row(look, interrupt_id)))
