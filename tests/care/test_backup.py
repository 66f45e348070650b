"""A backup has everything, as it was at one moment, and a home made of it answers as the first one did."""

import os
import shutil
import stat
import struct
import subprocess
import sys
import threading
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.kit.families import add_run, age_blobs
from tests.kit.trees import tree

from outlast import Outlast, Run, effect, flow, restore, step
from outlast.care.backup import make_backup
from outlast.care.gc.gc import alone
from outlast.care.restore import restore_mirror
from outlast.errors import (
    ArchiveInvalid,
    Conflict,
    GcRunning,
    HomeNotEmpty,
    HomeNotFound,
    Invalid,
    OutlastError,
    RunSealed,
    StoreLost,
)
from outlast.home.keys import Keys
from outlast.home.place import restoration_of
from outlast.testing.crashes import in_child
from outlast.values.codec import jsonable

BIG = b'"' + b"big " * 20_000 + b'"'


@step
def find(topic: str) -> str:
    return topic * 30_000  # a blob


@effect
def publish(text: str) -> str:
    return text[:3]


@flow
def report(run: Run, topic: str) -> str:
    said = publish(find(topic))
    run.pause_for("input", {"ask": "may it go out?"})
    return said


@flow
def sleeper(run: Run) -> None:
    run.sleep("2h")


