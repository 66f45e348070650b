"""A commit that the server says to have failed: nothing of it was told as done, nothing of it is there."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from outlast.errors import StoreFailed
from outlast.store.contract import Store
from outlast.store.postgres.schema import schema_of

from ..backends import PostgresSchema
from ..support import begin, broken, some

FAIL = """
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no' USING ERRCODE = '58030'; END $$;
CREATE CONSTRAINT TRIGGER failing AFTER INSERT ON journal DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION fail();
"""


@pytest.fixture
def backend(tmp_path) -> PostgresSchema:
    return PostgresSchema(tmp_path)


@pytest.fixture
def store(backend: PostgresSchema) -> Iterator[Store]:
    opened = backend.open()
    yield opened
    opened.close()


@contextmanager
def failing(backend: PostgresSchema) -> Iterator[None]:
    """Statements are answered, and their commits fail."""
    with psycopg.connect(backend.url, autocommit=True) as connection:
        connection.execute(SQL("SET search_path TO {}").format(Identifier(schema_of(backend.tenant))))
        connection.execute(FAIL)
        yield
        connection.execute("DROP TRIGGER failing ON journal")
        connection.execute("DROP FUNCTION fail")


@pytest.mark.parametrize("entries", [1, 3])
def test_an_append_that_was_answered_and_not_committed_is_not_told_as_done(
    store: Store, backend: PostgresSchema, entries: int
) -> None:
    hold = begin(store, "run1")
    with failing(backend), pytest.raises(StoreFailed):
        store.finish(store.put(hold, [some(number) for number in range(1, entries + 1)]))
    assert hold.head == 0
    store.finish(store.put(hold, [some(1)]))
    assert broken(store, "run1", 1) is None


def test_a_single_entry_that_goes_the_short_way_is_not_either(store: Store, backend: PostgresSchema) -> None:
    hold = begin(store, "run1")
    with failing(backend), pytest.raises(StoreFailed):
        store.append_now(hold, some(1))
    assert store.append_now(hold, some(1))
    assert broken(store, "run1", 1) is None
