"""The first handoff of an anchor of which nothing is known, in one statement: it comes to what its work does."""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import Outlast
from outlast.clock import ManualClock
from outlast.errors import Forbidden, OutlastError
from outlast.ledger.journal import JournalEntry
from outlast.store.bound import BoundStore
from outlast.store.contract import FirstRevision, Hold, NewHandoff, PlainStore, Store, TaskRow, Writing
from outlast.store.sqlite.open import SqliteStore

from .plain import interrupt_at, wrong_rows
from .support import new_run, outsider, some, start_of, together

A, B = "a" * 64, "b" * 64


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "outlast.db")
    yield opened
    opened.close()


def first(anchor: str, entry: JournalEntry | None = None, contents: dict[str, bytes] | None = None) -> FirstRevision:
    new = NewHandoff(f"h-{anchor}", 1, "", "main", "/root", "f", 90, 5, 6, ("a.py", "b.py"))
    return FirstRevision(f"id-{anchor}", start_of(anchor), entry or some(1), new, contents or {}, "plain")


def store_on(store: Store, anchor: str = "task:t", scope: str = "default", **given: Any) -> Any:
    """Store as a caller does: "plain", or "worked" where that was done by its work."""

    def work(tx: Writing) -> str:
        tx.anchor_of(scope, anchor)
        return "worked"

    task = anchor.removeprefix("task:") if anchor.startswith("task:") else None
    return store.write(work, PlainStore(scope, anchor, task, lambda: first(anchor, **given), bool(given)))


def test_it_is_found_as_it_was_stored(store: SqliteStore) -> None:
    entry = some(1)._replace(blobs=(A, B))
    assert store_on(store, entry=entry, contents={A: b"one"}) == "plain"
    anchor = store.read(lambda look: look.anchor_of("default", "task:t"))
    assert anchor is not None
    assert anchor[1:] == ("id-task:t", "default", "task:t", "open", "", 1, 1, "main", "/root", "f", 90, 5, 6, 0)
    assert store.read(lambda look: look.handoff_at(anchor.key, 1)) == (1, "h-task:t", anchor.key, 1, 1, "")
    assert store.read(lambda look: look.files_of_anchor(anchor.key)) == ["a.py", "b.py"]
    assert store.read(lambda look: look.content_of(A)) == b"one"
    assert store.read(lambda look: look.chains_of_blob(B)) == {anchor.key}
    assert wrong_rows(store) == []


def _anchor(tx: Writing) -> None:
    tx.add_anchor("old", "default", "task:t", start_of("old"))


def _task(tx: Writing) -> None:
    tx.add_task(TaskRow(0, "default", "t", "active", "", "{}", "me", 1, 1, 0, start_of("t")))


def _run(tx: Writing) -> None:
    tx.add_run(new_run("old", task="t"), start_of("old"), "p2")


@pytest.mark.parametrize("before", [_anchor, _task, _run])
def test_one_of_which_something_is_known_is_done_by_its_work(
    store: SqliteStore, before: Callable[[Writing], None]
) -> None:
    store.write(before)
    assert store_on(store) == "worked"
    assert store_on(store, "task:other") == "plain"
    assert store_on(store, "of no task") == "plain"
    assert wrong_rows(store) == []


def test_of_two_under_an_anchor_in_one_commit_the_second_is_done_by_its_work(
    store: SqliteStore, reached: Counter[str]
) -> None:
    stores = (partial(store_on, store), partial(store_on, store), partial(store_on, store, "other"))
    reached.clear()
    assert together(store, *stores) == ["plain", "worked", "plain"]
    assert reached["commit.done"] == 2  # theirs, and of what kept the writer busy
    assert len(store.read(lambda look: look.anchors_after(0, 9))) == 2
    assert wrong_rows(store) == []


