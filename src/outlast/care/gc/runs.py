"""Removing runs in short transactions, so that a crash between any two leaves a sound store.

1. *Bury.* One transaction puts a tombstone in the place of each run: its row, lease and waits are gone, its id
   answers `run_removed`, and its key is never given to another run. Killed after it: the journal is left, named by a
   tombstone that says so; `verify` knows, and the next gc goes on at 2.
2. *Folders.* The mirror and the work files of the run go. Killed half-way: the next gc removes the rest.
3. *Slices.* The journal and its references to blobs go, a few thousand rows at a time. Killed between two: as after 1,
   with fewer rows. The last slice marks the tombstone as swept in the same transaction: there is nothing left.

A run whose waits do not fit in one transaction loses them before 1: nothing reads the waits of a finished run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from outlast import failpoints
from outlast.care.gc.rule import COPIES
from outlast.runs.holder import holder_of
from outlast.runs.run import FINISHED
from outlast.store.contract import KeptOutcome, Kin, Reading, Slice, Weight, Writing
from outlast.values.codec import decode, digest

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home

SLICE_ROWS = 2000  # of one transaction; with the bytes, this keeps it well under 50 ms
SLICE_BYTES = 4 << 20

Progress = Callable[[int, int], None]  # runs removed so far, and in all


def remove_runs(
    caller: Caller, runs: Sequence[Kin], weights: Mapping[int, Weight], batch: int, progress: Progress
) -> tuple[set[str], list[str]]:
    """Remove runs in this order. Gives the ids that went, and what could not be removed of their folders."""
    going, gone, troubles = {run.id for run in runs}, set[str](), list[str]()
    for some in _batches(runs, weights, batch):
        for run in some:
            _trim_waits(caller, run, weights[run.key].waits)
        buried = caller.home.store.write(partial(_bury, caller=caller, runs=some, going=going))
        gone |= {run_id for _, run_id in buried}
        troubles += finish(caller.home, buried)
        progress(len(gone), len(runs))
    return gone, troubles


def _batches(runs: Iterable[Kin], weights: Mapping[int, Weight], most: int) -> Iterator[list[Kin]]:
    """Runs that are buried together: at most so many, and no more rows and bytes than a transaction may have."""
    some: list[Kin] = []
    rows = size = 0
    for run in runs:
        weight = weights[run.key]
        if some and (len(some) >= most or rows + weight.waits > SLICE_ROWS or size + weight.row_bytes > SLICE_BYTES):
            yield some
            some, rows, size = [], 0, 0
        some.append(run)
        rows, size = rows + weight.waits, size + weight.row_bytes
    if some:
        yield some


def _trim_waits(caller: Caller, run: Kin, waits: int) -> None:
    for _ in range(waits // SLICE_ROWS):
        caller.home.store.write(lambda tx: tx.remove_waits(run.key, SLICE_ROWS) if _may_go(caller, tx, run) else None)


def _bury(tx: Writing, caller: Caller, runs: Sequence[Kin], going: set[str]) -> list[tuple[int, str]]:
    """Put tombstones in the places of runs that may still go, now that nobody can write but us."""
    buried = []
    for run in runs:
        if _may_go(caller, tx, run) and _family(tx, run) <= going:
            tx.bury(run.key, run.id, caller.home.clock.now(), caller.actor, _kept(tx, run))
            buried.append((run.key, run.id))
    return buried


def _kept(look: Reading, run: Kin) -> KeptOutcome:
    """What makes a named task happen once when its run is gone. A copy says nothing about what happened here."""
    row = look.run_by_id(run.id)
    assert row is not None
    declined = row.status == "aborted" and decode(row.error or "{}").get("type") == "declined"
    lived_here = row.named if row.seal not in COPIES else 0
    return KeptOutcome(lived_here, digest((row.result or "").encode()), '{"type":"declined"}' if declined else None)


def _family(look: Reading, run: Kin) -> set[str]:
    """The run's parent and children that are in the store."""
    parent = look.run_by_id(run.parent) if run.parent else None
    return {child.id for child in look.children_of(run.id)} | ({parent.id} if parent else set())


def _may_go(caller: Caller, look: Reading, run: Kin) -> bool:
    row, lease = look.run_by_id(run.id), look.lease_of(run.id)
    if row is None or lease is None or row.key != run.key:
        return False
    if look.unproven_row("runs", row.key) or look.unproven_row("chains", lease.key):  # it may not be over at all
        return False
    return (row.status in FINISHED or row.seal in COPIES) and not holder_of(caller, look, run.id, lease)


def finish(home: Home, buried: Sequence[tuple[int, str]]) -> list[str]:
    """Remove everything that is left of buried runs; what could not be removed, in words."""
    troubles = [remove_folder(folder) for _, run_id in buried for folder in folders_of(home, run_id)]
    if failpoints.armed:
        failpoints.armed("sweep.folders")
    for pieces in _together(_slices(home, [key for key, _ in buried])):
        home.store.write(partial(_remove_slices, pieces=pieces))
    return [trouble for trouble in troubles if trouble]


def _remove_slices(tx: Writing, pieces: Sequence[Slice]) -> None:
    for piece in pieces:
        tx.remove_slice(piece)


def _slices(home: Home, keys: Iterable[int]) -> Iterator[tuple[Slice, int, int]]:
    """The journals of runs, cut into slices, each with its rows and bytes."""
    for key in keys:
        after, whole = 0, False
        while not whole:
            sizes = home.store.read(partial(_entry_sizes, key=key, after=after))
            rows, size = _fitting([size for _, size in sizes])
            whole = rows == len(sizes) < SLICE_ROWS
            upto = sizes[rows - 1][0] if rows else after
            yield Slice(key, after, upto, whole), rows, size
            after = upto


def _entry_sizes(look: Reading, key: int, after: int) -> list[tuple[int, int]]:
    return look.entry_sizes(key, after, SLICE_ROWS)


def _fitting(sizes: Sequence[int]) -> tuple[int, int]:
    """How many entries fit in one transaction, and their bytes; one at least."""
    total = 0
    for rows, size in enumerate(sizes):
        if rows and total + size > SLICE_BYTES:
            return rows, total
        total += size
    return len(sizes), total


def _together(slices: Iterable[tuple[Slice, int, int]]) -> Iterator[list[Slice]]:
    """Small slices of several runs share a transaction."""
    some: list[Slice] = []
    rows = size = 0
    for piece, more_rows, more_bytes in slices:
        if some and (rows + more_rows > SLICE_ROWS or size + more_bytes > SLICE_BYTES):
            yield some
            some, rows, size = [], 0, 0
        some.append(piece)
        rows, size = rows + more_rows, size + more_bytes
    if some:
        yield some


# -- folders -----------------------------------------------------------------------------------------


def folders_of(home: Home, run_id: str) -> list[Path]:
    """What a run has on disk besides the database: its mirror for people, and its work files."""
    if run_id != Path(run_id).name or run_id in ("", ".", ".."):  # an id from elsewhere must not lead out of here
        return []
    mirror = home.path if home.tenant == "default" else tenant_folder(home)
    return [mirror / "runs" / run_id, tenant_folder(home) / "work" / run_id]


def tenant_folder(home: Home) -> Path:
    return home.path / home.tenant


def remove_folder(path: Path) -> str:
    """Remove a folder, or a file or link in its place but not what it leads to; why not, in words, if it cannot be."""
    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            with suppress(FileNotFoundError):
                shutil.rmtree(path)
    except OSError as error:
        return f"{path} could not be removed: {error.strerror or error}"
    return ""
