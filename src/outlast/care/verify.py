"""Checking a whole store offline: every chain, every payload, every blob that a run or a handoff refers to.

Whether rows that are no entries of a chain are what was written last: the part of `verify` about their proofs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.care.verify_nouns import (
    CheckedWorkspace,
    check_sessions,
    check_tasks,
    check_workspace,
    handoff_differences,
)
from outlast.errors import IntegrityBroken, OutlastError
from outlast.handoffs import journal as handoff_records
from outlast.handoffs.journal import name_of
from outlast.home.home import run_row
from outlast.home.keys import Keys
from outlast.home.place import FoundHome
from outlast.ledger.journal import Break, decode_header, decode_payload
from outlast.runs.found import FoundRun, find, is_mark
from outlast.runs.journal import differences, tags_of
from outlast.runs.look import each_run
from outlast.runs.outputs.files import Output, outputs
from outlast.store.contract import PROVEN, AnchorRow, InterruptRow, Reading, RunRow, every_row
from outlast.store.contract.runs import damage_of
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home


PAGE = 500


def _of_table(home: Home, table: str) -> Iterator[Break]:
    after = 0

    def page(look: Reading) -> tuple[int, list[Break]]:
        return look.unproven(table, after, PAGE)

    while True:
        try:
            after, breaks = home.store.read(page)
        except OutlastError as error:
            yield Break(f"table {table}", f"it cannot be read: {error}")
            return
        yield from breaks
        if not after:
            return


FILE = "the database file"
LAST = (1 << 63) - 1
# What reading something that no store wrote may end in.
UNREADABLE = (
    OutlastError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    msgspec.MsgspecError,
)


class DamagedRecord(Struct, frozen=True):
    """A record that is not what was stored."""

    run_id: str
    record: str
    why: str


class Verification(Struct, frozen=True):
    """What a check of the store found."""

    runs: int
    entries: int
    blobs: int
    problems: tuple[DamagedRecord, ...]
    handoffs: int = 0  # revisions
    sessions: int = 0
    tasks: int = 0
    artifacts: int = 0  # versions
    checkpoints: int = 0
    records: int = 0
    links: int = 0
    files: int = 0  # of the finished steps of one run: looked at
    outputs: tuple[Output, ...] = ()  # those of them that are not as they were left; no record is broken by that

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(caller: Caller, run_id: str | None = None) -> Verification:
    """Check one run, or the whole store. Nothing is changed, and nothing that is found ends the search."""
    seen = _VerifiedHome(caller.home)
    if run_id is not None:
        seen.run(run_row(caller.home, run_id))
        return _with_files(caller, run_id, seen.told())
    seen.problems += [DamagedRecord("", FILE, line) for line in caller.home.store.check()]
    for name, look in (("runs", seen.runs), ("handoffs", seen.anchors), ("sessions", seen.sessions)):
        seen.guarded(name, look)
    for name, look in (("tasks", seen.tasks), ("the workspace", seen.workspace), ("rows", seen.rows)):
        seen.guarded(name, look)
    seen.guarded("keys.db", seen.keys)
    return seen.told()


def _with_files(caller: Caller, run_id: str, told: Verification) -> Verification:
    """The same, and how the files of finished steps are now. Where records are broken nobody can say."""
    try:
        found = outputs(caller, run_id)
    except (*UNREADABLE, OSError):
        return told
    return replace(told, files=len(found), outputs=tuple(one for one in found if one.found != "same"))


class _VerifiedHome:
    """What was found so far."""

    def __init__(self, home: Home) -> None:
        self.home, self.problems, self.kept = home, list[DamagedRecord](), CheckedWorkspace()
        self.counts = {"runs": 0, "entries": 0, "blobs": 0, "handoffs": 0, "sessions": 0, "tasks": 0}

    def told(self) -> Verification:
        """Everything, each record named once: by what was found first."""
        once: dict[tuple[str, str], DamagedRecord] = {}
        for problem in self.problems:
            once.setdefault((problem.record, problem.why if problem.record == FILE else ""), problem)
        kept = self.kept
        works = {"artifacts": kept.artifacts, "checkpoints": kept.checkpoints, "records": kept.records}
        counts = self.counts | works | {"links": kept.links, "blobs": self.counts["blobs"] + kept.blobs}
        return Verification(problems=tuple(once.values()), outputs=(), **counts)

    def keys(self) -> None:
        """Who may ask a server: every tenant's keys, since they are one file."""
        with closing(Keys(FoundHome(self.home.path, database=self.home.database))) as keys:
            self._broken(Break(f"key {key_id}", "it is not what was stored") for key_id in keys.damaged())
            if keys.are_gone():
                self.problems.append(DamagedRecord("", "keys.db", "there is no key in it, though one was made"))

    def guarded(self, name: str, look: Callable[[], None]) -> None:
        """A part of the search. What it cannot read at all is a problem, and the search goes on."""
        try:
            look()
        except UNREADABLE as error:
            self.problems.append(DamagedRecord("", name, f"they cannot be read: {error}"))

    def runs(self) -> None:
        self.problems += self.home.store.read(_without_run)
        for row in each_run(self.home):
            self.run(row)

    def run(self, row: RunRow) -> None:
        """One run; what cannot be read of it is a problem of its own."""
        self.counts["runs"] += 1
        try:
            looked = self.home.store.read(partial(_look, row=row))
            if looked is None:  # removed since it was listed
                self.counts["runs"] -= 1
                return
            found, names = looked
            self.problems += _problems(self.home, found.run if found else row, found, names)
            self.counts["entries"] += len(found.found.rows) if found else 0
            self.counts["blobs"] += len(names)
        except UNREADABLE as error:
            self.problems.append(DamagedRecord(row.id, f"run {row.id}", f"it cannot be read: {error}"))

    def anchors(self) -> None:
        self.problems += self.home.store.read(_without_anchor)
        for at in _anchors(self.home):
            self.counts["entries"] += at.entries
            self.counts["handoffs"] += at.revisions
            self.counts["blobs"] += len(at.blobs)
            self.problems += [*at.problems, *_spoilt(self.home, at.blobs, "", f" ({at.name} needs it)")]

    def sessions(self) -> None:
        self.counts["sessions"], breaks = check_sessions(self.home)
        self._broken(breaks)

    def tasks(self) -> None:
        self.counts["tasks"], breaks = check_tasks(self.home)
        self._broken(breaks)

    def workspace(self) -> None:
        self.kept = check_workspace(self.home)
        self._broken(self.kept.breaks)

    def rows(self) -> None:
        self._broken(found for table in PROVEN for found in _of_table(self.home, table))

    def _broken(self, breaks: Iterable[Break]) -> None:
        self.problems += [DamagedRecord("", *found) for found in breaks]


