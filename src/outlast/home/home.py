"""A home, opened: what is kept there for one tenant, and what this process has of it.

Who acts on it is a `Caller` (`home/caller.py`), what executes runs in this process is `Live` (`runs/live.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from outlast.clock import Clock, SystemClock
from outlast.errors import OutlastError, SyncInLoop
from outlast.home.place import FoundHome, look_up, make_folders, marker_of, project_of, tenant_folder
from outlast.home.process import this_process
from outlast.home.settings import Settings, settings_in
from outlast.ids import Ids, random_id
from outlast.ledger.lease import Beat, Process
from outlast.secrets.own import SecretRules, read_own
from outlast.store import open as open_store
from outlast.store import url_of
from outlast.store.contract import Store
from outlast.store.contract.blobs import Blobs


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

        return msgspec.structs.replace(self, store=cast(Store, BoundStore(self.store, scopes)))

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
) -> Home:
    """The home of that name, or the one that is found from here; its files are made when they are first needed."""
    path, adopted = look_up(home)
    chosen, folder = settings or settings_in(path), tenant_folder(path, tenant)
    secrets = SecretRules(read_own(path, chosen.secret_patterns))
    store, blobs = open_store(
        url_of(folder / "outlast.db"),
        marker=marker_of(path, tenant),
        make=lambda: make_folders(path, folder),
        **(store_options or {}),
    )
    opened = Home(
        path=path,
        tenant=tenant,
        folder=folder,
        project=project_of(path),
        store=store,
        blobs=blobs,
        clock=clock or SystemClock(),
        ids=ids,
        settings=chosen,
        process=this_process(ids),
        secrets=secrets,
        adopted=adopted,
    )
    store.listen(lambda line: opened.tell(line))
    return opened


def refuse_loop(what: str) -> None:
    """Raises SyncInLoop when an event loop is running in this thread."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SyncInLoop(what)
