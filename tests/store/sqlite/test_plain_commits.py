"""Starts and ends of runs that are a commit of their own: what comes between, and what is known after a failure."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast.errors import LeaseLost, OutlastError
from outlast.store.contract import Ending, Hold, PlainEnd, PlainStart, Writing
from outlast.store.sqlite.open import SqliteStore

from ..plain import ME, end_on, interrupt_at, sign_in, start_on, wrong_rows
from ..support import broken, new_run, outsider, some, start_of, take_over, together

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
    tickets = [store.put_work(lambda tx: "worked", PlainStart(*_of(f"run{n}"))) for n in range(many)]
    interrupt_at(point)
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

    tickets = [store.put_work(lambda tx: "worked", PlainStart(*_of(name))) for name in ("run1", "run2")]
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


def test_what_is_of_one_kind_in_a_commit_takes_one_statement(store: SqliteStore) -> None:
    """However they are mixed; another piece of work finds what was queued before it, and nothing that came after."""
    those = [start_on(store, f"old{n}") for n in range(6)]
    said, known = list[str](), list[int]()

    def note(cursor: apsw.Cursor, statement: str, values: object) -> bool:
        said.append(statement)
        return True

    def look(tx: Writing) -> None:
        known.append(len(tx.newest_runs(None, 99)))

    tickets = []
    for n, (hold, row) in enumerate(those):
        tickets.append(store.put_work(lambda tx: "worked", PlainStart(*_of(f"new{n}"))))
        tickets.append(store.put(hold, [some(2)]))
        if n % 2:
            ending = PlainEnd(hold, some(3), row, Ending("succeeded", "", '{"value":1}', None, 5), "")
            tickets.append(store.put_work(lambda tx: "worked", ending))
    tickets.append(store.put_work(look))
    tickets.append(store.put_work(lambda tx: "worked", PlainStart(*_of("last"))))
    store._writer._tx.connection.exec_trace = note
    given = [store.finish(ticket) for ticket in tickets]
    store._writer._tx.connection.exec_trace = None
    assert [len([each for each in said if f"INTO {name}" in each]) for name in ("appended", "begun", "ended")] == [
        1,
        2,
        1,
    ]
    assert "worked" not in given
    assert known == [12]
    assert [broken(store, hold.run_id, hold.head) for hold, _ in those] == [None] * 6
    assert [hold.head for hold, _ in those] == [2, 3] * 3
    assert wrong_rows(store) == []


def test_of_a_mixed_commit_only_what_is_stale_fails(store: SqliteStore) -> None:
    those = [start_on(store, f"run{n}") for n in range(3)]
    take_over(store, those[1][0])
    tickets = [store.put(hold, [some(2)]) for hold, _ in those]
    tickets.append(store.put_work(lambda tx: "worked", PlainStart(*_of("new"))))
    with pytest.raises(LeaseLost):
        store.finish(tickets[1])
    assert [store.finish(tickets[at]) for at in (0, 2)] == [None, None]
    assert store.finish(tickets[3])[1].id == "new"
    assert [hold.head for hold, _ in those] == [2, 1, 2]


def _of(run_id: str) -> tuple[Any, ...]:
    run = new_run(run_id, task=run_id)
    return run, start_of(run_id), some(1), ME.id, 0, 200, "", lambda *given: given
