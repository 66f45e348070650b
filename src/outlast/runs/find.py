"""Finding runs: by what they are, page by page, the newest first. What is asked for is checked before anything is read.

The store lists by one index, the narrowest that is asked for; what else is asked for is compared run by run.

And those that can go on by themselves: crashed runs, those that a shutdown stopped, and waiting ones whose wait is
over. A failure and a stop that a person asked for are for people to look at, and a child goes on with its parent. A run
that a script opened goes on in that script. None of these is ever due, and nor is work that nobody has touched for a
week.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast import errors
from outlast.clock import micros
from outlast.home.caller import Caller
from outlast.home.home import Home, run_row
from outlast.home.place import check_name
from outlast.ledger.journal import read_header
from outlast.runs import journal
from outlast.runs.look import PAGE, ListedRun, each_run, held_rows, listed
from outlast.runs.queues.workers import is_of_its_own, reason_of
from outlast.runs.run import STATUSES, RunRecord
from outlast.store.contract import LeaseRow, Reading, RunRow, below, every_row
from outlast.store.contract.runs import damage_of
from outlast.values.codec import encode
from outlast.values.frozen import NamedTuple
from outlast.values.late import late
from outlast.values.text import duration

if TYPE_CHECKING:
    import heapq
else:
    heapq = late("heapq")  # most look for one thing at a time

Time = datetime | timedelta | str | float
FOREVER = 1 << 62
WHEN = "give a datetime with its time zone, a text such as 2026-11-17 or 2026-11-17T08:00:00Z, or how long ago: 90m, 7d"


class RunQuery(Struct, frozen=True):
    """Which runs: None asks for nothing. Times are microseconds."""

    status: str | None = None
    flow: str | None = None
    task: str | None = None
    tag: str | None = None
    session: str | None = None
    trace: str | None = None
    actor: str | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None
    scope: str | None = None


_List = tuple[str, tuple[Any, ...]]  # one index to walk: which, and what to find there


def run_query(now: int, *, status: str | None, since: Time | None, until: Time | None, **named: str | None) -> RunQuery:
    """What is asked for, checked. Raises ValueRefused, NameInvalid."""
    if status is not None and status not in STATUSES:
        raise errors.ValueRefused("status", f"{status!r:.100} is none", f"use one of {', '.join(STATUSES)}")
    for name, value in named.items():
        if value is not None:
            check_name(name, value)
    return RunQuery(status=status, since=time_of("since", since, now), until=time_of("until", until, now), **named)


def find_runs(caller: Caller, asked: RunQuery, limit: int, cursor: str | None = None) -> list[RunRecord]:
    """The newest runs that are so; `cursor`, the id of the last one of a page, gives those after it."""
    if type(limit) is not int or limit < 0:
        raise errors.ValueRefused("limit", f"{limit!r:.100} is no number of runs", "give a whole number from 0 on")
    return find_some(caller, asked, limit, FOREVER, cursor, results=True).runs


class RunsSoFar(NamedTuple):
    """Runs that were found among those that were looked at, and where to look on; "": that were all."""

    runs: list[RunRecord]
    looked_at: int
    last: str = ""


def find_some(
    caller: Caller, asked: RunQuery, limit: int, most: int, cursor: str | None = None, *, results: bool = False
) -> RunsSoFar:
    """The same of the next so many runs at most, without their results, for who cannot wait until all were compared."""
    found: dict[str, RunRecord] = {}  # by id: one that changes between two pages is met twice
    # every run of the lists in which those stand that are asked for, the newest first
    start = 0 if cursor is None else run_row(caller.home, cursor).key
    page = max(1, min(limit, PAGE))
    lists = [_records(caller, each, asked, page, start, results) for each in _lists(asked)] if limit else []
    in_order = lists[0] if len(lists) == 1 else heapq.merge(*lists, key=lambda met: -met.key)
    for looked_at, met in enumerate(in_order, 1):
        if met.record is not None and is_so(met.record, asked):
            found[met.id] = met.record
        if len(found) >= limit or looked_at >= most:  # before the next one, which may need another page
            return RunsSoFar(list(found.values()), looked_at, met.id)
    return RunsSoFar(list(found.values()), 0)


class _Met(NamedTuple):
    """A run of a list. Without its record when it was removed since, or its row says that it is not asked for."""

    key: int
    id: str
    record: RunRecord | None


def _lists(asked: RunQuery) -> list[_List]:
    for name in ("session", "trace", "tag", "task"):
        if (value := getattr(asked, name)) is not None:
            return [(name, (value,))]
    if asked.flow is not None:
        names = [("identity", (f"{kind}:{asked.flow}",)) for kind in ("name", "flow")]
        return [("flow", (asked.flow.partition(":")[2] or asked.flow,)), *names]
    if asked.since is not None or asked.until is not None:
        return [("time", (asked.since or 0, FOREVER if asked.until is None else asked.until))]
    if asked.actor is not None:
        return [("actor", (asked.actor,))]
    stored = ("running", "crashed") if asked.status == "crashed" else (asked.status,)
    return [("status", (each,)) for each in stored]


def _records(caller: Caller, wanted: _List, asked: RunQuery, page: int, before: int, results: bool) -> Iterator[_Met]:
    """The runs of a list; a page is read at one moment."""

    def look(reading: Reading) -> tuple[list[RunRow], dict[int, ListedRun]]:
        rows = _rows(reading, wanted, page, before)
        chosen = [row for row in rows if _may_be_so(reading, row, asked)]
        return rows, {held.row.key: held for held in held_rows(caller, reading, chosen)}

    while (found := caller.home.store.read(look))[0]:
        rows, chosen = found
        for row in rows:
            held = chosen.get(row.key)
            yield _Met(row.key, row.id, listed(caller, held, results=results) if held is not None else None)
        before = below(rows[-1].key)


def _may_be_so(look: Reading, row: RunRow, asked: RunQuery) -> bool:
    """Whether the row alone does not rule a run out: most are not asked for, and nothing else is read of them."""
    if damage_of(row):
        return True
    if asked.scope not in (None, row.scope):
        return False
    if asked.text is None or "\\u" in f"{row.inputs}{row.meta}{row.error}":
        return True
    said = (row.id, row.flow, row.task, row.phase, row.inputs, row.meta, row.error or "{}", *look.tags_of(row.key))
    return any(asked.text.casefold() in each.casefold() for each in said)


def _rows(look: Reading, wanted: _List, page: int, before: int) -> list[RunRow]:
    by, values = wanted
    return look.newest_runs(values[0], page, before) if by == "status" else look.runs_where(by, values, page, before)


def is_so(record: RunRecord, asked: RunQuery) -> bool:
    """Whether a run is one of those that are asked for."""
    at = micros(record.created_at)
    return (
        asked.status in (None, record.status)
        and (asked.flow is None or asked.flow in flow_names(record.flow, record.identity))
        and asked.task in (None, record.task)
        and (asked.tag is None or asked.tag in record.tags)
        and asked.session in (None, record.session)
        and asked.trace in (None, record.trace_id)
        and asked.actor in (None, record.actor)
        and asked.scope in (None, record.scope)
        and (asked.since is None or at >= asked.since)
        and (asked.until is None or at < asked.until)
        and (asked.text is None or any(asked.text.casefold() in each.casefold() for each in _texts(record)))
    )


def flow_names(flow: str, identity: str) -> tuple[str, ...]:
    """What the flow of a run may be called: where it is written, its name there, the name that it was given."""
    kind, _, name = identity.partition(":")
    return (flow, flow.partition(":")[2] or flow, name if kind in ("name", "flow") else "")


def _texts(record: RunRecord) -> Iterable[str]:
    """What of a run a text is looked for in."""
    said = (record.inputs, record.meta, record.error or {})
    return (record.id, record.flow, record.task, record.phase, *record.tags, *(encode(each).decode() for each in said))


def time_of(name: str, given: Time | None, now: int) -> int | None:
    """A moment in microseconds; a duration is so long ago. Raises ValueRefused."""
    if given is None:
        return None
    ago = given.total_seconds() if isinstance(given, timedelta) else duration(given)
    if ago is not None:
        return now - round(ago * 1_000_000)
    found = given if isinstance(given, datetime) else _read(str(given))
    if found is None or found.tzinfo is None:
        raise errors.ValueRefused(name, f"{given!r:.100} is no time", WHEN)
    return micros(found)


def _read(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if len(text) == len("2026-11-17") else found


LEFT = ("running", "crashed", "interrupted")
OLD_US = 7 * 86_400_000_000  # since the last sign of life of a crashed run, or since a run was stopped


class Due(Struct, frozen=True):
    """A run that can go on now, and why."""

    run_id: str
    reason: str  # crashed; stopped, by a shutdown; answered, asked, or over: what it waited for
    scope: str = "default"
    engine: str = ""  # that goes on with it, where it is not ours
    old: bool = False  # it was left more than a week ago: it is only woken by who asks for all


def due(caller: Caller, *, all: bool = False) -> list[Due]:
    """Every run that can go on now; the one that was last touched longest ago comes first. `all`: old ones too.

    In that order a run that kills its process each time does not keep the others from their turn.
    """
    return due_of(caller, may_be_due(caller.home, all=all), all=all)


def may_be_due(home: Home, *, wide: bool = True, all: bool = False) -> list[RunRow]:
    """The runs that somebody has or had under way, and those that waited for something that may be over.

    Where there are none, none is due before something is written or a time comes. Not `wide`: only those that waited,
    of which what is over is found by an index, however many wait still.
    """
    rows = [*_left(home), *_waiting(home)] if wide else _waiting(home)
    return [row for row in rows if _is_looked_at(home, row, all)]


def due_of(caller: Caller, rows: Iterable[RunRow], *, all: bool = False) -> list[Due]:
    """Those of these that can go on now."""
    own = {row.id: row for row in rows}  # by id: one that changes between two pages is met twice
    oldest_first = sorted(own.values(), key=lambda row: (row.updated_at, row.key))
    found = [caller.home.store.read(partial(_look, caller, row)) for row in oldest_first]
    return [one for one in found if one.reason and (all or not one.old)]


def _left(home: Home) -> Iterator[RunRow]:
    """Those that somebody has or had under way: the newest of each status read at one moment, which mostly is all."""
    first = home.store.read(lambda look: [look.newest_runs(status, PAGE, 0) for status in LEFT])
    for status, rows in zip(LEFT, first, strict=True):
        yield from rows
        if len(rows) == PAGE:
            yield from each_run(home, status, before=below(rows[-1].key))


def _waiting(home: Home) -> Iterator[RunRow]:
    """The waiting runs of which something may be over."""
    now = home.clock.now()
    read = home.store.read
    return every_row(lambda after: read(lambda look: look.runs_to_wake(now, after, PAGE)), lambda row: row.key)


def _is_looked_at(home: Home, row: RunRow, all: bool) -> bool:
    """Whether a run may be due at all: its own row is enough to rule out most that were stopped long ago."""
    if not is_of_its_own(row):
        return False
    return all or row.status != "interrupted" or home.clock.now() - row.updated_at <= OLD_US


def _look(caller: Caller, row: RunRow, look: Reading) -> Due:
    """Why a run can go on now, and whether it is old. All of it is read at one moment.

    One whose records cannot be read is not due: who resumes it, or verifies, is told why.
    """
    try:
        reason = reason_of(caller, look, row.id)
        lease = look.lease_of(row.id) if reason in ("crashed", "stopped") else None
        old = lease is not None and _is_old(caller.home, look, row, lease)
        return Due(row.id, reason, row.scope, _engine_of(look, row) if reason else "", old)
    except journal.UNREADABLE:
        return Due(row.id, "", row.scope)


def _engine_of(look: Reading, row: RunRow) -> str:
    entry = look.entry_of(row.key)
    queue = look.queue_of(entry.queue) if entry is not None else None
    return queue.engine if queue is not None else ""


def _is_old(home: Home, look: Reading, row: RunRow, lease: LeaseRow) -> bool:
    """Whether nothing was heard of a stopped or crashed run for a week."""
    beat = look.beat_of(lease.holder) if lease.holder else None
    ended = [read_header(entry.header).ended_at for entry in look.entries_of(row.key, [lease.head])]
    last = max(row.updated_at, beat.wall_us if beat else 0, *ended, 0)
    return home.clock.now() - last > OLD_US
