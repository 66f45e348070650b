"""Rows that no store wrote: what is left of them, so that whoever lists them can name them and show the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from outlast.errors import IntegrityBroken

T = TypeVar("T")

LAST = 253_402_300_799_999_999  # the end of the year 9999, in microseconds: no time is later


class Damaged:
    """Mixed into a row whose columns cannot all be read. Those that cannot be, stand empty."""

    columns: tuple[str, ...] = ()


def damage_of(row: object) -> str:
    """What is wrong with a row, in words; empty when it can be read."""
    return f"its {', '.join(row.columns)} cannot be read" if isinstance(row, Damaged) else ""


def refuse_damaged(row: object, record: str) -> None:
    """Raises IntegrityBroken for a row that nobody may act on."""
    if isinstance(row, Damaged):
        raise IntegrityBroken(record, damage_of(row))


def sound(rows: Iterable[T]) -> Iterator[T]:
    """Those of the rows that can be read; `verify` names the others."""
    return (row for row in rows if not isinstance(row, Damaged))
