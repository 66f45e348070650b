"""The commit path: many callers share one synced transaction, and each answers for itself."""

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast import failpoints
from outlast.errors import LeaseLost, StoreFailed
from outlast.store.commits import CommitQueue, Item, Waiter
from outlast.store.contract import Hold, Store, Writing

from ..runs.test_no_threads import no_threads
from .backends import Backend
from .support import begin, broken, in_threads, lease_of, new_run, some, start_of, take_over, together

WORKER = Path(__file__).with_name("worker.py")


def append(store: Store, hold: Hold, number: int = 1) -> Callable[[], None]:
    return lambda: store.finish(store.put(hold, [some(number)]))


def is_where_it_was_told(store: Store, hold: Hold) -> bool:
    """The hold in hand and the lease in the file agree on the end of the chain."""
    lease = lease_of(store, hold.run_id)
    return (lease.head, lease.hash) == (hold.head, hold.hash)


# -- one by one --------------------------------------------------------------------------------------


def test_entries_are_chained_in_the_order_they_are_given(store: Store) -> None:
    hold = begin(store, "run1")
    store.finish(store.put(hold, [some(1), some(2)]))
    store.finish(store.put(hold, []))
    store.finish(store.put(hold, [some(3)]))
    assert broken(store, "run1", 3) is None
    assert is_where_it_was_told(store, hold)


def test_work_gives_its_result_once_it_is_durable(store: Store) -> None:
    assert store.write(lambda tx: 5) == 5


def test_an_old_epoch_cannot_append_however_late(store: Store) -> None:
    old = begin(store, "run1")
    store.finish(store.put(old, [some(1)]))
    new = take_over(store, old)
    with pytest.raises(LeaseLost) as caught:
        store.finish(store.put(old, [some(2)]))
    assert (caught.value.run, caught.value.epoch) == ("run1", 1)
    store.finish(store.put(new, [some(2)]))
    with pytest.raises(LeaseLost):
        store.finish(store.put(old, [some(3)]))
    assert broken(store, "run1", 2) is None
    assert (old.head, new.head) == (1, 2)


def test_the_last_entries_of_a_holder_let_go_of_its_lease_and_a_stale_one_lets_go_of_nothing(store: Store) -> None:
    old = begin(store, "run1")
    new = take_over(store, old)
    with pytest.raises(LeaseLost):
        store.write(lambda tx: tx.append_last(old, [some(1)]))
    assert lease_of(store, "run1").holder
    store.write(lambda tx: tx.append_last(new, [some(1)]))
    assert (lease_of(store, "run1").holder, lease_of(store, "run1").epoch) == (None, new.epoch + 1)
    with pytest.raises(LeaseLost):
        store.finish(store.put(new, [some(2)]))
    assert broken(store, "run1", 1) is None


def test_a_stale_append_leaves_no_reference_to_its_blobs(store: Store) -> None:
    old = begin(store, "run1")
    take_over(store, old)
    stale = some(1)._replace(blobs=("ab" * 32,))
    together(store, lambda: store.finish(store.put(old, [stale])), lambda: begin(store, "run2"))
    assert store.read(lambda look: look.blobs_of(old.run_key)) == []


def test_blobs_are_referred_to_with_their_entry(store: Store) -> None:
    hold = begin(store, "run1")
    store.finish(
        store.put(hold, [some(1)._replace(blobs=("ab" * 32, "cd" * 32)), some(2)._replace(blobs=("ab" * 32,))])
    )
    assert sorted(store.read(lambda look: look.blobs_of(hold.run_key))) == ["ab" * 32, "cd" * 32]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_work_that_raises_is_undone_with_the_heads_it_moved(store: Store, error: BaseException) -> None:
    hold = begin(store, "run1")

    def work(tx: Writing) -> None:
        tx.append(hold, [some(1), some(2)])
        tx.set_run_phase(hold.run_key, "half")
        raise error

    with pytest.raises(type(error)):
        store.write(work)
    assert hold.head == 0
    row = store.read(lambda look: look.run_by_id("run1"))
    assert row is not None
    assert row.phase == ""
    store.finish(store.put(hold, [some(1)]))
    assert broken(store, "run1", 1) is None


