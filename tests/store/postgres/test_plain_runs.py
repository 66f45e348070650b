"""Starts and ends of runs that nothing else is known of, many in one statement: they come to what their work does."""

import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from outlast import Outlast, Run, flow
from outlast.clock import ManualClock
from outlast.errors import LeaseLost
from outlast.home.place import FoundHome
from outlast.ledger.lease import Beat, Process
from outlast.store.contract import PROVEN, Ending, Hold, NewWait, PlainEnd, PlainStart, RunRow, Store, Writing
from outlast.store.postgres.open import PostgresStore
from outlast.store.postgres.schema import lock_of, schema_of

from ...kit.postgres import server
from ...worker.support import until
from ..backends import PostgresSchema
from ..support import broken, lease_of, new_run, some, start_of, take_over, together

ME = Process("p1", "host", "boot", "namespace", 1, 1, "machine")
SEEN: list[dict[str, list[Any]]] = []


def sign_in(store: Store) -> None:
    store.write(lambda tx: tx.beat(Beat(ME, 100, 100, 30.0)))


def start_on(store: Store, run_id: str, task: str = "", **given: Any) -> Any:
    """Start a run as a caller does; "worked" where that was done by its work."""
    run = new_run(run_id, task=task or run_id, **given)

    def work(tx: Writing) -> str:
        if tx.beaten_at(ME.id) is None:
            tx.beat(Beat(ME, 100, 100, 30.0))
        return "worked"

    plain = PlainStart(run, start_of(run_id), [some(1)], ME.id, 0, 200, "", lambda hold, row: (hold, row))
    return store.write(work, plain)


def end_on(store: Store, hold: Hold, row: RunRow, seq: int = 2) -> Any:
    """End it so; "worked" where that was done by its work."""
    ending = Ending("succeeded", "", '{"value":1}', None, 5)

    def work(tx: Writing) -> str:
        tx.append_last(hold, [some(seq)])
        return "worked"

    return store.write(work, PlainEnd(hold, [some(seq)], row, ending, ""))


def wrong_rows(store: Store) -> list[Any]:
    """What is not as its proof says."""
    return [told for table in PROVEN for told in store.read(lambda look, table=table: look.unproven(table, 0, 100))[1]]


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


# -- starts ------------------------------------------------------------------------------------------


def test_starts_in_one_commit_are_runs_of_their_own(store: Store) -> None:
    sign_in(store)
    begun = together(store, *[lambda n=n: start_on(store, f"run{n}") for n in range(3)])
    assert sorted(row.key for _, row in begun) == sorted({hold.run_key for hold, _ in begun})
    for place, (hold, row) in enumerate(begun):
        assert row == store.read(lambda look, row=row: look.run_by_id(row.id))
        assert lease_of(store, f"run{place}")[1:4] == (1, hold.head, hold.hash)
        store.finish(store.put(hold, [some(2)]))
        assert broken(store, row.id, 2) is None
    assert wrong_rows(store) == []


def _unfinished(store: Store) -> None:
    store.write(lambda tx: tx.add_run(new_run("old", task="t"), start_of("old"), "p2"))


def _finished(store: Store) -> None:
    def work(tx: Writing) -> None:
        hold = tx.add_run(new_run("old", task="t", named=1), start_of("old"), "p2")
        tx.end_run(hold.run_key, Ending("succeeded", "", None, None, 2))

    store.write(work)


def _undelivered(store: Store) -> None:
    def work(tx: Writing) -> None:
        hold = tx.add_run(new_run("old", task="t"), start_of("old"), "p2")
        tx.end_run(hold.run_key, Ending("succeeded", "", None, None, 2))
        tx.add_delivery(hold.run_key, "default", "t", "")

    store.write(work)


@pytest.mark.parametrize("before", [_unfinished, _finished, _undelivered])
def test_a_start_whose_task_is_known_is_done_by_its_work(store: Store, before: Callable[[Store], None]) -> None:
    sign_in(store)
    before(store)
    assert start_on(store, "run1", "t") == "worked"
    assert start_on(store, "run2", "other") != "worked"
    assert store.read(lambda look: look.run_by_id("run1")) is None


def test_of_two_starts_of_a_task_in_one_commit_the_second_is_done_by_its_work(store: Store) -> None:
    sign_in(store)
    elsewhere = {"identity": "m:other"}  # else a constraint would see it
    first, second = together(
        store, lambda: start_on(store, "run1", "t"), lambda: start_on(store, "run2", "t", **elsewhere)
    )
    assert first[1].id == "run1"
    assert second == "worked"


def test_of_a_silent_process_the_first_start_is_done_by_its_work_and_speaks_for_the_others(store: Store) -> None:
    begun = together(store, *[lambda n=n: start_on(store, f"run{n}") for n in range(3)])
    assert begun[0] == "worked"
    assert [row.id for _, row in begun[1:]] == ["run1", "run2"]


# -- ends --------------------------------------------------------------------------------------------


@pytest.fixture
def begun(store: Store) -> tuple[Hold, RunRow]:
    sign_in(store)
    hold, row = start_on(store, "run1")
    return hold, row


def test_an_end_lets_go_of_the_lease_and_keeps_its_result(store: Store, begun: tuple[Hold, RunRow]) -> None:
    hold, row = begun
    together(store, lambda: store.finish(store.put(hold, [some(2)])), lambda: end_on(store, hold, row, 3))
    ended = store.read(lambda look: look.run_by_id("run1"))
    assert ended == row._replace(status="succeeded", result='{"value":1}', updated_at=5)
    assert (lease_of(store, "run1").holder, lease_of(store, "run1").epoch) == (None, 2)
    assert broken(store, "run1", 3) is None
    assert wrong_rows(store) == []


def _wait(tx: Writing, hold: Hold) -> None:
    tx.add_interrupt("wait1", hold.run_key, NewWait("question", '["","a","",0]', "a", "{}", 1))


def _name(tx: Writing, hold: Hold) -> None:
    tx.name_run(hold.run_key)


@pytest.mark.parametrize("meanwhile", [_wait, _name])
def test_an_end_to_which_there_is_more_is_done_by_its_work(
    store: Store, begun: tuple[Hold, RunRow], meanwhile: Callable[[Writing, Hold], None]
) -> None:
    hold, row = begun
    other, beside = start_on(store, "run2")
    store.write(lambda tx: meanwhile(tx, hold))
    found = together(store, lambda: end_on(store, hold, row), lambda: end_on(store, other, beside))
    assert found == ["worked", None]
    assert broken(store, "run1", 2) is None
    assert broken(store, "run2", 2) is None
    assert wrong_rows(store) == []


def test_a_stale_end_writes_nothing_and_those_beside_it_are_done(store: Store, begun: tuple[Hold, RunRow]) -> None:
    hold, row = begun
    other, beside = start_on(store, "run2")
    take_over(store, hold)
    lost, done = together(store, lambda: end_on(store, hold, row), lambda: end_on(store, other, beside))
    assert isinstance(lost, LeaseLost)
    assert done is None
    assert store.read(lambda look: look.run_by_id("run1")).status == "running"  # type: ignore[union-attr]
    assert broken(store, "run1", 1) is None


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
