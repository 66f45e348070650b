"""Opening a file by its name, when somebody may have put something else there: only a plain file, and never a wait.

A pipe that nobody writes to would keep its reader for ever, a device may do anything, and a link leads elsewhere.
Every file of a home that is read by its name is opened here.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import BufferedReader

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


class NotPlain(OSError):
    """What has the name is no plain file; `strerror` says what it is."""


def open_plain(path: str | os.PathLike[str]) -> BufferedReader:
    """A plain file for reading, at once. Raises NotPlain for anything else, and OSError as `open` does."""
    handle = plain_handle(path)
    try:
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def plain_handle(path: str | os.PathLike[str]) -> int:
    """The same as a number."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV) and (kind := kind_of(path)):
            raise _not_plain(kind, path) from error
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise _not_plain(_KINDS.get(stat.S_IFMT(mode), "no file"), path)
    return handle


def read_plain(path: str | os.PathLike[str], most: int = -1) -> bytes:
    """The content of a plain file, or its first `most` bytes."""
    with open_plain(path) as file:
        return file.read(most)


def kind_of(path: str | os.PathLike[str]) -> str:
    """What has this name, when it is no plain file: "a pipe", "a link"; "" for a plain file, and when nothing has."""
    try:
        return _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), "")
    except OSError:
        return ""


def _not_plain(kind: str, path: str | os.PathLike[str]) -> NotPlain:
    return NotPlain(errno.EINVAL, f"it is {kind}, no plain file", os.fspath(path))
