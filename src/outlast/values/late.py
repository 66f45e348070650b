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

import gc
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


def load(module: str) -> ModuleType:
    """A module, imported without a search for garbage meanwhile: what it makes is there to stay.

    What there is by then counts as old, as if searches had passed it over: the next search through everything sees it.
    Who has switched the search off, or has set objects apart from it, has that left as it is.
    """
    if module in sys.modules or not gc.isenabled() or gc.get_freeze_count():
        return import_module(module)
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.unfreeze()  # among the oldest now
        gc.enable()


class late:
    """Stands for a module until it is asked for something; what it was asked for, it keeps."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(load(self._module), name)
        return found


if TYPE_CHECKING:
    import asyncio as asyncio
    import shlex as shlex
else:
    asyncio, shlex = late("asyncio"), late("shlex")


def modules_in(namespace: dict[str, Any], places: Mapping[str, str]) -> Callable[[str], ModuleType]:
    """What loads a module by its name and keeps it in the namespace; `places`: by package, the names of its modules."""
    package_of = {name: package for package, names in places.items() for name in names.split()}

    def load_one(name: str) -> ModuleType:
        if name not in package_of:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        found = load(f"{package_of[name]}.{name}".lstrip("."))
        namespace[name] = found
        return found

    return load_one
