"""Runs that travel: one file, proven whole; moved once, copied to be looked at; never two that can go on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Holdfast, Run, effect, flow, step
from holdfast.errors import (
    ArchiveInvalid,
    Conflict,
    IntegrityBroken,
    Invalid,
    RunExists,
    RunFinished,
    RunHeld,
    RunSealed,
    StoreReadOnly,
)
from holdfast.runtime import archive
from holdfast.runtime.arrival import Imported
from holdfast.store.contract import RunRow

from .place import KNOBS, Place, ran, reach

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")


@step
def fetch(number: int) -> str:
    ran(f"fetch {number}")
    return f"{number} äöü \u2028 " * 10_000  # too large for the journal: a blob


@effect
def send(number: int) -> int:
    ran(f"send {number}")
    return number


@step
def gate(number: int) -> int:
    ran("gate")
    reach("gate")
    return number


@flow
def job(run: Run, number: int) -> int:
    run.state["seen"] = len(fetch(number))
    run.emit("told", {"number": number})
    return gate(send(number))


@flow
def doubtful(run: Run) -> int:
    return stumble()


@effect
def stumble() -> int:
    ran("stumble")
    raise RuntimeError("half way")


@flow
def sleeper(run: Run) -> str:
    fetch(1)
    run.sleep("2h")
    return "awake"


@flow
def below(run: Run, number: int) -> int:
    return gate(send(number))


@flow
def above(run: Run) -> int:
    return run.spawn(below, 7).result() + 1


@pytest.fixture
def other(tmp_path: Path, place: Place) -> Iterator[Place]:
    """A second home, on which the same flows can be found."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    found = Place(folder)
    yield found
    found.close()


def stopped(place: Place, made: Any = job, *args: Any) -> str:
    """A run that fails at its gate, after a step with a blob and an effect."""
    KNOBS["raise"] = ("gate", RuntimeError("closed"))
    found = place.run(made, *(args or ((5,) if made is job else ())))
    assert found.status == "failed"
    KNOBS.pop("raise")
    return found.run_id


def travelled(place: Place, other: Place, run_id: str, *, move: bool) -> Imported:
    done = place.hold.export(run_id, place.folder, move=move)
    return other.hold.import_(done.path)


def journal(place: Place, run_id: str) -> list[Any]:
    runtime = place.hold._runtime
    row = runtime.row(run_id)
    return runtime.store.read(lambda look: look.journal_of(row.key))


def row(place: Place, run_id: str) -> RunRow:
    return place.hold._runtime.row(run_id)


def all_of(place: Place, run_id: str) -> list[Any]:
    """Everything that can be asked about a run."""
    hold, runtime = place.hold, place.hold._runtime
    key = row(place, run_id).key
    waits = runtime.store.read(lambda look: look.interrupts_of(key))
    shown = [wait._replace(key=0, run=0) for wait in waits]
    plan = [] if hold.get(run_id).finished else [hold.plan(run_id)]
    return [journal(place, run_id), hold.receipts(run_id), hold.events(run_id), shown, *plan]


# -- going and coming --------------------------------------------------------------------------------


def test_a_copy_has_every_receipt_event_wait_and_blob_of_the_run(place: Place, other: Place) -> None:
    run_id = stopped(place)
    done = place.hold.export(run_id, place.folder / "copy.zip")
    came = other.hold.import_(done.path)
    assert (came.run_id, came.status, came.seal, came.replayed) == (run_id, "failed", "copy", False)
    assert (came.entries, came.blobs) == (done.entries, done.blobs) == (len(journal(place, run_id)), 1)
    assert all_of(place, run_id) == all_of(other, run_id)
    assert row(other, run_id)._replace(key=0, seal="") == row(place, run_id)._replace(key=0)
    assert other.hold.verify().ok


def test_a_copy_leaves_the_run_where_it_is(place: Place) -> None:
    run_id = stopped(place)
    place.hold.export(run_id, place.folder / "copy.zip")
    assert place.run(job, 5).status == "succeeded"


