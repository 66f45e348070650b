"""Taking a run out of a home as one file: a copy to look at, or the run itself, which then goes on elsewhere only.

A move seals first and writes after. From the moment of the seal nobody here can continue the run or change it, so the
file holds all there is; a crash in between leaves a sealed run, and the same command writes the file. Bringing a file
in is `import_run.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from msgspec import Struct

from outlast.care.travel import archive
from outlast.care.travel.archive import Manifest, Packer, Ref, Request, Started, Waited, archived_wait
from outlast.errors import ArchiveInvalid, IntegrityBroken, Invalid, Refused, RunNotFound
from outlast.home.home import run_row
from outlast.ledger.journal import Row, check, genesis
from outlast.runs.claim import run_fact
from outlast.runs.holder import holder_of, refuse_held, refuse_sealed
from outlast.runs.journal import standing_digest
from outlast.runs.outputs.saves import refs_saved
from outlast.runs.run import FINISHED
from outlast.store.contract import Hold, LeaseRow, Reading, RunRow, Writing
from outlast.values.codec import identity
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home

SHOWN = 5  # of what cannot travel; that there is more is said


class Exported(Struct, frozen=True):
    """A file that holds a run."""

    path: str
    run_id: str
    entries: int
    blobs: int
    bytes: int
    digest: str  # SHA-256 of the file
    moved: bool
    children: tuple[str, ...]


class RunSnapshot(NamedTuple):
    """A run at one moment. Its journal up to the head never changes, so it is read later, page by page."""

    run: RunRow
    lease: LeaseRow
    waits: list[Waited]
    requests: list[Request]
    operations: list[Started]


def export_run(caller: Caller, run_id: str, path: Path, *, move: bool, force: bool = False) -> Exported:
    """Write a run and its children into one file. With `move` it cannot go on here any more.

    Raises RunHeld and Refused (of a move, when it has what cannot travel yet), RunSealed, IntegrityBroken when its
    records are not what was stored, Conflict when there is another file of that name.
    """
    root = run_row(caller.home, run_id)
    target = archive.target(path, archive.file_name(root.flow.rpartition(":")[2], root.id, "run"))
    archive.refuse_to_replace(target, force, lambda there: _is_ours(caller.home, root, there))

    def fill(file: BinaryIO) -> tuple[list[RunSnapshot], int]:
        if move:  # only now: a folder that cannot be written stops it before the run is sealed
            _seal(caller, root.id)
        found = _family_standing(caller, root.id)
        return found, _write(caller.home, file, found, move)

    (found, blobs), written = archive.write_whole(target, fill)
    entries, children = sum(one.lease.head for one in found), tuple(one.run.id for one in found[1:])
    return Exported(str(target), root.id, entries, blobs, written.size, written.digest, move, children)


def _is_ours(home: Home, run: RunRow, target: Path) -> bool:
    """Whether the file is an earlier export of this run as it is now."""
    lease = home.store.read(lambda look: look.lease_of(run.id))
    try:
        with archive.opened(target, archive.RUN) as there:
            first = there.manifest.runs[0]
            return lease is not None and (first.id, first.hash) == (run.id, lease.hash.hex())
    except (ArchiveInvalid, IndexError):
        return False


# -- sealing -----------------------------------------------------------------------------------------


def _family(look: Reading, run_id: str) -> list[RunRow]:
    """The run and, after it, all its descendants."""
    root = look.run_by_id(run_id)
    if root is None:
        raise RunNotFound(run_id)
    found = [root]
    for run in found:  # it grows while it is walked
        found += look.children_of(run.id)
    return found


def _seal(caller: Caller, run_id: str) -> None:
    """Nobody continues the run or its children here from now on. What could not be written whole is not sealed."""
    for one in _family_standing(caller, run_id):
        _refuse_broken(caller.home, one)
        if one.run.seal != "moved":
            _refuse_left(one.run, "artifacts", refs_saved(_rows(caller.home, one)))
        for name in {name for _, name in _refs(caller.home, one)}:
            caller.home.blobs.check(name)
    caller.home.store.write(lambda tx: _seal_all(caller, tx, run_id))


def _seal_all(caller: Caller, tx: Writing, run_id: str) -> None:
    family = _family(tx, run_id)
    if family[0].parent:
        raise Invalid(detail=f"run {run_id} is a child; it moves with its parent: export {family[0].parent} --move")
    for run in family:
        if run.seal != "moved":  # else an earlier export was stopped before its file was there
            _seal_one(caller, tx, run)


def _refuse_rest(look: Reading, run: RunRow) -> None:
    """The same for checkpoints, records and links, and for signals that it has not asked for yet."""
    _refuse_left(run, "checkpoints", [row.name for row in look.checkpoints_of_run(run.id, 0, SHOWN + 1)])
    _refuse_left(run, "records", [f"record:{row.id}" for row in look.records_of_run(run.id, 0, SHOWN + 1)])
    _refuse_left(run, "links", [row.id for row in look.links_of_run(run.id, 0, SHOWN + 1)])
    _refuse_left(run, "signals that it has not taken", [] if run.status in FINISHED else look.untaken_signals(run))


def _refuse_left(run: RunRow, what: str, names: list[str]) -> None:
    """What a run saved lies in the workspace of its home: elsewhere its refs would mean nothing, or something else."""
    if names:
        more = ", …" if len(names) > SHOWN else ""
        why = f"run {run.id} has {what}, which do not travel yet: {', '.join(names[:SHOWN])}{more}"
        raise Refused(detail=f"{why}; finish it here, or take a copy to look at: outlast export {run.id}")


def _seal_one(caller: Caller, tx: Writing, run: RunRow) -> None:
    refuse_sealed(run)
    _refuse_rest(tx, run)
    lease, status = _lease(tx, run), "crashed" if run.status == "running" else run.status
    refuse_held(caller, tx, run.id, lease)
    tx.take_lease(lease, None)
    if lease.holder and lease.holder != caller.home.process.id:
        tx.forget_holder(lease.holder)
    if run.status not in FINISHED:  # the end of a finished one stays its last entry
        hold = Hold(run.key, run.id, lease.key, lease.epoch + 1, lease.head, lease.hash)
        facts, at = {"by": caller.actor, "standing": _digest(tx, run._replace(status=status))}, caller.home.clock.now()
        tx.append(hold, [run_fact("moved", facts, epoch=hold.epoch, at=at, trace_id=run.trace_id)])
    tx.seal_run(run.key, "moved", status)


def _digest(look: Reading, run: RunRow) -> str:
    """All that leaves beside the chain, so that nobody can change an answer on the way."""
    waits = map(archived_wait, look.interrupts_of(run.key))
    return standing_digest(run, waits, look.requests_of(run.key), look.operations_of(run.id))


def _lease(look: Reading, run: RunRow) -> LeaseRow:
    lease = look.lease_of(run.id)
    if lease is None:
        raise IntegrityBroken(f"run {run.id}", "its lease row is missing")
    return lease


# -- writing -----------------------------------------------------------------------------------------


def _family_standing(caller: Caller, run_id: str) -> list[RunSnapshot]:
    """All of the family at one moment."""
    return caller.home.store.read(lambda look: [_standing(caller, look, run) for run in _family(look, run_id)])


def _standing(caller: Caller, look: Reading, run: RunRow) -> RunSnapshot:
    lease = _lease(look, run)
    if run.status == "running" and not holder_of(caller, look, run.id, lease):
        run = run._replace(status="crashed")  # only here can it be told
    waits = [archived_wait(row) for row in look.interrupts_of(run.key)]
    return RunSnapshot(run, lease, waits, look.requests_of(run.key), look.operations_of(run.id))


def _write(home: Home, file: BinaryIO, found: list[RunSnapshot], move: bool) -> int:
    """All members, each checked against what was stored while it is written. How many blobs."""
    blobs: set[str] = set()
    with Packer(file) as packer:
        for one in found:
            blobs |= _write_run(home, packer, one)
        for name in sorted(blobs):
            packer.add(f"blobs/{name}", home.blobs.pieces(name))
        runs = [archive.packed(one.run, one.lease.epoch, one.lease.head, one.lease.hash) for one in found]
        kind: Literal["move", "copy"] = "move" if move else "copy"
        packer.seal(Manifest(archive.RUN.name, kind, runs[0].id, runs, packer.listed()))
    return len(blobs)


def _write_run(home: Home, packer: Packer, one: RunSnapshot) -> set[str]:
    run, refs = one.run, _refs(home, one)
    _refuse_broken(home, one)
    packer.add(archive.part(run.id, "journal"), map(archive.line_of_row, _rows(home, one)))
    packer.add(archive.part(run.id, "interrupts"), archive.lines(one.waits))
    packer.add(archive.part(run.id, "requests"), archive.lines(one.requests))
    packer.add(archive.part(run.id, "refs"), archive.lines(refs))
    packer.add(archive.part(run.id, "operations"), archive.lines(one.operations))
    return {name for _, name in refs}


def _refs(home: Home, one: RunSnapshot) -> list[Ref]:
    return home.store.read(lambda look: look.blob_refs_upto(one.run.key, one.lease.head))


def _refuse_broken(home: Home, one: RunSnapshot) -> None:
    """Raises IntegrityBroken, naming the first record that is not what was stored."""
    run, lease = one.run, one.lease
    if identity(run.inputs.encode()) != run.inputs_digest:
        raise IntegrityBroken(f"run {run.id}", "its inputs were changed")
    start = genesis(run.id, run.flow, run.task, run.inputs_digest)
    broken = check(run.id, start, _rows(home, one), lease.head, lease.hash)
    if broken is not None:
        raise broken.as_error()


def _rows(home: Home, one: RunSnapshot) -> Iterator[Row]:
    return archive.pages(home, one.run.key, one.lease.head)
