"""One at a time: what removes blobs of a tenant, and what must find all of them."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outlast.errors import GcRunning, HomeReadOnly, StoreFailed
from outlast.values.private import open_file

FILE = "gc.lock"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No gc meanwhile in a tenant's folder: the lock goes with the process that holds it. Raises GcRunning."""
    path = folder / FILE
    try:
        handle = open_file(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        why = error.strerror or str(error)
        refused = HomeReadOnly if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else StoreFailed
        raise refused(str(path), why) from error
    try:
        _lock(handle, str(folder))
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise GcRunning(folder) from error
