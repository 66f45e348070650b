"""A connection that is lost at a commit: what became of it is found out, and nothing is done twice or not at all."""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from outlast.store import open as open_by_url
from outlast.store.contract import Store, Writing
from outlast.store.postgres.connection import noticing
from outlast.store.postgres.schema import lock_of, schema_of

from ...kit.postgres import Server, new_folder, server
from ...kit.wire import Wire
from ...worker.support import until
from ..backends import PostgresSchema
from ..support import begin, broken, new_run, some, start_of
from .test_plain_runs import end_on, sign_in, start_on, wrong_rows


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire(server().folder)
    yield wire
    wire.close()


@pytest.fixture
def store(wire: Wire, backend: object, tmp_path: Path) -> Iterator[Store]:
    opened = open_by_url(wire.url(), tenant=backend.tenant, blobs=tmp_path).store  # type: ignore[attr-defined]
    yield opened
    opened.close()


@pytest.mark.parametrize("cut", ["before", "after"])
def test_an_append_is_there_once_whether_the_line_broke_before_or_after_it(store: Store, wire: Wire, cut: str) -> None:
    hold = begin(store, "run1")
    store.finish(store.put(hold, [some(1)]))
    wire.word, wire.cut = b"-marked-", cut
    store.finish(store.put(hold, [some(2, text="-marked-")]))
    assert wire.cuts == 1
    assert hold.head == 2
    store.finish(store.put(hold, [some(3)]))
    assert broken(store, "run1", 3) is None


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_run_is_started_and_ended_once_whether_the_line_broke_before_or_after_its_commit(
    store: Store, wire: Wire, cut: str
) -> None:
    sign_in(store)
    wire.word, wire.cut = b"COMMIT", cut
    hold, row = start_on(store, "run1")
    assert wire.cuts == 1
    assert broken(store, "run1", 1) is None
    wire.word, wire.cut = b"COMMIT", cut
    assert end_on(store, hold, row) is None
    assert wire.cuts == 2
    assert broken(store, "run1", 2) is None
    assert wrong_rows(store) == []


@pytest.mark.parametrize("cut", ["before", "after"])
def test_work_is_done_once_whether_the_line_broke_before_or_after_its_commit(
    store: Store, wire: Wire, cut: str
) -> None:
    hold = begin(store, "run1")

    def work(tx: Writing) -> str:
        tx.send(hold.run_key, "pause", "{}", "ann", 1)
        tx.append(hold, [some(1)])
        return "done"

    wire.word, wire.cut = b"COMMIT", cut
    assert store.write(work) == "done"
    assert wire.cuts == 1
    assert len(store.read(lambda look: look.untaken(hold.run_key))) == 1
    assert broken(store, "run1", 1) is None


def test_work_whose_line_breaks_in_its_midst_is_done_again_from_its_beginning(store: Store, wire: Wire) -> None:
    hold, calls = begin(store, "run1"), []

    def work(tx: Writing) -> None:
        calls.append(hold.head)
        tx.append(hold, [some(1)])
        tx.add_run(new_run("run2"), start_of("run2"), "-marked-")

    wire.word, wire.cut = b"-marked-", "before"
    store.write(work)
    assert calls == [0, 0]
    assert broken(store, "run1", 1) is None


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize(
    ("ask", "word"), [("check", b"pg_trigger"), ("facts", b"full_page_writes"), ("room", b"pg_total_relation_size")]
)
def test_whoever_looks_after_a_home_asks_again_when_the_line_breaks(
    store: Store, wire: Wire, ask: str, word: bytes, cut: str
) -> None:
    told = getattr(store, ask)()
    wire.word, wire.cut = word, cut
    assert getattr(store, ask)() == told
    assert wire.cuts == 1


class Stopped(BaseException):
    """What a handler of somebody else's raises, of which the driver knows nothing."""


@pytest.mark.parametrize("raised", [KeyboardInterrupt, Stopped])
def test_a_signal_is_heard_while_an_append_waits_for_the_server(
    store: Store, backend: PostgresSchema, raised: type[BaseException]
) -> None:
    hold = begin(store, "run1")
    assert store.append_now(hold, some(1))

    def heard(*_: object) -> None:
        raise raised

    before = signal.signal(signal.SIGUSR1, heard)
    try:
        with psycopg.connect(server().url("postgres")) as other:
            other.execute(SQL("SELECT pg_advisory_xact_lock({})").format(lock_of(schema_of(backend.tenant))))
            teller = threading.Thread(target=tell_once_somebody_waits, args=(other.info.backend_pid,))
            teller.start()
            with pytest.raises(raised):
                store.append_now(hold, some(2))
            teller.join()
        store.finish(store.put(hold, [some(3)]))  # what was interrupted is still to be done, and comes first
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert broken(store, "run1", 3) is None


def tell_once_somebody_waits(holder: int) -> None:
    ask = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
    with psycopg.connect(server().url("postgres"), autocommit=True) as connection:
        until(lambda: connection.execute(ask, (holder,)).fetchone(), "that an append waits")
    os.kill(os.getpid(), signal.SIGUSR1)


@pytest.mark.parametrize("size", [10, 4_000_000])
def test_an_entry_of_any_size_is_appended_at_once(store: Store, size: int) -> None:
    hold = begin(store, "run1")
    assert store.append_now(hold, some(1, text="x" * size))
    assert broken(store, "run1", 1) is None


def test_a_machine_that_vanishes_without_a_word_is_given_up_unless_the_url_says_otherwise() -> None:
    said = conninfo_to_dict(noticing("postgresql://me@db.example/work?keepalives_idle=600"))
    assert (said["keepalives_idle"], said["tcp_user_timeout"], said["host"]) == ("600", "25000", "db.example")


def test_a_store_that_is_closed_leaves_no_mark_of_its_work(backend: PostgresSchema) -> None:
    ask = SQL("SELECT name FROM {} WHERE name LIKE 'work %'").format(Identifier(schema_of(backend.tenant), "counters"))
    store = backend.open()
    with psycopg.connect(backend.url, autocommit=True) as connection:
        for number in range(3):
            begin(store, f"run{number}")
            assert len(connection.execute(ask).fetchall()) == 1
        store.close()
        assert connection.execute(ask).fetchall() == []


def test_a_reader_whose_line_broke_is_replaced(store: Store, wire: Wire) -> None:
    begin(store, "run1")
    for _ in range(2):
        assert store.read(lambda look: look.run_by_id("run1")) is not None
        for connection in list(store._readers._pool):  # type: ignore[attr-defined]
            os.close(os.dup(connection.fileno()))
            connection.close()


def test_what_was_told_survives_a_crash_of_the_server_and_the_store_goes_on(tmp_path: Path) -> None:
    folder = new_folder()
    own = Server(folder)
    try:
        store = open_by_url(own.url("postgres"), blobs=tmp_path).store
        hold = begin(store, "run1")
        store.finish(store.put(hold, [some(1)]))
        own.stop(signal.SIGQUIT)
        again = threading.Thread(target=own.start)
        again.start()
        store.finish(store.put(hold, [some(2)]))  # the server is away: it is waited for
        again.join()
        assert broken(store, "run1", 2) is None
        store.close()
    finally:
        own.stop()
        shutil.rmtree(folder)
