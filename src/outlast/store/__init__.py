"""The ledger and its content: the only room that knows a database or how blobs are kept.

`open` gives both by the protocols of `contract/`; what a caller types against is there, and never a backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.errors import Invalid
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from outlast.store.contract import Store
    from outlast.store.contract.blobs import Blobs
    from outlast.store.contract.keys import KeyStore


class OpenedStore(NamedTuple):
    """A tenant's ledger and its content. The ledger is to be closed."""

    store: Store
    blobs: Blobs


def url_of(path: Path) -> str:
    """The URL of a database in a file."""
    return f"sqlite:{path}"


def open(url: str, **options: Any) -> OpenedStore:
    """The store at a URL, made when it is missing, and the blobs that belong to it. `sqlite:PATH` is a file.

    `options` are the backend's own. Raises Invalid for a URL of no backend, and what opening it raises.
    """
    scheme, _, place = url.partition(":")
    if scheme != "sqlite":
        raise Invalid(detail=f"there is no store for {url!r:.200}: a URL is `sqlite:PATH`")
    from pathlib import Path

    from outlast.store.blobs.folder import FolderBlobs
    from outlast.store.sqlite.open import SqliteStore

    path = Path(place)
    return OpenedStore(SqliteStore(path, **options), FolderBlobs(path.parent / "blobs"))


def open_keys(home: Path) -> KeyStore:
    """The API keys of a home. Nothing is opened or made until there is something to read or write."""
    from outlast.store.sqlite.keys import KeyFile

    return KeyFile(home)
