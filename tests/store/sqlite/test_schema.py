"""The schema, its migrations and the named statements."""

import re
from pathlib import Path

import apsw
import pytest

import outlast.store
from outlast.errors import StoreNewer
from outlast.store.contract import InterruptRow, RunRow
from outlast.store.nouns.rows import migrations, newest_version, schema, statements, statements_of
from outlast.store.sqlite.file import APPLICATION_ID, differences, migrate
from outlast.store.sqlite.open import SqliteStore

from ..support import outsider

BIG = (
    *("runs", "run_tags", "journal", "chains", "interrupts", "inbox", "operations", "blob_refs"),
    *("anchors", "handoffs", "handoff_files"),
    *("sessions", "messages", "memos"),
    *("tasks", "task_events"),
    *(
        "artifacts",
        "artifact_names",
        "artifact_dropped",
        "artifact_blobs",
        "artifact_tags",
        "artifact_removed",
        "checkpoints",
        "one",
        "named",
    ),
    *("records", "record_tags", "record_refs", "links", "workspace_shown"),
)
SQL = statements("sqlite")
STORE = Path(outlast.store.__file__).parent
SOURCES = {str(file): file.read_text() for file in STORE.rglob("*.py") if file.parent.name != "postgres"}


def built(text: str) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    for _ in connection.execute(text):
        pass
    return connection


def whole() -> str:
    """All versions one after another: what a new file is made of."""
    return "".join(text for _, text in migrations("sqlite"))


def objects(connection: apsw.Connection) -> dict[tuple[str, str], str]:
    """Every table and index with its text, without comments and layout."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {(kind, name): _plain(re.sub(r"--.*", "", sql)) for kind, name, sql in rows}


def _plain(sql: str) -> str:
    """A column that was added later has a comma of another layout."""
    return " ".join(re.sub(r"([(),])", r" \1 ", sql).split())


MADE_UP = """
CREATE TABLE tides (key INTEGER PRIMARY KEY, height REAL NOT NULL) STRICT;
ALTER TABLE runs ADD COLUMN tide INTEGER NOT NULL DEFAULT 0;
"""


def test_the_page_is_the_first_version_and_later_ones_are_numbered_from_it() -> None:
    (number, text), *later = migrations("sqlite")
    assert (number, objects(built(text))) == (1, objects(built(schema("sqlite"))))
    assert "--" not in text  # a file has the tables, not what is said about them
    assert [number for number, _ in later] == list(range(2, newest_version("sqlite") + 1))


def test_a_file_of_an_older_version_is_brought_to_this_one_whole_or_not_at_all(tmp_path: Path) -> None:
    connection, steps = apsw.Connection(str(tmp_path / "x.db")), [(1, schema("sqlite"))]
    migrate(connection, "x.db", steps=steps)
    connection.execute("INSERT INTO proofs VALUES ('runs', 1, zeroblob(16))")
    with pytest.raises(apsw.SQLError):
        migrate(connection, "x.db", steps=[*steps, (2, MADE_UP + "CREATE TABLE runs (x)")])
    assert (connection.pragma("user_version"), objects(connection)) == (1, objects(built(schema("sqlite"))))
    later = [*steps, (2, MADE_UP)]
    migrate(connection, "x.db", steps=later)
    migrate(connection, "x.db", steps=later)
    assert connection.pragma("user_version") == 2
    assert connection.execute("SELECT noun FROM proofs").fetchall() == [("runs",)]
    assert "tide" in [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    assert list(differences(connection, steps=later)) == []
    with pytest.raises(StoreNewer):
        migrate(connection, "x.db", steps=steps)


def test_an_opened_store_has_that_schema_and_says_what_it_is(store: SqliteStore) -> None:
    with outsider(store.place) as connection:
        assert objects(connection) == objects(built(whole()))
        assert connection.pragma("user_version") == newest_version("sqlite")
        assert connection.pragma("application_id") == APPLICATION_ID
        assert connection.pragma("journal_mode") == "wal"


def test_every_table_is_strict_and_keyed_by_rowid() -> None:
    for (kind, name), text in objects(built(whole())).items():
        if kind == "table" and name != "sqlite_sequence":  # SQLite's own
            assert text.endswith("STRICT"), name
            assert "WITHOUT ROWID" not in text or name in ("proofs", "handoff_files")  # which nothing refers to


def test_rows_have_the_fields_that_the_contract_names() -> None:
    connection = built(whole())
    runs = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    waits = [row[1] for row in connection.execute("PRAGMA table_info(interrupts)")]
    assert tuple(runs) == RunRow._fields
    assert (*waits, "run_id") == InterruptRow._fields


def test_every_statement_is_used_and_every_used_one_exists() -> None:
    code = "\n".join(SOURCES.values())
    assert [name for name in SQL if f'"{name.removeprefix("rows_of_")}"' not in code] == []
    used = set(re.findall(r'_(?:one|all)\(\s*"(\w+)"', code)) | set(re.findall(r'sql\["(\w+)"\]', code))
    assert used - {*SQL, *statements_of("keys", "recall")} == set()


def test_no_statement_is_named_twice() -> None:
    folder = Path(outlast.store.__file__).parent / "sql" / "shared"
    names = [name for file in folder.glob("*.sql") for name in re.findall(r"-- name: (\w+)", file.read_text())]
    assert sorted(names) == sorted(set(names))


def plan(name: str) -> list[str]:
    connection = built(whole())
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # as the store does: no plan depends on a value
    for made in (f"{noun}_{kind}" for noun in ("append", "begin", "end", "store") for kind in ("view", "trigger")):
        connection.execute(SQL[made])  # of the connection that writes
    given = len(set(re.findall(r"\?\d+", SQL[name]))) or SQL[name].count("?")
    return [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + SQL[name], (None,) * given)]


@pytest.mark.parametrize("name", SQL)
def test_every_statement_finds_its_rows_by_an_index(name: str) -> None:
    """No scan of a table that grows, and no walk along the key of a whole table either. Counts read an index."""
    for line in plan(name):
        if name.startswith("count_") and "USING COVERING INDEX" in line:
            continue
        assert not re.match(rf"SCAN ({'|'.join(BIG)}|i|r|a|f|l)\b", line), line
        paged = ("newest_runs", "anchors_after_key", "sessions_after_key", "tasks_after_key")  # by the key itself
        paged += ("artifacts_after_key", "checkpoints_after_key", "records_after_key", "links_after_key")
        paged += ("shown_after_number", "older_versions", "handoffs_after_key", "entries_between", "headers_between")
        if name not in paged and not name.startswith("rows_of_"):
            assert not re.search(r"PRIMARY KEY \(rowid[<>]", line), line


IN_ORDER = ["newest_runs", "newest_runs_of_status", "journal_of", "headers_between", "open_waits", "runs_by_prefix"]


@pytest.mark.parametrize("name", IN_ORDER)
def test_pages_come_in_order_without_sorting(name: str) -> None:
    assert not any("TEMP B-TREE" in line for line in plan(name))


@pytest.mark.parametrize("name", ["unfinished_of_scope", "unfinished_of_task"])
def test_unfinished_runs_are_found_without_a_walk_along_the_finished_ones(name: str) -> None:
    assert any("USING INDEX one_unfinished_run" in line for line in plan(name)), plan(name)
