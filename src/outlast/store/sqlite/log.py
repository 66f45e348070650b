"""The log of a database: room ahead of what is written into it, and its way into the database beside the writer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import apsw

from outlast import errors
from outlast.values.ambient import begin

if TYPE_CHECKING:
    from queue import SimpleQueue
else:
    from _queue import SimpleQueue  # `queue` has others too, with what they need

LEAST_ROOM, LOG_BYTES = 256 * 1024, 4_200_000  # a log begins anew after about a thousand pages
SOON, LATE = 4, 256  # commits between two looks at a log: while it grows, and once it has all its room
WHOLE_PAGES = 1_000  # in a log that the writer copies by itself
COPIED_PAGES, MOST_PAGES = 2_000, 8_000  # in one that is copied beside it; and where that does not come about
COPIES = 2  # one after the other: each takes what was written during the one before
LONE_COMMITS = 256  # in a row: from then on the writer copies by itself again


class LogRoom:
    """Room that the log has ahead of what is written into it.

    A sync of a file that grows waits for the journal of the file system too, which doubles what a step takes; one of
    room that is there already does not. The room is zeros, at which SQLite ends when it reads a log. It is appended:
    whoever writes behind the log's end meanwhile, whosever log it is by now, no byte that is there is written over,
    and SQLite writes its own at places that it knows. So no lock is needed.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._size = 0  # with all its room, when it was looked at last

    def keep(self) -> int:
        """Make more where something was written behind it; after how many commits to look again."""
        with suppress(OSError):
            if os.stat(self._path).st_size != self._size:
                self._make()
        return SOON if self._size < LOG_BYTES else LATE

    def _make(self) -> None:
        """As much again as there is, up to what a log has before it begins anew; nothing where the disk is full."""
        with suppress(OSError), open(self._path, "ab", buffering=0, opener=_appending) as log:
            self._size = os.fstat(log.fileno()).st_size
            if self._size < LOG_BYTES:
                self._size += log.write(bytes(min(max(LEAST_ROOM, self._size), LOG_BYTES - self._size)))


def _appending(path: str, _: int) -> int:
    """A log that is there: none is made."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


class LogCopier:
    """Copies the log into the database in a thread of its own while many wait for commits, so that they wait for less.

    What is there is copied while the writer goes on. What it writes meanwhile is little; its next commit copies that
    too, and a log that is copied whole begins anew. While one commit follows the other alone, the writer copies it all:
    nothing could be done beside it. Whenever a process or the machine ends, every page is in the log or in the
    database, as SQLite has it.
    """

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.serves: apsw.Connection | None = None  # the writer, while that leaves it to us
        self._stage = "grows"  # is copied, copied, ends
        self._from = 0  # pages that it had written when the log began
        self._lone = LONE_COMMITS

    def keep(self, writer: apsw.Connection, *, many: bool) -> None:
        """After a commit that many waited for, or that one did while we serve the writer; nobody else writes."""
        self._lone = 0 if many else self._lone + 1
        if self._lone <= LONE_COMMITS:
            self._go_on(writer, writer.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0])
        else:
            self.serves = None
            writer.wal_autocheckpoint(WHOLE_PAGES)

    def close(self) -> None:
        """No more copies; one that is under way is let end."""
        if self._thread is not None:
            self._wake.put(False)
            self._thread.join()
            self._thread = None

    def _go_on(self, writer: apsw.Connection, written: int) -> None:
        if self.serves is not writer or self._stage == "ends":
            self.serves, self._stage, self._from = writer, "grows", written
            writer.wal_autocheckpoint(MOST_PAGES)
        elif self._stage == "copied":
            self._stage = "ends"
            writer.wal_autocheckpoint(1)  # in its next commit
        elif self._stage == "grows" and written - self._from >= COPIED_PAGES:
            self._stage = "is copied"
            self._begin_copy()

    def _begin_copy(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="outlast-log", daemon=True)
            try:
                self._thread = begin(thread, "copying the log")
            except errors.NoThread:
                self._stage = "copied"  # the writer does it all
                return
        self._wake.put(True)

    def _serve(self) -> None:
        connection = None
        try:
            while self._wake.get():
                with suppress(apsw.Error):  # it cannot be copied here: then the writer does it, later
                    connection = connection or self._connect()
                    for _ in range(COPIES):
                        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                self._stage = "copied"
        finally:
            if connection is not None:
                connection.close()
