"""The events of all runs of a home, in the order in which they were written: pages, and as they come.

A number orders them; it goes up, and with holes. Nothing comes in later below a number that was given.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from outlast.errors import EventAhead, OutlastError, ValueRefused
from outlast.home.place import check_name
from outlast.ledger.journal import Row
from outlast.runs.find import flow_names
from outlast.runs.receipt import Event, events_of
from outlast.store.contract import Reading
from outlast.store.contract.runs import EntryRow
from outlast.values.ambient import notice
from outlast.values.late import asyncio

if TYPE_CHECKING:
    from outlast.home.home import Home

INBOX = ("interrupt.*", "run.failed")  # what a person who is asked for something wants to hear
SCANNED = 20_000  # entries that are looked at for one page
UNDER_WAY = 1000  # numbers that may have been given and are not committed yet
POLL_SECONDS = 0.2


class HomeEvent(Struct, frozen=True):
    """An event of one of many runs."""

    number: int  # among those of all runs
    scope: str
    flow: str
    task: str
    event: Event


class HomeEvents(Struct, frozen=True):
    """Some of them, and the number after which to go on, which may be that of an event that was not asked for."""

    items: tuple[HomeEvent, ...]
    upto: int
    more: bool = False  # whether there are further ones already


class EventQuery(Struct, frozen=True):
    """Which events: None asks for nothing."""

    scope: str | None = None
    flow: str | None = None
    task: str | None = None
    tag: str | None = None
    name: str | None = None  # may have `*`
    inbox: bool = False

    def is_so(self, found: HomeEvent, identity: str, tags: tuple[str, ...]) -> bool:
        """Whether it is one of those that are asked for."""
        return (
            self.scope in (None, found.scope)
            and self.task in (None, found.task)
            and (self.flow is None or self.flow in flow_names(found.flow, identity))
            and (self.tag is None or self.tag in tags)
            and (self.name is None or fnmatchcase(found.event.name, self.name))
            and (not self.inbox or any(fnmatchcase(found.event.name, each) for each in INBOX))
        )


def event_query(inbox: bool, **named: str | None) -> EventQuery:
    """What is asked for, checked. Raises NameInvalid."""
    for name, value in named.items():
        if value is not None:
            check_name(name, value)
    return EventQuery(inbox=inbox, **named)


def read(home: Home, asked: EventQuery, after: int | None, limit: int) -> HomeEvents:
    """Those after a number, the oldest first, `limit` at most; without a number none, but where they will go on.

    Raises ValueRefused for a number that is none, EventAhead for one that was never given here.
    """
    for name, value in (("after", after), ("limit", limit)):
        if value is not None and (type(value) is not int or value < 0):
            raise ValueRefused(name, f"{value!r:.100} is none", "give a whole number from 0 on")
    if after is None:
        return HomeEvents((), home.store.read(_now))
    return home.store.read(lambda look: _page(look, asked, after, limit))


def _now(look: Reading) -> int:
    """The number after which everything is yet to come. One that is lower may be under way, so it is looked back."""
    return look.settled_entry(max(look.newest_entry() - UNDER_WAY, 0), 2 * UNDER_WAY)


def _page(look: Reading, asked: EventQuery, after: int, limit: int) -> HomeEvents:
    if after and after > (highest := look.highest_entry()):
        raise EventAhead(after, highest)
    upto, found, seen = look.settled_entry(after, SCANNED), list[HomeEvent](), after
    most = limit + UNDER_WAY if asked == EventQuery() else SCANNED  # of all runs few are passed over
    rows = look.entries_between(after, upto, most) if limit else []
    for row in rows:
        seen = row.key
        event = _event(row)
        if event is not None and asked.is_so(event, row.identity, _tags(look, asked, row)):
            found.append(event)
        if len(found) >= limit:
            break
    whole = len(found) < limit and len(rows) < most
    return HomeEvents(tuple(found), upto if whole else seen, more=not whole and seen < upto)


def _tags(look: Reading, asked: EventQuery, row: EntryRow) -> tuple[str, ...]:
    return () if asked.tag is None else tuple(look.tags_of(row.run))


def _event(row: EntryRow) -> HomeEvent | None:
    """The event of an entry; None for one of a handoff, and for one that cannot be read, which is told."""
    if not row.run_id:
        return None
    try:
        (event,) = events_of(row.run_id, [Row(row.seq, row.header, row.hash, row.payload)], row.trace_id)
    except (OutlastError, ValueError, TypeError):
        notice(f"entry {row.seq} of run {row.run_id} is damaged; see `outlast verify`")
        return None
    return HomeEvent(row.key, row.scope, row.flow, row.task, event)


class HomeFollowing:
    """A reader of all events that knows how far it has come."""

    def __init__(self, home: Home, asked: EventQuery, after: int | None) -> None:
        self._home, self._asked = home, asked
        self._after = read(home, asked, after, 0).upto if after is None else after

    def news(self) -> Iterator[HomeEvent]:
        """Those that have come since."""
        page = HomeEvents((), self._after, more=True)
        while page.more:
            page = read(self._home, self._asked, self._after, 1000)
            self._after = page.upto
            yield from page.items


def follow(following: HomeFollowing) -> Iterator[HomeEvent]:
    """Events as they come, without an end."""
    while True:
        yield from following.news()
        time.sleep(POLL_SECONDS)


async def follow_async(following: HomeFollowing) -> AsyncIterator[HomeEvent]:
    """The same on an event loop."""
    while True:
        for event in following.news():
            yield event
        await asyncio.sleep(POLL_SECONDS)