def test_a_moved_run_goes_on_elsewhere_and_repeats_nothing(place: Place, other: Place) -> None:
    run_id = stopped(place)
    came = travelled(place, other, run_id, move=True)
    assert (came.status, came.seal) == ("failed", "")
    outcome = other.hold.resume(run_id)
    assert (outcome.status, outcome.result) == ("succeeded", 5)
    assert [place.count(what) for what in ("fetch 5", "send 5", "gate")] == [1, 1, 2]
    assert other.hold.verify().ok


def test_the_same_call_continues_a_moved_run_where_it_is_now(place: Place, other: Place) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=True)
    outcome = other.run(job, 5)
    assert (outcome.run_id, outcome.status, place.count("send 5")) == (run_id, "succeeded", 1)


def test_a_crashed_run_is_found_crashed_where_it_is_moved_to(place: Place, other: Place) -> None:
    place.crash(job, 5, at="gate")
    run_id = place.run_id
    assert travelled(place, other, run_id, move=True).status == "crashed"
    assert other.hold.resume(run_id).status == "succeeded"
    assert place.count("send 5") == 1


def test_waits_and_their_answers_travel(place: Place, other: Place) -> None:
    outcome = place.run(doubtful)
    (wait,) = outcome.interrupts
    place.hold.answer(wait.id, {"choice": "skip", "result": 3, "why": "it happened"})
    travelled(place, other, outcome.run_id, move=True)
    assert other.hold.resume(outcome.run_id).result == 3
    assert place.count("stumble") == 1


def test_a_sleep_goes_on_sleeping_elsewhere(place: Place, other: Place) -> None:
    run_id = place.run(sleeper).run_id
    travelled(place, other, run_id, move=True)
    assert other.hold.resume(run_id).status == "waiting"
    other.clock.advance(7201)
    assert other.hold.resume(run_id).result == "awake"


def test_what_a_run_was_asked_travels_with_it(place: Place, other: Place) -> None:
    run_id = stopped(place)
    place.hold.skip(run_id, "gate", result=9, why="opened by hand")
    travelled(place, other, run_id, move=True)
    assert other.hold.resume(run_id).result == 9
    assert place.count("gate") == 1


def test_a_finished_run_travels_too(place: Place, other: Place) -> None:
    outcome = place.run(job, 5)
    came = travelled(place, other, outcome.run_id, move=True)
    assert (came.status, other.hold.get(outcome.run_id).result) == ("succeeded", 5)
    assert other.hold.verify().ok
    assert place.hold.verify().ok


def test_children_travel_with_their_parent(place: Place, other: Place) -> None:
    run_id = stopped(place, above)
    (child,) = place.hold._runtime.store.read(lambda look: look.children_of(run_id))
    done = place.hold.export(run_id, place.folder, move=True)
    assert done.children == (child.id,)
    assert place.hold.get(child.id).seal == "moved"
    assert other.hold.import_(done.path).children == (child.id,)
    assert other.hold.resume(run_id).result == 8
    assert place.count("send 7") == 1


def test_a_child_does_not_move_without_its_parent(place: Place) -> None:
    run_id = stopped(place, above)
    (child,) = place.hold._runtime.store.read(lambda look: look.children_of(run_id))
    with pytest.raises(Invalid, match=f"export {run_id} --move"):
        place.hold.export(child.id, place.folder, move=True)
    assert place.hold.get(child.id).seal == ""


# -- never two that can go on ------------------------------------------------------------------------


def refusals(hold: Holdfast, run_id: str) -> list[Callable[[], Any]]:
    return [
        lambda: hold.resume(run_id),
        lambda: hold.retry(run_id, "gate"),
        lambda: hold.skip(run_id, "gate", result=1, why="so"),
        lambda: hold.rewind(run_id, "fetch"),
        lambda: hold.abort(run_id, why="so"),
        lambda: hold.pause(run_id),
    ]


