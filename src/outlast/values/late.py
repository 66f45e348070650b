"""Modules that only some calls need, imported when something of them is first asked for.

A plain flow never needs `asyncio`, and most runs never log. Such a module stands at the top of a file like any other:

    if TYPE_CHECKING:
        import asyncio
    else:
        asyncio = late("asyncio")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class late:
    """Stands for a module until it is asked for something; what it was asked for, it keeps."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(import_module(self._module), name)
        return found
