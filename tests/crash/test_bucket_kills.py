"""Content in a bucket: savers, sweeps and the server itself killed anywhere. A ref always has its content."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.errors import ArtifactNotFound, OutlastError
from outlast.store.blobs.s3 import S3Blobs
from outlast.store.blobs.s3_trash import S3Trash

from ..kit.seaweed import Seaweed, seaweed
from ..store.support import kept, thrown

pytestmark = pytest.mark.crash

PLAN = bytes(range(256)) * 400
SAVE = """
import sys
from outlast import Outlast
with Outlast(sys.argv[1]) as outlast:
    outlast.workspace.save("plan", bytes(range(256)) * 400, operation_id="plan")
"""
SWEEP = """
import sys
from outlast import Outlast
from outlast.store.blobs.s3 import S3Blobs
from outlast.store.blobs.s3_trash import S3Trash
S3Blobs.trash = lambda self: S3Trash(self, -60.0)  # every period is over
with Outlast(sys.argv[1]) as outlast:
    assert not outlast.gc(dry_run=False).troubles
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose content is in a bucket, with a content that nobody needs."""
    for name, said in seaweed().environment().items():
        monkeypatch.setenv(name, said)
    monkeypatch.setattr(S3Blobs, "trash", lambda self: S3Trash(self, -60.0))
    with Outlast(tmp_path / "home", blobs=seaweed().new_place()) as outlast:
        outlast._home.blobs.put(b"of a process that died")
    return tmp_path / "home"


def killed_at(point: str, script: str, home: Path) -> None:
    """Run a script until it has reached a point for the first time, and is killed there."""
    ended = subprocess.run(
        [sys.executable, "-c", script, home],
        env={**os.environ, "OUTLAST_FAILPOINT": f"{point}:1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode == -signal.SIGKILL, f"{point} was not reached: {ended.stderr}"


def plan_in(outlast: Outlast) -> bytes:
    try:
        return outlast.workspace.get("plan").read()
    except ArtifactNotFound:
        return b""


@pytest.mark.parametrize(
    "point", ["blob.written", "blob.named", "blob.synced", "commit.begin", "commit.applied", "commit.done"]
)
def test_a_save_that_is_killed_is_there_whole_or_not_at_all_and_is_repeated(point: str, home: Path) -> None:
    killed_at(point, SAVE, home)
    with Outlast(home) as outlast:
        assert outlast.verify().ok
        assert plan_in(outlast) in (PLAN, b"")
        assert point.startswith("blob") <= (plan_in(outlast) == b"")
        outlast.gc(dry_run=False)  # whatever it left, and may still be wanted
        again = outlast.workspace.save("plan", PLAN, operation_id="plan")
        assert again.version == 1
        for _ in range(3):
            assert outlast.gc(dry_run=False).troubles == ()
        assert plan_in(outlast) == PLAN
        assert outlast.verify().ok


@pytest.mark.parametrize("point", ["sweep.trashed", "sweep.dated", "sweep.doomed", "sweep.emptied"])
def test_a_sweep_that_is_killed_takes_nothing_that_is_needed_and_the_next_goes_on(point: str, home: Path) -> None:
    with Outlast(home) as outlast:
        outlast.workspace.save("plan", PLAN)
        blobs = outlast._home.blobs
        if point in ("sweep.doomed", "sweep.emptied"):
            outlast.gc(dry_run=False)  # condemned
    killed_at(point, SWEEP, home)
    with Outlast(home) as outlast:
        blobs = outlast._home.blobs
        assert outlast.verify().ok
        for _ in range(2):
            assert outlast.gc(dry_run=False).troubles == ()
        left = [file.name for file in kept(blobs.trash())]
        assert (plan_in(outlast), len(left), thrown(blobs.trash())) == (PLAN, 1, [])


@pytest.fixture
def own_server() -> Iterator[Seaweed]:
    """A server that may be killed."""
    with tempfile.TemporaryDirectory(prefix="outlast-s3-") as folder:
        started = Seaweed(Path(folder))
        try:
            yield started
        finally:
            started.kill()


def test_what_was_acknowledged_survives_a_kill_of_the_server_under_load_and_savers_go_on(
    own_server: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    for name, said in own_server.environment().items():
        monkeypatch.setenv(name, said)
    kills = 10 if pytestconfig.getoption("--crash-long") else 1
    with Outlast(tmp_path / "home", blobs=f"{own_server.new_place()}?patience=100s") as outlast:
        saved, failed, stop = dict[str, bytes](), list[OutlastError](), threading.Event()

        def save(worker: int) -> None:
            for number in range(100_000):
                if stop.is_set():
                    return
                content = os.urandom(50_000)
                try:
                    saved[outlast.workspace.save(f"{worker}-{number}", content).ref] = content
                except OutlastError as error:
                    failed.append(error)

        def waited(enough: Callable[[], bool]) -> None:
            until = time.monotonic() + 100
            while not enough():
                assert time.monotonic() < until, f"{len(saved)} saved, {failed[:3]}"
                time.sleep(0.01)

        threads = [threading.Thread(target=save, args=(worker,)) for worker in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(kills):
                before = len(saved)
                waited(lambda before=before: len(saved) >= before + 5)
                own_server.kill()
                own_server.start()
            before = len(saved)
            waited(lambda: len(saved) >= before + 5)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert failed == []
        for ref, content in saved.items():
            assert outlast.workspace.get(ref).read() == content
        assert outlast.verify().ok
