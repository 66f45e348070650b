"""Looking at runs: what a home has of them, as the values people read. A row by its id: `home/find.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.clock import moment
from outlast.errors import OutlastError, RunNotFound
from outlast.home.find import run_row
from outlast.ledger.journal import decode_payload
from outlast.runs import stops
from outlast.runs.call import Call, id_of
from outlast.runs.claim import holder_of
from outlast.runs.run import FORK, Outcome, RunRecord
from outlast.runs.waits.interrupt import Interrupt
from outlast.store.contract import InterruptRow, LeaseRow, Reading, RunRow, below
from outlast.store.contract.damaged import damage_of
from outlast.values.codec import decode

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.receipt import Receipt

# What reading a record that no store wrote may end in.
UNREADABLE = (OutlastError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


DAMAGED = "damaged"  # how a record stands that is not what was stored: it is listed, and nobody may act on it
SEE = "see `outlast verify`"
PAGE = 200


# -- runs, one by one and in lists -----------------------------------------------------------------


def record_now(caller: Caller, row: RunRow) -> RunRecord:
    """A run as it is now: status and holder are read at one moment, so that neither belies the other."""
    if damage_of(row):
        return damaged(row, damage_of(row))
    return caller.home.store.read(lambda look: record_in(caller, look, row.id))


def record_in(caller: Caller, look: Reading, run_id: str) -> RunRecord:
    """The same inside a transaction."""
    row, lease = look.run_by_id(run_id), look.lease_of(run_id)
    if row is None or lease is None:
        raise RunNotFound(run_id)
    holder = holder_of(caller, look, run_id, lease)
    return run_record(row, lease, holder, result_of(caller.home, row), origin_of(look, row))


def outcome_now(caller: Caller, row: RunRow) -> Outcome[Any]:
    """How a run stands, without running anything."""
    record = record_now(caller, row)
    waits = tuple(waits_now(caller.home, row.key)) if record.status == "waiting" else ()
    holder = record.holder if record.status == "running" else ""
    by = who_stopped(caller.home, row.id) if record.status == "interrupted" else ""
    return Outcome(row.id, record.status, record.result, waits, record.error, holder=holder, stopped_by=by)


def result_of(home: Home, row: RunRow) -> Any:
    """What a run gave."""
    kept = decode(row.result) if row.result else {}
    return decode(home.blobs.get(kept["blob"])) if "blob" in kept else kept.get("value")


def list_runs(caller: Caller, status: str | None, limit: int, before: str | None = None) -> list[RunRecord]:
    """The newest runs of a status, or of all. Whether a running one has crashed shows only in its record."""
    from heapq import merge

    start = 0 if before is None else run_row(caller.home, before).key
    stored = ("running", "crashed") if status == "crashed" else (status,)
    page = max(1, min(limit, PAGE))
    found: dict[str, RunRecord] = {}  # by id: one that changes between two pages is met twice
    lists = [_records(caller, each, page, start) for each in stored] if limit > 0 else []
    for _, record in merge(*lists, key=lambda pair: -pair[0]):
        if record is not None and status in (None, record.status):
            found[record.id] = record
        if len(found) >= limit:  # before the next one, which may need another page
            break
    return list(found.values())


def _records(caller: Caller, status: str | None, page: int, before: int) -> Iterator[tuple[int, RunRecord | None]]:
    """The same as `each_run`, as records with their keys: a page is read at one moment."""
    while found := caller.home.store.read(lambda look: rows_with_leases(caller, look, status, page, before)):  # noqa: B023
        yield from ((held.row.key, listed(caller, held)) for held in found)
        before = below(found[-1].row.key)


def each_run(home: Home, status: str | None = None, page: int = PAGE, before: int = 0) -> Iterator[RunRow]:
    """Every run of a recorded status, or every run, the newest first, read page by page."""

    def look(reading: Reading) -> list[RunRow]:
        return reading.newest_runs(status, page, before)

    while found := home.store.read(look):
        yield from found
        before = below(found[-1].key)


def run_receipts(home: Home, run_id: str) -> list[Receipt]:
    """One receipt per attempt of a run, in the order in which they were written."""
    from outlast.runs.receipt import receipts_in

    return receipts_in(home.store, run_row(home, run_id), home.blobs.get)


def waits_now(home: Home, run_key: int) -> list[Interrupt]:
    """The open waits of a run."""
    rows = home.store.read(lambda look: look.waits_of(run_key))
    return [interrupt_of(row) for row in rows if row.status == "open"]


def open_interrupts(home: Home, run_id: str | None) -> list[Interrupt]:
    """The open waits of a run, or of all."""
    if run_id is not None:
        return waits_now(home, run_row(home, run_id).key)
    return [interrupt_of(row) for row in home.store.read(lambda look: look.open_waits(0, -1))]


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


def interrupt_of(row: InterruptRow) -> Interrupt:
    """A wait; one whose row cannot be read is called damaged."""
    form = decode(row.form)
    if why := damage_of(row):
        row = row._replace(status=DAMAGED, reason="")
        return replace(_interrupt(row, form), reason=f"{why}; {SEE}")
    return _interrupt(row, form)


def _interrupt(row: InterruptRow, form: dict[str, Any]) -> Interrupt:
    return Interrupt(
        id=row.id,
        run_id=row.run_id,
        type=row.type,
        step=row.step,
        payload=decode(row.payload),
        status="cancelled" if row.reason else row.status,
        answer=decode(row.answer) if row.answer else None,
        answered_by=row.answered_by,
        opened_at=moment(row.opened_at),
        due_at=moment(row.due_at) if row.due_at is not None else None,
        schema=form.get("schema"),
        default=form.get("default"),
        has_default="default" in form,
        assignee=form.get("assignee", ""),
        reason=row.reason,
        by_flow="digest" in form,
        call=id_of(Call(*decode(row.call))),
    )


class ListedRun(NamedTuple):
    """A run of a list, with its lease and who held it at that moment; no lease where that could not be read."""

    row: RunRow
    lease: LeaseRow | None
    holder: str = ""
    origin: tuple[str, str] = ("", "")


def rows_with_leases(caller: Caller, look: Reading, status: str | None, page: int, before: int) -> list[ListedRun]:
    """A page of runs, the newest first, in as few statements as can be."""
    rows = look.newest_runs(status, page, before)
    leases = look.leases_of([row.id for row in rows if not damage_of(row)])
    return [_held(caller, look, row, leases.get(row.id)) for row in rows]


def _held(caller: Caller, look: Reading, row: RunRow, lease: LeaseRow | None) -> ListedRun:
    try:
        return ListedRun(row, lease, holder_of(caller, look, row.id, lease) if lease else "", origin_of(look, row))
    except UNREADABLE:
        return ListedRun(row, None)


def listed(caller: Caller, held: ListedRun) -> RunRecord | None:
    """A run of a list; None when it was removed since. What cannot be read is shown as damaged."""
    row, lease, holder, origin = held
    if damage_of(row):
        return damaged(row, damage_of(row))
    try:
        if lease is not None:
            return run_record(row, lease, holder, result_of(caller.home, row), origin)
    except UNREADABLE:
        pass  # it may have been removed since
    return caller.home.store.read(lambda look: _looked_at_again(caller, look, row.id))


def _looked_at_again(caller: Caller, look: Reading, run_id: str) -> RunRecord | None:
    now = look.run_by_id(run_id)
    if now is None:
        return None
    try:
        return record_in(caller, look, run_id)
    except UNREADABLE as error:
        return damaged(now, "its lease row is missing" if isinstance(error, RunNotFound) else str(error))


def damaged(row: RunRow, why: str) -> RunRecord:
    """What is left of a run that is not what was stored."""
    kept = row._replace(result=None, error=None, inputs="{}", meta="{}")
    found = run_record(kept, LeaseRow(0, 0, 0, b"", None), "", None)
    return replace(found, status=DAMAGED, error={"type": DAMAGED, "message": f"{why}; {SEE}"})


def run_record(row: RunRow, lease: LeaseRow, holder: str, result: Any, origin: tuple[str, str] = ("", "")) -> RunRecord:
    """A run; one whose status is `running` and that nobody holds any more is called crashed."""
    status = "crashed" if row.status == "running" and not holder and not row.seal else row.status
    return RunRecord(
        id=row.id,
        flow=row.flow,
        task=row.task,
        scope=row.scope,
        status=status,
        phase=row.phase,
        inputs=decode(row.inputs),
        result=result,
        error=decode(row.error) if row.error else None,
        parent=row.parent,
        session=row.session,
        trace_id=row.trace_id,
        meta=decode(row.meta),
        actor=row.actor,
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
        epoch=lease.epoch,
        head=lease.head,
        holder=holder,
        seal=row.seal,
        identity=row.identity,
        source=row.source,
        worktree=row.worktree,
        origin=origin[0],
        origin_step=origin[1],
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
