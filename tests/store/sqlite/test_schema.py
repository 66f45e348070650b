"""The schema, its migrations and the named statements."""

import re
from pathlib import Path

import apsw
import pytest

import outlast.store
from outlast.store.contract import InterruptRow, RunRow
from outlast.store.sqlite.migrate import APPLICATION_ID
from outlast.store.sqlite.open import SqliteStore
from outlast.store.statements import key_statements, migrations, recall_statements, schema, statements

from ..support import outsider

BIG = (
    *("runs", "journal", "leases", "interrupts", "inbox", "operations", "blob_refs"),
    *("anchors", "handoffs", "handoff_files"),
    *("sessions", "messages", "memos"),
    *("tasks", "task_events"),
    *(
        "artifacts",
        "artifact_names",
        "artifact_dropped",
        "artifact_tags",
        "artifact_removed",
        "checkpoints",
        "one",
        "named",
    ),
    *("records", "record_tags", "record_refs", "links", "workspace_shown"),
)
SQL = statements("sqlite")
SOURCES = {str(file): file.read_text() for file in Path(outlast.store.__file__).parent.rglob("*.py")}


def built(text: str) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    for _ in connection.execute(text):
        pass
    return connection


def objects(connection: apsw.Connection) -> dict[tuple[str, str], str]:
    """Every table and index with its text, without comments and layout."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {(kind, name): _plain(re.sub(r"--.*", "", sql)) for kind, name, sql in rows}


def _plain(sql: str) -> str:
    """A column that was added later has a comma of another layout."""
    return " ".join(re.sub(r"([(),])", r" \1 ", sql).split())


def test_the_page_and_the_migrations_build_the_same_schema() -> None:
    by_migrations = built("".join(text for _, text in migrations("sqlite")))
    assert objects(built(schema("sqlite"))) == objects(by_migrations)


def test_an_opened_store_has_that_schema_and_says_what_it_is(store: SqliteStore) -> None:
    with outsider(store.path) as connection:
        assert objects(connection) == objects(built(schema("sqlite")))
        assert connection.pragma("user_version") == migrations("sqlite")[-1][0]
        assert connection.pragma("application_id") == APPLICATION_ID
        assert connection.pragma("journal_mode") == "wal"


def test_migrations_are_numbered_from_one_without_gaps() -> None:
    assert [number for number, _ in migrations("sqlite")] == list(range(1, len(migrations("sqlite")) + 1))


def test_every_table_is_strict_and_keyed_by_rowid() -> None:
    for (kind, name), text in objects(built(schema("sqlite"))).items():
        if kind == "table" and name != "sqlite_sequence":  # SQLite's own
            assert text.endswith("STRICT"), name
            assert "WITHOUT ROWID" not in text or name == "proofs"  # which nothing refers to


def test_rows_have_the_fields_that_the_contract_names() -> None:
    connection = built(schema("sqlite"))
    runs = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    waits = [row[1] for row in connection.execute("PRAGMA table_info(interrupts)")]
    assert tuple(runs) == RunRow._fields
    assert (*waits, "run_id") == InterruptRow._fields


def test_every_statement_is_used_and_every_used_one_exists() -> None:
    code = "\n".join(SOURCES.values())
    assert [name for name in SQL if f'"{name.removeprefix("rows_of_")}"' not in code] == []
    used = set(re.findall(r'_(?:one|all)\(\s*"(\w+)"', code)) | set(re.findall(r'sql\["(\w+)"\]', code))
    assert used - {*SQL, *key_statements(), *recall_statements()} == set()


def test_no_statement_is_named_twice() -> None:
    folder = Path(outlast.store.__file__).parent / "sql" / "shared"
    names = [name for file in folder.glob("*.sql") for name in re.findall(r"-- name: (\w+)", file.read_text())]
    assert sorted(names) == sorted(set(names))


def plan(name: str) -> list[str]:
    connection = built(schema("sqlite"))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # as the store does: no plan depends on a value
    return [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + SQL[name], (None,) * SQL[name].count("?"))]


@pytest.mark.parametrize("name", SQL)
def test_every_statement_finds_its_rows_by_an_index(name: str) -> None:
    """No scan of a table that grows, and no walk along the key of a whole table either. Counts read an index."""
    for line in plan(name):
        if name.startswith("count_") and "USING COVERING INDEX" in line:
            continue
        assert not re.match(rf"SCAN ({'|'.join(BIG)}|i|r|a|f|l)\b", line), line
        paged = ("newest_runs", "anchors_after_key", "sessions_after_key", "tasks_after_key")  # by the key itself
        paged += ("artifacts_after_key", "checkpoints_after_key", "records_after_key", "links_after_key")
        paged += ("shown_after_number", "older_versions", "handoffs_after_key")
        if name not in paged and not name.startswith("rows_of_"):
            assert not re.search(r"PRIMARY KEY \(rowid[<>]", line), line


@pytest.mark.parametrize("name", ["newest_runs", "newest_runs_of_status", "journal_of", "open_waits", "runs_by_prefix"])
def test_pages_come_in_order_without_sorting(name: str) -> None:
    assert not any("TEMP B-TREE" in line for line in plan(name))


# As artifacts were added before they had lists of chunks.
ADD_ARTIFACT = """
INSERT INTO artifacts (scope, name, version, digest, size, media_type, summary, tags, source, run_id, stored_at, blob,
                       codec, pending, proof)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def test_names_of_artifacts_that_were_there_before_are_filled_in() -> None:
    before = [text for number, text in migrations("sqlite") if number < 7]
    connection = built("".join(before))
    rows = [("a", 1, 0), ("a", 2, 0), ("a", 3, 5), ("b", 1, 5)]  # a name, a version, whether it waits for a receipt
    for name, version, pending in rows:
        values = ("s", name, version, "d", 1, "t", "", "[]", "{}", "", 0, "b", "raw", pending, bytes(32))
        connection.execute(ADD_ARTIFACT, values).fetchall()
    connection.execute(dict(migrations("sqlite"))[7]).fetchall()
    found = connection.execute("SELECT name, highest, newest FROM artifact_names ORDER BY name").fetchall()
    assert found == [("a", 3, 2), ("b", 1, 0)]


def test_what_was_in_the_workspace_before_is_in_the_order_of_what_everybody_sees() -> None:
    connection = built("".join(text for number, text in migrations("sqlite") if number < 8))
    for version, pending in ((1, 0), (2, 5), (3, 0)):
        values = ("s", "a", version, "d", 1, "t", "", "[]", "{}", "", 0, "b", "raw", pending, bytes(32))
        connection.execute(ADD_ARTIFACT, values).fetchall()
    values = ("c", "s", "task", "", "name", "", "[]", "{}", "", 0, "who", 0, bytes(32))
    connection.execute(SQL["add_checkpoint"], values).fetchall()
    connection.execute(dict(migrations("sqlite"))[8]).fetchall()
    found = connection.execute(SQL["shown_after_number"], (0, 10)).fetchall()
    assert found == [(1, "artifact", "s", 1), (2, "artifact", "s", 3), (3, "checkpoint", "s", 1)]
