"""What nobody needs any more beside runs: unreferenced blobs, the trash, files of writers and commands that ended."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from outlast import failpoints
from outlast.care.gc.rule import COPIES
from outlast.care.gc.runs import remove_folder, tenant_folder
from outlast.home.process import is_alive
from outlast.ledger.lease import Beat
from outlast.runs.run import FINISHED
from outlast.store.blobs.trash import BlobFile, Trash
from outlast.store.contract import Reading, Writing
from outlast.values.frozen import dataclass

if TYPE_CHECKING:
    from outlast.home.home import Runtime


@dataclass(frozen=True, slots=True)
class Litter:
    """What may go, and how much the blobs take up in all."""

    blobs: tuple[BlobFile, ...]  # to the trash
    trash: tuple[BlobFile, ...]  # in it now; the old ones go for good
    files: tuple[Path, ...]  # temporary files, work folders of runs that are over
    blob_bytes: int  # of all blobs in their places


@dataclass(frozen=True, slots=True)
class Cleared:
    """What went."""

    blobs: tuple[BlobFile, ...] = ()
    trash: tuple[BlobFile, ...] = ()
    restored: int = 0
    files: int = 0
    troubles: tuple[str, ...] = ()


def find_litter(runtime: Runtime, freed: Iterable[str] = ()) -> Litter:
    """Look for it. `freed` are blobs that will have no reference once the runs that go have gone."""
    trash, freed = Trash(runtime.blobs), {*freed, *runtime.store.read(_abandoned)}
    found, total = [], 0
    for first, files in trash.shelves():
        needed = runtime.store.read(partial(_referred, first=first)) - freed
        found += [file for file in files if file.old and file.name not in needed]
        total += sum(file.size_bytes for file in files)
    left = (*trash.temporaries(), *_work_folders(runtime))
    return Litter(tuple(found), tuple(trash.content()), left, total)


def drop_abandoned(runtime: Runtime) -> None:
    """Forget what killed attempts put into the workspace: nobody has seen it, and its content is free then."""

    def work(tx: Writing) -> None:
        tx.drop(tx.abandoned())

    if any(runtime.store.read(lambda look: look.abandoned())):
        runtime.store.write(work)


def _abandoned(look: Reading) -> set[str]:
    """The blobs that only such ones need."""
    found = look.abandoned_artifacts()
    keys = {key for key, _ in found}
    return {name for _, name in found if look.runs_of_blob(name) == {0} and set(look.artifacts_of_blob(name)) <= keys}


def _referred(look: Reading, first: str) -> set[str]:
    """The blobs that begin so and are referred to."""
    return look.blobs_between(first, first + "~")


def _work_folders(runtime: Runtime) -> list[Path]:
    """Work folders of runs that are finished or gone. A run is in the store before its folder is made."""
    try:
        with os.scandir(tenant_folder(runtime) / "work") as found:
            names = sorted(entry.name for entry in found)
    except FileNotFoundError:
        return []
    over = runtime.store.read(lambda look: [name for name in names if _is_over(look, name)])
    return [tenant_folder(runtime) / "work" / name for name in over]


def _is_over(look: Reading, run_id: str) -> bool:
    row = look.run_by_id(run_id)
    return row is None or row.status in FINISHED or row.seal in COPIES


def clear(runtime: Runtime, litter: Litter) -> Cleared:
    """Empty the trash of what has been there for its time, and fill it with what nobody needs now."""
    trash = Trash(runtime.blobs)

    def is_needed(name: str) -> bool:
        return bool(runtime.store.read(lambda look: look.runs_of_blob(name)))

    troubles = [_remove(path) for path in litter.files]
    silent = silent_owner(runtime, trash.grace_seconds)
    if silent:
        troubles.append(f"no blob was removed: {silent} holds a run and has been silent; it may yet go on")
        return Cleared(files=troubles.count(""), troubles=tuple(filter(None, troubles)))
    emptied = [blob for blob in litter.trash if trash.remove(blob, is_needed)]
    if emptied:
        runtime.store.write(lambda tx: tx.forget_stored([blob.name for blob in emptied]))
    restored = sum(is_needed(blob.name) for blob in litter.trash)
    thrown = [blob for blob in litter.blobs if trash.throw(blob.name, is_needed)]
    return Cleared(tuple(thrown), tuple(emptied), restored, troubles.count(""), tuple(filter(None, troubles)))


def _remove(path: Path) -> str:
    trouble = remove_folder(path) if path.is_dir() else _remove_file(path)
    if failpoints.armed:
        failpoints.armed("sweep.cleared")
    return trouble


def _remove_file(path: Path) -> str:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return f"{path} could not be removed: {error.strerror or error}"
    return ""


def silent_owner(runtime: Runtime, seconds: float) -> str:
    """An owner of a run that may live and has not been heard of for so long; empty when there is none.

    Between storing a blob and committing its reference a process may be stopped for hours. It sends no sign of life
    meanwhile, and what it relies on must not go.
    """
    now = runtime.clock.boot()
    for beat in runtime.store.read(lambda look: look.holders()):
        if now - beat.boot_us > seconds * 1_000_000 and may_live(runtime, beat):
            return str(beat.process)
    return ""


def may_live(runtime: Runtime, beat: Beat) -> bool:
    """Whether a process is not known to be dead. Nobody outlives a boot."""
    return beat.process.boot_id == runtime.process.boot_id and is_alive(beat.process, runtime.process) is not False
