"""Runs, entries and batches for the tests of the store."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from outlast.ledger.journal import Break, Header, JournalEntry, Payload, check, entry, genesis
from outlast.store.contract import Hold, LeaseRow, NewRun, Store, Writing
from outlast.store.contract.blobs import BlobFile, Trash

Job = Callable[[], Any]


def kept(trash: Trash) -> list[BlobFile]:
    """The blobs in their places."""
    return [blob for shelf in trash.shelves() for blob in shelf.blobs]


def thrown(trash: Trash) -> list[BlobFile]:
    """The blobs in the trash."""
    return [blob for shelf in trash.shelves() for blob in shelf.trash]


def left(trash: Trash) -> list[str]:
    """What writers who died left unfinished."""
    return [name for shelf in trash.shelves() for name in shelf.half_written]


def new_run(run_id: str, **changed: Any) -> NewRun:
    run = NewRun(
        run_id, "default", "m:flow", run_id, "{}", "digest", "", "", "", "{}", "local", 1, 0, "m:flow", "m:flow"
    )
    return run._replace(**changed)


def start_of(run_id: str) -> bytes:
    return genesis(run_id, "m:flow", run_id, "digest")


def begin(store: Store, run_id: str) -> Hold:
    """A run that this process holds."""
    return store.write(lambda tx: tx.add_run(new_run(run_id), start_of(run_id), "p1"))


def take_over(store: Store, hold: Hold) -> Hold:
    """The same run in other hands: the hold that was given is stale from here on."""

    def work(tx: Writing) -> Hold:
        lease = tx.lease_of(hold.run_id)
        assert lease is not None
        assert tx.take_lease(lease, "p2")
        return Hold(hold.run_key, hold.run_id, lease.key, lease.epoch + 1, lease.head, lease.hash)

    return store.write(work)


def some(number: int, **facts: Any) -> JournalEntry:
    """An entry to append."""
    header = Header("step", "fetch", inputs=f"in{number}", attempt=1, status="succeeded", delivered=True)
    return entry(header, Payload(facts={"number": number, **facts}))


def lease_of(store: Store, run_id: str) -> LeaseRow:
    lease = store.read(lambda look: look.lease_of(run_id))
    assert lease is not None
    return lease


def broken(store: Store, run_id: str, count: int) -> Break | str | None:
    """What is wrong with a run's journal, which is to have `count` entries; None when nothing is."""
    lease = lease_of(store, run_id)
    row = store.read(lambda look: look.run_by_id(run_id))
    assert row is not None
    rows = store.read(lambda look: look.journal_of(row.key))
    wrong = check(run_id, start_of(run_id), rows, lease.head, lease.hash)
    return wrong or (None if len(rows) == count else f"{len(rows)} entries, expected were {count}")


def together(store: Store, *jobs: Job) -> list[Any]:
    """Run jobs so that they share one batch, in this order; what each gave or raised.

    A piece of work keeps the writer busy until all of them have queued.
    """
    gate, entered = threading.Event(), threading.Event()
    outcomes: list[Any] = [None] * len(jobs)

    def block(tx: Writing) -> None:
        entered.set()
        gate.wait(30)

    def attempt(place: int, job: Job) -> None:
        try:
            outcomes[place] = job()
        except BaseException as error:
            outcomes[place] = error

    threads = [threading.Thread(target=store.write, args=(block,))]
    threads[0].start()
    entered.wait(30)
    for place, job in enumerate(jobs):
        threads.append(threading.Thread(target=attempt, args=(place, job)))
        threads[-1].start()
        deadline = time.monotonic() + 30
        while len(store._writer._queue) <= place:
            assert time.monotonic() < deadline, f"job {place} was never queued: {outcomes}"
            time.sleep(0.0005)
    gate.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a caller was never told"
    return outcomes


def in_threads(count: int, job: Callable[[int], Any]) -> list[BaseException]:
    """Run `job(n)` in `count` threads at once; what they raised."""
    raised: list[BaseException] = []
    line = threading.Barrier(count)

    def attempt(number: int) -> None:
        line.wait(30)
        try:
            job(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a caller was never told"
    return raised


@contextmanager
def outsider(path: Path | str) -> Iterator[apsw.Connection]:
    """Another connection to the file, by the same SQLite library."""
    connection = apsw.Connection(str(path))
    try:
        yield connection
    finally:
        connection.close()
