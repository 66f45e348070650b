"""Saves killed between any two writes, and on a disk that fails: a ref always has its content, or is not there."""

import itertools
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Flow, Outlast, Run, current, failpoints, flow, step
from outlast.errors import ArtifactNotFound, DiskFull, LeaseLost, StoreFailed
from outlast.store.blobs import content as spool
from outlast.testing import crash_everywhere
from outlast.testing.crashes import ChildEnd, in_child

from ..kit.ledgers import remove_folder
from .power import FaultVFS, disk_full, failed_sync

pytestmark = pytest.mark.crash

QUICK = {"synchronous": "OFF"}  # a killed process leaves its writes to the kernel
LONG = "the tide comes in, the tide goes out\n" * 1000
_names = (f"artifacts-{number}" for number in itertools.count())


def opened(folder: Path) -> Outlast:
    return Outlast(folder / "home", store_options=QUICK)


def blob_files(folder: Path) -> list[Path]:
    """Every file in the places of blobs, also half-written ones."""
    return sorted((folder / "home" / "default" / "blobs").glob("??/*"))


# -- outside of a run --------------------------------------------------------------------------------


def save(outlast: Outlast) -> str:
    first = outlast.workspace.save("raw", b"content", tags=["t"], operation_id="raw")
    second = outlast.workspace.save("packed", LONG, operation_id="packed")
    pinned = outlast.workspace.checkpoint("both", task="t", refs=[first.ref, second.ref], operation_id="both")
    return pinned.id


def in_process(folder: Path, work: Callable[[Outlast], Any], hook: Callable[[str], None] | None) -> ChildEnd:
    def told(tell: Callable[[str, Any], None]) -> None:
        with opened(folder) as outlast:
            failpoints.arm(hook)
            tell("done", work(outlast))
            failpoints.arm(None)

    ended = in_child(told, 60)
    assert not ended.told("error"), ended.told("error")[0]
    return ended


def points_of(folder: Path, work: Callable[[Outlast], Any]) -> list[tuple[str, int]]:
    folder.mkdir()
    log = folder / "log"
    assert not in_process(folder, work, failpoints.log_to(str(log))).killed
    seen: Counter[str] = Counter()
    found = []
    for name in log.read_text().split():
        seen[name] += 1
        found.append((name, seen[name]))
    return found


def is_sound(outlast: Outlast) -> list[str]:
    """The refs that are there, each with its content."""
    assert outlast.verify().ok, outlast.verify().problems
    found = outlast.workspace.list()
    for one in found:
        assert one.read() == {"raw": b"content", "packed": LONG.encode()}[one.name]
    return sorted(one.name for one in found)


def test_a_save_killed_anywhere_is_there_whole_or_not_at_all_and_can_be_made_again(tmp_path: Path) -> None:
    points = points_of(tmp_path / "undisturbed", save)
    assert {"blob.written", "blob.named", "blob.synced", "commit.applied"} <= {name for name, _ in points}
    seen = set()
    for point, nth in points:
        trial = tmp_path / "trial"
        trial.mkdir()
        assert in_process(trial, save, failpoints.kill_at(point, nth)).killed, f"{point}:{nth}"
        with opened(trial) as outlast:
            seen.add(tuple(is_sound(outlast)))
            save(outlast)
            assert is_sound(outlast) == ["packed", "raw"]
            assert [one.version for one in outlast.workspace.list()] == [1, 1]
            assert len(outlast.workspace.checkpoints(task="t")) == 1
            sweep(trial, outlast)
            assert len(blob_files(trial)) == 2  # nothing else is left, and nothing that is needed went
            assert is_sound(outlast) == ["packed", "raw"]
        remove_folder(trial)
    assert seen == {(), ("raw",), ("packed", "raw")}


def sweep(folder: Path, outlast: Outlast) -> None:
    """gc, twice, with everything past its grace period."""
    for _ in range(2):
        for file in [*blob_files(folder), *(folder / "home" / "default" / "blobs" / "trash").glob("*")]:
            os.utime(file, (1, 1))
        outlast.gc(dry_run=False)


