"""Frozen values that cost a new process little: `dataclass` here is the standard one, whose methods are made late.

The standard library compiles six methods for every class that is defined, about a millisecond each, and most commands
use few of the classes they load. Here each method is made when it is first asked for; what is made, and all that
`dataclasses`, `inspect` and msgspec see of the class, is the same. Whatever is not a plain frozen value (its own
methods in place of the made ones, fields that are not given but have a default) is left to the standard library.

`NamedTuple` is the standard one, which compiles every annotation that is a text, without that.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
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

    def dataclass(cls=None, /, **options):
        """The decorator of the standard library, with the options of it that are given."""
        return _defined(cls, options) if cls is not None else lambda given: _defined(given, options)


_MISSING = dataclasses.MISSING
_OPTIONS = {"frozen", "slots", "kw_only", "eq"}
_COMPARED = ("__eq__", "__hash__")
_OF_SLOTS = ("__getstate__", "__setstate__")  # for copies: a frozen value without a dict is not filled otherwise
_OWN = {"__init__", "__repr__", "__setattr__", "__delattr__", *_COMPARED, *_OF_SLOTS}


def _defined(cls: type, options: dict[str, Any]) -> type:
    if not options.get("frozen") or not _is_plain(cls, options):
        return dataclasses.dataclass(**options)(cls)
    inherits = any(map(dataclasses.is_dataclass, cls.__bases__))  # the standard library compares it with the base
    bare = {"init": False, "repr": False, "eq": False, "frozen": inherits}
    made: Any = dataclasses.dataclass(**options | bare)(cls)
    compared = options.get("eq", True)
    for name in bare:
        setattr(made.__dataclass_params__, name, compared if name == "eq" else True)
    late = [*(_COMPARED if compared else ()), *(_OF_SLOTS if options.get("slots") else ())]
    for name in ("__init__", "__repr__", *late):
        setattr(made, name, _Late(made, name))
    if not inherits:
        made.__setattr__, made.__delattr__ = _refusals(made)
    return made  # type: ignore[no-any-return]


def _is_plain(cls: type, options: dict[str, Any]) -> bool:
    given = [each for each in vars(cls).values() if isinstance(each, dataclasses.Field)]
    return (
        options.keys() <= _OPTIONS
        and bool(cls.__doc__)
        and not _OWN & vars(cls).keys()
        and all(each.init or (each.default is _MISSING and each.default_factory is _MISSING) for each in given)
        and not any("InitVar" in str(each) for each in vars(cls).get("__annotations__", {}).values())
    )


class _Absent:
    """Stands for what a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_ABSENT = _Absent()


class _Late:
    """Stands for a method until it is first asked for."""

    __slots__ = ("_cls", "_name")

    def __init__(self, cls: type, name: str) -> None:
        self._cls, self._name = cls, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        cls, name = self._cls, self._name
        method = _init_of(cls) if name == "__init__" else vars(_standard(cls))[name]
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
        return method.__get__(instance, owner)


def _standard(cls: Any) -> type:
    """A class of the same fields, with all that the standard library makes for it."""
    fields = {each.name: each for each in dataclasses.fields(cls)}
    body = {"__module__": cls.__module__, "__annotations__": {name: each.type for name, each in fields.items()}}
    twin = type(cls.__name__, (), {**body, "__doc__": cls.__doc__, **fields})
    return dataclasses.dataclass(frozen=True, slots=True)(twin)


def _init_of(cls: Any) -> Any:
    fields = [each for each in dataclasses.fields(cls) if each.init]
    known = {f"_default_{each.name}": each.default for each in fields if each.default is not _MISSING}
    known |= {f"_make_{each.name}": each.default_factory for each in fields if each.default_factory is not _MISSING}
    plain = [_parameter(each) for each in fields if not each.kw_only]
    named = [_parameter(each) for each in fields if each.kw_only]
    words = ["self", *plain, *(["*"] if named else []), *named]
    lines = [f"  _set_(self, {each.name!r}, {_given(each)})" for each in fields]
    lines.append("  self.__post_init__()" if hasattr(cls, "__post_init__") else "  pass")
    text = [f"def make(_set_, _absent_, {', '.join(known)}):", f" def __init__({', '.join(words)}):", *lines]
    space: dict[str, Any] = {}
    exec("\n".join([*text, " return __init__"]), vars(sys.modules[cls.__module__]), space)
    made = space["make"](object.__setattr__, _ABSENT, **known)
    made.__annotations__ = {each.name: each.type for each in fields} | {"return": None}
    return made


def _parameter(field: dataclasses.Field[Any]) -> str:
    if field.default is not _MISSING:
        return f"{field.name}=_default_{field.name}"
    return field.name if field.default_factory is _MISSING else f"{field.name}=_absent_"


def _given(field: dataclasses.Field[Any]) -> str:
    name = field.name
    return name if field.default_factory is _MISSING else f"_make_{name}() if {name} is _absent_ else {name}"


def _refusals(cls: Any) -> tuple[Any, Any]:
    """What answers an attempt to change a value."""
    names = {each.name for each in dataclasses.fields(cls)}

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__
