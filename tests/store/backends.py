"""The kinds of store that the suite runs on: each opens its own, and looks into it from outside.

The tests in this folder speak the contract alone and run on every one of them; what only one has (a file, its pages,
its locks) is tested in the folder of its name.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import apsw

from outlast.store import open as open_store
from outlast.store import url_of
from outlast.store.contract import Store
from outlast.store.contract.blobs import Blobs


class Backend(Protocol):
    """A store at a place of its own, for one test."""

    kind: str
    place: str  # what another process opens it by

    def open(self, **options: Any) -> Store: ...
    def blobs(self) -> Blobs: ...
    def damage(self, blob: str) -> None: ...
    def count(self, table: str) -> int: ...


class SqliteFile:
    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.place = str(folder / "outlast.db")

    def open(self, **options: Any) -> Store:
        return open_store(url_of(Path(self.place)), **options).store

    def blobs(self) -> Blobs:
        store, blobs = open_store(url_of(Path(self.place)))
        store.close()
        return blobs

    def damage(self, blob: str) -> None:
        """Change the content behind everybody's back."""
        (Path(self.place).parent / "blobs" / blob[:2] / blob).write_bytes(b"other")

    def count(self, table: str) -> int:
        connection = apsw.Connection(self.place)
        try:
            return int(next(iter(connection.execute(f"SELECT count(*) FROM {table}")))[0])
        finally:
            connection.close()


BACKENDS: dict[str, Callable[[Path], Backend]] = {SqliteFile.kind: SqliteFile}
