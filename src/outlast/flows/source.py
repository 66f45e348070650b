"""A Python flow looked for in its source: nothing is imported, and none of its code runs."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from outlast.flows.code import assigns, function_in, parse


def why_missing(place: str, name: str, folder: Path) -> str:
    """Why a flow is not in its source; nothing when it is."""
    file = file_of(place, folder)
    if file is None:
        return f"there is no module {place}"
    try:
        tree = parse(file.read_bytes())
    except OSError:
        return "there is no such file"
    if tree is None:
        return f"{place} cannot be read as Python"
    found = function_in(tree, name)
    if found is None:
        return "" if assigns(tree, name) else f"{place} has no {name!r}"
    return "" if found.decorator_list else "it is not a flow (decorate it with @flow)"


def file_of(place: str, folder: Path) -> Path | None:
    """The file that a source names: by its path from the folder, or as a module. None where no module is found."""
    return folder / place if place.endswith(".py") else file_of_module(place, folder)


def file_of_module(name: str, folder: Path) -> Path | None:
    """The source of a module, found without importing it or the packages around it."""
    from importlib.machinery import PathFinder

    path: list[str] | None = [str(folder), *sys.path]
    spec = None
    for part in itertools.accumulate(name.split("."), "{}.{}".format):
        spec = PathFinder.find_spec(part, path)
        path = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None
