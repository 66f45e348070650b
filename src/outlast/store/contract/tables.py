"""A ledger as plain tables, whichever database it is in: how a home is taken from one to another, row by row.

What arrives is made in a place where nobody looks for it, and gets its name at the end, whole. What it was taken from
is sealed before that: it can be read, and nobody can write to it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from outlast.values.frozen import NamedTuple

Row = tuple[Any, ...]


class Table(NamedTuple):
    """A table: its columns in their order, and those that a row is known by."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def key_of(self, row: Row) -> Row:
        """By what a row is known."""
        return tuple(row[self.columns.index(name)] for name in self.key)


class Tables(Protocol):
    """Reads the rows of a ledger, one moment of it; nobody else writes meanwhile."""

    place: str

    def tables(self) -> list[Table]:
        """Every table, each after those that it refers to."""
        ...

    def rows(self, table: Table, after: Row, limit: int) -> list[Row]:
        """Rows by their keys, beyond one; all that there are where `after` is empty."""
        ...

    def last_numbers(self) -> dict[str, int]:
        """The last key that was given, of tables whose keys are never given twice."""
        ...

    def sealed(self) -> str:
        """Where it was moved to; nothing for one that was not."""
        ...

    def seal(self, to: str) -> None:
        """Let nobody write any more, in whatever process, also one that is open: durable when this returns."""

    def close(self) -> None: ...


class NewTables(Tables, Protocol):
    """A ledger that is being made, beside its place."""

    def put(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows, durably together."""

    def clear(self, tables: Sequence[Table], first: Table, after: Row) -> None:
        """Remove all rows of these tables; of the first of them only those beyond a key."""

    def set_last_numbers(self, numbers: dict[str, int]) -> None:
        """Go on counting there."""

    def publish(self) -> None:
        """Give it its name. From now on it is found, whole."""
