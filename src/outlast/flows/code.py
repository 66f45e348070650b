"""The digest of a step's code: the same after reformatting, commenting, moving; other when it does other work.

It is taken from the syntax tree of the function alone, without decorators, docstrings and annotations.
What a function calls is not followed.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from outlast.values.codec import identity

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
