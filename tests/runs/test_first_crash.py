"""A plain step in which its process is killed at once, for the first time: what it was at is known, and offered."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Plan, Run, failpoints, flow, step
from outlast import step as make_step
from outlast.runs.under_way import BYTES, FOLDER, KEPT_SECONDS, PLACES, WRITTEN, StepNotes

from ..kit.place import KNOBS, Place, ran, reach

CHOICES = ("retry", "skip", "abort")


@step
def gather(word: str) -> str:
    ran("gather")
    return word


@step
def write(word: str) -> str:
    ran("write")
    reach("in write")
    return word.upper()


@step
async def compose(word: str) -> str:
    ran("compose")
    reach("in compose")
    return word.upper()


@step
def each(number: int) -> int:
    ran(f"each {number}")
    if number == 3:
        reach("in each")
    return number * 10


@step
async def one(number: int) -> int:
    ran(f"one {number}")
    if number == 2:
        await asyncio.sleep(0)
        reach("in one")
    return number * 10


@flow
def plain(run: Run, word: str = "a") -> list[str]:
    found = [gather(word), write(word)]
    reach("after write")
    return [*found, write(word)]


@flow
async def awaited(run: Run) -> str:
    gather("a")
    return await compose("a")


@flow
def mapped(run: Run) -> list[int]:
    return run.map(each, [1, 2, 3, 4], concurrency=1)


@flow
async def mapped_async(run: Run) -> list[int]:
    return await run.map(one, [1, 2, 3], concurrency=3, key=lambda number: f"no {number}")


@flow
def above(run: Run) -> list[str]:
    gather("above")
    found: list[str] = run.spawn(plain, "below").result()
    return found


@flow
def told(run: Run) -> str:
    word = str(run.uuid())
    if KNOBS.get("die"):
        failpoints.armed = reach
    return write(word)


def offered(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {each.label: each.choices for each in plan.steps if each.choices}


def attempts(outlast: Outlast, run_id: str, step: str) -> list[tuple[int, str]]:
    return [(one.attempt, one.status) for one in outlast.receipts(run_id) if one.step == step]


@pytest.fixture
def crashed(place: Place) -> Place:
    place.crash(plain, at="in write")
    KNOBS.pop("die", None)
    return place


@pytest.mark.parametrize(
    ("body", "at", "label"),
    [(plain, "in write", "write"), (awaited, "in compose", "compose"), (mapped, "in each", "each[0]/each~3")],
    ids=["def", "async def", "in a map"],
)
def test_the_step_it_died_in_is_offered_after_the_first_crash(place: Place, body: Any, at: str, label: str) -> None:
    place.crash(body, at=at)
    run_id = place.outlast.runs()[0].id
    plan = place.outlast.plan(run_id)
    assert offered(plan) == {label: CHOICES}
    assert [(one.status, one.attempts) for one in plan.steps if one.label == label] == [("started", 1)]
    assert [(one.subject, one.found) for one in plan.verdict.reasons] == [(label, "attempt 1 started")]


def test_of_an_async_map_every_item_that_was_under_way_is_offered_by_its_key(place: Place) -> None:
    place.crash(mapped_async, at="in one")
    run_id = place.outlast.runs()[0].id
    known = {one.label: one.status for one in place.outlast.plan(run_id).steps}
    assert offered(place.outlast.plan(run_id)) == {label: CHOICES for label, is_ in known.items() if is_ == "started"}
    assert known["one[0]/one~no 2"] == "started"
    place.outlast.skip(run_id, "one[0]/one~no 2", result=-1, why="by hand")
    assert place.outlast.resume(run_id).result == [10, -1, 30]
    assert place.count("one 2") == 1


def test_asking_for_it_writes_nothing(crashed: Place) -> None:
    before = crashed.outlast.get(crashed.run_id).head
    assert crashed.outlast.plan(crashed.run_id) == crashed.outlast.plan(crashed.run_id)
    assert crashed.outlast.get(crashed.run_id).head == before


def test_a_skip_appends_and_the_attempt_that_died_is_on_record(crashed: Place) -> None:
    crashed.outlast.skip(crashed.run_id, "write", result="by hand", why="written")
    assert offered(crashed.outlast.plan(crashed.run_id)) == {}
    outcome = crashed.outlast.resume(crashed.run_id)
    assert outcome.result == ["a", "by hand", "A"]
    assert attempts(crashed.outlast, crashed.run_id, "write") == [(1, "started"), (2, "skipped"), (1, "succeeded")]
    assert crashed.outlast.verify().ok


def test_a_resume_tries_it_as_its_second_attempt(crashed: Place) -> None:
    assert crashed.outlast.resume(crashed.run_id).result == ["a", "A", "A"]
    assert attempts(crashed.outlast, crashed.run_id, "write") == [(1, "started"), (2, "succeeded"), (1, "succeeded")]


def test_an_abort_leaves_on_record_what_was_under_way(crashed: Place) -> None:
    crashed.outlast.abort(crashed.run_id, why="not wanted")
    assert attempts(crashed.outlast, crashed.run_id, "write") == [(1, "started")]
    assert crashed.outlast.verify().ok


def test_going_back_to_it_is_possible_too(crashed: Place) -> None:
    assert crashed.outlast.plan(crashed.run_id, from_step="write").of("retry") == ("write",)
    crashed.outlast.rewind(crashed.run_id, "write")
    assert crashed.outlast.resume(crashed.run_id).status == "succeeded"
    assert (crashed.count("gather"), crashed.count("write")) == (1, 3)


def test_in_a_child_run_the_step_of_the_child_is_offered_and_none_of_its_parent(place: Place) -> None:
    place.crash(above, at="in write")
    parent, child = sorted(place.outlast.runs(), key=lambda run: bool(run.parent))
    assert offered(place.outlast.plan(child.id)) == {"write": CHOICES}
    assert offered(place.outlast.plan(parent.id)) == {}
    place.outlast.skip(child.id, "write", result="by hand", why="written")
    assert place.outlast.resume(parent.id).result == ["below", "by hand", "BELOW"]


def test_what_ended_before_the_death_is_not_called_under_way(place: Place) -> None:
    place.crash(plain, at="after write")
    plan = place.outlast.plan(place.run_id)
    assert (offered(plan), [one.status for one in plan.steps]) == ({}, ["succeeded", "succeeded"])
    assert not plan.verdict.reasons


def test_a_step_is_not_called_under_way_before_the_value_that_it_was_given_is_safe(place: Place) -> None:
    place.crash(told, at="commit.applied")  # of the value: who goes on is told another one
    KNOBS.pop("die", None)
    assert place.outlast.plan(place.run_id).steps == ()
    assert place.outlast.resume(place.run_id).status == "succeeded"
    assert attempts(place.outlast, place.run_id, "write") == [(1, "succeeded")]


def test_once_the_value_is_safe_it_is_called_so(place: Place) -> None:
    place.crash(told, at="in write")
    KNOBS.pop("die", None)
    assert offered(place.outlast.plan(place.run_id)) == {"write": CHOICES}
    assert place.outlast.resume(place.run_id).status == "succeeded"
    assert attempts(place.outlast, place.run_id, "write") == [(1, "started"), (2, "succeeded")]


def test_three_deaths_at_once_are_three_deaths(place: Place) -> None:
    for _ in range(3):
        place.killed(lambda outlast: outlast.run(plain, task="t"), at="in write")
    KNOBS.pop("die", None)
    outcome = place.outlast.run(plain, task="t")
    assert (outcome.status, [wait.type for wait in outcome.interrupts]) == ("waiting", ["crash_loop"])
    assert place.count("write") == 3


@pytest.mark.parametrize("written", [range(1), range(41, BYTES)], ids=["over an older one", "in an empty place"])
def test_a_note_that_was_half_written_says_nothing(crashed: Place, written: range) -> None:
    crashed.close()
    (file,) = (crashed.home / "default" / FOLDER).iterdir()
    raw = bytearray(file.read_bytes())
    assert (len(raw), file.stat().st_mode & 0o777) == (PLACES * BYTES, 0o600)
    assert raw[0] == WRITTEN
    for byte in written:  # the first byte is set last
        raw[byte] = 0
    file.write_bytes(raw)
    assert offered(crashed.outlast.plan(crashed.run_id)) == {}
    assert crashed.outlast.resume(crashed.run_id).status == "succeeded"


class Places:
    """A file of notes that remembers where it was written, and what."""

    def __init__(self, notes: StepNotes) -> None:
        self.notes, self.written = notes._map, list[tuple[object, object]]()

    def __setitem__(self, where: int | slice, what: int | bytes) -> None:
        assert self.notes is not None
        self.written.append((where, what))
        self.notes[where] = what  # type: ignore[index, assignment]


def test_a_place_is_empty_until_all_of_its_note_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = StepNotes(tmp_path, "p1")
    places = Places(notes)
    monkeypatch.setattr(notes, "_map", places)
    at = notes.put(b"[]\n")
    assert places.written == [(at, 0), (slice(at + 1, at + 4), b"[]\n"), (at, WRITTEN)]


@pytest.mark.parametrize("step", ["x" * 490, "✎ it's 'mine' and \"yours\""])
def test_a_step_of_any_name_is_noted_or_nothing_is(place: Place, step: str) -> None:
    def work(outlast: Outlast) -> None:
        with outlast.open("t") as run:
            run.step(make_step(name=step)(lambda: reach("in it")))

    place.killed(work, at="in it")
    assert len(offered(place.outlast.plan(place.run_id))) == (len(step) < 490)


def test_a_process_that_ends_leaves_no_file(place: Place) -> None:
    place.run(plain)
    folder = place.home / "default" / FOLDER
    assert len(list(folder.iterdir())) == 1
    place.close()
    assert list(folder.iterdir()) == []


def test_files_of_long_ago_are_removed_by_the_next_process(crashed: Place) -> None:
    crashed.close()
    (file,) = (crashed.home / "default" / FOLDER).iterdir()
    old = time.time() - KEPT_SECONDS - 60
    os.utime(file, (old, old))
    crashed.run(plain, "b")
    assert not file.exists()


def test_a_home_that_has_no_room_for_notes_runs_as_ever(place: Place) -> None:
    place.reopen()
    (place.home / "default").mkdir(parents=True, exist_ok=True)
    (place.home / "default" / FOLDER).write_text("in the way")
    assert place.run(plain).status == "succeeded"