def test_several_in_one_commit_take_one_statement_and_a_look_before(store: SqliteStore) -> None:
    store_on(store, "first")
    stores = [partial(store_on, store, f"task:{number}") for number in range(5)]
    with statements_of(store) as said:
        assert together(store, *stores) == ["plain"] * 5
    assert [each.split()[0] for each in said[-4:]] == ["BEGIN", "SELECT", "INSERT", "COMMIT"]
    anchors = store.read(lambda look: look.anchors_after(0, 9))
    assert [(row.key, row.newest) for row in anchors] == [(number, number) for number in range(1, 7)]
    assert all(store.read(lambda look, key=row.key: look.files_of_anchor(key)) == ["a.py", "b.py"] for row in anchors)
    assert wrong_rows(store) == []


def test_where_the_commit_of_several_fails_the_file_says_whether_it_was_made(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    do = store._writer._tx.do

    def fails(sql: str, *values: Any) -> Any:
        done = do(sql, *values)
        said.append(sql)
        if sql == "COMMIT" and said[-2].startswith("INSERT INTO stored"):
            raise apsw.IOError("the disk is gone")
        return done

    said: list[str] = []
    store_on(store, "before")
    monkeypatch.setattr(store._writer._tx, "do", fails)
    assert together(store, lambda: store_on(store, "a"), lambda: store_on(store, "b")) == ["plain", "plain"]
    assert len(store.read(lambda look: look.handoffs_after(0, 9))) == 3


def test_one_with_content_and_one_that_is_known_are_done_beside_the_others_of_their_commit(store: SqliteStore) -> None:
    store_on(store, "known")
    entry = some(1)._replace(blobs=(A,))
    stores = (
        partial(store_on, store, "a"),
        partial(store_on, store, "known"),
        partial(store_on, store, "kept", entry=entry, contents={A: b"one"}),
        partial(store_on, store, "b"),
    )
    with statements_of(store) as said:
        assert together(store, *stores) == ["plain", "worked", "plain", "plain"]
    assert sum(each.startswith("INSERT INTO stored") for each in said) == 2  # that with content has its own
    assert store.read(lambda look: look.content_of(A)) == b"one"
    anchors = store.read(lambda look: look.anchors_after(0, 9))
    assert sorted(row.anchor for row in anchors) == ["a", "b", "kept", "known"]
    assert wrong_rows(store) == []


def test_who_is_bound_to_a_scope_stores_in_no_other_one(store: SqliteStore) -> None:
    bound = BoundStore(store, ["mine"])
    assert store_on(bound, scope="mine") == "plain"  # type: ignore[arg-type]
    with pytest.raises(Forbidden):
        store_on(bound, scope="theirs")  # type: ignore[arg-type]
    assert [row.scope for row in store.read(lambda look: look.anchors_after(0, 9))] == ["mine"]


# -- the same as by work, in a file ------------------------------------------------------------------

GIVEN: list[dict[str, Any]] = [
    {"anchor": "task:one"},
    {"anchor": "no task", "target_files": ["one.txt", "gone.txt"], "must_keep": ["one.txt"], "next_action": "Mend it"},
    {"anchor": "task:two", "target_files": ["one.txt"], "symbol": "f", "acceptance_checks": ["true"], "bind": False},
    {"anchor": "task:three", "acceptance_checks": ["true"], "expires": "2d", "redact": True, "tags": ["a"]},
]


def rows_of(home: Path) -> dict[str, list[Any]]:
    """All that the database of a home has, but for who is alive in it, and when."""
    connection = apsw.Connection(str(home / "default" / "outlast.db"))
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    found = {name: list(connection.execute(f"SELECT * FROM {name}")) for name in tables if name != "processes"}
    connection.close()
    return found


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given["anchor"])
def test_both_ways_write_the_same_rows_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    (tmp_path / "one.txt").write_text("one")
    found, put_work, done = [], SqliteStore.put_work, list[Any]()

    def kept(self: SqliteStore, work: Any, plain: Any = None) -> Any:
        done.append(plain)
        return put_work(self, work, plain if way == "plain" else None)

    monkeypatch.setattr(SqliteStore, "put_work", kept)
    for way in ("plain", "work"):
        home, ids = tmp_path / way, count(1)
        with (
            contextlib.chdir(tmp_path),
            Outlast(home, clock=ManualClock(), ids=lambda ids=ids: f"id{next(ids):08d}") as here,
        ):
            stored = here.handoff.store(summary="What", handoff_text="How it stands", **given)
            assert wrong_rows(here._home.store) == []
        found.append((stored, rows_of(home)))
    assert sum(isinstance(plain, PlainStore) for plain in done) == 2
    assert found[0] == found[1]
    assert len(found[0][1]["handoffs"]) == 1


