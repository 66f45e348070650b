"""A backup and a restore killed between any two writes: the name is there whole or not at all, and again works."""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.families import add_run
from tests.kit.trees import tree

from outlast import Outlast, failpoints, restore
from outlast.care.backup import make_backup
from outlast.testing.crashes import in_child

pytestmark = pytest.mark.crash

SHORT = 3  # of the points of one kind that come often; with --crash-long all of them


def make(home: Path) -> None:
    for tenant in ("default", "acme"):
        with Outlast(home, tenant=tenant, store_options={"synchronous": "OFF"}) as outlast:
            add_run(outlast, "one", contents=[b'"' + tenant.encode() * 9000 + b'"'], entries=3)
            outlast.workspace.save("plan", b"p" * 50_000)


def killed(work: Callable[[], object], hook: Callable[[str], None] | None) -> bool:
    """Whether `work` was killed in a process of its own."""

    def child(tell: object) -> None:
        failpoints.arm(hook)
        work()

    ended = in_child(child, 60)
    assert not ended.told("error"), ended.told("error")[0]
    return ended.killed


def points(work: Callable[[], object], log: Path, crash_long: bool) -> list[tuple[str, int]]:
    """The points that `work` reaches undisturbed: all kinds of them, of those that come often a seeded part."""
    assert not killed(work, failpoints.log_to(str(log)))
    seen = Counter(log.read_text().split())
    found = []
    for name, times in seen.items():
        every = range(1, times + 1)
        few = every if crash_long or times <= SHORT else random.Random(name).sample(every, SHORT)
        found += [(name, nth) for nth in sorted(few)]
    return found


def test_a_backup_killed_anywhere_is_whole_or_not_there(tmp_path: Path, crash_long: bool) -> None:
    home, place = tmp_path / "home", tmp_path / "backups"
    make(home)
    place.mkdir()
    found = points(lambda: make_backup(home, place / "first"), tmp_path / "log", crash_long)
    assert {name for name, _ in found} >= {*failpoints.BACKUP_POINTS}
    for number, (name, nth) in enumerate(found):
        file = place / str(number)
        assert killed(lambda file=file: make_backup(home, file), failpoints.kill_at(name, nth)), (name, nth)
        if file.exists():
            assert name == "backup.named"
            check(file, tmp_path / "restored")
            file.unlink()
        make_backup(home, file)  # again, and what the dead one left is gone
        check(file, tmp_path / "restored")
        assert sorted(os.listdir(place)) == sorted(["first", str(number)])
        file.unlink()
    with Outlast(home) as outlast:
        assert outlast.verify().ok


def test_a_restore_killed_anywhere_makes_all_of_a_home_or_none(tmp_path: Path, crash_long: bool) -> None:
    home, places = tmp_path / "home", tmp_path / "places"
    make(home)
    places.mkdir()
    file = Path(make_backup(home, tmp_path / "b.zip").path)
    found = points(lambda: restore(file, places / "first"), tmp_path / "log", crash_long)
    assert {name for name, _ in found} >= {*failpoints.HOME_POINTS}
    whole = tree(places / "first")
    whole.pop("restored.json")
    for number, (name, nth) in enumerate(found):
        place = places / str(number)
        assert killed(lambda place=place: restore(file, place), failpoints.kill_at(name, nth)), (name, nth)
        assert place.exists() == (name == "home.named")
        if not place.exists():
            restore(file, place)
        there = tree(place)
        there.pop("restored.json")
        assert there == whole
        shutil.rmtree(place)
        if name == "home.named":  # what the dead one left goes with the next
            restore(file, place)
            shutil.rmtree(place)
        assert os.listdir(places) == ["first"]


def check(file: Path, place: Path) -> None:
    """The backup is whole: a home can be made of it, and that is sound."""
    restore(file, place)
    for tenant in ("default", "acme"):
        with Outlast(place, tenant=tenant) as outlast:
            assert outlast.verify().ok
            assert outlast.workspace.get("plan").read() == b"p" * 50_000
    shutil.rmtree(place)
