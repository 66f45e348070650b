"""A folder of our own beside a place, in which something is made whole before it gets its name there.

A process that dies leaves the folder; whoever works beside the same place next removes it. A lock tells those that are
still at work.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from outlast.ids import random_id
from outlast.store.blobs.folder import sync_file, sync_folder, translated

_BEGINS, _ENDS = ".outlast-", ".tmp"


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, for us alone, gone afterwards. Raises DiskFull, StoreReadOnly, StoreFailed."""
    clear(parent)
    folder = parent / f"{_BEGINS}{random_id()}{_ENDS}"
    try:
        folder.mkdir(mode=0o700)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
    except OSError as error:
        raise translated(error, str(parent)) from error


def clear(parent: Path) -> None:
    """Remove what those who died left beside this place. What cannot be removed stays."""
    for folder in parent.glob(f"{_BEGINS}*{_ENDS}"):
        with suppress(OSError):
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def sync_tree(top: Path) -> None:
    """Make every file and every name below durable."""
    for at, _, names in os.walk(top, topdown=False):
        for name in names:
            sync_file(Path(at, name))
        sync_folder(Path(at))
