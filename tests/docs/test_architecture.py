"""The page of the rooms and the tree say the same."""

import re
from pathlib import Path

from tests.fundamentals.test_order import ORDER, PACKAGE, room_of

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text("utf-8")


def test_the_page_lists_every_room_in_the_order_of_imports() -> None:
    there = {room_of(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    rows = [set(re.findall(r"`([^`]+)`", line.split("|")[1])) for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == [rooms & there for rooms in ORDER if rooms & there]


def test_every_file_of_the_two_readings_is_there() -> None:
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", PAGE)
    assert len(named) > 10
    assert [name for name in named if not (PACKAGE / name).is_file()] == []