@pytest.mark.parametrize("move", [True, False])
def test_a_sealed_run_can_be_looked_at_but_not_changed(place: Place, other: Place, move: bool) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=move)
    sealed = place if move else other
    before = all_of(sealed, run_id)
    for refused in refusals(sealed.hold, run_id):
        with pytest.raises(RunSealed) as caught:
            refused()
        assert caught.value.seal == ("moved" if move else "copy")
    assert all_of(sealed, run_id) == before
    assert sealed.hold.plan(run_id).of("reuse") == ("fetch", "send")
    assert sealed.hold.verify().ok


def test_a_wait_of_a_sealed_run_is_no_open_one_and_cannot_be_answered(place: Place, other: Place) -> None:
    outcome = place.run(doubtful)
    travelled(place, other, outcome.run_id, move=False)
    (wait,) = outcome.interrupts
    assert [one.id for one in other.hold.interrupts(outcome.run_id)] == [wait.id]
    assert other.hold.interrupts() == []
    for choice in ("retry", "abort"):
        with pytest.raises(RunSealed):
            other.hold.answer(wait.id, {"choice": choice})


def test_a_task_whose_run_was_moved_is_not_begun_again_unless_it_is_given_up(place: Place) -> None:
    run_id = stopped(place)
    place.hold.export(run_id, place.folder, move=True)
    with pytest.raises(RunSealed, match="import its file back"):
        place.run(job, 5)
    fresh = place.run(job, 5, fresh=True)
    assert (fresh.status, fresh.run_id != run_id) == ("succeeded", True)
    assert (place.hold.get(run_id).status, place.hold.get(run_id).seal) == ("aborted", "moved")


def test_a_task_whose_waiting_run_was_moved_is_refused_and_not_told_to_wait(place: Place) -> None:
    run_id = place.run(sleeper).run_id
    place.hold.export(run_id, place.folder, move=True)
    with pytest.raises(RunSealed):
        place.run(sleeper)


def test_what_was_given_up_here_cannot_come_back(place: Place) -> None:
    run_id = stopped(place)
    done = place.hold.export(run_id, place.folder, move=True)
    place.run(job, 5, fresh=True)
    with pytest.raises(RunExists, match="another history"):
        place.hold.import_(done.path)


def test_a_copy_does_not_keep_its_task_from_being_worked_on(place: Place, other: Place) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=False)
    assert other.run(job, 5).run_id != run_id


def test_a_run_that_is_held_cannot_be_moved_and_stays_as_it_is(place: Place) -> None:
    KNOBS["inside"] = lambda run: place.hold.export(run.id, place.folder, move=True)
    with pytest.raises(RunHeld):
        place.run(curious).unwrap()
    assert place.hold.get(place.run_id).seal == ""
    assert list(place.folder.glob("*.zip")) == list(place.folder.glob(".*.tmp")) == []


def test_a_held_child_keeps_its_whole_family_here(place: Place) -> None:
    run_id = stopped(place, above)
    (child,) = place.hold._runtime.store.read(lambda look: look.children_of(run_id))
    claimed = place.hold._runtime.claim(child.id)
    with pytest.raises(RunHeld):
        place.hold.export(run_id, place.folder, move=True)
    assert [place.hold.get(one).seal for one in (run_id, claimed.run.id)] == ["", ""]


@flow
def curious(run: Run) -> int:
    fetch(1)
    KNOBS["inside"](run)
    return send(2)


def test_a_copy_of_a_running_run_is_what_it_was_at_that_moment(place: Place, other: Place) -> None:
    files: list[str] = []
    KNOBS["inside"] = lambda run: files.append(place.hold.export(run.id, place.folder / "now.zip").path)
    outcome = place.run(curious)
    came = other.hold.import_(files[0])
    assert (outcome.status, came.status, came.seal) == ("succeeded", "running", "copy")
    assert journal(other, came.run_id) == journal(place, came.run_id)[: came.entries]
    assert [receipt.step for receipt in other.hold.receipts(came.run_id)] == ["fetch"]


