import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import failpoints
from outlast.store.contract import Store
from outlast.store.contract.blobs import Blobs

from ..kit.seaweed import seaweed
from .backends import BACKENDS, BLOBS, Backend

Open = Callable[..., Store]


@pytest.fixture(params=BACKENDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of store: each test that has one runs on all."""
    return str(request.param)


@pytest.fixture
def backend(kind: str, tmp_path: Path) -> Iterator[Backend]:
    made = BLOBS[kind](tmp_path)
    yield made
    made.close()


@pytest.fixture
def open_store(backend: Backend) -> Iterator[Open]:
    """Open the store, again and again if need be; all are closed at the end."""
    opened: list[Store] = []

    def open_again(**options: Any) -> Store:
        opened.append(backend.open(**options))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Open) -> Store:
    return open_store()


@pytest.fixture
def blobs(backend: Backend) -> Blobs:
    return backend.blobs()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> str:
    """A place of its own in a bucket, and an environment in which it is found."""
    for name, said in seaweed().environment().items():
        monkeypatch.setenv(name, said)
    return seaweed().new_place()


@pytest.fixture
def disk_store(kind: str) -> Iterator[Store]:
    """A store on a disk, where a commit takes time: only then is there something to share."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        store = BACKENDS[kind](Path(folder)).open()
        yield store
        store.close()


@pytest.fixture
def reached() -> Iterator[Counter[str]]:
    """How often each point of the commit path was reached."""
    seen: Counter[str] = Counter()
    failpoints.arm(lambda name: seen.update([name]))
    yield seen
    failpoints.arm(None)
