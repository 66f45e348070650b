"""What a row of the store says, as the value that callers get: one rule for what each column means."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeVar, get_origin

import msgspec

from outlast.clock import moment
from outlast.values.codec import decode

S = TypeVar("S", bound=msgspec.Struct)


def value_of(kind: type[S], row: Any, **given: Any) -> S:
    """A value with what its row says of each field: a moment as one, JSON read. `given`: what is said otherwise."""
    said = {name: read(getattr(row, name)) for name, read in _readers(kind, row._fields) if name not in given}
    return kind(**said, **given)


@cache
def _readers(kind: type[msgspec.Struct], columns: tuple[str, ...]) -> list[tuple[str, Callable[[Any], Any]]]:
    """How each field that a row has a column for is read from it."""
    return [(each.name, _reader(each.type)) for each in msgspec.structs.fields(kind) if each.name in columns]


def _reader(kind: Any) -> Callable[[Any], Any]:
    if kind in (datetime, datetime | None):
        return moment
    if kind is bool:
        return bool
    if kind in (str, int) or get_origin(kind) is Literal:
        return lambda value: value
    return lambda text: msgspec.convert(decode(text), kind)
