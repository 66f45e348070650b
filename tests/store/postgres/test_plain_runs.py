"""What is PostgreSQL's own of starts and ends in one statement: their rows, and whom they wait for."""

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from outlast import Outlast, Run, flow
from outlast.clock import ManualClock
from outlast.home.place import FoundHome
from outlast.store.contract import Hold, RunRow, Store
from outlast.store.postgres.open import PostgresStore
from outlast.store.postgres.schema import lock_of, schema_of

from ...kit.postgres import server
from ...worker.support import until
from ..backends import PostgresSchema
from ..plain import end_on, sign_in, start_on, wrong_rows

SEEN: list[dict[str, list[Any]]] = []

# -- the same as by work -----------------------------------------------------------------------------

TABLES = ("runs", "journal", "chains", "deliveries", "queue_entries", "proofs")


@flow
def looks(run: Run, name: str) -> dict[str, str]:
    SEEN.append(_rows())  # in no step: one that takes long has its start written
    return {"name": name, "odd": "a\0b\1c"}


_HOME: list[tuple[str, str]] = []


def _rows() -> dict[str, list[Any]]:
    """All rows of the home under test, without what a process is called."""
    (url, tenant), *_ = _HOME
    with psycopg.connect(url) as connection:
        connection.execute(SQL("SET search_path TO {}").format(Identifier(schema_of(tenant))))
        holder = "(SELECT coalesce(max(holder), '-') FROM chains)"
        found = {}
        for table in TABLES:
            where = "WHERE noun = 'runs'" if table == "proofs" else ""
            told = connection.execute(f"SELECT replace(t::text, {holder}, 'me') FROM {table} t {where} ORDER BY 1")
            found[table] = told.fetchall()
        return found


@pytest.mark.parametrize("options", [{"task": "one"}, {}, {"task": "one", "session": "s", "meta": {"a": 1}}])
def test_both_ways_write_the_same_rows(
    backend: PostgresSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    found, put_work = [], PostgresStore.put_work
    for way in ("plain", "work"):
        if way == "work":
            monkeypatch.setattr(PostgresStore, "put_work", lambda self, work, plain=None: put_work(self, work))
        SEEN.clear()
        tenant, ids = f"{backend.tenant}{way}", count(1)
        _HOME[:] = [(backend.url, tenant)]
        home = FoundHome(tmp_path / way, database=backend.url)
        with Outlast(home, tenant=tenant, clock=ManualClock(), ids=lambda ids=ids: f"id{next(ids):08d}") as outlast:
            outlast.run(looks, "kelp", **options).unwrap()
            SEEN.append(_rows())
            wrong = wrong_rows(outlast._home.store)
        assert wrong == []
        found.append(list(SEEN))
    assert len(found[0]) == 2
    assert found[0] == found[1]


@pytest.fixture
def begun(store: Store) -> tuple[Hold, RunRow]:
    sign_in(store)
    hold, row = start_on(store, "run1")
    return hold, row


@pytest.fixture
def other(backend: PostgresSchema) -> Iterator[psycopg.Connection]:
    """Somebody else who writes for this tenant."""
    with psycopg.connect(server().url("postgres")) as connection:
        yield connection


def test_an_end_waits_for_work_of_others_and_not_for_their_appends(
    store: Store, backend: PostgresSchema, begun: tuple[Hold, RunRow], other: psycopg.Connection
) -> None:
    lock = lock_of(schema_of(backend.tenant))
    second, beside = start_on(store, "run2")
    other.execute("SELECT pg_advisory_xact_lock_shared(%s)", (lock,))
    end_on(store, *begun)
    other.rollback()
    other.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
    thread = threading.Thread(target=end_on, args=(store, second, beside))
    thread.start()
    with psycopg.connect(server().url("postgres"), autocommit=True) as looks:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        until(lambda: looks.execute(waiting, (other.info.backend_pid,)).fetchone(), "that it waits")
    assert store.read(lambda look: look.run_by_id("run2")).status == "running"  # type: ignore[union-attr]
    other.rollback()
    thread.join(60)
    assert store.read(lambda look: look.run_by_id("run2")).status == "succeeded"  # type: ignore[union-attr]
