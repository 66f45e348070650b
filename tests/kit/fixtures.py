"""What the tests of the runtime share: a place, and knobs that are reset for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .place import KNOBS, Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A throw-away home that is opened when it is first needed."""
    KNOBS.clear()
    found = Place(tmp_path)
    KNOBS["log"] = str(found.log)
    yield found
    found.close()
    KNOBS.clear()


@pytest.fixture
def other(tmp_path: Path, place: Place) -> Iterator[Place]:
    """A second home, on which the same flows can be found."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    found = Place(folder)
    yield found
    found.close()