@pytest.mark.parametrize(
    "more", [{"operation_id": "one"}, {"strict": True}, {"expected_revision": 0}], ids=lambda more: next(iter(more))
)
def test_where_more_is_asked_it_is_done_by_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    done, put_work = list[Any](), SqliteStore.put_work

    def kept(self: SqliteStore, work: Any, plain: Any = None) -> Any:
        done.append(plain)
        return put_work(self, work, plain)

    monkeypatch.setattr(SqliteStore, "put_work", kept)
    checks = {"target_files": ["one.txt"], "next_action": "Mend f in one.txt", "acceptance_checks": ["pytest -q"]}
    with contextlib.chdir(tmp_path), Outlast(tmp_path / "home") as here:
        stored = here.handoff.store("mend-f", "f gives 1", "It is to give 2, see one.txt", **checks, **more)
    assert stored.revision == 1
    assert not any(isinstance(plain, PlainStore) for plain in done)


def test_the_first_handoff_of_an_anchor_takes_one_statement_of_a_file_and_a_look_before(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path), Outlast(tmp_path / "home") as here:
        here.handoff.store("first", "s", "t")
        with statements_of(here._home.store) as said:
            here.handoff.store("second", "s", "t", target_files=["one.txt"], bind=False)
    assert [each.split()[0] for each in said] == ["SELECT", "INSERT"]


