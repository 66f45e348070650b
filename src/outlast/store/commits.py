"""The queue before a commit: one leader commits what everybody has queued, and tells each what became of it.

Whoever gets the mutex drains the queue and commits for everyone in it, so that many callers share one sync. How a
batch is committed is each database's own.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast import errors
from outlast.ledger.journal import JournalEntry
from outlast.store.contract import Hold, Plain, Writing
from outlast.values.ambient import begin

if TYPE_CHECKING:
    import asyncio
    from contextvars import Context
    from queue import SimpleQueue
else:
    from _queue import SimpleQueue  # `queue` has others too, with what they need

AT_ONCE = 2  # threads that are woken together
MOST_ITEMS = 256  # keeps a transaction well under 50 ms


class Item(Struct, eq=False):
    """Something to commit: entries for one run, or any other piece of work; and where its outcome goes."""

    hold: Hold | None
    entries: Sequence[JournalEntry]
    work: Callable[[Writing], Any] | None = None
    plain: Plain | None = None  # what the work comes to, mostly
    result: Any = None
    done: bool = False
    error: BaseException | None = None
    loop: asyncio.AbstractEventLoop | None = None  # on which somebody waits for it
    later: asyncio.Future[None] | AwaitedItem | None = None  # what is awaited there
    gate: threading.Lock | None = None  # what a waiting thread waits at
    next: Item | None = None  # whose thread this one's wakes, once it is told
    left: bool = False  # its thread does not wait any more
    unsynced: bool = False  # nobody waits for it to be on disk


class AwaitedItem(Struct, eq=False):
    """What a task awaits of an item. It goes on in the callback in which its loop hears of the whole batch.

    A future would make a callback of its own for each. To a task it is one all the same: these are asyncio's names.
    """

    item: Item
    _loop: asyncio.AbstractEventLoop
    is_sure: bool = False  # who is cancelled meanwhile is told so only once it is known what became of the item
    heard: bool = False  # it is known on its loop what became of it
    cancelled_by: BaseException | None = None
    _asyncio_future_blocking: bool | None = None
    _wake: Callable[[AwaitedItem], object] | None = None
    _context: Context | None = None

    def __repr__(self) -> str:
        """Nothing of what is written: asyncio shows it in its log, with the task that waits."""
        return f"<AwaitedItem {'heard' if self.heard else 'pending'}>"

    def __await__(self) -> Generator[AwaitedItem, None, None]:
        if not self.heard:
            self._asyncio_future_blocking = True
            yield self  # the task throws in here what `result` raises
        else:
            self.result()

    def add_done_callback(self, wake: Callable[[AwaitedItem], object], *, context: Context) -> None:
        """A task waits from now on."""
        if self._wake is not None:
            raise RuntimeError("two tasks cannot wait for one item")
        self._wake, self._context = wake, context

    def result(self) -> None:
        """Raises what became of it."""
        if self.cancelled_by is not None:
            raise self.cancelled_by
        if self.item.error is not None:
            raise self.item.error

    def cancel(self, msg: object = None) -> bool:
        """Let the task go, unless it is to know. The item is committed all the same."""
        if self.heard or self.is_sure:
            return False
        self.heard = True
        self.cancelled_by = sys.modules["asyncio"].CancelledError(*() if msg is None else (msg,))
        self._loop.call_soon(self.wake)
        return True

    def wake(self) -> None:
        """The task goes on, if one waits."""
        if self._wake is not None and self._context is not None:
            self._context.run(self._wake, self)


class CommitQueue:
    """Commits what is queued, many items at a time."""

    def __init__(self) -> None:
        self._queue: deque[Item] = deque()
        self._durable = False  # the batch being committed is on disk
        self._unheard: set[Item] = set()  # items whose future is not resolved yet
        self._mutex = threading.Lock()
        self._starting = threading.Lock()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._told: asyncio.AbstractEventLoop | None = None  # who has woken the thread, which has not drained yet

    def _commit_together(self, batch: list[Item]) -> None:
        """Commit a batch, each item with its outcome; `_durable` once it is there. Raises what fails all of it."""
        raise NotImplementedError

    def _most(self) -> int:
        """How many items the next batch has at the most."""
        return MOST_ITEMS

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

    def append(self, hold: Hold, entry: JournalEntry) -> None:
        """The same for one entry that was never queued."""
        item = Item(hold, (entry,))
        self._queue.append(item)
        self.commit(item)

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

    def commit_later(self, item: Item) -> asyncio.Future[None]:
        """Let the writer thread commit a queued item: what it gives is resolved on the running loop, then."""
        loop = sys.modules["asyncio"].get_running_loop()  # there is one: it is loaded
        future: asyncio.Future[None] = loop.create_future()
        item.later = future
        self._tell_thread(item, loop)
        return future

    def written(self, item: Item) -> AwaitedItem:
        """The same for one task, which awaits it at once: who is cancelled meanwhile is so once it is known."""
        loop = sys.modules["asyncio"].get_running_loop()
        item.later = later = AwaitedItem(item, loop, is_sure=True)
        self._tell_thread(item, loop)
        return later

    def append_later(self, hold: Hold, entry: JournalEntry) -> AwaitedItem:
        """Queue one entry, and let the writer thread commit it: for the task that awaits it at once."""
        loop = sys.modules["asyncio"].get_running_loop()
        item = Item(hold, (entry,))
        item.loop, item.later = loop, (later := AwaitedItem(item, loop))
        self._unheard.add(item)
        self._queue.append(item)
        if self._told is not loop:
            self._told = loop
            loop.call_soon(self._wake_thread)
        return later

    def _tell_thread(self, item: Item, loop: asyncio.AbstractEventLoop) -> None:
        item.loop = loop
        self._unheard.add(item)
        if item.done:  # somebody took it along already
            loop.call_soon(self._resolve, [item])
        elif self._told is not loop:
            self._told = loop
            loop.call_soon(self._wake_thread)  # not at once: every task that is ready queues its item first

    def end_thread(self) -> None:
        if self._thread:
            self._wake.put(False)
            self._thread.join()
            self._thread = None

    # -- the thread for event loops --------------------------------------------------------------

    def _wake_thread(self) -> None:
        try:
            self._begin_thread()
        except errors.NoThread:  # nobody else would ever tell who waits: then it is done here
            self._told = None
            self._serve_once()
        else:
            self._wake.put(True)

    def _begin_thread(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="outlast-writer", daemon=True)
                self._thread = begin(thread, "writing")

    def _serve_once(self) -> None:
        """Commit what is queued, unless somebody does: he hands over what he leaves."""
        if self._mutex.acquire(blocking=False):
            try:
                while self._queue:
                    self._drain()
            finally:
                self._mutex.release()
            if self._queue:
                self._hand_over()

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
        try:
            while not item.done:
                if self._mutex.acquire(blocking=False):
                    self._lead(item)
                    return
                gate.acquire()
        finally:
            item.left = True
            _wake(item.next)

    def _hand_over(self) -> None:
        """Somebody queued while we held the mutex, and waits: wake the first. Whoever finds it taken waits again."""
        for waiting in list(self._queue):
            if waiting.gate is not None and not waiting.left:
                _open(waiting.gate)
                return
            if waiting.loop is not None:
                self._wake_thread()
                return

    def _drain(self) -> None:
        queue = self._queue  # nobody else takes from it
        first = queue.popleft
        batch = [first() for _ in range(min(len(queue), self._most()))]
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

    def _tell(self, batch: list[Item]) -> None:
        """Wake the threads of a batch, and each event loop once.

        Only a few threads at once, and each of them the next: of many that are woken together all but one wait again,
        for the interpreter.
        """
        waiting: list[Item] = []
        awaited: list[Item] = []
        for item in batch:
            item.done = True  # from now on nobody begins to wait for it: who does already has a gate
            if item.loop is not None:
                awaited.append(item)
            if item.gate is not None:
                waiting.append(item)
        for item, after in zip(waiting, waiting[AT_ONCE:], strict=False):
            item.next = after
        for item in waiting[:AT_ONCE]:
            _wake(item)
        loops = {item.loop for item in awaited if item.loop is not None}
        for loop in loops:
            items = awaited if len(loops) == 1 else [item for item in awaited if item.loop is loop]
            try:
                loop.call_soon_threadsafe(self._resolve, items)
            except RuntimeError:  # it is closed, perhaps since a moment ago
                self._unheard.difference_update(items)

    def _resolve(self, items: list[Item]) -> None:
        """On their loop: one after the other hears what became of it, and goes on."""
        left, heard = iter(items), self._unheard.discard
        try:
            for item in left:
                heard(item)
                later, item.later = item.later, None
                if isinstance(later, AwaitedItem):
                    if not later.heard:
                        later.heard = True
                        later.wake()
                elif later is not None:
                    _settle(later, item.error)
        except BaseException:  # Ctrl-C in one of them: the others' items are not to blame
            others = list(left)
            if others and others[0].loop is not None:
                others[0].loop.call_soon(self._resolve, others)
            raise


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(None)


def _wake(item: Item | None) -> None:
    """Wake an item's thread; where that has left, the one that it would have woken."""
    while item is not None and item.left:
        item = item.next
    if item is not None and item.gate is not None:
        _open(item.gate)


def _open(gate: threading.Lock) -> None:
    try:
        gate.release()
    except RuntimeError:
        return  # it is open already
