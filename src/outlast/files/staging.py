"""The folder beside the files of a root in which they are staged, and how it is reached: without following a link.

Git does not see it. Files of another file system are staged in one of theirs, so that they can be renamed.
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
from outlast.values.digest import identity

MODES = ("file", "exec", "link", "absent")  # what a file can be made
STAGING = ".outlast-apply"
NOTE = "undo"  # the file in it by which what was placed is undone


def reached(point: str) -> None:
    if failpoints.armed:
        failpoints.armed(point)


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
    import fcntl

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
