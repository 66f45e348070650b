"""How the server carries out what is committed: by its indexes, and by a plan that it makes once."""

from itertools import count
from typing import Any

from outlast.store.contract import Hold, Store
from outlast.store.postgres.transaction import PostgresTransaction

from ..support import begin, some
from .test_plain_runs import end_on, sign_in, start_on

OURS = "SELECT name, cardinality(parameter_types), custom_plans, statement FROM pg_prepared_statements"
_numbers = count(1)


def append_some(store: Store, holds: list[Hold], *shape: int, blobs: tuple[str, ...] = ()) -> None:
    """One commit with so many entries for each of these."""
    entries = [[some(next(_numbers))._replace(blobs=blobs) for _ in range(many)] for many in shape]
    assert not store.write(lambda tx: tx.append_all(list(zip(holds, entries, strict=False))))


def all_of_it(store: Store, times: int) -> None:
    """Everything that has a statement of its own for many, some times, with few at a time."""
    holds = [begin(store, f"r{next(_numbers)}") for _ in range(3)]
    for _ in range(times):
        append_some(store, holds, 1)
        append_some(store, holds, 1, 1)
        append_some(store, holds, 2, 1)
        append_some(store, holds, 1, 1, blobs=("a" * 64,))
        end_on(store, *start_on(store, f"r{next(_numbers)}"))


def prepared(tx: Any) -> list[tuple[str, int, int, str]]:
    assert isinstance(tx, PostgresTransaction)
    found = tx.connection.execute(OURS).fetchall()
    return [each for each in found if "unnest" in each[3] or each[0] == "outlast_append"]


def test_nothing_is_read_whole_although_that_was_cheapest_when_tables_were_small(store: Store) -> None:
    sign_in(store)
    all_of_it(store, 1)

    def plans(tx: Any) -> str:
        tx.do("ANALYZE chains, runs, tombstones, deliveries, processes, proofs, interrupts, queue_entries")
        tx.do("SET LOCAL plan_cache_mode = force_generic_plan")
        asked = [f"EXPLAIN EXECUTE {name}({', '.join(['NULL'] * given)})" for name, given, *_ in prepared(tx)]
        return "\n".join(line for ask in asked for (line,) in tx.connection.execute(ask))

    told = store.write(plans)
    assert told.count("Insert on journal") == 6
    assert "Seq Scan" not in told
    assert "Join Filter" not in told  # no list is gone through once for each of another


def test_each_is_planned_five_times_at_most_however_few_there_are_at_a_time(store: Store) -> None:
    sign_in(store)
    all_of_it(store, 8)
    planned = {name: custom for name, _, custom, _ in store.write(prepared)}
    assert len(planned) == 7
    assert max(planned.values()) <= 5, planned


QUEUED = """INSERT INTO queue_entries (run, queue, lane, priority, due_at, most, rate, window_us, state, added_at)
SELECT number, 'some', 'lane', 0, 0, 0, 0, 0, '{}', 1 FROM generate_series({}, {}) AS number"""


def put_many(store: Store, state: str, first: int, last: int) -> None:
    def put(tx: Any) -> None:
        tx.do("SET LOCAL session_replication_role = replica")  # without their runs
        tx.do(QUEUED.format(state, first, last))

    store.write(put)


def test_what_comes_is_the_first_of_an_index_however_many_are_queued_since_they_were_counted(store: Store) -> None:
    put_many(store, "idle", 1, 3000)
    store.write(lambda tx: tx.do("ANALYZE queue_entries"))
    put_many(store, "ready", 3001, 6000)
    ask = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "
    lines = store.read(lambda look: list(look.connection.execute(ask + look.sql["coming"], (1,) * 7)))
    told = "\n".join(line for (line,) in lines)
    assert "Index Only Scan using queue_in_order on queue_entries" in told
    assert "Seq Scan" not in told
    assert "rows=3000" not in told
