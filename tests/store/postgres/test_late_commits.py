"""Numbers are given before the commit: whoever reads by them misses nothing that is committed late with a lower one."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from outlast.store.contract import Store
from outlast.store.postgres.schema import schema_of

from ..backends import PostgresSchema
from ..support import begin, some


@pytest.fixture
def backend(tmp_path) -> PostgresSchema:
    return PostgresSchema(tmp_path)


@pytest.fixture
def store(backend: PostgresSchema) -> Iterator[Store]:
    opened = backend.open()
    yield opened
    opened.close()


@pytest.fixture
def other(backend: PostgresSchema, store: Store) -> Iterator[psycopg.Connection]:
    """Somebody else who writes there, and takes long to commit."""
    with psycopg.connect(backend.url) as connection:
        connection.execute(SQL("SET search_path TO {}").format(Identifier(schema_of(backend.tenant))))
        connection.commit()
        yield connection
        connection.rollback()


def add(other: psycopg.Connection, seq: int) -> None:
    """An entry whose number is given now, and which is not committed."""
    other.execute(
        "INSERT INTO journal (chain, seq, header, hash) SELECT chain, %s, header, hash FROM journal LIMIT 1", (seq,)
    )


def told(store: Store, after: int = 0) -> list[int]:
    def look(reading):
        upto = reading.settled_entry(after, 100)
        return [row.seq for row in reading.entries_between(after, upto, 100)]

    return store.read(look)


def test_an_entry_that_commits_late_with_a_lower_number_is_told_in_its_place(
    store: Store, other: psycopg.Connection
) -> None:
    hold = begin(store, "run1")
    store.finish(store.put(hold, [some(1)]))
    before = told(store)
    add(other, 1000)
    store.finish(store.put(hold, [some(2)]))
    store.finish(store.put(hold, [some(3)]))
    assert told(store) == told(store) == before
    other.commit()
    assert told(store) == [*before, 1000, hold.head - 1, hold.head]


def test_what_was_rolled_back_is_waited_for_no_longer(store: Store, other: psycopg.Connection) -> None:
    hold = begin(store, "run1")
    store.finish(store.put(hold, [some(1)]))
    before = told(store)
    add(other, 1000)
    store.finish(store.put(hold, [some(2)]))
    assert told(store) == before
    other.rollback()
    assert told(store) == [*before, hold.head]


def test_one_who_takes_long_keeps_back_only_what_he_was_there_for(store: Store, other: psycopg.Connection) -> None:
    """A hole that is older than whoever is under way now was rolled back."""
    hold = begin(store, "run1")
    store.finish(store.put(hold, [some(1)]))
    add(other, 1000)
    other.rollback()
    store.finish(store.put(hold, [some(2)]))
    before = told(store)
    other.execute("CREATE TEMP TABLE busy (n int)")
    assert told(store) == before
    store.finish(store.put(hold, [some(3)]))
    assert told(store) == [*before, hold.head]