@pytest.mark.parametrize("error", [ValueError("no"), None])
def test_appends_go_on_after_work_that_was_undone_long_after_the_first(store: Store, error: Exception | None) -> None:
    first, second = begin(store, "run1"), begin(store, "run2")
    for number in range(1, 9):  # a driver prepares what is said often
        store.write(lambda tx, number=number: tx.set_run_phase(first.run_key, str(number)))
        assert store.append_now(first, some(number))
        together(store, append(store, first, number), append(store, second, number))

    def work(tx: Writing) -> None:
        tx.append(second, [some(7)])
        if error is not None:
            raise error
        tx.add_run(new_run("run1"), start_of("run1"), "p1")

    with pytest.raises(ValueError if error else StoreFailed, match="no" if error else "UNIQUE"):
        store.write(work)
    assert store.append_now(first, some(9))
    together(store, append(store, first, 9), append(store, second, 9))
    assert broken(store, "run1", 18) is broken(store, "run2", 9) is None


def test_work_that_raises_before_it_wrote_anything_leaves_what_others_wrote(store: Store) -> None:
    holds = [begin(store, f"run{number}") for number in range(2)]

    def nothing(tx: Writing) -> None:
        raise ValueError

    def named(hold: Hold) -> Callable[[], None]:
        return lambda: store.write(lambda tx: tx.set_run_phase(hold.run_key, "done"))

    outcomes = together(store, named(holds[0]), lambda: store.write(nothing), named(holds[1]))
    assert [type(outcome) for outcome in outcomes] == [type(None), ValueError, type(None)]
    rows = [store.read(lambda look, hold=hold: look.run_by_id(hold.run_id)) for hold in holds]
    assert [row.phase for row in rows if row is not None] == ["done", "done"]


def test_a_constraint_is_an_error_of_ours_and_nothing_is_written(store: Store) -> None:
    begin(store, "run1")
    with pytest.raises(StoreFailed, match="UNIQUE"):
        store.write(lambda tx: tx.add_run(new_run("run2", task="run1"), start_of("run2"), "p1"))
    assert store.read(lambda look: look.run_by_id("run2")) is None
    assert store.read(lambda look: look.lease_of("run2")) is None


# -- one entry, at once ------------------------------------------------------------------------------


def test_an_entry_written_at_once_is_chained_like_any_other(store: Store, reached: Counter[str]) -> None:
    hold = begin(store, "run1")
    store.finish(store.put(hold, [some(1)]))
    reached.clear()
    assert store.append_now(hold, some(2)) is True
    assert dict(reached) == {"commit.begin": 1, "commit.applied": 1, "commit.done": 1}
    store.finish(store.put(hold, [some(3), some(4)]))
    assert broken(store, "run1", 4) is None
    assert is_where_it_was_told(store, hold)


def test_an_old_epoch_or_head_writes_nothing_at_once_either(store: Store) -> None:
    old = begin(store, "run1")
    new = take_over(store, old)
    with pytest.raises(LeaseLost) as caught:
        store.append_now(old, some(1))
    assert (caught.value.run, caught.value.epoch, old.head) == ("run1", 1, 0)
    behind = Hold(new.run_key, new.run_id, new.lease_key, new.epoch, new.head, new.hash)
    store.append_now(new, some(1))
    with pytest.raises(LeaseLost):
        store.append_now(behind, some(2))
    assert broken(store, "run1", 1) is None
    assert (behind.head, new.head) == (0, 1)


def test_nothing_is_written_at_once_while_another_writes_or_waits_to(store: Store) -> None:
    first, second = begin(store, "run1"), begin(store, "run2")
    found: list[bool] = []
    store.write(lambda tx: found.append(store.append_now(first, some(1))))
    queued = store.put(second, [some(1)])
    found.append(store.append_now(first, some(1)))
    store.finish(queued)
    assert found == [False, False]
    assert first.head == 0
    assert store.append_now(first, some(1)) is True
    assert [broken(store, hold.run_id, 1) for hold in (first, second)] == [None, None]


