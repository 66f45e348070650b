"""How connections are set up, so that a commit costs what it must."""

import os
from pathlib import Path

import apsw
import pytest

from outlast.store.sqlite import log
from outlast.store.sqlite.log import LogRoom
from outlast.store.sqlite.open import SqliteStore

from ..support import begin, broken, new_run, outsider, some, start_of

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
    assert max(found) < log.LOG_BYTES + 200 * 4200


def test_what_another_process_writes_while_room_is_made_is_never_written_over(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SOON", 1000)
    sizes(store, 5)
    with outsider(store.place) as connection:
        connection.execute("CREATE TABLE theirs (number)")

        def zeros(count: int) -> bytes:  # between the look at the log and what is written into it
            connection.execute("INSERT INTO theirs VALUES (1)")
            return bytes(count)

        monkeypatch.setattr(log, "bytes", zeros, raising=False)
        LogRoom(f"{store.place}-wal").keep()
        with outsider(copied(store, tmp_path)) as found:  # as who comes after a crash reads it
            assert list(found.execute("SELECT number FROM theirs")) == [(1,)]
            assert list(found.execute("PRAGMA integrity_check")) == [("ok",)]


def test_room_is_made_without_waiting_for_who_writes_and_never_in_a_log_that_is_gone(
    store: SqliteStore, tmp_path: Path
) -> None:
    sizes(store, 5)
    with outsider(store.place) as connection:
        connection.execute("BEGIN IMMEDIATE")
        before = os.stat(f"{store.place}-wal").st_size
        LogRoom(f"{store.place}-wal").keep()
        assert os.stat(f"{store.place}-wal").st_size > before
        connection.execute("ROLLBACK")
    LogRoom(str(tmp_path / "gone-wal")).keep()
    assert not (tmp_path / "gone-wal").exists()


def copied(store: SqliteStore, folder: Path) -> Path:
    """The file and its log, without the index of the log."""
    copy = folder / "copy" / "outlast.db"
    copy.parent.mkdir()
    for ending in ("", "-wal"):
        copy.with_name(copy.name + ending).write_bytes(Path(f"{store.place}{ending}").read_bytes())
    return copy


def test_zeros_at_the_end_of_a_log_are_its_end(store: SqliteStore, tmp_path: Path) -> None:
    sizes(store, 20)
    LogRoom(f"{store.place}-wal").keep()
    copy = copied(store, tmp_path)
    assert Path(f"{copy}-wal").read_bytes().endswith(bytes(4096))
    found = SqliteStore(copy)
    assert broken(found, "run1", 20) is None
    found.close()


def test_a_log_without_room_on_a_full_disk_is_a_log(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log, "open", full, raising=False)
    assert len(set(sizes(store, 40))) > 30


def test_a_log_that_has_all_its_room_is_seldom_looked_at(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes(store, 400)
    assert os.stat(f"{store.place}-wal").st_size >= log.LOG_BYTES
    room = LogRoom(f"{store.place}-wal")
    assert (room.keep(), LogRoom("nowhere-wal").keep()) == (log.LATE, log.SOON)


def test_a_log_that_was_emptied_has_room_again_after_the_next_commit(store: SqliteStore) -> None:
    sizes(store, 400)
    store.vacuum()
    store.write(lambda tx: tx.add_run(new_run("run2"), start_of("run2"), "p"))
    assert os.stat(f"{store.place}-wal").st_size >= log.LEAST_ROOM