def test_no_owner_of_before_can_commit_to_a_moved_run(place: Place, other: Place) -> None:
    run_id = stopped(place)
    before = place.hold.get(run_id).epoch
    travelled(place, other, run_id, move=True)
    sealed = place.hold.get(run_id).epoch
    assert before < sealed < other.hold.get(run_id).epoch


# -- coming again ------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [True, False])
def test_the_same_file_again_is_told_that_it_is_here(place: Place, other: Place, move: bool) -> None:
    run_id = stopped(place)
    done = place.hold.export(run_id, place.folder, move=move)
    other.hold.import_(done.path)
    before = all_of(other, run_id), row(other, run_id)
    assert other.hold.import_(done.path).replayed
    assert (all_of(other, run_id), row(other, run_id)) == before


def test_the_same_file_again_after_the_run_went_on_changes_nothing(place: Place, other: Place) -> None:
    run_id = stopped(place)
    done = place.hold.export(run_id, place.folder, move=True)
    other.hold.import_(done.path)
    other.hold.resume(run_id)
    again = other.hold.import_(done.path)
    assert (again.replayed, again.status) == (True, "succeeded")


def test_the_same_file_again_puts_a_lost_blob_back(place: Place, other: Place) -> None:
    run_id = stopped(place)
    done = place.hold.export(run_id, place.folder, move=False)
    other.hold.import_(done.path)
    (blob,) = [path for path in (other.home / "default" / "blobs").rglob("*") if path.is_file()]
    blob.write_bytes(b"spoilt")
    assert not other.hold.verify().ok
    assert other.hold.import_(done.path).replayed
    assert other.hold.verify().ok


def test_a_run_comes_back_with_what_was_done_elsewhere(place: Place, other: Place) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=True)
    KNOBS["raise"] = ("gate", RuntimeError("still closed"))
    assert other.hold.resume(run_id).status == "failed"
    KNOBS.pop("raise")
    came = travelled(other, place, run_id, move=True)
    assert (came.seal, came.replayed, place.hold.get(run_id).seal) == ("", False, "")
    assert place.hold.resume(run_id).status == "succeeded"
    assert [place.count(what) for what in ("fetch 5", "send 5", "gate")] == [1, 1, 3]
    assert place.hold.verify().ok
    with pytest.raises(RunSealed):
        other.hold.resume(run_id)


def test_an_old_file_does_not_undo_a_later_move(place: Place, other: Place) -> None:
    run_id = stopped(place)
    first = place.hold.export(run_id, place.folder, move=True)
    other.hold.import_(first.path)
    other.hold.export(run_id, other.folder, move=True)
    with pytest.raises(RunExists):
        other.hold.import_(first.path)
    assert other.hold.get(run_id).seal == "moved"


def test_a_move_takes_the_place_of_a_copy(place: Place, other: Place) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=False)
    assert travelled(place, other, run_id, move=True).seal == ""
    assert other.hold.resume(run_id).status == "succeeded"
    assert place.count("send 5") == 1


def test_a_copy_does_not_bring_a_moved_run_back(place: Place, other: Place) -> None:
    run_id = stopped(place)
    travelled(place, other, run_id, move=True)
    other.hold.resume(run_id)
    copy = other.hold.export(run_id, other.folder / "copy.zip")
    with pytest.raises(RunExists, match="only a copy"):
        place.hold.import_(copy.path)
    assert place.hold.get(run_id).seal == "moved"


def test_a_copy_of_a_run_that_lives_here_is_refused(place: Place) -> None:
    done = place.hold.export(stopped(place), place.folder)
    with pytest.raises(RunExists, match="lives here"):
        place.hold.import_(done.path)


