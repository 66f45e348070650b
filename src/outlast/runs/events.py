"""What happened in runs, made from their journals: of a run a timeline of every attempt, wait, decision, child, phase
and stop, and its events, also while it grows.

And the events of all runs of a home, in the order in which they were written: pages, and as they come. A number orders
them; it goes up, and with holes. Nothing comes in later below a number that was given.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from outlast.clock import moment
from outlast.errors import EventAhead, IntegrityBroken, OutlastError, ValueRefused
from outlast.home.caller import LOCAL, Caller
from outlast.home.home import Home, run_row
from outlast.home.place import check_name
from outlast.ledger.journal import CALLS, TESTIMONY, Header, Payload, Row, decode_header, decode_payload
from outlast.runs import journal
from outlast.runs.call import Call, id_of, labels
from outlast.runs.find import flow_names
from outlast.runs.found import find_run
from outlast.runs.look import record_now
from outlast.runs.receipt import Event, events_of
from outlast.runs.waits.interrupt import Interrupt
from outlast.runs.waits.stored import interrupt_of
from outlast.store.contract import Reading, RunRow
from outlast.store.contract.runs import EntryRow
from outlast.values.ambient import notice
from outlast.values.late import asyncio

E_co = TypeVar("E_co", covariant=True)
SILENT = ("mark", "needs", "left", "reached")  # facts about a run that steer a resume and are nothing that happened
STOPS = ("waiting", "interrupted", "failed", "crashed")  # what a run goes on after
ABOUT_MARKS = {"confirmed": "its probe found it", "not_done": "not done"}
SHOWN_ELSEWHERE = ("timer", "child")  # waits that a sleep or a child run stands for


class TimelineItem(Struct, frozen=True):
    """One thing that happened in a run, and how long it took."""

    run_id: str
    seq: int  # of the entry that it was first heard of in; 0 for a wait that has no entry yet
    kind: str  # run, step, effect, wait, decision, sleep, child, phase, testimony
    name: str  # of a step its label, of a phase its word, of the run what became of it
    status: str
    attempt: int
    started_at: datetime
    ended_at: datetime | None  # None while it goes on, and when nobody knows
    epoch: int  # of the worker that wrote it: one more each time that the run was taken up
    note: str = ""  # the error, who answered, why
    call: str = ""
    interrupt: str = ""
    child: str = ""  # id of the child run, which has a timeline of its own

    @property
    def seconds(self) -> float | None:
        """How long it took; None when it has not ended, or nobody knows."""
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()


def timeline_of(run_id: str, status: str, rows: Sequence[Row], waits: Sequence[Interrupt]) -> list[TimelineItem]:
    """Everything in the order in which it began. `status` is how the run stands, `waits` are all it ever had."""
    story = _Story(run_id, labels(rows), {wait.id: wait for wait in waits})
    for row in rows:
        told = row.told  # of a result nothing is shown
        story.add(row, decode_header(row.header), decode_payload(told) if told else Payload())
    story.end(status)
    return sorted(story.items, key=lambda item: (item.epoch, item.started_at, item.seq or len(rows) + 1))


class _Story:
    """The items so far, and where those stand that may still change."""

    def __init__(self, run_id: str, names: dict[Call, str], waits: dict[str, Interrupt]) -> None:
        self._run_id, self._names, self._waits = run_id, names, waits
        self.items: list[TimelineItem] = []
        self._places: dict[Any, int] = {}
        self._told: set[str] = set()  # waits that have an entry
        self._heard = 0  # when the last entry was written
        self._epoch = 1

    def add(self, row: Row, header: Header, payload: Payload) -> None:
        call = Call(header.scope, header.name, header.inputs, header.occurrence)
        facts = payload.facts if isinstance(payload.facts, dict) else {}
        match header.kind:
            case "run":
                self._run(row.seq, header, facts)
            case "step" | "effect" if header.mark not in ("decided", "reused"):
                self._attempt(row.seq, header, call, payload)
            case "decision" | "step" | "effect":
                self._decision(row.seq, header, call, facts)
            case "wait":
                self._wait(row.seq, header, call, facts)
            case "sleep" | "spawn":
                self._span(row.seq, header, call, payload, facts)
            case "emit" if _is_phase(header) and isinstance(payload.facts, str):
                self._put(self._made(row.seq, header, "phase", payload.facts))
            case "testimony":
                self._put(self._made(row.seq, header, TESTIMONY, header.name, status=header.status))
            case _:
                pass  # values that the body was told, and events, which `outlast events` shows
        self._heard, self._epoch = max(self._heard, header.ended_at, header.started_at), header.epoch or self._epoch

    # -- the run itself --------------------------------------------------------------------------

    def _run(self, seq: int, header: Header, facts: dict[str, Any]) -> None:
        if header.name in SILENT:
            return
        if header.name == "resumed":
            if facts.get("from") == "crashed":
                self._crash(seq)
            place = self._places.pop("stop", None)
            if place is not None:
                self.items[place] = replace(self.items[place], ended_at=moment(header.started_at))
        made = self._made(seq, header, "run", header.name, status=header.name, note=_about_run(header.name, facts))
        if header.name in STOPS:
            self._places["stop"] = len(self.items)
            made = replace(made, ended_at=None)
        self._put(made)

    def _crash(self, seq: int) -> None:
        """Its owner died after the last entry that it wrote; when, nobody knows."""
        self._places["stop"] = len(self.items)
        at = moment(self._heard)
        note = "the last sign of life"
        self._put(TimelineItem(self._run_id, seq, "run", "crashed", "crashed", 0, at, None, self._epoch, note=note))

    # -- calls -----------------------------------------------------------------------------------

    def _attempt(self, seq: int, header: Header, call: Call, payload: Payload) -> None:
        """A start makes an item, an outcome ends it; an effect that is settled later has two outcomes."""
        place = (call, header.attempt, header.started_at)
        known = self._places.get(place)
        began = self.items[known].seq if known is not None else seq
        made = self._made(began, header, header.kind, self._names[call], call=call, status=header.status)
        note = _error(payload.error) if payload.error else ABOUT_MARKS.get(header.mark, "")
        made = replace(made, note=note, attempt=header.attempt)
        if header.status == "started":
            made = replace(made, ended_at=None)
        self._put(made, place)

    def _decision(self, seq: int, header: Header, call: Call, facts: dict[str, Any]) -> None:
        wait = self._waits.get(facts.get("interrupt", ""))
        self._told.add(facts.get("interrupt", ""))
        at = moment(header.ended_at)
        status = "reuse" if header.mark == "reused" else "skip" if header.status == "skipped" else header.status
        name = self._names.get(call, call.path)
        made = self._made(seq, header, "decision", name, call=call, status=status, note=_by(facts))
        began = wait.opened_at if wait is not None else at
        self._put(replace(made, started_at=began, ended_at=at, interrupt=facts.get("interrupt", "")))

    def _wait(self, seq: int, header: Header, call: Call, facts: dict[str, Any]) -> None:
        self._told.add(facts.get("interrupt", ""))
        status = "answered" if header.status == "succeeded" else header.status
        note = ", ".join(part for part in (str(facts.get("type", "")), _by(facts)) if part)
        made = self._made(seq, header, "wait", call.path, call=call, status=status, note=note)
        self._put(replace(made, interrupt=facts.get("interrupt", "")))

    def _span(self, seq: int, header: Header, call: Call, payload: Payload, facts: dict[str, Any]) -> None:
        """A sleep or a child run: its first entry begins it, a later one ends it."""
        known = self._places.get(call)
        over = bool(facts.get("over")) or bool(header.status)
        child = str(facts.get("child", ""))
        kind, name = ("child", child) if header.kind == "spawn" else ("sleep", call.path)
        made = self._made(seq, header, kind, name, call=call, status=header.status or ("over" if over else "started"))
        if known is not None:
            made = replace(made, seq=self.items[known].seq, started_at=self.items[known].started_at)
        note = _error(payload.error) if payload.error else ""
        self._put(replace(made, ended_at=made.ended_at if over else None, child=child, note=note), call)

    # -- the end ---------------------------------------------------------------------------------

    def end(self, status: str) -> None:
        """What is open now: attempts under way or crashed, waits without an answer, a run that died."""
        newest = {item.call: place for place, item in enumerate(self.items) if item.kind in CALLS}
        for place, item in enumerate(self.items):
            if item.kind in CALLS and item.status == "started":
                lives = status == "running" and item.epoch == self._epoch and newest[item.call] == place
                self.items[place] = replace(item, status="running" if lives else "crashed")
        if status == "crashed" and "stop" not in self._places:
            self._crash(self.items[-1].seq if self.items else 0)
        for wait in self._waits.values():
            if wait.id not in self._told and wait.type not in SHOWN_ELSEWHERE:
                stood = "settled" if wait.status == "used" else wait.status
                made = TimelineItem(self._run_id, 0, "wait", wait.step, stood, 0, wait.opened_at, None, self._epoch)
                self._put(replace(made, note=wait.type, call=wait.call, interrupt=wait.id))

    def _made(
        self,
        seq: int,
        header: Header,
        kind: str,
        name: str,
        *,
        call: Call | None = None,
        status: str = "",
        note: str = "",
    ) -> TimelineItem:
        began, ended = moment(header.started_at), moment(header.ended_at or header.started_at)
        made = TimelineItem(self._run_id, seq, kind, name, status, 0, began, ended, header.epoch or self._epoch)
        return replace(made, note=note, call=id_of(call) if call else "")

    def _put(self, item: TimelineItem, place: Any = None) -> None:
        known = self._places.get(place) if place is not None else None
        if known is not None:
            self.items[known] = replace(item, epoch=self.items[known].epoch)
            return
        if place is not None:
            self._places[place] = len(self.items)
        self.items.append(item)


# -- in words ----------------------------------------------------------------------------------------


def _is_phase(header: Header) -> bool:
    """Whether an entry is the run's phase: set by the body, which has no key; a step may use the word."""
    return header.name == "phase" and header.mark == "fact" and not header.key


