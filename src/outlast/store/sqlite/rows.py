"""How a named statement is run on a connection: what every noun of the store is read and written by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

import apsw
import msgspec

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

    def _rows_at_once(self, kind: type[R], name: str, *values: Any) -> list[R]:
        return [self._made(kind, row) for row in self._all_at_once(kind, name, *values)]

    def _all_at_once(self, kind: type[R], name: str, *values: Any) -> list[Any]:
        """The rows, given by the database as one value: a thread that reads lets others go first at every row."""
        try:
            ((text,),) = self.execute(_as_one(kind, self.sql[name]), values)
            found: list[Any] = msgspec.json.decode(text)
        except (UnicodeDecodeError, apsw.Error, msgspec.DecodeError):  # row by row it shows what is damaged
            return self._all(name, *values)
        for number in _bytes_of(kind):
            for row in found:
                row[number] = bytes.fromhex(row[number]) if type(row[number]) is str else row[number]
        return found

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


@cache
def _as_one(kind: type, sql: str) -> str:
    """A statement whose rows come as one JSON text; bytes are hexadecimal there, and nothing else is where they are."""
    names, at = [f"c{number}" for number in range(len(kind.__annotations__))], _bytes_of(kind)
    given = (f"CASE typeof({c}) WHEN 'blob' THEN hex({c}) ELSE 0 END" if n in at else c for n, c in enumerate(names))
    return f"WITH s({', '.join(names)}) AS ({sql}\n) SELECT json_group_array(json_array({', '.join(given)})) FROM s"


@cache
def _bytes_of(kind: type) -> tuple[int, ...]:
    kinds = list(kind.__annotations__.values())
    assert "float" not in kinds, "JSON of the database is not exact about them"
    return tuple(number for number, each in enumerate(kinds) if each == "bytes")


def _texts(rows: list[Any]) -> Iterator[str]:
    return (row[0] if type(row[0]) is str else str(row[0]) for row in rows)
