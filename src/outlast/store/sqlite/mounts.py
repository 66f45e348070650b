"""Which file system a path is on. SQLite's locks cannot be trusted over a network."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from outlast.errors import NetworkFilesystem

FilesystemOf = Callable[[Path], str]
NETWORK = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb2",
        "smb3",
        "smbfs",
        "ncpfs",
        "afs",
        "ceph",
        "9p",
        "lustre",
        "glusterfs",
        "beegfs",
        "gpfs",
        "davfs",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.gcsfuse",
        "fuse.rclone",
        "fuse.glusterfs",
        "fuse.davfs2",
    ]
)


_TABLE = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


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
        mount = _OCTAL.sub(lambda found: chr(int(found[1], 8)), before.split(" ")[4])  # a space is \040
        inside = mount == "/" or target == mount or target.startswith(mount + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, after.split()[0]
    return kind


def refuse_network(path: Path, look: FilesystemOf = filesystem_of) -> None:
    """Raises NetworkFilesystem when `path` lies on one."""
    kind = look(path)
    if kind in NETWORK:
        raise NetworkFilesystem(str(path), kind)
