"""The file of a scope's index: opened for one call, made when missing, replaced when it is not as we left it.

Nothing depends on it: when the disk is full or the folder cannot be written, the call works on an index in memory.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import apsw

from outlast.store.sqlite.recall_index import RecallIndex
from outlast.store.statements import schema
from outlast.values.plain import kind_of
from outlast.values.private import make_file, make_folder, open_file

APPLICATION_ID = 0x4F_4C_52_43  # "OLRC"
FORMAT = 1  # of the file and of what it was made by (words, stems): another one is built anew
BUSY_MILLISECONDS = 10_000

T = TypeVar("T")

# A file that says such a thing is not an index, or not any more.
_BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.ConstraintError, apsw.MismatchError)


class _NotOurs(Exception):
    """The file is no index of this format."""


def index_path(tenant_folder: Path, scope: str) -> Path:
    """Where the index of a scope is; the name says nothing of the scope and fits every file system."""
    return tenant_folder / "recall" / f"{sha256(scope.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.db"


def with_index(path: Path, work: Callable[[RecallIndex], T]) -> T:
    """What `work` gives on the index at `path`. It is called again on an empty one when the file turns out unusable.

    So `work` has to begin with taking in what the index lacks. A file that is corrupt, foreign or of another format
    is replaced; one that cannot be written (full disk, read-only folder, locked for too long) is left alone, and the
    work is done in memory. What `work` itself raises comes out as it is.
    """
    try:
        return _on_file(path, work)
    except (_NotOurs, *_BROKEN):
        with suppress(OSError, apsw.Error):
            _replace(path)
    except (OSError, apsw.Error):
        return _in_memory(work)
    try:
        return _on_file(path, work)
    except (_NotOurs, OSError, apsw.Error):
        return _in_memory(work)


def _on_file(path: Path, work: Callable[[RecallIndex], T]) -> T:
    make_folder(path.parent)
    if kind_of(path):
        raise _NotOurs
    make_file(path)
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        _prepare(connection)
        return work(RecallIndex(connection, lasting=True))


def _in_memory(work: Callable[[RecallIndex], T]) -> T:
    with closing(apsw.Connection(":memory:")) as connection:
        _make(connection)
        return work(RecallIndex(connection, lasting=False))


def _prepare(connection: apsw.Connection) -> None:
    """Make the tables in an empty file. Raises _NotOurs for any other than ours."""
    if not _is_ours(connection):
        connection.pragma("journal_mode", "WAL")
        _make(connection)
    connection.pragma("synchronous", "NORMAL")


def _is_ours(connection: apsw.Connection) -> bool:
    """True: ours; False: still empty. Raises _NotOurs."""
    stamp = "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version)"
    found, tables = next(connection.execute(stamp)), next(connection.execute("SELECT count(*) FROM sqlite_schema"))
    if found == (APPLICATION_ID, FORMAT):
        return True
    if tables != (0,):
        raise _NotOurs
    return False


def _make(connection: apsw.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_ours(connection):  # under the lock: another process may have been first
            for _ in connection.execute(schema("recall")):  # iterating runs every statement of the text
                pass
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        if not connection.getautocommit():
            connection.execute("ROLLBACK")
        raise


def _replace(path: Path) -> None:
    """Put an empty index in the place of an unusable file, unless another process just has."""
    with _locked(path):
        with (
            suppress(_NotOurs, apsw.Error),
            closing(apsw.Connection(str(path) if not kind_of(path) else "")) as connection,
        ):
            if _is_ours(connection) and _is_whole(connection):
                return
        fresh = path.with_suffix(".new")
        _unlink(fresh)
        make_file(fresh)
        with closing(apsw.Connection(str(fresh))) as connection:
            _prepare(connection)
        _unlink(path, only_beside=True)  # a log that belongs to the old file would be read into the new one
        os.replace(fresh, path)


def _is_whole(connection: apsw.Connection) -> bool:
    return bool(next(connection.execute("PRAGMA quick_check(1)")) == ("ok",))


def _unlink(path: Path, *, only_beside: bool = False) -> None:
    for ending in ("-wal", "-shm", "-journal") if only_beside else ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = open_file(path.with_suffix(".lock"), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
