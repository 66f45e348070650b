"""Blobs: content in a folder, named by its digest, verified when read.

A blob is durable before anything refers to it: file synced, renamed, folder synced. Writing the same
content twice is harmless. A crash leaves at most a file nobody refers to.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

from holdfast import failpoints
from holdfast.domain.digest import digest
from holdfast.errors import DiskFull, IntegrityBroken, StoreFailed, StoreReadOnly


class Blobs:
    """A folder of blobs: `ab/abcdef…`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._named: set[str] = set()  # folders whose own names this process has synced, whoever made them

    def path(self, name: str) -> Path:
        return self.folder / name[:2] / name

    def put(self, content: bytes) -> str:
        """Store content durably and give its digest."""
        name = digest(content)
        path = self.path(name)
        try:
            if self._rely_on(path, content):
                return name
            self._write(path, content)
        except OSError as error:
            raise _translated(error, str(self.folder)) from error
        return name

    def _rely_on(self, path: Path, content: bytes) -> bool:
        """Whether the blob is there, whole. Its name is synced: who wrote it may have died before doing so."""
        try:
            if path.stat().st_size != len(content) or path.read_bytes() != content:
                return False
            os.utime(path)  # whoever relies on a blob makes it young again, so that no sweep takes it
        except FileNotFoundError:
            return False
        self._sync_names(path)
        return True

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if failpoints.armed:
                failpoints.armed("blob.written")
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        if failpoints.armed:
            failpoints.armed("blob.named")
        self._sync_names(path)
        if failpoints.armed:
            failpoints.armed("blob.synced")

    def _sync_names(self, path: Path) -> None:
        """The file's name, and that of the folder it is in."""
        _sync_folder(path.parent)
        if path.parent.name not in self._named:
            _sync_folder(self.folder)
            self._named.add(path.parent.name)

    def get(self, name: str) -> bytes:
        """The content. Raises IntegrityBroken when it is missing or not what was stored."""
        try:
            content = self.path(name).read_bytes()
        except FileNotFoundError as error:
            raise IntegrityBroken(f"blob {name[:12]}", "it is missing") from error
        except OSError as error:
            raise _translated(error, str(self.folder)) from error
        if digest(content) != name:
            raise IntegrityBroken(f"blob {name[:12]}", "its content was changed")
        return content

    def has(self, name: str) -> bool:
        return self.path(name).is_file()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _translated(error: OSError, path: str) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(path)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreReadOnly(path, error.strerror or str(error))
    return StoreFailed(path, str(error))
