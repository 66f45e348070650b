"""A home, opened: what is kept there for one tenant, and what this process has of it.

Who acts on it is a `Caller` (`home/caller.py`), what executes runs in this process is `Live` (`runs/live.py`). A run
or a wait of it is found here by its id.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from outlast import errors
from outlast.clock import Clock, SharedClock, SystemClock, moment
from outlast.errors import OutlastError
from outlast.home.place import (
    FoundHome,
    look_up,
    make_folders,
    marker_of,
    project_of,
    restoration_of,
    tenant_folder,
    tenants_of,
)
from outlast.home.process import this_process
from outlast.home.settings import Settings, given_in, settings_in
from outlast.ids import Ids, random_id
from outlast.ledger.lease import Beat, Process
from outlast.secrets import SecretRules, read_own
from outlast.store import OpenedStore, bucket_of, url_of
from outlast.store import open as open_store
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.store.contract import InterruptRow, Reading, RunRow, Store
    from outlast.store.contract import blobs as blobs_contract
    from outlast.store.contract.blobs import Blobs
else:
    blobs_contract = late("outlast.store.contract.blobs")


def nobody(line: str) -> None:
    """Stands for who listens while nobody does."""


class HeldRuns(msgspec.Struct, eq=False):
    """The runs that this process has in its hands, by their ids."""

    claimed: set[str] = msgspec.field(default_factory=set)  # and not executed yet
    executing: set[str] = msgspec.field(default_factory=set)
    receiving: set[str] = msgspec.field(default_factory=set)  # whose outcome a caller in this process waits for


class Home(msgspec.Struct, eq=False):
    """One process's hands on what one tenant keeps."""

    path: Path
    tenant: str
    folder: Path  # of the tenant
    project: Path | None  # that the home lies in
    store: Store
    blobs: Blobs
    clock: Clock
    ids: Ids
    settings: Settings
    process: Process
    secrets: SecretRules
    adopted: bool = False  # it was found, and not made here
    database: str = ""  # the URL of its ledger, where that is no file in the folder
    held: HeldRuns = msgspec.field(default_factory=HeldRuns)
    recall_due: dict[str, int] = msgspec.field(default_factory=dict)  # by scope: where its index is looked at next
    tell: Callable[[str], None] = nobody  # is told what people at a terminal should know

    def warn(self, line: str) -> None:
        """Tell whoever listens; if nobody does, it is a warning of Python's."""
        if self.tell is not nobody:
            self.tell(line)
            return
        import warnings

        warnings.warn(line, RuntimeWarning, stacklevel=2)

    def beat(self) -> Beat:
        """This process's sign of life, now."""
        return Beat(self.process, self.clock.boot(), self.clock.now(), self.settings.lease_seconds)

    def bound_to(self, scopes: Collection[str]) -> Home:
        """The same home for who sees these scopes only."""
        from outlast.store.bound import BoundStore

        return msgspec.structs.replace(self, store=cast("Store", BoundStore(self.store, scopes)))

    def close(self) -> None:
        """Let go of the files. Its process is forgotten: it holds nothing any more."""
        try:
            with suppress(OutlastError):  # a row that is left behind is forgotten by others, a day later
                self.store.write(lambda tx: tx.forget_process(self.process.id))
        finally:
            self.store.close()


