"""The store on PostgreSQL: a schema for each tenant, one connection that writes and a few that read.

Owns opening, the pool of readers, who hears what others write, and the refusal of forked handles. What is written and
how it is batched is `writer.py`; the statements are in `sql/`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from typing import Any, TypeVar

from psycopg import Error as DriverError
from psycopg import RawCursor
from psycopg.sql import SQL, Identifier
from psycopg_pool import ConnectionPool, PoolTimeout

from outlast.errors import Invalid, OutlastError, StoreBusy, StoreForeign, StoreForked
from outlast.ids import random_id
from outlast.ledger.journal import JournalEntry, Row
from outlast.store.commits import Item
from outlast.store.contract import DatabaseRoom, Hold, Plain, PlainStore, Reading, Writing
from outlast.store.nouns.rows import newest_version
from outlast.store.postgres import connection as driver
from outlast.store.postgres.connection import Link, connect, named_statements, noticing, place_of, refuse_lent, set_up
from outlast.store.postgres.schema import differences, lock_of, migrate, moving_of, schema_of, tables
from outlast.store.postgres.transaction import MARKED, PostgresReader, PostgresTransaction
from outlast.store.postgres.writer import PATIENCE_SECONDS, PostgresWriter

PROBE_SECONDS = 30.0  # between two words of our own, and how long one is waited for
LOOK_SECONDS = 0.5  # between two looks at whether it is to end
AGAIN_SECONDS = 1.0  # before a lost connection is made anew


def channel_of(schema: str) -> str:
    """The channel of a tenant."""
    return f"{schema} written"


class Listener:
    """One thread that hears what other processes write, on a connection of its own, until it is closed: who waits is
    told at once, and need not ask. `hears` is whether what is said arrives.

    Every piece of work says so when it commits (NOTIFY); appends do not, which change nothing that anybody waits for.
    Where notifications do not arrive, as behind a pooler that lends connections by the transaction, that is noticed: a
    word of our own is not heard, and who waits goes on asking.
    """

    def __init__(self, url: str, schema: str, tell: Callable[[], None]) -> None:
        self._url, self._schema, self._tell = url, schema, tell
        self._ending, self.hears = threading.Event(), False
        self._thread = threading.Thread(target=self._live, name="outlast-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._ending.set()
        self._thread.join(2)

    def _live(self) -> None:
        while not self._ending.is_set():
            with suppress(DriverError, OSError), connect(self._url, self._schema) as connection:
                self._listen(connection)
            self.hears = False
            self._ending.wait(AGAIN_SECONDS)

    def _listen(self, connection: Link) -> None:
        channel = channel_of(self._schema)
        connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
        while not self._ending.is_set():
            word = random_id()
            with connect(self._url, self._schema) as other:  # what a session says to itself proves nothing
                other.execute("SELECT pg_notify($1, $2)", (channel, word))
            self.hears = self._heard(connection, word)

    def _heard(self, connection: Link, word: str) -> bool:
        """Tell of all that is heard until the next probe is due; whether our own word was among it."""
        found, until = False, time.monotonic() + PROBE_SECONDS
        while time.monotonic() < until and not self._ending.is_set():
            for note in connection.notifies(timeout=0):
                found = found or note.payload == word
                self.hears = self.hears or found
                self._tell()
            select([connection.fileno()], [], [], LOOK_SECONDS)  # the driver's own wait wakes ten times a second
        return found


# -- the store ---------------------------------------------------------------------------------------


T = TypeVar("T")
READERS = 4
# Every statement of work has its index, as in SQLite. Plans are kept: one that was made while tables were small would
# read them whole with every commit, until the server has counted them anew.
_BY_INDEX = "; ".join(f"SET {how} = off" for how in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"))
_ALONE = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class _Look(threading.local):
    """The connection of the look that a thread is in."""

    connection: Link | None = None


class PostgresStore:
    """A tenant's ledger in a schema of its own. See contract.Store."""

    read_only = ""
    _memo: dict[Any, Any] | None = None

    def __init__(
        self,
        url: str,
        *,
        tenant: str = "default",
        patience_seconds: float = PATIENCE_SECONDS,
        busy_seconds: float = PATIENCE_SECONDS,
        is_moving: bool = False,
        before: Callable[[], None] = lambda: None,
        make: Callable[[], object] = lambda: None,
    ) -> None:
        """`busy_seconds`: no longer than that is waited for a server that is away, and for others who write;
        `is_moving`: it has no name yet.

        `before` is called before a schema is made, which is not if it raises; `make` once it is there.
        """
        patience_seconds = min(patience_seconds, busy_seconds)
        self._busy_seconds = busy_seconds if busy_seconds < PATIENCE_SECONDS else driver.BUSY_SECONDS
        self._url, self._tenant, self._schema, self._pid = url, tenant, schema_of(tenant), os.getpid()
        if is_moving:
            self._tenant, self._schema = "", moving_of(self._schema)
        self.place = place_of(url, self._schema)
        self.live = 0  # runs being executed on this store; an event loop commits inline only while it is one
        self._sql, self._lock, self._closed = named_statements(), threading.Lock(), False
        self._tells: tuple[Callable[[], None], ...] = ()
        self._tell: Callable[[str], None] | None = None
        self._told: set[str] = set()
        self._seen, self._version = "", 0
        self._look = _Look()
        self._listener: Listener | None = None
        self._before, self._marked = before, f"{MARKED}{time.time_ns() // 1000:020d} {random_id()}"
        self._gaps: dict[int, int] = {}  # entries before which one is missing, and the transactions to wait for
        with self._translated():
            self._writer = PostgresWriter(self._connect_writer, self.translate, patience_seconds)
        try:
            make()
        except BaseException:
            self._writer.close()
            raise
        self._readers: ConnectionPool[Link] = ConnectionPool(
            noticing(url),
            kwargs={"autocommit": True, "cursor_factory": RawCursor, "client_encoding": "utf8"},
            configure=lambda connection: set_up(connection, self._schema),
            min_size=0,
            max_size=READERS,
            num_workers=1,
            timeout=patience_seconds,
            open=True,
        )

    # -- the contract ----------------------------------------------------------------------------

    def put(self, hold: Hold, entries: Sequence[JournalEntry]) -> Item:
        self._refuse_forked()
        return self._writer.put(Item(hold, entries))

    def append_now(self, hold: Hold, entry: JournalEntry) -> bool:
        self._refuse_forked()
        return self._writer.append_if_free(hold, entry)

    def append(self, hold: Hold, entry: JournalEntry) -> None:
        self._refuse_forked()
        self._writer.append(hold, entry)

    def append_later(self, hold: Hold, entry: JournalEntry) -> Awaitable[None]:
        self._refuse_forked()
        return self._writer.append_later(hold, entry)

    def put_work(self, work: Callable[[Writing], Any], plain: Plain | None = None) -> Item:
        self._refuse_forked()
        known = None if isinstance(plain, PlainStore) else plain  # a handoff is stored by its work
        return self._writer.put(Item(None, (), work, known))

    def finish(self, ticket: Item) -> Any:
        self._writer.commit(ticket)
        return ticket.result

    def finish_soon(self, ticket: Item) -> Awaitable[None] | None:
        if self.live <= 1 and ticket.hold is not None and self._writer.commit_if_free(ticket):
            return None  # a start or an end is more than one way to the server, and others may come with it
        return self._writer.commit_later(ticket)

    def finish_surely(self, ticket: Item) -> Awaitable[None] | None:
        if self.live <= 1 and ticket.hold is not None and self._writer.commit_if_free(ticket):
            return None
        return self._writer.written(ticket)

    def write(self, work: Callable[[Writing], T], plain: Plain | None = None) -> T:
        result: T = self.finish(self.put_work(work, plain))
        self._tell_all()
        return result

    def write_soon(self, work: Callable[[Writing], Any]) -> None:
        self._writer.commit_soon(self.put_work(work))

    def read(self, look: Callable[[Reading], T]) -> T:
        """A look whose connection is lost is done again, from its beginning."""
        self._refuse_forked()
        with self._translated():
            return self._on_reader(lambda connection: self._look_on(connection, look))

    def ask(self, question: Callable[[Reading], T]) -> T:
        """One way to the server and back, where a look has three."""
        self._refuse_forked()
        with self._translated():
            return self._on_reader(lambda connection: question(self._reader(connection)))

    def _look_on(self, connection: Link, look: Callable[[Reading], T]) -> T:
        reader = self._reader(connection)
        reader.execute(_ALONE)
        outer, self._look.connection = self._look.connection, connection
        try:
            return look(reader)
        finally:
            self._look.connection = outer
            if not connection.closed:
                reader.execute("ROLLBACK")

    def _on_reader(self, ask: Callable[[Link], T]) -> T:
        """Ask on a connection that reads; on another one when it is lost, for as long as a server is waited for.

        So none is tried before it is used: what was lost meanwhile is found by the question itself.
        """
        until = time.monotonic() + self._readers.timeout
        while True:
            with self._readers.connection() as connection:
                try:
                    return ask(connection)
                except DriverError:
                    if not connection.closed or time.monotonic() > until:
                        raise

    def _reader(self, connection: Link) -> PostgresReader:
        reader = PostgresReader(connection, self._sql)
        reader.tell, reader._lines, reader.gaps = self._tell, self._told, self._gaps
        reader.entries_after, reader.memo = self.entries_after, self._memo
        return reader

    def read_also(self, look: Callable[[Reading], T]) -> T:
        """On the connection of the look that this thread is in, if it is in one: who waits for another while he has
        one may wait for others who do the same."""
        connection = self._look.connection
        return self.read(look) if connection is None else look(self._reader(connection))

    def content(self, name: str) -> bytes | None:
        return self.read_also(lambda look: look.content_of(name))

    def remember(self) -> None:
        self._memo = {}

    def entries_after(self, chain: int, after: int, limit: int) -> list[Row]:
        return self.read_also(lambda look: look.journal_of(chain, after, limit))

    def version(self) -> int:
        """What is visible changes with every commit, of whatever process: so does the snapshot of those that are."""
        with self._translated():
            ((seen,),) = self._on_reader(lambda connection: list(connection.execute(self._sql["snapshot"])))
        with self._lock:
            if seen != self._seen:
                self._seen, self._version = seen, self._version + 1
            return self._version

    def when_written(self, tell: Callable[[], None]) -> Callable[[], None]:
        self._refuse_forked()
        with self._lock:
            self._tells = (*self._tells, tell)
            if self._listener is None and not self._closed:
                self._listener = Listener(self._url, self._schema, self._tell_all)

        def end() -> None:
            with self._lock:
                self._tells = tuple(each for each in self._tells if each is not tell)

        return end

    def _tell_all(self) -> None:
        for tell in self._tells:
            tell()

    def wakes(self) -> bool:
        return self._listener is not None and self._listener.hears

    def listen(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def ahead(self) -> int:
        """As it was at the last piece of work, which a process does with every sign of life."""
        return self._writer.ahead_us

    def still_there(self, *, after_commit: bool = False) -> None:
        """A schema that is gone is told by every statement."""

    def facts(self) -> dict[str, Any]:
        self._refuse_forked()

        def look(connection: Link) -> tuple[Any, ...]:
            server = connection.info.parameter_status("server_version")
            return server, *connection.execute(self._sql["durability_of_server"]).fetchone()  # type: ignore[misc]

        with self._translated():
            server, fsync, pages = self._on_reader(look)
        return {
            "path": self.place,
            "postgresql": server,
            "schema": newest_version("postgres"),
            "fsync": fsync,
            "full_page_writes": pages,
            "read_only": "",
            "size_bytes": self.room().size_bytes,
        }

    def check(self) -> list[str]:
        """What is wrong with the tables; the pages under them are the server's."""
        self._refuse_forked()
        with self._translated():
            return self._on_reader(lambda each: differences(each, self._schema, is_moving=not self._tenant))

    def room(self) -> DatabaseRoom:
        self._refuse_forked()
        with self._translated():
            size = self._on_reader(lambda each: each.execute(self._sql["size_of_schema"], (self._schema,)).fetchone())
        assert size is not None
        return DatabaseRoom(int(size[0]), 0)

    def copy_to(self, place: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        raise Invalid(detail="a database of PostgreSQL is copied by its own tools: pg_dump, or a backup of the server")

    def vacuum(self) -> None:
        self._refuse_forked()
        with self._translated():
            self._writer.vacuum(tables())

    def close(self) -> None:
        if os.getpid() != self._pid:
            return  # the parent's handles are not ours to close
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            if self._listener is not None:
                self._listener.close()
            self._writer.close()
            self._readers.close()

    # -- opening ---------------------------------------------------------------------------------

    def _refuse_forked(self) -> None:
        if os.getpid() != self._pid:
            raise StoreForked(self.place)

    def _connect_writer(self) -> PostgresTransaction:
        connection = driver.connect(self._url, self._schema)
        try:
            return self._ready(connection)
        except BaseException:
            connection.close()
            raise

    def _ready(self, connection: Link) -> PostgresTransaction:
        given = (lock_of(self._schema), self.place, channel_of(self._schema), self._marked)
        tx = PostgresTransaction(connection, self._sql, *given)
        tx.entries_after = self.entries_after
        pid, _, encoding, synced, _ = tx._one("about_connection")
        refuse_lent(connection, pid, self._url, self._schema, self.place)
        if encoding != "UTF8":
            raise StoreForeign(self.place, f"its encoding is {encoding}, not UTF8")
        migrate(connection, self._schema, self.place, tenant=self._tenant, before=self._before)
        connection.execute(_BY_INDEX)
        if synced == "off":
            tx.do("SET synchronous_commit = on")  # what is told is on the disk
        if self._busy_seconds < driver.BUSY_SECONDS:
            tx.do(f"SET lock_timeout = {round(self._busy_seconds * 1000)}")
        return tx

    def translate(self, error: DriverError) -> OutlastError:
        return driver.translate(error, self.place, self._busy_seconds)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PoolTimeout as error:
            raise StoreBusy(self.place, self._readers.timeout) from error
        except DriverError as error:
            raise self.translate(error) from error
