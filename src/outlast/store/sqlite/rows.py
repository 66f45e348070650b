"""How a named statement is run on a connection: what every noun of the store is read and written by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import apsw

from outlast.store.contract.damaged import damage_of
from outlast.store.sqlite.legible import made, name_of, read_anyway
from outlast.values.noticed import notice

R = TypeVar("R", bound=tuple[Any, ...])


class Rows:
    """Named statements on one connection. A row that cannot be read is given as a damaged one, never raised for."""

    def __init__(self, connection: apsw.Connection, sql: dict[str, str]) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.sql = sql
        self.tell: Callable[[str], None] | None = None  # is told of rows that are damaged, each once
        self._told: set[str] = set()

    def _one(self, name: str, *values: Any) -> Any:
        try:
            return next(iter(self.execute(self.sql[name], values)), None)
        except UnicodeDecodeError:
            return next(iter(read_anyway(self.connection, self.sql[name], values)), None)

    def _all(self, name: str, *values: Any) -> list[Any]:
        try:
            return list(self.execute(self.sql[name], values))
        except UnicodeDecodeError:
            return read_anyway(self.connection, self.sql[name], values)

    def _row(self, kind: type[R], name: str, *values: Any) -> R | None:
        row = self._one(name, *values)
        return self._made(kind, row) if row else None

    def _rows(self, kind: type[R], name: str, *values: Any) -> list[R]:
        return [self._made(kind, row) for row in self._all(name, *values)]

    def _made(self, kind: type[R], row: Any) -> R:
        found = made(kind, row)
        if type(found) is not kind:
            self._tell(f"{name_of(found)} is damaged: {damage_of(found)}; see `outlast verify`")
        return found

    def _tell(self, line: str) -> None:
        notice(line)
        if self.tell is not None and line not in self._told:
            self._told.add(line)
            self.tell(line)

    def _texts(self, name: str, *values: Any) -> list[str]:
        return list(_texts(self._all(name, *values)))


def _texts(rows: list[Any]) -> Iterator[str]:
    return (row[0] if type(row[0]) is str else str(row[0]) for row in rows)
