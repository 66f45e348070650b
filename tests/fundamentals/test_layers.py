"""Imports point one way: doors -> sdk -> runtime -> store -> domain.

`broken_rules` reads the syntax trees of a package and lists every line that breaks a rule. Imports inside
functions, under TYPE_CHECKING and through `importlib.import_module` count like any other. The first tests
hold the real package to the rules; the rest hold the checker to its word on packages that break them.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"

GROUND = {"errors", "clock", "ids", "failpoints"}
INSIDE = GROUND | {"domain", "runtime", "sdk"}
DOOR = INSIDE | {"holdfast"}

# Each module or folder of the package, and what else of ours it may import. A new one gets its row here.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "clock": {"errors"},
    "ids": {"errors", "clock"},
    "failpoints": {"errors"},
    "domain": {"errors", "clock"},
    "store": GROUND | {"domain"},
    "runtime": GROUND | {"domain", "store"},
    "sdk": GROUND | {"domain", "store", "runtime"},
    "holdfast": INSIDE,  # the package's own __init__: the public names
    "testing": DOOR | {"store"},
    "cli": DOOR | {"api", "mcp", "hooks"},
    "api": DOOR | {"mcp"},
    "mcp": DOOR,
    "hooks": DOOR,
    "console": DOOR,
}

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
        tree = ast.parse(path.read_text("utf-8"), filename=str(path))
        at = path.relative_to(package)
        found += [f"{at}:{line}: {what}" for line, what in sorted(_broken_in(tree, at, package))]
    return found


def _broken_in(tree: ast.Module, at: Path, package: Path) -> Iterator[tuple[int, str]]:
    layer = _layer_of(at)
    if layer not in MAY_IMPORT:
        yield 1, f"{layer} has no place among the layers: give it a row in MAY_IMPORT"
    for line, module in _imports(tree, at, package.name):
        if module.split(".")[0] in BANNED:
            yield line, f"imports {module}"
        target = _target_layer(module, package)
        if target and target != layer and target not in MAY_IMPORT.get(layer, {target}):
            yield line, f"{layer} imports {target} ({module})"
    if layer != "store":
        yield from ((line, "SQL outside store/") for line, text in _strings(tree) if _is_sql(text))


def _stray_sql_files(package: Path) -> list[Path]:
    return [path for path in sorted(package.rglob("*.sql")) if path.relative_to(package).parts[0] != "store"]


def _layer_of(at: Path) -> str:
    first = at.parts[0].removesuffix(".py")
    return "holdfast" if first == "__init__" else first


def _target_layer(module: str, package: Path) -> str | None:
    """The layer a dotted name belongs to, None when it is not ours."""
    root, *rest = module.split(".")
    if root != package.name:
        return None
    if rest and ((package / rest[0]).is_dir() or (package / f"{rest[0]}.py").is_file()):
        return rest[0]
    return "holdfast"


def _imports(tree: ast.Module, at: Path, root: str) -> Iterator[tuple[int, str]]:
    """Each imported dotted name, made absolute; `from x import y` is `x.y`, since y may be a module."""
    inside = [root, *at.parts[:-1]]  # the package that a relative import starts from, also in an __init__.py
    for node in ast.walk(tree):
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


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """String literals with their lines, f-strings as one text; docstrings are prose and left out."""
    skipped = {id(constant) for constant in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = (str(p.value) if isinstance(p, ast.Constant) else "x" for p in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _is_sql(text: str) -> bool:
    return bool(SHOUTED.search(text) or SPOKEN.search(text))


# The real package


def test_imports_point_one_way_and_sql_lives_in_the_store() -> None:
    assert broken_rules(PACKAGE) == []


def test_the_layers_that_the_rules_name_are_there() -> None:
    there = {_layer_of(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    assert {"holdfast", "errors", "domain", "store", "runtime", "sdk", "cli"} <= there


# The checker itself


def package_of(root: Path, files: dict[str, str]) -> Path:
    package = root / "holdfast"
    for layer in ("domain", "store", "runtime", "sdk", "cli"):
        files = {f"{layer}/__init__.py": ""} | files
    for name, source in ({"errors.py": "", "clock.py": ""} | files).items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(source, "utf-8")
    return package


def test_a_package_that_keeps_the_rules_has_none_broken(tmp_path: Path) -> None:
    package = package_of(
        tmp_path,
        {
            "__init__.py": "from holdfast.sdk import Holdfast\nfrom .errors import Refused\n",
            "domain/run.py": "import json\nfrom holdfast.errors import Refused\nfrom .step import Step\n",
            "store/sqlite.py": "import apsw\nfrom ..domain.run import Run\nREAD = 'SELECT * FROM runs'\n",
            "store/sql/shared/run.sql": "SELECT 1;\n",
            "runtime/steps.py": "from holdfast.store import contract\nfrom . import leases\n",
            "sdk/flow.py": "from holdfast import runtime\n",
            "cli/show.py": '"""UPDATE runs SET x: in a docstring."""\nfrom holdfast import Holdfast\n'
            'HELP = "Select a run from the list, or delete from it."\nPEM = "-----BEGIN PRIVATE KEY-----"\n',
        },
    )
    assert broken_rules(package) == []


@pytest.mark.parametrize(
    ("file", "source", "found"),
    [
        ("domain/run.py", "import holdfast.store\n", "1: domain imports store (holdfast.store)"),
        ("domain/run.py", "from holdfast import store\n", "1: domain imports store (holdfast.store)"),
        ("domain/run.py", "from holdfast import Run\n", "1: domain imports holdfast (holdfast.Run)"),
        ("domain/run.py", "from .. import store\n", "1: domain imports store (holdfast.store)"),
        ("domain/run.py", "from ..sdk.flow import flow\n", "1: domain imports sdk (holdfast.sdk.flow.flow)"),
        ("domain/__init__.py", "from ..store import x\n", "1: domain imports store (holdfast.store.x)"),
        ("domain/deep/run.py", "from ...store import x\n", "1: domain imports store (holdfast.store.x)"),
        (
            "store/sqlite.py",
            "\nfrom holdfast.runtime import x\n",
            "2: store imports runtime (holdfast.runtime.x)",
        ),
        ("runtime/steps.py", "from holdfast.sdk import x\n", "1: runtime imports sdk (holdfast.sdk.x)"),
        ("runtime/steps.py", "from holdfast import Run\n", "1: runtime imports holdfast (holdfast.Run)"),
        ("sdk/flow.py", "from holdfast.cli import main\n", "1: sdk imports cli (holdfast.cli.main)"),
        ("cli/run.py", "from holdfast.store import x\n", "1: cli imports store (holdfast.store.x)"),
        (
            "cli/run.py",
            "def f():\n    import holdfast.store.sqlite\n",
            "2: cli imports store (holdfast.store.sqlite)",
        ),
        (
            "cli/run.py",
            "if TYPE_CHECKING:\n    from ..store import x\n",
            "2: cli imports store (holdfast.store.x)",
        ),
        (
            "cli/run.py",
            "importlib.import_module('holdfast.store')\n",
            "1: cli imports store (holdfast.store)",
        ),
        ("errors.py", "from holdfast.domain import run\n", "1: errors imports domain (holdfast.domain.run)"),
        ("shared.py", "", "1: shared has no place among the layers: give it a row in MAY_IMPORT"),
        ("runtime/steps.py", "import pickle\n", "1: imports pickle"),
        ("runtime/steps.py", "def f():\n    from pickle import loads\n", "2: imports pickle.loads"),
        ("store/sqlite.py", "import sqlite3 as db\n", "1: imports sqlite3"),
    ],
)
def test_an_import_that_breaks_a_rule_is_named(tmp_path: Path, file: str, source: str, found: str) -> None:
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
    package = package_of(tmp_path, {"runtime/steps.py": f"x = {literal}\n"})
    assert broken_rules(package) == ["runtime/steps.py:1: SQL outside store/"]


def test_a_sql_file_outside_the_store_is_named(tmp_path: Path) -> None:
    package = package_of(tmp_path, {"runtime/claim.sql": "SELECT 1;\n"})
    assert broken_rules(package) == ["runtime/claim.sql:1: SQL outside store/"]