def fill(home: Path, tenant: str) -> None:
    with Outlast(home, tenant=tenant) as outlast:
        outlast.run(report, tenant)
        outlast.run(sleeper)
        add_run(outlast, f"done{tenant}", contents=[BIG], entries=3)
        outlast.workspace.save("plan", BIG + tenant.encode())
        outlast.workspace.record("note", "it rained")
        outlast.handoff.store("work", "a summary", "how to go on", next_action="go on")
        outlast.sessions.append("chat", "user", "hello")
        outlast.tasks.open("job", meta={"a": 1})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two tenants with runs that ended, wait and sleep, blobs, records, a handoff, a session; keys and settings."""
    home = tmp_path / "home"
    for tenant in ("default", "acme"):
        fill(home, tenant)
    Keys(home).create("ann", tenant="acme")
    (home / "secrets.yaml").write_text("badge: 'B-[0-9]{6}'\n")
    return home


def answers(home: Path) -> Any:
    """What a home answers to whoever looks at it."""
    found: dict[str, Any] = {"keys": jsonable(Keys(home).list())}
    for tenant in ("default", "acme"):
        with Outlast(home, tenant=tenant) as outlast:
            runs = outlast.runs()
            found[tenant] = [
                jsonable(runs),
                [jsonable(outlast.receipts(run.id)) for run in runs],
                [jsonable(outlast.events(run.id)) for run in runs],
                jsonable(outlast.inbox()),
                [jsonable(each) for each in outlast.handoff.list()],
                jsonable(outlast.handoff.recover("work")),
                [(each.name, each.digest, sha256(each.read()).hexdigest()) for each in outlast.workspace.list()],
                [jsonable(each) for each in outlast.sessions.list()],
                jsonable(outlast.tasks.get("job")),
            ]
            found[f"{tenant} is sound"] = outlast.verify().ok
    return found


def without_ages(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: without_ages(each) for name, each in found.items() if name not in ("age", "seconds", "looked_at")}
    return [without_ages(each) for each in found] if isinstance(found, list | tuple) else found


# -- everything -----------------------------------------------------------------------------------------


def test_a_restored_home_answers_as_the_one_it_was_made_of(home: Path, tmp_path: Path) -> None:
    made = make_backup(home, tmp_path / "b.zip")
    done = restore(made.path, tmp_path / "restored")
    assert (done.backup, done.was, done.tenants) == (made.id, str(home), ("acme", "default"))
    first, second = answers(home), answers(tmp_path / "restored")
    assert without_ages(second) == without_ages(first)
    assert first["acme is sound"]
    assert first["default is sound"]
    assert (tmp_path / "restored" / "secrets.yaml").read_bytes() == (home / "secrets.yaml").read_bytes()


def test_a_backup_of_a_restored_home_has_the_same_content(home: Path, tmp_path: Path) -> None:
    first = make_backup(home, tmp_path / "a.zip")
    restore(first.path, tmp_path / "restored")
    second = make_backup(tmp_path / "restored", tmp_path / "b.zip")
    with zipfile.ZipFile(first.path) as a, zipfile.ZipFile(second.path) as b:
        names = {*a.namelist()} - {"manifest.json"}
        assert {*b.namelist()} - {"manifest.json"} == names
        assert all(a.read(name) == b.read(name) for name in names)


def test_a_backup_is_for_its_owner_and_names_itself_in_a_folder(home: Path, tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    made = make_backup(home, tmp_path / "backups")
    assert Path(made.path).parent == tmp_path / "backups"
    assert made.path.endswith(f"{made.id}.outlast.zip")
    assert stat.S_IMODE(os.stat(made.path).st_mode) == 0o600
    assert sha256(Path(made.path).read_bytes()).hexdigest() == made.digest
    assert os.listdir(tmp_path / "backups") == [Path(made.path).name]
    restore(made.path, tmp_path / "restored")
    for path in (tmp_path / "restored").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_backup_never_replaces_a_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_text("mine")
    with pytest.raises(Conflict, match="is there already"):
        make_backup(home, tmp_path / "b.zip")
    assert (tmp_path / "b.zip").read_text() == "mine"
    with pytest.raises(Invalid, match="no folder"):
        make_backup(home, tmp_path / "nowhere" / "b.zip")
    with pytest.raises(Invalid, match="inside of the home"):
        make_backup(home, home / "b.zip")
    with pytest.raises(HomeNotFound):
        make_backup(tmp_path / "nothing", tmp_path / "c.zip")


def test_the_mirror_is_in_it_when_it_is_asked_for(home: Path, tmp_path: Path) -> None:
    with Outlast(home) as outlast:
        outlast.mirror(outlast.runs()[-1].id)
        assert not any("/runs/" in name for name in _names(outlast.backup(tmp_path / "a.zip").path))
        assert any("/runs/" in name for name in _names(outlast.backup(tmp_path / "b.zip", mirror=True).path))


def _names(path: str) -> list[str]:
    with zipfile.ZipFile(path) as file:
        return file.namelist()


def test_what_no_backup_can_take_is_named(home: Path, tmp_path: Path) -> None:
    with Outlast(home) as outlast:
        name = outlast._executor.home.blobs.put(b"once whole")
        path = outlast._executor.home.blobs.path(name)
    path.write_bytes(b"changed")
    os.mkfifo(home / "pipe")
    (home / "default" / "link").symlink_to("/etc/passwd")
    made = make_backup(home, tmp_path / "b.zip")
    assert {name for name, _ in made.left_out} == {"pipe", "default/link"}
    assert [(name.rpartition("/")[2], why) for name, why in made.damaged] == [(name, "its content was changed")]
    assert restore(made.path, tmp_path / "restored").damaged == made.damaged
    assert not os.path.lexists(tmp_path / "restored" / "pipe")


def test_a_lost_tenant_is_not_left_out_in_silence(home: Path, tmp_path: Path) -> None:
    shutil.rmtree(home / "acme")
    with pytest.raises(StoreLost):
        make_backup(home, tmp_path / "b.zip")
    assert os.listdir(tmp_path) == ["home"]


def test_content_is_never_held_whole(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Outlast(home) as outlast:
        for number in range(3):
            outlast.workspace.save(f"large {number}", os.urandom(16 << 20))
    make_backup(home, tmp_path / "warm.zip")
    tracemalloc.start()
    try:
        made = make_backup(home, tmp_path / "b.zip")
        restore(made.path, tmp_path / "restored")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


# -- while it is at work ----------------------------------------------------------------------------------

WRITE = """
import sys
from outlast import Outlast
home, number = sys.argv[1], sys.argv[2]
with Outlast(home, tenant=("default", "acme")[int(number) % 2]) as outlast:
    print("ready", flush=True)
    nth = 0
    while True:
        outlast.workspace.save(f"w{number}-{nth}", (f"{number} {nth} " * 3000).encode())
        print(f"w{number}-{nth}", flush=True)
        nth += 1