def _about_run(name: str, facts: dict[str, Any]) -> str:
    match name:
        case "started":
            return f"by {facts['actor']}" if "actor" in facts else ""
        case "resumed":
            by = _by(facts) if facts.get("by") != LOCAL else ""
            told = (f"from {facts.get('from', '')}", str(facts.get("verdict", "")), by)
            return ", ".join(part for part in told if part)
        case "failed" | "retrying" if isinstance(facts.get("error"), dict):
            again = f"try {facts['retry']} of {facts['of']} follows; " if name == "retrying" else ""
            return again + _error(facts["error"])
        case "again" | "fresh":
            repeated = ", ".join(str(effect.get("step") or "unknown") for effect in facts.get("effects", ()))
            return f"{_by(facts)}: after run {facts.get('of', '')}" + (f", repeats {repeated}" if repeated else "")
        case "forked":
            return f"from {facts.get('step', '')} of run {facts.get('of', '')}, {_by(facts)}"
        case "accepted":
            return f"{facts.get('code', '')} {facts.get('subject', '')}: {facts.get('why', '')}"
        case _:
            return _by(facts)


def _by(facts: dict[str, Any]) -> str:
    by, why = str(facts.get("by", "") or ""), str(facts.get("why", "") or "")
    return ": ".join(part for part in (f"by {by}" if by else "", why) if part)


