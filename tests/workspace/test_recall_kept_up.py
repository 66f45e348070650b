"""The index of recall is never far behind what is recorded: the first recall has little to do."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from outlast import Outlast, Run, current, flow, step
from outlast.errors import OperationConflict, RecordNotFound, SecretFound, ValueRefused
from outlast.store.sqlite.recall import SqliteRecall, index_path, with_index
from outlast.workspace.recall import search

from ..kit.place import Place

MOST = 1_000  # that the index may be behind


def behind(place: Place, scope: str = "default") -> int:
    """How many documents of a scope its index lacks."""
    home = place.outlast._executor.home
    path = index_path(home.folder, scope)
    mark = with_index(path, lambda index: index.mark("record")) if path.exists() else 0
    return len(home.store.read(lambda look: look.shown_of_scope(scope, mark, 100_000)))


def some(count: int, first: int = 0) -> list[dict[str, object]]:
    return [{"kind": "note", "text": f"Entry {number} of the log."} for number in range(first, first + count)]


def taken_in_by_recall(monkeypatch: pytest.MonkeyPatch, place: Place, goal: str) -> int:
    taken: list[int] = []
    add = SqliteRecall.add
    monkeypatch.setattr(SqliteRecall, "add", lambda *given: taken.append(add(*given)) or taken[-1])
    place.outlast.workspace.recall(goal)
    monkeypatch.undo()
    return sum(taken)


def test_recording_keeps_the_index_at_most_a_thousand_behind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in range(0, 3_000, 300):
        place.outlast.workspace.record_many(some(300, first))
        assert behind(place) < MOST
    for number in range(30):
        place.outlast.workspace.record("note", f"By itself {number}.")
    assert 0 < taken_in_by_recall(monkeypatch, place, "entry 17") < MOST
    assert behind(place) == 0


def test_processes_that_each_record_a_little_keep_it_up_together(place: Place) -> None:
    for first in range(0, 2_000, 40):
        with Outlast(place.home) as other:  # each knows nothing of those before
            other.workspace.record_many(some(40, first))
    assert behind(place) < MOST


def test_scopes_are_kept_up_each_by_itself(place: Place) -> None:
    for first in range(0, 1_200, 60):
        place.outlast.workspace.record_many(some(60, first), scope="busy")
        place.outlast.workspace.record("note", "Quiet.", scope="quiet")
    assert behind(place, "busy") < MOST
    assert not index_path(place.outlast._executor.home.folder, "quiet").exists()  # nothing to do there yet


@step
def notes_many(count: int) -> int:
    for number in range(count):
        current().workspace.record("note", f"Seen {number}.")
    return count


@flow
def watch_many(run: Run, count: int) -> int:
    return notes_many(count)


def test_what_a_run_recorded_is_taken_in_when_it_ends(place: Place) -> None:
    place.outlast.workspace.record_many(some(450))
    place.outlast.run(watch_many, 60)
    assert behind(place) < 60


def test_an_index_that_grew_while_recording_gives_what_a_new_one_gives(place: Place) -> None:
    for first in range(0, 1_200, 400):
        place.outlast.workspace.record_many(some(400, first))
    grown = place.outlast.workspace.recall("entry 17 of the log", 300)
    index_path(place.outlast._executor.home.folder, "default").unlink()
    assert place.outlast.workspace.recall("entry 17 of the log", 300) == grown


def test_a_rebuild_says_how_far_it_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "TELLS", 500)
    place.outlast.workspace.record_many(some(1_000))
    index_path(place.outlast._executor.home.folder, "default").unlink(missing_ok=True)
    said: list[str] = []
    place.outlast._executor.home.tell = said.append
    place.outlast.workspace.recall("entry")
    assert said == [
        "recall: the index of scope 'default' is made anew, 500 taken in so far",
        "recall: the index of scope 'default' is made anew, 1,000 taken in so far",
    ]
    place.outlast.workspace.recall("entry")
    assert len(said) == 2


def test_a_folder_that_cannot_be_written_does_not_keep_anybody_from_recording(place: Place) -> None:
    place.outlast.workspace.record("note", "The home is made.")
    folder = Path(place.home, "default", "recall")
    folder.write_text("in the way")
    place.outlast.workspace.record_many(some(600))
    assert place.outlast.workspace.record("note", "One more.").text == "One more."


# -- many at once ------------------------------------------------------------------------------------


def test_many_records_are_made_at_once_in_their_order(place: Place) -> None:
    at = datetime(2026, 5, 8, tzinfo=UTC)
    more = {"tags": ["x"], "pinned": True, "task": "t", "at": at, "source": "a talk"}
    made = place.outlast.workspace.record_many([*some(2), {"kind": "decision", "text": "So be it.", **more}])
    assert [one.text for one in made] == ["Entry 0 of the log.", "Entry 1 of the log.", "So be it."]
    assert (made[2].at, made[2].tags, made[2].pinned, made[2].source.origin) == (at, ("x",), True, "a talk")
    assert [one.ref for one in place.outlast.workspace.records()] == [one.ref for one in reversed(made)]
    assert place.outlast.workspace.record_many([]) == []


def test_of_many_records_all_are_made_or_none_and_the_place_is_named(place: Place) -> None:
    wrong: list[tuple[object, str, type[Exception]]] = [
        ([*some(1), {"kind": "thought", "text": "x"}], "records[1].kind", ValueRefused),
        ([{"kind": "note"}], "records[0]['text']", ValueRefused),
        ([{"kind": "note", "text": "x", "txet": 1}], "records[0]['txet']", ValueRefused),
        ([*some(2), "note"], "records[2]", ValueRefused),
        ("note", "records", ValueRefused),
        (some(1_001), "records", ValueRefused),
        ([*some(1), {"kind": "note", "text": "key AKIAIOSFODNN7EXAMPLE"}], "records[1].text", SecretFound),
        ([*some(1), {"kind": "note", "text": "x", "refs": ["nonsense"]}], "records[1].refs[0]", ValueRefused),
    ]
    for given, path, error in wrong:
        with pytest.raises(error) as refused:
            place.outlast.workspace.record_many(given)  # type: ignore[arg-type]
        assert refused.value.path == path  # type: ignore[attr-defined]
    with pytest.raises(RecordNotFound) as missing:
        place.outlast.workspace.record_many([*some(1), {"kind": "note", "text": "x", "refs": ["record:none"]}])
    assert missing.value.to_dict()["path"] == "records[1].refs"
    assert place.outlast.workspace.records() == []
    (masked,) = place.outlast.workspace.record_many([{"kind": "note", "text": "key AKIAIOSFODNN7EXAMPLE"}], redact=True)
    assert masked.masked == ("text",)


def test_the_same_operation_records_many_once(place: Place) -> None:
    first = place.outlast.workspace.record_many(some(3), operation_id="import-1")
    again = place.outlast.workspace.record_many(some(3), operation_id="import-1")
    assert [one.ref for one in again] == [one.ref for one in first]
    assert all(one.replayed for one in again)
    with pytest.raises(OperationConflict):
        place.outlast.workspace.record_many(some(4), operation_id="import-1")
    assert len(place.outlast.workspace.records()) == 3
