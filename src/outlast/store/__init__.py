"""The ledger and its content: the only room that knows a database or how blobs are kept.

`open` gives both by the protocols of `contract/`; what a caller types against is there, and never a backend.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from outlast import errors
from outlast.errors import Invalid
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from pathlib import Path

    from outlast.store import postgres as server
    from outlast.store.blobs import chosen, folder
    from outlast.store.contract import KeyStore, NewTables, Store, Tables
    from outlast.store.contract.blobs import Blobs, BlobsWanted
    from outlast.store.sqlite import file
    from outlast.store.sqlite import tables as files
else:
    chosen = late("outlast.store.blobs.chosen")
    folder = late("outlast.store.blobs.folder")
    server = late("outlast.store.postgres")
    file = late("outlast.store.sqlite.file")
    files = late("outlast.store.sqlite.tables")


class OpenedStore(NamedTuple):
    """A tenant's ledger and its content. The ledger is to be closed."""

    store: Store
    blobs: Blobs


@contextmanager
def _extra() -> Iterator[None]:
    """Raises ExtraMissing where the driver of PostgreSQL is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise errors.ExtraMissing("a store on PostgreSQL", "postgres") from error


def url_of(path: Path) -> str:
    """The URL of a database in a file."""
    return f"sqlite:{path}"


def open(url: str, **options: Any) -> OpenedStore:
    """The store at a URL, made when it is missing, and the blobs that belong to it.

    `sqlite:PATH` is a file. `postgresql://…` is a database, with `blobs` as the folder of its content and `tenant` as
    whose schema it is. The content is in a folder, unless the ledger remembers a bucket, or one is `wanted`. `options`
    are the backend's own. Raises Invalid for a URL of no backend, ExtraMissing, and what opening it raises.
    """
    scheme, _, place = url.partition(":")
    if scheme == "sqlite":
        return _open_file(place, **options)
    if scheme in ("postgresql", "postgres"):
        return _open_server(url, **options)
    raise Invalid(detail=f"there is no store for {url!r:.200}: a URL is `sqlite:PATH` or `postgresql://…`")


def _open_file(place: str, *, wanted: BlobsWanted | None = None, **options: Any) -> OpenedStore:
    from pathlib import Path

    from outlast.store.sqlite.open import SqliteStore

    path = Path(place)
    if wanted is not None and wanted.url and not path.exists():
        inspect(path, options.get("marker"))  # one that is lost is told first
        chosen.refuse_unusable(wanted.url, path.parent.name, path.parent / "blobs")
    return _with_blobs(SqliteStore(path, **options), path.parent / "blobs", path.parent.name, wanted)


def _open_server(
    url: str, *, blobs: Path | None = None, wanted: BlobsWanted | None = None, **options: Any
) -> OpenedStore:
    with _extra():
        kind = server.PostgresStore
    if blobs is None:
        raise Invalid(detail="a store on PostgreSQL keeps its content in a folder: none is named")
    tenant, asked = options.get("tenant", "default"), wanted.url if wanted else ""
    store = kind(url, before=lambda: chosen.refuse_unusable(asked, tenant, blobs), **options)
    return _with_blobs(store, blobs, tenant, wanted, look_now=False)


def _with_blobs(
    store: Store, blobs: Path, tenant: str, wanted: BlobsWanted | None, *, look_now: bool = True
) -> OpenedStore:
    try:
        return OpenedStore(store, chosen.blobs_for(store, blobs, tenant, wanted, look_now=look_now))
    except BaseException:
        store.close()
        raise


def open_tables(home: Path, tenant: str, database: str = "") -> Tables:
    """The tables of a tenant's ledger, to be read while nobody writes."""
    if database:
        with _extra():
            return server.SchemaTables(database, tenant)
    return files.FileTables(home / tenant / "outlast.db")


def open_new_tables(home: Path, tenant: str, database: str, marker: Path, *, whole: bool) -> NewTables | None:
    """The tables of a ledger that is being made; None where it is there and `whole`. Raises HomeNotEmpty."""
    if whole and (tenant in tenants_in(database) if database else (home / tenant / "outlast.db").exists()):
        return None
    if database:
        with _extra():
            return server.NewSchema(database, tenant)
    return files.NewFile(home / tenant / "outlast.db", marker)


def open_unpublished(home: Path, tenant: str, database: str) -> OpenedStore:
    """A ledger that is being made and has no name yet, to look at it."""
    if database:
        return _open_server(database, tenant=tenant, blobs=home / tenant / "blobs", is_moving=True)
    return _open_file(str(home / tenant / "outlast.db.moving"))


def blobs_of(home: Path, tenant: str) -> Blobs:
    """The content of a tenant that is in its folder: without what only its ledger has."""
    return folder.FolderBlobs(home / tenant / "blobs")


def bucket_of(store: Store) -> str:
    """The URL of the bucket that a ledger remembers; nothing where its content is in a folder."""
    found = store.read_also(chosen.chosen_in)
    return found.url if found else ""


def tenants_in(database: str) -> list[str]:
    """Every tenant that has a ledger in a database."""
    with _extra():
        return server.tenants_of(database)


def inspect(path: Path, marker: Path | None) -> None:
    """Nothing, if a database of ours is there or may be made. Raises StoreLost, StoreForeign, StoreNewer."""
    file.inspect(path, marker)


def remember(marker: Path) -> None:
    """Note that a database was made: one that is gone later is not made anew."""
    file.remember(marker)


def open_keys(home: Path, database: str = "") -> KeyStore:
    """The API keys of a home, or of a database. Nothing is opened or made until there is something to read or write."""
    if database:
        with _extra():
            return server.KeyTable(database)
    from outlast.store.sqlite.keys import KeyFile

    return KeyFile(home)
