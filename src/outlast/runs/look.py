"""Looking at runs and their open interrupts: what a home has of them, as the values people read.

A row by its id: `home/home.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from outlast import errors
from outlast.clock import moment
from outlast.home.home import Home, interrupt_row, run_row
from outlast.ledger.journal import Row, decode_header, decode_payload
from outlast.runs import journal, stops
from outlast.runs.holder import holder_of
from outlast.runs.queues.workers import NOWHERE, AtWork, RunPlace, place_of_run
from outlast.runs.run import FORK, Outcome, RecordStatus, RunError, RunRecord
from outlast.runs.waits.interrupt import Interrupt, is_for_people
from outlast.runs.waits.stored import DAMAGED, SEE, interrupt_of, waits_now
from outlast.store.contract import LeaseRow, Reading, RunRow, below
from outlast.store.contract.runs import damage_of
from outlast.store.disk import write_whole
from outlast.values.codec import decode, value_of
from outlast.values.frozen import Compared, NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.runs import plan as plans
    from outlast.runs.receipt import Attempts, Receipt
else:
    plans = late("outlast.runs.plan")  # a list of runs shows no state


PAGE = 200


# -- runs, one by one and in lists -----------------------------------------------------------------


def record_now(caller: Caller, row: RunRow) -> RunRecord:
    """A run as it is now: status and holder are read at one moment, so that neither belies the other."""
    if damage_of(row):
        return damaged(row, damage_of(row))
    return caller.home.store.read(lambda look: record_in(caller, look, row.id))


def record_with_state(caller: Caller, row: RunRow) -> RunRecord:
    """The same with its state, as of the last entry of its journal; none where that cannot be read."""
    found = record_now(caller, row)
    if found.status == DAMAGED:
        return found
    try:
        rows, _, _ = caller.home.store.read(lambda look: journal.read(look, row))
        return replace(found, state=plans.state_of(rows))
    except journal.UNREADABLE:
        return found


def record_with_attempts(caller: Caller, row: RunRow) -> tuple[RunRecord, Attempts]:
    """The same with its attempts, of one reading of its journal. Raises IntegrityBroken where they cannot be read."""
    found = record_now(caller, row)
    read = caller.home.store.read(lambda look: journal.read(look, row))
    if found.status != DAMAGED:
        with suppress(*journal.UNREADABLE):
            found = replace(found, state=plans.state_of(read.rows))
    return found, _attempts(caller.home, row, read)


def record_in(caller: Caller, look: Reading, run_id: str) -> RunRecord:
    """The same inside a transaction."""
    row, lease = look.run_by_id(run_id), look.lease_of(run_id)
    if row is None or lease is None:
        raise errors.RunNotFound(run_id)
    return run_record(_beside(caller, look, row, lease, AtWork(caller, look)), result_of(caller.home, row))


def outcome_now(caller: Caller, row: RunRow) -> Outcome[Any]:
    """How a run stands, without running anything."""
    record = record_now(caller, row)
    waits = tuple(waits_now(caller.home, row.key)) if record.status == "waiting" else ()
    holder = record.holder if record.status == "running" else ""
    by = who_stopped(caller.home, row.id) if record.status == "interrupted" else ""
    error = RunError.of(record.error)
    return Outcome(row.id, record.status, record.result, waits, error, holder=holder, stopped_by=by)


def result_of(home: Home, row: RunRow) -> Any:
    """What a run gave."""
    kept = decode(row.result) if row.result else {}
    return decode(home.blobs.get(kept["blob"])) if "blob" in kept else kept.get("value")


def each_run(home: Home, status: str | None = None, before: int = 0) -> Iterator[RunRow]:
    """Every run of a recorded status, or every run, the newest first, read page by page; those below a key if given."""
    while found := home.store.read(lambda look: look.newest_runs(status, PAGE, before)):  # noqa: B023  read at once
        yield from found
        before = below(found[-1].key)


def run_attempts(home: Home, run_id: str) -> Attempts:
    """The attempts of a run in the order in which they were written, damaged ones among them: receipts, if asked."""
    run = run_row(home, run_id)
    return _attempts(home, run, home.store.read(lambda look: journal.read(look, run)))


def _attempts(home: Home, run: RunRow, read: journal.Journal) -> Attempts:
    from outlast.runs.receipt import Attempts

    return Attempts(run.id, run.flow, read.rows, home.blobs.get, run.trace_id, read.flaws)


def run_receipts(home: Home, run_id: str) -> list[Receipt]:
    """One receipt per attempt of a run, in the order in which they were written."""
    return list(run_attempts(home, run_id))


def open_interrupts(home: Home, run_id: str | None) -> list[Interrupt]:
    """The open waits of a run, or of all."""
    if run_id is not None:
        return waits_now(home, run_row(home, run_id).key)
    return [interrupt_of(row) for row in home.store.read(lambda look: look.open_waits(0))]


def home_facts(home: Home) -> dict[str, Any]:
    """What this home stands on, how many runs of each recorded status it has, how many handoffs and artifacts."""
    runs, handoffs = home.store.read(lambda look: (look.count_runs(), look.count_anchors()))
    saved, pinned = home.store.read(lambda look: (look.count_artifacts(), look.count_checkpoints()))
    counted = {"runs": runs, "handoffs": {"open": 0, "finished": 0} | handoffs}
    counted |= {"artifacts": {"saved": saved.artifacts - saved.pending, "pending": saved.pending}}
    known = {"home": str(home.path), "tenant": home.tenant, **home.store.facts(), **counted}
    recorded = home.store.read(lambda look: look.count_records())
    return known | {"checkpoints": pinned, **recorded._asdict()}


# -- rows as values ----------------------------------------------------------------------------------


class ListedRun(NamedTuple):
    """A run of a list, with its lease and who held it at that moment; no lease where that could not be read."""

    row: RunRow
    lease: LeaseRow | None
    holder: str = ""
    origin: tuple[str, str] = ("", "")
    tags: tuple[str, ...] = ()
    place: RunPlace = NOWHERE


def held_rows(caller: Caller, look: Reading, rows: list[RunRow]) -> list[ListedRun]:
    """Runs of a list with what is read beside their rows, in as few statements as can be."""
    leases = look.leases_of([row.id for row in rows if not damage_of(row)])
    at_work = AtWork(caller, look)
    return [_held(caller, look, row, leases.get(row.id), at_work) for row in rows]


def _held(caller: Caller, look: Reading, row: RunRow, lease: LeaseRow | None, at_work: AtWork) -> ListedRun:
    try:
        return _beside(caller, look, row, lease, at_work)
    except journal.UNREADABLE:
        return ListedRun(row, None)


def _beside(caller: Caller, look: Reading, row: RunRow, lease: LeaseRow | None, at_work: AtWork) -> ListedRun:
    holder = holder_of(caller, look, row.id, lease) if lease else ""
    place = place_of_run(look, row, at_work)
    return ListedRun(row, lease, holder, origin_of(look, row), tuple(look.tags_of(row.key)), place)


def listed(caller: Caller, held: ListedRun, *, results: bool = True) -> RunRecord | None:
    """A run of a list; None when it was removed since. What cannot be read is shown as damaged.

    `results`: with what it gave, which may be large.
    """
    row = held.row
    if damage_of(row):
        return damaged(row, damage_of(row))
    try:
        if held.lease is not None:
            return run_record(held, result_of(caller.home, row) if results else None)
    except journal.UNREADABLE:
        pass  # it may have been removed since
    return caller.home.store.read(lambda look: _looked_at_again(caller, look, row.id))


def _looked_at_again(caller: Caller, look: Reading, run_id: str) -> RunRecord | None:
    now = look.run_by_id(run_id)
    if now is None:
        return None
    try:
        return record_in(caller, look, run_id)
    except journal.UNREADABLE as error:
        return damaged(now, "its lease row is missing" if isinstance(error, errors.RunNotFound) else str(error))


def damaged(row: RunRow, why: str) -> RunRecord:
    """What is left of a run that is not what was stored."""
    kept = row._replace(result=None, error=None, inputs="{}", meta="{}")
    found = run_record(ListedRun(kept, None))
    return replace(found, status=DAMAGED, error={"type": DAMAGED, "message": f"{why}; {SEE}"})


def run_record(held: ListedRun, result: Any = None) -> RunRecord:
    """A run; one whose status is `running` and that nobody holds any more is called crashed."""
    row, lease, holder, origin, tags, place = held
    status = "crashed" if row.status == "running" and not holder and not row.seal else row.status
    return value_of(
        RunRecord,
        row,
        status=cast(RecordStatus, status),
        result=result,
        error=decode(row.error) if row.error else None,
        epoch=lease.epoch if lease is not None else 0,
        head=lease.head if lease is not None else 0,
        holder=holder,
        origin=origin[0],
        origin_step=origin[1],
        tags=tags,
        **place._asdict(),
    )


def origin_of(look: Reading, run: RunRow) -> tuple[str, str]:
    """The run and the step that a run was forked from; empty for one that was not."""
    first = look.entries_of(run.key, [1]) if FORK in run.task else []
    payload = first[0].payload if first else None
    facts = decode_payload(payload).facts if payload and b'"origin":' in payload else None
    return (str(facts["origin"]["run"]), str(facts["origin"]["step"])) if isinstance(facts, dict) else ("", "")


def who_stopped(home: Home, run_id: str) -> str:
    """Who stopped an interrupted run: a person, a shutdown; empty when that is not known."""

    def look(reading: Reading) -> str:
        row, lease = reading.run_by_id(run_id), reading.lease_of(run_id)
        return stops.who_stopped(reading, row, lease) if row is not None and lease is not None else ""

    return home.store.read(look)


# -- the inbox -------------------------------------------------------------------------------------


class InboxItem(Struct, frozen=True):
    """An open wait, and whose it is."""

    interrupt: Interrupt
    task: str
    flow: str
    scope: str


def inbox(home: Home, assignee: str | None = None, type: str | None = None) -> list[InboxItem]:
    """The open waits: questions for people first, each kind the oldest first."""
    rows = home.store.read(lambda look: look.inbox_waits())
    found = (InboxItem(interrupt_of(row.wait), row.task, row.flow, row.scope) for row in rows)
    asked = (item for item in found if assignee in (None, item.interrupt.assignee))
    wanted = (item for item in asked if type in (None, item.interrupt.type))
    return sorted(wanted, key=lambda item: (not is_for_people(item.interrupt.type), item.interrupt.opened_at))


def interrupt(home: Home, interrupt_id: str) -> Interrupt:
    """A wait by its id or a unique prefix of it. Raises InterruptNotFound, AmbiguousPrefix."""
    return interrupt_of(home.store.read(lambda look: interrupt_row(look, interrupt_id)))


# -- what gave way when files were put back --------------------------------------------------------


Pieces = Callable[[], Iterator[bytes]]
_DISPLACED = b'["run","displaced"'


class Displaced(Compared, frozen=True):
    """A file as it was before another took its place."""

    _aside = ("read",)

    run_id: str
    seq: int  # of the entry that says so
    step: str  # for which files were put back
    path: str  # from the folder that the step works in
    digest: str
    at: datetime
    read: Pieces = lambda: iter(())

    def pieces(self) -> Iterator[bytes]:
        """Its content, piece by piece. Raises IntegrityBroken when it is not what was kept."""
        return self.read()

    def content(self) -> bytes:
        """The same at once."""
        return b"".join(self.read())

    def save_to(self, path: str | os.PathLike[str]) -> Path:
        """Write the content to a file: all of it, checked and durable, or nothing. A file that is there gives way."""
        return write_whole(Path(path), self.read())


def displaced(home: Home, run_id: str, path: str | None = None, seq: int | None = None) -> list[Displaced]:
    """Every file of a run that gave way, the oldest first; only those of a path or an entry.

    Raises RunNotFound, DisplacedNotFound for a path or entry of which none did.
    """
    row = run_row(home, run_id)
    rows = home.store.read(lambda look: look.entries_named(row.key, _DISPLACED, _DISPLACED + b"\xff"))
    found = [one for entry in rows for one in _of_entry(home, row.id, entry)]
    alike = [one for one in found if path in (None, one.path) and seq in (None, one.seq)]
    if not alike and (path, seq) != (None, None):
        place = ", ".join(filter(None, (path and repr(path), f"entry {seq}" if seq is not None else "")))
        raise errors.DisplacedNotFound(row.id, place, ", ".join(dict.fromkeys(one.path for one in found)) or "nothing")
    return alike


def _of_entry(home: Home, run_id: str, entry: Row) -> Iterator[Displaced]:
    facts: Any = decode_payload(entry.payload).facts if entry.payload else None
    at = moment(decode_header(entry.header).ended_at)
    for path, blob in facts["files"].items() if isinstance(facts, dict) else ():

        def read(name: str = str(blob)) -> Iterator[bytes]:
            return home.blobs.pieces(name)

        yield Displaced(run_id, entry.seq, str(facts["step"]), str(path), str(blob), at, read)
