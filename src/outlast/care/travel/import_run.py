"""Bringing a run into a home from the file it travelled in.

Everything is proven before anything is written: the file, every member, every chain, every blob. Then the blobs are
put, which nobody sees, and one transaction writes the rest. A crash before it leaves nothing in sight, and importing
again works.
"""

from __future__ import annotations

import os
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from outlast.care.travel import archive
from outlast.care.travel.archive import (
    Archive,
    Manifest,
    Packed,
    Ref,
    Request,
    Started,
    Waited,
    archived_wait,
    row_of_wait,
)
from outlast.errors import IntegrityBroken, Invalid, RunExists
from outlast.ledger.journal import Row, check, facts_in, genesis
from outlast.runs.call import Call, fold
from outlast.runs.found import is_mark
from outlast.runs.journal import differences, standing_digest, tags_of
from outlast.runs.look import ListedRun, record_now, run_record
from outlast.runs.receipt import events_of
from outlast.runs.run import FINISHED, STATUSES
from outlast.runs.waits.stored import interrupt_of
from outlast.store.contract import InterruptRow, LeaseRow, Reading, RunRow, Writing
from outlast.values.codec import decode, identity
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller


Place = Literal["new", "here", "further"]  # not known here; known and as far; known, and the file goes further


class Imported(Struct, frozen=True):
    """A run that came in, as it stands here."""

    run_id: str
    status: str
    seal: str
    entries: int
    blobs: int
    replayed: bool  # all of it was here already
    children: tuple[str, ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()  # of a folder: what was not taken, and why


class ArrivedRun(NamedTuple):
    """A run as it was found in the file, proven."""

    run: RunRow
    lease: LeaseRow
    rows: list[Row]
    waits: list[InterruptRow]
    requests: list[Request]
    refs: list[Ref]
    operations: list[Started]

    @property
    def unfinished(self) -> bool:
        return self.run.status not in FINISHED


def import_any(caller: Caller, path: Path, flow: str | None = None) -> Imported:
    """A file is a run that was exported; a folder is testimony, of one flow."""
    if os.path.isdir(path):
        from outlast.care.travel.import_folder import import_testimony

        return import_testimony(caller, path, flow)
    if flow is not None:
        raise Invalid(detail=f"{path} is no folder, so no flow can be chosen in it; leave flow (--flow) out")
    return import_archive(caller, path)


def import_archive(caller: Caller, path: Path) -> Imported:
    """Bring a run in. A moved one goes on here, a copy can only be looked at.

    Raises ArchiveInvalid when the file is not whole, RunExists when a run that is here is in the way. Then nothing
    was written. The same file again is answered with `replayed`.
    """
    with archive.opened(path, archive.RUN) as file:
        family = [_arrived(file, packed) for packed in _family(file)]
        blobs = sorted({name for one in family for _, name in one.refs})
        parts = [archive.part(one.run.id, name) for one in family for name in archive.PARTS]
        file.refuse_others((*parts, *(f"blobs/{name}" for name in blobs)))
        for name in blobs:
            deque(file.pieces(f"blobs/{name}"), maxlen=0)
        caller.home.store.read(lambda look: _places(look, file, family))  # a conflict is found before a blob is put
        for name in blobs:
            caller.home.blobs.keep(name, file.pieces(f"blobs/{name}"))
        places = caller.home.store.write(lambda tx: _write(tx, file, family))
    return told(caller, family, len(blobs), all(place == "here" for place in places))


def told(caller: Caller, family: list[ArrivedRun], blobs: int, replayed: bool) -> Imported:
    record = record_now(caller, family[0].run)
    entries, children = sum(one.lease.head for one in family), tuple(one.run.id for one in family[1:])
    return Imported(record.id, record.status, record.seal, entries, blobs, replayed, children)


# -- proving -----------------------------------------------------------------------------------------


def _family(file: Archive[Manifest]) -> list[Packed]:
    """The runs in the file: one, and all others below it."""
    runs, known = file.manifest.runs, {""}
    if not runs or runs[0].id != file.manifest.run_id:
        raise file.invalid(archive.MANIFEST, f"run {file.manifest.run_id} is not the first in it")
    for number, packed in enumerate(runs):
        if packed.id in known or not packed.id.isalnum() or not packed.id.isascii() or len(packed.id) > 64:
            raise file.invalid(archive.MANIFEST, f"{packed.id!r} cannot be the id of a run in it")
        if number and packed.row.get("parent") not in known - {""}:
            raise file.invalid(archive.MANIFEST, f"run {packed.id} belongs to a run that is not in it")
        known.add(packed.id)
    return runs


def _arrived(file: Archive[Manifest], packed: Packed) -> ArrivedRun:
    """One run, with everything of it read and proven."""
    file.refuse_missing(archive.part(packed.id, name) for name in archive.PARTS)
    with file.reading(archive.MANIFEST):
        run = packed.as_row()
        lease = LeaseRow(0, packed.epoch, packed.head, bytes.fromhex(packed.hash), None)
        _refuse_odd(run, lease, file.manifest.kind)
    rows = list(file.lines(archive.part(run.id, "journal"), archive.row_of_line))
    waits = list(file.lines(archive.part(run.id, "interrupts"), partial(_wait, run.id)))
    requests = list(file.lines(archive.part(run.id, "requests"), msgspec.json.Decoder(Request).decode))
    refs = list(file.lines(archive.part(run.id, "refs"), msgspec.json.Decoder(Ref).decode))
    operations = list(file.lines(archive.part(run.id, "operations"), msgspec.json.Decoder(Started).decode))
    with file.reading(archive.part(run.id, "journal")):
        _refuse_broken(run, lease, rows)
    with file.reading(archive.part(run.id, "interrupts")):
        _refuse_doubles(waits)
        _refuse_changed(run, rows, waits, requests, operations)
    with file.reading(archive.part(run.id, "requests")):
        for _, body, _, at in requests:
            archive.refuse_odd_numbers(at)
            msgspec.json.decode(body, type=dict)
    with file.reading(archive.part(run.id, "refs")):
        for seq, name in refs:
            archive.refuse_odd_ref(seq, name, lease.head, 0)
    sealed = "" if file.manifest.kind == "move" else "testimony" if run.seal == "testimony" else "copy"
    with file.reading(archive.part(run.id, "operations")):
        for operation_id, _, at in operations:
            archive.refuse_odd_numbers(at)
            if not operation_id.strip() or not operation_id.isprintable() or len(operation_id) > 500:
                raise ValueError(f"{operation_id!r:.100} is no operation_id")
    return ArrivedRun(run._replace(seal=sealed), lease, rows, waits, requests, refs, [] if sealed else operations)


def _refuse_odd(run: RunRow, lease: LeaseRow, kind: str) -> None:
    """Raises ValueError for values that no store wrote."""
    if run.status not in STATUSES or (kind == "move" and run.seal != "moved"):
        raise ValueError(f"run {run.id} cannot be {run.status!r}, {run.seal!r} in a {kind}")
    if kind == "move" and run.status == "running":
        raise ValueError(f"run {run.id} was moved while it was running")
    archive.refuse_odd_numbers(lease.epoch, lease.head, run.created_at, run.updated_at, run.mark)
    if len(lease.hash) != 32 or identity(run.inputs.encode()) != run.inputs_digest:
        raise ValueError(f"the inputs of run {run.id}, or the end of its chain, were changed")
    for text in (run.inputs, run.meta, run.result or "{}", run.error or "{}"):
        if not isinstance(decode(text), dict):
            raise ValueError(f"a value of run {run.id} is no JSON object")
    run_record(ListedRun(run, lease))


def _refuse_broken(run: RunRow, lease: LeaseRow, rows: list[Row]) -> None:
    """Raises IntegrityBroken, naming the record, when the chain is not what was written."""
    start = genesis(run.id, run.flow, run.task, run.inputs_digest)
    broken = check(run.id, start, rows, lease.head, lease.hash)
    if broken is not None:
        raise broken.as_error()
    events_of(run.id, rows)  # every header and payload can be read
    fold(rows)  # and they follow each other
    if not rows:
        raise IntegrityBroken(f"run {run.id}", "its journal is empty")
    if run.mark and not is_mark(rows[max(run.mark - 2, 0) :], run.mark):
        raise IntegrityBroken(f"run {run.id}", f"its mark says entry {run.mark}, which is no mark to start from")


def _refuse_changed(
    run: RunRow, rows: list[Row], waits: list[InterruptRow], requests: list[Request], operations: list[Started]
) -> None:
    """Raises IntegrityBroken when what came beside the chain is not what left with it."""
    if run.seal == "testimony":
        return
    for broken in differences(run, rows, waits):
        raise broken.as_error()
    if run.seal != "moved" or run.status in FINISHED:
        return
    left = standing_digest(run, map(archived_wait, waits), requests, operations)
    if facts_in(rows[-1]).get("standing") != left:
        what = "its status, its waits, their answers, its requests or its operation ids"
        raise IntegrityBroken(f"run {run.id}", f"{what} were changed")


def _wait(run_id: str, line: bytes) -> InterruptRow:
    """A wait of a run, decoded; what cannot be shown is no wait."""
    row = row_of_wait(msgspec.json.decode(line, type=Waited), run_id)
    archive.refuse_odd_numbers(row.opened_at, row.due_at or 0)
    if not row.id or row.status not in ("open", "answered", "used", "cancelled"):
        raise ValueError(f"{row.id!r} is no wait")
    Call(*msgspec.json.decode(row.call, type=tuple[str, str, str, int]))
    _ = interrupt_of(row).says
    return row


def _refuse_doubles(waits: list[InterruptRow]) -> None:
    live = [wait.call for wait in waits if wait.status in ("open", "answered")]
    if len({wait.id for wait in waits}) != len(waits) or len(set(live)) != len(live):
        raise ValueError("a wait is in it twice")


# -- what is here ------------------------------------------------------------------------------------


def _places(look: Reading, file: Archive[Manifest], family: list[ArrivedRun]) -> list[Place]:
    """How each run of the family stands to what is here. Raises RunExists."""
    return [_place(look, file, one) for one in family]


def _place(look: Reading, file: Archive[Manifest], one: ArrivedRun) -> Place:
    run, lease = one.run, one.lease
    for wait in one.waits:
        for known in look.interrupts_by_prefix(wait.id):
            if known.id == wait.id and known.run_id != run.id:
                raise file.invalid(archive.part(run.id, "interrupts"), f"wait {wait.id} is one of run {known.run_id}")
    here, held = look.run_by_id(run.id), look.lease_of(run.id)
    if here is None or held is None:
        _refuse_taken_task(look, one)
        return "new"
    if here.seal == run.seal and look.hash_at(here.key, lease.head) == lease.hash:
        return "here"
    goes_on = held.head <= lease.head and one.rows[held.head - 1].hash == held.hash
    if goes_on and here.seal in ("moved", "copy") and run.seal in ("", here.seal):
        _refuse_taken_task(look, one)
        return "further"
    raise RunExists(run.id, _why_not(here, run, goes_on), f"see `outlast show {run.id}`; nothing was written")


def _why_not(here: RunRow, run: RunRow, goes_on: bool) -> str:
    if not here.seal and run.seal == "copy":
        return "it lives here, and the file is a copy of it"
    if here.seal == "moved" and run.seal == "copy" and goes_on:
        return "it was moved away from here, and the file is only a copy of it"
    return "it is here already, with another history"


def _refuse_taken_task(look: Reading, one: ArrivedRun) -> None:
    """A task has at most one unfinished run per flow, wherever it comes from."""
    run = one.run
    other = look.unfinished_run(run.scope, run.task, run.identity) if one.unfinished and not run.seal else None
    if other is not None and other.id != run.id:
        why = f"its task {run.task!r} has the unfinished run {other.id} here"
        raise RunExists(run.id, why, f"finish that one, or give it up: `outlast abort {other.id} --why WHY`")


# -- writing -----------------------------------------------------------------------------------------


def _write(tx: Writing, file: Archive[Manifest], family: list[ArrivedRun]) -> list[Place]:
    """All of the family becomes visible at once. No owner of before can ever commit to it: the epoch is a later one."""
    places = _places(tx, file, family)
    for one, place in zip(family, places, strict=True):
        if place == "new":
            key = tx.add_arrived(one.run, one.lease.epoch + 1, one.lease.head, one.lease.hash)
            tx.fill_arrived(key, one.rows, one.refs, one.waits, one.requests)
            tx.add_run_tags(key, tags_of(one.rows))
        elif place == "further":
            here, held = tx.run_by_id(one.run.id), tx.lease_of(one.run.id)
            assert here is not None
            assert held is not None
            epoch = max(held.epoch, one.lease.epoch) + 1
            tx.renew_arrived(one.run._replace(key=here.key), one.lease._replace(key=held.key, epoch=epoch))
            tx.fill_arrived(here.key, one.rows[held.head :], one.refs, one.waits, one.requests)
        _add_operations(tx, one)
    return places


def _add_operations(tx: Writing, one: ArrivedRun) -> None:
    """The same call with the same operation_id means this run here too. Raises RunExists where it means another."""
    for operation_id, asked, at in one.operations:
        known = tx.operation(operation_id)
        if known is None:
            tx.add_operation(operation_id, "run_start", asked, one.run.id, at)
        elif known != ("run_start", asked, one.run.id):
            why = f"its operation_id {operation_id!r} was used here for something else"
            raise RunExists(one.run.id, why, "import it into another home; nothing was written")
