"""API keys of a home: one small file beside the tenants, as private as the home. Every write is synced."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from outlast.errors import IntegrityBroken, OutlastError, StoreBusy, StoreFailed, StoreForeign, StoreLost, StoreReadOnly
from outlast.store.contract import KEYS, KeyRow
from outlast.store.disk import refuse_network
from outlast.store.nouns.rows import statements_of
from outlast.store.sqlite.file import copy_database, remember
from outlast.values.private import kind_of, make_file, make_home

BUSY_MS = 10_000


class KeyFile:
    """The keys of a home. See contract.KeyStore. Opened when there is something to read or write."""

    def __init__(self, home: Path) -> None:
        self.path, self._marker = home / KEYS, home / ".made" / KEYS
        self._paths = str(self.path), str(self._marker)
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._sql = statements_of("keys")

    def add(self, row: KeyRow) -> None:
        self._make()
        self._do("add_key", row.proven())

    def find(self, key_id: str) -> KeyRow | None:
        rows = self._rows("key_by_id", (key_id,))
        return rows[0] if rows else None

    def is_any(self) -> bool:
        """Whether a key was ever made. None is ever removed: where all are gone, nobody is let in without one."""
        if self._connection is None and not _is_there(self._paths[0]):
            if _is_there(self._paths[1]):
                self._refuse_lost()
            return False
        return self.path.exists() or bool(self._rows("any_key", ()))

    def all(self) -> list[KeyRow]:
        return self._rows("all_keys", ())

    def revoke(self, row: KeyRow, at: int) -> None:
        self._do("revoke_key", (at, row._replace(revoked_at=at).proven().proof, row.id))

    def use(self, key_id: str, at: int) -> None:
        self._do("use_key", (at, key_id))

    def copy_to(self, place: Path) -> bool:
        if not self.path.exists():
            self._refuse_lost()
            return False
        with self._opened() as connection:
            copy_database(connection, place)
        return True

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _rows(self, name: str, values: tuple[object, ...]) -> list[KeyRow]:
        if self._connection is None and not self.path.exists():
            self._refuse_lost()
            return []
        with self._opened() as connection:
            return [KeyRow(*row) for row in connection.execute(self._sql[name], values)]

    def _do(self, name: str, values: tuple[object, ...]) -> None:
        with self._opened() as connection:
            connection.execute(self._sql[name], values)

    @contextmanager
    def _opened(self) -> Iterator[apsw.Connection]:
        """The connection, for one at a time, with its errors in our words."""
        try:
            with self._lock:
                yield self._open()
        except apsw.Error as error:
            raise self._translate(error) from error
        except UnicodeDecodeError as error:
            raise IntegrityBroken(str(self.path), "a text of it is not UTF-8") from error

    def lost(self) -> str:
        try:
            self._refuse_lost()
        except StoreLost as error:
            return error.detail
        return ""

    def _refuse_lost(self) -> None:
        """Raises StoreLost: without its keys a home would ask nobody for one."""
        if self._marker.exists() and not (self.path.exists() and self.path.stat().st_size):
            raise StoreLost(str(self.path), "is gone or empty", f"{self._marker} says that one was made")

    def _make(self) -> None:
        """The file, as private as the home from its first byte on."""
        self._refuse_lost()
        try:
            make_home(self.path.parent)
            refuse_network(self.path.parent)
            make_file(self.path)
        except OSError as error:
            raise StoreReadOnly(str(self.path), error.strerror or str(error)) from error

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            self._refuse_lost()
            if kind := kind_of(self.path):
                raise StoreForeign(str(self.path), f"it is {kind}, no plain file")
            connection = apsw.Connection(str(self.path))
            connection.set_busy_timeout(BUSY_MS)
            connection.pragma("journal_mode", "DELETE")  # one file: there is nothing beside it to protect
            connection.pragma("synchronous", "FULL")
            connection.pragma("trusted_schema", False)
            connection.execute(self._sql["make_keys"])
            remember(self._marker)
            self._connection = connection
        return self._connection

    def _translate(self, error: apsw.Error) -> OutlastError:
        match error:
            case apsw.BusyError() | apsw.LockedError():
                return StoreBusy(str(self.path), BUSY_MS / 1000)
            case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
                return StoreReadOnly(str(self.path), str(error))
            case _:
                return StoreFailed(str(self.path), f"{type(error).__name__}: {error}")


def _is_there(path: str) -> bool:
    """Whether there is such a file. Every request without a key asks. Raises OSError where nobody can tell."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
