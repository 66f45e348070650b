"""How connections are set up, so that a commit costs what it must."""

import os
import threading
import time
from pathlib import Path

import apsw
import pytest

from outlast.store.sqlite import file
from outlast.store.sqlite.file import LogRoom
from outlast.store.sqlite.open import SqliteStore

from ..support import begin, broken, outsider, some

IN_MEMORY = 2


def test_no_statement_is_prepared_anew_for_other_values(store: SqliteStore) -> None:
    stable = apsw.SQLITE_DBCONFIG_ENABLE_QPSG
    assert store.read(lambda look: look.connection.config(stable, -1)) == 1  # type: ignore[attr-defined]
    assert store.write(lambda tx: tx.connection.config(stable, -1)) == 1  # type: ignore[attr-defined]


def test_a_savepoint_needs_no_file_also_after_a_vacuum(store: SqliteStore) -> None:
    store.vacuum()
    assert store.write(lambda tx: tx.connection.pragma("temp_store")) == IN_MEMORY  # type: ignore[attr-defined]


# -- room in the log ---------------------------------------------------------------------------------


def sizes(store: SqliteStore, commits: int) -> list[int]:
    """How large the log is after each of so many commits, synced."""
    hold, found = begin(store, "run1"), []
    for number in range(commits):
        store.finish(store.put(hold, [some(number)]))
        found.append(os.stat(f"{store.place}-wal").st_size)
    assert broken(store, "run1", commits) is None
    return found


def test_the_log_has_room_for_many_commits_before_it_grows_again(store: SqliteStore) -> None:
    found = sizes(store, 200)
    assert len(set(found)) < 40  # of 200; without room each commit but those after a checkpoint makes it grow
    assert max(found) < file.LOG_BYTES + 200 * 4200


def test_what_another_process_writes_behind_the_log_s_end_is_never_written_over(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    monkeypatch.setattr(LogRoom, "make", lambda room: made.append(1))
    hold = begin(store, "run1")
    with outsider(store.place) as connection:
        store.finish(store.put(hold, [some(1)]))
        connection.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        store._writer._make_room()  # type: ignore[union-attr]
        assert time.monotonic() - began < 5  # it is not waited for
        assert not made
        connection.execute("ROLLBACK")
    store._writer._make_room()  # type: ignore[union-attr]
    assert made == [1]
    with outsider(store.place) as connection:  # and the lock is given back, and who commits waits for it as before
        connection.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.1, connection.execute, ["ROLLBACK"])
        timer.start()
        store.finish(store.put(hold, [some(2)]))
        timer.join()


def test_zeros_at_the_end_of_a_log_are_its_end(store: SqliteStore, tmp_path: Path) -> None:
    sizes(store, 20)
    store._writer._make_room()  # type: ignore[union-attr]
    copy = tmp_path / "copy" / "outlast.db"
    copy.parent.mkdir()
    for ending in ("", "-wal"):
        copy.with_name(copy.name + ending).write_bytes(Path(f"{store.place}{ending}").read_bytes())
    assert Path(f"{copy}-wal").read_bytes().endswith(bytes(4096))
    found = SqliteStore(copy)
    assert broken(found, "run1", 20) is None
    found.close()


def test_a_log_without_room_on_a_full_disk_is_a_log(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file, "open", full, raising=False)
    assert len(set(sizes(store, 40))) > 30