def open_home(
    home: str | Path | FoundHome | None = None,
    *,
    tenant: str = "default",
    clock: Clock | None = None,
    ids: Ids = random_id,
    settings: Settings | None = None,
    store_options: Mapping[str, Any] | None = None,
    blobs: str | None = None,
) -> Home:
    """The home of that name, or the one that is found from here; its files are made when they are first needed.

    `blobs` is the bucket that it keeps its content in, if it is new or keeps it there already. Raises BlobsElsewhere.
    """
    found = look_up(home)
    found = found._replace(blobs=blobs or found.blobs)
    path, adopted = found.path, found.adopted
    chosen, folder = settings or settings_in(path), tenant_folder(path, tenant)
    secrets = SecretRules(read_own(path, chosen.secret_patterns))
    store, content = _open_store(found, tenant, folder, store_options or {})
    opened = Home(
        path=path,
        tenant=tenant,
        folder=folder,
        project=project_of(path),
        store=store,
        blobs=content,
        clock=clock or (SharedClock(store.ahead) if store.ahead else SystemClock()),
        ids=ids,
        settings=chosen,
        process=this_process(ids),
        secrets=secrets,
        adopted=adopted,
        database=found.database,
    )
    store.listen(lambda line: opened.tell(line))
    return opened


def _open_store(found: FoundHome, tenant: str, folder: Path, options: Mapping[str, Any]) -> OpenedStore:
    """The ledger and its content: in the folder, or in a database that many machines share."""
    wanted = blobs_contract.BlobsWanted(
        found.blobs or os.environ.get("OUTLAST_BLOBS") or str(given_in(found.path).get("blobs") or ""),
        restored=lambda: came.backup if (came := restoration_of(found.path)) else "",
        beside=lambda: _bucket_beside(found, tenant),
    )
    made: dict[str, Any] = {"make": lambda: make_folders(found.path, folder), **options}
    if found.database:
        return open_store(found.database, tenant=tenant, wanted=wanted, **{"blobs": folder / "blobs", **made})
    return open_store(url_of(folder / "outlast.db"), wanted=wanted, marker=marker_of(found.path, tenant), **made)


def _bucket_beside(found: FoundHome, tenant: str) -> str:
    """The bucket of another tenant of the same home: a new one keeps its content there too."""
    for other in [name for name in tenants_of(found) if name != tenant][:1]:
        folder = tenant_folder(found.path, other)
        if found.database:
            store = open_store(found.database, tenant=other, blobs=folder / "blobs").store
        else:
            store = open_store(url_of(folder / "outlast.db"), marker=marker_of(found.path, other)).store
        try:
            return bucket_of(store)
        finally:
            store.close()
    return ""


def refuse_loop(what: str) -> None:
    """Raises SyncInLoop when an event loop is running in this thread."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise errors.SyncInLoop(what)


# -- runs and waits by their ids, or by a unique prefix of one ----------------------------------------


def run_row(home: Home, run_id: str) -> RunRow:
    """A run by its id or a unique prefix of it. Raises RunNotFound, RunRemoved, AmbiguousPrefix."""
    rows = home.store.read(lambda look: look.runs_by_prefix(run_id)) if run_id else []
    if run_id and not rows:
        _refuse_removed(home, run_id)
    if not rows:
        raise errors.RunNotFound(run_id)
    found: RunRow = _only(rows, run_id)
    return found


def interrupt_row(look: Reading, interrupt_id: str) -> InterruptRow:
    """A wait by its id or a unique prefix of it. Raises InterruptNotFound, AmbiguousPrefix."""
    rows = look.interrupts_by_prefix(interrupt_id) if interrupt_id else []
    if not rows:
        raise errors.InterruptNotFound(interrupt_id)
    found: InterruptRow = _only(rows, interrupt_id)
    return found


def _refuse_removed(home: Home, prefix: str) -> None:
    """Raises RunRemoved when the run that is asked for was there once."""
    for stone in home.store.read(lambda look: look.tombstones_by_prefix(prefix))[:1]:
        at = f"{moment(stone.removed_at):%Y-%m-%d %H:%M} UTC"
        raise errors.RunRemoved(stone.id, stone.status, stone.removed_by, at)


def _only(rows: list[Any], prefix: str) -> Any:
    exact = [row for row in rows if row.id == prefix]
    if exact:
        return exact[0]
    if len(rows) > 1:
        raise errors.AmbiguousPrefix(prefix, ", ".join(row.id for row in rows))
    return rows[0]
