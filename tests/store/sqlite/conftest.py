from pathlib import Path

import pytest

from ..backends import SqliteFile


@pytest.fixture
def kind() -> str:
    return SqliteFile.kind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file that `store` and `open_store` open."""
    return Path(SqliteFile(tmp_path).place)
