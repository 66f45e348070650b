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

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from outlast import failpoints
from outlast.errors import DiskFull, NotApplicable
from outlast.files.changes import never
from outlast.files.snapshot import ABSENT, Bound, can_be_a_path, sight
from outlast.values.codec import digest, encode, identity, path_of, text

MODES = ("file", "exec", "link", "absent")  # what a file can be made
STAGING = ".outlast-apply"
NOTE = "undo"  # the file in it by which what was placed is undone


@contextmanager
def alone(root: Path, anchor: str) -> Iterator[None]:
    """Nobody else places files below this root meanwhile. The lock goes with the process that holds it."""
    with named(root, str(root), anchor, "nothing was touched"):
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with named(root, str(root), anchor, "nothing was touched"):
            free = _locked(handle)
        if not free:
            raise NotApplicable(anchor, f"another process is applying in {str(root)!r} right now, wait for it")
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Edited(Exception):
    """A file is no longer what it was when it was decided what to do with it."""


@contextmanager
def named(root: Path, path: str, anchor: str, state: str) -> Iterator[None]:
    """What the file system refuses, said of the file."""
    try:
        yield
    except Edited:
        raise NotApplicable(anchor, f"{path!r} changed just now; {state}") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(str(root)) from error
        raise NotApplicable(anchor, f"{path!r}: {error.strerror or error}; {state}") from error


@contextmanager
def folder_at(root: Path, names: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """The folder, reached without following a link, and made where it is missing if that is asked for."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700 if name == STAGING else 0o777, dir_fd=handle)
                    os.fsync(handle)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def is_folder(path: str) -> bool:
    """Whether there is a folder, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def remove_empty(root: Path, path: str) -> None:
    """Remove a folder in which there is nothing but such folders. Raises OSError when there is more, or no folder."""
    *above, name = path.split("/")
    with folder_at(root, above) as folder:
        for _, inner, _, handle in os.fwalk(name, topdown=False, dir_fd=folder):
            for each in inner:
                os.rmdir(each, dir_fd=handle)
        os.rmdir(name, dir_fd=folder)


def staged_name(path: str) -> str:
    return identity(os.fsencode(path))


def staging(path: str, depth: int) -> list[str]:
    """The folder that a file is staged in."""
    return [*above_of(path)[:depth], STAGING]


def above_of(path: str) -> list[str]:
    return path.split("/")[:-1]


def hide(folder: int) -> None:
    """Git sees nothing of what is in there."""
    with suppress(FileExistsError):
        handle = os.open(".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
        os.write(handle, b"*\n")
        os.close(handle)


def write_new(folder: int, name: str, content: bytes, bits: int = 0o600) -> None:
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(handle, bits)
        os.fsync(handle)


def clear(root: Path, depths: Mapping[str, int]) -> None:
    """Remove what was staged, by whichever try; the note first, `.gitignore` last, and what stays is ignored."""
    for names in sorted({(STAGING,), *(tuple(staging(path, depth)) for path, depth in depths.items())}):
        with suppress(OSError), folder_at(root, names[:-1]) as above:
            with folder_at(root, names) as folder:
                for name in sorted(os.listdir(folder), key=lambda name: (name != NOTE, name == ".gitignore")):
                    os.unlink(name, dir_fd=folder)
                    if name == NOTE:  # from here on there is nothing to undo
                        os.fsync(folder)
            os.rmdir(STAGING, dir_fd=above)


# -- putting in place --------------------------------------------------------------------------------


_NOTE_BYTES = 64 << 20


class Put(msgspec.Struct, frozen=True):
    """One file as it shall be, and what was found in its place when that was decided."""

    path: str  # from the root, without a link in it
    mode: str  # file, exec, link, absent
    content: bytes = b""  # of a link: its target
    found: Bound = ABSENT


class UndoNote(msgspec.Struct, frozen=True, array_like=True):
    """One file that is put in place: by what it is known then, and whether something gave way to it."""

    path: str  # as bindings write it
    depth: int
    mode: str
    digest: str
    gave_way: bool


class UndoNotes(msgspec.Struct, frozen=True, array_like=True):
    """All that is needed to undo it."""

    of: str
    files: list[UndoNote]


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
            _note(root, [_noted(put, depths[put.path]) for put in puts], anchor, of)
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
            failpoints.reached("apply.written")
    except BaseException:  # Ctrl-C too: half of it is nothing that anybody asked for
        _undo(root, done, anchor)  # where that is not let end, the note stays for the next call
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
        failpoints.reached("apply.staged")


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
    if put.found.why == "folder":
        remove_empty(root, put.path)
    elif sight(root, put.path).bound != put.found:
        raise Edited
    if put.mode == "absent":
        with folder_at(root, above) as folder:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        return
    with folder_at(root, staging(put.path, depth)) as staged, folder_at(root, above, make=True) as folder:
        os.replace(staged_name(put.path), name, src_dir_fd=staged, dst_dir_fd=folder)
        os.fsync(folder)


# -- undoing: at once after an error, by a note that was left after a crash --------------------------


def _note(root: Path, files: Sequence[UndoNote], anchor: str, of: str) -> None:
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
    failpoints.reached("apply.noted")


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
        _undo(root, note.files, anchor)
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


def _undo(root: Path, files: Sequence[UndoNote], anchor: str) -> None:
    """Each file as it was, the last one first. Raises NotApplicable naming what could not be put back."""
    stuck = []
    for each in reversed(files):
        try:
            _undo_one(root, each)
        except OSError as error:
            stuck.append(f"{path_of(each.path)!r}: {error.strerror}")
        failpoints.reached("apply.undone")
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
