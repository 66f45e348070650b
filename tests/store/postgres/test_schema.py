"""The tables of PostgreSQL: those of SQLite, a schema for each tenant, and never touched by who knows less of them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from outlast.errors import StoreFailed, StoreForeign, StoreNewer
from outlast.store import open as open_by_url
from outlast.store.contract import PROVEN, Store
from outlast.store.nouns.rows import migrations, newest_version, statements
from outlast.store.postgres.schema import schema_of

from ..backends import PostgresSchema
from ..support import begin, lease_of, new_run, some, start_of

OWN = {"schema_version", "counters"}  # SQLite has a number in its header for the one, and counts the other by itself
TYPES = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea", "REAL": "double precision"}
COLUMNS = """SELECT table_name, column_name, data_type, is_nullable = 'NO', coalesce(collation_name, '')
FROM information_schema.columns WHERE table_schema = %s ORDER BY table_name, ordinal_position"""

Open = Callable[..., Store]


def columns_of_sqlite() -> list[tuple[str, str, str]]:
    made = apsw.Connection(":memory:")
    for _, text in migrations("sqlite"):
        for _ in made.execute(text):
            pass
    tables = [name for (name,) in made.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    return [
        (table, name, TYPES[kind])
        for table in tables
        if not table.startswith("sqlite_")
        for name, kind in made.execute("SELECT name, type FROM pragma_table_info(?) ORDER BY cid", (table,))
    ]


def asked(backend: PostgresSchema, sql: str, *values: object) -> list[tuple[object, ...]]:
    with psycopg.connect(backend.url) as connection:
        connection.execute(f'SET search_path TO "{schema_of(backend.tenant)}"')
        cursor = connection.execute(sql, values or None)
        return cursor.fetchall() if cursor.description else []


def test_the_tables_and_columns_are_those_of_sqlite_in_their_order(store: Store, backend: PostgresSchema) -> None:
    found = asked(backend, COLUMNS, schema_of(backend.tenant))
    assert [row[:3] for row in found if row[0] not in OWN] == columns_of_sqlite()


def test_every_text_is_compared_by_its_bytes(store: Store, backend: PostgresSchema) -> None:
    found = asked(backend, COLUMNS, schema_of(backend.tenant))
    assert [row[:2] for row in found if row[2] == "text" and row[4] != "C"] == []


def test_every_statement_of_sqlite_has_one_of_this_name_here_but_for_appends_proofs_and_kept_numbers() -> None:
    own = {"put_proof", "drop_proof", "append_view", "append_trigger", "append_entry", "append_entries", "end_of_chain"}
    own |= {
        "advance_and_release",
        "next_chain",
        "begin_view",
        "begin_trigger",
        "due_trigger",
        "begin_run_plainly",
        "begin_runs_plainly",
        "end_view",
        "end_trigger",
        "end_run_plainly",
        "end_runs_plainly",
    }  # `start_runs` there
    own |= {"store_facts", "store_view", "store_trigger", "store_plainly", "store_all_plainly"}  # by its work there
    own |= {"keep_number", "drop_kept_numbers"}  # a sequence gives no number twice
    assert set(statements("sqlite")) - set(statements("postgres")) <= own


def test_every_statement_is_understood_by_the_server(store: Store) -> None:
    tx = store._writer._tx  # type: ignore[attr-defined]
    for number, sql in enumerate(tx.sql.values()):
        tx.do(f"PREPARE statement_{number} AS {sql}")


def test_every_proven_table_tells_what_is_touched(store: Store, backend: PostgresSchema) -> None:
    found = asked(backend, "SELECT DISTINCT event_object_table FROM information_schema.triggers "
                  "WHERE trigger_schema = current_schema()")  # fmt: skip
    assert {str(row[0]) for row in found} == set(PROVEN)


def test_a_row_that_is_changed_behind_our_back_is_noticed(store: Store, backend: PostgresSchema) -> None:
    hold = begin(store, "run1")
    assert store.read(lambda look: look.unproven("runs", 0, 10)) == (0, [])
    asked(backend, "UPDATE runs SET task = 'other'")
    ((place, _),) = store.read(lambda look: look.unproven("runs", 0, 10))[1]
    assert place == "run run1"
    assert store.read(lambda look: look.unproven_row("runs", hold.run_key)) is not None


def test_tenants_do_not_see_each_other(open_store: Open, backend: PostgresSchema) -> None:
    store = open_store()
    other = PostgresSchema(Path(backend.folder))
    begin(store, "run1")
    theirs = other.open()
    assert theirs.read(lambda look: look.run_by_id("run1")) is None
    begin(theirs, "run1")
    theirs.close()


def test_any_name_of_a_tenant_has_a_schema_of_its_own() -> None:
    names = ["default", "Default", "a-b", "a_b", "a b", "ü", "x" * 80, "x" * 81, '"; DROP SCHEMA public']
    assert len({schema_of(name) for name in names}) == len(names)
    assert all(len(schema_of(name).encode()) < 64 for name in names)


def test_a_schema_of_a_newer_version_is_refused_and_left_as_it_is(open_store: Open, backend: PostgresSchema) -> None:
    open_store().close()
    newer = newest_version("postgres") + 1
    asked(backend, "UPDATE schema_version SET version = %s", newer)
    with pytest.raises(StoreNewer):
        backend.open()
    assert asked(backend, "SELECT version FROM schema_version") == [(newer,)]


def test_a_process_that_is_open_writes_no_more_once_another_has_brought_the_schema_further(
    store: Store, backend: PostgresSchema
) -> None:
    asked(backend, "UPDATE schema_version SET version = version + 1")
    with pytest.raises(StoreNewer):
        begin(store, "run1")
    assert backend.count("runs") == 0


def test_a_schema_of_another_program_is_refused(backend: PostgresSchema) -> None:
    asked(backend, f'CREATE SCHEMA "{schema_of(backend.tenant)}"')
    asked(backend, "CREATE TABLE runs (id text)")
    with pytest.raises(StoreForeign, match="another program"):
        backend.open()


def test_texts_that_postgresql_cannot_hold_come_back_and_keep_their_order(store: Store) -> None:
    odd = ["a", "a\0", "a\0\1", "a\0\2", "a\1", "a\1\1", "a\1\2", "a\2", "ab"]
    for number, name in enumerate(odd):
        store.write(lambda tx, n=number, t=name: tx.add_run(new_run(f"r{n}", task=t), start_of(f"r{n}"), t))
    rows = [store.read(lambda look, n=number: look.run_by_id(f"r{n}")) for number in range(len(odd))]
    assert [row and row.task for row in rows] == odd
    assert [lease_of(store, f"r{number}").holder for number in range(len(odd))] == odd
    files = store.read(lambda look: [look.unfinished_of_task("default", name)[0].task for name in odd])
    assert files == odd


def test_without_its_packages_the_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from outlast.errors import ExtraMissing\nfrom outlast.store import open\n"
        "try: open('postgresql:///x')\nexcept ExtraMissing as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "outlast[postgres]" in said


def test_a_server_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed):
        open_by_url(f"postgresql:///x?host={tmp_path}", blobs=tmp_path, patience_seconds=0.1)


def test_a_run_appended_to_by_hand_is_found_by_others(open_store: Open) -> None:
    first, second = open_store(), open_store()
    hold = begin(first, "run1")
    seen = second.version()
    first.finish(first.put(hold, [some(1)]))
    assert second.version() != seen
    assert second.read(lambda look: len(look.journal_of(hold.run_key))) == 1


def test_what_was_taken_from_a_schema_and_a_trigger_that_was_added_are_named(tmp_path: Path) -> None:
    backend = PostgresSchema(tmp_path)
    opened = backend.open()
    try:
        assert opened.check() == []
        with psycopg.connect(backend.url, autocommit=True) as connection:
            connection.execute(SQL("SET search_path TO {}").format(Identifier(schema_of(backend.tenant))))
            connection.execute("DROP INDEX one_unfinished_run")
            connection.execute("ALTER TABLE interrupts DISABLE TRIGGER touched")
            connection.execute(
                "CREATE TRIGGER sly BEFORE UPDATE ON journal"
                " FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"
            )
        assert opened.check() == [
            "index one_unfinished_run is missing",
            "trigger touched of interrupts is missing",
            "trigger sly is none of ours",
        ]
    finally:
        opened.close()
