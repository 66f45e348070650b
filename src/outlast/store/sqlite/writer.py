"""The commit path on SQLite: one write connection behind the queue that all stores have (`store/commits.py`).

Order of writes for one batch: BEGIN, each item's statements, COMMIT (synced), then everyone is told. A crash
before COMMIT loses all of the batch, of which nobody has been told; after it, nothing.

An error at COMMIT is neither yes nor no. The connection is dropped, the file is opened again and read back:
what is found there after a full checkpoint is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeVar

import apsw

from outlast import errors, failpoints
from outlast.ledger.journal import JournalEntry
from outlast.store.commits import MOST_ITEMS, CommitQueue, Item
from outlast.store.contract import Hold, Plain, PlainStore
from outlast.store.contract.runs import NOT_PLAIN, PlainEnd, PlainStart
from outlast.store.sqlite.log import LogCopier, LogRoom
from outlast.store.sqlite.transaction import Transaction, is_refused

G = TypeVar("G")

# Errors of the file, not of an item: they fail a whole batch. After any other one each item is tried alone.
WHOLE = (
    apsw.IOError,
    apsw.FullError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
)
# Errors of one statement that is a whole transaction after which nothing of it is in the file. After any other one the
# file is looked at.
BEFORE_COMMIT = (
    apsw.BusyError,
    apsw.ConstraintError,
    apsw.TooBigError,
    apsw.SQLError,
    apsw.ConnectionClosedError,
    apsw.CursorClosedError,
)
ROWS = (PlainStart, PlainEnd)  # kinds of plain work of which many are one statement
SPLIT_ITEMS = 32  # that loops wait for: of fewer a sync takes longer than what could be computed beside it
STATEMENT_BYTES = 4 << 20  # of entries in one statement: all its rows are kept in memory before the first is written
_NORMAL = 1  # `synchronous`: a commit is in the log, and synced with the next one that is


def do_plain(items: Sequence[Item], tx: Transaction, *, alone: bool) -> None:
    """Pieces of plain work of one kind inside a batch, in one statement; each by itself where there is more to one."""
    results = tx.do_plains([item.plain for item in items if item.plain is not None])
    for item, result in zip(items, results, strict=True):
        item.result = result
        if result is NOT_PLAIN and len(items) > 1:
            do_plain([item], tx, alone=alone)
        elif result is NOT_PLAIN:
            do_work(item, tx, alone=alone)


def do_work(item: Item, tx: Transaction, *, alone: bool) -> None:
    """A piece of work inside a batch: undone alone if it raises. The only one needs no savepoint: all is undone."""
    assert item.work is not None
    moved = len(tx.moved)
    if not alone:
        tx.do("SAVEPOINT work")
    tx.prover.begin()
    try:
        item.result = item.work(tx)
        tx.prover.prove()
    except apsw.Error:
        raise
    except BaseException as error:
        item.error = error
        tx.do("ROLLBACK" if alone else "ROLLBACK TO work")
        tx.put_back(moved)
    finally:
        tx.prover.end()
    if not alone:
        tx.do("RELEASE work")


class Writer(CommitQueue):
    """Commits what is queued, many items at a time."""

    def __init__(
        self,
        connect: Callable[[], Transaction],
        translate: Callable[[apsw.Error], Exception],
        beside: Callable[[], apsw.Connection],
        empty_log: Callable[[apsw.Connection], object],
    ) -> None:
        super().__init__()
        self._connect = connect
        self._translate = translate
        self._empty_log = empty_log
        self._tx = self._connect()
        self._room = LogRoom(self._tx.connection.filename_wal)
        self._copier = LogCopier(beside)
        self._until_look = 1  # commits before the log is looked at
        self.commits = 0  # of this process

    # -- for callers -----------------------------------------------------------------------------

    def append_if_free(self, hold: Hold, entry: JournalEntry) -> bool:
        """Commit one entry, which was never queued, if nobody else is writing; False, and nothing done, otherwise.

        Nor if a loop has yet to hear of an earlier item: outcomes are delivered in the order of the journal.
        """
        if self._unheard or self._queue or not self._mutex.acquire(blocking=False):
            return False
        try:
            self._commit_entries(((hold, entry),))
        except apsw.Error as error:
            raise self._translate(error) from error
        except BaseException as error:
            if not isinstance(error, Exception) and not self._durable:  # Ctrl-C in this thread: it is not to blame
                self._queue.appendleft(Item(hold, (entry,)))
            raise
        finally:
            self._mutex.release()
            if self._queue:
                self._keep_going()
        return True

    def _most(self) -> int:
        """Of what loops wait for half: while that is committed they compute, and queue the other half."""
        awaited = len(self._unheard)
        return MOST_ITEMS if awaited < SPLIT_ITEMS else min(MOST_ITEMS, (awaited + 1) // 2)

    def vacuum(self) -> None:
        """Rewrite the file without its free pages. Everyone else waits."""
        with self._mutex:
            self._tx.do("PRAGMA temp_store = FILE")  # all of the content is copied: not in memory
            try:
                self._tx.do("VACUUM")
            finally:
                self._tx.do("PRAGMA temp_store = MEMORY")
                self._tx.make_ready()
            self._empty_log(self._tx.connection)
            self._until_look = 1  # the log has no room any more
        if self._queue:  # somebody came meanwhile, found the mutex taken and waits
            self._keep_going()

    def close(self) -> None:
        self.end_thread()
        with self._mutex:  # nobody commits any more, and so nobody begins a copy
            self._copier.close()
            self._tx.connection.close()
        if self._queue:  # somebody came meanwhile, found the mutex taken and waits: that it is closed is told by a try
            self._hand_over()

    # -- committing, under the mutex -------------------------------------------------------------

    def _commit_together(self, batch: list[Item]) -> None:
        try:
            self._commit(batch)
        except WHOLE as error:
            raise self._translate(error) from error
        except Exception:
            for item in batch:  # one of them is at fault: each alone, so that only that one fails
                self._commit_alone(item)

    def _commit_alone(self, item: Item) -> None:
        item.error = None
        try:
            self._commit([item])
        except apsw.Error as error:
            item.error = self._translate(error)
        except Exception as error:
            item.error = error

    def _commit(self, batch: list[Item]) -> None:
        if batch[0].unsynced and all(item.unsynced for item in batch):
            self._commit_unsynced(batch)
        elif appends := _entries_alone(batch):
            self._commit_entries(appends)
        elif len(batch) == 1 and isinstance(batch[0].plain, PlainStore) and not batch[0].plain.has_content:
            self._commit_store(batch[0], batch[0].plain)
        elif type(batch[0].plain) in ROWS and all(type(item.plain) is type(batch[0].plain) for item in batch):
            self._commit_plains(batch)
        else:
            self._commit_synced(batch)

    def _commit_unsynced(self, batch: list[Item]) -> None:
        """Into the log, without waiting for the disk: the next sync takes it along."""
        connection = self._tx.connection
        level = connection.pragma("synchronous")
        connection.pragma("synchronous", min(level, _NORMAL))
        try:
            self._commit_synced(batch)
        finally:
            self._tx.connection.pragma("synchronous", level)

    def _commit_synced(self, batch: list[Item]) -> None:
        tx = self._tx
        tx.moved.clear()
        self._durable = False
        if failpoints.armed:
            failpoints.armed("commit.begin")
        for item in batch:
            self._make_way(item.plain)
        try:
            tx.do("BEGIN IMMEDIATE")
            _apply(batch, tx)
            if failpoints.armed:
                failpoints.armed("commit.applied")
        except BaseException:
            self._roll_back()
            raise
        if tx.connection.getautocommit():  # the only piece of work was undone, and with it the transaction
            return
        try:
            tx.do("COMMIT")
        except apsw.BusyError:
            self._roll_back()
            raise
        except apsw.Error:
            if not self._landed():
                raise
        except BaseException:
            self._durable = tx.connection.getautocommit()  # the signal came after COMMIT did its work, or before
            if not self._durable:
                self._roll_back()
            raise
        self._is_committed()

    def _commit_entries(self, appends: Sequence[tuple[Hold, JournalEntry]]) -> None:
        """The same for nothing but entries, in one statement: threads that compute beside us hold us up once, however
        many entries there are, and go on until all of it is on disk.

        Each is chained and guarded like the others.
        """
        try:
            self._commit_statement(self._tx.append_alone, appends)
        except apsw.ConstraintError as error:
            if is_refused(error):
                hold = appends[-1][0]  # of several each is tried alone, for the one it is
                raise errors.LeaseLost(hold.run_id, hold.epoch) from None
            raise

    def _commit_plains(self, batch: list[Item]) -> None:
        """The same for nothing but starts, or ends, of runs; by their work where there is more to one of them."""
        self._make_way(batch[0].plain)
        try:
            self._commit_statement(self._write_plains, batch)
        except apsw.ConstraintError as error:
            if not is_refused(error):
                raise
            if len(batch) == 1:
                batch[0].plain = None
            self._commit_synced(batch)

    def _write_plains(self, batch: list[Item]) -> None:
        rows = self._tx.rows_of([item.plain for item in batch if item.plain is not None])
        for item, result in zip(batch, rows.given, strict=True):
            item.result = result  # before they are written: a signal that comes right after finds them
        self._tx.write(rows)

    def _commit_store(self, item: Item, store: PlainStore) -> None:
        """The same for the first handoff of an anchor, and by its work where there is more to it.

        Nobody else of this process writes meanwhile. What another one does after the look, the statement refuses.
        """
        tx = self._tx
        tx.moved.clear()
        self._durable = False
        self._make_way(store)
        keys = tx.store_keys(store)
        if keys is not None:
            first = store.make()
            item.result = first.given
            try:
                self._commit_statement(lambda keys: tx.store(store, first, keys), keys)
            except apsw.ConstraintError:
                item.result = None
            else:
                return
        item.plain = None
        self._commit_synced([item])

    def _commit_statement(self, do: Callable[[G], None], given: G) -> None:
        """What is done with this by one statement, which is a transaction of its own.

        Where it fails nobody knows whether that was at its COMMIT.
        """
        tx, moved = self._tx, list[tuple[Hold, int, bytes]]()
        self._durable, tx.moved = False, moved
        if failpoints.armed:
            failpoints.armed("commit.begin")
            tx.connection.set_commit_hook(_applied)
        try:
            do(given)
        except BEFORE_COMMIT:
            tx.put_back()
            raise
        except apsw.Error:
            if not self._landed():
                raise
        except BaseException:  # a signal came before the statement, or after it did its work
            self._durable = self._are_there(moved)
            if not self._durable:
                tx.put_back()
            raise
        finally:
            if failpoints.armed:
                self._tx.connection.set_commit_hook(None)
        self._is_committed()

    def _make_way(self, plain: Plain | None) -> None:
        if plain is not None and type(plain) not in self._tx.ways:
            self._tx.make_way(type(plain))

    def _is_committed(self) -> None:
        """What was to be committed is on disk."""
        self._durable = True
        self.commits += 1
        if failpoints.armed:
            failpoints.armed("commit.done")
        many = len(self._tx.moved) > 1
        if many or self._copier.serves is not None:
            self._copier.keep(self._tx.connection, many=many)
        self._until_look -= 1
        if not self._until_look:
            self._until_look = self._room.keep()

    def _are_there(self, moved: Sequence[tuple[Hold, int, bytes]]) -> bool:
        """Whether the file has what one statement was to write for these holds: all of it, or nothing."""
        if not moved or moved[-1][0].head == moved[-1][1]:  # the last of them was not moved yet
            return False
        hold = moved[-1][0]
        return self._tx.end_of_chain(hold.lease_key) == (hold.head, hold.hash)

    def _roll_back(self) -> None:
        self._tx.put_back()
        if not self._tx.connection.getautocommit():
            self._tx.do("ROLLBACK")

    def _landed(self) -> bool:
        """Whether a batch whose COMMIT failed is in the file after all: reopen, sync by a checkpoint, look.

        Only journals can tell: a batch without entries is reported as failed, and asking again finds what it did.
        """
        moved = list(self._tx.moved)
        expected = {hold: (hold.head, hold.hash) for hold, _, _ in moved}
        self._tx.put_back()
        fresh = self._connect()
        self._tx.connection.close(True)
        self._tx = fresh
        self._empty_log(fresh.connection)
        landed = bool(expected) and all(fresh.end_of_chain(hold.lease_key) == end for hold, end in expected.items())
        if landed:
            for hold, (head, hash_) in expected.items():
                hold.head, hold.hash = head, hash_
        return landed


def _apply(batch: list[Item], tx: Transaction) -> None:
    """Other work in the order of the queue. What is queued between goes in by its kind: what two runs write is in no
    order, and of one run the entries come before its end.
    """
    alone = len(batch) == 1
    for is_other, together in groupby(batch, _is_other):
        items = list(together)
        if is_other:
            for item in items:
                do_work(item, tx, alone=alone)
            continue
        if entries := [item for item in items if item.hold is not None]:
            _append(entries, tx)
        for kind in (PlainStart, PlainEnd, PlainStore):
            if plains := [item for item in items if type(item.plain) is kind]:
                do_plain(plains, tx, alone=alone)


def _append(items: list[Item], tx: Transaction) -> None:
    if appends := _entries_alone(items):
        tx.append_alone(appends)
    else:
        tx.append_all([(item.hold, item.entries) for item in items if item.hold is not None])


def _is_other(item: Item) -> bool:
    """Whether it is neither entries nor plain work."""
    return item.hold is None and item.plain is None


def _entries_alone(batch: list[Item]) -> list[tuple[Hold, JournalEntry]]:
    """One entry of each item; nothing, if there is more to one of them, or more of several than one statement takes."""
    appends, size = [], 0
    for item in batch:
        if item.hold is None or len(item.entries) != 1 or (entry := item.entries[0]).blobs:
            return []
        appends.append((item.hold, entry))
        size += len(entry.payload or b"")
    return appends if size <= STATEMENT_BYTES or len(appends) == 1 else []


def _applied() -> bool:
    """The point between the statements and COMMIT, inside the one statement that is both."""
    if failpoints.armed:
        failpoints.armed("commit.applied")
    return False
