"""Names under which a later process finds code again: `module:name` or `file.py:name`, also for scripts.

In memory a file is known by its full path, with the links that were named: `current/flow.py` stays that when `current`
leads elsewhere. It is recorded by its path from the project's folder, which the home settles: where a process happens
to stand is never part of a name.

A Python flow looked for in its source: nothing is imported, and none of its code runs.

And the digest of a step's code: the same after reformatting, commenting, moving; other when it does other work. It is
taken from the syntax tree of the function alone. What a function calls is not followed.
"""

from __future__ import annotations

import ast
import itertools
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from outlast import errors
from outlast.values.codec import identity


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


_MAIN = ("__main__", "__mp_main__")  # the second one in a process that multiprocessing spawned
FLOW_FILES = (".yaml", ".yml")  # how the names of flow files end
_here = threading.local()  # `loading`: the flow whose module this thread is loading
_one_at_a_time = threading.RLock()  # a second thread must not find a module that is half loaded
_FILE = "__outlast_file__"  # in a module that was loaded from a file: its full path
_CODE = (".py", *FLOW_FILES)  # how the names of files end that sources name


def module_alias(module: str) -> str:
    """A module's own name, or the full path of its file when it is a script: `__main__` is another one each time."""
    found = sys.modules.get(module)
    if found is None:
        return module
    if module not in _MAIN:
        return str(found.__dict__.get(_FILE, module))
    spec = getattr(found, "__spec__", None)
    if spec is not None and spec.name not in _MAIN:
        return str(spec.name)
    file = getattr(found, "__file__", None)
    return full_path(file) if file else "__main__"


def full_path(path: str | Path) -> str:
    """A path from the root, with the links in it that were named: also those of the folder that a shell stands in."""
    real = os.path.realpath(path)
    named = os.path.normpath(path if os.path.isabs(path) else here() / path)
    return named if os.path.realpath(named) == real else real  # not where `..` comes after a link


def here() -> Path:
    """This folder as whoever went there named it, if that is where we are; the root when it is gone."""
    return Path(where_we_are())


def where_we_are() -> str:
    """The same as a text."""
    try:
        here = os.getcwd()
    except OSError:
        return "/"
    named = os.environ.get("PWD", "")
    if named == here or not named.startswith("/"):
        return here
    try:
        return named if os.path.samefile(named, ".") else here
    except OSError:  # nobody can look at how it was named
        return here


def lasting(source: str, project: Path | None) -> str:
    """A path, or a source that begins with one, as it is recorded: from the project's folder if it lies in there."""
    if project is None or not os.path.isabs(source):
        return source
    place, colon, name = source.rpartition(":") if is_file(source) else (source, "", "")
    for real in (False, True):
        path = os.path.realpath(place) if real else place
        if os.path.commonpath((path, project)) == str(project):
            return f"{os.path.relpath(path, project)}{colon}{name}"
    return source


def is_file(source: str) -> bool:
    """Whether a source is a name after a file, and not after a module."""
    return source.rpartition(":")[0].endswith(_CODE)


def path_of(source: str, project: Path | None) -> str:
    """The full path of the file that a source names; empty for a module."""
    return os.path.abspath((project or Path()) / source.rpartition(":")[0]) if is_file(source) else ""


def is_gone(source: str, project: Path | None) -> bool:
    """Whether a file that a source names is not there any more. A module is never said to be gone."""
    return is_file(source) and not os.path.isfile(path_of(source, project))


def found_in(source: str, project: Path | None, folder: Path) -> str:
    """The source with a file of this folder in place of its own: the one that lies there as that one lay in its.

    Empty when there is none. `/srv/r1/flows/bill.py:charge` in `/srv/r2` is `/srv/r2/flows/bill.py:charge`.
    """
    parts = Path(path_of(source, project)).parts[1:]
    for start in range(len(parts)):
        path = folder.joinpath(*parts[start:])
        if path.is_file():
            return f"{path}:{source.rpartition(':')[2]}"
    return ""


def is_flow_file(source: str) -> bool:
    """Whether a source names a flow file: by its path alone, or with the flow's name after a colon."""
    return source.endswith(FLOW_FILES) or source.rpartition(":")[0].endswith(FLOW_FILES)


def names_a_flow(word: str) -> bool:
    """Whether a word names a flow; else it can only be a run's id, or the beginning of one."""
    return ":" in word or is_flow_file(word)


