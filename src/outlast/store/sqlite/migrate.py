"""Bringing a file to this version's schema. Up only; a file from a newer version is refused, not guessed at."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from outlast.errors import StoreForeign, StoreNewer
from outlast.store.statements import migrations

APPLICATION_ID = 0x4F_4C_53_54  # "OLST"


def migrate(connection: apsw.Connection, path: str, refuse_lost: Callable[[], None] = lambda: None) -> None:
    """Apply what is missing, each migration whole. Raises StoreNewer, StoreForeign, and what `refuse_lost` does.

    That one is asked before a database is made from nothing, under the lock: nobody else can have made it then.
    """
    steps = migrations("sqlite")
    newest = steps[-1][0]
    if int(connection.pragma("user_version")) == newest:
        refuse_foreign(connection, path)
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _version(connection, path, newest)  # under the lock: another process may have been first
        if found == 0:
            refuse_lost()
        for number, text in steps:
            if number > found:
                for _ in connection.execute(text):  # iterating runs every statement of the text
                    pass
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    except BaseException:
        if not connection.getautocommit():  # SQLite has rolled back by itself after some errors
            connection.execute("ROLLBACK")
        raise


def refuse_foreign(connection: apsw.Connection, path: str) -> None:
    """Raises StoreForeign for a database that is not ours, before anything in it is changed."""
    both = "SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)"
    application, tables = next(connection.execute(both))  # of one moment: another process may be making it now
    if application != APPLICATION_ID and tables:
        raise StoreForeign(path, "it is a database of another program")


def _version(connection: apsw.Connection, path: str, known: int) -> int:
    refuse_foreign(connection, path)
    version = int(connection.pragma("user_version"))
    if version > known:
        raise StoreNewer(path, version, known)
    return version
