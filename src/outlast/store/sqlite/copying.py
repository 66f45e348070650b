"""A copy of a database as it is at one moment, taken while others write: page by page, and nobody waits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

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
