"""`outlast move`: a home taken from a folder to a database, from a database to a folder, or to another of its kind.

Nothing is lost, and at no moment do both homes go on. All of it is copied beside its new name first: files, keys,
content, and every row of every table. It is compared row by row and verified. Then the old home is sealed, so that it
can be read and nobody can write to it, and only then the new one gets its name. Who is killed anywhere in between
repeats the same command: what is there already is compared, and what is missing is copied.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from hashlib import sha256

import msgspec
from msgspec import Struct

from outlast import failpoints
from outlast.care.backup import files_of
from outlast.care.verify import verify
from outlast.clock import SystemClock
from outlast.errors import HomeNotFound, IntegrityBroken, Invalid
from outlast.home.caller import Caller
from outlast.home.home import Home, open_home
from outlast.home.place import FoundHome, make_folders, marker_of, tenant_folder, tenants_of
from outlast.home.process import this_process
from outlast.home.settings import Settings
from outlast.ids import random_id
from outlast.secrets import SecretRules
from outlast.store import OpenedStore, blobs_of, bucket_of, open_keys, open_new_tables, open_tables, open_unpublished
from outlast.store.contract import NewTables, Row, Table, Tables
from outlast.store.disk import sync_file, sync_folder
from outlast.values.private import make_folder

PAGE = 500  # rows at a time
CHAINED = ("chains", "journal", "messages", "memos", "task_events", "proofs")

Progress = Callable[[str, int], None]  # what is being copied, and how much of it


def nobody(what: str, done: int) -> None:
    """Stands for who watches while nobody does."""


class MovedTenant(Struct, frozen=True):
    """What was proven of one tenant: the same in both homes."""

    tenant: str
    rows: dict[str, int]  # of each table
    chains: str  # SHA-256 of every entry of every chain, byte for byte
    blobs: int  # that were copied: none of those in a bucket, which both homes know
    records: int  # that `verify` has looked at, in both


class MovedHome(Struct, frozen=True):
    """A home that was moved."""

    source: str
    to: str
    tenants: tuple[MovedTenant, ...]
    keys: int
    files: int


def move_home(source: FoundHome, to: FoundHome, *, progress: Progress = nobody) -> MovedHome:
    """Take everything of a home elsewhere, and seal it where it was. May be repeated until it has returned.

    Raises HomeNotFound, HomeNotEmpty for a place where another home is, IntegrityBroken for a home that does not
    verify, Invalid while its runs are being executed or for one that was moved elsewhere.
    """
    tenants = tenants_of(source)
    if not tenants:
        raise HomeNotFound(source.name)
    if source.name == to.name:
        raise Invalid(detail=f"{source.name} cannot be moved to itself")
    buckets = {tenant: _refuse_busy(source, tenant) for tenant in tenants}
    files, keys = _copy_files(source, to), _copy_keys(source, to)
    with ExitStack() as held:
        moves = [held.enter_context(closing(_Move(source, to, tenant, progress))) for tenant in tenants]
        proven = tuple(each.copied(bucket) for each, bucket in zip(moves, buckets.values(), strict=True))
        for each in moves:
            each.seal()
        for each in moves:
            each.publish()
    return MovedHome(source.name, to.name, proven, keys, files)


def _refuse_busy(source: FoundHome, tenant: str) -> str:
    """The bucket that its content is in, if it is.

    Raises Invalid while somebody executes runs, IntegrityBroken for what does not verify.
    """
    home = open_home(source, tenant=tenant)
    try:
        now, holders = home.clock.now(), home.store.read(lambda look: look.holders())
        if any(now - beat.wall_us < beat.lease_seconds * 1_000_000 for beat in holders):
            raise Invalid(detail=f"runs of {source.name} are being executed now; stop them, and move it then")
        _checked(home)
        return bucket_of(home.store)
    finally:
        home.store.close()


def _checked(home: Home) -> int:
    """How many records were looked at. Raises IntegrityBroken."""
    found = verify(Caller(home, "local", "default"))
    if found.problems:
        first = found.problems[0]
        why = f"{first.why}; a home is moved whole or not at all"
        raise IntegrityBroken(f"{home.store.place}: {first.record}", why)
    return found.runs + found.entries + found.blobs + found.handoffs + found.records


# -- what lies beside the ledger --------------------------------------------------------------------------


def _copy_files(source: FoundHome, to: FoundHome) -> int:
    """Settings, what hooks noted, work folders: every plain file that is no database, no content and not derived."""
    make_folders(to.path, to.path / "default")
    count = 0
    for file in files_of(source.path, mirror=True, left_out=[]):
        if "/blobs/" in f"/{file.name}" or file.name == "keys.db":
            continue
        target = to.path / file.name
        if not target.exists() or target.read_bytes() != file.path.read_bytes():
            make_folder(target.parent)
            shutil.copy2(file.path, f"{target}.moving")
            os.replace(f"{target}.moving", target)
            sync_file(target)
            sync_folder(target.parent)
        count += 1
    failpoints.reached("move.files")
    return count


def _copy_keys(source: FoundHome, to: FoundHome) -> int:
    with closing(open_keys(source.path, source.database)) as old, closing(open_keys(to.path, to.database)) as new:
        rows, there = old.all(), {row.id: row for row in new.all()}
        for row in rows:
            if row.id not in there:
                new.add(row)
            elif row.revoked_at and not there[row.id].revoked_at:
                new.revoke(there[row.id], row.revoked_at)
    failpoints.reached("move.keys")
    return len(rows)


# -- a tenant ---------------------------------------------------------------------------------------------


class _Move:
    """One tenant on its way. Nobody writes to the old ledger while this is open."""

    def __init__(self, source: FoundHome, to: FoundHome, tenant: str, progress: Progress) -> None:
        self._source, self._to, self._tenant, self._tell = source, to, tenant, progress
        self._old = open_tables(source.path, tenant, source.database)
        sealed = self._old.sealed()
        if sealed and sealed != to.name:
            self._old.close()
            raise Invalid(detail=f"{source.name} was moved to {sealed}: that is the home now")
        self.is_sealed, self._new = bool(sealed), self._opened(bool(sealed))

    def _opened(self, is_sealed: bool) -> NewTables | None:
        """The ledger that is being made; None once it has its name."""
        marker = marker_of(self._to.path, self._tenant)
        try:
            return open_new_tables(self._to.path, self._tenant, self._to.database, marker, whole=is_sealed)
        except BaseException:
            self._old.close()
            raise

    def copied(self, bucket: str) -> MovedTenant:
        """Copy what is missing and prove that both are the same. Content that is in a bucket stays there."""
        blobs = 0 if bucket else _copy_blobs(self._source, self._to, self._tenant, self._tell)
        tables = self._old.tables()
        if self._new is None:
            counts, chains = _counted(self._old, tables)
            return MovedTenant(self._tenant, counts, chains, blobs, 0)
        _copy_tables(self._old, self._new, tables, self._tell)
        self._new.set_last_numbers(self._old.last_numbers())
        failpoints.reached("move.numbers")
        counts, chains = _counted(self._old, tables)
        if _counted(self._new, self._new.tables()) != (counts, chains):
            raise IntegrityBroken(self._new.place, "its rows are not those of the home that it was copied from")
        return MovedTenant(self._tenant, counts, chains, blobs, self._verified())

    def _verified(self) -> int:
        """What `verify` says of the new one, before it has its name."""
        opened = open_unpublished(self._to.path, self._tenant, self._to.database)
        try:
            return _checked(_home_of(self._to, self._tenant, opened))
        finally:
            opened.store.close()

    def seal(self) -> None:
        if not self.is_sealed:
            self._old.seal(self._to.name)
        failpoints.reached("move.sealed")

    def publish(self) -> None:
        if self._new is not None:
            self._new.publish()
        failpoints.reached("move.published")

    def close(self) -> None:
        self._old.close()
        if self._new is not None:
            self._new.close()


def _home_of(found: FoundHome, tenant: str, opened: OpenedStore) -> Home:
    """A home around a ledger that has no name yet, to look at it."""
    return Home(
        path=found.path,
        tenant=tenant,
        folder=tenant_folder(found.path, tenant),
        project=None,
        store=opened.store,
        blobs=opened.blobs,
        clock=SystemClock(),
        ids=random_id,
        settings=Settings(),
        process=this_process(random_id),
        secrets=SecretRules(()),
        database=found.database,
    )


def _copy_blobs(source: FoundHome, to: FoundHome, tenant: str, tell: Progress) -> int:
    """Every blob, also of the trash; what is there already is read through and left."""
    old, new = blobs_of(source.path, tenant), blobs_of(to.path, tenant)
    names = [blob.name for shelf in old.trash().shelves() for blob in (*shelf.blobs, *shelf.trash)]
    for number, name in enumerate(names, 1):
        new.keep(name, old.pieces(name))
        failpoints.reached("move.blob")
        tell(f"{tenant}: content", number)
    return len(names)


def _copy_tables(old: Tables, new: NewTables, tables: list[Table], tell: Progress) -> None:
    """Every row. Where both differ, all from there on is copied anew, with the tables that may refer to it."""
    for number, table in enumerate(tables):
        for after, rows, there in _pages(old, new, table):
            if rows == there:
                continue
            if there:
                new.clear(tables[number:], table, after)
            for page in _rows_after(old, table, after):
                new.put(table, page)
                failpoints.reached("move.rows")
                tell(table.name, len(page))
            break


def _pages(old: Tables, new: Tables, table: Table) -> Iterator[tuple[Row, list[Row], list[Row]]]:
    """The same stretch of a table in both: beyond which key, and its rows there."""
    after: Row = ()
    while True:
        rows, there = old.rows(table, after, PAGE), new.rows(table, after, PAGE)
        yield after, rows, there
        if not rows:
            return
        after = table.key_of(rows[-1])


def _rows_after(tables: Tables, table: Table, after: Row) -> Iterator[list[Row]]:
    while rows := tables.rows(table, after, PAGE):
        yield rows
        after = table.key_of(rows[-1])


def _counted(tables: Tables, each: list[Table]) -> tuple[dict[str, int], str]:
    """How many rows each table has, and a digest of all that is chained, byte for byte."""
    counts, chained = dict[str, int](), sha256()
    for table in each:
        counts[table.name] = 0
        for rows in _rows_after(tables, table, ()):
            counts[table.name] += len(rows)
            if table.name in CHAINED:
                chained.update(msgspec.msgpack.encode(rows))
    return counts, chained.hexdigest()
