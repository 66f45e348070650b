"""The file of a store before it is used: is it there, one of ours, writable, and of this version's schema?

SQLite takes a file that is missing or empty for a new database, and would begin a new home in the place of a lost one.
The home remembers: a marker is written when a database was made, and what lies beside one tells too. Whatever SQLite
can judge only with its log at hand is left to it (`migrate`). Migrations go up only; a file from a newer version is
refused, not guessed at.

A plain handle on a database that this process has open would drop its locks: `open.py` asks only when it has none.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from outlast import errors
from outlast.store.nouns.rows import migrations, newest_version
from outlast.values.frozen import NamedTuple
from outlast.values.private import kind_of, make_file, make_folder, read_plain

APPLICATION_ID = 0x4F_4C_53_54  # "OLST"
MAGIC = b"SQLite format 3\x00"
NO_TABLES = "has no tables"
_PARTS = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name"
SEAL = (  # of a home that was moved: nobody writes to a table of it any more
    r"CREATE TRIGGER moved_(INSERT|UPDATE|DELETE)_(\w+) BEFORE \1 ON \2"
    r" BEGIN SELECT RAISE\(ABORT, 'it was moved to ((?:[^']|'')*)'\); END"
)
_TRIES = 3  # another process may make, grow or close it while we look


Steps = Sequence[tuple[int, str]]


class DatabaseHeader(NamedTuple):
    """What the first hundred bytes of a database say."""

    page_size: int
    pages: int
    version: int
    application: int
    tables: bool  # whether its schema has anything in it

    @classmethod
    def of(cls, raw: bytes) -> DatabaseHeader:
        size = int.from_bytes(raw[16:18])
        return cls(
            65536 if size == 1 else size,
            int.from_bytes(raw[28:32]),
            int.from_bytes(raw[60:64]),
            int.from_bytes(raw[68:72]),
            raw[100:101] != b"\x0d" or raw[103:105] != b"\0\0",
        )


def inspect(path: Path, marker: Path | None) -> None:
    """Nothing, if a database of ours is there or may be made. Raises StoreLost, StoreForeign, StoreNewer."""
    for attempt in range(_TRIES):
        try:
            _inspect(path, marker)
            return
        except (errors.StoreLost, errors.StoreForeign, FileNotFoundError):
            if attempt == _TRIES - 1:
                raise


def _inspect(path: Path, marker: Path | None) -> None:
    kind = kind_of(os.path.realpath(path))
    if kind or (os.path.islink(path) and not path.exists()):
        raise errors.StoreForeign(str(path), f"it is {kind or 'a link that leads nowhere'}, no plain file")
    if not os.path.exists(path):
        refuse_lost(path, marker, "is gone")
        return
    if not os.access(path, os.R_OK):
        return  # opening it says so
    raw, size = read_plain(os.path.realpath(path), 108), path.stat().st_size
    if size == 0:
        refuse_lost(path, marker, "is empty (0 bytes)")
    elif not _has(f"{path}-wal") and not _has(f"{path}-journal"):
        _refuse_without_log(path)
        _judge(path, marker, raw, size)


def _refuse_without_log(path: Path) -> None:
    """Raises StoreLost when the index of the log is there, counts what only the log had, and that is gone."""
    try:
        index = read_plain(f"{path}-shm", 128)
    except OSError:
        return
    frames, copied = (int.from_bytes(index[at : at + 4], sys.byteorder) for at in (16, 96))
    if len(index) == 128 and index[12] and frames > copied and not os.path.exists(f"{path}-wal"):
        what = f"{path.name}-shm counts {frames - copied} pages that only {path.name}-wal had"
        raise errors.StoreLost(str(path), "has lost its log", what)


def _judge(path: Path, marker: Path | None, raw: bytes, size: int) -> None:
    """A database without a log: the file is all there is."""
    if not raw.startswith(MAGIC[: len(raw)]):
        raise errors.StoreForeign(str(path), "its first bytes are not those of a database")
    if len(raw) < 108:
        raise errors.StoreForeign(str(path), f"it was cut off: it has {size} bytes")
    header = DatabaseHeader.of(raw)
    if header.application != APPLICATION_ID:
        if header.tables or header.application:
            raise errors.StoreForeign(str(path), "it is a database of another program")
        refuse_lost(path, marker, NO_TABLES)
        return
    known = newest_version("sqlite")
    if header.version > known:
        raise errors.StoreNewer(str(path), header.version, known)
    if header.pages * header.page_size > size:
        raise errors.StoreForeign(
            str(path), f"it was cut off: it has {size} of {header.pages * header.page_size} bytes"
        )


def _has(name: str) -> bool:
    try:
        return os.stat(name).st_size > 0
    except OSError:
        return False


def why_unwritable(path: Path) -> str:
    """Why a database that is there cannot be written; "" when it can, or when there is none."""
    if not os.path.exists(path):
        return ""
    for each, what in ((path, "the file"), (path.parent, f"the folder {path.parent}")):
        if not os.access(each, os.W_OK):
            mounted = os.statvfs(each).f_flag & os.ST_RDONLY
            return "its file system is read-only" if mounted else f"no permission to write {what}"
    return ""


# -- what speaks for a database that is not there ----------------------------------------------------


def refuse_lost(path: Path, marker: Path | None, how: str) -> None:
    """Raises StoreLost when something shows that there was a database."""
    for evidence in _evidence(path, marker, log=how != NO_TABLES):
        if how == "is gone" and path.exists():  # another process has made it, and what we saw is its
            return
        raise errors.StoreLost(str(path), how, evidence)


def _evidence(path: Path, marker: Path | None, log: bool) -> Iterator[str]:
    """A log speaks for a file that is gone. Beside one without tables it may be left of making it."""
    if marker is not None and os.path.lexists(marker):
        yield f"{marker} says that one was made"
    if log and _has(f"{path}-wal"):
        yield f"its log {path.name}-wal is there"
    folder = path.parent
    for name in ("blobs", "work", "recall"):
        if _has_file(folder / name):
            yield f"{folder / name} has files"
    mirror = (folder.parent if folder.name == "default" else folder) / "runs"
    if marker is not None and _has_file(mirror):
        yield f"the mirror {mirror} has files"


def _has_file(folder: Path) -> bool:
    """Whether anything but folders is below."""
    return any(names for _, _, names in os.walk(folder))


def remember(marker: Path) -> None:
    """Note that a database was made. Where that cannot be written, what lies beside the database has to tell."""
    if os.path.lexists(marker):
        return
    with suppress(OSError):
        make_folder(marker.parent)
        make_file(marker)


# -- its schema --------------------------------------------------------------------------------------


def migrate(
    connection: apsw.Connection, path: str, refuse_lost: Callable[[], None] = lambda: None, steps: Steps | None = None
) -> None:
    """Apply what is missing, each migration whole. Raises StoreNewer, StoreForeign, and what `refuse_lost` does.

    That one is asked before a database is made from nothing, under the lock: nobody else can have made it then.
    """
    newest = steps[-1][0] if steps else newest_version("sqlite")
    if int(connection.pragma("user_version")) == newest:
        refuse_foreign(connection, path)
        return
    with transaction(connection):
        found = schema_version(connection, path, newest)  # under the lock: another process may have been first
        if found == 0:
            refuse_lost()
        for number, text in steps or migrations("sqlite"):
            if number > found:
                for _ in connection.execute(text):  # iterating runs every statement of the text
                    pass
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {newest}")


@contextmanager
def transaction(connection: apsw.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """All that is done inside, or none of it."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if not connection.getautocommit():  # SQLite has rolled back by itself after some errors
            connection.execute("ROLLBACK")
        raise


