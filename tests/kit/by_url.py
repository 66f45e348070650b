"""The suite with the ledger of every home in PostgreSQL: `OUTLAST_TESTS_ON=postgres`, as `make test-postgres` says.

One server for all processes of the tests, a database for each home (`homes_by_url/sitecustomize.py`), dropped with the
test that made it. Tests of what only a file has (its pages, its locks, its backup) are left out, by name and reason.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from .postgres import Server, server

FOLDER = Path(__file__).with_name("homes_by_url")
SERVER = "HOMES_BY_URL"
SHARE = "HOMES_BY_URL_ONE_IN"  # so many tests one is run of, those that a file has first to last
# What statements of tests have and PostgreSQL has not; bytes are shown as escaped texts, so that words are found.
WORDS = """
CREATE SCHEMA of_sqlite;
CREATE DOMAIN of_sqlite.blob AS bytea;
CREATE FUNCTION of_sqlite.replace(bytea, text, text) RETURNS text LANGUAGE sql IMMUTABLE SET bytea_output = escape
  AS 'SELECT pg_catalog.replace($1::text, $2, $3)';
CREATE FUNCTION of_sqlite.zeroblob(integer) RETURNS bytea LANGUAGE sql IMMUTABLE
  AS $$SELECT decode(repeat('00', $1), 'hex')$$;
"""
IS_ON = os.environ.get("OUTLAST_TESTS_ON") == "postgres" or SERVER in os.environ


def begin() -> None:
    """The server, in the process that starts the others; in each of them the way by which it finds its homes."""
    if SERVER not in os.environ:
        os.environ[SERVER] = with_template(server(is_synced=True))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    homes_by_url().install()


@cache
def homes_by_url() -> ModuleType:
    spec = spec_from_file_location("homes_by_url", FOLDER / "sitecustomize.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def with_template(started: Server) -> str:
    """The URL of its databases, with {} in the place of their name; with an empty home, of which others are copies."""
    started.new_database("outlast_template")
    _make_template(started)
    return started.url("{}")


def _make_template(started: Server) -> None:
    """An empty home, of which every other is a copy. Made by a process of its own: nothing is imported here yet."""
    make = "import sys, pathlib; from outlast.store import open; open(sys.argv[1], blobs=pathlib.Path()).store.close()"
    subprocess.run([sys.executable, "-c", make, started.url("outlast_template")], check=True, timeout=60)
    with psycopg.connect(started.url("outlast_template")) as connection:
        connection.execute(WORDS)


def url(database: str) -> str:
    """The URL of one of its databases."""
    return os.environ[SERVER].format(database)


@pytest.fixture(autouse=True, scope="module")
def homes_of_a_module() -> Iterator[None]:
    """The databases of the homes of a module's tests are dropped after its last one."""
    yield
    with psycopg.connect(url("postgres"), autocommit=True) as connection:
        like = homes_by_url().prefix() + "%"
        for (name,) in connection.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", (like,)).fetchall():
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


