"""How connections are set up, so that a commit costs what it must."""

import apsw

from outlast.store.sqlite.open import SqliteStore

IN_MEMORY = 2


def test_no_statement_is_prepared_anew_for_other_values(store: SqliteStore) -> None:
    stable = apsw.SQLITE_DBCONFIG_ENABLE_QPSG
    assert store.read(lambda look: look.connection.config(stable, -1)) == 1  # type: ignore[attr-defined]
    assert store.write(lambda tx: tx.connection.config(stable, -1)) == 1  # type: ignore[attr-defined]


def test_a_savepoint_needs_no_file_also_after_a_vacuum(store: SqliteStore) -> None:
    store.vacuum()
    assert store.write(lambda tx: tx.connection.pragma("temp_store")) == IN_MEMORY  # type: ignore[attr-defined]
