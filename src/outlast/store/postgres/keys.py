"""API keys of a home whose ledger is in PostgreSQL: one table in a schema of its own, for every tenant and machine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from psycopg import Error as DriverError
from psycopg.sql import SQL, Identifier

from outlast.errors import Invalid
from outlast.store.contract import KeyRow
from outlast.store.nouns.rows import statements_of
from outlast.store.postgres.connection import Link, connect, numbered, place_of, translate
from outlast.store.postgres.schema import KEYS_SCHEMA, lock_of


class KeyTable:
    """The keys of a home. See contract.KeyStore. Connected when there is something to read or write."""

    def __init__(self, url: str) -> None:
        self._url, self.place = url, place_of(url, KEYS_SCHEMA)
        self._lock = threading.Lock()
        self._connection: Link | None = None
        self._is_made = self._has_table = False
        self._sql = {name: numbered(text) for name, text in statements_of("keys", "postgres_keys").items()}

    def add(self, row: KeyRow) -> None:
        self._run("add_key", tuple(row.proven()), make=True)

    def find(self, key_id: str) -> KeyRow | None:
        rows = self._run("key_by_id", (key_id,))
        return KeyRow(*rows[0]) if rows else None

    def all(self) -> list[KeyRow]:
        return [KeyRow(*row) for row in self._run("all_keys")]

    def is_any(self) -> bool:
        """Whether a key was ever made: its schema is, and stays where somebody removed the table."""
        self._run("any_key")
        return self._is_made

    def revoke(self, row: KeyRow, at: int) -> None:
        self._run("revoke_key", (at, row._replace(revoked_at=at).proven().proof, row.id))

    def use(self, key_id: str, at: int) -> None:
        self._run("use_key", (at, key_id))

    def lost(self) -> str:
        """Nothing: a database has its keys, or is another one."""
        return ""

    def copy_to(self, place: Path) -> bool:
        raise Invalid(detail="keys in a database of PostgreSQL are copied with it, by its own tools")

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, name: str, values: Sequence[object] = (), *, make: bool = False) -> list[Any]:
        """Run a statement; nothing, where no key was ever made. A connection that was lost meanwhile is made anew."""
        with self._lock:
            for is_last in (False, True):
                try:
                    return self._asked(name, values, make)
                except DriverError as error:
                    if is_last or self._connection is None or not self._connection.closed:
                        raise translate(error, self.place) from error
        raise AssertionError("unreachable")

    def _asked(self, name: str, values: Sequence[object], make: bool) -> list[Any]:
        connection = self._connected()
        if not self._has_table:
            if make:
                self._make(connection)
            found = connection.execute(self._sql["find_keys"], (KEYS_SCHEMA,)).fetchone()
            self._is_made, self._has_table = found is not None, bool(found and found[0])
        if not self._has_table:
            return []
        cursor = connection.execute(self._sql[name], tuple(values))
        return cursor.fetchall() if cursor.description else []

    def _connected(self) -> Link:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url, KEYS_SCHEMA)
        return self._connection

    def _make(self, connection: Link) -> None:
        with connection.transaction():
            connection.execute(SQL("SELECT pg_advisory_xact_lock({})").format(lock_of(KEYS_SCHEMA)))
            connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(KEYS_SCHEMA)))
            connection.execute(self._sql["make_keys"])
