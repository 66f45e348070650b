"""Who did what, the newest first: to runs and handoffs as the journals have it, to all else as it was put on record.

What entries of journals say that somebody did is put in words here; the headers that cannot say it are told at once.
A page is bounded work, whatever the home holds: the headers of so many entries, and what the acts among them carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from outlast.clock import moment
from outlast.errors import OutlastError, ValueRefused
from outlast.home.place import check_name
from outlast.ledger.journal import CALLS, Header, decode_header
from outlast.runs import events
from outlast.runs.find import time_of
from outlast.values.ambient import notice
from outlast.values.codec import decode, digest, encode
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs.find import Time
    from outlast.store.contract import ActRow, Reading
    from outlast.store.contract.runs import HeaderRow

AT_A_TIME = 1000  # entries whose headers are read at once
MOST = 2  # times, for one page
RECORDED = 200  # acts that are read at once, of those that no journal has
JOURNALED = ("run", "handoff")
ACT_KINDS = (*JOURNALED, "schedule", "queue", "limit", "key", "target")
ACTS_OF_ADMINS = ("key", "target")  # of which only an admin is told
UNFINISHED = "it was begun, and nobody has put on record that it was done; look how it stands"
END = 1 << 62


class Act(Struct, frozen=True):
    """What somebody did."""

    number: str  # its place among all of them
    at: datetime
    who: str
    what: str
    kind: str  # of what it was done to
    name: str  # of a run its id, of a handoff its anchor
    why: str
    scope: str  # empty: it is about the whole tenant
    flow: str = ""  # of a run that is there
    changes: dict[str, tuple[Any, Any]] = {}  # from what to what
    done: bool = True  # False: it was begun outside of the ledger, and whoever did it died

    @property
    def said(self) -> str:
        """What else there is to say, in a line: why, and from what to what."""
        return "; ".join(filter(None, (self.why, *(_changed(*each) for each in self.changes.items()))))


class Acts(Struct, frozen=True):
    """Some of them, and the cursor of those before; None: there are none."""

    items: tuple[Act, ...]
    next: str | None
    looked_at: int  # entries


class ActQuery(Struct, frozen=True):
    """Which acts: None asks for nothing."""

    scope: str | None = None
    by: str | None = None
    kinds: tuple[str, ...] = ACT_KINDS
    since: int = 0

    def has(self, row: ActRow) -> bool:
        """Whether one that no journal has is so."""
        mine = self.by in (None, row.actor) and self.scope in (None, row.scope)
        return mine and row.noun in self.kinds and row.at >= self.since


class Place(NamedTuple):
    """Where an act stands among all: after an entry of a journal; those that no journal has by their numbers too."""

    entry: int
    number: int = 0

    @property
    def text(self) -> str:
        return f"{self.entry}.{self.number}" if self.number else str(self.entry)

    @property
    def upto(self) -> int:
        """Before which entry the journals are read."""
        return self.entry + bool(self.number)


def act_query(
    now: int, scope: str | None, by: str | None, kind: str | None, since: Time | None, *, is_admin: bool
) -> ActQuery:
    """What is asked for, checked. Raises ValueRefused, NameInvalid."""
    for name, value in (("scope", scope), ("by", by)):
        if value is not None:
            check_name(name, value)
    if kind is not None and kind not in ACT_KINDS:
        raise ValueRefused("kind", f"{kind!r:.100} is none", f"use one of {', '.join(ACT_KINDS)}")
    seen = [each for each in ACT_KINDS if kind in (None, each) and (is_admin or each not in ACTS_OF_ADMINS)]
    return ActQuery(scope, by, tuple(seen), time_of("since", since, now) or 0)


def read(home: Home, asked: ActQuery, limit: int, cursor: str = "") -> Acts:
    """The newest acts that are so, `limit` at most, among so many entries as a page looks at.

    `cursor`: those before it, which is `next` of the page before. Raises ValueRefused.
    """
    if type(limit) is not int or limit < 1:
        raise ValueRefused("limit", f"{limit!r:.100} is no number of acts", "give a whole number from 1 on")
    begins = _place(cursor) if cursor else Place(END)
    settled = events.read_home(home, events.EventQuery(), None, 0).upto + 1  # below it nothing comes in any more
    return home.store.read(lambda look: _Page(look, asked, limit).read(begins, settled))


def _place(cursor: str) -> Place:
    entry, dot, number = cursor.partition(".")
    parts = [entry, number] if dot else [entry]
    if not all(part.isascii() and part.isdecimal() and len(part) < 19 for part in parts):
        raise ValueRefused("cursor", f"{cursor!r:.100} is none that this list gave", "begin without")
    return Place(*map(int, parts))


class _Page:
    """One page, as it is gathered."""

    def __init__(self, look: Reading, asked: ActQuery, limit: int) -> None:
        self.look, self.asked, self.limit = look, asked, limit
        self.found, self.looked_at = list[Act](), 0

    def read(self, before: Place, settled: int) -> Acts:
        if not set(JOURNALED) & set(self.asked.kinds):
            return self._until(before, [], Place(0)) or self._told(None)
        for _ in range(MOST):
            upto = min(before.upto, settled)
            after = max(upto - 1 - AT_A_TIME, 0)
            rows = self.look.headers_between(after, upto)
            self.looked_at += upto - 1 - after
            ends = Place(after + 1 if after else 0)
            if full := self._until(before, rows, ends):
                return full
            before = ends
            first = decode_header(rows[0].header) if after and rows else None
            if not after or (first and (first.ended_at or first.started_at) < self.asked.since):
                return self._told(None)
        return self._told(before)

    def _until(self, before: Place, rows: list[HeaderRow], ends: Place) -> Acts | None:
        """Gather those down to a place; the page, once it is full."""
        both = merge(self._journaled(rows), self._recorded(before, ends.entry), key=itemgetter(0), reverse=True)
        for place, act in both:
            self.found.append(act)
            if len(self.found) == self.limit:
                return self._told(place)
        return None

    def _told(self, before: Place | None) -> Acts:
        is_last = before is None or (before.upto <= 1 and not self.look.acts_before(*before, 0, 1))
        return Acts(tuple(self.found), None if before is None or is_last else before.text, self.looked_at)

    def _journaled(self, rows: list[HeaderRow]) -> Iterator[tuple[Place, Act]]:
        asked = self.asked
        for row in rows:
            kind = "run" if row.run_id else "handoff" if row.anchor else ""
            if kind not in asked.kinds or asked.scope not in (None, row.scope) or not row.header.startswith(MAY_BE):
                continue
            said = said_in(self.look, row, asked.since)
            if said is not None and asked.by in (None, said.who):
                about = (kind, row.run_id or row.anchor, said.why, row.scope, row.flow)
                yield Place(row.key), Act(str(row.key), moment(said.at), said.who, said.what, *about)

    def _recorded(self, before: Place, first: int) -> Iterator[tuple[Place, Act]]:
        """Those that no journal has, down to the ones that were done when `first` was the newest entry."""
        while rows := self.look.acts_before(*before, first, RECORDED):
            for row in rows:
                before = Place(row.entry, row.number)
                if self.asked.has(row):
                    yield before, _recorded(before, row)


def _changed(name: str, change: tuple[Any, Any]) -> str:
    was, now = map(_text, change)
    if change[0] is None:
        return f"{name} {now}"
    return f"{name} was {was}" if change[1] is None else f"{name} {was} → {now}"


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else encode(value).decode()


def _recorded(place: Place, row: ActRow) -> Act:
    changes = {name: (was, now) for name, (was, now) in decode(row.changes).items()}
    why, done = "" if row.done else UNFINISHED, bool(row.done)
    about = (row.noun, row.name, why, row.scope)
    return Act(place.text, moment(row.at), row.actor, row.verb, *about, changes=changes, done=done)


# -- what an entry says that somebody did ------------------------------------------------------------


OF_RUN = {
    "started": "started",
    "again": "started again",
    "fresh": "started afresh",
    "forked": "forked",
    "resumed": "resumed",
    "accepted": "accepted",
    "aborted": "aborted",
    "pausing": "paused",
    "rewound": "rewound",
    "claimed": "claimed",
    "taken": "took over",
    "released": "released",
    "checked": "checked",
    "displaced": "put files back",
    "moved": "moved to another home",
}
OF_HANDOFF = {
    "stored": "stored",
    "claimed": "claimed",
    "lost": "was refused the claim",
    "accepted": "accepted",
    "checked": "checked",
    "settled": "settled",
    "released": "released",
}
OF_INTERRUPT = {"answered": "answered", "cancelled": "cancelled"}
BY_A_PERSON = ("decided", "reused")  # marks of a call whose outcome somebody gave


class _Facts(Struct, frozen=True):
    """What is read of an entry: whatever else it carries may be long."""

    by: Any = ""
    actor: Any = ""
    why: Any = ""
    note: Any = ""
    override: Any = ""
    summary: Any = ""
    outcome: Any = ""
    type: Any = ""
    code: Any = ""
    to: Any = ""
    revision: Any = 0
    answer: Any = None


class _Carried(Struct, frozen=True):
    facts: _Facts = _Facts()


_decode = msgspec.json.Decoder(_Carried).decode
UNREADABLE = _Facts(why="it cannot be read; see `outlast verify`")


class SaidAct(Struct, frozen=True):
    """What an entry says that somebody did."""

    at: int
    who: str
    what: str
    why: str


def said_in(look: Reading, row: HeaderRow, since: int) -> SaidAct | None:
    """What an entry says that somebody did then or later; None for any other, and for one that is damaged."""
    try:
        return _said_act(look, row, since)
    except (OutlastError, ValueError, TypeError, OverflowError):
        notice(f"an entry of {row.run_id or row.anchor} is damaged; see `outlast verify`")
        return None


_OF_CALLS = (b'["step"', b'["effect"')
_MARKS = tuple(b',"%s",' % mark.encode() for mark in BY_A_PERSON)
_NAMED = ((b"run", OF_RUN), (b"handoff", OF_HANDOFF), (b"interrupt", OF_INTERRUPT))
_BEGIN = tuple(b'["%s","%s"' % (kind, name.encode()) for kind, names in _NAMED for name in names)
MAY_BE = (*_BEGIN, b'["decision"', *_OF_CALLS)


def _said_act(look: Reading, row: HeaderRow, since: int) -> SaidAct | None:
    """None for an entry of a call that went its way, or that nobody closed."""
    if row.header.startswith(_OF_CALLS) and not any(mark in row.header for mark in _MARKS):
        return None
    header = decode_header(row.header)
    if header.kind in CALLS and header.mark not in BY_A_PERSON:
        return None
    at = header.ended_at or header.started_at
    if at < since:
        return None
    said = _said(header, look.payload_at(row.key))
    by_itself = header.kind not in ("run", "handoff") or header.name == "resumed"  # then it says of nobody that he did
    if said is not UNREADABLE and by_itself and not (said.by or said.actor):
        return None
    who = str(said.by or said.actor or "")
    comment = said.answer.get("comment") if isinstance(said.answer, dict) else ""
    why = str(said.why or said.override or said.note or comment or said.summary or "")
    return SaidAct(at, who, _WORDS[header.kind](header, said), why)


def _said(header: Header, payload: bytes | None) -> _Facts:
    if payload is None or header.payload != digest(payload):
        return UNREADABLE if header.payload else _Facts()
    try:
        return _decode(payload).facts
    except msgspec.MsgspecError:
        return UNREADABLE


# -- in words ----------------------------------------------------------------------------------------


def _of_run(header: Header, said: _Facts) -> str:
    more = {"accepted": said.code, "rewound": f"to {said.to}" if isinstance(said.to, str) and said.to else ""}
    return f"{OF_RUN[header.name]} {more.get(header.name) or ''}".strip()


def _of_handoff(header: Header, said: _Facts) -> str:
    more = {"stored": f"revision {said.revision}", "settled": f"as {said.outcome}"}
    return f"{OF_HANDOFF[header.name]} {more.get(header.name, '')}".strip()


def _of_interrupt(header: Header, said: _Facts) -> str:
    if header.name == "answered" and said.type == "approval" and isinstance(said.answer, dict):
        return "approved" if said.answer.get("approved") else "declined"
    if header.name == "answered" and said.type == "signal":
        return "sent a signal"
    return f"{OF_INTERRUPT[header.name]} {said.type}".strip()


def _of_call(header: Header, said: _Facts) -> str:
    return f"{'skipped' if header.mark == 'decided' else 'reused'} {header.name}"


def _decision(header: Header, said: _Facts) -> str:
    return f"retried {header.name}" if header.status == "retry" else f"decided {header.status} for {header.name}"


_WORDS: dict[str, Callable[[Header, _Facts], str]] = {
    "run": _of_run,
    "handoff": _of_handoff,
    "interrupt": _of_interrupt,
    "decision": _decision,
    "step": _of_call,
    "effect": _of_call,
}
