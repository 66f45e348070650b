"""What frozen values are made of, beside the structs of msgspec.

`NamedTuple` is the standard one, which compiles every annotation that is a text, without that. `Compared` is for values
of which some fields are not compared: they say something of the call that gave the value.
"""

from __future__ import annotations

import typing
from collections import namedtuple
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Rows(type):
        """Makes a tuple with named fields of a class body."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            types = body.get("__annotations__", {})
            defaults = [body.pop(each) for each in types if each in body]
            made = namedtuple(name, types, defaults=defaults, module=body["__module__"])
            made.__annotations__ = made.__new__.__annotations__ = types
            made.__orig_bases__ = (typing.NamedTuple,)
            for key in body.keys() - {"__annotations__", "__module__"}:
                setattr(made, key, body[key])
            return made

    class NamedTuple(metaclass=_Rows):
        """That of `typing`. Defaults come last, as there; its annotations stay the texts they are in the source."""


class Compared(Struct, frozen=True, eq=False):
    """A frozen value: two are equal when they differ at most in the fields that `_aside` names."""

    _aside: ClassVar[tuple[str, ...]] = ("replayed",)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _compared(self) == _compared(other)

    def __ne__(self, other: object) -> bool:  # a Struct's own compares which object it is
        return not self == other

    def __hash__(self) -> int:
        return hash(_compared(self))


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, name) for name in value.__struct_fields__ if name not in value._aside)
