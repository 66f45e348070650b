"""Undoing files that were put in place: at once after an error, by a note that was left after a crash.

What gives way is kept beside what is staged, under a second name, and a note of both is durable before any file is
touched. A file that is not what was placed there was edited since, and is left alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from outlast.errors import NotApplicable
from outlast.files.changes import path_of
from outlast.files.patterns import never
from outlast.files.snapshot import can_be_a_path, sight
from outlast.files.staging import (
    MODES,
    NOTE,
    STAGING,
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
    write_new,
)
from outlast.values.codec import encode
from outlast.values.frozen import NamedTuple

_NOTE_BYTES = 64 << 20


class UndoNote(NamedTuple):
    """One file that is put in place: by what it is known then, and whether something gave way to it."""

    path: str  # as bindings write it
    depth: int
    mode: str
    digest: str
    gave_way: bool


class UndoNotes(NamedTuple):
    """All that is needed to undo it."""

    of: str
    files: list[UndoNote]


def note(root: Path, files: Sequence[UndoNote], anchor: str, of: str) -> None:
    """Keep what gives way beside what is staged, then write down how to undo it: durable before anything is touched."""
    for each in files:
        with named(root, path_of(each.path), anchor, "nothing was touched"):
            _keep(root, path_of(each.path), each)
    content = encode(UndoNotes(of, [*files]))
    with named(root, STAGING, anchor, "nothing was touched"), folder_at(root, [STAGING], make=True) as folder:
        hide(folder)
        write_new(folder, f"{NOTE}.new", content)
        os.replace(f"{NOTE}.new", NOTE, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    reached("apply.noted")


def _kept_name(path: str) -> str:
    return f"{staged_name(path)}.was"


def _keep(root: Path, path: str, noted: UndoNote) -> None:
    """The very file that gives way, under a second name; a copy where a file system has no second names."""
    if not noted.gave_way:
        return
    *above, name = path.split("/")
    with folder_at(root, above) as folder, folder_at(root, staging(path, noted.depth), make=True) as staged:
        hide(staged)
        try:
            os.link(name, _kept_name(path), src_dir_fd=folder, dst_dir_fd=staged, follow_symlinks=False)
        except OSError:
            _copy(folder, name, staged, _kept_name(path))
        os.fsync(staged)


def _copy(folder: int, name: str, to: int, new: str) -> None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(name, dir_fd=folder), new, dir_fd=to)
        return
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        write_new(to, new, file.read(), stat.S_IMODE(found.st_mode) & 0o777)


def interrupted(root: Path, of: str) -> str:
    """That a call for this work was killed among its renames, in words; "" when none was."""
    note = _left(root, root)
    return "an apply of it was interrupted here: it is undone first" if note and note.of == of else ""


def undo_interrupted(root: Path, anchor: str, of: str, home: Path) -> str:
    """Undo what a call for this work had put in place when it was killed, and say so. Raises NotApplicable.

    The note lies where anybody may have put it: nothing of git's, nor below `home`, is touched by its word.
    """
    if not is_folder(f"{root}/{STAGING}"):
        return ""
    with alone(root, anchor):
        note = _left(root, home)
        if note is None or note.of != of:
            return ""
        undo(root, note.files, anchor)
        clear(root, {path_of(each.path): each.depth for each in note.files})
    return "an apply of it was interrupted here: it was undone first"


def _left(root: Path, home: Path) -> UndoNotes | None:
    """What a killed one noted; None when it had touched nothing, or it is nothing that we would have written."""
    try:
        with folder_at(root, [STAGING]) as folder:
            handle = os.open(NOTE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            with os.fdopen(handle, "rb") as file:
                note = msgspec.json.decode(file.read(_NOTE_BYTES), type=UndoNotes)
    except (OSError, ValueError):  # what cannot be decoded is a ValueError
        return None
    return note if all(_is_ours(root, each, home) for each in note.files) else None


def _is_ours(root: Path, noted: UndoNote, home: Path) -> bool:
    path = path_of(noted.path)
    parts = path.split("/")
    odd = not can_be_a_path(path) or {"", ".", ".."} & {*parts} or any(never(part.lower()) for part in parts)
    return noted.mode in MODES and not odd and (home == root or not (root / path).is_relative_to(home))


def undo(root: Path, files: Sequence[UndoNote], anchor: str) -> None:
    """Each file as it was, the last one first. Raises NotApplicable naming what could not be put back."""
    stuck = []
    for each in reversed(files):
        try:
            _undo_one(root, each)
        except OSError as error:
            stuck.append(f"{path_of(each.path)!r}: {error.strerror}")
        reached("apply.undone")
    if stuck:
        raise NotApplicable(anchor, f"these could not be put back as they were: {', '.join(stuck)}")


def _undo_one(root: Path, noted: UndoNote) -> None:
    path = path_of(noted.path)
    if noted.mode == "absent":  # a folder may have been made there, of which all files are undone by now
        with suppress(OSError):
            remove_empty(root, path)
    now = sight(root, path).bound
    if (now.mode, now.digest) != (noted.mode, noted.digest):  # it was not placed yet, or somebody edited it since
        return
    *above, name = path.split("/")
    with folder_at(root, staging(path, noted.depth)) as staged, folder_at(root, above, make=True) as folder:
        if noted.gave_way:
            os.replace(_kept_name(path), name, src_dir_fd=staged, dst_dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
        os.fsync(folder)