def refuse_foreign(connection: apsw.Connection, path: str) -> None:
    """Raises StoreForeign for a database that is not ours, before anything in it is changed."""
    both = "SELECT (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)"
    application, tables = next(connection.execute(both))  # of one moment: another process may be making it now
    if application != APPLICATION_ID and tables:
        raise errors.StoreForeign(path, "it is a database of another program")


def schema_version(connection: apsw.Connection, path: str, known: int) -> int:
    """Which one it is of. Raises StoreForeign, StoreNewer."""
    refuse_foreign(connection, path)
    version = int(connection.pragma("user_version"))
    if version > known:
        raise errors.StoreNewer(path, version, known)
    return version


def differences(connection: apsw.Connection, steps: Steps | None = None) -> Iterator[str]:
    """What was added, taken away or changed, in words."""
    found, wanted = _parts(connection), _parts(_new(steps or migrations("sqlite")))
    for part in sorted(found.keys() | wanted.keys()):
        kind, name = part
        if part not in found:
            yield f"{kind} {name} is missing"
        elif part not in wanted:
            yield f"{kind} {name} is none of ours"
        elif found[part] != wanted[part]:
            yield f"{kind} {name} was changed"


def _parts(connection: apsw.Connection) -> dict[tuple[str, str], str]:
    found = {(str(kind), str(name)): str(sql) for kind, name, sql in connection.execute(_PARTS)}
    return {part: sql for part, sql in found.items() if part[0] != "trigger" or not re.fullmatch(SEAL, sql)}


def _new(steps: Steps) -> apsw.Connection:
    """An empty store of this version, in memory."""
    made = apsw.Connection(":memory:")
    for _, text in steps:
        for _ in made.execute(text):
            pass
    return made


# -- a copy of it ------------------------------------------------------------------------------------

PAGES = 1000  # at a time: a signal is heard in between

Progress = Callable[[int, int], None]  # pages done, pages in all


def copy_database(source: apsw.Connection, place: Path, progress: Progress = lambda done, total: None) -> None:
    """Write what `source` sees now into a new file. It is not synced: whoever keeps it does that.

    A read transaction holds the moment, so commits of others neither show in the copy nor begin it again. What others
    write stays in the log meanwhile.
    """
    source.execute("BEGIN")
    try:
        for _ in source.execute("SELECT count(*) FROM sqlite_schema"):  # here the moment is chosen
            pass
        with closing(apsw.Connection(str(place))) as target:
            target.pragma("journal_mode", "OFF")
            target.pragma("synchronous", "OFF")
            with target.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(PAGES)
                    progress(backup.page_count - backup.remaining, backup.page_count)
    finally:
        if not source.getautocommit():
            source.execute("ROLLBACK")
