"""The commit path: one write connection behind one mutex.

Whoever gets the mutex drains the queue and commits for everyone in it, so that many callers share one sync.
Order of writes for one batch: BEGIN, each item's statements, COMMIT (synced), then everyone is told. A crash
before COMMIT loses all of the batch, of which nobody has been told; after it, nothing.

An error at COMMIT is neither yes nor no. The connection is dropped, the file is opened again and read back:
what is found there after a full checkpoint is the answer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import apsw

from outlast import failpoints
from outlast.ledger.journal import JournalEntry
from outlast.store.contract import Hold, Writing
from outlast.store.sqlite.transaction import Transaction
from outlast.values.ambient import begin

if TYPE_CHECKING:
    import asyncio

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
_NORMAL = 1  # `synchronous`: a commit is in the log, and synced with the next one that is
MOST_ITEMS = 256  # keeps a transaction well under 50 ms


class Item:
    """Something to commit: entries for one run, or any other piece of work; and where its outcome goes."""

    __slots__ = ("done", "entries", "error", "future", "gate", "hold", "result", "unsynced", "work")

    def __init__(
        self, hold: Hold | None, entries: Sequence[JournalEntry], work: Callable[[Writing], Any] | None = None
    ) -> None:
        self.hold = hold
        self.entries = entries
        self.work = work
        self.result: Any = None
        self.done = False
        self.error: BaseException | None = None
        self.future: asyncio.Future[None] | None = None
        self.gate: threading.Lock | None = None  # what a waiting thread waits at
        self.unsynced = False  # nobody waits for it to be on disk


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


class Writer:
    """Commits what is queued, many items at a time."""

    def __init__(self, connect: Callable[[], Transaction], translate: Callable[[apsw.Error], Exception]) -> None:
        self._connect = connect
        self._translate = translate
        self._tx = connect()
        self._queue: deque[Item] = deque()
        self._durable = False  # the batch being committed is on disk
        self._unheard: set[Item] = set()  # items whose future is not resolved yet
        self._mutex = threading.Lock()
        self._starting = threading.Lock()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._told: asyncio.AbstractEventLoop | None = None  # who has woken the thread, which has not drained yet

    # -- for callers -----------------------------------------------------------------------------

    def put(self, item: Item) -> Item:
        """Queue an item. Whoever commits next takes it along."""
        self._queue.append(item)
        return item

    def commit(self, item: Item) -> None:
        """Make a queued item durable before returning. Raises what became of it.

        One thread leads: it commits everything queued, then hands the lead to whoever waits first. The others are
        woken once, when their item is done.
        """
        if self._mutex.acquire(blocking=False):
            self._lead(item)
        else:
            self._follow(item)
        if item.error is not None:
            raise item.error

    def commit_if_free(self, item: Item) -> bool:
        """Commit a queued item at once if nobody else is writing; False, and nothing done, otherwise.

        Nor if a loop has yet to hear of an earlier item: outcomes are delivered in the order of the journal.
        """
        if self._unheard or len(self._queue) > 1 or not self._mutex.acquire(blocking=False):
            return False
        self._lead(item)
        if item.error is not None:
            raise item.error
        return True

    def commit_soon(self, item: Item) -> None:
        """Commit a queued item without a sync if nobody else is writing; else whoever commits next takes it along."""
        item.unsynced = True
        if self._mutex.acquire(blocking=False):
            self._lead(item)

    def commit_later(self, item: Item, future: asyncio.Future[None]) -> None:
        """Let the writer thread commit a queued item and resolve the future on its loop."""
        item.future = future
        self._unheard.add(item)
        loop = future.get_loop()
        if item.done:  # somebody took it along already
            loop.call_soon(self._resolve, [item])
        elif self._told is not loop:
            self._told = loop
            loop.call_soon(self._wake_thread)  # not at once: every task that is ready queues its item first

    def vacuum(self) -> None:
        """Rewrite the file without its free pages. Everyone else waits."""
        with self._mutex:
            self._tx.do("PRAGMA temp_store = FILE")  # all of the content is copied: not in memory
            try:
                self._tx.do("VACUUM")
            finally:
                self._tx.do("PRAGMA temp_store = MEMORY")
            self._tx.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        if self._queue:  # somebody came meanwhile, found the mutex taken and waits
            self._hand_over()

    def close(self) -> None:
        if self._thread:
            self._wake.put(False)
            self._thread.join()
            self._thread = None
        with self._mutex:
            self._tx.connection.close()

    # -- the thread for event loops --------------------------------------------------------------

    def _wake_thread(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="outlast-writer", daemon=True)
                self._thread = begin(thread, "writing")
        self._wake.put(True)

    def _serve(self) -> None:
        while self._wake.get():
            self._told = None
            with self._mutex:
                while self._queue:
                    self._drain()
            if self._queue:  # somebody came after the last look, found the mutex taken and waits
                self._hand_over()

    # -- committing, under the mutex -------------------------------------------------------------

    def _lead(self, item: Item) -> None:
        """With the mutex held: commit until this item is done, then let the next one in line lead."""
        try:
            while not item.done:
                self._drain()
        finally:
            self._mutex.release()
            if self._queue:
                self._hand_over()

    def _follow(self, item: Item) -> None:
        """Wait until a leader has committed this item, or until it is our turn to lead.

        The gate is there before the mutex is tried again: a leader that lets go later than that sees the gate.
        """
        gate = threading.Lock()
        gate.acquire()
        item.gate = gate
        while not item.done:
            if self._mutex.acquire(blocking=False):
                self._lead(item)
                return
            gate.acquire()

    def _hand_over(self) -> None:
        """Somebody queued while we held the mutex, and waits: wake the first. Whoever finds it taken waits again."""
        for waiting in list(self._queue):
            if waiting.gate is not None:
                _open(waiting.gate)
                return
            if waiting.future is not None:
                self._wake_thread()
                return

    def _drain(self) -> None:
        batch: list[Item] = []
        queue = self._queue
        while queue and len(batch) < MOST_ITEMS:
            batch.append(queue.popleft())
        if not batch:
            return
        try:
            self._commit_together(batch)
        except Exception as error:
            for item in batch:
                item.error = item.error or error
        except BaseException:  # Ctrl-C in this thread: the others' items are not to blame
            if not self._durable:
                queue.extendleft(reversed(batch))
                raise
            self._tell(batch)
            raise
        self._tell(batch)

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
        self._durable = True
        if failpoints.armed:
            failpoints.armed("commit.done")

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
        fresh.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        found = {hold: fresh.lease_of(hold.run_id) for hold in expected}
        landed = bool(expected) and all(row and (row.head, row.hash) == expected[hold] for hold, row in found.items())
        if landed:
            for hold, (head, hash_) in expected.items():
                hold.head, hold.hash = head, hash_
        return landed

    def _tell(self, batch: list[Item]) -> None:
        """Wake the threads of a batch, and each event loop once."""
        loops: dict[asyncio.AbstractEventLoop, list[Item]] = {}
        for item in batch:
            item.done = True
            if item.gate is not None:
                _open(item.gate)
            elif item.future is not None:
                loops.setdefault(item.future.get_loop(), []).append(item)
        for loop, items in loops.items():
            if loop.is_closed():
                self._unheard.difference_update(items)
            else:
                loop.call_soon_threadsafe(self._resolve, items)

    def _resolve(self, items: list[Item]) -> None:
        for item in items:
            self._unheard.discard(item)
            future = item.future
            if future is None or future.done():
                continue
            if item.error is not None:
                future.set_exception(item.error)
            else:
                future.set_result(None)


def _apply(batch: list[Item], tx: Transaction) -> None:
    """In the order of the queue; entries that stand next to each other go in together."""
    appends: list[tuple[Hold, Sequence[JournalEntry]]] = []
    for item in batch:
        if item.hold is not None:
            appends.append((item.hold, item.entries))
            continue
        if appends:
            tx.append_all(appends)
            appends = []
        do_work(item, tx, alone=len(batch) == 1)
    if appends:
        tx.append_all(appends)


def _open(gate: threading.Lock) -> None:
    with suppress(RuntimeError):  # it is open already
        gate.release()
