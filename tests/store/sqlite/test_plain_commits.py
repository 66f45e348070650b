"""Starts and ends of runs that are a commit of their own: what comes between, and what is known after a failure."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import failpoints
from outlast.errors import OutlastError
from outlast.store.contract import Hold, PlainStart, Writing
from outlast.store.sqlite.open import SqliteStore

from ..plain import ME, end_on, sign_in, start_on, wrong_rows
from ..support import new_run, outsider, some, start_of, together

TOMBSTONE = """INSERT INTO tombstones
    (id, key, scope, flow, task, status, head, hash, created_at, ended_at, removed_at, removed_by)
    VALUES ('gone', 9, 'default', 'f', 't2', 'succeeded', 1, zeroblob(32), 1, 2, 3, 'me')"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "outlast.db")
    sign_in(store)
    yield store
    store.close()


def start(store: SqliteStore, given: Callable[[Hold, Any], Any], run_id: str = "run1") -> Any:
    """Start a run; `given` is asked after the look at what is there, and before the statement."""

    def work(tx: Writing) -> tuple[str, int]:
        hold = tx.add_run(new_run(run_id), start_of(run_id), ME.id)
        tx.append(hold, [some(1)])
        return "worked", hold.run_key

    return store.write(work, PlainStart(new_run(run_id), start_of(run_id), some(1), ME.id, 0, 200, "", given))


def keys(store: SqliteStore) -> list[int]:
    return sorted(row.key for row in store.read(lambda look: look.newest_runs(None, 99)))


def test_a_number_that_another_process_gives_to_a_run_meanwhile_is_not_given_again(
    store: SqliteStore, tmp_path: Path
) -> None:
    other = SqliteStore(tmp_path / "outlast.db")
    found = start(store, lambda hold, row: start_on(other, "run2"))
    other.close()
    assert found == ("worked", 2)
    assert keys(store) == [1, 2]
    assert wrong_rows(store) == []


def test_the_number_of_a_run_that_is_removed_meanwhile_is_not_given_again(store: SqliteStore, tmp_path: Path) -> None:
    def remove(hold: Hold, row: object) -> None:
        with outsider(tmp_path / "outlast.db") as connection:
            connection.execute(TOMBSTONE)

    assert start(store, remove) == ("worked", 10)
    assert keys(store) == [10]


def test_a_lease_that_is_taken_meanwhile_ends_nothing(store: SqliteStore, tmp_path: Path) -> None:
    hold, row = start_on(store, "run1")
    with outsider(tmp_path / "outlast.db") as connection:
        connection.execute("UPDATE chains SET epoch = epoch + 1")
    with pytest.raises(OutlastError, match="lost run run1"):
        end_on(store, hold, row)
    assert hold.head == 1
    assert [row.status for row in store.read(lambda look: look.newest_runs(None, 9))] == ["running"]


@pytest.mark.parametrize("point", ["commit.begin", "commit.applied", "commit.done"])
@pytest.mark.parametrize("many", [1, 3])
def test_ctrl_c_neither_loses_nor_doubles_a_start(store: SqliteStore, point: str, many: int) -> None:
    def interrupt(name: str) -> None:
        if name == point:
            failpoints.arm(None)
            raise KeyboardInterrupt

    starts = [
        PlainStart(
            new_run(f"run{n}", task=f"t{n}"), start_of(f"run{n}"), some(1), ME.id, 0, 200, "", lambda *given: given
        )
        for n in range(many)
    ]
    tickets = [store.put_work(lambda tx: "worked", each) for each in starts]
    failpoints.arm(interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.finish(tickets[0])
    given = [store.finish(ticket) for ticket in tickets]
    assert [row.id for _, row in given] == [f"run{n}" for n in range(many)]
    assert keys(store) == [hold.run_key for hold, _ in given]
    assert wrong_rows(store) == []


def test_ctrl_c_right_after_they_were_written_doubles_nothing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, reached: Counter[str]
) -> None:
    tx = store._writer._tx
    write = tx.write

    def interrupted(rows: Any) -> None:
        write(rows)
        monkeypatch.undo()
        raise KeyboardInterrupt

    first, second = (
        PlainStart(new_run(name, task=name), start_of(name), some(1), ME.id, 0, 200, "", lambda *given: given)
        for name in ("run1", "run2")
    )
    tickets = [store.put_work(lambda tx: "worked", each) for each in (first, second)]
    monkeypatch.setattr(tx, "write", interrupted)
    reached.clear()
    with pytest.raises(KeyboardInterrupt):
        store.finish(tickets[0])
    assert [store.finish(ticket)[1].id for ticket in tickets] == ["run1", "run2"]
    assert reached["commit.begin"] == 1  # nobody wrote them once more


@pytest.mark.parametrize("written", [True, False])
def test_where_the_commit_of_an_end_fails_the_file_says_whether_it_was_made(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    hold, row = start_on(store, "run1")
    write = store._writer._tx.write

    def fails(rows: Any) -> None:
        if written:
            write(rows)
        raise apsw.IOError("the disk is gone")

    monkeypatch.setattr(store._writer._tx, "write", fails)
    if written:
        assert end_on(store, hold, row) is None
    else:
        with pytest.raises(OutlastError):
            end_on(store, hold, row)
    assert hold.head == 1 + written
    assert store.read(lambda look: look.run_by_id("run1")).status == ("succeeded" if written else "running")  # type: ignore[union-attr]
    assert wrong_rows(store) == []


def test_runs_that_begin_at_once_are_each_told_their_own(store: SqliteStore) -> None:
    begun = together(store, *[lambda n=n: start_on(store, f"run{n}") for n in range(70)])
    assert [row.id for _, row in begun] == [f"run{n}" for n in range(70)]
    assert sorted(hold.run_key for hold, _ in begun) == list(range(1, 71))
    ended = together(store, *[lambda hold=hold, row=row: end_on(store, hold, row) for hold, row in begun])
    assert ended == [None] * 70
