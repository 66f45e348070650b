"""Values of which some fields are not compared: they say something of the call that gave the value."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct


class Compared(Struct, frozen=True, eq=False):
    """A frozen value: two are equal when they differ at most in the fields that `_aside` names."""

    _aside: ClassVar[tuple[str, ...]] = ("replayed",)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(_compared(self))


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, name) for name in value.__struct_fields__ if name not in value._aside)
