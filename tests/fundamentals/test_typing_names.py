"""A name that only the type checker imports is used in annotations alone: elsewhere it is a NameError for a user."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "outlast"


class _Used(ast.NodeVisitor):
    """Names that are looked up when the code runs: not those of annotations, nor what stands under TYPE_CHECKING."""

    def __init__(self) -> None:
        self.names: list[tuple[str, int]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        defaults = [each for each in (*node.args.defaults, *node.args.kw_defaults) if each is not None]
        for each in (*node.decorator_list, *defaults, *node.body):
            self.visit(each)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        for each in (node.target, node.value):
            if each is not None:
                self.visit(each)

    def visit_If(self, node: ast.If) -> None:
        if _is_for_types(node):
            for each in node.orelse:
                self.visit(each)
        else:
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.names.append((node.id, node.lineno))


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _made(nodes: Iterator[ast.AST]) -> set[str]:
    """The names that imports, assignments and definitions among these nodes make."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names


def undefined(text: str) -> list[tuple[str, int]]:
    """Each name, with its line, that the code uses and only the type checker knows."""
    if "TYPE_CHECKING" not in text:
        return []
    tree = ast.parse(text)
    unseen = {id(n) for each in ast.walk(tree) if _is_for_types(each) for s in each.body for n in ast.walk(s)}  # type: ignore[attr-defined]
    for_types = _made(node for node in ast.walk(tree) if id(node) in unseen)
    for_real = _made(node for node in ast.walk(tree) if id(node) not in unseen)
    used = _Used()
    used.visit(tree)
    return [(name, line) for name, line in used.names if name in for_types - for_real]


def test_no_name_is_known_to_the_type_checker_alone() -> None:
    found = {path: undefined(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
    assert {str(path.relative_to(PACKAGE)): names for path, names in found.items() if names} == {}


def test_the_check_sees_such_a_name_and_leaves_annotations_alone() -> None:
    head = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import B, C\n"
    assert undefined(f"{head}def f(x: B) -> C:\n    return isinstance(x, B)\n") == [("B", 5)]
    assert undefined(f"{head}else:\n    B = late('a')\ndef f(x: C) -> B:\n    y: C = B\n    return y\n") == []
