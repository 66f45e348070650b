"""Names under which a later process finds code again: `module:name` or `file.py:name`, also for scripts."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.errors import FlowNotFound
from holdfast.runtime.home import find_home, project_of


def module_alias(module: str) -> str:
    """A module's lasting name: a script's is its file, since `__main__` is another one each time."""
    if module != "__main__":
        return sys.modules[module].__dict__.get("__holdfast_file__", module) if module in sys.modules else module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return lasting_path(Path(file)) if file else "__main__"


def lasting_path(file: Path) -> str:
    """The path relative to the home's folder where that is possible, else absolute: it is looked for from there."""
    full = file.resolve()
    try:
        return str(full.relative_to(_project()))
    except ValueError:
        return str(full)


def _project() -> Path:
    return project_of(find_home()).resolve()


def module_named(alias: str) -> ModuleType | None:
    """A loaded module by its lasting name."""
    for name in ("__main__", _loaded_name(alias)):
        module = sys.modules.get(name)
        if module is not None and module_alias(name) == alias:
            return module
    return sys.modules.get(alias)


def load(source: str, folder: Path | None = None) -> Any:
    """The object a source names. Raises FlowNotFound with the reason."""
    place, _, name = source.rpartition(":")
    if not place or not name:
        raise FlowNotFound(source, "it has no name after a colon")
    try:
        module = _module(place, folder or Path.cwd())
    except FlowNotFound:
        raise
    except Exception as error:
        raise FlowNotFound(source, f"{type(error).__name__}: {error}") from error
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise FlowNotFound(source, f"{place} has no {name!r}")
    return found


def _module(place: str, folder: Path) -> ModuleType:
    loaded = module_named(place)
    if loaded is not None:
        return loaded
    if place.endswith(".py"):
        return _from_file(place, folder)
    from importlib import import_module

    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return import_module(place)


def _loaded_name(alias: str) -> str:
    return "holdfast_file_" + hashlib.sha256(str((_project() / alias).resolve()).encode()).hexdigest()[:16]


def _from_file(place: str, folder: Path) -> ModuleType:
    paths = [base / place for base in (folder, _project(), Path.cwd())]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise FlowNotFound(place, "there is no such file")
    import importlib.util

    name = _loaded_name(str(path.absolute()))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FlowNotFound(place, "Python cannot load it")
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__holdfast_file__"] = lasting_path(path)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
