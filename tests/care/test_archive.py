"""The file that a run travels in: proven whole before anything of it is used, and safe to be killed over."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast.care.travel import archive
from outlast.errors import (
    ArchiveInvalid,
    Conflict,
    IntegrityBroken,
    Invalid,
    RunFinished,
    RunSealed,
    StoreReadOnly,
)

from ..kit.place import KNOBS, Place
from ..kit.travellers import all_of, job, stopped
from ..ready import completed

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")

# -- the file ----------------------------------------------------------------------------------------


def test_the_same_run_makes_the_same_file_again(place: Place) -> None:
    run_id = stopped(place)
    first = place.outlast.export(run_id, place.folder / "run.zip", move=True)
    again = place.outlast.export(run_id, place.folder / "run.zip", move=True)
    assert first == again
    assert first.bytes == (place.folder / "run.zip").stat().st_size


def test_a_file_that_is_there_is_not_replaced_unasked(place: Place) -> None:
    run_id = stopped(place)
    taken = place.folder / "run.zip"
    taken.write_text("mine")
    with pytest.raises(Conflict, match="force"):
        place.outlast.export(run_id, taken, move=True)
    assert (taken.read_text(), place.outlast.get(run_id).seal) == ("mine", "")
    assert place.outlast.export(run_id, taken, move=True, force=True).moved


def test_an_older_export_of_the_run_is_not_replaced_unasked(place: Place) -> None:
    run_id = stopped(place)
    place.outlast.export(run_id, place.folder / "run.zip")
    place.outlast.resume(run_id)
    with pytest.raises(Conflict, match="force"):
        place.outlast.export(run_id, place.folder / "run.zip")


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
        place.outlast.export(run_id, target, move=True, force=True)
    assert place.outlast.get(run_id).seal == ""


def test_a_broken_run_is_not_exported_and_not_sealed(place: Place) -> None:
    run_id = stopped(place)
    (blob,) = [path for path in (place.home / "default" / "blobs").rglob("*") if path.is_file()]
    blob.write_bytes(b"spoilt")
    for move in (True, False):
        with pytest.raises(IntegrityBroken, match="blob"):
            place.outlast.export(run_id, place.folder, move=move)
    assert place.outlast.get(run_id).seal == ""
    assert list(place.folder.glob("*.zip")) == list(place.folder.glob(".*.tmp")) == []


def test_a_run_whose_journal_was_changed_is_not_exported_and_not_sealed(place: Place) -> None:
    run_id = stopped(place)
    place.close()
    change = "UPDATE journal SET payload = CAST('{\"facts\":1}' AS BLOB) WHERE seq = 2"
    program = f"import apsw; apsw.Connection({str(place.home / 'default' / 'outlast.db')!r}).execute({change!r})"
    completed(("-c", program), check=True)
    for move in (True, False):
        with pytest.raises(IntegrityBroken, match=f"entry {run_id}/2"):
            place.outlast.export(run_id, place.folder, move=move)
    assert place.outlast.get(run_id).seal == ""


def test_a_file_of_nothing_or_of_something_else_is_refused(place: Place, tmp_path: Path) -> None:
    for name, content in {"empty": b"", "text": b"hello", "half": b"PK\x03\x04"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ArchiveInvalid):
            place.outlast.import_(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "foreign.zip", "w") as made:
        made.writestr("readme.txt", "hello")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for missing in (tmp_path / "pipe", tmp_path / "loop", Path("/dev/zero")):
        with pytest.raises(ArchiveInvalid):
            place.outlast.import_(missing)
    for missing in (tmp_path / "foreign.zip", tmp_path / "nowhere", tmp_path / "a\0b", tmp_path / ("x" * 300)):
        with pytest.raises(ArchiveInvalid):
            place.outlast.import_(missing)
    assert place.outlast.runs() == []


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
    "upgrade outlast": lambda m: m.update(format="outlast run 2"),
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
    "its journal ends failed, not succeeded": lambda m: m["runs"][0]["row"].update(status="succeeded"),
}


@pytest.mark.parametrize("says", CHANGES)
def test_a_manifest_that_does_not_fit_is_refused_with_what_is_wrong(place: Place, other: Place, says: str) -> None:
    done = place.outlast.export(stopped(place), place.folder)
    with pytest.raises(ArchiveInvalid, match=says):
        other.outlast.import_(with_manifest(Path(done.path), CHANGES[says]))
    assert other.outlast.runs() == []
    assert not list((other.home / "default" / "blobs").iterdir())


def test_compressed_doubled_or_added_members_are_refused(place: Place, other: Place) -> None:
    path = Path(place.outlast.export(stopped(place), place.folder).path)
    content = members(path)
    with pytest.raises(ArchiveInvalid, match=r"manifest\.json: it is compressed, which"):
        other.outlast.import_(rewritten(path, {"manifest.json": content["manifest.json"]}, zipfile.ZIP_DEFLATED))
    with pytest.raises(ArchiveInvalid, match="is compressed, which"):
        other.outlast.import_(rewritten(path, content, zipfile.ZIP_DEFLATED))
    with pytest.raises(ArchiveInvalid, match="not in the manifest"):
        other.outlast.import_(rewritten(path, content | {"../../evil": b"x"}))
    shutil.copy(path, path.with_name("doubled.zip"))
    with zipfile.ZipFile(path.with_name("doubled.zip"), "a") as made, pytest.warns(UserWarning, match="Duplicate"):
        made.writestr("manifest.json", content["manifest.json"])
    with pytest.raises(ArchiveInvalid, match="more than once"):
        other.outlast.import_(path.with_name("doubled.zip"))


def test_a_link_in_the_file_is_refused(place: Place, other: Place) -> None:
    path = Path(place.outlast.export(stopped(place), place.folder).path)
    target = path.with_name("link.zip")
    with zipfile.ZipFile(target, "w") as made:
        for name, kept in members(path).items():
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o120777 << 16
            made.writestr(info, kept)
    with pytest.raises(ArchiveInvalid, match="no plain file"):
        other.outlast.import_(target)


def test_a_file_that_was_cut_short_is_refused(place: Place, other: Place) -> None:
    path = Path(place.outlast.export(stopped(place), place.folder).path)
    whole = path.read_bytes()
    for length in (1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ArchiveInvalid):
            other.outlast.import_(path)
    assert other.outlast.runs() == []


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_byte_that_was_changed_is_found_or_changes_nothing(place: Place, other: Place, data: st.DataObject) -> None:
    if "whole" not in KNOBS:
        KNOBS["run"] = stopped(place)
        KNOBS["whole"] = Path(place.outlast.export(KNOBS["run"], place.folder / "run.zip").path).read_bytes()
        KNOBS["shown"] = all_of(place, KNOBS["run"])
    whole: bytes = KNOBS["whole"]
    at = data.draw(st.one_of(st.integers(0, len(whole) - 1), st.integers(len(whole) - 4000, len(whole) - 1)))
    flipped = bytearray(whole)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    path = other.folder / "flipped.zip"
    path.write_bytes(bytes(flipped))
    try:
        other.outlast.import_(path)
    except ArchiveInvalid:
        return
    assert all_of(other, KNOBS["run"]) == KNOBS["shown"]


# -- deaths ------------------------------------------------------------------------------------------

CHILD = """
import sys
from outlast import Outlast
with Outlast(sys.argv[1]) as outlast:
    if sys.argv[2] == "import":
        outlast.import_(sys.argv[3])
    else:
        outlast.export(sys.argv[2], sys.argv[3], move=True)