def _error(error: dict[str, Any]) -> str:
    kind = str(error.get("type", "")).rpartition(":")[2]
    return f"{kind}: {error.get('message', '')}"


def timeline(caller: Caller, run_id: str) -> list[TimelineItem]:
    """Everything that happened in a run, in order, from the ledger alone."""
    row = run_row(caller.home, run_id)
    status = record_now(caller, row).status  # before its journal is read
    kept, waits = caller.home.store.read(lambda look: (journal.read(look, row), look.interrupts_of(row.key)))
    return timeline_of(row.id, status, kept.rows, [interrupt_of(wait) for wait in waits])


# -- the events of a run -----------------------------------------------------------------------------


PAGE = 1000
POLL_SECONDS = 0.2


def read_run(home: Home, row: RunRow, after: int, limit: int) -> list[Event]:
    """The events there are after `after`, the oldest first, `limit` at most."""

    def look(reading: Reading) -> list[Event]:
        return events_of(row.id, islice(reading.each_entry(row.key, after, limit), limit), row.trace_id)

    try:
        return home.store.read(look)
    except (IntegrityBroken, ValueError, TypeError) as damage:
        found = find_run(home, row.id)
        if found.unaccepted is not None:
            raise found.unaccepted.as_error() from damage
        # it was accepted: without what the damaged entries carry
        return events_of(row.id, [each for each in found.rows if each.seq > after][:limit], row.trace_id)