def _without_run(look: Reading) -> list[DamagedRecord]:
    """What is left of runs whose own rows are gone, but for those that are being removed: gc goes on with them."""
    going = {key for key, _ in look.unswept()}
    leases = [DamagedRecord(run_id, f"run {run_id}", "its row is missing") for run_id in look.leases_without_run()]
    journals = [f"journal number {key}" for key in look.journals_of_nothing() if key not in going]
    return leases + [DamagedRecord("", name, "the row of its run or handoff is missing") for name in journals]


class _Looked(NamedTuple):
    """A run with its journal, its waits, and what its rows' proofs say: all of one moment."""

    run: RunRow
    found: FoundRun
    waits: list[InterruptRow]
    unkept: list[tuple[int, str]]  # entries and blobs of which the index of them says something else
    unproven: list[Break]
    tags: list[str]  # by which it is found


def _look(look: Reading, row: RunRow) -> tuple[_Looked | None, set[str]] | None:
    """A run, and the blobs that it needs by its entries' own words or by the index of them."""
    now = look.run_by_id(row.id)
    if now is None and not damage_of(row):
        return None
    row = now or row  # it may have gone on since it was listed
    lease, refs = look.lease_of(row.id), set(look.blob_refs_upto(row.key, LAST))
    if lease is None:
        return None, {name for _, name in refs}
    found = find(look, row._replace(mark=0), lease)  # all of it: a mark spares only a resume
    named = {(entry.seq, name) for entry in found.rows if (name := _blob(entry.told))} if not found.broken else set()
    waits = look.interrupts_of(row.key)
    keys = [("runs", row.key), ("chains", lease.key), *(("interrupts", wait.key) for wait in waits)]
    unproven = [wrong for table, key in keys if (wrong := look.unproven_row(table, key)) is not None]
    stray = [ref for ref in refs if ref[0] > lease.head] if not found.broken else []
    tags = look.tags_of(row.key)
    return _Looked(row, found, waits, sorted(named - refs) + stray, unproven, tags), {name for _, name in named | refs}


def _blob(payload: bytes | None) -> str:
    return decode_payload(payload).blob if payload and b'"blob":"' in payload else ""


