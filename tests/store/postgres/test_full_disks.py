"""A disk of the server that is full: what was told stays, what is refused is refused whole, and it goes on once there
is room. On a small disk in memory, which takes the right to mount one."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from outlast.errors import DiskFull
from outlast.store import open as open_by_url
from outlast.store.contract import Hold, Store

from ...kit.postgres import NOBODY, Server, new_folder
from ..support import begin, broken, some

MEGABYTES = 16


@pytest.fixture
def disk() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="outlast-disk-", dir="/tmp"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip("no disk can be mounted here")
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


@pytest.fixture
def url(disk: Path) -> Iterator[str]:
    """A database whose tables are on the small disk; the log of the server is not."""
    folder = new_folder()
    own = Server(folder)
    with psycopg.connect(own.url("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        connection.execute("CREATE DATABASE small TABLESPACE small")
    yield own.url("small")
    own.stop()
    shutil.rmtree(folder)


def fill(store: Store, hold: Hold) -> int:
    """Append until there is no room: how many entries were told to be there."""
    for number in range(1, 1000):
        try:
            store.finish(store.put(hold, [some(number, text=os.urandom(5000).hex())]))
        except DiskFull:
            return number - 1
    pytest.fail("there is room still")


@pytest.mark.skipif(os.getuid() != 0, reason="mounting takes root")
def test_what_was_told_before_the_disk_was_full_stays_and_it_goes_on_once_there_is_room(
    url: str, disk: Path, tmp_path: Path
) -> None:
    store: Store = open_by_url(url, blobs=tmp_path).store
    hold, filler = begin(store, "run1"), disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - (1 << 20)))
    told = fill(store, hold)
    with pytest.raises(DiskFull):
        store.finish(store.put(hold, [some(told + 1, text=os.urandom(50_000).hex())]))
    assert (hold.head, broken(store, "run1", told)) == (told, None)
    filler.unlink()
    store.finish(store.put(hold, [some(told + 1)]))
    assert broken(store, "run1", told + 1) is None
    store.close()
