"""The disk: what makes files and their names durable, its errors in our words, and which file system it is."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from outlast import errors

PIECE_BYTES = 1 << 20

FilesystemOf = Callable[[Path], str]
# SQLite's locks cannot be trusted over a network.
NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "ceph", "9p", "lustre", "glusterfs"),
        *("beegfs", "gpfs", "davfs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.glusterfs"),
        "fuse.davfs2",
    }
)

_TABLE = Path("/proc/self/mountinfo")
_OCTAL = r"\\([0-7]{3})"


def sync_file(path: Path) -> None:
    """Make a file's content durable; of a folder, the names in it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


sync_folder = sync_file


def write_whole(path: Path, pieces: Iterator[bytes]) -> Path:
    """Write a file by renaming: whoever looks finds all of it, or what was there before."""
    if path.is_dir():
        raise errors.ValueRefused(str(path), "it is a folder", "name a file in it")
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def translated(error: OSError, path: str, *, of_home: bool = False) -> Exception:
    """Our error for one of the disk's. `of_home`: of a file beside the store."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return errors.DiskFull(path)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        read_only = errors.HomeReadOnly if of_home else errors.StoreReadOnly
        return read_only(path, error.strerror or str(error))
    return errors.StoreFailed(path, str(error))


@contextmanager
def translating(place: Path) -> Iterator[None]:
    """Around what is done on the disk for a home's content: its errors in our words."""
    try:
        yield
    except OSError as error:
        raise translated(error, str(place), of_home=True) from error


def filesystem_of(path: Path, table: Path = _TABLE) -> str:
    """The type of the mounted file system that holds `path`; empty where the system does not tell."""
    try:
        lines = os.fsdecode(table.read_bytes()).split("\n")
    except OSError:
        return ""
    target = str(path.resolve())
    best, kind = "", ""
    for line in filter(None, lines):
        before, _, after = line.partition(" - ")
        mount = _unescaped(before.split(" ")[4])
        inside = mount == "/" or target == mount or target.startswith(mount + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, after.split()[0]
    return kind


def _unescaped(mount: str) -> str:
    """The path of a mount, in which the system writes a space as \\040."""
    return re.sub(_OCTAL, lambda found: chr(int(found[1], 8)), mount) if "\\" in mount else mount


def refuse_network(path: Path, look: FilesystemOf = filesystem_of) -> None:
    """Raises NetworkFilesystem when `path` lies on one."""
    kind = look(path)
    if kind in NETWORK:
        raise errors.NetworkFilesystem(str(path), kind)