def test_a_task_with_an_unfinished_run_here_is_in_the_way_and_nothing_is_written(place: Place, other: Place) -> None:
    run_id = stopped(place)
    theirs = stopped(other)
    done = place.hold.export(run_id, place.folder, move=True)
    shutil.rmtree(other.home / "default" / "blobs")
    with pytest.raises(RunExists, match=f"holdfast abort {theirs}"):
        other.hold.import_(done.path)
    assert [run.id for run in other.hold.runs()] == [theirs]
    assert not (other.home / "default" / "blobs").exists()
    other.hold.abort(theirs, why="the other one came")
    assert other.hold.import_(done.path).seal == ""


# -- the file ----------------------------------------------------------------------------------------


def test_the_same_run_makes_the_same_file_again(place: Place) -> None:
    run_id = stopped(place)
    first = place.hold.export(run_id, place.folder / "run.zip", move=True)
    again = place.hold.export(run_id, place.folder / "run.zip", move=True)
    assert first == again
    assert first.bytes == (place.folder / "run.zip").stat().st_size


def test_a_file_that_is_there_is_not_replaced_unasked(place: Place) -> None:
    run_id = stopped(place)
    taken = place.folder / "run.zip"
    taken.write_text("mine")
    with pytest.raises(Conflict, match="force"):
        place.hold.export(run_id, taken, move=True)
    assert (taken.read_text(), place.hold.get(run_id).seal) == ("mine", "")
    assert place.hold.export(run_id, taken, move=True, force=True).moved


def test_an_older_export_of_the_run_is_not_replaced_unasked(place: Place) -> None:
    run_id = stopped(place)
    place.hold.export(run_id, place.folder / "run.zip")
    place.hold.resume(run_id)
    with pytest.raises(Conflict, match="force"):
        place.hold.export(run_id, place.folder / "run.zip")


@pytest.mark.parametrize("make", ["link", "fifo", "missing", "nul", "file"])
def test_a_place_that_cannot_be_written_is_refused_before_the_run_is_sealed(place: Place, make: str) -> None:
    run_id, target = stopped(place), place.folder / "run.zip"
    if make == "link":
        target.symlink_to(place.folder / "elsewhere.zip")
    elif make == "fifo":
        os.mkfifo(target)
    elif make == "missing":
        target = place.folder / "no" / "run.zip"
    elif make == "nul":
        target = place.folder / "a\0b"
    else:
        target = Path(__file__) / "run.zip"
    with pytest.raises((Conflict, Invalid, StoreReadOnly)):
        place.hold.export(run_id, target, move=True, force=True)
    assert place.hold.get(run_id).seal == ""


def test_a_broken_run_is_not_exported_and_not_sealed(place: Place) -> None:
    run_id = stopped(place)
    (blob,) = [path for path in (place.home / "default" / "blobs").rglob("*") if path.is_file()]
    blob.write_bytes(b"spoilt")
    for move in (True, False):
        with pytest.raises(IntegrityBroken, match="blob"):
            place.hold.export(run_id, place.folder, move=move)
    assert place.hold.get(run_id).seal == ""
    assert list(place.folder.glob("*.zip")) == list(place.folder.glob(".*.tmp")) == []


def test_a_run_whose_journal_was_changed_is_not_exported_and_not_sealed(place: Place) -> None:
    run_id = stopped(place)
    place.close()
    change = "UPDATE journal SET payload = CAST('{\"facts\":1}' AS BLOB) WHERE seq = 2"
    program = f"import apsw; apsw.Connection({str(place.home / 'default' / 'holdfast.db')!r}).execute({change!r})"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    for move in (True, False):
        with pytest.raises(IntegrityBroken, match=f"entry {run_id}/2"):
            place.hold.export(run_id, place.folder, move=move)
    assert place.hold.get(run_id).seal == ""


def test_a_file_of_nothing_or_of_something_else_is_refused(place: Place, tmp_path: Path) -> None:
    for name, content in {"empty": b"", "text": b"hello", "half": b"PK\x03\x04"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ArchiveInvalid):
            place.hold.import_(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "foreign.zip", "w") as made:
        made.writestr("readme.txt", "hello")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for missing in (tmp_path / "pipe", tmp_path / "loop", Path("/dev/zero")):
        with pytest.raises(ArchiveInvalid):
            place.hold.import_(missing)
    for missing in (tmp_path / "foreign.zip", tmp_path / "nowhere", tmp_path / "a\0b", tmp_path / ("x" * 300)):
        with pytest.raises(ArchiveInvalid):
            place.hold.import_(missing)
    assert place.hold.runs() == []


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as kept:
        return {name: kept.read(name) for name in kept.namelist()}


