"""Transcripts of a run's commands, in order: of the attempts that ended, and as far as they go of those that did not.

A short transcript is in its receipt, a longer one is a blob; while a command runs, or if its runtime died, it is a
file in the work folder. Nothing is held in memory: a transcript is read piece by piece.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from msgspec.structs import replace

from outlast.clock import moment
from outlast.commands.leftovers import TAIL, work_folder
from outlast.errors import StepNotFound
from outlast.home.caller import Caller
from outlast.home.home import Home, run_row
from outlast.ledger.journal import Row, facts_in
from outlast.runs import journal
from outlast.runs.call import Call, labels
from outlast.runs.decisions import find_call
from outlast.runs.heard import Heard, attempts_of
from outlast.runs.look import record_now
from outlast.store.contract import Reading, RunRow
from outlast.values.frozen import Compared
from outlast.values.private import open_plain

PIECE_BYTES = 1 << 16
POLL_SECONDS = 0.2

NOTHING: Mapping[tuple[Call, int], dict[str, Any]] = {}
Pieces = Callable[[], Iterator[bytes]]


class CommandLog(Compared, frozen=True):
    """What one attempt of a command printed."""

    _aside = ("read",)

    step: str
    attempt: int
    status: str  # of its receipt; running, or crashed, while it has none
    exit: int | None
    started_at: datetime
    ended_at: datetime | None
    size_bytes: int | None  # of the transcript; None while it may grow
    incomplete: str  # why something of it is missing
    masked: int | None  # how many secrets were masked in it; None while nobody has counted
    read: Pieces

    def pieces(self) -> Iterator[bytes]:
        """The transcript, piece by piece. Raises IntegrityBroken when it is gone or is not what was stored."""
        return self.read()


def logs(caller: Caller, run_id: str, step: str | None = None, attempt: int | None = None) -> list[CommandLog]:
    """The transcripts of a run, or of one of its steps, in order. A run of Python code has none.

    Raises StepNotFound, StepAmbiguous.
    """
    row = run_row(caller.home, run_id)
    live = record_now(caller, row).status == "running"
    kept, call = caller.home.store.read(lambda look: (journal.read(look, row), _meant(look, row, step)))
    every = [each for each in attempts_of(kept.rows, kept.flaws) if call in (None, each.call)]
    found = [each for each in every if attempt in (None, each.attempt)]
    if not found and (step is not None or attempt is not None):
        wanted = " ".join(part for part in (step or "", f"(attempt {attempt})" if attempt else "") if part)
        known = [f"{each.label} (attempt {each.attempt})" for each in every]
        raise StepNotFound(row.id, wanted, ", ".join(known[-8:]) or "none yet")
    newest = {each.call: each for each in found}
    left = _left(kept.rows)
    made = (_log(caller.home, row.id, each, live and newest[each.call] is each, left) for each in found)
    return [log for log in made if log is not None]


def _meant(look: Reading, row: RunRow, step: str | None) -> Call | None:
    return find_call(look, row, step)[0] if step is not None else None


def _left(rows: Sequence[Row]) -> dict[tuple[Call, int], dict[str, Any]]:
    """The transcripts of crashed attempts that a later one put on the record; an older version noted a blob's name."""
    facts = (facts_in(row) for row in rows if b'"run","left"' in row.header)
    found = {(Call(*each["call"]), each["attempt"]): each["transcript"] for each in facts if each}
    return {at: kept if isinstance(kept, dict) else {"blob": kept, "size": 0} for at, kept in found.items() if kept}


def _log(
    home: Home, run_id: str, heard: Heard, live: bool, left: Mapping[tuple[Call, int], dict[str, Any]] = NOTHING
) -> CommandLog | None:
    """The transcript of an attempt; None when it is of nothing that prints."""
    header = heard.header
    if header.status == "started" and (printed := left.get((heard.call, header.attempt))):
        return _made(heard, "crashed", {}, None, _pieces(home, printed)[1])
    if header.status == "started":
        path = work_folder(home, run_id, heard.call, header.attempt) / TAIL
        again = (lambda: _ended(home, run_id, heard)) if live else None
        return _made(heard, "running" if live else "crashed", {}, None, lambda: _of_file(path, again))
    facts = (facts_in(heard.before) if heard.before is not None else {}) | facts_in(heard.row)
    kept = facts.get("transcript")
    if not isinstance(kept, dict):
        return None
    size, read = _pieces(home, kept)
    return _made(heard, header.status, facts, size, read)


def _pieces(home: Home, kept: Mapping[str, Any]) -> tuple[int, Pieces]:
    """A transcript that is on the record: how long it is, and what reads it."""
    if "blob" in kept:
        return int(kept["size"]), lambda: home.blobs.pieces(kept["blob"])
    text = str(kept.get("text", "")).encode("utf-8", "backslashreplace")
    return len(text), lambda: iter([text] if text else [])


