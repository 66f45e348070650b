"""Putting files in place, all or none: everything is staged and synced first, then renamed, one by one.

What cannot be staged (a full disk, a folder that cannot be written) shows before any file is touched. A crash between
two renames leaves some files in place and the rest as they were; placing again clears up and does the rest. No link is
followed on the way. What should be where, and whether it may, is decided by the caller.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from holdfast import failpoints
from holdfast.domain.digest import identity
from holdfast.domain.handoff import ABSENT, Bound
from holdfast.errors import DiskFull, NotApplicable
from holdfast.runtime.bound_files import sight

MODES = ("file", "exec", "link", "absent")  # what a file can be made


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
        for put in puts:
            _clear(root, put.path)
        depths = _stage(root, puts, anchor)
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


def _stage(root: Path, puts: Sequence[Put], anchor: str) -> dict[str, int]:
    """Stage the content of every file, synced, and give how deep on the way to its place each one is."""
    depths: dict[str, int] = {}
    try:
        for put in puts:
            depths[put.path] = _depth(root, put.path)
            with _named(root, put.path, anchor, "nothing was touched"):
                _stage_one(root, put, depths[put.path])
            _reached("apply.staged")
    except Exception:
        for put in puts:
            _clear(root, put.path)
        raise
    return depths


def _staged_name(path: str) -> str:
    """The same each time, so that the next try clears up."""
    return f".holdfast-{identity(os.fsencode(path))}"


def _above(path: str) -> list[str]:
    return path.split("/")[:-1]


def _depth(root: Path, path: str) -> int:
    """How many of the folders on the way to a file are there, and are folders."""
    at = str(root)
    for depth, name in enumerate(_above(path)):
        at = f"{at}/{name}"
        if not is_folder(at):
            return depth
    return len(_above(path))


def is_folder(path: str) -> bool:
    """Whether there is a folder, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _stage_one(root: Path, put: Put, depth: int) -> None:
    if put.mode == "absent":
        return
    with _folder(root, _above(put.path)[:depth]) as folder:
        if put.mode == "link":
            os.symlink(os.fsdecode(put.content), _staged_name(put.path), dir_fd=folder)
        else:
            _write(folder, _staged_name(put.path), put, root / put.path)
        os.fsync(folder)


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


def _clear(root: Path, path: str) -> None:
    """Remove what an earlier try has staged, in whichever folder on the way."""
    for depth in range(_depth(root, path) + 1):
        with suppress(FileNotFoundError), _folder(root, _above(path)[:depth]) as folder:
            os.unlink(_staged_name(path), dir_fd=folder)


# -- in place ----------------------------------------------------------------------------------------


def _place(root: Path, put: Put, depth: int) -> None:
    above, name = _above(put.path), put.path.split("/")[-1]
    _expect(root, put)
    if put.mode == "absent":
        with _folder(root, above) as folder:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        return
    with _folder(root, above[:depth]) as staged, _folder(root, above, make=True) as folder:
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
def _folder(root: Path, names: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """The folder, reached without following a link, and made where it is missing if that is asked for."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=handle)
                    os.fsync(handle)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)
