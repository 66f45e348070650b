"""Of one tenant, one process at a time does anything but append: it holds the tenant's lock, and all others wait."""

import threading

import psycopg
from psycopg.sql import SQL

from outlast.store.contract import Store
from outlast.store.postgres.schema import lock_of, schema_of

from ...kit.postgres import server
from ...worker.support import until
from ..backends import PostgresSchema

WAITING = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"


def test_work_waits_for_who_has_the_lock_of_its_tenant(store: Store, backend: PostgresSchema) -> None:
    done = threading.Event()

    def work() -> None:
        store.write(lambda tx: None)
        done.set()

    with psycopg.connect(server().url("postgres")) as other:
        other.execute(SQL("SELECT pg_advisory_xact_lock({})").format(lock_of(schema_of(backend.tenant))))
        thread = threading.Thread(target=work)
        thread.start()
        with psycopg.connect(server().url("postgres"), autocommit=True) as looks:
            until(
                lambda: looks.execute(WAITING, (other.info.backend_pid,)).fetchone() or done.is_set(), "that it waits"
            )
        assert not done.is_set()
    thread.join(60)
    assert done.is_set()
