"""A home for each test, and one server for all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..kit import temporal
from .support import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("TEMPORAL_FOLDER", str(tmp_path))
    found = Home(tmp_path, temporal.server().address)
    yield found
    found.close()
