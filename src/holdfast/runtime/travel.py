"""Taking a run out of a home as one file: a copy to look at, or the run itself, which then goes on elsewhere only.

A move seals first and writes after. From the moment of the seal nobody here can continue the run or change it, so the
file holds all there is; a crash in between leaves a sealed run, and the same command writes the file. Bringing a file
in is `arrival.py`.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from holdfast.domain.digest import identity
from holdfast.domain.journal import Row, check, genesis
from holdfast.domain.run import FINISHED
from holdfast.errors import (
    ArchiveInvalid,
    Conflict,
    IntegrityBroken,
    Invalid,
    RunNotFound,
    StoreReadOnly,
)
from holdfast.ids import random_id
from holdfast.runtime import archive
from holdfast.runtime.archive import Packer, Ref, Request, Wait
from holdfast.runtime.claims import holder_of, refuse_held, refuse_sealed, run_fact
from holdfast.store.blobs import sync_folder, translated
from holdfast.store.contract import Hold, LeaseRow, Reading, RunRow, Writing

if TYPE_CHECKING:
    from holdfast.runtime import Runtime

PAGE = 500
SUFFIX = ".holdfast.zip"


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that holds a run."""

    path: str
    run_id: str
    entries: int
    blobs: int
    bytes: int
    digest: str  # SHA-256 of the file
    moved: bool
    children: tuple[str, ...]


class Standing(NamedTuple):
    """A run at one moment. Its journal up to the head never changes, so it is read later, page by page."""

    run: RunRow
    lease: LeaseRow
    waits: list[Wait]
    requests: list[Request]


