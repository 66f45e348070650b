"""The first handoff of an anchor of which nothing is known, in one statement: it comes to what its work does."""

import contextlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast import Outlast
from outlast.clock import ManualClock
from outlast.errors import Forbidden
from outlast.ledger.journal import JournalEntry
from outlast.store.bound import BoundStore
from outlast.store.contract import FirstRevision, NewHandoff, PlainStore, Store, TaskRow, Writing
from outlast.store.sqlite.open import SqliteStore

from .plain import wrong_rows
from .support import new_run, some, start_of, together

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
    return store.write(work, PlainStore(scope, anchor, task, lambda: first(anchor, **given)))


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


def test_of_two_under_an_anchor_in_one_commit_the_second_is_done_by_its_work(store: SqliteStore) -> None:
    assert together(store, lambda: store_on(store), lambda: store_on(store), lambda: store_on(store, "other")) == [
        *("plain", "worked", "plain")
    ]
    assert len(store.read(lambda look: look.anchors_after(0, 9))) == 2
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


def test_the_first_handoff_of_an_anchor_takes_five_statements_of_a_file(tmp_path: Path) -> None:
    said: list[str] = []

    def note(cursor: apsw.Cursor, statement: str, values: object) -> bool:
        said.append(statement)
        return True

    with contextlib.chdir(tmp_path), Outlast(tmp_path / "home") as here:
        here.handoff.store("first", "s", "t")
        connection = here._home.store._writer._tx.connection  # type: ignore[attr-defined]
        connection.exec_trace = note
        here.handoff.store("second", "s", "t", target_files=["one.txt"], bind=False)
        connection.exec_trace = None
    assert (said[0], said[-1], len(said)) == ("BEGIN IMMEDIATE", "COMMIT", 5)
