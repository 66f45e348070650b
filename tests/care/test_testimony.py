"""A folder of receipts that others wrote comes in word by word, and is never taken for more than testimony."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from outlast import Receipt
from outlast.care.travel import import_folder as testimony
from outlast.errors import Invalid, NameInvalid, RunSealed

from ..kit.place import Place


def write(base: Path, name: str, content: Any) -> Path:
    path = base / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """What a run of another system left: the layout of RUN_BASE/<flow>/receipts/<step>-<agent>.json."""
    found = tmp_path / "theirs"
    write(found, "build/receipts/plan-planner.json", {"status": "succeeded", "note": "ü"})
    write(found, "build/receipts/test-run-bot.json", {"status": "verified"})
    write(found, "build/handoffs/plan-planner.json", {"next": "code"})
    return found


def by_label(place: Place, run_id: str) -> dict[str, Receipt]:
    return {receipt.label: receipt for receipt in place.outlast.receipts(run_id)}


def test_every_file_is_kept_as_it_was_and_nothing_of_it_counts_as_a_receipt(place: Place, base: Path) -> None:
    exact = b' {"status" : "succeeded",\n "n": 1.0, "n": 1.00}\n\n'
    write(base, "build/receipts/odd-x.json", exact)
    came = place.outlast.import_(base)
    assert (came.seal, came.status, came.entries, came.ignored, came.replayed) == (
        "testimony",
        "interrupted",
        5,
        (),
        False,
    )
    found = by_label(place, came.run_id)
    assert {label: (one.agent, one.status) for label, one in found.items()} == {
        "odd": ("x", "succeeded"),
        "plan": ("planner", "succeeded"),
        "test-run": ("bot", ""),
        "handoffs/plan": ("planner", ""),
    }
    assert {(one.kind, one.mark, one.delivered) for one in found.values()} == {("testimony", "testimony", False)}
    assert (found["plan"].result, found["handoffs/plan"].result) == (
        {"status": "succeeded", "note": "ü"},
        {"next": "code"},
    )
    bodies = {event.body["file"]: event.body for event in place.outlast.events(came.run_id) if "file" in event.body}
    assert bodies["receipts/odd-x.json"]["text"].encode() == exact
    assert bodies["receipts/test-run-bot.json"]["said"] == "verified"
    assert place.outlast.plan(came.run_id).steps == ()
    assert place.outlast.verify().ok


def test_testimony_cannot_be_continued(place: Place, base: Path) -> None:
    came = place.outlast.import_(base)
    with pytest.raises(RunSealed, match="unproven"):
        place.outlast.resume(came.run_id)
    with pytest.raises(RunSealed):
        place.outlast.abort(came.run_id, why="no")


def test_the_same_files_again_are_the_same_run(place: Place, base: Path) -> None:
    first = place.outlast.import_(base)
    again = place.outlast.import_(base)
    assert (again.run_id, again.replayed) == (first.run_id, True)
    write(base, "build/receipts/plan-planner.json", {"status": "failed"})
    assert place.outlast.import_(base).run_id != first.run_id


def test_later_occurrences_and_earlier_attempts_have_their_numbers(place: Place, tmp_path: Path) -> None:
    mirror = tmp_path / "runs"
    for name in ("step-main.json", "step-main.1.json", "step-main.2.json", "step~2-main.json"):
        write(mirror, f"abc123/build/receipts/{name}", {"file": name})
    came = place.outlast.import_(mirror)
    found = [
        (one.label, one.occurrence, one.attempt, one.result["file"]) for one in place.outlast.receipts(came.run_id)
    ]
    assert found == [
        ("step", 0, 1, "step-main.1.json"),
        ("step", 0, 2, "step-main.2.json"),
        ("step", 0, 3, "step-main.json"),
        ("step~2", 1, 1, "step~2-main.json"),
    ]
    assert place.outlast.get(came.run_id).task == "testimony:abc123/build"


def test_a_large_file_is_kept_whole_as_a_blob(place: Place, base: Path) -> None:
    write(base, "build/receipts/big-x.json", {"text": "a" * 500_000})
    came = place.outlast.import_(base)
    assert came.blobs == 1
    assert by_label(place, came.run_id)["big"].result == {"text": "a" * 500_000}
    assert place.outlast.verify().ok


def test_what_cannot_be_taken_is_named_with_the_reason(place: Place, base: Path, tmp_path: Path) -> None:
    secret = write(tmp_path, "secret.json", {"status": "succeeded"})
    receipts = base / "build" / "receipts"
    write(receipts, "no-json.json", b"{oops")
    write(receipts, "nan-x.json", b'{"a": NaN}')
    write(receipts, "list-x.json", [1])
    write(receipts, "deep-x.json", b"[" * 100_000)
    write(receipts, "latin-x.json", '{"a": "ü"}'.encode("latin-1"))
    write(receipts, "large-x.json", b" " * (1 << 20) + b"{}")
    write(receipts, "plan~1-planner.json", {"twice": True})
    write(receipts, "notes.txt", b"hello")
    write(receipts, "bad\nname-x.json", {})
    write(base, "build/state.json", {})
    (receipts / "away-x.json").symlink_to(secret)
    (receipts / "gone-x.json").symlink_to(tmp_path / "nowhere")
    (receipts / "folder-x.json").mkdir()
    (receipts / "linked").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(receipts / "pipe-x.json")
    came = place.outlast.import_(base)
    reasons = {name.rpartition("/")[2]: why for name, why in came.ignored}
    expected = {
        "no-json.json": "not JSON",
        "nan-x.json": "not JSON",
        "list-x.json": "no object",
        "deep-x.json": "not JSON",
        "latin-x.json": "not JSON",
        "large-x.json": "larger than 1 MiB",
        "plan~1-planner.json": "has the same step",
        "notes.txt": "its name",
        "bad\nname-x.json": "cannot be printed",
        "state.json": "not in receipts/",
        "away-x.json": "leaves the folder",
        "gone-x.json": "No such file",
        "linked": "its name",
        "pipe-x.json": "no plain file",
    }
    assert reasons.keys() == expected.keys()
    assert [name for name, why in expected.items() if why not in reasons[name]] == []
    assert came.entries == 4


def test_a_link_that_stays_in_the_folder_is_followed(place: Place, base: Path) -> None:
    (base / "build" / "receipts" / "again-x.json").symlink_to("plan-planner.json")
    assert "again" in by_label(place, place.outlast.import_(base).run_id)


def test_several_flows_are_a_choice(place: Place, base: Path) -> None:
    write(base, "review/receipts/read-x.json", {})
    with pytest.raises(Invalid, match=r"build, review.*--flow"):
        place.outlast.import_(base)
    with pytest.raises(Invalid, match="no flow 'ship'"):
        place.outlast.import_(base, flow="ship")
    assert place.outlast.get(place.outlast.import_(base, flow="review").run_id).flow == "testimony:review"
    assert place.outlast.import_(base / "review").replayed


def test_a_folder_with_nothing_to_take_is_an_error(place: Place, tmp_path: Path) -> None:
    for name in ("empty", "hollow/build/receipts"):
        (tmp_path / name).mkdir(parents=True)
    write(tmp_path, "broken/build/receipts/a-x.json", b"no")
    for folder in ("empty", "hollow", "broken"):
        with pytest.raises(Invalid, match="receipt"):
            place.outlast.import_(tmp_path / folder)
    assert place.outlast.runs() == []


def test_a_flow_whose_name_cannot_be_printed_is_refused(place: Place, tmp_path: Path) -> None:
    write(tmp_path, "odd/a\nb/receipts/s-x.json", {})
    with pytest.raises(NameInvalid):
        place.outlast.import_(tmp_path / "odd")


def test_too_many_files_are_refused_whole(place: Place, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testimony, "MOST_FILES", 2)
    with pytest.raises(Invalid, match="more than 2 files"):
        place.outlast.import_(base)
    assert place.outlast.runs() == []


def test_testimony_stays_testimony_when_it_travels_on(place: Place, base: Path, tmp_path: Path) -> None:
    came = place.outlast.import_(base)
    with pytest.raises(RunSealed):
        place.outlast.export(came.run_id, tmp_path, move=True)
    done = place.outlast.export(came.run_id, tmp_path / "told.zip")
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    try:
        assert other.outlast.import_(done.path).seal == "testimony"
        assert other.outlast.receipts(came.run_id) == place.outlast.receipts(came.run_id)
    finally:
        other.close()
