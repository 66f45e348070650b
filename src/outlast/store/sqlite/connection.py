"""How a named statement is run on a connection of SQLite.

A STRICT table holds what its columns say, but not that a text is UTF-8: of one that is not, what can be read is given.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import apsw
import msgspec

from outlast.errors import IntegrityBroken
from outlast.store.nouns.rows import UNREADABLE, Rows, WrittenRows

R = TypeVar("R", bound=tuple[Any, ...])


class SqliteRows(Rows):
    """Lookups."""

    def __init__(self, connection: apsw.Connection, sql: dict[str, str]) -> None:
        super().__init__(sql)
        self.connection = connection
        self.execute = connection.execute

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

    def _listed(self, values: Sequence[str]) -> str:
        return json.dumps(list(values))


class SqliteWrites(SqliteRows, WrittenRows):
    """The same inside a transaction, with what writing needs."""

    def __init__(self, connection: apsw.Connection, sql: dict[str, str]) -> None:
        super().__init__(connection, sql)
        cursor = connection.cursor()
        self.do = cursor.execute  # for statements without rows: one cursor, used over and over
        self.do_many = cursor.executemany
        self.changes = connection.changes


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


def read_anyway(connection: apsw.Connection, sql: str, values: tuple[Any, ...]) -> list[Any]:
    """The rows of a statement of which one holds a text that is not UTF-8. Such a text is replaced, and told by it.

    Raises IntegrityBroken for a statement that writes: it is not to be run twice.
    """
    import apsw.ext

    about = apsw.ext.query_info(connection, sql)
    if not about.is_readonly:
        raise IntegrityBroken("a row", "a text of it is not UTF-8")
    names = [f"c{number}" for number in range(len(about.description))]
    raw = ", ".join(f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END" for name in names)
    types = ", ".join(f"typeof({name})" for name in names)
    wrapped = f"WITH s({', '.join(names)}) AS ({sql}\n) SELECT {raw}, {types} FROM s"
    found = (tuple(row) for row in connection.execute(wrapped, values))
    return [tuple(map(_text, row[: len(names)], row[len(names) :])) for row in found]


def _text(value: Any, kind: str) -> Any:
    if kind != "text":
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode(errors="replace") + UNREADABLE