@pytest.mark.parametrize("point", ["commit.begin", "commit.applied", "commit.done"])
def test_ctrl_c_while_an_entry_is_written_at_once_neither_loses_nor_doubles_it(store: Store, point: str) -> None:
    hold = begin(store, "run1")

    def interrupt(name: str) -> None:
        if name == point:
            failpoints.arm(None)
            raise KeyboardInterrupt

    failpoints.arm(interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.append_now(hold, some(1))
    store.finish(store.put(hold, [some(2)]))
    assert broken(store, "run1", 2) is None
    assert is_where_it_was_told(store, hold)


def test_threads_that_write_at_once_or_wait_their_turn_make_one_chain(store: Store) -> None:
    hold = begin(store, "run1")

    def work(number: int) -> None:
        for _ in range(20):
            if not store.append_now(hold, some(number)):
                store.finish(store.put(hold, [some(number)]))

    assert in_threads(8, work) == []
    assert broken(store, "run1", 160) is None


def test_a_store_that_gave_pages_back_writes_at_once_as_before(store: Store) -> None:
    hold = begin(store, "run1")
    store.vacuum()
    assert store.append_now(hold, some(1)) is True
    assert broken(store, "run1", 1) is None


# -- batches -----------------------------------------------------------------------------------------


def test_callers_that_wait_at_once_share_one_commit(store: Store, reached: Counter[str]) -> None:
    holds = [begin(store, f"run{number}") for number in range(20)]
    reached.clear()
    assert together(store, *(append(store, hold) for hold in holds)) == [None] * 20
    assert reached["commit.done"] == 2  # the work that kept the writer busy, and all twenty
    assert all(broken(store, hold.run_id, 1) is None for hold in holds)


def test_one_run_may_be_in_a_batch_more_than_once(store: Store) -> None:
    hold = begin(store, "run1")
    together(store, *(append(store, hold, number) for number in range(5)))
    assert broken(store, "run1", 5) is None
    assert is_where_it_was_told(store, hold)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_stale_one_in_a_batch_fails_alone(store: Store, place: int) -> None:
    holds = [begin(store, f"run{number}") for number in range(3)]
    new = take_over(store, holds[place])
    outcomes = together(store, *(append(store, hold) for hold in holds))
    assert [type(outcome) for outcome in outcomes] == [LeaseLost if n == place else type(None) for n in range(3)]
    assert outcomes[place].run == holds[place].run_id
    for number, hold in enumerate(holds):
        assert broken(store, hold.run_id, 0 if number == place else 1) is None
        assert hold.head == (0 if number == place else 1)
    store.finish(store.put(new, [some(1)]))
    assert broken(store, new.run_id, 1) is None


def test_work_that_raises_in_a_batch_is_undone_alone(store: Store, reached: Counter[str]) -> None:
    first, second, third = (begin(store, f"run{number}") for number in range(3))

    def work(tx: Writing) -> None:
        tx.append(second, [some(1)])
        tx.append(first, [some(9)])
        raise ValueError("no")

    reached.clear()
    outcomes = together(
        store, append(store, first), lambda: store.write(work), append(store, third), append(store, second, 2)
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), ValueError, type(None), type(None)]
    assert reached["commit.done"] == 2
    assert [broken(store, f"run{number}", 1) for number in range(3)] == [None] * 3
    assert all(is_where_it_was_told(store, hold) for hold in (first, second, third))


def test_a_constraint_in_a_batch_fails_alone(store: Store) -> None:
    first, second = begin(store, "run1"), begin(store, "run2")

    def double(tx: Writing) -> None:
        tx.append(second, [some(7)])
        tx.add_run(new_run("run1"), start_of("run1"), "p1")

    outcomes = together(
        store, append(store, first), lambda: store.write(double), append(store, second), append(store, first)
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), StoreFailed, type(None), type(None)]
    assert broken(store, "run1", 2) is broken(store, "run2", 1) is None
    assert is_where_it_was_told(store, first)
    assert is_where_it_was_told(store, second)


def test_each_caller_gets_its_own_result_when_a_batch_is_done_singly(store: Store) -> None:
    begin(store, "run1")

    def double(tx: Writing) -> None:
        tx.add_run(new_run("run1"), start_of("run1"), "p1")

    def result(number: int) -> Callable[[], Any]:
        return lambda: store.write(lambda tx: number)

    outcomes = together(store, result(1), lambda: store.write(double), result(2))
    assert (outcomes[0], type(outcomes[1]), outcomes[2]) == (1, StoreFailed, 2)


def test_more_than_fits_in_one_batch_is_committed_all_the_same(store: Store, reached: Counter[str]) -> None:
    from outlast.store.commits import MOST_ITEMS

    hold = begin(store, "run1")
    reached.clear()
    count = MOST_ITEMS + 30
    together(store, *(append(store, hold, number) for number in range(count)))
    assert broken(store, "run1", count) is None
    assert reached["commit.done"] == 3


