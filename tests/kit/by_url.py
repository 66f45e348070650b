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
IS_ON = os.environ.get("OUTLAST_TESTS_ON") == "postgres" or SERVER in os.environ


def begin() -> None:
    """The server, in the process that starts the others; in each of them the way by which it finds its homes."""
    if SERVER not in os.environ:
        started = server()
        started.new_database("outlast_template")
        _make_template(started)
        os.environ[SERVER] = started.url("{}")
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


# What is about a file of SQLite, and not about what a home promises: its bytes are changed behind everybody's back (the
# same is done to tables of PostgreSQL in tests/store), its syncs are counted, it is copied, locked, or read by another
# program. By the name of the file of tests, with the tests of it that are left out; none: all.
OF_FILES: dict[str, tuple[str, ...]] = {
    "test_damaged_records": (),
    "test_integrity": (),
    "test_unproven_rows": (),
    "test_deliveries": ("edited",),
    "test_flat_calls": ("one_sync",),
    "test_flow_identity": ("cannot_be_written", "edited"),
    "test_fork": ("damaged",),
    "test_log": ("load_no_logging",),  # the driver loads it
    "test_once": ("edited", "cannot_be_read", "taken_away"),
    "test_replay": ("changed_records",),
    "test_plan": ("moved_folder",),  # here the folder is the name of the database
    "test_recovering_runs": ("held_already_is_on_the_record", "broken"),
    "test_wait_races": ("reads_the_journal_once",),
    # These copy the folder of a home, or look into its files with another program.
    "test_wait_kills": (),
    "test_handoff_kills": (),
    "test_artifact_kills": (),
    "test_handoff_claims": ("cannot_be_looked_up", "under_way"),
    "test_fencing": ("open_at_a_fork",),
    "test_cli_gc": ("without_a_home",),
    "test_mcp_stdio": ("makes_no_home",),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what only a file has."""
    for item in items:
        words = OF_FILES.get(item.path.stem)
        if words is not None and (not words or any(word in item.name for word in words)):
            item.add_marker(pytest.mark.skip(reason="about a file of SQLite"))
