"""The embedded store: one SQLite file per tenant, WAL, every commit synced.

Owns opening, settings, the translation of driver errors and the refusal of forked handles. What is written
and how it is batched is `writer.py`; the statements are in `sql/`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from outlast import errors
from outlast.ids import chance
from outlast.ledger.journal import JournalEntry, Row
from outlast.store.commits import Item
from outlast.store.contract import DatabaseRoom, Hold, Plain, Reading, Writing
from outlast.store.disk import FilesystemOf, filesystem_of, refuse_network
from outlast.store.nouns.rows import statements
from outlast.store.sqlite.file import (
    NO_TABLES,
    copy_database,
    differences,
    inspect,
    migrate,
    refuse_foreign,
    refuse_lost,
    remember,
    why_unwritable,
)
from outlast.store.sqlite.transaction import StoreReader, Transaction
from outlast.store.sqlite.writer import Writer
from outlast.values.private import make_file

if TYPE_CHECKING:
    from outlast.store.sqlite.read_only import ReadConnections, Refusing

T = TypeVar("T")
BUSY_SECONDS = 60.0
LOOKS = 20  # at a file that cannot be locked and keeps changing

_open: dict[str, int] = {}  # files open in this process, by their real paths
_inherited: set[str] = set()  # files that were open when this process was forked: unsafe here for good
_forks = 0
_opening = threading.Lock()  # from a look at a file by a plain handle until it counts as open


def _after_fork() -> None:
    global _forks
    _forks += 1
    _inherited.update(_open)


os.register_at_fork(after_in_child=_after_fork)


class SqliteStore:
    """A tenant's ledger in one file. See contract.Store."""

    ahead: Callable[[], int] | None = None  # a file has no clock of its own
    _memo: dict[Any, Any] | None = None

    def __init__(
        self,
        path: Path,
        *,
        vfs: str | None = None,
        synchronous: str = "FULL",
        filesystem: FilesystemOf = filesystem_of,
        busy_seconds: float = BUSY_SECONDS,
        marker: Path | None = None,
        make: Callable[[], object] = lambda: None,
    ) -> None:
        """`marker` notes that there is a database; `make` is called once it is clear that one may be made."""
        self.place, self._file = str(path), os.path.realpath(path)
        self._vfs, self._synchronous, self._busy_seconds = vfs, synchronous, busy_seconds
        self._forks = _forks
        self.live = 0  # runs being executed on this store; an event loop commits inline only while it is one
        self._tells: tuple[Callable[[], None], ...] = ()
        self._refuse_forked()
        self._filesystem = filesystem
        refuse_network(path.parent, filesystem)
        self._sql = statements("sqlite")
        self._lock = threading.RLock()  # content may be asked for while something is looked at
        self._closed = False
        self._marker, self._looking = marker, None
        with _opening:
            if not _open.get(self._file):
                inspect(path, marker)
            make()
            with suppress(OSError):  # what cannot be made is told by who opens it
                make_file(path)  # under the lock: closing a file ends the locks that this process has on it
            _open[self._file] = _open.get(self._file, 0) + 1
        try:
            self._open_file(path)
        except BaseException as error:
            self._forget()
            if isinstance(error, apsw.Error):
                raise self.translate(error) from error
            raise

    _looking: ReadConnections | None
    _writer: Writer | Refusing

    def _open_file(self, path: Path) -> None:
        """The connections: one that writes and one that reads; or where nothing can be written, one that reads."""
        if why := why_unwritable(path):
            from outlast.store.sqlite.read_only import ReadConnections, Refusing  # late: hardly any home is read-only

            self._looking = ReadConnections(path, why, self._vfs)
            self._writer, self._reader = Refusing(self.place, why), self._reads(self._looking.connect())
        else:
            self._writer = Writer(self._connect_writer, self.translate, self._connect_copier, self._empty_log)
            self._reader = self._reads(self._connect())
            if self._marker is not None:
                remember(self._marker)
        opened = os.stat(self.place)
        self._inode = (opened.st_dev, opened.st_ino)
        self._looked_after = 0  # how many commits there were when the file was found there

    @property
    def read_only(self) -> str:
        """Why nothing can be written; "" where it can."""
        return self._looking.why if self._looking else ""

    # -- the contract ----------------------------------------------------------------------------

    def put(self, hold: Hold, entries: Sequence[JournalEntry]) -> Item:
        if self._forks != _forks:
            self._refuse_forked()
        return self._writer.put(Item(hold, entries))

    def put_work(self, work: Callable[[Writing], Any], plain: Plain | None = None) -> Item:
        if self._forks != _forks:
            self._refuse_forked()
        return self._writer.put(Item(None, (), work, plain))

    def append_now(self, hold: Hold, entry: JournalEntry) -> bool:
        if self._forks != _forks:
            self._refuse_forked()
        return self._writer.append_if_free(hold, entry)

    def append(self, hold: Hold, entry: JournalEntry) -> None:
        if self._forks != _forks:
            self._refuse_forked()
        self._writer.append(hold, entry)

    def append_later(self, hold: Hold, entry: JournalEntry) -> Awaitable[None]:
        if self._forks != _forks:
            self._refuse_forked()
        return self._writer.append_later(hold, entry)

    def finish(self, ticket: Item) -> Any:
        self._writer.commit(ticket)
        return ticket.result

    def finish_soon(self, ticket: Item) -> Awaitable[None] | None:
        if self.live <= 1 and self._writer.commit_if_free(ticket):
            return None
        return self._writer.commit_later(ticket)

    def finish_surely(self, ticket: Item) -> Awaitable[None] | None:
        if self.live <= 1 and self._writer.commit_if_free(ticket):
            return None
        return self._writer.written(ticket)

    def write(self, work: Callable[[Writing], T], plain: Plain | None = None) -> T:
        result: T = self.finish(self.put_work(work, plain))
        self.still_there(after_commit=True)
        for tell in self._tells:
            tell()
        return result

    def write_soon(self, work: Callable[[Writing], Any]) -> None:
        self._writer.commit_soon(self.put_work(work))

    def read(self, look: Callable[[Reading], T]) -> T:
        if self._forks != _forks:
            self._refuse_forked()
        with self._lock:
            try:
                return self._read(look) if self._looking is None else self._read_still(look, self._looking)
            except apsw.Error as error:
                raise self.translate(error) from error

    def _read(self, look: Callable[[Reading], T]) -> T:
        reader = self._reader
        try:
            reader.execute("BEGIN")
            return look(reader)
        finally:
            if not reader.connection.getautocommit():  # a Ctrl-C may come before or after it has begun
                reader.execute("COMMIT")

    def _read_still(self, look: Callable[[Reading], T], looking: ReadConnections) -> T:
        """Read what nobody locks for us: again, if the file turns out to have changed meanwhile."""
        for _ in range(LOOKS):
            if looking.changed():
                self._reader.connection.close()
                tell, self._reader = self._reader.tell, self._reads(looking.connect())
                self._reader.tell = tell
            try:
                found = self._read(look)
            except apsw.Error:
                if not looking.changed():
                    raise
                continue
            if not looking.changed():
                return found
        raise errors.StoreBusy(self.place, self._busy_seconds)

    def version(self) -> int:
        """SQLite counts the commits of others for each connection: for the one that only reads, all of them."""
        with self._lock, self._translated():
            return int(self._reader.connection.execute("PRAGMA data_version").get)

    def when_written(self, tell: Callable[[], None]) -> Callable[[], None]:
        with self._lock:
            self._tells = (*self._tells, tell)

        def end() -> None:
            with self._lock:
                self._tells = tuple(each for each in self._tells if each is not tell)

        return end

    def ask(self, question: Callable[[Reading], T]) -> T:
        return self.read(question)

    def read_also(self, look: Callable[[Reading], T]) -> T:
        with self._lock:
            if not self._closed and not self._reader.connection.getautocommit():  # we are in a look of our own
                return look(self._reader)
        return self.read(look)

    def content(self, name: str) -> bytes | None:
        return self.read_also(lambda look: look.content_of(name))

    def entries_after(self, chain: int, after: int, limit: int) -> list[Row]:
        return self.read_also(lambda look: look.journal_of(chain, after, limit))

    def wakes(self) -> bool:
        return False  # a file tells nobody

    def listen(self, tell: Callable[[str], None]) -> None:
        self._reader.tell = tell

    def remember(self) -> None:
        self._memo = self._reader.memo = {}

    def _reads(self, connection: apsw.Connection) -> StoreReader:
        reader = StoreReader(connection, self._sql)
        reader.entries_after, reader.memo = self.entries_after, self._memo
        return reader

    def still_there(self, *, after_commit: bool = False) -> None:
        commits = self._writer.commits
        if after_commit and commits == self._looked_after:
            return
        try:
            now = os.stat(self.place)
        except OSError:
            now = None
        if now is None or (now.st_dev, now.st_ino) != self._inode:
            raise errors.StoreFailed(self.place, "the file was removed or replaced while it was open")
        self._looked_after = commits

    def facts(self) -> dict[str, Any]:
        self._refuse_forked()
        pragma = self._reader.connection.pragma
        return {
            "path": self.place,
            "sqlite": apsw.sqlite_lib_version(),
            "apsw": apsw.apsw_version(),
            "schema": pragma("user_version"),
            "journal_mode": pragma("journal_mode") if self._looking is None else "wal",
            "read_only": self.read_only,
            "synchronous": self._synchronous,
            "size_bytes": Path(self.place).stat().st_size,
            "filesystem": self._filesystem(Path(self.place)) or "unknown",
        }

    def check(self) -> list[str]:
        self._refuse_forked()
        with self._lock:
            try:
                found = [row[0] for row in self._reader.execute("PRAGMA integrity_check(20)")]
                odd = list(differences(self._reader.connection))
            except (apsw.Error, UnicodeDecodeError) as error:
                return [str(self.translate(error) if isinstance(error, apsw.Error) else error)]
        return odd + ([] if found == ["ok"] else [str(line) for line in found])

    def room(self) -> DatabaseRoom:
        self._refuse_forked()
        with self._lock:
            pragma = self._reader.connection.pragma
            pages, free, size = pragma("page_count"), pragma("freelist_count"), pragma("page_size")
        return DatabaseRoom(pages * size, free * size)

    def copy_to(self, place: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        self._refuse_forked()
        with self._translated():
            if self._looking is None:
                with closing(self._connect()) as connection:
                    copy_database(connection, place, progress)
                return
            with self._lock:
                copy_database(self._reader.connection, place, progress)
                if self._looking.changed():
                    raise errors.StoreBusy(self.place, self._busy_seconds)

    def vacuum(self) -> None:
        self._refuse_forked()
        with self._translated():
            self._writer.vacuum()

    def close(self) -> None:
        if self._forks != _forks:
            return  # the parent's handles are not ours to close
        with self._lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        self._writer.close()
        with self._lock:
            self._reader.connection.close()
        if self._looking is not None:
            self._looking.close()
        self._forget()

    def _forget(self) -> None:
        with _opening:
            _open[self._file] = _open.get(self._file, 1) - 1
            if not _open[self._file]:
                del _open[self._file]

    # -- opening ---------------------------------------------------------------------------------

    def _refuse_forked(self) -> None:
        if self._file in _inherited:
            raise errors.StoreForked(self.place)

    def _connect_writer(self) -> Transaction:
        connection = self._connect()
        with _closed_on_error(connection):
            migrate(connection, self.place, lambda: refuse_lost(Path(self.place), self._marker, NO_TABLES))
            connection.pragma("temp_store", "MEMORY")  # else what a savepoint needs goes to a file, in every commit
        tx = Transaction(connection, self._sql)
        tx.entries_after = self.entries_after
        return tx

    def _connect_copier(self) -> apsw.Connection:
        """To the file that we have open: none is made where that is gone, and what took its place is left alone."""
        connection = apsw.Connection(self.place, flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs)
        with _closed_on_error(connection):
            self.still_there()
            self._set_up(connection)
        return connection

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self.place, vfs=self._vfs, statementcachesize=200)
        with _closed_on_error(connection):
            self._set_up(connection)
        return connection

    def _set_up(self, connection: apsw.Connection) -> None:
        connection.set_busy_handler(_patient(self._busy_seconds))
        if connection.pragma("journal_mode") != "wal":
            refuse_foreign(connection, self.place)
            self._switch_to_wal(connection)
        connection.pragma("synchronous", self._synchronous)
        connection.pragma("foreign_keys", True)
        connection.pragma("trusted_schema", False)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # else a statement is prepared anew for other values

    def _switch_to_wal(self, connection: apsw.Connection) -> None:
        """Several processes may be making the store at once."""

        def switch() -> Any:
            connection.pragma("page_size", 4096)
            return connection.pragma("journal_mode", "WAL")

        mode = self._insist(switch)
        if mode != "wal":
            raise errors.StoreFailed(self.place, f"its journal cannot be a WAL here, only {mode!r}")

    def _empty_log(self, connection: apsw.Connection) -> None:
        """Copy all of the log into the database and cut it off, whoever else is copying it now."""
        self._insist(lambda: connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE))

    def _insist(self, do: Callable[[], T]) -> T:
        """Do what others may be in the way of, where SQLite does not always ask the busy handler."""
        wait, until = _patient(self._busy_seconds), time.monotonic() + self._busy_seconds
        for tries in count():
            try:
                return do()
            except apsw.BusyError:
                if time.monotonic() > until or not wait(tries):
                    raise
        raise AssertionError

    def translate(self, error: apsw.Error) -> errors.OutlastError:
        """Our error for a driver's: the only place where they meet."""
        match error:
            case apsw.BusyError() | apsw.LockedError():
                return errors.StoreBusy(self.place, self._busy_seconds)
            case apsw.FullError():
                return errors.DiskFull(self.place)
            case apsw.ReadOnlyError() | apsw.PermissionsError():
                return errors.StoreReadOnly(self.place, str(error))
            case apsw.CantOpenError() if not os.access(folder := Path(self.place).parent, os.W_OK):
                return errors.StoreReadOnly(self.place, f"no permission to write in {folder}")
            case apsw.CantOpenError():
                return errors.StoreFailed(self.place, str(error))
            case apsw.NotADBError() | apsw.CorruptError():
                return errors.StoreForeign(self.place, str(error))
            case apsw.ConstraintError() if str(error).startswith("it was moved to "):
                return errors.StoreReadOnly(self.place, str(error))
            case apsw.TooBigError():
                return errors.Invalid(detail=f"a record is too big for the store: {error}")
            case _:
                return errors.StoreFailed(self.place, f"{type(error).__name__}: {error}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self.translate(error) from error


@contextmanager
def _closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    """A connection that could not be made ready is let go of now, not when it is collected."""
    try:
        yield
    except BaseException:
        with suppress(apsw.Error):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # what is refused stays as it was, log and all
            connection.close(True)
        raise


def _patient(limit_seconds: float) -> Callable[[int], bool]:
    """Wait for other processes in short, uneven naps: fair under contention, and never a user's problem."""
    started = 0.0

    def wait(tries: int) -> bool:
        nonlocal started
        now = time.monotonic()
        if tries == 0:
            started = now
        if now - started > limit_seconds:
            return False
        time.sleep(0.0002 + chance() * min(0.001 * (tries + 1), 0.01))
        return True

    return wait
