"""Putting files in place, all or none: everything is staged and synced first, then renamed, one by one.

What cannot be staged (a full disk, a folder that cannot be written) shows before any file is touched. A crash between
two renames leaves some files in place and the rest as they were; placing again clears up and does the rest. Files are
staged in a folder of the root that git does not see, those of another file system in one of theirs. No link is followed
on the way. What should be where, and whether it may, is decided by the caller.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from outlast import failpoints
from outlast.errors import DiskFull, NotApplicable
from outlast.files.bound import sight
from outlast.handoffs.handoff import ABSENT, Bound
from outlast.values.digest import identity
from outlast.values.frozen import NamedTuple

MODES = ("file", "exec", "link", "absent")  # what a file can be made
STAGING = ".outlast-apply"


class Put(NamedTuple):
    """One file as it shall be, and what was found in its place when that was decided."""

    path: str  # from the root, without a link in it
    mode: str  # one of MODES
    content: bytes = b""  # of a link: its target
    found: Bound = ABSENT


def place(root: Path, puts: Sequence[Put], anchor: str) -> None:
    """Put every file in its place, durably. Raises NotApplicable or DiskFull, having touched nothing.

    Should a file change or the disk fail in the middle, the error says how far it got.
    """
    with _alone(root, anchor):
        depths = {put.path: _depth(root, put.path) for put in puts}
        _clear(root, depths)
        try:
            _stage(root, puts, depths, anchor)
            _place_all(root, puts, depths, anchor)
        finally:
            _clear(root, depths)


def _place_all(root: Path, puts: Sequence[Put], depths: Mapping[str, int], anchor: str) -> None:
    order = sorted(puts, key=lambda put: put.mode != "absent")  # a file that goes may be where a folder has to be
    for done, put in enumerate(order):
        state = f"{done} of {len(order)} files are in place, applying again does the rest"
        with _named(root, put.path, anchor, state):
            _place(root, put, depths[put.path])
        _reached("apply.written")


def _reached(point: str) -> None:
    if failpoints.armed:
        failpoints.armed(point)


@contextmanager
def _alone(root: Path, anchor: str) -> Iterator[None]:
    """Nobody else places files below this root meanwhile. The lock goes with the process that holds it."""
    with _named(root, str(root), anchor, "nothing was touched"):
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _named(root, str(root), anchor, "nothing was touched"):
            free = _locked(handle)
        if not free:
            raise NotApplicable(anchor, f"another process is applying in {str(root)!r} right now, wait for it")
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _named(root: Path, path: str, anchor: str, state: str) -> Iterator[None]:
    """What the file system refuses, said of the file."""
    try:
        yield
    except _Edited:
        raise NotApplicable(anchor, f"{path!r} changed just now; {state}") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(str(root)) from error
        raise NotApplicable(anchor, f"{path!r}: {error.strerror or error}; {state}") from error


class _Edited(Exception):
    """A file is no longer what it was when it was decided what to do with it."""


# -- staging -----------------------------------------------------------------------------------------


def _stage(root: Path, puts: Sequence[Put], depths: Mapping[str, int], anchor: str) -> None:
    """Stage the content of every file, synced, so deep on the way to its place."""
    for put in puts:
        with _named(root, put.path, anchor, "nothing was touched"):
            _stage_one(root, put, depths[put.path])
        _reached("apply.staged")


def _staged_name(path: str) -> str:
    return identity(os.fsencode(path))


def _staging(path: str, depth: int) -> list[str]:
    """The folder that a file is staged in."""
    return [*_above(path)[:depth], STAGING]


def _above(path: str) -> list[str]:
    return path.split("/")[:-1]


def _depth(root: Path, path: str) -> int:
    """How deep on the way to a file its file system begins: from there it can be renamed into its place."""
    at, device, found = str(root), os.stat(root).st_dev, 0
    for depth, name in enumerate(_above(path), 1):
        at = f"{at}/{name}"
        if not is_folder(at):
            break
        if (here := os.lstat(at).st_dev) != device:
            device, found = here, depth
    return found


def is_folder(path: str) -> bool:
    """Whether there is a folder, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _stage_one(root: Path, put: Put, depth: int) -> None:
    if put.mode == "absent":
        return
    with folder_at(root, _staging(put.path, depth), make=True) as folder:
        _hide(folder)
        if put.mode == "link":
            os.symlink(os.fsdecode(put.content), _staged_name(put.path), dir_fd=folder)
        else:
            _write(folder, _staged_name(put.path), put, root / put.path)
        os.fsync(folder)


def _hide(folder: int) -> None:
    """Git sees nothing of what is in there."""
    with suppress(FileExistsError):
        handle = os.open(".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
        os.write(handle, b"*\n")
        os.close(handle)


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


def _clear(root: Path, depths: Mapping[str, int]) -> None:
    """Remove what was staged, by whichever try; `.gitignore` last, and what cannot be removed stays ignored."""
    for names in sorted({(STAGING,), *(tuple(_staging(path, depth)) for path, depth in depths.items())}):
        with suppress(OSError), folder_at(root, names[:-1]) as above:
            with folder_at(root, names) as folder:
                for name in sorted(os.listdir(folder), key=lambda name: name == ".gitignore"):
                    os.unlink(name, dir_fd=folder)
            os.rmdir(STAGING, dir_fd=above)


# -- in place ----------------------------------------------------------------------------------------


def _place(root: Path, put: Put, depth: int) -> None:
    above, name = _above(put.path), put.path.split("/")[-1]
    _expect(root, put)
    if put.mode == "absent":
        with folder_at(root, above) as folder:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        return
    with folder_at(root, _staging(put.path, depth)) as staged, folder_at(root, above, make=True) as folder:
        os.replace(_staged_name(put.path), name, src_dir_fd=staged, dst_dir_fd=folder)
        os.fsync(folder)


def _expect(root: Path, put: Put) -> None:
    """The file is still what was found. Empty folders make room for a file."""
    if put.found.why == "folder":
        for folder, _, _ in os.walk(root / put.path, topdown=False):
            os.rmdir(folder)
    elif sight(root, put.path).bound != put.found:
        raise _Edited


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
