"""What frozen values are made of, beside the structs of msgspec.

`NamedTuple` is the standard one, which compiles every annotation that is a text, without that. `Compared` is for values
of which some fields are not compared: they say something of the call that gave the value. `Protocol` is the standard
one for a checker, and while a program runs nothing: no one asks an object there whether it is like that.
"""

from __future__ import annotations

import typing
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
    from typing import Protocol as Protocol
else:
    from collections import _tuplegetter

    Protocol = object

    @cache
    def _getter(index):
        return _tuplegetter(index, f"Alias for field number {index}")

    _MAKES = {"_tuple_new": tuple.__new__, "__builtins__": {}}

    @cache
    def _maker(count):
        """The code that makes a tuple of so many fields, whatever they are called: compiling it takes longest."""
        names = "".join(f"_{number}, " for number in range(count))
        return compile(f"lambda _cls, {names}: _tuple_new(_cls, ({names}))", "<fields>", "eval").co_consts[0]

    class _Row(tuple):
        """What every tuple with named fields does, in one place."""

        __slots__ = ()

        def __new__(cls, *values, **named):
            """Makes what makes values of the class: with the first of them, as many classes never have one."""
            kind = next(each for each in cls.__mro__ if "_fields" in each.__dict__)
            code = _maker(len(kind._fields)).replace(co_varnames=("_cls", *kind._fields))
            made = FunctionType(code, _MAKES, "__new__", tuple(kind._field_defaults.values()))
            made.__qualname__, made.__annotations__ = f"{kind.__qualname__}.__new__", kind.__annotations__
            kind.__new__ = made
            return made(cls, *values, **named)

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changed):
            made = self._make(map(changed.pop, self._fields, self))
            if changed:
                raise ValueError(f"Got unexpected field names: {list(changed)!r}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            told = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({told})"

        def __getnewargs__(self):
            return tuple(self)

    class _Rows(type):
        """Makes a tuple with named fields of a class body."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            body["_field_defaults"] = {each: body[each] for each in fields if each in body}
            body |= {each: _getter(index) for index, each in enumerate(fields)}
            body |= {"__slots__": (), "_fields": fields, "__match_args__": fields}
            return type(name, (_Row,), {**body, "__orig_bases__": (typing.NamedTuple,)})

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