def test_what_a_killed_save_left_goes_with_gc(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield LONG.encode()
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_process(tmp_path, lambda outlast: outlast.workspace.save("x", pieces()), None).killed
    with opened(tmp_path) as outlast:
        assert [path.name[0] for path in blob_files(tmp_path)] == ["."]
        assert outlast.gc().files == 0  # it is young: somebody may be writing it
        sweep(tmp_path, outlast)
        assert blob_files(tmp_path) == []


# -- in a run ----------------------------------------------------------------------------------------


@step
def drafts(topic: str) -> str:
    saved = current().workspace.save("draft.md", topic * 2000, summary="Draft", tags=["draft"])
    return saved.ref


@flow
def reports(run: Run, topic: str) -> list[Any]:
    ref = drafts(topic)
    run.state["draft"] = ref
    final = run.workspace.save("final.md", run.workspace.get(ref).text() + "done")
    pinned = run.checkpoint("drafted", refs=[ref, final.ref])
    return [ref, final.ref, pinned.name, list(pinned.refs), pinned.state]


def test_a_run_killed_anywhere_saves_each_artifact_once(tmp_path: Path, crash_long: bool) -> None:
    limit = None if crash_long else 6
    report = crash_everywhere(reports, "tides", home=tmp_path, task="t", limit=limit)
    ref, final = "artifact:default/draft.md@1", "artifact:default/final.md@1"
    assert report.result == [ref, final, "drafted", [ref, final], {"draft": ref}]
    assert report.kills == min(len(report.points), limit or len(report.points)) - len(report.missed) > 3


def test_a_run_killed_anywhere_leaves_no_ref_without_content_and_nothing_that_gc_does_not_find(
    tmp_path: Path, crash_long: bool
) -> None:
    def work(outlast: Outlast) -> None:
        outlast.run(reports, "tides", task="t").unwrap()

    points = points_of(tmp_path / "undisturbed", work)
    for point, nth in points[:: 1 if crash_long else 6]:
        trial = tmp_path / "trial"
        trial.mkdir()
        assert in_process(trial, work, failpoints.kill_at(point, nth)).killed
        with opened(trial) as outlast:
            assert outlast.verify().ok, outlast.verify().problems
            kept = [
                outlast.workspace.get(one.ref).read()
                for run in outlast.runs()
                for one in outlast.workspace.list(run=run.id)
            ]
            receipts = [receipt for run in outlast.runs() for receipt in outlast.receipts(run.id)]
            told = [ref for receipt in receipts for ref in receipt.artifacts]
            assert [outlast.workspace.get(ref).ref for ref in told] == told
            seen = {one.name for one in outlast.workspace.list()}
            assert ("draft.md" in seen) == any(receipt.delivered for receipt in receipts)
            for run in outlast.runs(status="running") + outlast.runs(status="crashed"):
                outlast.abort(run.id, why="given up")
            sweep(trial, outlast)
            assert outlast.verify().ok
            assert outlast.facts()["artifacts"] == {"saved": len(kept), "pending": 0}
            assert len(blob_files(trial)) == len({*kept})
        remove_folder(trial)


@flow
def overtaken(run: Run) -> str:
    take_over(run)
    return run.workspace.save("mine", b"the old owner's").ref


@step
def is_overtaken() -> str:
    ref = current().workspace.save("mine", b"the old owner's").ref
    take_over(current())
    return ref


@flow
def overtaken_in_a_step(run: Run) -> str:
    return is_overtaken()


@step
def saves_too_late() -> str:
    take_over(current())
    return current().workspace.save("mine", b"the old owner's").ref


@flow
def overtaken_before_a_step_saves(run: Run) -> str:
    return saves_too_late()


def take_over(run: Any) -> None:
    store = run._execution.executor.home.store
    lease = store.read(lambda look: look.lease_of(run.id))
    assert store.write(lambda tx: tx.take_lease(lease, "somebody else"))


@pytest.mark.parametrize("work", [overtaken, overtaken_in_a_step], ids=["body", "step"])
def test_nobody_sees_what_an_owner_saves_who_lost_the_run(tmp_path: Path, work: Flow[..., str]) -> None:
    with opened(tmp_path) as outlast:
        with pytest.raises(LeaseLost):
            outlast.run(work)
        assert outlast.workspace.list() == []
        assert outlast.verify().ok


def test_a_step_whose_owner_lost_the_run_adds_no_row(tmp_path: Path) -> None:
    with opened(tmp_path) as outlast:
        with pytest.raises(LeaseLost):
            outlast.run(overtaken_before_a_step_saves)
        assert outlast.facts()["artifacts"] == {"saved": 0, "pending": 0}


# -- a disk that fails -------------------------------------------------------------------------------


@pytest.fixture
def disk() -> Iterator[FaultVFS]:
    vfs = FaultVFS(next(_names))
    yield vfs
    vfs.unregister()


@pytest.mark.parametrize("fault", [disk_full, failed_sync])
def test_a_row_that_cannot_be_written_gives_no_ref(fault: Callable[..., Any], disk: FaultVFS, tmp_path: Path) -> None:
    with Outlast(tmp_path / "home", store_options={"vfs": disk.name}) as outlast:
        disk.arm(fault(count=None))
        with pytest.raises((DiskFull, StoreFailed)):
            outlast.workspace.save("x", LONG)
        disk.disarm()
        assert outlast.workspace.list() == []
        assert outlast.verify().ok
        assert outlast.workspace.save("x", LONG).version == 1


class Full:
    """A disk with room for so many bytes more."""

    def __init__(self, room: int) -> None:
        self.room = room

    def open(self, path: Any, mode: str = "r", **how: Any) -> Any:
        file = open(path, mode, **how)  # noqa: SIM115
        return _Limited(file, self) if "w" in mode else file


class _Limited:
    def __init__(self, file: Any, disk: Full) -> None:
        self._file, self._disk = file, disk

    def __enter__(self) -> "_Limited":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def write(self, piece: bytes) -> int:
        self._disk.room -= len(piece)
        if self._disk.room < 0:
            raise OSError(28, "No space left on device")
        return int(self._file.write(piece))


@step
def saves_much() -> str:
    return current().workspace.save("much", (os.urandom(1 << 20) for _ in range(4))).ref


@flow
def fills_the_disk(run: Run, where: str) -> str:
    if where == "step":
        return saves_much()
    return run.workspace.save("much", (os.urandom(1 << 20) for _ in range(4))).ref


def saves_too_much(outlast: Outlast, where: str) -> None:
    if where == "outside":
        outlast.workspace.save("much", (os.urandom(1 << 20) for _ in range(4)))
    else:
        outlast.run(fills_the_disk, where)


@pytest.mark.parametrize("where", ["outside", "body", "step"])
def test_a_disk_that_is_full_in_the_middle_says_so_and_shows_nothing(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as outlast:
        monkeypatch.setattr(spool, "open", Full(3 << 20).open, raising=False)
        with pytest.raises(DiskFull, match="free some space"):
            saves_too_much(outlast, where)
        monkeypatch.undo()
        assert outlast.workspace.list() == []
        assert blob_files(tmp_path) == []
        with pytest.raises(ArtifactNotFound):
            outlast.workspace.get("much")
        if where != "outside":
            assert outlast.run(fills_the_disk, where).unwrap() == "artifact:default/much@1"
        assert outlast.verify().ok
