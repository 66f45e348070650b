"""The kinds of store that the suite runs on: each opens its own, and looks into it from outside.

The tests in this folder speak the contract alone and run on every one of them; what only one has (a file, its pages,
its locks) is tested in the folder of its name.
"""

import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import apsw
import psycopg
from psycopg.sql import SQL, Identifier

from outlast.store import open as open_store
from outlast.store import url_of
from outlast.store.blobs.bucket import Bucket
from outlast.store.blobs.chosen import BlobsWanted, place_of
from outlast.store.contract import Store
from outlast.store.contract.blobs import Blobs
from outlast.store.postgres.schema import schema_of

from ..kit.postgres import server
from ..kit.seaweed import seaweed


class Backend(Protocol):
    """A store at a place of its own, for one test."""

    kind: str
    place: str  # what another process opens it by

    def open(self, **options: Any) -> Store: ...
    def blobs(self) -> Blobs: ...
    def close(self) -> None: ...
    def damage(self, blob: str) -> None: ...
    def count(self, table: str) -> int: ...


class SqliteFile:
    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.place = str(folder / "outlast.db")
        self._opened: list[Store] = []

    def open(self, **options: Any) -> Store:
        return open_store(url_of(Path(self.place)), **options).store

    def blobs(self) -> Blobs:
        store, blobs = open_store(url_of(Path(self.place)))
        self._opened.append(store)
        return blobs

    def close(self) -> None:
        """Close what the blobs were opened with."""
        while self._opened:
            self._opened.pop().close()

    def damage(self, blob: str) -> None:
        """Change the content behind everybody's back."""
        (Path(self.place).parent / "blobs" / blob[:2] / blob).write_bytes(b"other")

    def count(self, table: str) -> int:
        connection = apsw.Connection(self.place)
        try:
            return int(next(iter(connection.execute(f"SELECT count(*) FROM {table}")))[0])
        finally:
            connection.close()


class PostgresSchema:
    """A tenant of its own in the database of all tests."""

    kind = "postgres"

    def __init__(self, folder: Path) -> None:
        self.url, self.folder, self.tenant = server().url("postgres"), folder, f"t{next(_numbers)}"
        self._opened: list[Store] = []
        self.place = json.dumps({"url": self.url, "tenant": self.tenant, "blobs": str(self.folder / "blobs")})

    def open(self, **options: Any) -> Store:
        return open_store(self.url, tenant=self.tenant, blobs=self.folder / "blobs", **options).store

    def blobs(self) -> Blobs:
        store, blobs = open_store(self.url, tenant=self.tenant, blobs=self.folder / "blobs")
        self._opened.append(store)
        return blobs

    def close(self) -> None:
        """Close what the blobs were opened with."""
        while self._opened:
            self._opened.pop().close()

    def damage(self, blob: str) -> None:
        """Change the content behind everybody's back."""
        (self.folder / "blobs" / blob[:2] / blob).write_bytes(b"other")

    def count(self, table: str) -> int:
        with psycopg.connect(self.url) as connection:
            ask = SQL("SELECT count(*) FROM {}").format(Identifier(schema_of(self.tenant), table))
            ((count,),) = connection.execute(ask)
            return int(count)


class SqliteWithBucket(SqliteFile):
    """The ledger in a file, its content in a bucket."""

    kind = "s3"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.environ.update(seaweed().environment())
        self.wanted = BlobsWanted(seaweed().new_place())
        self.tenant = folder.name

    def open(self, **options: Any) -> Store:
        return open_store(url_of(Path(self.place)), wanted=self.wanted, **options).store

    def blobs(self) -> Blobs:
        store, blobs = open_store(url_of(Path(self.place)), wanted=self.wanted)
        self._opened.append(store)
        return blobs

    def damage(self, blob: str) -> None:
        """Change the content behind everybody's back."""
        objects(self.wanted.url, self.tenant).put(f"{blob[:2]}/{blob}/0", b"other")


def objects(url: str, tenant: str = "") -> Bucket:
    """The objects of a place in a bucket, to look at and to tamper with."""
    return Bucket(place_of(url), tenant)


_numbers = count(1)
BLOBS: dict[str, Callable[[Path], Backend]] = {
    each.kind: each for each in (SqliteFile, PostgresSchema, SqliteWithBucket)
}
BACKENDS: dict[str, Callable[[Path], Backend]] = {each.kind: each for each in (SqliteFile, PostgresSchema)}
