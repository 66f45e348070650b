"""Folders and files of a home: for their owner alone, whatever the umask, or for the group that a home is shared with.

Everything that a home holds is made here. What is made is as private as the folder it is made in: 0700 and 0600, in a
folder of 0770 (`shared: group`) 0770 and 0660 with that folder's group, in a folder that another user owns as open as
that one made it. Root gives what it makes there to that user. What is there already is left as it is:
`home/settings.py` closes what stands open.

Every file of a home that is read by its name is opened here too, when somebody may have put something else there: only
a plain file, and never a wait. A pipe that nobody writes to would keep its reader for ever, a device may do anything,
and a link leads elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from io import BufferedReader

FOLDER, FILE = 0o700, 0o600
SHARED_FOLDER, SHARED_FILE = 0o2770, 0o660  # what is made in such a folder has its group
_EVERYBODY = 0o777

Path = str | os.PathLike[str]


class Modes(NamedTuple):
    """How open what is made in a folder is, and whose it is if not ours."""

    folder: int = FOLDER
    file: int = FILE
    owner: tuple[int, int] | None = None


def make_folder(path: Path) -> None:
    """A folder of a home, and those above it that are missing. Raises OSError."""
    path = os.fspath(path)
    above = os.path.dirname(path)
    try:
        os.mkdir(path, FOLDER)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return
    except FileNotFoundError:
        if above == path:
            raise
        make_folder(above)
        make_folder(path)
        return
    modes = modes_in(above)
    if modes.owner is not None:
        os.chown(path, *modes.owner)
    with suppress(PermissionError):  # a file system without modes: `doctor` says what that leaves open
        os.chmod(path, modes.folder)


def make_home(path: Path) -> bool:
    """The folder of a home; whether it was made now. Those above it are the user's own, and made like any other.

    Raises OSError.
    """
    path = os.fspath(path)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    try:
        os.mkdir(path, FOLDER)
        with suppress(PermissionError):
            os.chmod(path, FOLDER)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return False
    return True


def open_file(path: Path, flags: int) -> int:
    """A descriptor of a file of a home, made if it is not there; an `opener` for `open`. Raises OSError."""
    made = flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        handle = os.open(path, made, FILE)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, FILE)
    try:
        _fit(handle, modes_in(os.path.dirname(os.fspath(path)) or "."))
    except OSError:
        os.close(handle)
        raise
    return handle


def own_file(path: Path, flags: int) -> int:
    """The same for a file that we write into somebody's folder, such as a bundle: for its owner alone."""
    handle = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, FILE)
    os.fchmod(handle, FILE)
    return handle


def write_file(path: Path, content: bytes) -> None:
    """Write a file of a home. Raises OSError."""
    with open(path, "wb", opener=open_file) as file:
        file.write(content)


def make_file(path: Path) -> None:
    """An empty file of a home, if there is none yet: a database takes its mode for what lies beside it too."""
    if not os.path.lexists(path):
        os.close(open_file(path, os.O_RDWR))


def _fit(handle: int, modes: Modes) -> None:
    if modes.owner is not None:
        os.fchown(handle, *modes.owner)
    with suppress(PermissionError):
        os.fchmod(handle, modes.file)


def modes_in(folder: Path) -> Modes:
    """How open things in this folder are. Raises OSError."""
    seen = os.stat(folder)
    bits, me = stat.S_IMODE(seen.st_mode), os.geteuid()
    if seen.st_uid == me:
        return Modes(SHARED_FOLDER, SHARED_FILE) if bits & _EVERYBODY == SHARED_FOLDER & _EVERYBODY else Modes()
    return Modes(bits & 0o2777 | FOLDER, bits & 0o666 | FILE, (seen.st_uid, seen.st_gid) if me == 0 else None)


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
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV) and (kind := kind_of(path)):
            raise _not_plain(kind, path) from error
        raise
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise _not_plain(_KINDS.get(stat.S_IFMT(mode), "no file"), path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


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
