"""Which file system a path is on. SQLite's locks cannot be trusted over a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.errors import NetworkFilesystem

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


def filesystem_of(path: Path) -> str:
    """The type of the mounted file system that holds `path`; empty where the system does not tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    target = str(path.resolve())
    best, kind = "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = before.split()[4].encode().decode("unicode_escape")
        inside = mount == "/" or target == mount or target.startswith(mount + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, after.split()[0]
    return kind


def refuse_network(path: Path, look: FilesystemOf = filesystem_of) -> None:
    """Raises NetworkFilesystem when `path` lies on one."""
    kind = look(path)
    if kind in NETWORK:
        raise NetworkFilesystem(str(path), kind)
