"""Modules that only some calls need, imported when something of them is first asked for.

Most runs never log. Such a module stands at the top of a file like any other:

    if TYPE_CHECKING:
        import logging
    else:
        logging = late("logging")

What many files need so is imported from here: a plain flow never needs `asyncio`.

And a module that stands for many, each loaded when it is first asked for: its `__getattr__` is made by `modules_in`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


class late:
    """Stands for a module until it is asked for something; what it was asked for, it keeps."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(import_module(self._module), name)
        return found


if TYPE_CHECKING:
    import asyncio as asyncio
    import shlex as shlex
else:
    asyncio, shlex = late("asyncio"), late("shlex")


def modules_in(namespace: dict[str, Any], places: Mapping[str, str]) -> Callable[[str], ModuleType]:
    """What loads a module by its name and keeps it in the namespace; `places`: by package, the names of its modules."""
    package_of = {name: package for package, names in places.items() for name in names.split()}

    def load(name: str) -> ModuleType:
        if name not in package_of:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        found: ModuleType = import_module(f"{package_of[name]}.{name}".lstrip("."))
        namespace[name] = found
        return found

    return load