"""


@pytest.fixture
def writers(home: Path) -> Iterator[list["subprocess.Popen[str]"]]:
    started = [
        subprocess.Popen([sys.executable, "-c", WRITE, str(home), str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(8)
    ]
    yield started
    for each in started:
        each.kill()
        each.communicate()


def test_a_backup_while_eight_write_has_all_that_was_acknowledged(
    home: Path, tmp_path: Path, writers: list["subprocess.Popen[str]"]
) -> None:
    """All that a writer was told before the backup began is in it; and whatever is in it is whole."""
    acknowledged = []
    for each in writers:
        assert each.stdout is not None
        each.stdout.readline()
        acknowledged += [each.stdout.readline().strip(), each.stdout.readline().strip()]
    for number in range(2):
        made = make_backup(home, tmp_path / f"{number}.zip")
        restore(made.path, tmp_path / f"restored{number}")
    for each in writers:
        assert each.poll() is None, "it wrote all the time"
        each.kill()
    for number in range(2):
        there: set[str] = set()
        for tenant in ("default", "acme"):
            with Outlast(tmp_path / f"restored{number}", tenant=tenant) as outlast:
                assert outlast.verify().ok
                there |= {each.name for each in outlast.workspace.list(limit=100_000)}
        assert there >= set(acknowledged)


def test_no_gc_comes_between_and_no_backup_into_a_gc(home: Path, tmp_path: Path) -> None:
    with alone(home / "acme"), pytest.raises(GcRunning):
        make_backup(home, tmp_path / "b.zip")
    told: list[type] = []

    def look(done: int, total: int) -> None:
        if not told:
            with Outlast(home) as outlast:
                try:
                    outlast.gc(keep=0, dry_run=False)
                except GcRunning as error:
                    told.append(type(error))

    made = make_backup(home, tmp_path / "b.zip", progress=look)
    assert told == [GcRunning]
    restore(made.path, tmp_path / "restored")
    with Outlast(tmp_path / "restored") as outlast:
        assert outlast.verify().ok


def test_a_blob_that_waits_in_the_trash_comes_along(home: Path, tmp_path: Path) -> None:
    with Outlast(home) as outlast:
        orphan = outlast._executor.home.blobs.put(b"nobody's")
        age_blobs(outlast)
        outlast.gc(dry_run=False)
    restore(make_backup(home, tmp_path / "b.zip").path, tmp_path / "restored")
    assert (tmp_path / "restored" / "default" / "blobs" / "trash" / orphan).is_file()


def test_a_saver_is_not_kept_waiting(home: Path, tmp_path: Path) -> None:
    """Blobs that are saved while the backup is filled are not missed by anybody: the moment was before them."""
    saved = threading.Event()

    def look(done: int, total: int) -> None:
        if not saved.is_set():
            with Outlast(home, tenant="acme") as outlast:
                outlast.workspace.save("meanwhile", BIG * 2)
            saved.set()

    restore(make_backup(home, tmp_path / "b.zip", progress=look).path, tmp_path / "restored")
    with Outlast(home, tenant="acme") as first, Outlast(tmp_path / "restored", tenant="acme") as second:
        assert "meanwhile" in {each.name for each in first.workspace.list()}
        assert "meanwhile" not in {each.name for each in second.workspace.list()}
        assert second.verify().ok


# -- proven before anything is put in place -----------------------------------------------------------------


def test_any_edited_byte_is_refused_and_nothing_is_made(home: Path, tmp_path: Path) -> None:
    """In every member the name is told; between them that the file is not what was written."""
    made = make_backup(home, tmp_path / "b.zip")
    whole = Path(made.path).read_bytes()
    with zipfile.ZipFile(made.path) as file:
        inside = {info.filename: _middle(whole, info) for info in file.infolist() if info.file_size}
    before = {*os.listdir(tmp_path)}
    places = [(name, at) for name, at in inside.items()] + [("", at) for at in range(0, len(whole), len(whole) // 40)]
    for name, at in [*places, ("", len(whole) - 1)]:
        edited = bytearray(whole)
        edited[at] ^= 1
        (tmp_path / "b.zip").write_bytes(edited)
        with pytest.raises(ArchiveInvalid) as caught:
            restore(tmp_path / "b.zip", tmp_path / "restored")
        if name and name != "manifest.json":
            assert name in str(caught.value), at
        assert {*os.listdir(tmp_path)} == before
    (tmp_path / "b.zip").write_bytes(whole)
    restore(tmp_path / "b.zip", tmp_path / "restored")


def _middle(whole: bytes, info: zipfile.ZipInfo) -> int:
    """Where the middle of a member's content is in the file."""
    name, extra = struct.unpack_from("<HH", whole, info.header_offset + 26)
    return int(info.header_offset) + 30 + name + extra + info.file_size // 2