def load(source: str, *folders: Path) -> Any:
    """The object a source names, looked for in these folders. Raises FlowNotFound with the reason."""
    place, _, name = source.rpartition(":")
    if not place or not name:
        raise errors.FlowNotFound(source, "it has no name after a colon")
    found: Any = load_module(place, *folders, source=source)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise errors.FlowNotFound(source, f"{place} has no {name!r}")
    return found


def load_module(place: str, *folders: Path, source: str = "") -> ModuleType:
    """A module by its name or its file, looked for in these folders. Raises FlowNotFound, RunsOnImport."""
    try:
        with _one_at_a_time, _loading(source or place):
            return _module(place, folders or (here(),))
    except (errors.FlowNotFound, errors.RunsOnImport):
        raise
    except Exception as error:
        raise errors.FlowNotFound(source or place, f"{type(error).__name__}: {error}") from error


@contextmanager
def _loading(source: str) -> Iterator[None]:
    """While a flow's module is loaded, nothing that it does on the way may start a run."""
    before = getattr(_here, "loading", "")
    _here.loading = source
    try:
        yield
    finally:
        _here.loading = before


def refuse_while_loading() -> None:
    """Raises RunsOnImport in a module that starts or continues a run while its flow is being looked up."""
    if source := getattr(_here, "loading", ""):
        raise errors.RunsOnImport(source)


def _module(place: str, folders: tuple[Path, ...]) -> ModuleType:
    paths = [full_path(folder / place) for folder in folders]
    if _is_this_script(place, paths):
        return sys.modules["__main__"]
    return _from_file(place, paths) if place.endswith(".py") else _imported(place, folders)


def _is_this_script(place: str, paths: list[str]) -> bool:
    script = module_alias("__main__")
    return script == place or os.path.realpath(script) in map(os.path.realpath, paths)


def loaded_module(place: str, *folders: Path) -> ModuleType | None:
    """The module that `load_module` gives, if this process has it already: nothing is loaded."""
    paths = [full_path(folder / place) for folder in folders]
    if _is_this_script(place, paths):
        return sys.modules["__main__"]
    if not place.endswith(".py"):
        return sys.modules.get(place)
    for path in paths:
        if (name := _loaded_name(path)) in sys.modules:
            return sys.modules[name]
        if os.path.isfile(path):
            return None
    return None


def _imported(place: str, folders: tuple[Path, ...]) -> ModuleType:
    from importlib import import_module

    found = sys.modules.get(place)
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found
    for folder in reversed(folders):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    return import_module(place)


def _from_file(place: str, paths: list[str]) -> ModuleType:
    for path in paths:
        if (name := _loaded_name(path)) in sys.modules:
            return sys.modules[name]
        if os.path.isfile(path):
            return _loaded(path)
    raise errors.FlowNotFound(place, "there is no such file")


def _loaded_name(path: str) -> str:
    return "outlast_file_" + identity(os.path.realpath(path).encode())[:16]


def _loaded(path: str) -> ModuleType:
    import importlib.util

    name, real = _loaded_name(path), os.path.realpath(path)  # a link that leads elsewhere later changes nothing here
    folder = os.path.dirname(real)
    spec = importlib.util.spec_from_file_location(name, real)
    if spec is None or spec.loader is None:
        raise errors.FlowNotFound(path, "Python cannot load it")
    module = importlib.util.module_from_spec(spec)
    module.__dict__[_FILE] = path
    sys.modules[name] = module
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


# -- types of exceptions -----------------------------------------------------------------------------


def type_name(kind: type) -> str:
    """`module:name`; for a script `file.py:name` without the folder, so that it is the same wherever that is."""
    alias = module_alias(kind.__module__)
    return f"{os.path.basename(alias)}:{kind.__qualname__}"


def script_named(file: str) -> ModuleType | None:
    """The one script of this name that runs here or was loaded; None when there is none, or several."""
    found = {id(module): module for name, module in list(sys.modules.items()) if _is_script(name, file)}
    return next(iter(found.values())) if len(found) == 1 else None


def _is_script(name: str, file: str) -> bool:
    if name not in _MAIN and not name.startswith("outlast_file_"):
        return False
    alias = module_alias(name)
    return os.path.isabs(alias) and os.path.basename(alias) == file


