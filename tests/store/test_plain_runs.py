"""Starts and ends of runs that nothing else is known of, in one statement: they come to what their work does."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import apsw
import pytest

from outlast import Outlast, Run, failpoints, flow
from outlast.clock import ManualClock
from outlast.errors import LeaseLost
from outlast.store.contract import Ending, Hold, NewWait, PlainStart, RunRow, Store, Writing
from outlast.store.contract.queues import QueueEntry
from outlast.store.contract.runs import KeptOutcome
from outlast.store.sqlite.open import SqliteStore

from .plain import ME, end_on, sign_in, start_on, wrong_rows
from .support import broken, lease_of, new_run, some, start_of, take_over, together

# -- starts ------------------------------------------------------------------------------------------


def test_starts_in_one_commit_are_runs_of_their_own(store: Store) -> None:
    sign_in(store)
    begun = together(store, *[lambda n=n: start_on(store, f"run{n}") for n in range(3)])
    assert sorted(row.key for _, row in begun) == sorted({hold.run_key for hold, _ in begun})
    for place, (hold, row) in enumerate(begun):
        assert row == store.read(lambda look, row=row: look.run_by_id(row.id))
        assert lease_of(store, f"run{place}")[1:4] == (1, hold.head, hold.hash)
        store.finish(store.put(hold, [some(2)]))
        assert broken(store, row.id, 2) is None
    assert wrong_rows(store) == []


def _unfinished(store: Store) -> None:
    store.write(lambda tx: tx.add_run(new_run("old", task="t"), start_of("old"), "p2"))


def _finished(store: Store) -> None:
    def work(tx: Writing) -> None:
        hold = tx.add_run(new_run("old", task="t", named=1), start_of("old"), "p2")
        tx.end_run(hold.run_key, Ending("succeeded", "", None, None, 2))

    store.write(work)


def _undelivered(store: Store) -> None:
    def work(tx: Writing) -> None:
        hold = tx.add_run(new_run("old", task="t"), start_of("old"), "p2")
        tx.end_run(hold.run_key, Ending("succeeded", "", None, None, 2))
        tx.add_delivery(hold.run_key, "default", "t", "")

    store.write(work)


def _removed(store: Store) -> None:
    _finished(store)
    old = store.read(lambda look: look.run_by_id("old"))
    assert old is not None
    store.write(lambda tx: tx.bury(old.key, old.id, 3, "somebody", KeptOutcome(1, "", None)))


@pytest.mark.parametrize("before", [_unfinished, _finished, _undelivered, _removed])
def test_a_start_whose_task_is_known_is_done_by_its_work(store: Store, before: Callable[[Store], None]) -> None:
    sign_in(store)
    before(store)
    assert start_on(store, "run1", "t") == "worked"
    assert start_on(store, "run2", "other") != "worked"
    assert store.read(lambda look: look.run_by_id("run1")) is None


def test_of_two_starts_of_a_task_in_one_commit_the_second_is_done_by_its_work(store: Store) -> None:
    sign_in(store)
    elsewhere = {"identity": "m:other"}  # else a constraint would see it
    first, second = together(
        store, lambda: start_on(store, "run1", "t"), lambda: start_on(store, "run2", "t", **elsewhere)
    )
    assert first[1].id == "run1"
    assert second == "worked"


def test_of_a_silent_process_the_first_start_is_done_by_its_work_and_speaks_for_the_others(store: Store) -> None:
    begun = together(store, *[lambda n=n: start_on(store, f"run{n}") for n in range(3)])
    assert begun[0] == "worked"
    assert [row.id for _, row in begun[1:]] == ["run1", "run2"]


@pytest.mark.parametrize("window", [(100, 200), (0, 99)], ids=["long ago", "on another boot"])
def test_of_a_process_whose_sign_of_life_is_not_of_late_a_start_is_done_by_its_work(
    store: Store, window: tuple[int, int]
) -> None:
    sign_in(store)  # at 100
    run = new_run("run1", task="run1")
    plain = PlainStart(run, start_of("run1"), some(1), ME.id, *window, "", lambda hold, row: (hold, row))
    assert store.write(lambda tx: "worked", plain) == "worked"
    assert store.read(lambda look: look.run_by_id("run1")) is None


# -- ends --------------------------------------------------------------------------------------------


@pytest.fixture
def begun(store: Store) -> tuple[Hold, RunRow]:
    sign_in(store)
    hold, row = start_on(store, "run1")
    return hold, row


def test_an_end_lets_go_of_the_lease_and_keeps_its_result(store: Store, begun: tuple[Hold, RunRow]) -> None:
    hold, row = begun
    together(store, lambda: store.finish(store.put(hold, [some(2)])), lambda: end_on(store, hold, row, 3))
    ended = store.read(lambda look: look.run_by_id("run1"))
    assert ended == row._replace(status="succeeded", result='{"value":1}', updated_at=5)
    assert (lease_of(store, "run1").holder, lease_of(store, "run1").epoch) == (None, 2)
    assert broken(store, "run1", 3) is None
    assert wrong_rows(store) == []


def _wait(tx: Writing, hold: Hold) -> None:
    tx.add_interrupt("wait1", hold.run_key, NewWait("question", '["","a","",0]', "a", "{}", 1))


def _name(tx: Writing, hold: Hold) -> None:
    tx.name_run(hold.run_key)


def _expect(tx: Writing, hold: Hold) -> None:
    tx.add_delivery(hold.run_key, "default", "run1", "somebody else")


@pytest.mark.parametrize("meanwhile", [_wait, _name, _expect])
def test_an_end_to_which_there_is_more_is_done_by_its_work(
    store: Store, begun: tuple[Hold, RunRow], meanwhile: Callable[[Writing, Hold], None]
) -> None:
    hold, row = begun
    other, beside = start_on(store, "run2")
    store.write(lambda tx: meanwhile(tx, hold))
    found = together(store, lambda: end_on(store, hold, row), lambda: end_on(store, other, beside))
    assert found == ["worked", None]
    assert broken(store, "run1", 2) is None
    assert broken(store, "run2", 2) is None
    assert wrong_rows(store) == []


def test_an_end_whose_commit_failed_moved_nothing_and_is_done_later(store: Store, begun: tuple[Hold, RunRow]) -> None:
    hold, row = begun

    def fails(name: str) -> None:
        if name == "commit.applied":
            failpoints.arm(None)
            raise KeyboardInterrupt

    before = hold.head, hold.hash
    failpoints.arm(fails)
    with pytest.raises(KeyboardInterrupt):
        end_on(store, hold, row)
    store.write(lambda tx: None)  # what was queued is written with it
    after = lease_of(store, "run1")
    assert (hold.head, hold.hash) in (before, (after.head, after.hash))
    assert broken(store, "run1", 2) is None


def test_a_run_that_ended_has_no_place_in_its_queue(store: Store, begun: tuple[Hold, RunRow]) -> None:
    hold, row = begun

    def enqueue(tx: Writing) -> None:
        tx.add_queue("agents")
        tx.add_entry(QueueEntry(hold.run_key, "agents", "", 0, 0, 0, 0, 0, "taken", 1))

    store.write(enqueue)
    assert end_on(store, hold, row) is None
    assert store.read(lambda look: look.entry_of(hold.run_key)) is None


def test_a_stale_end_writes_nothing_and_those_beside_it_are_done(store: Store, begun: tuple[Hold, RunRow]) -> None:
    hold, row = begun
    other, beside = start_on(store, "run2")
    take_over(store, hold)
    lost, done = together(store, lambda: end_on(store, hold, row), lambda: end_on(store, other, beside))
    assert isinstance(lost, LeaseLost)
    assert done is None
    assert store.read(lambda look: look.run_by_id("run1")).status == "running"  # type: ignore[union-attr]
    assert broken(store, "run1", 1) is None


# -- the same as by work, in a file ------------------------------------------------------------------

TABLES = ("runs", "journal", "chains", "deliveries", "queue_entries", "proofs")
SEEN: list[dict[str, list[Any]]] = []
_HOME: list[Path] = []


@flow
def looks(run: Run, name: str) -> dict[str, str]:
    SEEN.append(_rows())  # in no step: one that takes long has its start written
    return {"name": name, "odd": "a\0b\1c"}


def _rows() -> dict[str, list[Any]]:
    """All rows of the home under test, without what a process is called."""
    connection = apsw.Connection(str(_HOME[0] / "default" / "outlast.db"))
    ((holder,),) = connection.execute("SELECT coalesce(max(holder), '-') FROM chains")
    found = {}
    for table in TABLES:
        where = "WHERE noun = 'runs'" if table == "proofs" else ""
        rows = connection.execute(f"SELECT * FROM {table} {where}")
        found[table] = [tuple("me" if each == holder else each for each in row) for row in rows]
    connection.close()
    return found


@pytest.mark.parametrize("options", [{"task": "one"}, {}, {"task": "one", "session": "s", "meta": {"a": 1}}])
def test_both_ways_write_the_same_rows_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    found, put_work = [], SqliteStore.put_work
    for way in ("plain", "work"):
        if way == "work":
            monkeypatch.setattr(SqliteStore, "put_work", lambda self, work, plain=None: put_work(self, work))
        SEEN.clear()
        _HOME[:], ids = [tmp_path / way], count(1)
        with Outlast(_HOME[0], clock=ManualClock(), ids=lambda ids=ids: f"id{next(ids):08d}") as outlast:
            outlast.run(looks, "kelp", **options).unwrap()
            SEEN.append(_rows())
            wrong = wrong_rows(outlast._home.store)
        assert wrong == []
        found.append(list(SEEN))
    assert len(found[0]) == 2
    assert found[0] == found[1]


def test_what_starts_and_ends_go_through_is_there_after_a_failed_commit_and_a_vacuum(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "outlast.db")

    def fails(tx: Writing) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.write(fails)
    sign_in(store)
    assert start_on(store, "run1") != "worked"
    store.vacuum()
    hold, row = start_on(store, "run2")
    assert end_on(store, hold, row) is None
    store.close()


@flow
def does_nothing(run: Run, name: str) -> str:
    return name


def test_a_run_without_steps_takes_three_statements_of_a_file(tmp_path: Path) -> None:
    said: list[str] = []

    def note(cursor: apsw.Cursor, statement: str, values: object) -> bool:
        if current_thread() is main_thread():  # not what the heartbeat writes
            said.append(statement)
        return True

    with Outlast(tmp_path) as outlast:
        outlast.run(does_nothing, "kelp", task="first").unwrap()  # its process gives its first sign of life
        connection = outlast._home.store._writer._tx.connection
        connection.exec_trace = note
        outlast.run(does_nothing, "kelp", task="second").unwrap()
        connection.exec_trace = None
    assert [each.split(" VALUES")[0].split("coalesce")[0] for each in said] == [
        "SELECT 1 + max(",
        "INSERT INTO begun",
        "INSERT INTO ended",
    ]


def test_starts_of_a_commit_take_one_statement_of_a_file_and_so_do_ends(tmp_path: Path) -> None:
    store, said = SqliteStore(tmp_path / "outlast.db"), list[str]()

    def note(cursor: apsw.Cursor, statement: str, values: object) -> bool:
        said.append(statement)
        return True

    sign_in(store)
    start_on(store, "run0")  # what starts go through is there
    store._writer._tx.connection.exec_trace = note  # type: ignore[union-attr]
    begun = together(store, *[lambda n=n: start_on(store, f"run{n}") for n in range(1, 12)])
    assert all(row.id == f"run{n}" for n, (_, row) in enumerate(begun, 1))
    assert [len([each for each in said if name in each]) for name in ("INTO begun", "INTO ended")] == [1, 0]
    ended = together(store, *[lambda hold=hold, row=row: end_on(store, hold, row) for hold, row in begun])
    assert ended == [None] * 11
    assert [len([each for each in said if name in each]) for name in ("INTO begun", "INTO ended")] == [1, 1]
    store._writer._tx.connection.exec_trace = None  # type: ignore[union-attr]
    assert wrong_rows(store) == []
    assert [broken(store, row.id, 2) for _, row in begun] == [None] * 11
    store.close()


def test_one_start_of_many_to_which_there_is_more_is_done_by_its_work_and_the_others_are_not(store: Store) -> None:
    sign_in(store)
    _unfinished(store)
    tasks = ["a", "t", "b", "c"]
    begun = together(store, *[lambda n=n, task=task: start_on(store, f"run{n}", task) for n, task in enumerate(tasks)])
    assert [each if each == "worked" else each[1].id for each in begun] == ["run0", "worked", "run2", "run3"]
    assert wrong_rows(store) == []