def _problems(home: Home, row: RunRow, looked: _Looked | None, names: set[str]) -> Iterator[DamagedRecord]:
    if looked is None:
        yield DamagedRecord(row.id, f"run {row.id}", "its lease row is missing")
        return
    found = looked.found
    if damage_of(row):
        yield DamagedRecord(row.id, f"run {row.id}", damage_of(row))
    elif found.broken:
        yield from (DamagedRecord(row.id, *broken) for broken in found.breaks)
    else:
        yield from (DamagedRecord(row.id, *told) for told in _beside(row, looked))
    yield from (DamagedRecord(row.id, *told) for told in looked.unproven)
    yield from _spoilt(home, names, row.id)


def _beside(row: RunRow, looked: _Looked) -> Iterator[Break]:
    """Where the rows beside a chain that is whole say something else."""
    found, record = looked.found, f"run {row.id}"
    damaged = [wait for wait in looked.waits if damage_of(wait)]
    yield from (Break(f"wait {wait.id}", damage_of(wait)) for wait in damaged)
    if row.seal != "testimony":
        yield from differences(row, found.rows, [wait for wait in looked.waits if wait not in damaged])
    if row.mark and not is_mark(found.rows[max(row.mark - 2, 0) :], row.mark):
        yield Break(record, f"its mark says entry {row.mark}, which is no mark that a resume may start from")
    if found.lease.epoch < max((decode_header(entry.header).epoch for entry in found.rows[-1:]), default=0):
        yield Break(f"lease run:{row.id}", "its epoch was set back: entries of a later one are in the journal")
    if looked.tags != tags_of(found.rows):
        yield Break(record, "the index of its tags was changed")
    for seq, name in looked.unkept:
        yield Break(record, f"the reference that keeps blob {name[:12]} for its entry {seq} is missing, or is none")


def _spoilt(home: Home, names: Iterable[str], run_id: str, whose: str = "") -> Iterator[DamagedRecord]:
    """The blobs of these that are missing or not what was stored."""
    for name in sorted(names):
        try:
            home.blobs.check(name)
        except OutlastError as error:
            yield DamagedRecord(run_id, f"blob {name[:12]}", f"{error.facts.get('why', error)}{whose}")


# -- handoffs ----------------------------------------------------------------------------------------


class _Anchor(NamedTuple):
    """What a look at an anchor found."""

    name: str
    entries: int
    revisions: int
    blobs: set[str]
    problems: list[DamagedRecord]


def _without_anchor(look: Reading) -> list[DamagedRecord]:
    """What is left of anchors whose own rows are gone. No anchor is ever removed."""
    gone = [(f"handoff lease {anchor_id}", "its anchor's row is missing") for anchor_id in look.leases_without_anchor()]
    gone += [(f"handoffs of anchor number {key}", "its row is missing") for key in look.handoffs_without_anchor()]
    return [DamagedRecord("", record, why) for record, why in gone]


def _anchors(home: Home) -> Iterator[_Anchor]:
    """Every anchor, looked at one by one: no read holds the store up for long."""

    def following(look: Reading, after: int) -> list[tuple[int, _Anchor]]:
        return [(anchor.key, _look_at(look, anchor)) for anchor in look.anchors_after(after, 1)]

    pairs = every_row(lambda after: home.store.read(partial(following, after=after)), lambda pair: pair[0])
    return (looked_at for _, looked_at in pairs)


def _look_at(look: Reading, anchor: AnchorRow) -> _Anchor:
    name, kept = name_of(anchor.scope, anchor.anchor), set(look.blobs_of(anchor.key))
    if why := damage_of(anchor):
        return _Anchor(name, 0, 0, kept, [DamagedRecord("", name, why)])
    lease = look.lease_of_anchor(anchor.id)
    if lease is None:
        return _Anchor(name, 0, 0, kept, [DamagedRecord("", name, "its lease row is missing")])
    rows = handoff_records.rows_of(look, anchor)
    try:
        record = handoff_records.read(anchor.id, anchor.scope, anchor.anchor, rows, lease.head, lease.hash)
    except IntegrityBroken as error:
        return _Anchor(name, lease.head, anchor.revision, kept, [_named(look, anchor, error)])
    told = [DamagedRecord("", *found) for found in handoff_differences(look, anchor, record)]
    return _Anchor(name, lease.head, len(record.revisions), kept | record.blobs, told)


def _named(look: Reading, anchor: AnchorRow, error: IntegrityBroken) -> DamagedRecord:
    """The problem, by the name of the revision if it is in the entry of one."""
    entries = {f"entry handoff {anchor.anchor}/{row.seq}": row.revision for row in look.handoffs_of(anchor.key)}
    revision = entries.get(error.record)
    if revision is None:
        return DamagedRecord("", error.record, error.why)
    return DamagedRecord("", name_of(anchor.scope, anchor.anchor, revision), f"{error.why} ({error.record})")