# -- digests of code ---------------------------------------------------------------------------------


_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SILENT = {"decorator_list", "returns", "annotation", "type_comment", "type_params", "ctx", "kind"}

_one_parser = threading.Lock()
_TRIES = 5

T = TypeVar("T")
_look: ContextVar[dict[Hashable, Any] | None] = ContextVar("source_look", default=None)


@contextmanager
def one_look_at_source() -> Iterator[None]:
    """While one answer is looked for, what source says is read once, however many runs are of it."""
    if _look.get() is not None:
        yield
        return
    token = _look.set({})
    try:
        yield
    finally:
        _look.reset(token)


def said_by_source(asked: Hashable, read: Callable[[], T]) -> T:
    """What source says to a question: read now, or as it was read for the same answer."""
    known = _look.get()
    if known is None:
        return read()
    if asked not in known:
        known[asked] = read()
    found: T = known[asked]
    return found


def parse(source: bytes) -> ast.Module | None:
    """The syntax tree of a module; None if it has none. It is shared: nobody changes it.

    CPython 3.11 counts the depth of the tree in one place for all threads, so two that parse at once may make each
    other fail with a SystemError: ours take turns, and a clash with someone else's is tried again.
    """
    with _one_parser:
        for _ in range(_TRIES):
            try:
                return _parsed(source)
            except SystemError:
                continue
            except (SyntaxError, ValueError):
                return None
    return None


@lru_cache(maxsize=8)  # a resume asks for its flow's module once for each step, and a worker resumes many runs of it
def _parsed(source: bytes) -> ast.Module:
    return ast.parse(source)


def digest_function(tree: ast.Module, qualname: str) -> str | None:
    """The digest of the function of that qualified name in a parsed module; None if it is not there."""
    node = _find(tree, [part for part in qualname.split(".") if part != "<locals>"])
    return identity("\n".join(_lines(node)).encode()) if node else None


def is_equal_code(one: str, other: str) -> bool:
    """Whether two files of Python do the same, however they are formatted and commented."""
    try:
        texts = [Path(file).read_bytes() for file in (one, other)]
    except OSError:
        return False
    if texts[0] == texts[1]:
        return True
    trees = [parse(text) for text in texts]
    return None not in trees and list(_lines(trees[0])) == list(_lines(trees[1]))


def function_in(tree: ast.Module, qualname: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function of that qualified name in a parsed module; None if it is not there."""
    found = _find(tree, [part for part in qualname.split(".") if part != "<locals>"])
    return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None


def assigns(tree: ast.Module, name: str) -> bool:
    """Whether a parsed module gives something that name: `report = flow(make_report)`, or an import."""
    for node in scope_of(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [(each.asname or each.name).partition(".")[0] for each in node.names]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each.id for each in targets if isinstance(each, ast.Name)]
        else:
            continue
        if name in names:
            return True
    return False


def _find(tree: ast.AST, path: list[str]) -> _Function | None:
    """The last definition of that name wins, as it does when the module is imported."""
    found: ast.AST | None = None
    for node in scope_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == path[0]:
            found = node
    if found is None:
        return None
    if len(path) > 1:
        return _find(found, path[1:])
    return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None


def scope_of(tree: ast.AST) -> Iterator[ast.AST]:
    """Definitions of one scope, also those under `if`, `try`, `with`."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            yield from scope_of(node)


def _lines(node: Any) -> Iterator[str]:
    """A dump that leaves out what is empty, so that it does not depend on Python's version."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        node = ast.Assign([node.target], node.value)  # `x: int = 1` does what `x = 1` does
    if isinstance(node, ast.AST):
        yield type(node).__name__
        for name, value in ast.iter_fields(node):
            if name not in _SILENT and value not in (None, []):
                yield name
                yield from _lines(_undocumented(value) if name == "body" else _filled(node, value))
        yield "."
    elif isinstance(node, list):
        for item in node:
            yield from _lines(item)
    else:
        yield repr(node)


def _filled(node: ast.AST, value: Any) -> Any:
    """Some versions of Python put empty texts between the parts of an f-string."""
    if not isinstance(node, ast.JoinedStr):
        return value
    return [part for part in value if not (isinstance(part, ast.Constant) and part.value == "")]


def _undocumented(body: Any) -> Any:
    first = body[0] if isinstance(body, list) and body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:]
    return body