# -- many threads ------------------------------------------------------------------------------------


def waiting() -> Item:
    """An item whose thread waits."""
    lock = threading.Lock()
    lock.acquire()
    return Item(None, (), waiter=Waiter(lock))


def is_asleep(item: Item) -> bool:
    assert item.waiter is not None
    return item.waiter.gate.locked()


def go_on(queue: CommitQueue, item: Item) -> None:
    """What the thread of an item that is done does as it goes on."""
    waiter = item.waiter
    assert item.done
    assert waiter is not None
    waiter.left = True
    if queue._woken is waiter:
        queue._wake_next()


def test_threads_wake_each_other_also_past_one_that_waits_no_more() -> None:
    queue, batch = CommitQueue(), [waiting() for _ in range(4)]
    assert batch[1].waiter is not None
    batch[1].waiter.left = True  # its thread got Ctrl-C
    queue._tell(batch)
    assert [is_asleep(item) for item in batch] == [False, True, True, True]
    assert all(item.done for item in batch)
    go_on(queue, batch[0])
    assert [is_asleep(item) for item in batch] == [False, True, False, True]
    go_on(queue, batch[2])
    assert not is_asleep(batch[3])


def test_threads_of_the_next_batch_are_woken_after_those_of_the_one_before() -> None:
    queue, batches = CommitQueue(), [[waiting(), waiting()] for _ in range(2)]
    for batch in batches:
        queue._tell(batch)
    order = [item for batch in batches for item in batch]
    for number, item in enumerate(order):
        assert [is_asleep(each) for each in order] == [n > number for n in range(len(order))]
        go_on(queue, item)
    queue._tell([last := waiting()])  # nobody was on the way any more
    assert not is_asleep(last)


def test_a_thread_that_leaves_as_it_is_woken_leaves_nobody_asleep() -> None:
    queue, batch = CommitQueue(), [waiting(), waiting()]

    class Leaving:
        """A lock whose thread goes on, and is gone, before who opens it does anything more."""

        def release(self) -> None:
            go_on(queue, batch[0])

    assert batch[0].waiter is not None
    batch[0].waiter.gate = Leaving()  # type: ignore[assignment]
    queue._tell(batch)
    assert not is_asleep(batch[1])


