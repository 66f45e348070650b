"""The plain steps that a process is at, for who finds it dead.

The start of a plain step is in the journal only when it has run for a while: writing it would cost a sync. A note of it
lies in a file that the process has mapped into its memory, which costs neither a sync nor a call of the system, and
which the kernel keeps when the process is killed. When the machine goes down it may be gone; then nobody knows.

A note says that a step began. Whether it ended, the journal says: nothing is wiped here.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from outlast.ledger.journal import JournalEntry, Payload, Row, entry
from outlast.runs import journal
from outlast.runs.call import Call, Past, fold, header_of
from outlast.runs.found import FoundRun, find, folded
from outlast.store.contract import Hold, LeaseRow, Reading, RunRow
from outlast.values.private import make_folder, open_file

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs.attempt import Attempt

FOLDER = "under-way"  # in a tenant's folder; a file for each process, named by its id
PLACES, BYTES = 128, 512  # how many notes a file has room for, and how long each may be
KEPT_SECONDS = 8 * 86_400  # what nobody has asked for since is removed


class StepNote(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """That an attempt began: all that its start in the journal would say."""

    run_id: str
    epoch: int
    place: tuple[str, str, str, int]
    attempt: int
    started_at: int
    item: int
    digest: str
    agent: str
    code: str
    crashes: int | None

    @property
    def call(self) -> Call:
        return Call(*self.place)


WRITTEN = 1  # the first byte of a place, once all of its note is there; a line follows it
_encode = msgspec.json.Encoder().encode


class StepNotes:
    """The file of this process. Where it cannot be made there are no notes, and nothing else is missing."""

    def __init__(self, folder: Path, process_id: str) -> None:
        self._path = folder / FOLDER / process_id
        self._map: mmap.mmap | None = None
        self._free = self._open()

    def _open(self) -> list[int]:
        try:
            make_folder(self._path.parent)
            _forget_old(self._path.parent)
            handle = open_file(self._path, os.O_RDWR)
            try:
                os.posix_fallocate(handle, 0, PLACES * BYTES)  # a full disk is found out here, not by a signal
                self._map = mmap.mmap(handle, PLACES * BYTES)
            finally:
                os.close(handle)
        except (OSError, ValueError):
            return []
        return [place * BYTES for place in reversed(range(PLACES))]

    def begin(self, hold: Hold, attempt: Attempt) -> int:
        """Note that an attempt begins; where that is to be given back, or -1."""
        asked = attempt.asked
        spec, began = asked.spec, (attempt.number, attempt.started_at, asked.item, asked.digest)
        note = (hold.run_id, hold.epoch, asked.call, *began, spec.agent, spec.code, spec.crashes)
        return self.put(_encode(note) + b"\n")

    def put(self, line: bytes) -> int:
        """The same for a note as it is kept."""
        notes = self._map
        if notes is None or len(line) >= BYTES:
            return -1
        try:
            place = self._free.pop()
        except IndexError:  # that many are under way
            return -1
        notes[place] = 0  # who is killed here leaves no note: half of one would tell of a call that nobody made
        notes[place + 1 : place + 1 + len(line)] = line
        notes[place] = WRITTEN
        return place

    def end(self, place: int) -> None:
        """The attempt is over: another one may use its place."""
        self._free.append(place)

    def remove(self) -> None:
        """This process ends, and has left nothing under way."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def _forget_old(folder: Path) -> None:
    with suppress(OSError), os.scandir(folder) as found:
        for each in found:
            with suppress(OSError):
                if each.stat().st_mtime < time.time() - KEPT_SECONDS:
                    os.unlink(each.path)


# -- who finds a process dead ------------------------------------------------------------------------


def left_by_owner(home: Home, run: RunRow, lease: LeaseRow) -> tuple[StepNote, ...]:
    """What the last owner of a run that was executed noted of it. It may have ended since: `unrecorded` knows."""
    if not lease.holder or run.status != "running" or "/" in lease.holder:
        return ()
    try:
        raw = (home.folder / FOLDER / lease.holder).read_bytes()
    except OSError:
        return ()
    notes = filter(None, (_read(raw[at : at + BYTES]) for at in range(0, len(raw), BYTES)))
    mine = [note for note in notes if (note.run_id, note.epoch) == (run.id, lease.epoch)]
    return tuple(sorted(mine, key=lambda note: note.started_at))


def _read(place: bytes) -> StepNote | None:
    """The note at a place; None where none is, or where its process died while it wrote it."""
    if place[:1] != bytes((WRITTEN,)):
        return None
    try:
        return msgspec.json.decode(place[1:].partition(b"\n")[0], type=StepNote)
    except msgspec.MsgspecError:
        return None


def unrecorded(look: Reading, found: FoundRun, left: Sequence[StepNote], epoch: int) -> list[JournalEntry]:
    """The starts that the journal does not know of: those attempts were under way when their process died."""
    known = found.ledger.calls
    if found.run.mark and any(note.call not in known for note in left):
        known = fold(*journal.read(look, found.run)[:2]).calls  # the ledger lacks what was over before the mark
    return [_entry(note, found.run.trace_id, epoch) for note in left if _is_news(note, known.get(note.call))]


def _is_news(note: StepNote, past: Past | None) -> bool:
    return past is None or past.last.epoch != note.epoch or past.attempts < note.attempt


def starts_of(home: Home, look: Reading, run: RunRow, lease: LeaseRow) -> list[JournalEntry]:
    """The starts that whoever takes a run from its dead owner writes down first."""
    left = left_by_owner(home, run, lease)
    return unrecorded(look, find(look, run, lease), left, lease.epoch + 1) if left else []


def rows_of_starts(home: Home, look: Reading, run: RunRow, rows: Sequence[Row]) -> list[Row]:
    """The same behind these rows, which are the run's whole journal."""
    lease = look.lease_of(run.id)
    return _numbered(starts_of(home, look, run, lease) if lease is not None else [], rows)


def _numbered(entries: Sequence[JournalEntry], rows: Sequence[Row]) -> list[Row]:
    """Entries as they stand behind these rows."""
    first = 1 + (rows[-1].seq if rows else 0)
    return [Row(seq, each.header, b"", each.payload) for seq, each in enumerate(entries, first)]


def with_notes(home: Home, look: Reading, found: FoundRun) -> FoundRun:
    """A run that nobody holds, as it is when its next owner has written down what was under way."""
    left = left_by_owner(home, found.run, found.lease)
    entries = unrecorded(look, found, left, found.lease.epoch + 1) if left else []
    return with_entries(found, entries) if entries else found


def with_entries(found: FoundRun, entries: Sequence[JournalEntry]) -> FoundRun:
    """The run as it is when these stand in its journal."""
    rows = [*found.rows, *_numbered(entries, found.rows)]
    return found._replace(rows=rows, ledger=folded(found.run, rows, found.flaws))


def _entry(note: StepNote, trace_id: str, epoch: int) -> JournalEntry:
    seen = f"{note.item}#{note.digest}" if note.item else note.digest
    header = header_of("step", note.call, attempt=note.attempt, status="started", agent=note.agent, code=note.code)
    header = replace(header, started_at=note.started_at, epoch=epoch, trace_id=trace_id, seen=seen)
    return entry(header, Payload(facts={"crashes": note.crashes}) if note.crashes else Payload())
