"""The ledger of a home as another program sees it: changed behind everybody's back, or copied with the folder it is in.

In a file of SQLite, from a process of its own, since two of its libraries on one file break each other's locks; where
homes are in PostgreSQL, in its tables, whose statements understand the few words of SQLite that tests use.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from outlast.store.postgres.schema import lock_of

from ..ready import completed
from . import by_url

SLY_TRIGGER = "CREATE TRIGGER sly AFTER INSERT ON journal BEGIN DELETE FROM inbox; END"
if by_url.IS_ON:
    _DOES = "FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"
    SLY_TRIGGER = f"CREATE TRIGGER sly BEFORE UPDATE ON journal {_DOES}"
_HOLDER = """
import apsw, sys
held = apsw.Connection(sys.argv[1])
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(home: Path) -> Iterator[None]:
    """Another process is in the midst of writing to it, and stays there."""
    if by_url.IS_ON:
        with psycopg.connect(by_url.homes_by_url().url_for(home)) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_of("outlast_default"),))
            yield
        return
    words = [sys.executable, "-c", _HOLDER, str(home / "default" / "outlast.db")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            holder.kill()


class ChangeRefused(Exception):
    """A constraint of the ledger does not let it through."""


def change(home: Path, *statements: str, tenant: str = "default", rows: int | None = None) -> None:
    """Do these to the ledger of a tenant; `rows`: that each of them must change. Raises ChangeRefused."""
    if by_url.IS_ON:
        _change_tables(home, statements, f"outlast_{tenant}", rows)
    else:
        _change_file(home / tenant / "outlast.db", statements, rows)


def change_keys(home: Path, statement: str) -> None:
    """The same to the keys of a home."""
    if by_url.IS_ON:
        _change_tables(home, (statement,), "outlast_keys", None)
    else:
        _change_file(home / "keys.db", (statement,), None)


def _change_file(file: Path, statements: tuple[str, ...], rows: int | None) -> None:
    program = f"import apsw; d = apsw.Connection({str(file)!r})"
    for sql in statements:
        program += f"\nd.execute({sql!r}).fetchall()"
        program += "" if rows is None else f"\nassert d.changes() == {rows}, d.changes()"
    done = completed(("-c", program), capture_output=True, text=True)
    if "ConstraintError" in done.stderr:
        raise ChangeRefused(done.stderr)
    assert done.returncode == 0, done.stderr


def _change_tables(home: Path, statements: tuple[str, ...], schema: str, rows: int | None) -> None:
    """Whatever the tables refer to each other by, as SQLite does for another program."""
    with psycopg.connect(by_url.homes_by_url().url_for(home)) as connection:
        connection.execute(SQL("SET search_path = of_sqlite, pg_catalog, {}").format(Identifier(schema)))
        connection.execute("SET bytea_output = escape")
        connection.execute("SET session_replication_role = replica")
        for sql in statements:
            try:
                changed = connection.execute(sql.encode()).rowcount
            except psycopg.IntegrityError as error:
                raise ChangeRefused(str(error)) from error
            assert rows in (None, changed), changed


def copy_folder(folder: Path, to: Path) -> None:
    """Copy a folder; homes in it, or that it is, with their ledgers. Nobody may be at work on them."""
    shutil.copytree(folder, to, symlinks=True)
    if by_url.IS_ON:
        with psycopg.connect(by_url.url("postgres"), autocommit=True) as connection:
            for name, home in _databases_in(folder, connection).items():
                copy = by_url.homes_by_url().database_of(to / home.relative_to(folder))
                _end_all(connection, name)
                connection.execute(f'DROP DATABASE IF EXISTS "{copy}" WITH (FORCE)')
                connection.execute(f'CREATE DATABASE "{copy}" TEMPLATE "{name}" STRATEGY FILE_COPY')


def move_folder(folder: Path, to: Path) -> None:
    """Give a folder another name; homes in it have their ledgers under that one."""
    if by_url.IS_ON:
        with psycopg.connect(by_url.url("postgres"), autocommit=True) as connection:
            for name, home in _databases_in(folder, connection).items():
                moved = by_url.homes_by_url().database_of(to / home.relative_to(folder))
                _end_all(connection, name)
                connection.execute(f'DROP DATABASE IF EXISTS "{moved}" WITH (FORCE)')
                connection.execute(f'ALTER DATABASE "{name}" RENAME TO "{moved}"')
    folder.rename(to)


def _end_all(connection: "psycopg.Connection[Any]", name: str) -> None:
    """End whatever a killed process left open: PostgreSQL neither copies nor renames what somebody uses."""
    connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,))


def remove_folder(folder: Path) -> None:
    """Remove a folder; of the homes in it, what is opened in their place is empty."""
    if by_url.IS_ON:
        with psycopg.connect(by_url.url("postgres"), autocommit=True) as connection:
            for name in _databases_in(folder, connection):
                connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
                connection.execute(f'CREATE DATABASE "{name}" TEMPLATE outlast_template STRATEGY FILE_COPY')
    shutil.rmtree(folder, ignore_errors=True)


def _databases_in(folder: Path, connection: "psycopg.Connection[Any]") -> dict[str, Path]:
    """The databases of the homes in a folder, with where these are."""
    named = {by_url.homes_by_url().database_of(Path(below)): Path(below) for below, _, _ in os.walk(folder)}
    there = connection.execute("SELECT datname FROM pg_database WHERE datname = ANY(%s)", ([*named],)).fetchall()
    return {name: named[name] for (name,) in there}
