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
IS_ON = os.environ.get("OUTLAST_TESTS_ON") == "postgres" or SERVER in os.environ


def begin() -> None:
    """The server, in the process that starts the others; in each of them the way by which it finds its homes."""
    if SERVER not in os.environ:
        os.environ[SERVER] = with_template(server())
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


@pytest.fixture(autouse=True, scope="module")
def homes_of_a_module() -> Iterator[None]:
    """The databases of the homes of a module's tests are dropped after its last one."""
    yield
    with psycopg.connect(os.environ[SERVER].format("postgres"), autocommit=True) as connection:
        like = homes_by_url().prefix() + "%"
        for (name,) in connection.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", (like,)).fetchall():
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


# What is about a file of SQLite, and not about what a home promises, by the name of the file of tests: why, and which
# of its tests are left out; none: all. What is changed behind everybody's back in a file is so changed in the tables of
# PostgreSQL in tests/store.
_EDITED = "the file is changed by another program"
_COPIED = "the folder of a home is copied, with its ledger"
_WRITTEN = "a statement of the test is SQLite's"
_ABSENT = "a home that is not there: here it always is"
_NAMED = "a home is named by its folder"
_COUNTED = "looks into the file are counted"
OF_FILES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("test_damaged_records", _EDITED, ()),
    ("test_integrity", _EDITED, ()),
    ("test_unproven_rows", _EDITED, ()),
    ("test_deliveries", _EDITED, ("edited",)),
    ("test_flow_identity", _EDITED, ("cannot_be_written", "edited")),
    ("test_fork", _EDITED, ("damaged",)),
    ("test_once", _EDITED, ("edited", "cannot_be_read", "taken_away")),
    ("test_replay", _EDITED, ("changed_records",)),
    ("test_recovering_runs", _EDITED, ("held_already_is_on_the_record", "broken")),
    ("test_worker", _EDITED, ("is_refused_is_told_once",)),
    ("test_home_events", _WRITTEN, ("cannot_be_read_keeps_no_other",)),
    ("test_flat_calls", "syncs of the file are counted", ("one_sync",)),
    ("test_wait_races", _COUNTED, ("reads_the_journal_once",)),
    ("test_log", "the driver of PostgreSQL loads logging", ("load_no_logging",)),
    ("test_plan", "here the folder is the name of the database", ("moved_folder",)),
    ("test_faults", "errors of the disk under the file", ()),
    ("test_power", "what a loss of power leaves of the file", ()),
    ("test_command_kills", _EDITED, ("no_mark", "before_a_rewind", "damaged_entry", "changed_entry")),
    ("test_task_kills", _COPIED, ("killed_anywhere",)),
    ("test_sweep_kills", _COPIED, ("killed_anywhere", "again_and_again")),
    ("test_fork_kills", _COPIED, ("killed_anywhere",)),
    ("test_wait_kills", _COPIED, ()),
    ("test_handoff_kills", _COPIED, ()),
    ("test_artifact_kills", _COPIED, ()),
    ("test_backup_kills", "a backup is of a folder", ()),
    ("test_handoff_claims", _COPIED, ("cannot_be_looked_up", "under_way")),
    ("test_fencing", "a file that is open at a fork", ("open_at_a_fork",)),
    ("test_cli_accepted_damage", _EDITED, ()),
    ("test_cli_damaged", _EDITED, ()),
    ("test_damaged_rows", _EDITED, ()),
    ("test_cli_lost_homes", "the file is removed, or another one put in its place", ()),
    ("test_cli_read_only", "a folder that cannot be written", ()),
    ("test_cli_gc", _ABSENT, ("without_a_home",)),
    ("test_cli_travel", _ABSENT, ("what_is_not_there_is_told",)),
    ("test_cli_dry_run", _ABSENT, ("makes_nothing",)),
    ("test_cli_handoff_words", _ABSENT, ("how_each_stands", "without_a_home")),
    ("test_cli_homes", _ABSENT, ("is_not_there", "without_the_tenant", "what_makes_a_home")),
    ("test_cli_looks", _ABSENT, ("without_a_home", "is_not_there")),
    ("test_cli_looks", _EDITED, ("broken_record",)),
    ("test_cli_looks", "settings of the file are told", ("finds_a_sound_home",)),
    ("test_cli_meant", _ABSENT, ("several_flows_lists",)),
    ("test_cli_workspace", _ABSENT, ("without_a_home",)),
    ("test_cli_task", _ABSENT, ("without_a_home",)),
    ("test_cli_task", _NAMED, ("continued_by_its_command",)),
    ("test_cli_handoff_verdicts", _NAMED, ("give_one_verdict",)),
    ("test_http_waking", _EDITED, ("what_is_contested",)),
    ("test_cli_waits", _WRITTEN, ("thousand_waits",)),
    ("test_cli_doctor", _WRITTEN, ()),
    ("test_cli_completion", "a file in the place of a home", ("trouble_offers",)),
    ("test_hooks", "the file is looked for", ("nothing_in_the_home_but",)),
    ("test_cli_events", _EDITED, ("torn_record",)),
    ("test_http_keys", "keys are in a file of the home", ("nowhere_in_the_home",)),
    ("test_long_runs", _COUNTED, ("reads_the_journal",)),
    ("test_whose_word", _NAMED, ("two_workers_name_each_other",)),
    ("test_mcp_stdio", _ABSENT, ("makes_no_home",)),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what only a file has; and where only a share is asked for, the rest."""
    items[:] = items[:: int(os.environ.get(SHARE, "1"))]
    for item in items:
        for file, why, words in OF_FILES:
            if file == item.path.stem and (not words or any(word in item.name for word in words)):
                item.add_marker(pytest.mark.skip(reason=f"about a file of SQLite: {why}"))
