from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import failpoints
from holdfast.store.sqlite import SqliteStore

Open = Callable[..., SqliteStore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def open_store(path: Path) -> Iterator[Open]:
    """Open the store, again and again if need be; all are closed at the end."""
    opened: list[SqliteStore] = []

    def open_again(**options: Any) -> SqliteStore:
        opened.append(SqliteStore(path, **options))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Open) -> SqliteStore:
    return open_store()


@pytest.fixture
def reached() -> Iterator[Counter[str]]:
    """How often each point of the commit path was reached."""
    seen: Counter[str] = Counter()
    failpoints.arm(lambda name: seen.update([name]))
    yield seen
    failpoints.arm(None)
