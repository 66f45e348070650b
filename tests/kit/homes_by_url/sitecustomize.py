"""Every home that is named by a folder has its ledger in a database of its own, in each process of the tests.

Python imports this by itself at its start, because the folder is on PYTHONPATH (`--postgres` of pytest puts it there).
Only how a home is found is changed, in the one function that finds it: what opens it is what opens
`postgresql://…`, with the folder as that of its content. OUTLAST's own variables are taken out of the environment by
tests; these are not.
"""

import os
import sys
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

SERVER, TEMPLATE = "HOMES_BY_URL", "outlast_template"  # a URL with {} in the place of the database
NOT_OURS = ("synchronous", "vfs")  # options of a file


def prefix() -> str:
    """How the databases of the homes of this process of tests, and of those that it starts, begin."""
    return f"home_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_"


def database_of(home: Path) -> str:
    """The name of the database of the home in this folder."""
    return prefix() + sha256(os.path.realpath(home).encode()).hexdigest()[:24]


@cache
def url_for(home: Path) -> str:
    """The database of this home, made from the template when it is missing."""
    import psycopg

    name = database_of(home)
    with psycopg.connect(os.environ[SERVER].format("postgres"), autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
            with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                connection.execute(f'CREATE DATABASE "{name}" TEMPLATE {TEMPLATE} STRATEGY FILE_COPY')
    return os.environ[SERVER].format(name)


def _patch_place(place: ModuleType) -> None:
    look_up = place.look_up

    def by_url(*given: Any, **how: Any) -> Any:
        found = look_up(*given, **how)
        return found if found.database else found._replace(database=url_for(found.path))

    place.look_up, place._by_url = by_url, True


def _patch_store(store: ModuleType) -> None:
    open_server = store._open_server

    def opened(url: str, **options: Any) -> Any:
        return open_server(url, **{name: value for name, value in options.items() if name not in NOT_OURS})

    store._open_server, store._by_url = opened, True


def _patch_work_tree(work_tree: ModuleType) -> None:
    """Hooks look for a file before they open a home that is named by its folder; of a database they do not ask."""
    work_tree.may_have_ledger, work_tree._by_url = lambda home: True, True


PATCHES = {
    "outlast.home.place": _patch_place,
    "outlast.store": _patch_store,
    "outlast.python.work_tree": _patch_work_tree,
}


class _Patched(Loader):
    def __init__(self, loader: Any, patch: Any) -> None:
        self._loader, self._patch = loader, patch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._patch(module)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in PATCHES:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Patched(spec.loader, PATCHES[name])
        return spec


def install() -> None:
    """In what is imported from now on, and in what was before: pytest imports its plugins, ours among them, itself."""
    sys.meta_path.insert(0, _Finder())
    for name, patch in PATCHES.items():
        if name in sys.modules and not hasattr(sys.modules[name], "_by_url"):
            _patch_everywhere(sys.modules[name], patch)


def _patch_everywhere(module: ModuleType, patch: Any) -> None:
    before = dict(vars(module))
    patch(module)
    others = [each for name, each in sys.modules.items() if name.startswith("outlast")]
    for name, made in vars(module).items():
        if made is not before.get(name, made):
            for other in others:
                if vars(other).get(name) is before[name]:
                    setattr(other, name, made)


if SERVER in os.environ:
    install()
