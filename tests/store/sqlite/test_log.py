"""The log is copied into the database beside the writer while many wait for commits, and by the writer otherwise."""

import os
import threading
from itertools import count
from pathlib import Path

import apsw
import pytest

from outlast.store.contract import Hold
from outlast.store.sqlite import log
from outlast.store.sqlite.log import LogCopier
from outlast.store.sqlite.open import SqliteStore

from ..support import begin, broken, outsider, some
from .test_connections import copied

PAGE, FRAME = 4096, 4120
RUNS = 16
LONG = 180  # pages more than a log that is copied ever has


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs that are copied after a few commits."""
    monkeypatch.setattr(log, "COPIED_PAGES", 60)
    monkeypatch.setattr(log, "WHOLE_PAGES", 40)
    monkeypatch.setattr(log, "MOST_PAGES", 1200)
    monkeypatch.setattr(log, "LOG_BYTES", 0)  # no room ahead: the file is as long as the log was
    monkeypatch.setattr(log, "LEAST_ROOM", 0)


@pytest.fixture
def holds(small: None, store: SqliteStore) -> list[Hold]:
    return [begin(store, f"run{number}") for number in range(RUNS)]


class Commits:
    """Entries, so many in a commit."""

    def __init__(self, store: SqliteStore, holds: list[Hold]) -> None:
        self.store, self.holds, self.each = store, holds, [0] * len(holds)
        self._numbers = count()

    def make(self, commits: int, together: int) -> None:
        for _ in range(commits):
            tickets = []
            for at in range(together):
                tickets.append(self.store.put(self.holds[at], [some(next(self._numbers), text="x" * 1000)]))
                self.each[at] += 1
            self.store.finish(tickets[0])

    def are_whole(self, store: SqliteStore) -> bool:
        return all(broken(store, f"run{at}", entries) is None for at, entries in enumerate(self.each))


@pytest.fixture
def commits(store: SqliteStore, holds: list[Hold]) -> Commits:
    return Commits(store, holds)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a copier was asked for, each done before the commit that asked goes on: no copy is too late."""
    asked: list[str] = []
    begin_copy, never = LogCopier._begin_copy, threading.Event()

    def begun(copier: LogCopier) -> None:
        asked.append("copy")
        begin_copy(copier)
        while copier._stage == "is copied":
            never.wait(0.001)

    monkeypatch.setattr(LogCopier, "_begin_copy", begun)
    return asked


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def frames(store: SqliteStore) -> int:
    """How many pages the log has had at the most."""
    return os.stat(f"{store.place}-wal").st_size // FRAME


def test_while_many_wait_the_log_is_copied_beside_and_begins_anew(
    commits: Commits, store: SqliteStore, turns: list[str]
) -> None:
    before = frames(store)
    commits.make(40, RUNS)
    assert len(turns) > 4
    assert "outlast-log" in threads()
    assert frames(store) < before + LONG  # it never came to where the writer would have had to
    assert commits.are_whole(store)


def test_what_was_written_during_a_copy_is_copied_with_the_next_commit(
    commits: Commits, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogCopier, "_begin_copy", lambda copier: None)  # it is done here
    copier = store._writer._copier  # type: ignore[union-attr]
    while copier._stage != "is copied":
        commits.make(1, RUNS)
    with outsider(store.place) as reader, outsider(store.place) as other:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM journal")  # while it is copied the log does not begin anew
        other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        commits.make(3, RUNS)  # meanwhile
        reader.execute("COMMIT")
    copier._stage = "copied"
    commits.make(2, RUNS)  # it hears of it, and takes them along
    before = frames(store)
    commits.make(4, RUNS)
    assert copier._stage == "grows"
    assert frames(store) == before  # it has begun anew


def test_one_after_the_other_the_writer_copies_by_itself(
    commits: Commits, store: SqliteStore, turns: list[str]
) -> None:
    commits.make(200, 1)
    assert turns == []
    assert "outlast-log" not in threads()


def test_after_many_who_waited_one_after_the_other_is_copied_by_the_writer_again(
    commits: Commits, store: SqliteStore, turns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LONE_COMMITS", 5)
    commits.make(20, RUNS)
    before = len(turns)
    commits.make(6, 1)
    now = len(turns)
    commits.make(100, 1)
    assert before > 0
    assert len(turns) == now
    assert store._writer._tx.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)[0] <= log.WHOLE_PAGES + 9  # type: ignore[union-attr]


def test_what_cannot_be_copied_beside_is_copied_by_the_writer(
    commits: Commits, store: SqliteStore, turns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> apsw.Connection:
        raise apsw.CantOpenError("unable to open database file")

    monkeypatch.setattr(store._writer._copier, "_connect", refused)  # type: ignore[union-attr]
    before = frames(store)
    commits.make(60, RUNS)
    assert turns != []
    assert frames(store) < before + LONG
    assert commits.are_whole(store)


def test_where_no_thread_can_be_had_the_writer_copies_it(
    commits: Commits, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    before = frames(store)
    commits.make(60, RUNS)
    assert frames(store) < before + LONG  # at once, not only when it is as long as it may get
    assert commits.are_whole(store)


def test_a_log_that_somebody_reads_is_kept_and_copied_later(
    commits: Commits, store: SqliteStore, turns: list[str]
) -> None:
    with outsider(store.place) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM journal")
        before = frames(store)
        commits.make(40, RUNS)
        assert frames(store) > before + LONG
        reader.execute("COMMIT")
    before = frames(store)
    commits.make(60, RUNS)
    assert frames(store) < before + log.COPIED_PAGES  # it has begun anew
    assert commits.are_whole(store)


def test_whenever_the_machine_goes_down_the_file_and_its_log_have_every_entry(
    commits: Commits, store: SqliteStore, turns: list[str], tmp_path: Path
) -> None:
    for number in range(12):  # between two commits, wherever the log is at
        commits.make(1, RUNS)
        (tmp_path / str(number)).mkdir()
        found = SqliteStore(copied(store, tmp_path / str(number)))
        assert commits.are_whole(found)
        found.close()
    assert turns != []


def test_a_closed_store_copies_nothing_more(commits: Commits, store: SqliteStore, turns: list[str]) -> None:
    commits.make(20, RUNS)
    store.close()
    assert "outlast-log" not in threads()
    assert not os.path.exists(f"{store.place}-wal")  # nobody else has it open


def test_after_a_failed_commit_the_new_connection_is_counted_from_its_beginning(
    commits: Commits, store: SqliteStore, turns: list[str]
) -> None:
    commits.make(20, RUNS)
    store._writer._landed()  # type: ignore[union-attr]  # as after an error at COMMIT: a new connection
    before, length = len(turns), frames(store)
    commits.make(20, RUNS)
    assert len(turns) > before
    assert frames(store) < length + LONG