def rewritten(path: Path, content: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    target = path.with_name("changed.zip")
    with zipfile.ZipFile(target, "w", compression) as made:
        for name, kept in content.items():
            made.writestr(name, kept)
    return target


def with_manifest(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    content = members(path)
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    return rewritten(path, content | {"manifest.json": json.dumps(manifest).encode()})


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "upgrade holdfast": lambda m: m.update(format="holdfast run 2"),
    "its format is": lambda m: m.update(format="other"),
    "unknown field": lambda m: m.update(extra=1),
    "another history|move": lambda m: m.update(kind="move"),
    "the first in it": lambda m: m.update(run_id="zzz"),
    "id of a run": lambda m: (m.update(run_id="../up"), m["runs"][0]["row"].update(id="../up")),
    "its fields": lambda m: m["runs"][0]["row"].pop("actor"),
    "inputs": lambda m: m["runs"][0]["row"].update(inputs='{"number":6}'),
    "cannot be": lambda m: m["runs"][0]["row"].update(status="done"),
    "chain|header": lambda m: m["runs"][0]["row"].update(task="another"),
    "recorded was": lambda m: m["runs"][0].update(head=3),
    "no number": lambda m: m["runs"][0].update(epoch=2**70),
    "is missing": lambda m: m["members"].append({"name": "blobs/x", "size": 1, "sha256": ""}),
    "not in the manifest": lambda m: m["members"].pop(),
    "bytes": lambda m: m["members"][0].update(size=1),
    "digest differs": lambda m: m["members"][0].update(sha256="0" * 64),
    "more than once": lambda m: m["members"].append(m["members"][0]),
    "does not end": lambda m: m["runs"][0]["row"].update(status="succeeded"),
}


@pytest.mark.parametrize("says", CHANGES)
def test_a_manifest_that_does_not_fit_is_refused_with_what_is_wrong(place: Place, other: Place, says: str) -> None:
    done = place.hold.export(stopped(place), place.folder)
    with pytest.raises(ArchiveInvalid, match=says):
        other.hold.import_(with_manifest(Path(done.path), CHANGES[says]))
    assert other.hold.runs() == []
    assert not list((other.home / "default" / "blobs").iterdir())


def test_compressed_doubled_or_added_members_are_refused(place: Place, other: Place) -> None:
    path = Path(place.hold.export(stopped(place), place.folder).path)
    content = members(path)
    with pytest.raises(ArchiveInvalid, match="compressed"):
        other.hold.import_(rewritten(path, content, zipfile.ZIP_DEFLATED))
    with pytest.raises(ArchiveInvalid, match="not in the manifest"):
        other.hold.import_(rewritten(path, content | {"../../evil": b"x"}))
    shutil.copy(path, path.with_name("doubled.zip"))
    with zipfile.ZipFile(path.with_name("doubled.zip"), "a") as made, pytest.warns(UserWarning, match="Duplicate"):
        made.writestr("manifest.json", content["manifest.json"])
    with pytest.raises(ArchiveInvalid, match="more than once"):
        other.hold.import_(path.with_name("doubled.zip"))


def test_a_link_in_the_file_is_refused(place: Place, other: Place) -> None:
    path = Path(place.hold.export(stopped(place), place.folder).path)
    target = path.with_name("link.zip")
    with zipfile.ZipFile(target, "w") as made:
        for name, kept in members(path).items():
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o120777 << 16
            made.writestr(info, kept)
    with pytest.raises(ArchiveInvalid, match="no plain file"):
        other.hold.import_(target)


def test_a_file_that_was_cut_short_is_refused(place: Place, other: Place) -> None:
    path = Path(place.hold.export(stopped(place), place.folder).path)
    whole = path.read_bytes()
    for length in (1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ArchiveInvalid):
            other.hold.import_(path)
    assert other.hold.runs() == []


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_byte_that_was_changed_is_found_or_changes_nothing(place: Place, other: Place, data: st.DataObject) -> None:
    if "whole" not in KNOBS:
        KNOBS["run"] = stopped(place)
        KNOBS["whole"] = Path(place.hold.export(KNOBS["run"], place.folder / "run.zip").path).read_bytes()
        KNOBS["shown"] = all_of(place, KNOBS["run"])
    whole: bytes = KNOBS["whole"]
    at = data.draw(st.one_of(st.integers(0, len(whole) - 1), st.integers(len(whole) - 4000, len(whole) - 1)))
    flipped = bytearray(whole)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    path = other.folder / "flipped.zip"
    path.write_bytes(bytes(flipped))
    try:
        other.hold.import_(path)
    except ArchiveInvalid:
        return
    assert all_of(other, KNOBS["run"]) == KNOBS["shown"]


# -- deaths ------------------------------------------------------------------------------------------

CHILD = """
import sys
from holdfast import Holdfast
with Holdfast(sys.argv[1]) as hold:
    if sys.argv[2] == "import":
        hold.import_(sys.argv[3])
    else:
        hold.export(sys.argv[2], sys.argv[3], move=True)
"""


def dies(place: Place, *words: str, failpoint: str) -> None:
    place.close()
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(place.home), *words],
        env=os.environ | {"HOLDFAST_FAILPOINT": failpoint},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr


