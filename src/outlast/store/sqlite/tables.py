"""The tables of a ledger in a file, to be taken elsewhere or made of another's."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import apsw

from outlast.errors import HomeNotEmpty
from outlast.store.contract import Row, Table
from outlast.store.disk import sync_file, sync_folder
from outlast.store.nouns.rows import statements_of
from outlast.store.sqlite.file import SEAL, migrate, refuse_foreign, remember
from outlast.values.private import make_file, make_folder

BUSY_MS = 10_000
_MOVING = "outlast.db.moving"  # beside the name that it gets
_SQL = statements_of("moving")


class FileTables:
    """See contract.Tables. Who writes meanwhile waits, and is refused after a while."""

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, str(path)
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        self._connection.set_busy_timeout(BUSY_MS)
        refuse_foreign(self._connection, str(path))
        migrate(self._connection, str(path))
        self._connection.execute("BEGIN IMMEDIATE")

    def tables(self) -> list[Table]:
        found = [Table(name, *self._parts(name)) for (name,) in self._connection.execute(_SQL["tables_of_file"])]
        asked = {each.name: self._connection.execute(_SQL["references_of_file"], (each.name,)) for each in found}
        return in_order(found, {table: {name for (name,) in others} for table, others in asked.items()})

    def _parts(self, table: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        found = list(self._connection.execute(_SQL["columns_of_file"], (table,)))
        key = sorted((place, name) for name, place in found if place)
        return tuple(name for name, _ in found), tuple(name for _, name in key)

    def rows(self, table: Table, after: Row, limit: int) -> list[Row]:
        return list(self._connection.execute(select(table, after, "?"), (*after, limit)))

    def last_numbers(self) -> dict[str, int]:
        return dict(self._connection.execute(_SQL["numbers_of_file"]))

    def sealed(self) -> str:
        found = [str(sql) for (sql,) in self._connection.execute(_SQL["seals_of_file"])]
        said = re.fullmatch(SEAL, found[0]) if found else None
        return said[3].replace("''", "'") if said else ""

    def seal(self, to: str) -> None:
        said = f"it was moved to {to}".replace("'", "''")
        for table in self.tables():
            for what in ("INSERT", "UPDATE", "DELETE"):
                self._connection.execute(
                    f"CREATE TRIGGER moved_{what}_{table.name} BEFORE {what} ON {table.name}"
                    f" BEGIN SELECT RAISE(ABORT, '{said}'); END"
                )
        self._connection.execute("COMMIT")
        sync_file(self.path)
        self._connection.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        self._connection.close()


class NewFile(FileTables):
    """See contract.NewTables: a file beside its name."""

    def __init__(self, path: Path, marker: Path) -> None:
        self._named, self._marker = path, marker
        if path.exists():
            raise HomeNotEmpty(str(path))
        make_folder(path.parent)
        making = path.with_name(_MOVING)
        if not making.exists():
            make_file(making)
        super().__init__(making)
        self._connection.execute("ROLLBACK")

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        values = ", ".join("?" * len(table.columns))
        with self._connection:
            self._connection.executemany(f"INSERT INTO {table.name} ({names(table.columns)}) VALUES ({values})", rows)

    def clear(self, tables: Sequence[Table], first: Table, after: Row) -> None:
        with self._connection:
            for table in reversed(tables):
                beyond = f" WHERE {beyond_key(table, '?')}" if table == first and after else ""
                self._connection.execute(f"DELETE FROM {table.name}{beyond}", after if beyond else ())

    def set_last_numbers(self, numbers: dict[str, int]) -> None:
        with self._connection:
            for (table,) in list(self._connection.execute(_SQL["counted_of_file"])):
                number = numbers.get(str(table), 0)
                self._connection.execute(_SQL["drop_number_of_file"], (table,))
                self._connection.execute(_SQL["set_number_of_file"], (table, number))

    def publish(self) -> None:
        self._connection.pragma("journal_mode", "WAL")
        self._connection.pragma("wal_checkpoint", "TRUNCATE")
        self._connection.close()  # its log goes with it: the file alone is all of it
        sync_file(self.path)
        os.rename(self.path, self._named)
        sync_folder(self._named.parent)
        remember(self._marker)


def names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def beyond_key(table: Table, mark: str) -> str:
    """The condition of rows beyond a key."""
    return f"({names(table.key)}) > ({', '.join(mark for _ in table.key)})"


def select(table: Table, after: Row, mark: str) -> str:
    """Rows in the order of their keys, beyond one if it is given, so many."""
    beyond = f" WHERE {beyond_key(table, mark)}" if after else ""
    return f"SELECT {names(table.columns)} FROM {table.name}{beyond} ORDER BY {names(table.key)} LIMIT {mark}"


def in_order(tables: Sequence[Table], refers: dict[str, set[str]]) -> list[Table]:
    """Each table after those that it refers to, otherwise by name, as the other database orders them."""
    left, found = sorted(tables, key=lambda each: each.name), list[Table]()
    while left:
        ready = [each for each in left if not refers[each.name] & {other.name for other in left} - {each.name}]
        found += ready
        left = [each for each in left if each not in ready]
    return found