def _made(heard: Heard, status: str, facts: dict[str, Any], size: int | None, read: Pieces) -> CommandLog:
    header = heard.header
    return CommandLog(
        step=heard.label,
        attempt=header.attempt,
        status=status,
        exit=facts.get("exit"),
        started_at=moment(header.started_at),
        ended_at=moment(header.ended_at) if header.ended_at else None,
        size_bytes=size,
        incomplete=str(facts.get("transcript_incomplete", "")),
        masked=int(facts.get("masked", 0)) if "transcript" in facts else None,
        read=read,
    )


def _of_file(path: Path, again: Callable[[], CommandLog | None] | None) -> Iterator[bytes]:
    """What is in a work folder. When that was cleared a moment ago, the receipt has it."""
    try:
        with open_plain(path) as file:
            yield from iter(lambda: file.read(PIECE_BYTES), b"")
    except FileNotFoundError:
        ended = again() if again is not None else None
        yield from ended.pieces() if ended is not None else ()


def _ended(home: Home, run_id: str, heard: Heard) -> CommandLog | None:
    """The log of an attempt that has ended since it was looked at."""
    key = run_row(home, run_id).key
    rows = home.store.read(lambda look: look.journal_of(key, heard.row.seq))
    place = (heard.call, heard.attempt)
    later = next((each for each in attempts_of(rows) if (each.call, each.attempt) == place), None)
    return _log(home, run_id, replace(later, label=heard.label), live=False) if later is not None else None


# -- following -----------------------------------------------------------------------------------------


def follow(
    caller: Caller, run_id: str, step: str | None = None, attempt: int | None = None
) -> Iterator[tuple[CommandLog, bytes]]:
    """What a run's commands printed and print, as it comes, until the run ends or waits.

    An empty piece says that its attempt has ended. STEP may be one that has not begun yet. Raises StepNotFound at the
    end when there was none.
    """
    row = run_row(caller.home, run_id)
    following = _FilesUnderWay(caller.home, row.id, step, attempt)
    while True:
        # before its journal is read: the last entries are there then
        going = record_now(caller, row).status == "running"
        yield from following.news(going)
        if not going:
            break
        time.sleep(POLL_SECONDS)
    if step is not None and not following.met:
        raise StepNotFound(row.id, step, ", ".join(following.known()) or "none yet")


class _FilesUnderWay:
    """The attempts of a run under way, each with its file held open: it may be removed before it is read to its end."""

    def __init__(self, home: Home, run_id: str, step: str | None, attempt: int | None) -> None:
        self._home, self._run_id, self._step, self._attempt = home, run_id, step, attempt
        self._key = run_row(home, run_id).key
        self._after = 0
        self._calls: dict[Call, Row] = {}  # where each call first appears
        self._open: dict[tuple[Call, int], tuple[CommandLog, BinaryIO | None]] = {}
        self._left: dict[tuple[Call, int], dict[str, Any]] = {}  # of crashed attempts that are on the record
        self.met = False

    def known(self) -> list[str]:
        return [*labels(self._calls.values()).values()][-8:]

    def news(self, going: bool) -> Iterator[tuple[CommandLog, bytes]]:
        rows = self._home.store.read(lambda look: look.journal_of(self._key, self._after))
        self._after = rows[-1].seq if rows else self._after
        found = attempts_of(rows)
        for each in found:
            self._calls.setdefault(each.call, each.row)
        names = labels(self._calls.values()) if found else {}
        every = (replace(each, label=names[each.call]) for each in found)
        of_step = (each for each in every if self._step in (None, each.label, each.call.step))
        heard = [each for each in of_step if self._attempt in (None, each.attempt)]
        self._left |= _left(rows)
        newest = {each.call: each for each in heard}
        for each in heard:
            yield from self._entry(each, going and newest[each.call] is each)
        for log, file in self._open.values():
            yield from ((log, piece) for piece in _rest(file))

    def _entry(self, heard: Heard, live: bool) -> Iterator[tuple[CommandLog, bytes]]:
        self.met = True
        place = (heard.call, heard.attempt)
        _, file = self._open.pop(place, (None, None))
        log = _log(self._home, self._run_id, heard, live, self._left)
        if log is None:
            return
        if heard.header.status == "started" and not self._left.get(place):
            self._open[place] = log, self._opened(heard)
            return
        with file if file is not None else nullcontext():
            yield from ((log, piece) for piece in (_rest(file) if file is not None else log.pieces()))
        yield log, b""

    def _opened(self, heard: Heard) -> BinaryIO | None:
        """The file of an attempt; None when it was cleared: then its receipt is next, and has it all."""
        try:
            return (work_folder(self._home, self._run_id, heard.call, heard.attempt) / TAIL).open("rb")
        except OSError:
            return None


def _rest(file: BinaryIO | None) -> Iterator[bytes]:
    return iter(lambda: file.read(PIECE_BYTES), b"") if file is not None else iter(())