# What is about a file of SQLite, and not about what a home promises: the file of tests, why, and words in the names of
# those of its tests that are left out.
_TORN = "a file is put in the place of the ledger's"
_POWER = "what a loss of power leaves of the file"
_DISK = "errors of the disk under the file"
_WRITTEN = "the plan of a statement is SQLite's"
_ABSENT = "a home that is not there: here it always is"
_NO_TEXT = "bytes that are no text are put where one is, which PostgreSQL refuses"
_MOUNTED = "the file is on a mount that cannot be written"
_REMOVED = "the file, or its log, is removed, or another one put in its place"
_BACKUP = "a backup is of a folder"
_NAMED = "a home is named by its folder"
_DRIVER = "the driver of PostgreSQL loads more"
_COUNTED = "looks into the file are counted"
OF_FILES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("test_integrity", _TORN, ("torn_file",)),
    ("test_plain_runs", "the file is looked into, and its statements are counted", ("into_a_file", "of_a_file")),
    ("test_plain_stores", "the file is looked into, and its statements are counted", ("into_a_file", "of_a_file")),
    ("test_flat_calls", "syncs of the file are counted", ("one_sync",)),
    ("test_workers", _COUNTED, ("reads_at_four_moments",)),
    ("test_wait_races", _COUNTED, ("reads_the_journal_once",)),
    ("test_log", _DRIVER, ("load_no_logging",)),
    ("test_power", _POWER, ("survives_a_power_cut", "without_syncs_the_same_cuts", "from_what_a_power_cut_left")),
    ("test_faults", _POWER, ("may_come_back_after_a_crash",)),
    ("test_faults", "what PostgreSQL tells to have failed did not happen", ("is said to fail",)),
    ("test_faults", _DISK, ("checkpoint", "while_the_store_is_made", "a_store_that_may_not_be_written")),
    ("test_artifact_kills", _DISK, ("a_row_that_cannot_be_written",)),
    ("test_backup_kills", _BACKUP, ("a_backup", "a_restore")),
    ("test_fencing", "a file that is open at a fork", ("open_at_a_fork",)),
    ("test_damaged_rows", _NO_TEXT, ("anchor",)),
    ("test_cli_damaged", _NO_TEXT, ("runs meta",)),
    ("test_cli_read_only", _MOUNTED, ("answers_as_any_other", "what_only_the_log_has", "whoever_writes_beside_it")),
    ("test_cli_read_only", _MOUNTED, ("is_refused_by_name", "can_be_backed_up", "doctor_says")),
    ("test_cli_lost_homes", _REMOVED, ("a_deleted_database", "no_damage", "each_trace", "a_sound_database")),
    ("test_cli_lost_homes", _REMOVED, ("left_the_log_behind", "left_its_log_behind", "a_copy_with_its_log")),
    ("test_cli_lost_homes", _REMOVED, ("a_log_of_another", "a_log_without", "beginning_anew", "lost_keys")),
    ("test_cli_gc", _ABSENT, ("without_a_home",)),
    ("test_cli_travel", _ABSENT, ("what_is_not_there_is_told",)),
    ("test_cli_dry_run", _ABSENT, ("makes_nothing",)),
    ("test_cli_handoff_words", _ABSENT, ("how_each_stands", "without_a_home")),
    ("test_cli_homes", _ABSENT, ("is_not_there", "without_the_tenant", "what_makes_a_home")),
    ("test_cli_looks", _ABSENT, ("without_a_home", "is_not_there")),
    ("test_cli_looks", "settings of the file are told", ("finds_a_sound_home",)),
    ("test_cli_meant", _ABSENT, ("several_flows_lists",)),
    ("test_cli_workspace", _ABSENT, ("without_a_home",)),
    ("test_cli_task", _ABSENT, ("without_a_home",)),
    ("test_cli_task", _NAMED, ("continued_by_its_command",)),
    ("test_cli_handoff_verdicts", _NAMED, ("give_one_verdict",)),
    ("test_cli_waits", _WRITTEN, ("thousand_waits",)),
    ("test_cli_doctor", _REMOVED, ("a_tenant_that_cannot_be_opened",)),
    ("test_cli_doctor", _BACKUP, ("a_restored_home", "backup_and_restore", "a_backup_of", "rebuilt_from_its_mirror")),
    ("test_cli_completion", "a file in the place of a home", ("trouble_offers",)),
    ("test_hooks", "what is known of the file is forged", ("nothing_in_the_home_but",)),
    ("test_hooks", _TORN, ("a_home_that_cannot_be_used",)),
    ("test_hooks", "a database is asked", ("loads_neither_the_runtime_nor_click[start]",)),
    ("test_hooks", _DRIVER, ("loads_only_what_judges",)),
    ("test_http_keys", "keys are in a file of the home", ("nowhere_in_the_home",)),
    ("test_long_runs", _COUNTED, ("reads_the_journal",)),
    ("test_pasted_commands", _NAMED, ("run_that_left_no_handoff",)),
    ("test_whose_word", _NAMED, ("two_workers_name_each_other",)),
    ("test_mcp_stdio", _ABSENT, ("makes_no_home",)),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what only a file has; and where only a share is asked for, the rest."""
    items[:] = items[:: int(os.environ.get(SHARE, "1"))]
    for item in items:
        for file, why, words in OF_FILES:
            if file == item.path.stem and any(word in item.name for word in words):
                item.add_marker(pytest.mark.skip(reason=f"about a file of SQLite: {why}"))