def test_with_content_it_takes_a_transaction(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("one")
    with contextlib.chdir(tmp_path), Outlast(tmp_path / "home") as here:
        here.handoff.store("first", "s", "t")
        with statements_of(here._home.store) as said:
            here.handoff.store("second", "s", "t", target_files=["one.txt"])
    assert (said[0], said[-1]) == ("BEGIN IMMEDIATE", "COMMIT")


def test_what_is_written_together_lies_together(store: SqliteStore) -> None:
    pages = list[int]()
    for number in range(300):
        store_on(store, f"task:{number}")
    store._writer._tx.connection.set_wal_hook(lambda connection, name, count: pages.append(count) or 0)
    for number in range(300, 350):
        store_on(store, f"task:{number}")
    assert (pages[-1] - pages[0]) / 49 < 19  # one of each tree that has a part of it, and what grows


@contextlib.contextmanager
def statements_of(store: Any) -> Iterator[list[str]]:
    """What the connection that writes is asked meanwhile, without comments."""
    said: list[str] = []

    def note(cursor: apsw.Cursor, statement: str, values: object) -> bool:
        said.append(re.sub(r"--.*\n", "", statement).strip())
        return True

    store._writer._tx.connection.exec_trace = note
    yield said
    store._writer._tx.connection.exec_trace = None


# -- one that is a commit of its own -----------------------------------------------------------------


def _chain(tx: Writing) -> None:
    tx.add_run(new_run("other", task="other"), start_of("other"), "p2")


@pytest.mark.parametrize("meanwhile", [_anchor, _task, _run, _chain])
def test_what_another_process_does_after_the_look_is_never_written_over(
    store: SqliteStore, tmp_path: Path, meanwhile: Callable[[Writing], None]
) -> None:
    other, known = SqliteStore(tmp_path / "outlast.db"), list[int]()

    def make() -> FirstRevision:
        other.write(meanwhile)
        return first("task:t")

    def work(tx: Writing) -> str:
        known.append(len(tx.anchors_after(0, 9)))
        return "worked"

    assert store.write(work, PlainStore("default", "task:t", "t", make, False)) == "worked"
    other.close()
    assert known == [int(meanwhile is _anchor)]
    assert store.read(lambda look: look.handoffs_after(0, 9)) == []
    assert wrong_rows(store) == []


def test_a_run_of_its_task_that_goes_on_meanwhile_is_seen(store: SqliteStore, tmp_path: Path) -> None:
    def make() -> FirstRevision:
        with outsider(tmp_path / "outlast.db") as connection:
            connection.execute("UPDATE runs SET status = 'running'")
        return first("task:t")

    store.write(_run)
    with outsider(tmp_path / "outlast.db") as connection:
        connection.execute("UPDATE runs SET status = 'aborted'")
    assert store.write(lambda tx: "worked", PlainStore("default", "task:t", "t", make, False)) == "worked"


def test_the_number_of_a_run_that_is_gone_is_given_to_no_handoff(store: SqliteStore, tmp_path: Path) -> None:
    def make() -> FirstRevision:
        with outsider(tmp_path / "outlast.db") as connection:
            kept = "id, key, scope, flow, task, status, head, hash, created_at, ended_at, removed_at, removed_by"
            gone = "'gone', 1, 'default', 'f', 't2', 'succeeded', 1, zeroblob(32), 1, 2, 3, 'me'"
            connection.execute(f"INSERT INTO tombstones ({kept}) VALUES ({gone})")
        return first("task:t")

    assert store.write(lambda tx: "worked", PlainStore("default", "task:t", "t", make, False)) == "worked"
    assert store_on(store) == "plain"
    assert [row.key for row in store.read(lambda look: look.anchors_after(0, 9))] == [2]


@pytest.mark.parametrize("point", ["commit.begin", "commit.applied", "commit.done"])
def test_ctrl_c_neither_loses_nor_doubles_it(store: SqliteStore, point: str) -> None:
    ticket = store.put_work(lambda tx: "worked", PlainStore("default", "a", None, lambda: first("a"), False))
    interrupt_at(point)
    with pytest.raises(KeyboardInterrupt):
        store.finish(ticket)
    assert store.finish(ticket) == "plain"
    assert len(store.read(lambda look: look.handoffs_after(0, 9))) == 1
    assert wrong_rows(store) == []


def test_ctrl_c_right_after_it_was_written_doubles_nothing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, reached: Counter[str]
) -> None:
    tx = store._writer._tx
    stores = tx.store

    def interrupted(*given: Any) -> None:
        stores(*given)
        monkeypatch.undo()
        raise KeyboardInterrupt

    ticket = store.put_work(lambda tx: "worked", PlainStore("default", "a", None, lambda: first("a"), False))
    monkeypatch.setattr(tx, "store", interrupted)
    reached.clear()
    with pytest.raises(KeyboardInterrupt):
        store.finish(ticket)
    assert store.finish(ticket) == "plain"
    assert reached["commit.begin"] == 1  # nobody wrote it once more
    assert len(store.read(lambda look: look.handoffs_after(0, 9))) == 1


@pytest.mark.parametrize("written", [True, False])
def test_where_its_commit_fails_the_file_says_whether_it_was_made(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    stores = store._writer._tx.store

    def fails(*given: Any) -> None:
        if written:
            stores(*given)
        else:
            store._writer._tx.moved.append((Hold(1, "id-a", 1, 0, 1, b"h" * 32), 0, b"s" * 32))
        raise apsw.IOError("the disk is gone")

    monkeypatch.setattr(store._writer._tx, "store", fails)
    if written:
        assert store_on(store, "a") == "plain"
    else:
        with pytest.raises(OutlastError):
            store_on(store, "a")
    assert len(store.read(lambda look: look.handoffs_after(0, 9))) == int(written)
    assert store_on(store, "b") == "plain"
    assert wrong_rows(store) == []