@pytest.mark.parametrize("point", ["blob.written", "blob.synced", "commit.begin", "commit.applied"])
def test_an_import_that_is_killed_leaves_nothing_in_sight_and_works_again(
    place: Place, other: Place, point: str
) -> None:
    run_id = stopped(place)
    done = place.hold.export(run_id, place.folder, move=True)
    dies(other, "import", done.path, failpoint=f"{point}:1")
    assert other.hold.runs() == []
    assert other.hold.verify().ok
    assert not other.hold.import_(done.path).replayed
    assert other.hold.resume(run_id).status == "succeeded"
    assert place.count("send 5") == 1


def test_an_import_that_is_killed_once_it_is_durable_is_there(place: Place, other: Place) -> None:
    run_id = stopped(place)
    done = place.hold.export(run_id, place.folder, move=True)
    dies(other, "import", done.path, failpoint="commit.done:1")
    assert other.hold.import_(done.path).replayed
    assert other.hold.resume(run_id).status == "succeeded"


def test_a_move_that_is_killed_before_its_file_is_there_is_sealed_and_writes_it_later(
    place: Place, other: Place
) -> None:
    run_id = stopped(place)
    dies(place, run_id, str(place.folder / "run.zip"), failpoint="commit.done:1")
    assert not (place.folder / "run.zip").exists()
    with pytest.raises(RunSealed):
        place.run(job, 5)
    done = place.hold.export(run_id, place.folder / "run.zip", move=True)
    other.hold.import_(done.path)
    assert other.hold.resume(run_id).status == "succeeded"
    assert place.count("send 5") == 1


def test_a_move_that_is_killed_before_its_seal_has_not_happened(place: Place) -> None:
    run_id = stopped(place)
    dies(place, run_id, str(place.folder / "run.zip"), failpoint="commit.applied:1")
    assert not (place.folder / "run.zip").exists()
    assert place.run(job, 5).status == "succeeded"
    with pytest.raises(RunFinished):
        place.hold.resume(run_id)


def test_the_format_says_what_it_is(place: Place) -> None:
    done = place.hold.export(stopped(place), place.folder)
    with archive.opened(Path(done.path)) as kept:
        assert kept.manifest.format == "holdfast run 1"
        assert sorted(kept.names) == sorted(name for name in members(Path(done.path)) if name != "manifest.json")
