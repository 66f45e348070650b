"""Putting files in place, all or none: everything is staged and synced first, then renamed, one by one.

The order of writes: (1) the new content of every file, staged; (2) what gives way, kept beside it; (3) a note of all
that, by which it can be undone; (4) the renames; (5) the note and what was staged go. What cannot be staged (a full
disk, a folder that cannot be written) shows before any file is touched. An error or Ctrl-C among the renames undoes
those that were done. A crash up to (3) has touched nothing; one later is undone, by the note, by the next call for the
same work (`undo_interrupted`), which then begins anew: nothing is merged into what was merged already. What somebody
edited since is left alone.

Files are staged in a folder of the root that git does not see, those of another file system in one of theirs. No link
is followed on the way. What should be where, and whether it may, is decided by the caller.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from outlast.files.changes import text
from outlast.files.snapshot import sight
from outlast.files.staging import (
    Edited,
    above_of,
    alone,
    clear,
    folder_at,
    hide,
    is_folder,
    named,
    reached,
    remove_empty,
    staged_name,
    staging,
)
from outlast.files.undo import UndoNote, note, undo
from outlast.handoffs.handoff import ABSENT, Bound
from outlast.values.digest import digest
from outlast.values.frozen import NamedTuple


class Put(NamedTuple):
    """One file as it shall be, and what was found in its place when that was decided."""

    path: str  # from the root, without a link in it
    mode: str  # file, exec, link, absent
    content: bytes = b""  # of a link: its target
    found: Bound = ABSENT


def place(root: Path, puts: Sequence[Put], anchor: str, of: str = "") -> None:
    """Put every file in its place, durably. Raises NotApplicable or DiskFull, having touched nothing.

    Should a file change or the disk fail in the middle, what was placed is undone. `of`: whose work it is; only a call
    for the same undoes what a crash left.
    """
    puts = sorted(puts, key=lambda put: put.mode != "absent")  # a file that goes may be where a folder has to be
    with alone(root, anchor):
        depths = {put.path: _depth(root, put.path) for put in puts}
        clear(root, depths)
        try:
            _stage(root, puts, depths, anchor)
            note(root, [_noted(put, depths[put.path]) for put in puts], anchor, of)
        except BaseException:
            clear(root, depths)
            raise
        _place_all(root, puts, depths, anchor)
        clear(root, depths)


def _place_all(root: Path, puts: Sequence[Put], depths: Mapping[str, int], anchor: str) -> None:
    done: list[UndoNote] = []
    try:
        for put in puts:
            done.append(_noted(put, depths[put.path]))
            with named(root, put.path, anchor, "all else is as it was"):
                _place(root, put, depths[put.path])
            reached("apply.written")
    except BaseException:  # Ctrl-C too: half of it is nothing that anybody asked for
        undo(root, done, anchor)  # where that is not let end, the note stays for the next call
        clear(root, depths)
        raise


def _noted(put: Put, depth: int) -> UndoNote:
    found = put.found.mode in ("file", "exec", "link")
    return UndoNote(text(put.path), depth, put.mode, "" if put.mode == "absent" else digest(put.content), found)


def _stage(root: Path, puts: Sequence[Put], depths: Mapping[str, int], anchor: str) -> None:
    """Stage the content of every file, synced, so deep on the way to its place."""
    for put in puts:
        with named(root, put.path, anchor, "nothing was touched"):
            _stage_one(root, put, depths[put.path])
        reached("apply.staged")


def _stage_one(root: Path, put: Put, depth: int) -> None:
    if put.mode == "absent":
        return
    with folder_at(root, staging(put.path, depth), make=True) as folder:
        hide(folder)
        if put.mode == "link":
            os.symlink(os.fsdecode(put.content), staged_name(put.path), dir_fd=folder)
        else:
            _write(folder, staged_name(put.path), put, root / put.path)
        os.fsync(folder)


def _depth(root: Path, path: str) -> int:
    """How deep on the way to a file its file system begins: from there it can be renamed into its place."""
    at, device, found = str(root), os.stat(root).st_dev, 0
    for depth, name in enumerate(above_of(path), 1):
        at = f"{at}/{name}"
        if not is_folder(at):
            break
        if (here := os.lstat(at).st_dev) != device:
            device, found = here, depth
    return found


def _write(folder: int, name: str, put: Put, place: Path) -> None:
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(put.content)
        file.flush()
        os.fchmod(handle, _bits(put, stat.S_IMODE(os.fstat(handle).st_mode), place))
        os.fsync(handle)


def _bits(put: Put, fresh: int, place: Path) -> int:
    """The permissions of what gives way, else those of a new file; who may read an exec file may run it."""
    bits = stat.S_IMODE(os.lstat(place).st_mode) & 0o777 if put.found.mode in ("file", "exec") else fresh
    return bits | (bits & 0o444) >> 2 if put.mode == "exec" else bits & ~0o111


def _place(root: Path, put: Put, depth: int) -> None:
    above, name = above_of(put.path), put.path.split("/")[-1]
    _expect(root, put)
    if put.mode == "absent":
        with folder_at(root, above) as folder:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        return
    with folder_at(root, staging(put.path, depth)) as staged, folder_at(root, above, make=True) as folder:
        os.replace(staged_name(put.path), name, src_dir_fd=staged, dst_dir_fd=folder)
        os.fsync(folder)


def _expect(root: Path, put: Put) -> None:
    """The file is still what was found. Empty folders make room for a file."""
    if put.found.why == "folder":
        remove_empty(root, put.path)
    elif sight(root, put.path).bound != put.found:
        raise Edited
