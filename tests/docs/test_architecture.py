"""The page of the rooms and the tree say the same."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fundamentals.test_order import ORDER, PACKAGE, room_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
DRAWN = re.compile(r"^([a-z_/]+\.py) +[├└│─ ]*([A-Z]\w+\.\w+|\w+)", re.MULTILINE)
DECIDED = re.compile(r"`([\w.]+)` in `([a-z_/]+\.py)`")


def test_the_page_lists_every_room_in_the_order_of_imports() -> None:
    there = {room_of(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    rows = [set(re.findall(r"`([^`]+)`", line.split("|")[1])) for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == [rooms & there for rooms in ORDER if rooms & there]


def test_every_file_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", PAGE) + [file for file, _ in DRAWN.findall(PAGE)]
    assert len(named) > 60
    assert [name for name in named if not (PACKAGE / name).is_file()] == []


def test_what_decides_is_where_the_page_says() -> None:
    assert len(DECIDED.findall(PAGE)) > 10
    assert [f"{name} in {file}" for name, file in DECIDED.findall(PAGE) if name not in defined_in(file)] == []


def defined_in(file: str) -> set[str]:
    """The functions and classes of a file, and the methods as `Class.method` and alone."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / file).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


@pytest.fixture(scope="module")
def traced() -> list[list[str]]:
    """The frames of one step call and of one recover, each as `file:function`, in order."""
    words = [sys.executable, str(ROOT / "bench" / "walk.py"), "--frames"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [part.split()[1:] for part in re.split(r"^one .*: ", told, flags=re.MULTILINE)[1:]]


@pytest.mark.parametrize("number", [0, 1], ids=["step", "recover"])
def test_the_drawings_are_what_a_trace_sees(number: int, traced: list[list[str]]) -> None:
    """Everything drawn is passed, and first in the order in which it is drawn."""
    drawn = [f"{file}:{name}" for file, name in DRAWN.findall(PAGE.split("## The walk of one ")[number + 1])]
    assert len(drawn) > 8
    assert [each for each in drawn if each not in traced[number]] == []
    assert sorted(drawn, key=traced[number].index) == drawn