def test_a_thread_that_is_interrupted_while_it_waits_leaves_nobody_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, (first, second) = CommitQueue(), (Item(None, ()), waiting())
    queue._mutex.acquire()

    class Interrupted:
        """A lock at which Ctrl-C comes to who waits, once it was told to go on."""

        taken = False

        def acquire(self) -> None:
            if self.taken:
                queue._tell([first, second])
                raise KeyboardInterrupt
            self.taken = True

        def release(self) -> None:
            return

    monkeypatch.setattr("outlast.store.commits.threading.Lock", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue._follow(first)
    assert not is_asleep(second)


def test_what_is_told_while_a_thread_is_about_to_wait_is_not_waited_for() -> None:
    item = Item(None, ())

    class Telling(CommitQueue):
        def _takes_lead(self) -> bool:
            self._tell([item])
            return False

    assert Telling()._follow(item) is None  # type: ignore[func-returns-value]  # it would wait for ever


class Quick(CommitQueue):
    """Commits nothing, at once."""

    def _commit_together(self, batch: list[Item]) -> None:
        self._durable = True


class Mutex:
    """The mutex in other hands, which let go of it right after somebody found it taken."""

    def __init__(self, queue: CommitQueue) -> None:
        self._queue, self._held = queue, True

    def acquire(self, blocking: bool = True) -> bool:
        if not self._held:
            return True
        self._queue._let_go()
        return False

    def release(self) -> None:
        self._held = False

    def locked(self) -> bool:
        return self._held


def test_who_finds_the_mutex_taken_that_is_let_go_of_then_commits_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Quick()
    monkeypatch.setattr(queue, "_mutex", Mutex(queue))
    item = queue.put(Item(None, ()))
    queue.commit(item)  # it would wait for ever
    assert item.done


def test_somebody_leads_whether_the_last_thread_goes_on_before_or_after_the_mutex_is_free() -> None:
    for first in ("goes on", "lets go"):
        queue, woken, queued = CommitQueue(), waiting(), waiting()
        queue._mutex.acquire()
        queue._tell([woken])
        queue.put(queued)
        if first == "goes on":
            go_on(queue, woken)
            assert is_asleep(queued)  # it could not lead
            queue._let_go()
        else:
            queue._let_go()
            assert is_asleep(queued)  # who was woken is on the way, and sees to it
            go_on(queue, woken)
        assert not is_asleep(queued)


def test_somebody_leads_where_the_last_thread_goes_on_just_as_the_mutex_is_let_go_of() -> None:
    queue, woken, queued = CommitQueue(), waiting(), waiting()

    class Released(Mutex):
        def release(self) -> None:
            go_on(queue, woken)  # it finds the mutex taken
            super().release()

    queue._mutex = Released(queue)  # type: ignore[assignment]
    queue._tell([woken])
    queue.put(queued)
    queue._let_go()
    assert not is_asleep(queued)


def test_a_thread_that_is_woken_just_as_it_leaves_leaves_nobody_asleep() -> None:
    first, second = Item(None, ()), waiting()

    class Racing(CommitQueue):
        """Another thread wakes the next right after a thread that leaves looked whether it is the one to do so."""

        _last, is_leaving = Waiter(threading.Lock(), left=True), False

        @property
        def _woken(self) -> Waiter:  # type: ignore[override]
            seen = self._last
            if self.is_leaving:
                self.is_leaving = False
                self._wake_next()
            return seen

        @_woken.setter
        def _woken(self, waiter: Waiter) -> None:
            self._last = waiter

        def _takes_lead(self) -> bool:
            assert first.waiter is not None
            assert second.waiter is not None
            first.done = self.is_leaving = True
            self._ready += [first.waiter, second.waiter]
            first.waiter.wake()  # as who hands over the lead may do meanwhile
            return False

    Racing()._follow(first)
    assert not is_asleep(second)


def test_who_comes_while_more_are_to_go_on_than_have_queued_leaves_it_to_them() -> None:
    queue, batch = Quick(), [waiting() for _ in range(4)]
    queue._tell(batch)  # one was woken, three are to be
    found = []
    for _ in range(3):
        queue.put(waiting())
        found.append(queue._takes_lead())
    assert found == [False, False, True]
    queue._let_go()
    queue._queue.clear()
    for item in batch:
        queue._queue.append(waiting())
        go_on(queue, item)
    assert not queue._ready
    queue._queue.clear()
    queue.put(waiting())
    queue._ready += [waiter for item in batch if (waiter := item.waiter) is not None]
    assert queue._takes_lead()  # nobody is on the way any more


def test_the_lead_is_never_handed_to_a_thread_that_waits_no_more() -> None:
    queue, items = CommitQueue(), [waiting(), waiting()]
    for item in items:
        queue.put(item)
    assert items[0].waiter is not None
    items[0].waiter.left = True  # its thread got Ctrl-C
    queue._hand_over()
    assert not is_asleep(items[1])


def test_nobody_waits_for_what_a_thread_does_that_was_woken_before(store: Store) -> None:
    holds = [begin(store, f"run{number}") for number in range(8)]
    all_told = threading.Barrier(len(holds))

    def work(hold: Hold) -> Callable[[], None]:
        def job() -> None:
            store.finish(store.put(hold, [some(1)]))
            all_told.wait(30)

        return job

    assert together(store, *map(work, holds)) == [None] * len(holds)


def test_what_queued_during_a_commit_is_committed_whatever_the_threads_of_that_do_then(store: Store) -> None:
    holds = [begin(store, f"run{number}") for number in range(8)]
    early, late = holds[:6], [threading.Thread(target=append(store, hold)) for hold in holds[6:]]

    def queue_more(point: str) -> None:
        if point == "commit.done" and not store._writer._queue:  # all of the early ones are committed, none was told
            failpoints.arm(None)
            for thread in late:
                thread.start()
            while [item.waiter is None for item in list(store._writer._queue)] != [False] * len(late):
                threading.Event().wait(0.0005)

    def work(hold: Hold) -> Callable[[], list[None]]:
        return lambda: [store.finish(store.put(hold, [some(1)])), *(thread.join(30) for thread in late)]

    failpoints.arm(queue_more)
    try:
        assert together(store, *map(work, early)) == [[None, None, None]] * len(early)
    finally:
        failpoints.arm(None)
    assert not any(thread.is_alive() for thread in late)
    assert [broken(store, hold.run_id, 1) for hold in holds] == [None] * len(holds)


def test_many_threads_with_runs_of_their_own_share_commits(disk_store: Store, reached: Counter[str]) -> None:
    store = disk_store
    threads, each = 16, 25
    holds = [begin(store, f"run{number}") for number in range(threads)]
    reached.clear()

    def work(number: int) -> None:
        for count in range(each):
            store.finish(store.put(holds[number], [some(count)]))

    assert in_threads(threads, work) == []
    assert [broken(store, hold.run_id, each) for hold in holds] == [None] * threads
    assert all(is_where_it_was_told(store, hold) for hold in holds)
    assert reached["commit.done"] < threads * each / 2


def test_many_threads_on_one_run_make_one_chain(store: Store) -> None:
    hold = begin(store, "run1")
    assert in_threads(8, lambda number: [store.finish(store.put(hold, [some(number)])) for _ in range(20)]) == []
    assert broken(store, "run1", 160) is None


def test_threads_that_lose_their_lease_do_not_disturb_the_others(store: Store) -> None:
    holds = [begin(store, f"run{number}") for number in range(8)]

    def work(number: int) -> None:
        for count in range(20):
            if count == 10 and number % 2:
                take_over(store, holds[number])
            store.finish(store.put(holds[number], [some(count)]))

    raised = in_threads(8, work)
    assert sorted(error.run for error in raised) == ["run1", "run3", "run5", "run7"]  # type: ignore[attr-defined]
    assert [broken(store, f"run{n}", 10 if n % 2 else 20) for n in range(8)] == [None] * 8


def test_reading_is_not_held_up_by_a_writer(store: Store) -> None:
    begin(store, "run1")
    gate, entered = threading.Event(), threading.Event()

    def work(tx: Writing) -> None:
        tx.set_run_phase(1, "new")
        entered.set()
        gate.wait(30)

    thread = threading.Thread(target=store.write, args=(work,))
    thread.start()
    entered.wait(30)
    row = store.read(lambda look: look.run_by_id("run1"))
    gate.set()
    thread.join(30)
    assert row is not None
    assert row.phase == ""  # one moment of the store: what is not committed is not seen


# -- event loops -------------------------------------------------------------------------------------


def test_on_a_loop_with_one_run_an_append_is_done_at_once(store: Store) -> None:
    hold = begin(store, "run1")

    async def main() -> None:
        store.live = 1
        assert store.finish_soon(store.put(hold, [some(1)])) is None
        assert broken(store, "run1", 1) is None

    asyncio.run(main())
    assert store._writer._thread is None


def test_with_many_runs_the_writer_thread_commits_for_all(store: Store, reached: Counter[str]) -> None:
    holds = [begin(store, f"run{number}") for number in range(32)]
    reached.clear()

    async def work(hold: Hold) -> None:
        for number in range(10):
            later = store.finish_soon(store.put(hold, [some(number)]))
            if later is not None:
                await later

    async def main() -> None:
        store.live = len(holds)
        await asyncio.gather(*map(work, holds))

    asyncio.run(main())
    assert [broken(store, hold.run_id, 10) for hold in holds] == [None] * 32
    assert reached["commit.done"] < 160


@pytest.mark.parametrize("live", [1, 2])
def test_a_lost_lease_is_raised_at_once_or_when_awaited(store: Store, live: int) -> None:
    hold = begin(store, "run1")
    take_over(store, hold)

    async def main() -> None:
        store.live = live
        later = store.finish_soon(store.put(hold, [some(1)]))
        assert later is not None
        await later

    with pytest.raises(LeaseLost):
        asyncio.run(main())
    assert broken(store, "run1", 0) is None


def test_a_busy_writer_is_waited_for_without_blocking_the_loop(store: Store) -> None:
    hold = begin(store, "run1")
    gate, entered = threading.Event(), threading.Event()

    def block(tx: Writing) -> None:
        entered.set()
        gate.wait(30)

    async def main() -> None:
        store.live = 1
        later = store.finish_soon(store.put(hold, [some(1)]))
        assert later is not None
        await asyncio.sleep(0)
        gate.set()  # only reached because the loop was not blocked
        await asyncio.wait_for(later, 30)

    thread = threading.Thread(target=store.write, args=(block,))
    thread.start()
    entered.wait(30)
    asyncio.run(main())
    thread.join(30)
    assert broken(store, "run1", 1) is None


def test_giving_up_waiting_does_not_take_the_entry_back(store: Store) -> None:
    """What was handed to the writer is committed, whoever stopped listening; the chain goes on behind it."""
    hold = begin(store, "run1")

    async def main() -> None:
        store.live = 2
        first = store.finish_soon(store.put(hold, [some(1)]))
        assert isinstance(first, asyncio.Future)
        first.cancel()
        second = store.finish_soon(store.put(hold, [some(2)]))
        assert second is not None
        await second

    asyncio.run(main())
    assert broken(store, "run1", 2) is None
    assert is_where_it_was_told(store, hold)


@contextmanager
def held_up(store: Store) -> Iterator[Callable[[], None]]:
    """Somebody else is writing, until the call that it gives is made, or the block is left."""
    gate, entered = threading.Event(), threading.Event()

    def block(tx: Writing) -> None:
        entered.set()
        gate.wait(30)

    thread = threading.Thread(target=store.write, args=(block,))
    thread.start()
    entered.wait(30)
    try:
        yield gate.set
    finally:
        gate.set()
        thread.join(30)


def test_who_awaits_an_entry_and_is_cancelled_goes_on_at_once_and_the_entry_is_written(store: Store) -> None:
    hold = begin(store, "run1")

    async def append() -> None:
        await store.append_later(hold, some(1))

    async def main(let_go: Callable[[], None]) -> None:
        store.live = 2
        task = asyncio.ensure_future(append())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)
        let_go()  # only now can it be written
        await store.append_later(hold, some(2))

    with held_up(store) as let_go:
        asyncio.run(main(let_go))
    assert broken(store, "run1", 2) is None
    assert is_where_it_was_told(store, hold)


