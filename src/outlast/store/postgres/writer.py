"""The commit path on PostgreSQL: one write connection for each process, behind the queue that all stores have.

A batch of appends is one statement, which is a transaction of its own. A batch with any other work is BEGIN, what each
item does, COMMIT, under the tenant's lock. Nobody is told before the server has said that it is committed.

A connection that is lost at a commit is neither yes nor no. Another one is made, what served the old one is ended, so
that nothing comes later, and the database is asked: what it says is the answer. What did not land is done again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from psycopg import Error as DriverError
from psycopg import OperationalError
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn

from outlast import failpoints
from outlast.errors import LeaseLost, OutlastError
from outlast.ids import chance
from outlast.ledger.journal import JournalEntry
from outlast.store.commits import CommitQueue, Item
from outlast.store.contract import Hold, PlainEnd, PlainStart
from outlast.store.contract.runs import NOT_PLAIN
from outlast.store.postgres.connection import is_away
from outlast.store.postgres.prepared import roll_back
from outlast.store.postgres.transaction import PostgresTransaction, is_plain

PATIENCE_SECONDS = 30.0  # with a server that is away
OPENING_SECONDS = 3.0  # the same for the first connection: it may have been named wrongly

Expected = dict[Hold, tuple[int, bytes]]


class Unreachable(Exception):
    """The server is away, and for how long nobody knows: whatever was to be committed is not known to be."""

    def __init__(self, why: OutlastError) -> None:
        super().__init__(str(why))
        self.why = why


class PostgresWriter(CommitQueue):
    """Commits what is queued, many items at a time."""

    def __init__(
        self,
        connect: Callable[[], PostgresTransaction],
        translate: Callable[[DriverError], OutlastError],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        super().__init__()
        self._connect, self._translate, self._patience = connect, translate, patience_seconds
        self._tx = self._first(time.monotonic() + min(OPENING_SECONDS, patience_seconds))

    def _first(self, until: float) -> PostgresTransaction:
        """The first connection; a server that is just away or comes back is waited for a little."""
        while True:
            try:
                return self._connect()
            except OperationalError as error:
                if time.monotonic() > until or not is_away(error):
                    raise
            time.sleep(0.01 + chance() * 0.1)

    def append_if_free(self, hold: Hold, entry: JournalEntry) -> bool:
        """Commit one entry if nobody else is writing or waits to; False, and nothing done, otherwise."""
        if self._unheard or self._queue or not self._mutex.acquire(blocking=False):
            return False
        item = Item(hold, (entry,))
        try:
            self._commit_alone(item)
        except BaseException:  # Ctrl-C in this thread: it is not to blame
            if not self._durable:
                self._queue.appendleft(item)
            raise
        finally:
            self._let_go()
        if item.error is not None:
            raise item.error
        return True

    def vacuum(self, tables: Sequence[str]) -> None:
        """Rewrite the tables without what is free in them. Everyone else waits."""
        with self._mutex:
            self._tx.do(f"VACUUM FULL {', '.join(tables)}")
        if self._queue:
            self._keep_going()

    @property
    def ahead_us(self) -> int:
        return self._tx.ahead_us

    def close(self) -> None:
        self.end_thread()
        with self._mutex:
            with suppress(DriverError):  # others forget it, a day later
                self._tx.unmark()
            self._tx.connection.close()

    # -- committing, under the mutex -------------------------------------------------------------

    def _commit_together(self, batch: list[Item]) -> None:
        try:
            self._commit_surely(batch)
        except Unreachable as error:
            raise error.why from error
        except Exception:
            for item in batch:  # one of them is at fault: each alone, so that only that one fails
                self._commit_alone(item)

    def _commit_alone(self, item: Item) -> None:
        item.error = None
        try:
            self._commit_surely([item])
        except DriverError as error:
            item.error = self._translate(error)
        except Unreachable as error:
            item.error = error.why
        except Exception as error:
            item.error = error

    def _commit_surely(self, batch: list[Item]) -> None:
        """Commit a batch, again if its connection is lost and it did not land. Raises Unreachable."""
        until = time.monotonic() + self._patience
        while True:
            try:
                self._commit(batch)
                return
            except DriverError as error:
                if not self._tx.connection.closed:
                    raise
                lost = error
            if self._landed(batch, until):
                return
            if time.monotonic() > until:
                raise Unreachable(self._translate(lost))

    def _commit(self, batch: list[Item]) -> None:
        tx = self._tx
        tx.moved.clear()
        tx.mark, self._durable = 0, False
        if failpoints.armed:
            failpoints.armed("commit.begin")
        try:
            if failpoints.armed or any(item.hold is None for item in batch):
                self._do_all(batch)
            else:
                _append(batch, tx)
        except Exception:
            self._undo()
            raise
        except BaseException:  # Ctrl-C in this thread: what the server was doing is done or not
            self._durable = self._is_done()
            raise
        self._durable = True
        if failpoints.armed:
            failpoints.armed("commit.done")

    def _do_all(self, batch: list[Item]) -> None:
        """In one transaction, beside those of others if that can be.

        Also appends alone, where a test is told of the moment before COMMIT: in one statement there is none.
        """
        if not (all(map(_is_beside, batch)) and self._do_beside(batch)):
            self._do_alone(batch)
        if failpoints.armed:
            self._tx.send_put_off()
            failpoints.armed("commit.applied")
        self._tx.commit(tells=any(item.hold is None for item in batch))

    def _do_beside(self, batch: list[Item]) -> bool:
        """Appends and plain ends of runs. False, and nothing is done, where there is more to one of these ends."""
        self._tx.begin_beside()
        _append([item for item in batch if item.hold is not None], self._tx)
        if not _end([item for item in batch if item.hold is None], self._tx):
            return True
        self._undo()
        return False

    def _do_alone(self, batch: list[Item]) -> None:
        """In the order of the queue; what is no work that may look at everything goes in together."""
        self._tx.begin(synced=not all(item.unsynced for item in batch))
        together = list[Item]()
        for item in batch:
            if item.hold is not None or item.plain is not None:
                together.append(item)
                continue
            _do_together(together, self._tx)
            together = []
            _do_work(item, self._tx)
        _do_together(together, self._tx)

    def _undo(self) -> None:
        """Nothing of the batch stays. Of a connection that is lost nobody knows yet."""
        self._tx.forget_put_off()
        if self._tx.connection.closed:
            return
        self._tx.put_back()
        if self._tx.connection.info.transaction_status != TransactionStatus.IDLE:
            roll_back(self._tx.connection)

    # -- commits of which nobody has told us -----------------------------------------------------

    def _is_done(self) -> bool:
        """Whether a batch that was interrupted is in the database; if not, nothing of it will be."""
        if _is_left(self._tx.connection.pgconn):
            self._tx.connection.close()
        if self._tx.connection.closed:
            return self._landed([], time.monotonic() + self._patience)
        if self._tx.connection.info.transaction_status != TransactionStatus.IDLE:
            self._undo()
            return False
        return self._found(_expected(self._tx), self._tx.mark)

    def _landed(self, batch: Sequence[Item], until: float) -> bool:
        """Whether a batch whose connection was lost is in the database after all."""
        expected, mark = _expected(self._tx), self._tx.mark
        self._reconnect(until)
        if not self._found(expected, mark):
            return False
        for item in batch:  # what is there is there whole; an append that is not was stale
            if item.hold in expected and not self._is_there(item.hold, *expected[item.hold]):
                item.error = LeaseLost(item.hold.run_id, item.hold.epoch)
        self._durable = True
        return True

    def _found(self, expected: Expected, mark: int) -> bool:
        """Look for a batch by its mark or its entries, and set the heads of its holds by that."""
        found = {hold for hold, end in expected.items() if self._is_there(hold, *end)}
        done = self._tx.is_marked(mark) if mark else bool(found)
        self._tx.put_back(only=set(expected) - found if done else None)
        self._tx.moved.clear()
        return done

    def _is_there(self, hold: Hold, head: int, hash_: bytes) -> bool:
        return self._tx.hash_at(hold.run_key, head) == hash_

    def _reconnect(self, until: float) -> None:
        """A new connection, and the end of the old one at the server too. Raises Unreachable."""
        old = self._tx
        while True:
            try:
                self._tx = self._connect()
                self._tx._one("end_backend", *old.backend)
                self._tx.moved, self._tx.ahead_us, self._tx.last_mark = old.moved, old.ahead_us, old.last_mark
                return
            except DriverError as error:
                if time.monotonic() > until:
                    old.put_back()
                    raise Unreachable(self._translate(error)) from error
            time.sleep(0.01 + chance() * 0.1)  # it is away: it comes back when it does


def _is_left(pgconn: PGconn) -> bool:
    """Whether something was asked there whose answer nobody has read."""
    return pgconn.transaction_status == TransactionStatus.ACTIVE or pgconn.pipeline_status != PipelineStatus.OFF


def _expected(tx: PostgresTransaction) -> Expected:
    return {hold: (hold.head, hold.hash) for hold, head, _ in tx.moved if hold.head != head}


def _append(items: Sequence[Item], tx: PostgresTransaction) -> None:
    """What is stale beside others is tried once more alone: two holds of one chain cannot be moved by one statement."""
    if len(items) == 1 and (hold := items[0].hold) is not None and is_plain(items[0].entries):
        items[0].error = None if tx.append_alone(hold, items[0].entries[0]) else LeaseLost(hold.run_id, hold.epoch)
        return
    if not items:
        return
    appends = [(item.hold, item.entries) for item in items if item.hold is not None]
    stale = tx.append_all(appends)
    if stale and len(appends) > 1:
        stale = {hold for hold in stale if tx.append_all([(hold, _entries(hold, items))])}
    for item in items:
        item.error = LeaseLost(item.hold.run_id, item.hold.epoch) if stale and item.hold in stale else None


def _entries(hold: Hold, items: Sequence[Item]) -> list[JournalEntry]:
    return [entry for item in items if item.hold is hold for entry in item.entries]


def _do_together(items: Sequence[Item], tx: PostgresTransaction) -> None:
    """Appends, then ends, which may be of the same runs, then starts, which may be of the same tasks."""
    _append([item for item in items if item.hold is not None], tx)
    for item in _end([item for item in items if isinstance(item.plain, PlainEnd)], tx):
        _do_work(item, tx)
    _start([item for item in items if isinstance(item.plain, PlainStart)], tx)


def _is_beside(item: Item) -> bool:
    """Whether it needs nobody else to be kept from writing: its chain guards it."""
    return item.hold is not None or isinstance(item.plain, PlainEnd)


def _end(items: Sequence[Item], tx: PostgresTransaction) -> list[Item]:
    """End the runs of these; what is left to be done by its work is given."""
    ends = [item.plain for item in items if isinstance(item.plain, PlainEnd)]
    left = tx.end_all(ends) if ends else set()
    for item in items:
        item.error = None
    return [item for item, end in zip(items, ends, strict=True) if end.hold in left]


def _start(items: Sequence[Item], tx: PostgresTransaction) -> None:
    """Add the runs of these; what is left is done by its work, of a silent process the first, which speaks for it."""
    if not items:
        return
    given, silent = tx.start_all([item.plain for item in items if isinstance(item.plain, PlainStart)])
    left = list[Item]()
    for item, result in zip(items, given, strict=True):
        if result is NOT_PLAIN:
            left.append(item)
        else:
            item.result, item.error = result, None
    while left:
        _do_work(left.pop(0), tx)
        if silent and left:
            _start(left, tx)
            return


def _do_work(item: Item, tx: PostgresTransaction) -> None:
    """A piece of work inside a batch: undone alone if it raises."""
    assert item.work is not None
    moved = len(tx.moved)
    tx.begin_work()
    try:
        item.result = item.work(tx)
        tx.end_work()
    except DriverError:
        raise
    except BaseException as error:
        item.error = error
        tx.undo_work()
        tx.put_back(moved)
