"""The house stays one that can be entered: few files on a corridor, a class name for one idea, one way to be lazy."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from .test_order import PACKAGE

FILES = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
N = TypeVar("N", bound=ast.AST)

SAME_IDEA = {"Worker"}  # what a caller is given, and what does it


def test_no_corridor_has_more_than_45_doors() -> None:
    found = Counter(str(path.parent.relative_to(PACKAGE)) for path in FILES)
    assert {folder: files for folder, files in found.items() if files > 45} == {}


def test_few_files_are_too_small_for_an_idea() -> None:
    small = [str(path.relative_to(PACKAGE)) for path, text in FILES.items() if text.count("\n") < 60]
    assert len([name for name in small if not name.endswith("__init__.py")]) < 20, small


def test_a_class_name_stands_for_one_idea() -> None:
    """Private ones are their file's own."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, node in nodes(ast.ClassDef):
        found[node.name].append(str(path.relative_to(PACKAGE)))
    assert {n: at for n, at in found.items() if len(at) > 1 and n[0] != "_" and n not in SAME_IDEA} == {}


def test_imports_inside_functions_are_few() -> None:
    """What is loaded late stands at the top, by `values/late.py`; this is for what not even that may load."""
    late = {
        (path, each.lineno)
        for path, node in (*nodes(ast.FunctionDef), *nodes(ast.AsyncFunctionDef))
        for each in statements(node)
        if isinstance(each, ast.Import | ast.ImportFrom)
    }
    assert len(late) < 120


def nodes(kind: type[N]) -> Iterator[tuple[Path, N]]:
    return ((path, node) for path, node in every_node() if isinstance(node, kind))


@cache
def every_node() -> list[tuple[Path, ast.AST]]:
    return [(path, node) for path, text in FILES.items() for node in statements(ast.parse(text))]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements in a node, and in those; what they are made of is left out."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(node, name, ())
        for each in inside if isinstance(inside, list) else ():
            yield each
            yield from statements(each)
