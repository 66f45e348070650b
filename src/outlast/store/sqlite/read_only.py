"""Reading a database that cannot be written: a read-only mount, a folder or file without the permission.

SQLite needs an index of the log beside the file, and cannot make one there. Three ways, in this order, so that no
commit is missed and nothing on the disk changes:

1. The log and its index are there: SQLite reads all of it, locks included, also while others write.
2. No log has content: the file alone is everything. It is opened as one that does not change, and whether it did is
   looked at after every read; then the read is done again.
3. A log has content and no index: both are copied into a folder of our own, and read there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import apsw

from outlast.errors import HomeReadOnly, StoreBusy, StoreForeign, StoreReadOnly
from outlast.store.nouns.rows import newest_version
from outlast.store.sqlite.file import schema_version
from outlast.values.private import open_plain

_COPIES = 5  # tries to copy a file and a log that belong together
_OPEN = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI

State = tuple[tuple[int, int, int] | None, ...]


class ReadConnections:
    """One file, connections to it that only read, and whether it is still what they see."""

    def __init__(self, path: Path, why: str, vfs: str | None = None) -> None:
        self.path, self.why, self._vfs = path, why, vfs
        self._seen: State | None = None  # of a file that nobody locks for us
        self._folder = ""

    def connect(self) -> apsw.Connection:
        """A connection that sees every commit so far. Raises StoreReadOnly, StoreForeign, StoreNewer, StoreBusy."""
        self.close()
        log = _stamp(f"{self.path}-wal") is not None
        if log and os.path.exists(f"{self.path}-shm"):
            return self._ready(str(self.path), "mode=ro")
        self._seen = _state(self.path)
        if not log:
            return self._ready(str(self.path), "mode=ro&immutable=1")
        return self._ready(self._copied(), "mode=rw", apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)

    def changed(self) -> bool:
        """Whether the file is another than the connection sees, and nobody told SQLite."""
        return self._seen is not None and self._seen != _state(self.path)

    def close(self) -> None:
        folder, self._folder, self._seen = self._folder, "", None
        if folder:
            shutil.rmtree(folder, ignore_errors=True)

    def _ready(self, path: str, how: str, flags: int = _OPEN) -> apsw.Connection:
        if not os.access(self.path, os.R_OK):
            raise StoreReadOnly(str(self.path), "nor can it be read: no permission")
        connection = apsw.Connection(f"file:{quote(path)}?{how}", flags=flags, vfs=self._vfs, statementcachesize=200)
        try:
            connection.set_busy_timeout(10_000)
            connection.pragma("trusted_schema", False)
            known = newest_version("sqlite")
            if (found := schema_version(connection, str(self.path), known)) < known:
                why = f"it has schema {found}, not {known}, and cannot be brought to it here"
                raise StoreForeign(str(self.path), why)
        except BaseException:
            with suppress(apsw.Error):
                connection.close(True)
            raise
        return connection

    def _copied(self) -> str:
        """The file and its log in a folder of our own, both of one moment."""
        for _ in range(_COPIES):
            self.close()
            self._folder = tempfile.mkdtemp(prefix="outlast-look-")
            before = _state(self.path)
            copy = os.path.join(self._folder, "outlast.db")
            for ending in ("", "-wal"):
                _copy(f"{self.path}{ending}", f"{copy}{ending}")
            if _state(self.path) == before:
                self._seen = before
                return copy
        raise StoreBusy(str(self.path), 0)


def _copy(source: str, place: str) -> None:
    with suppress(FileNotFoundError), open_plain(os.path.realpath(source)) as file, open(place, "xb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)


def _state(path: Path) -> State:
    """What changes whenever the database does."""
    return tuple(_stamp(f"{path}{ending}") for ending in ("", "-wal"))


def _stamp(name: str) -> tuple[int, int, int] | None:
    try:
        seen = os.stat(name)
    except OSError:
        return None
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns) if seen.st_size else None


class Refusing:
    """Stands for the writer where nothing can be written."""

    commits = 0

    def __init__(self, path: str, why: str) -> None:
        self._path, self._why = path, why

    def put(self, *_: Any) -> NoReturn:
        raise HomeReadOnly(self._path, self._why)

    append = append_later = append_if_free = put
    commit = commit_if_free = commit_soon = commit_later = written = vacuum = put

    def close(self) -> None:
        return
