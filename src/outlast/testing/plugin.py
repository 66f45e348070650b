"""The pytest plugin: the fixture `outlast`, and `--crash-long`. Everything heavy is imported when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from outlast.testing.cases import ScriptedOutlast


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("outlast")
    group.addoption("--crash-long", action="store_true", help="kill many more processes: minutes instead of seconds")


@pytest.fixture
def outlast(tmp_path: Path) -> Iterator[ScriptedOutlast]:
    """On a temporary home. `outlast.clock.advance(3600)` lets time pass, `outlast.script({…})` answers waits."""
    from outlast.testing.cases import ScriptedOutlast

    with closing(ScriptedOutlast(tmp_path / ".outlast")) as opened:
        yield opened


@pytest.fixture(scope="session")
def crash_long(pytestconfig: pytest.Config) -> bool:
    """Whether `--crash-long` was given."""
    return bool(pytestconfig.getoption("--crash-long"))
