"""The few connections that read: who has one asks for no second, and who finds none waits for one to be free."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.pq import TransactionStatus

from outlast.errors import StoreBusy
from outlast.store.contract import Reading, Store
from outlast.store.postgres.open import READERS

from ..backends import PostgresSchema
from ..support import begin, some

LONG = "x" * 200_000  # read when it is asked for


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = PostgresSchema(tmp_path).open(busy_seconds=2)
    yield opened
    opened.close()


def test_as_many_looks_as_there_are_connections_each_read_a_long_payload_within_their_look(store: Store) -> None:
    hold = begin(store, "run1")
    store.finish(store.put(hold, [some(1, text=LONG)]))
    all_in, found = threading.Barrier(READERS), list[int]()

    def look(reading: Reading) -> None:
        all_in.wait(60)
        later = reading.later(hold.run_key)
        assert later is not None
        found.append(len(later.stored(1) or b""))

    threads = [threading.Thread(target=store.read, args=(look,)) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == READERS
    assert min(found) > 0


def test_one_question_is_asked_without_a_transaction_around_it(store: Store) -> None:
    def status(reading: Reading) -> TransactionStatus:
        return reading.connection.info.transaction_status  # type: ignore[attr-defined, no-any-return]

    assert store.read(status) == TransactionStatus.INTRANS
    assert store.ask(status) == TransactionStatus.IDLE


def test_what_is_written_does_not_wait_for_those_who_read(store: Store) -> None:
    hold = begin(store, "run1")
    is_full, is_over = threading.Barrier(READERS + 1), threading.Event()

    def look(reading: Reading) -> None:
        is_full.wait(60)
        is_over.wait(60)

    threads = [threading.Thread(target=store.read, args=(look,)) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    is_full.wait(60)
    store.finish(store.put(hold, [some(1)]))
    with pytest.raises(StoreBusy):  # all connections are taken for longer than one waits
        store.read(lambda reading: reading.run_by_id("run1"))
    is_over.set()
    for thread in threads:
        thread.join(60)
    assert store.read(lambda reading: reading.run_by_id("run1")) is not None
