"""Imports point one way: each room imports the rooms before it in `ORDER`, and a door only what is public.

`broken_rules` reads the syntax trees of a package and lists every line that breaks a rule. Imports inside
functions, under TYPE_CHECKING and through `importlib.import_module` count like any other. What went against the order
when the rooms were made is listed in `against_the_order.txt`: that list may only shrink. The first tests hold the real
package to the rules; the rest hold the checker to its word on packages that break them.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "outlast"
LISTED = Path(__file__).with_name("against_the_order.txt")
MOST = {"order": 0, "doors": 0}  # of those: lower them with the list, never raise them

# Each room, and the modules of the ground, in the order in which they may import each other: from left to right only.
# What stands in one set is side by side, and imports nothing of its neighbours.
ORDER: list[set[str]] = [
    *({"errors"}, {"clock"}, {"ids", "failpoints"}, {"values"}),
    *({"ledger"}, {"secrets"}, {"store"}, {"files"}, {"home"}, {"flows"}, {"workspace"}, {"resources"}),
    *({"runs"}, {"commands"}, {"handoffs"}, {"tasks", "sessions"}, {"care"}),
    *({"operations"}, {"python"}, {"outlast"}, {"remote"}, {"worker"}, {"adapters"}),
    *({"doors/hooks", "doors/mcp"}, {"doors/http"}, {"doors/console"}, {"doors/cli"}, {"testing"}),
]
RULED = (ast.Attribute, ast.Import, ast.ImportFrom, ast.Call, ast.JoinedStr, ast.Constant, ast.Expr)
RANK = {room: number for number, rooms in enumerate(ORDER) for room in rooms}
GROUND = {"errors", "clock", "ids", "failpoints", "values"}
PUBLIC = GROUND | {"outlast", "python", "remote", "operations", "worker", "adapters"}  # what a door may import

# What these load runs as code, or opens a database with a second SQLite library in the same process.
BANNED = {"pickle", "cloudpickle", "dill", "shelve", "marshal", "sqlite3", "pysqlite3", "aiosqlite"}

# Capital letters are never prose; small ones are SQL only where the whole shape of a statement is there.
SHOUTED = re.compile(
    r"\A\s*(?:SELECT|INSERT|UPDATE|DELETE|REPLACE|PRAGMA|SAVEPOINT|VACUUM)\s"
    r"|\bSELECT\b.*\bFROM\b|\bINSERT\s+(?:OR\s+\w+\s+)?INTO\b|\bUPDATE\s+\w+\s+SET\b|\bDELETE\s+FROM\b"
    r"|\b(?:CREATE|ALTER|DROP)\s+(?:TEMP\s+|UNIQUE\s+|VIRTUAL\s+)*(?:TABLE|INDEX|VIEW|TRIGGER)\b"
    r"|\bBEGIN\s+(?:IMMEDIATE|EXCLUSIVE|DEFERRED|TRANSACTION)\b",
    re.DOTALL,
)
SPOKEN = re.compile(
    r"\A\s*(?:"
    r"select\s+(?:\*|\w+\([^)]*\)|[\w.]+(?:\s*,\s*[\w.]+)*)\s+from\s+\w+"
    r"|insert\s+(?:or\s+\w+\s+)?into\s+\w+\s*(?:\(|values\b|select\b|default\b)"
    r"|update\s+(?:or\s+\w+\s+)?\w+\s+set\s+\w+\s*="
    r"|delete\s+from\s+\w+\s*(?:where\b|;|\Z)"
    r"|create\s+(?:table|index|unique\s+index|view|trigger)\s+\w+"
    r"|begin\s+immediate\b)",
    re.IGNORECASE,
)


def broken_rules(package: Path) -> list[str]:
    """Every broken rule of the package as `path:line: what is wrong`, in a stable order."""
    found = [f"{path.relative_to(package)}:1: SQL outside store/" for path in _stray_sql_files(package)]
    for path in sorted(package.rglob("*.py")):
        at = path.relative_to(package)
        found += [f"{at}:{line}: {what}" for line, what in sorted(_broken_in(nodes_of(path), at, package))]
    return found


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """The nodes of its syntax tree that a rule is about, each after the one it is in: read once for all rules."""
    tree = ast.parse(path.read_text("utf-8"), filename=str(path))
    return [node for node in ast.walk(tree) if isinstance(node, RULED)]


def _broken_in(tree: list[ast.AST], at: Path, package: Path) -> Iterator[tuple[int, str]]:
    room = room_of(at)
    if room not in RANK and room != "doors":
        yield 1, f"{room} has no place among the rooms: give it one in ORDER"
    yield from ((line, f"imports {module}") for line, module in _imports(tree, at, package.name) if _is_banned(module))
    if room.startswith("doors"):
        yield from _reached_through(tree)
    if room != "store":
        yield from ((line, "SQL outside store/") for line, text in _strings(tree) if _is_sql(text))


def _reached_through(tree: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """What is taken of a private part of something else: a door calls what is public, and asks for no insides."""
    for node in tree:
        match node:
            case ast.Attribute(value=ast.Attribute(value=of, attr=inner), attr=attr) if inner.startswith("_"):
                if not inner.startswith("__") and not _is_itself(of):
                    yield node.lineno, f"reaches through {inner} for {attr}"


def _is_itself(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def against_the_order(package: Path) -> dict[str, set[str]]:
    """The imports that go against the order, and those of doors that are not public, as `module -> module`."""
    found: dict[str, set[str]] = {"order": set(), "doors": set()}
    for path in sorted(package.rglob("*.py")):
        at = path.relative_to(package)
        for _, name in _imports(nodes_of(path), at, package.name):
            target = _file_of(name, package)
            rule = None if target is None else _rule_broken(room_of(at), room_of(target))
            if rule and target:
                found[rule].add(f"{_module(at)} -> {_module(target)}")
    return found


def _rule_broken(room: str, target: str) -> str | None:
    if room == target or room not in RANK or target not in RANK:
        return None  # a room without a place is named by `broken_rules`
    if RANK[target] >= RANK[room]:
        return "order"
    is_door = room.startswith("doors") and not target.startswith("doors")
    return "doors" if is_door and target not in PUBLIC else None


def _is_banned(module: str) -> bool:
    return module.split(".")[0] in BANNED


def _stray_sql_files(package: Path) -> list[Path]:
    return [path for path in sorted(package.rglob("*.sql")) if path.relative_to(package).parts[0] != "store"]


def room_of(at: Path) -> str:
    """The room of a file of the package, by its folder; `doors` has a room for each door."""
    first = at.parts[0].removesuffix(".py")
    if first == "doors" and len(at.parts) > 2:
        return f"doors/{at.parts[1]}"
    return {"__init__": "outlast", "__main__": "doors/cli"}.get(first, first)


def _module(at: Path) -> str:
    name = ".".join(at.with_suffix("").parts)
    return name.removesuffix("__init__").rstrip(".") or "outlast"


def _file_of(name: str, package: Path) -> Path | None:
    """The file that a dotted name of ours is in, None when it is not ours."""
    root, *rest = name.split(".")
    while root == package.name:
        place = Path(*rest)
        for file in (place.with_suffix(".py") if rest else place, place / "__init__.py"):
            if (package / file).is_file():
                return file
        if not rest:
            return None
        rest.pop()
    return None


def _imports(tree: list[ast.AST], at: Path, root: str) -> Iterator[tuple[int, str]]:
    """Each imported dotted name, made absolute; `from x import y` is `x.y`, since y may be a module."""
    inside = [root, *at.parts[:-1]]  # the package that a relative import starts from, also in an __init__.py
    for node in tree:
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = inside[: len(inside) - level + 1] if level else []
                start = ".".join([*base, module] if module else base)
                yield from ((node.lineno, f"{start}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def _strings(tree: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """String literals with their lines, f-strings as one text; docstrings are prose and left out."""
    skipped = {id(constant) for constant in _docstrings(tree)}
    for node in tree:
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = (str(p.value) if isinstance(p, ast.Constant) else "x" for p in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def _docstrings(tree: list[ast.AST]) -> Iterator[ast.Constant]:
    for node in tree:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _is_sql(text: str) -> bool:
    return bool(SHOUTED.search(text) or SPOKEN.search(text))


# The real package


def listed() -> dict[str, set[str]]:
    """What is listed, by its rule."""
    found: dict[str, set[str]] = {}
    for line in LISTED.read_text("utf-8").splitlines():
        if line.startswith("# "):
            rule = found.setdefault(line[2:].partition(":")[0], set())
        elif line:
            rule.add(line)
    return found


def test_sql_lives_in_the_store_and_nothing_loads_code() -> None:
    assert broken_rules(PACKAGE) == []


@pytest.mark.parametrize("rule", MOST)
def test_no_import_goes_against_the_order_but_those_listed(rule: str) -> None:
    """One that is new is to be turned; one that was turned leaves the list."""
    found, known = against_the_order(PACKAGE)[rule], listed()[rule]
    assert (sorted(found - known), sorted(known - found)) == ([], [])


def test_the_list_only_shrinks() -> None:
    assert {rule: len(lines) for rule, lines in listed().items()} == MOST


def test_the_rooms_that_the_order_names_are_there() -> None:
    there = {room_of(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    assert there - {"doors"} == set(RANK)


# The checker itself


def package_of(root: Path, files: dict[str, str]) -> Path:
    package = root / "outlast"
    for room in ("values", "store", "runs", "python", "doors", "doors/cli", "doors/mcp"):
        files = {f"{room}/__init__.py": ""} | files
    for name, source in ({"__init__.py": "", "errors.py": "", "clock.py": ""} | files).items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(source, "utf-8")
    return package


def test_a_package_that_keeps_the_rules_has_none_broken(tmp_path: Path) -> None:
    package = package_of(
        tmp_path,
        {
            "__init__.py": "from outlast.python import Outlast\nfrom .errors import Refused\n",
            "values/run.py": "import json\nfrom outlast.errors import Refused\nfrom .step import Step\n",
            "store/sqlite.py": "import apsw\nfrom ..values.run import Run\nREAD = 'SELECT * FROM runs'\n",
            "store/sql/shared/run.sql": "SELECT 1;\n",
            "runs/steps.py": "from outlast.store import contract\nfrom . import leases\n",
            "python/flow.py": "from outlast import runs\n",
            "doors/cli/show.py": '"""UPDATE runs SET x: in a docstring."""\nfrom outlast import Outlast\n'
            "from outlast.doors.mcp import tools\n"
            "self._kept.append(outlast._acting())\n"
            'HELP = "Select a run from the list, or delete from it."\nPEM = "-----BEGIN PRIVATE KEY-----"\n',
        },
    )
    assert broken_rules(package) == []
    assert against_the_order(package) == {"order": set(), "doors": set()}


@pytest.mark.parametrize(
    ("file", "source", "rule", "found"),
    [
        ("values/run.py", "import outlast.store\n", "order", "values.run -> store"),
        ("values/run.py", "from outlast import store\n", "order", "values.run -> store"),
        ("values/run.py", "from outlast import Run\n", "order", "values.run -> outlast"),
        ("values/run.py", "from .. import store\n", "order", "values.run -> store"),
        ("values/run.py", "from ..python.flow import flow\n", "order", "values.run -> python"),
        ("values/__init__.py", "from ..store import x\n", "order", "values -> store"),
        ("values/deep/run.py", "from ...store import x\n", "order", "values.deep.run -> store"),
        ("store/sqlite.py", "\nfrom outlast.runs import x\n", "order", "store.sqlite -> runs"),
        ("runs/steps.py", "from outlast.python import x\n", "order", "runs.steps -> python"),
        ("runs/steps.py", "from outlast import Run\n", "order", "runs.steps -> outlast"),
        ("python/flow.py", "from outlast.doors.cli import main\n", "order", "python.flow -> doors.cli"),
        ("doors/mcp/run.py", "from outlast.doors.cli import x\n", "order", "doors.mcp.run -> doors.cli"),
        ("doors/cli/run.py", "from outlast.store import x\n", "doors", "doors.cli.run -> store"),
        ("doors/cli/run.py", "def f():\n    import outlast.runs\n", "doors", "doors.cli.run -> runs"),
        ("doors/cli/run.py", "if TYPE_CHECKING:\n    from ...store import x\n", "doors", "doors.cli.run -> store"),
        ("doors/cli/run.py", "importlib.import_module('outlast.store')\n", "doors", "doors.cli.run -> store"),
        ("errors.py", "from outlast.values import run\n", "order", "errors -> values"),
    ],
)
def test_an_import_against_the_order_is_named(tmp_path: Path, file: str, source: str, rule: str, found: str) -> None:
    other = "doors" if rule == "order" else "order"
    assert against_the_order(package_of(tmp_path, {file: source})) == {rule: {found}, other: set()}


@pytest.mark.parametrize(
    ("file", "source", "found"),
    [
        ("shared.py", "", "1: shared has no place among the rooms: give it one in ORDER"),
        ("runs/steps.py", "import pickle\n", "1: imports pickle"),
        ("runs/steps.py", "def f():\n    from pickle import loads\n", "2: imports pickle.loads"),
        ("store/sqlite.py", "import sqlite3 as db\n", "1: imports sqlite3"),
        ("doors/cli/run.py", "outlast._executor.home.store.read(x)\n", "1: reaches through _executor for home"),
        ("doors/mcp/run.py", "self.outlast._line.url\n", "1: reaches through _line for url"),
    ],
)
def test_what_breaks_a_rule_is_named(tmp_path: Path, file: str, source: str, found: str) -> None:
    assert broken_rules(package_of(tmp_path, {file: source})) == [f"{file}:{found}"]


@pytest.mark.parametrize(
    "literal",
    [
        "'SELECT 1'",
        "'SELECT id FROM runs'",
        "'select id, status from runs where id = ?'",
        "'SELECT ' + columns",
        "f'SELECT {columns} FROM {table}'",
        "'''\n  INSERT INTO runs VALUES (?)'''",
        "'insert or ignore into runs (id) values (1)'",
        "'update runs set status = ?'",
        "'DELETE FROM runs'",
        "'delete from runs where id = 1'",
        "'WITH due AS (SELECT id FROM runs) UPDATE runs SET due = 1'",
        "'CREATE TABLE runs (id TEXT)'",
        "'PRAGMA journal_mode=WAL'",
        "'BEGIN IMMEDIATE'",
    ],
)
def test_sql_in_a_string_outside_the_store_is_named(tmp_path: Path, literal: str) -> None:
    package = package_of(tmp_path, {"runs/steps.py": f"x = {literal}\n"})
    assert broken_rules(package) == ["runs/steps.py:1: SQL outside store/"]


def test_a_sql_file_outside_the_store_is_named(tmp_path: Path) -> None:
    package = package_of(tmp_path, {"runs/claim.sql": "SELECT 1;\n"})
    assert broken_rules(package) == ["runs/claim.sql:1: SQL outside store/"]
