"""Checking a whole store offline: every chain, every payload, every blob that a run or a handoff refers to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from outlast.care.verify_sessions import check_sessions
from outlast.care.verify_tasks import check_tasks
from outlast.care.verify_workspace import Checked, check_workspace
from outlast.errors import IntegrityBroken, OutlastError
from outlast.handoffs import anchor_journal as handoff_records
from outlast.handoffs.anchor_journal import name_of
from outlast.ledger.journal import decode_payload
from outlast.runs.recovery import Found, find
from outlast.runs.run import FINISHED
from outlast.store.contract import AnchorRow, Reading, RunRow
from outlast.values.digest import digest
from outlast.values.frozen import NamedTuple, dataclass

if TYPE_CHECKING:
    from outlast.home.home import Runtime


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that is not what was stored."""

    run_id: str
    record: str
    why: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of the store found."""

    runs: int
    entries: int
    blobs: int
    problems: tuple[Problem, ...]
    handoffs: int = 0  # revisions
    sessions: int = 0
    tasks: int = 0
    artifacts: int = 0  # versions
    checkpoints: int = 0
    records: int = 0
    links: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(runtime: Runtime, run_id: str | None = None) -> Verification:
    """Check one run, or the whole store. Nothing is changed."""
    problems = [Problem("", "the database file", line) for line in runtime.store.check()] if run_id is None else []
    runs = entries = blobs = 0
    if run_id is None:
        problems += runtime.store.read(_without_run) + runtime.store.read(_without_anchor)
    for row in runtime.rows() if run_id is None else [runtime.row(run_id)]:
        looked = runtime.store.read(partial(_look, row=row))
        if looked is None:  # removed since it was listed
            continue
        found, names = looked
        runs, entries, blobs = runs + 1, entries + len(found.rows) if found else entries, blobs + len(names)
        problems += _problems(runtime, row, found, names)
    handoffs = 0
    for looked_at in _anchors(runtime) if run_id is None else ():
        entries, handoffs = entries + looked_at.entries, handoffs + looked_at.revisions
        blobs += len(looked_at.blobs)
        problems += [*looked_at.problems, *_spoilt(runtime, looked_at.blobs, "", f" ({looked_at.name} needs it)")]
    sessions, breaks = check_sessions(runtime) if run_id is None else (0, [])
    tasks, torn = check_tasks(runtime) if run_id is None else (0, [])
    kept = check_workspace(runtime) if run_id is None else Checked()
    problems += [Problem("", *found) for found in (*breaks, *torn, *kept.breaks)]
    found_in_all = (handoffs, sessions, tasks, *kept[:4])
    return Verification(runs, entries, blobs + kept.blobs, tuple(problems), *found_in_all)


def _without_run(look: Reading) -> list[Problem]:
    """What is left of runs whose own rows are gone, but for those that are being removed: gc goes on with them."""
    going = {key for key, _ in look.unswept()}
    leases = [Problem(run_id, f"run {run_id}", "its row is missing") for run_id in look.leases_without_run()]
    keys = [key for key in look.journals_without_run() if key not in going]
    return leases + [Problem("", f"journal of run number {key}", "the run's row is missing") for key in keys]


def _look(look: Reading, row: RunRow) -> tuple[Found | None, set[str]] | None:
    """A run with its journal, and the blobs that it needs by its entries' own words or by the index of them."""
    if look.run_by_id(row.id) is None:
        return None
    lease = look.lease_of(row.id)
    found = find(look, row._replace(mark=0), lease) if lease else None  # all of it: a mark spares only a resume
    named = {_blob(entry.payload) for entry in found.rows} if found and not found.broken else set()
    return found, (named | set(look.blobs_of(row.key))) - {""}


def _blob(payload: bytes | None) -> str:
    return decode_payload(payload).blob if payload and b'"blob":"' in payload else ""