def test_who_is_to_know_what_became_of_it_is_cancelled_only_then(store: Store) -> None:
    hold = begin(store, "run1")

    async def finish() -> None:
        later = store.finish_surely(store.put(hold, [some(1)]))
        assert later is not None
        await later

    async def main(let_go: Callable[[], None]) -> None:
        store.live = 2
        task = asyncio.ensure_future(finish())
        await asyncio.sleep(0)
        task.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not task.done()
        let_go()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(task), 30)
        assert broken(store, "run1", 1) is None  # it was written before the task heard of anything

    with held_up(store) as let_go:
        asyncio.run(main(let_go))


def test_what_is_written_is_not_shown_with_a_task_that_awaits_it(store: Store) -> None:
    hold = begin(store, "run1")

    async def append() -> None:
        await store.append_later(hold, some(1, said="only for the journal"))

    async def main() -> None:
        store.live = 2
        task = asyncio.ensure_future(append())
        await asyncio.sleep(0)
        shown = repr(task)
        await task
        assert "wait_for=<AwaitedItem pending>" in shown

    asyncio.run(main())


def test_tasks_of_one_batch_go_on_in_the_order_of_the_queue_and_one_that_fails_holds_up_none(store: Store) -> None:
    holds = [begin(store, f"run{number}") for number in range(6)]
    take_over(store, holds[2])
    heard: list[int] = []

    async def append(number: int) -> None:
        try:
            await store.append_later(holds[number], some(1))
        finally:
            heard.append(number)

    async def main() -> list[BaseException | None]:
        store.live = len(holds)
        return await asyncio.gather(*map(append, range(len(holds))), return_exceptions=True)

    ended = asyncio.run(main())
    assert heard == [*range(len(holds))]
    assert [type(each) for each in ended] == [LeaseLost if number == 2 else type(None) for number in range(len(holds))]


