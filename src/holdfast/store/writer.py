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
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import apsw

from holdfast import failpoints
from holdfast.domain.journal import Entry
from holdfast.errors import LeaseLost
from holdfast.store.contract import Hold, Writing
from holdfast.store.transaction import Transaction

if TYPE_CHECKING:
    import asyncio

MOST_ITEMS = 256  # keeps a transaction well under 50 ms


class Item:
    """Something to commit, and where its outcome goes."""

    __slots__ = ("done", "error", "future")

    def __init__(self) -> None:
        self.done = False
        self.error: BaseException | None = None
        self.future: asyncio.Future[None] | None = None

    def apply(self, tx: Transaction) -> None:
        raise NotImplementedError


class Append(Item):
    """Entries for one run. It guards itself, so it needs no savepoint."""

    __slots__ = ("entries", "hold")

    def __init__(self, hold: Hold, entries: Sequence[Entry]) -> None:
        super().__init__()
        self.hold = hold
        self.entries = entries

    def apply(self, tx: Transaction) -> None:
        try:
            tx.append(self.hold, self.entries)
        except LeaseLost as error:
            self.error = error


class Work(Item):
    """Any other piece of work: undone alone if it raises."""

    __slots__ = ("result", "work")

    def __init__(self, work: Callable[[Writing], Any]) -> None:
        super().__init__()
        self.work = work
        self.result: Any = None

    def apply(self, tx: Transaction) -> None:
        moved = len(tx.moved)
        tx.execute("SAVEPOINT work")
        try:
            self.result = self.work(tx)
        except apsw.Error:
            raise
        except BaseException as error:
            self.error = error
            tx.execute("ROLLBACK TO work")
            for hold, head, before in reversed(tx.moved[moved:]):
                hold.head, hold.hash = head, before
            del tx.moved[moved:]
        tx.execute("RELEASE work")


class Writer:
    """Commits what is queued, many items at a time."""

    def __init__(self, connect: Callable[[], Transaction], translate: Callable[[apsw.Error], Exception]) -> None:
        self._connect = connect
        self._translate = translate
        self._tx = connect()
        self._queue: deque[Item] = deque()
        self._mutex = threading.Lock()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._told = False  # the thread has been woken and has not drained yet

    # -- for callers -----------------------------------------------------------------------------

    def commit(self, item: Item) -> None:
        """Make an item durable before returning. Raises what became of it."""
        self._queue.append(item)
        with self._mutex:
            while not item.done:
                self._drain()
        if item.error is not None:
            raise item.error

    def commit_if_free(self, item: Item) -> bool:
        """Commit at once if nobody else is writing; False, and nothing done, otherwise."""
        if self._queue or not self._mutex.acquire(blocking=False):
            return False
        try:
            self._queue.append(item)
            while not item.done:
                self._drain()
        finally:
            self._mutex.release()
        if item.error is not None:
            raise item.error
        return True

    def commit_later(self, item: Item, future: asyncio.Future[None]) -> None:
        """Let the writer thread commit it and resolve the future on its loop."""
        item.future = future
        self._queue.append(item)
        if not self._told:
            self._told = True
            self._start_thread()
            self._wake.put(True)

    def close(self) -> None:
        if self._thread:
            self._wake.put(False)
            self._thread.join()
            self._thread = None
        with self._mutex:
            self._tx.connection.close()

    # -- the thread for event loops --------------------------------------------------------------

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="holdfast-writer", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while self._wake.get():
            self._told = False
            with self._mutex:
                while self._queue:
                    self._drain()

    # -- committing, under the mutex -------------------------------------------------------------

    def _drain(self) -> None:
        batch: list[Item] = []
        queue = self._queue
        while queue and len(batch) < MOST_ITEMS:
            batch.append(queue.popleft())
        if not batch:
            return
        try:
            self._commit_together(batch)
        except BaseException as error:
            for item in batch:
                item.error = item.error or error
            if not isinstance(error, Exception):
                raise
        finally:
            for item in batch:
                item.done = True
            _tell(batch)

    def _commit_together(self, batch: list[Item]) -> None:
        try:
            self._commit(batch)
        except apsw.ConstraintError as error:
            if len(batch) == 1:
                raise self._translate(error) from error
            for item in batch:  # one of them is at fault: each alone, so that only that one fails
                self._commit_alone(item)
        except apsw.Error as error:
            raise self._translate(error) from error

    def _commit_alone(self, item: Item) -> None:
        item.error = None
        try:
            self._commit([item])
        except apsw.Error as error:
            item.error = self._translate(error)

    def _commit(self, batch: list[Item]) -> None:
        tx = self._tx
        if failpoints.armed:
            failpoints.armed("commit.begin")
        tx.execute("BEGIN IMMEDIATE")
        try:
            for item in batch:
                item.apply(tx)
            if failpoints.armed:
                failpoints.armed("commit.applied")
        except BaseException:
            self._roll_back()
            raise
        try:
            tx.execute("COMMIT")
        except apsw.BusyError:
            self._roll_back()
            raise
        except apsw.Error:
            if not self._landed(batch):
                raise
        self._tx.moved.clear()
        if failpoints.armed:
            failpoints.armed("commit.done")

    def _roll_back(self) -> None:
        self._tx.put_back()
        if not self._tx.connection.getautocommit():
            self._tx.execute("ROLLBACK")

    def _landed(self, batch: list[Item]) -> bool:
        """Whether a batch whose COMMIT failed is in the file after all: reopen, sync by a checkpoint, look."""
        moved, self._tx.moved = self._tx.moved, []
        expected = {hold: (hold.head, hold.hash) for hold, _, _ in moved}
        landed = False
        try:
            self._tx.connection.close(True)
            self._tx = self._connect()
            self._tx.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            found = {hold: self._tx.lease_of(hold.run_id) for hold in expected}
            landed = bool(expected) and all(
                row is not None and (row.head, row.hash) == expected[hold] for hold, row in found.items()
            )
        finally:
            if not landed:
                for hold, head, before in reversed(moved):
                    hold.head, hold.hash = head, before
        return landed


def _tell(batch: list[Item]) -> None:
    """Resolve the futures of a batch, waking each loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[Item]] = {}
    for item in batch:
        if item.future is not None:
            loops.setdefault(item.future.get_loop(), []).append(item)
    for loop, items in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, items)


def _resolve(items: list[Item]) -> None:
    for item in items:
        future = item.future
        if future is None or future.done():
            continue
        if item.error is not None:
            future.set_exception(item.error)
        else:
            future.set_result(None)
