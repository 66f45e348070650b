"""The pytest plugin: the fixture `hold`, and `--crash-long`. Everything heavy is imported when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.testing.scripted import ScriptedHoldfast


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("holdfast")
    group.addoption("--crash-long", action="store_true", help="kill many more processes: minutes instead of seconds")


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[ScriptedHoldfast]:
    """A Holdfast on a temporary home. `hold.clock.advance(3600)` lets time pass, `hold.script({…})` answers waits."""
    from contextlib import closing

    from holdfast.testing.scripted import ScriptedHoldfast

    with closing(ScriptedHoldfast(tmp_path / ".holdfast")) as opened:
        yield opened


@pytest.fixture(scope="session")
def crash_long(pytestconfig: pytest.Config) -> bool:
    """Whether `--crash-long` was given."""
    return bool(pytestconfig.getoption("--crash-long"))
