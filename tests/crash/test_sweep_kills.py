"""gc killed between any two writes: the store is sound, and the next gc completes it."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.families import add_run, age_blobs, ids
from tests.kit.ledgers import copy_folder

from outlast import Outlast, failpoints
from outlast.care.gc import runs as removal
from outlast.errors import RunRemoved
from outlast.testing.crashes import in_child

pytestmark = pytest.mark.crash

QUICK = {"synchronous": "OFF"}  # a killed process leaves its writes to the kernel
ROWS = 4  # of a slice, so that a short journal takes several


def text(letter: str) -> bytes:
    return f'"{letter * 40_000}"'.encode()


def make(home: Path) -> None:
    """A finished family, a finished run that shares a blob with an unfinished one, versions, rubbish of every kind."""
    with Outlast(home, store_options=QUICK) as outlast:
        add_run(outlast, "top", contents=[text("a")], entries=9)
        add_run(outlast, "child", parent="top", contents=[text("b")])
        add_run(outlast, "other", contents=[text("c"), text("d")])
        add_run(outlast, "open", status="failed", contents=[text("c"), text("e")], entries=2)
        add_run(outlast, "below", parent="open", contents=[text("f")])
        blobs = outlast._executor.home.blobs
        thrown, needed = blobs.put(text("g")), blobs.put(text("h"))
        add_run(outlast, "late", status="waiting", contents=[text("h")])
        trash = blobs.folder / "trash"
        trash.mkdir()
        for name in (thrown, needed):  # one that nobody needs, and one that a run came to need
            os.replace(blobs.path(name), trash / name)
        half = blobs.path(thrown).with_name(f".{thrown}.4194305.1")  # of a pid that cannot be
        half.write_bytes(b"half")
        for letter in "ijk":
            outlast.workspace.save("plan", text(letter))
        age_blobs(outlast)
    for folder in (home / "runs" / "top", home / "default" / "work" / "other", home / "default" / "work" / "open"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")


def gc(home: Path, hook: Callable[[str], None] | None) -> bool:
    """One gc in a process of its own; whether it was killed."""

    def work(tell: object) -> None:
        removal.SLICE_ROWS = ROWS
        failpoints.arm(hook)
        with Outlast(home, store_options=QUICK) as outlast:
            outlast.gc(keep=0, artifacts=True, dry_run=False)

    ended = in_child(work, 60)
    assert not ended.told("error"), ended.told("error")[0]
    return ended.killed


def points(home: Path, log: Path) -> list[tuple[str, int]]:
    """Every point that an undisturbed gc of this home reaches."""
    assert not gc(home, failpoints.log_to(str(log)))
    seen: Counter[str] = Counter()
    found = []
    for name in log.read_text().split():
        seen[name] += 1
        found.append((name, seen[name]))
    return found


def check_sound(home: Path) -> None:
    """Whatever happened: no record is broken, and nothing of the unfinished runs is missing."""
    with Outlast(home, store_options=QUICK) as outlast:
        found = outlast.verify()
        assert found.ok, found.problems
        assert {"open", "below", "late"} <= ids(outlast)
        assert outlast.get("open").status == "failed"
        assert outlast.workspace.get("plan@3").read() == text("k")
        add_run(outlast, f"new{len(outlast.runs())}", status="failed")  # a run that begins now is not given an old key
        assert outlast.verify().ok
    assert (home / "default" / "work" / "open" / "file").exists()


def check_done(home: Path) -> None:
    """As after an undisturbed gc, once the time in the trash is over as well."""
    with Outlast(home, store_options=QUICK) as outlast:
        assert {run for run in ids(outlast) if not run.startswith("new")} == {"open", "below", "late"}
        for run in ("top", "child", "other"):
            with pytest.raises(RunRemoved):
                outlast.get(run)
        assert outlast._executor.home.store.read(lambda look: look.unswept()) == []
        age_blobs(outlast)
        outlast.gc(dry_run=False)
        assert outlast.gc().nothing
        assert outlast.verify().ok
        left = sorted(path.name for path in outlast._executor.home.blobs.folder.rglob("*") if path.is_file())
        assert len(left) == len({*left}) == 5  # c, e, f and h: what unfinished runs and their families need; k
        assert [version.version for version in outlast.workspace.versions("plan")] == [3]
        rows = outlast._executor.home.store.read(lambda look: look.journals_of_nothing())
        assert rows == []
    assert not (home / "runs" / "top").exists()
    assert not (home / "default" / "work" / "other").exists()


def test_a_gc_that_is_killed_anywhere_leaves_a_sound_store_and_the_next_one_completes_it(
    tmp_path: Path, crash_long: bool
) -> None:
    make(tmp_path / "made")
    copy_folder(tmp_path / "made", tmp_path / "undisturbed")
    found = points(tmp_path / "undisturbed", tmp_path / "log")
    check_sound(tmp_path / "undisturbed")
    check_done(tmp_path / "undisturbed")
    assert {name for name, _ in found} >= {*failpoints.SWEEP_POINTS, "commit.begin", "commit.applied", "commit.done"}
    first = {name: number for number, (name, _) in reversed([*enumerate(found)])}  # of each kind of point
    for number, (name, nth) in enumerate(found):
        if not crash_long and number % 9 and number not in first.values():
            continue
        home = tmp_path / str(number)
        copy_folder(tmp_path / "made", home)
        assert gc(home, failpoints.kill_at(name, nth)), f"it did not reach {name}:{nth}"
        check_sound(home)
        assert not gc(home, None)
        check_done(home)


def test_a_gc_that_is_killed_again_and_again_gets_done(tmp_path: Path) -> None:
    make(tmp_path)
    kills = 0
    while gc(tmp_path, failpoints.kill_at("commit.done", 2)):
        check_sound(tmp_path)
        kills += 1
        assert kills < 100
    assert kills > 1
    assert not gc(tmp_path, None)
    check_done(tmp_path)