"""


def dies(place: Place, *words: str, failpoint: str) -> None:
    place.close()
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(place.home), *words],
        env=os.environ | {"OUTLAST_FAILPOINT": failpoint},
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
    done = place.outlast.export(run_id, place.folder, move=True)
    dies(other, "import", done.path, failpoint=f"{point}:1")
    assert other.outlast.runs() == []
    assert other.outlast.verify().ok
    assert not other.outlast.import_(done.path).replayed
    assert other.outlast.resume(run_id).status == "succeeded"
    assert place.count("send 5") == 1


def test_an_import_that_is_killed_once_it_is_durable_is_there(place: Place, other: Place) -> None:
    run_id = stopped(place)
    done = place.outlast.export(run_id, place.folder, move=True)
    dies(other, "import", done.path, failpoint="commit.done:1")
    assert other.outlast.import_(done.path).replayed
    assert other.outlast.resume(run_id).status == "succeeded"


def test_a_move_that_is_killed_before_its_file_is_there_is_sealed_and_writes_it_later(
    place: Place, other: Place
) -> None:
    run_id = stopped(place)
    dies(place, run_id, str(place.folder / "run.zip"), failpoint="commit.done:1")
    assert not (place.folder / "run.zip").exists()
    with pytest.raises(RunSealed):
        place.run(job, 5)
    done = place.outlast.export(run_id, place.folder / "run.zip", move=True)
    other.outlast.import_(done.path)
    assert other.outlast.resume(run_id).status == "succeeded"
    assert place.count("send 5") == 1


def test_a_move_that_is_killed_before_its_seal_has_not_happened(place: Place) -> None:
    run_id = stopped(place)
    dies(place, run_id, str(place.folder / "run.zip"), failpoint="commit.applied:1")
    assert not (place.folder / "run.zip").exists()
    assert place.run(job, 5).status == "succeeded"
    with pytest.raises(RunFinished):
        place.outlast.resume(run_id)


def test_the_format_says_what_it_is(place: Place) -> None:
    done = place.outlast.export(stopped(place), place.folder)
    with archive.opened(Path(done.path), archive.RUN) as kept:
        assert kept.manifest.format == "outlast run 1"
        assert sorted(kept.names) == sorted(name for name in members(Path(done.path)) if name != "manifest.json")