def test_after_a_ctrl_c_in_one_task_of_a_batch_the_others_hear_what_became_of_theirs(store: Store) -> None:
    holds = [begin(store, f"run{number}") for number in range(4)]
    heard: list[int] = []

    async def append(number: int) -> None:
        await store.append_later(holds[number], some(1))
        heard.append(number)
        if number == 1:
            raise KeyboardInterrupt

    loop = asyncio.new_event_loop()
    store.live = len(holds)
    tasks = [loop.create_task(append(number)) for number in range(len(holds))]
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(asyncio.wait(tasks))
    assert heard == [0, 1]
    loop.run_until_complete(asyncio.wait_for(asyncio.gather(tasks[2], tasks[3]), 30))
    with pytest.raises(KeyboardInterrupt):
        tasks[1].result()
    loop.close()
    assert heard == [0, 1, 2, 3]


@pytest.mark.parametrize("is_busy", [False, True])
def test_where_no_thread_can_be_had_what_loops_wait_for_is_committed_without_one(store: Store, is_busy: bool) -> None:
    hold, (gate, entered) = begin(store, "run1"), (threading.Event(), threading.Event())

    def block(tx: Writing) -> None:
        entered.set()
        gate.wait(30)

    async def main() -> None:
        store.live = 2
        with no_threads():
            later = store.finish_soon(store.put(hold, [some(1)]))
            assert later is not None
            await asyncio.sleep(0)
            gate.set()
            await asyncio.wait_for(later, 30)

    thread = threading.Thread(target=store.write, args=(block,))
    if is_busy:
        thread.start()
        entered.wait(30)
    asyncio.run(main())
    if is_busy:
        thread.join(30)
    assert broken(store, "run1", 1) is None