@pytest.mark.parametrize("cut", [0, 1, 100, 0.5, -1])
def test_a_backup_that_was_cut_off_is_refused(home: Path, tmp_path: Path, cut: float) -> None:
    made = make_backup(home, tmp_path / "b.zip")
    size = int(made.bytes * cut) if isinstance(cut, float) else cut % made.bytes
    os.truncate(made.path, size)
    with pytest.raises(ArchiveInvalid):
        restore(made.path, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


@pytest.mark.parametrize(
    "name", ["home/../escaped", "home//etc/x", "/etc/x", "elsewhere", "home/", "home/./x", "home/a/../b"]
)
def test_no_member_leaves_the_home(home: Path, tmp_path: Path, name: str) -> None:
    """A forged backup, whole in itself: its names are looked at before a file is made."""
    import msgspec

    from outlast.care.travel.archive import BACKUP, Backup, Packer

    with (tmp_path / "forged.zip").open("w+b") as file, Packer(file) as packer:
        packer.add(name, [b"content"])
        packer.seal(Backup(BACKUP.name, "id", "home", 1, [], packer.listed(), [], []))
    assert msgspec.json.encode(name)
    with pytest.raises(ArchiveInvalid):
        restore(tmp_path / "forged.zip", tmp_path / "restored")
    assert sorted(os.listdir(tmp_path)) == ["forged.zip", "home"]


def taken_by_a_file(place: Path) -> None:
    place.write_text("mine")


def taken_by_a_folder(place: Path) -> None:
    (place / "default").mkdir(parents=True)


def taken_by_a_link(place: Path) -> None:
    (place.parent / "elsewhere").mkdir()
    place.symlink_to("elsewhere")


@pytest.mark.parametrize("take", [taken_by_a_file, taken_by_a_folder, taken_by_a_link])
def test_what_is_there_is_never_replaced(home: Path, tmp_path: Path, take: Callable[[Path], None]) -> None:
    made = make_backup(home, tmp_path / "b.zip")
    take(tmp_path / "restored")
    before = tree(tmp_path)
    with pytest.raises(HomeNotEmpty):
        restore(made.path, tmp_path / "restored")
    assert tree(tmp_path) == before


def test_an_empty_folder_is_filled(home: Path, tmp_path: Path) -> None:
    made = make_backup(home, tmp_path / "b.zip")
    (tmp_path / "restored").mkdir()
    restore(made.path, tmp_path / "restored")
    with Outlast(tmp_path / "restored") as outlast:
        assert outlast.verify().ok


@pytest.mark.parametrize("given", ["a run", "a folder", "a pipe", "text"])
def test_what_is_no_backup_is_refused_by_what_it_is(home: Path, tmp_path: Path, given: str) -> None:
    path = tmp_path / "given"
    match given:
        case "a run":
            with Outlast(home) as outlast:
                outlast.export(outlast.runs()[0].id, path)
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case _:
            path.write_text("text")
    with pytest.raises(ArchiveInvalid, match="import" if given == "a run" else "outlast backup|file"):
        restore(path, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


# -- a full disk --------------------------------------------------------------------------------------------

FULL = """
import os, subprocess, sys
from outlast import restore
from outlast.care.backup import make_backup
from outlast.errors import DiskFull
from pathlib import Path
home, small = Path(sys.argv[1]), Path(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192k", "none", str(small)], check=True)
made = make_backup(home, small.parent / "b.zip")
for work in (lambda: make_backup(home, small / "b.zip"), lambda: restore(made.path, small / "restored")):
    try:
        work()
        print("done")
    except DiskFull:
        print("full", os.listdir(small))
"""


@pytest.mark.skipif(
    subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0, reason="a small disk needs root"
)
def test_a_full_disk_leaves_nothing(home: Path, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    words = ["unshare", "-m", sys.executable, "-c", FULL, str(home), str(tmp_path / "small")]
    ran = subprocess.run(words, capture_output=True, text=True)
    assert ran.stdout.splitlines() == ["full []", "full []"], ran.stderr


# -- what a restored home means ------------------------------------------------------------------------------


def test_a_restored_home_says_so_before_a_run_goes_on(home: Path, tmp_path: Path) -> None:
    made = make_backup(home, tmp_path / "b.zip")
    restore(made.path, tmp_path / "restored")
    came = restoration_of(tmp_path / "restored")
    assert came is not None
    assert (came.backup, came.made_at) == (made.id, made.made_at)
    with Outlast(tmp_path / "restored") as outlast:
        said: list[str] = []
        outlast.listen(None, said.append)
        (wait,) = [each for each in outlast.interrupts() if each.type != "timer"]
        run = wait.run_id
        outlast.answer(wait.id, True)
        outlast.resume(run)
        assert any(run in line and "not known here" in line for line in said)
        said.clear()
        outlast.run(report, "new")
        assert said == []


def test_runs_keep_their_ids_and_epochs(home: Path, tmp_path: Path) -> None:
    restore(make_backup(home, tmp_path / "b.zip").path, tmp_path / "restored")
    with Outlast(home) as first, Outlast(tmp_path / "restored") as second:
        kept = [(run.id, run.epoch, run.head, run.created_at) for run in first.runs()]
        assert [(run.id, run.epoch, run.head, run.created_at) for run in second.runs()] == kept


# -- from a mirror -------------------------------------------------------------------------------------------


def test_a_home_from_a_mirror_is_testimony_and_sealed(home: Path, tmp_path: Path) -> None:
    with Outlast(home) as outlast:
        for run in outlast.runs():
            outlast.mirror(run.id)
    built = restore_mirror(home / "runs", tmp_path / "rebuilt")
    assert built.runs
    assert {run.seal for run in built.runs} == {"testimony"}
    with Outlast(tmp_path / "rebuilt") as outlast:
        for run in outlast.runs():
            assert run.seal == "testimony"
            with pytest.raises(RunSealed):
                outlast.resume(run.id)
        assert outlast.verify().ok
    with pytest.raises(HomeNotEmpty):
        restore_mirror(home / "runs", tmp_path / "rebuilt")


def test_what_is_no_mirror_makes_no_home(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    with pytest.raises(Invalid, match="no mirror"):
        restore_mirror(tmp_path / "mirror", tmp_path / "rebuilt")
    assert os.listdir(tmp_path) == ["mirror"]


def test_what_a_dead_backup_left_goes_with_the_next(home: Path, tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()

    def dies(tell: object) -> None:
        make_backup(home, tmp_path / "backups", progress=lambda done, total: os.kill(os.getpid(), 9))

    assert in_child(dies, 60).killed
    assert len(os.listdir(tmp_path / "backups")) == 1
    made = make_backup(home, tmp_path / "backups")
    assert os.listdir(tmp_path / "backups") == [Path(made.path).name]


def test_errors_of_a_backup_are_ours(home: Path, tmp_path: Path) -> None:
    with pytest.raises(OutlastError):
        restore(tmp_path / "missing.zip", tmp_path / "restored")
    with pytest.raises(OutlastError):
        restore(make_backup(home, tmp_path / "b.zip").path, tmp_path / "no" / "such" / "place")
