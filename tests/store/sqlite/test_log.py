"""The log is copied into the database beside the writer while many wait for commits, and by the writer otherwise."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast.errors import StoreFailed
from outlast.store.contract import Hold
from outlast.store.sqlite import log
from outlast.store.sqlite import open as opening
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


# -- while another process copies it -----------------------------------------------------------------

COPYING = """
import fcntl, sys
with open(sys.argv[1], "r+b") as index:
    fcntl.lockf(index, fcntl.LOCK_EX, 1, 121)  # the lock of who copies
    print("copying", flush=True)
    sys.stdin.read()
"""


@contextmanager
def copying_until_somebody_waits(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Another process copies the log until this one naps, which is noted."""
    command = [sys.executable, "-c", COPYING, f"{store.place}-shm"]
    naps: list[str] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "copying\n"

        def nap() -> float:
            naps.append("nap")
            other.communicate()
            return 0.0

        monkeypatch.setattr(opening, "chance", nap)
        yield naps
        other.communicate()


def test_a_vacuum_waits_for_who_copies_the_log(
    commits: Commits, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits.make(20, RUNS)
    with copying_until_somebody_waits(store, monkeypatch) as naps:
        store.vacuum()
    assert naps == ["nap"]
    assert frames(store) == 0
    assert commits.are_whole(store)


def test_what_became_of_a_commit_that_failed_is_found_out_also_while_somebody_copies_the_log(
    commits: Commits, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tx = store._writer._tx  # type: ignore[union-attr]
    append = tx.append_alone

    def failing(values: list[Any]) -> None:
        append(values)
        raise apsw.IOError("disk I/O error")  # it is in the file all the same

    monkeypatch.setattr(tx, "append_alone", failing)
    with copying_until_somebody_waits(store, monkeypatch) as naps:
        commits.make(1, RUNS)
    assert naps == ["nap"]
    commits.make(1, RUNS)
    assert commits.are_whole(store)


# -- what else may happen to a copy ------------------------------------------------------------------


def test_where_the_file_is_gone_none_is_made_to_copy_the_log_into(
    commits: Commits, store: SqliteStore, turns: list[str]
) -> None:
    os.rename(store.place, f"{store.place}.moved")
    commits.make(12, RUNS)
    assert turns != []
    assert not os.path.exists(store.place)
    with pytest.raises(StoreFailed):
        store.still_there()


def test_a_file_in_the_place_of_ours_is_left_as_it_is(
    commits: Commits, store: SqliteStore, turns: list[str], tmp_path: Path
) -> None:
    other = Path(shutil.copy(store.place, tmp_path / "other.db"))
    before = other.read_bytes()
    other.replace(store.place)
    commits.make(12, RUNS)
    assert turns != []
    assert Path(store.place).read_bytes() == before


def test_after_a_copy_that_could_not_be_made_the_next_one_is(
    commits: Commits, store: SqliteStore, turns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copier = store._writer._copier  # type: ignore[union-attr]
    connect, tried = copier._connect, list[Exception]([StoreFailed("", "no"), OSError(24, "Too many open files")])

    def refused() -> apsw.Connection:
        if tried:
            raise tried.pop()
        return connect()

    monkeypatch.setattr(copier, "_connect", refused)
    before = frames(store)
    commits.make(60, RUNS)
    assert len(turns) > 4
    assert tried == []
    assert threads().count("outlast-log") == 1
    assert frames(store) < before + LONG


def test_after_a_ctrl_c_as_its_thread_begins_there_is_one_of_them(
    commits: Commits, store: SqliteStore, turns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "outlast-log":
            monkeypatch.setattr(threading.Thread, "start", start)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        commits.make(20, RUNS)
    before = len(turns)
    commits.make(20, RUNS)
    assert len(turns) > before
    assert threads().count("outlast-log") == 1
    store.close()
    assert "outlast-log" not in threads()


def test_pages_are_counted_also_when_their_number_begins_anew(
    commits: Commits, store: SqliteStore, turns: list[str]
) -> None:
    commits.make(2, RUNS)
    copier = store._writer._copier  # type: ignore[union-attr]
    copier._from += log.MOST_COUNTED + 1  # as many were written since the log began, and then the number was over
    commits.make(12, RUNS)
    assert turns != []


def test_nobody_begins_a_copy_of_a_store_that_is_being_closed(
    commits: Commits, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, held = LogCopier.close, list[bool]()

    def noted(copier: LogCopier) -> None:
        held.append(store._writer._mutex.locked())  # type: ignore[union-attr]
        close(copier)

    monkeypatch.setattr(LogCopier, "close", noted)
    store.close()
    assert held == [True]


def test_who_comes_while_a_store_is_being_closed_is_told(
    commits: Commits, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, told, entry = LogCopier.close, list[Exception](), some(1)

    def write() -> None:
        try:
            store.append(commits.holds[0], entry)
        except StoreFailed as error:
            told.append(error)

    comes = threading.Thread(target=write, daemon=True)

    def slowly(copier: LogCopier) -> None:
        comes.start()
        while not (queue := store._writer._queue) or queue[0].waiter is None:  # type: ignore[union-attr]
            threading.Event().wait(0.001)
        close(copier)

    monkeypatch.setattr(LogCopier, "close", slowly)
    store.close()
    comes.join(30)
    assert len(told) == 1