def test_a_loop_that_is_gone_does_not_stop_the_writer(store: Store, open_store: Callable[[], Store]) -> None:
    hold = begin(store, "run1")

    async def leave() -> None:
        store.live = 2
        assert store.finish_soon(store.put(hold, [some(1)])) is not None
        await asyncio.sleep(0)

    asyncio.run(leave())
    store.finish(store.put(hold, [some(2)]))
    asyncio.run(leave())
    store.close()
    assert broken(open_store(), "run1", 3) is None


def test_a_loop_that_is_closed_as_it_is_to_be_told_keeps_nobody_else_waiting(store: Store) -> None:
    hold = begin(store, "run1")

    async def leave() -> None:
        assert store.finish_soon(store.put(hold, [some(1)])) is not None
        await asyncio.sleep(0)

    async def stay() -> None:
        await asyncio.wait_for(store.append_later(hold, some(2)), 10)

    loop = asyncio.new_event_loop()
    store.live = 2
    with held_up(store) as let_go:
        loop.run_until_complete(leave())
        loop.close()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(loop, "is_closed", lambda: False)  # as it was a moment ago
            let_go()
            asyncio.run(stay())
    assert broken(store, "run1", 2) is None
    with store._writer._mutex:  # whoever commits has told the other loop too
        assert not store._writer._unheard


def test_threads_and_several_loops_at_once_all_get_their_answers(store: Store) -> None:
    holds = [begin(store, f"run{number}") for number in range(12)]
    store.live = len(holds)

    async def awaiting(number: int) -> None:
        for count in range(30):
            later = store.finish_soon(store.put(holds[number], [some(count)]))
            if later is not None:
                await asyncio.wait_for(later, 30)

    async def loop_of(numbers: list[int]) -> None:
        await asyncio.gather(*map(awaiting, numbers))

    def work(number: int) -> None:
        if number < 2:
            asyncio.run(loop_of([number * 3, number * 3 + 1, number * 3 + 2]))
        else:
            for count in range(30):
                store.finish(store.put(holds[4 + number], [some(count)]))

    assert in_threads(8, work) == []
    assert [broken(store, hold.run_id, 30) for hold in holds] == [None] * 12


# -- several processes -------------------------------------------------------------------------------


def test_several_processes_write_one_store_at_once_and_none_is_told_that_it_is_busy(backend: Backend) -> None:
    """Also the first moment: none of them finds a store there."""
    names = [f"worker{number}" for number in range(4)]
    workers = [
        subprocess.Popen(
            [sys.executable, str(WORKER), backend.kind, backend.place, name, "200"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for worker in workers:
        assert worker.stdout
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin
        worker.stdin.write("go\n")
        worker.stdin.flush()
    said = [worker.communicate(timeout=90) for worker in workers]
    assert [(out, err) for out, err in said] == [("done\n", "")] * 4
    store = backend.open()
    assert [broken(store, name, 200) for name in names] == [None] * 4
    assert len(store.read(lambda look: look.newest_runs(None, 100, 0))) == 4 * 11
    assert store.check() == []
    store.close()
