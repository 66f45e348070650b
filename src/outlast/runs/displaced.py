"""What gave way when files were put back: on the record of its run, and kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.clock import moment
from outlast.errors import DisplacedNotFound
from outlast.home.find import run_row
from outlast.ledger.journal import decode_header, decode_payload
from outlast.values.frozen import dataclass
from outlast.workspace.artifact import write_whole

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.store.contract import RunRow

Pieces = Callable[[], Iterator[bytes]]
_DISPLACED = b'["run","displaced"'


def _nothing() -> Iterator[bytes]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Displaced:
    """A file as it was before another took its place."""

    run_id: str
    seq: int  # of the entry that says so
    step: str  # for which files were put back
    path: str  # from the folder that the step works in
    digest: str
    at: datetime
    read: Pieces = field(default=_nothing, repr=False, compare=False)

    def pieces(self) -> Iterator[bytes]:
        """Its content, piece by piece. Raises IntegrityBroken when it is not what was kept."""
        return self.read()

    def content(self) -> bytes:
        """The same at once."""
        return b"".join(self.read())

    def save_to(self, path: str | os.PathLike[str]) -> Path:
        """Write the content to a file: all of it, checked and durable, or nothing. A file that is there gives way."""
        return write_whole(Path(path), self.read())


def displaced(home: Home, run_id: str, path: str | None = None, seq: int | None = None) -> list[Displaced]:
    """Every file of a run that gave way, the oldest first; only those of a path or an entry.

    Raises RunNotFound, DisplacedNotFound for a path or entry of which none did.
    """
    row = run_row(home, run_id)
    found = _all(home, row)
    alike = [one for one in found if path in (None, one.path) and seq in (None, one.seq)]
    if not alike and (path, seq) != (None, None):
        place = ", ".join(filter(None, (path and repr(path), f"entry {seq}" if seq is not None else "")))
        raise DisplacedNotFound(row.id, place, ", ".join(dict.fromkeys(one.path for one in found)) or "nothing")
    return alike


def _all(home: Home, row: RunRow) -> list[Displaced]:
    rows = home.store.read(lambda look: look.journal_of(row.key))
    return [
        one
        for entry in rows
        if entry.payload and entry.header.startswith(_DISPLACED)
        for one in _of_entry(home, row.id, entry.seq, entry.header, entry.payload)
    ]


def _of_entry(home: Home, run_id: str, seq: int, header: bytes, payload: bytes) -> Iterator[Displaced]:
    facts, at = decode_payload(payload).facts, moment(decode_header(header).ended_at)
    for path, blob in facts["files"].items() if isinstance(facts, dict) else ():

        def read(name: str = str(blob)) -> Iterator[bytes]:
            return home.blobs.pieces(name)

        yield Displaced(run_id, seq, str(facts["step"]), str(path), str(blob), at, read)