class Following:
    """A reader of a run's events that knows how far it has come and whether more may follow."""

    def __init__(self, caller: Caller, run_id: str, after: int) -> None:
        self._caller, self._row, self._after = caller, run_row(caller.home, run_id), after
        self.going = True

    def news(self) -> Iterator[Event]:
        """Those that have come since. Of a run that nobody runs any more these are the last."""
        self.going = record_now(self._caller, self._row).status == "running"  # before its journal is read
        while page := read_run(self._caller.home, self._row, self._after, PAGE):
            self._after = page[-1].seq
            yield from page


# -- the events of all runs --------------------------------------------------------------------------

INBOX = ("interrupt.*", "run.failed")  # what a person who is asked for something wants to hear
SCANNED = 20_000  # entries that are looked at for one page
UNDER_WAY = 1000  # numbers that may have been given and are not committed yet


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


def read_home(home: Home, asked: EventQuery, after: int | None, limit: int) -> HomeEvents:
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
        event = _home_event(row)
        if event is not None and asked.is_so(event, row.identity, _tags(look, asked, row)):
            found.append(event)
        if len(found) >= limit:
            break
    whole = len(found) < limit and len(rows) < most
    return HomeEvents(tuple(found), upto if whole else seen, more=not whole and seen < upto)


def _tags(look: Reading, asked: EventQuery, row: EntryRow) -> tuple[str, ...]:
    return () if asked.tag is None else tuple(look.tags_of(row.run))


def _home_event(row: EntryRow) -> HomeEvent | None:
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

    going = True

    def __init__(self, home: Home, asked: EventQuery, after: int | None) -> None:
        self._home, self._asked = home, asked
        self._after = read_home(home, asked, after, 0).upto if after is None else after

    def news(self) -> Iterator[HomeEvent]:
        """Those that have come since."""
        page = HomeEvents((), self._after, more=True)
        while page.more:
            page = read_home(self._home, self._asked, self._after, 1000)
            self._after = page.upto
            yield from page.items


# -- as they come ------------------------------------------------------------------------------------


class Followed(Protocol[E_co]):
    """What is read on: what has come since, and whether more may follow."""

    going: bool

    def news(self) -> Iterator[E_co]: ...


def follow(following: Followed[E_co]) -> Iterator[E_co]:
    """Events as they come, until a run that nobody runs any more has no further ones; of all runs without an end."""
    while True:
        yield from following.news()
        if not following.going:
            return
        time.sleep(POLL_SECONDS)


async def follow_async(following: Followed[E_co]) -> AsyncIterator[E_co]:
    """The same on an event loop."""
    while True:
        for event in following.news():
            yield event
        if not following.going:
            return
        await asyncio.sleep(POLL_SECONDS)