def _problems(runtime: Runtime, row: RunRow, found: Found | None, names: set[str]) -> Iterator[Problem]:
    if found is None:
        yield Problem(row.id, f"run {row.id}", "its lease row is missing")
        return
    if found.broken:
        yield Problem(row.id, found.broken.record, found.broken.why)
    elif row.status in FINISHED and found.ledger.endings[-1][0] != row.status:
        yield Problem(row.id, f"run {row.id}", f"its journal ends {found.ledger.endings[-1][0]}, not {row.status}")
    elif row.status == "succeeded" and _recorded_result(found) != digest((row.result or "").encode()):
        yield Problem(row.id, f"run {row.id}", "its result was changed")
    yield from _spoilt(runtime, names, row.id)


def _spoilt(runtime: Runtime, names: Iterable[str], run_id: str, whose: str = "") -> Iterator[Problem]:
    """The blobs of these that are missing or not what was stored."""
    for name in sorted(names):
        try:
            deque(runtime.blobs.pieces(name), maxlen=0)
        except OutlastError as error:
            yield Problem(run_id, f"blob {name[:12]}", f"{error.facts.get('why', error)}{whose}")


def _recorded_result(found: Found) -> str:
    """The digest of the result that the run's last entry proves."""
    payload = found.rows[-1].payload
    facts = decode_payload(payload).facts if payload else None
    return str(facts.get("result", "")) if isinstance(facts, dict) else ""


# -- handoffs ----------------------------------------------------------------------------------------


class _Anchor(NamedTuple):
    """What a look at an anchor found."""

    name: str
    entries: int
    revisions: int
    blobs: set[str]
    problems: list[Problem]


def _without_anchor(look: Reading) -> list[Problem]:
    """What is left of anchors whose own rows are gone. No anchor is ever removed."""
    gone = [(f"handoff lease {anchor_id}", "its anchor's row is missing") for anchor_id in look.leases_without_anchor()]
    gone += [(f"journal of anchor number {key}", "its row is missing") for key in look.journals_without_anchor()]
    gone += [(f"handoffs of anchor number {key}", "its row is missing") for key in look.handoffs_without_anchor()]
    return [Problem("", record, why) for record, why in gone]


def _anchors(runtime: Runtime) -> Iterator[_Anchor]:
    """Every anchor, looked at one by one: no read holds the store up for long."""
    after = 0

    def following(look: Reading) -> list[tuple[int, _Anchor]]:
        return [(anchor.key, _look_at(look, anchor)) for anchor in look.anchors_after(after, 1)]

    while found := runtime.store.read(following):
        ((after, looked_at),) = found
        yield looked_at


def _look_at(look: Reading, anchor: AnchorRow) -> _Anchor:
    name, kept = name_of(anchor.scope, anchor.anchor), set(look.blobs_of(-anchor.key))
    lease = look.lease_of_anchor(anchor.id)
    if lease is None:
        return _Anchor(name, 0, 0, kept, [Problem("", name, "its lease row is missing")])
    rows = handoff_records.rows_of(look, anchor)
    try:
        record = handoff_records.read(anchor.id, anchor.scope, anchor.anchor, rows, lease.head, lease.hash)
    except IntegrityBroken as error:
        return _Anchor(name, lease.head, anchor.revision, kept, [_named(look, anchor, error)])
    told = [Problem("", *found) for found in handoff_records.differences(look, anchor, record)]
    return _Anchor(name, lease.head, len(record.revisions), kept | record.blobs, told)


def _named(look: Reading, anchor: AnchorRow, error: IntegrityBroken) -> Problem:
    """The problem, by the name of the revision if it is in the entry of one."""
    entries = {f"entry handoff {anchor.anchor}/{row.seq}": row.revision for row in look.handoffs_of(anchor.key)}
    revision = entries.get(error.record)
    if revision is None:
        return Problem("", error.record, error.why)
    return Problem("", name_of(anchor.scope, anchor.anchor, revision), f"{error.why} ({error.record})")
