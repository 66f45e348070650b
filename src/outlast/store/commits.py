"""The queue before a commit: one leader commits what everybody has queued, and tells each what became of it.

Whoever gets the mutex drains the queue and commits for everyone in it, so that many callers share one sync. How a
batch is committed is each database's own.

Threads are woken one after the other: each wakes the next as it goes on, before it does anything of its caller's, and
the last of them wakes one that commits what has queued. So there are never many that want the interpreter at a time.
Nobody is left asleep, because of any two who could each count on the other, both say first what they did and look then
what the other said:

- Who waits is named in its item before it looks whether that is done; who tells marks it done before it looks who is
  named there.
- Who waits is in the queue before it tries the mutex; who let go of the mutex looks into the queue after that.
- A woken thread says that it has left before it asks whether it is the one to wake the next; who wakes it says that it
  is the one before it asks whether it has left. If both see the other, two wake, and each another.
- Who lets go of the mutex does so before it asks whether a woken thread has left; that thread has said so before it
  looks whether the mutex is free.
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

MOST_ITEMS = 256  # keeps a transaction well under 50 ms


class Waiter(Struct, eq=False, gc=False):
    """A thread that waits until its item is done, or until it is its turn to commit."""

    gate: threading.Lock  # at which it waits
    left: bool = False  # it does not wait any more

    def wake(self) -> None:
        try:
            self.gate.release()
        except RuntimeError:
            return  # it is open already


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
    waiter: Waiter | None = None  # the thread that waits for it
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
        self._ready: deque[Waiter] = deque()  # whose items are done, to be woken one after the other
        self._woken = Waiter(threading.Lock(), left=True)  # it wakes the next as it goes on, unless it has
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

        One thread leads: it commits everything queued, for all who wait. These are woken once, when their item is done.
        """
        if self._takes_lead():
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
                self._let_go()

    def _serve(self) -> None:
        while self._wake.get():
            self._told = None
            self._mutex.acquire()
            try:
                while self._queue:
                    self._drain()
            finally:
                self._let_go()  # somebody may have come after the last look, found the mutex taken, and wait

    # -- committing, under the mutex -------------------------------------------------------------

    def _takes_lead(self) -> bool:
        """Whether this thread is to commit now, and has the mutex.

        Not while more threads are still to go on than have queued: they come soon, and share the commit. Whoever was
        woken last sees to it that somebody leads, however long what the others do may take.
        """
        if not self._woken.left and len(self._queue) < len(self._ready):
            return False
        return self._mutex.acquire(blocking=False)

    def _lead(self, item: Item) -> None:
        """With the mutex held: commit until this item is done, then let somebody else lead."""
        try:
            while not item.done:
                self._drain()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Release the mutex. Somebody may have queued while we held it, and wait."""
        self._mutex.release()
        if self._queue:
            self._keep_going()

    def _follow(self, item: Item) -> None:
        """Wait until a leader has committed this item, or until it is our turn to lead."""
        gate = threading.Lock()
        gate.acquire()
        item.waiter = waiter = Waiter(gate)
        try:
            while not item.done:
                if self._takes_lead():
                    self._lead(item)
                    return
                gate.acquire()
        finally:
            waiter.left = True
            if self._woken is waiter:
                self._wake_next()

    def _keep_going(self) -> None:
        """Wake the next thread, unless one was woken that has not gone on yet: that one does it then."""
        if self._woken.left:
            self._wake_next()

    def _wake_next(self) -> None:
        """Wake the next thread whose item is done; after the last of them, one that commits what has queued."""
        while self._ready:
            try:
                waiter = self._ready.popleft()
            except IndexError:  # another one took the last
                break
            if not waiter.left:
                waiter.wake()
                self._woken = waiter
                if not waiter.left:
                    return
        if self._queue and not self._mutex.locked():
            self._hand_over()

    def _hand_over(self) -> None:
        """Let the first lead who waits in the queue. Whoever finds the mutex taken waits again."""
        for waiting in list(self._queue):
            if waiting.waiter is not None and not waiting.waiter.left:
                waiting.waiter.wake()
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
        """Let the threads of a batch be woken, and wake each event loop once."""
        awaited: list[Item] = []
        for item in batch:
            item.done = True  # from now on nobody begins to wait for it: who does already is named in it
            if item.loop is not None:
                awaited.append(item)
            if item.waiter is not None:
                self._ready.append(item.waiter)
        if self._ready:
            self._keep_going()
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