def export_run(runtime: Runtime, run_id: str, path: Path, *, move: bool, force: bool = False) -> Exported:
    """Write a run and its children into one file. With `move` it cannot go on here any more.

    Raises RunHeld (of a move), RunSealed, IntegrityBroken when its records are not what was stored, Conflict when
    there is another file of that name.
    """
    root = runtime.row(run_id)
    target = _target(root, path)
    _refuse_to_replace(runtime, root, target, force)
    temporary = target.with_name(f".{random_id()}.tmp")
    try:
        with temporary.open("xb") as file:  # before the run is sealed: a folder that cannot be written stops it here
            if move:
                _seal(runtime, root.id)
            found = _family_standing(runtime, root.id)
            entries, blobs = _write(runtime, file, found, move)
            file.flush()
            os.fsync(file.fileno())
        told = _told(temporary, target, found, entries, blobs, move)
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        raise translated(error, str(target.parent)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return told


def _told(written: Path, target: Path, found: list[Standing], entries: int, blobs: int, move: bool) -> Exported:
    digest, size = sha256(), 0
    with written.open("rb") as file:
        while piece := file.read(archive.PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    root, *children = (one.run.id for one in found)
    return Exported(str(target), root, entries, blobs, size, digest.hexdigest(), move, tuple(children))


# -- where it goes -----------------------------------------------------------------------------------


def _target(run: RunRow, path: Path) -> Path:
    """The file: the one named, or one of a telling name in the folder that was named."""
    try:
        return path.absolute() / file_name(run) if path.is_dir() else path.absolute()
    except (OSError, ValueError) as error:
        raise Invalid(detail=f"{str(path)!r} cannot be a file's name: {error}; choose another") from error


def file_name(run: RunRow) -> str:
    """`<flow>-<run>.holdfast.zip`, safe on every file system."""
    flow = run.flow.rpartition(":")[2]
    kept = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in flow)[:60]
    return f"{kept.lstrip('.') or 'run'}-{run.id}{SUFFIX}"


def _refuse_to_replace(runtime: Runtime, run: RunRow, target: Path, force: bool) -> None:
    """Only an earlier export of this run as it is now is replaced unasked. Raises Conflict."""
    try:
        found = target.lstat()
    except FileNotFoundError:
        if target.parent.is_dir():
            return
        raise Invalid(detail=f"there is no folder {target.parent}; make it, or name another") from None
    except (OSError, ValueError) as error:
        raise StoreReadOnly(str(target), getattr(error, "strerror", None) or str(error)) from error
    if not stat.S_ISREG(found.st_mode):
        raise Conflict(detail=f"{target} is there and no plain file; name another one")
    if force or _is_ours(runtime, run, target):
        return
    raise Conflict(detail=f"{target} is there already; name another file, or replace it with force=True (--force)")


def _is_ours(runtime: Runtime, run: RunRow, target: Path) -> bool:
    lease = runtime.store.read(lambda look: look.lease_of(run.id))
    try:
        with archive.opened(target) as there:
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


def _seal(runtime: Runtime, run_id: str) -> None:
    """Nobody continues the run or its children here from now on. What could not be written whole is not sealed."""
    for one in _family_standing(runtime, run_id):
        _refuse_broken(runtime, one)
        for name in {name for _, name in _refs(runtime, one)}:
            deque(runtime.blobs.pieces(name), maxlen=0)
    runtime.store.write(lambda tx: _seal_all(runtime, tx, run_id))


def _seal_all(runtime: Runtime, tx: Writing, run_id: str) -> None:
    family = _family(tx, run_id)
    if family[0].parent:
        raise Invalid(detail=f"run {run_id} is a child; it moves with its parent: export {family[0].parent} --move")
    for run in family:
        if run.seal != "moved":  # else an earlier export was stopped before its file was there
            _seal_one(runtime, tx, run)


def _seal_one(runtime: Runtime, tx: Writing, run: RunRow) -> None:
    refuse_sealed(run)
    lease = _lease(tx, run)
    refuse_held(runtime, tx, run.id, lease)
    tx.take_lease(lease, None)
    if lease.holder and lease.holder != runtime.process.id:
        tx.forget_process(lease.holder)
    if run.status not in FINISHED:  # the end of a finished one stays its last entry
        hold = Hold(run.key, run.id, lease.key, lease.epoch + 1, lease.head, lease.hash)
        facts, at = {"by": runtime.actor}, runtime.clock.now()
        tx.append(hold, [run_fact("moved", facts, epoch=hold.epoch, at=at, trace_id=run.trace_id)])
    tx.seal_run(run.key, "moved", "crashed" if run.status == "running" else run.status)


def _lease(look: Reading, run: RunRow) -> LeaseRow:
    lease = look.lease_of(run.id)
    if lease is None:
        raise IntegrityBroken(f"run {run.id}", "its lease row is missing")
    return lease


# -- writing -----------------------------------------------------------------------------------------


def _family_standing(runtime: Runtime, run_id: str) -> list[Standing]:
    """All of the family at one moment."""
    return runtime.store.read(lambda look: [_standing(runtime, look, run) for run in _family(look, run_id)])


def _standing(runtime: Runtime, look: Reading, run: RunRow) -> Standing:
    lease = _lease(look, run)
    if run.status == "running" and not holder_of(runtime, look, run.id, lease):
        run = run._replace(status="crashed")  # only here can it be told
    waits = [Wait.of(row) for row in look.interrupts_of(run.key)]
    return Standing(run, lease, waits, look.requests_of(run.key))


def _write(runtime: Runtime, file: BinaryIO, found: list[Standing], move: bool) -> tuple[int, int]:
    """All members, each checked against what was stored while it is written. How many entries and blobs."""
    blobs: set[str] = set()
    with Packer(file) as packer:
        for one in found:
            blobs |= _write_run(runtime, packer, one)
        for name in sorted(blobs):
            packer.add(f"blobs/{name}", runtime.blobs.pieces(name))
        packer.seal(
            "move" if move else "copy",
            [archive.packed(one.run, one.lease.epoch, one.lease.head, one.lease.hash) for one in found],
        )
    return sum(one.lease.head for one in found), len(blobs)


def _write_run(runtime: Runtime, packer: Packer, one: Standing) -> set[str]:
    run, refs = one.run, _refs(runtime, one)
    _refuse_broken(runtime, one)
    packer.add(archive.part(run.id, "journal"), map(archive.line_of_row, _rows(runtime, one)))
    packer.add(archive.part(run.id, "interrupts"), archive.lines(one.waits))
    packer.add(archive.part(run.id, "requests"), archive.lines(one.requests))
    packer.add(archive.part(run.id, "refs"), archive.lines(refs))
    return {name for _, name in refs}


def _refs(runtime: Runtime, one: Standing) -> list[Ref]:
    return runtime.store.read(lambda look: look.blob_refs_upto(one.run.key, one.lease.head))


def _refuse_broken(runtime: Runtime, one: Standing) -> None:
    """Raises IntegrityBroken, naming the first record that is not what was stored."""
    run, lease = one.run, one.lease
    if identity(run.inputs.encode()) != run.inputs_digest:
        raise IntegrityBroken(f"run {run.id}", "its inputs were changed")
    start = genesis(run.id, run.flow, run.task, run.inputs_digest)
    broken = check(run.id, start, _rows(runtime, one), lease.head, lease.hash)
    if broken is not None:
        raise broken.as_error()


def _rows(runtime: Runtime, one: Standing) -> Iterator[Row]:
    """The journal up to the head, a page at a time: no read holds the store up."""
    after = 0

    def look(reading: Reading) -> list[Row]:
        return reading.journal_of(one.run.key, after, min(PAGE, one.lease.head - after))

    while after < one.lease.head and (page := runtime.store.read(look)):
        yield from page
        after = page[-1].seq
