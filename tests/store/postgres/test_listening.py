"""What one process writes is heard by another at once; where nothing is heard, that is known."""

import threading
import time
from collections.abc import Callable

import psycopg

from outlast.store.contract import Store
from outlast.store.postgres.open import channel_of
from outlast.store.postgres.schema import schema_of

from ..backends import PostgresSchema
from ..support import begin

Open = Callable[..., Store]


def until(holds: Callable[[], object]) -> None:
    """Wait for a real condition; fail when it does not come."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_a_piece_of_work_of_another_process_is_told(open_store: Open) -> None:
    waiting, writing, heard = open_store(), open_store(), threading.Event()
    assert not waiting.wakes()  # nobody has asked to be told
    end = waiting.when_written(heard.set)
    until(waiting.wakes)
    heard.clear()
    begin(writing, "run1")
    assert heard.wait(60)
    end()
    assert not writing.wakes()


def test_a_lost_connection_is_noticed_and_made_anew(open_store: Open, backend: PostgresSchema) -> None:
    waiting, heard = open_store(), threading.Event()
    waiting.when_written(heard.set)
    until(waiting.wakes)
    with psycopg.connect(backend.url, autocommit=True) as connection:
        ask = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%%' AND query LIKE %s"
        assert connection.execute(ask, (f"%{channel_of(schema_of(backend.tenant))}%",)).fetchall() == [(True,)]
    until(lambda: not waiting.wakes())
    until(waiting.wakes)
    heard.clear()
    begin(open_store(), "run1")
    assert heard.wait(60)
