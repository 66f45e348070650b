"""Runs: their rows, leases and journals, what they wait for, what reaches them, and what is left of those removed.

And rows that no store wrote: what is left of them, so that whoever lists them can name them and show the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from outlast import errors
from outlast.ledger.journal import JournalEntry
from outlast.values.frozen import NamedTuple

MARK = "\x1f"  # begins the id of an operation that no caller named: it cannot be printed, and names can
ENTRIES = 128  # of a journal that is read as it is used: at most 4 MiB of results


class Hold(Struct, eq=False):
    """A lease in hand, with the end of the chain it guards. The store moves the head at each commit."""

    run_key: int  # of the run or the anchor, and of its chain
    run_id: str
    lease_key: int
    epoch: int
    head: int
    hash: bytes


class LeaseRow(NamedTuple):
    key: int
    epoch: int
    head: int
    hash: bytes
    holder: str | None


class RunRow(NamedTuple):
    key: int
    id: str
    scope: str
    flow: str
    task: str
    inputs: str
    inputs_digest: str
    status: str
    phase: str
    result: str | None
    error: str | None
    parent: str
    session: str
    trace_id: str
    meta: str
    actor: str
    created_at: int
    updated_at: int
    mark: int
    seal: str
    named: int
    identity: str
    source: str
    worktree: str


class FinishedRow(NamedTuple):
    """A finished run of a named task, or what is left of one that was removed."""

    key: int
    id: str
    task: str
    flow: str
    status: str
    inputs_digest: str
    ended_at: int
    error: str | None
    removed: int
    identity: str
    source: str
    worktree: str


class NewRun(NamedTuple):
    id: str
    scope: str
    flow: str
    task: str
    inputs: str
    inputs_digest: str
    parent: str
    session: str
    trace_id: str
    meta: str
    actor: str
    at: int
    named: int = 0  # 1: the caller gave the task its name
    identity: str = ""
    source: str = ""
    worktree: str = ""
    tags: tuple[str, ...] = ()  # kept beside the row, and in the run's first entry

    def as_row(self, key: int, status: str) -> RunRow:
        """What is stored of it."""
        began, about, at, known = self[:6], self[6:11], self.at, self[12:16]
        return RunRow(key, *began, status, "", None, None, *about, at, at, 0, "", *known)


def status_of_new(holder: str | None) -> str:
    """That of a run as it is added: running in its holder's hands, or queued."""
    return "queued" if holder is None else "running"


class Ending(NamedTuple):
    """How a run's status row looks after a body ended."""

    status: str
    phase: str
    result: str | None
    error: str | None
    at: int


NOT_PLAIN = object()  # in place of what the work would give, where there is more to it


class PlainStart(NamedTuple):
    """A new run in a process's hands, as it is added where nothing is known of its task and that process is alive."""

    run: NewRun
    start: bytes  # what its chain begins with
    entry: JournalEntry  # the first, which refers to no blob
    holder: str
    beaten_after: int  # its last sign of life, by the clock of its machine: after this
    beaten_upto: int
    receiver: str  # who is to receive the outcome; '': that is not noted
    given: Callable[[Hold, RunRow], Any]  # what the work would have given


class PlainEnd(NamedTuple):
    """The end of a run that nothing waits for, whose row is as its holder wrote it; the lease is let go of with it."""

    hold: Hold
    entry: JournalEntry  # the last, and the only one that is not written yet; it refers to no blob
    run: RunRow  # as it is before
    ending: Ending
    receiver: str


class Weight(NamedTuple):
    """What a run takes up: entries of its journal and their bytes, those of its own row, its waits and requests."""

    entries: int
    entry_bytes: int
    row_bytes: int
    waits: int


class Kin(NamedTuple):
    """What the rules of removal look at in a run."""

    key: int
    id: str
    scope: str
    flow: str
    task: str
    status: str
    parent: str
    ended_at: int
    seal: str
    holder: str | None
    head: int | None  # None when its lease row is missing
    identity: str = ""  # of its flow, in every place


class Tombstone(NamedTuple):
    """What is left of a run that was removed."""

    id: str
    flow: str
    task: str
    status: str
    ended_at: int
    removed_at: int
    removed_by: str


class KeptOutcome(NamedTuple):
    """What is kept of a run that is removed, so that its task happens once: was it named, and its outcome in short."""

    named: int
    result: str  # a digest of it
    error: str | None


class Slice(NamedTuple):
    """A piece of a removed run's journal: the entries after one seq up to another; the last one when `whole`."""

    chain: int
    after: int
    upto: int
    whole: bool


class InterruptRow(NamedTuple):
    key: int
    id: str
    run: int
    type: str
    call: str
    step: str
    payload: str
    status: str
    answer: str | None
    answered_by: str
    opened_at: int
    due_at: int | None
    form: str
    reason: str
    run_id: str


class EntryRow(NamedTuple):
    """An entry of whatever chain, by its number among all of them, with its run; one of a handoff has none."""

    key: int
    seq: int
    header: bytes
    hash: bytes
    payload: bytes | None
    run: int
    run_id: str
    scope: str
    flow: str
    identity: str
    task: str
    trace_id: str


class HeaderRow(NamedTuple):
    """The header of an entry of whatever chain, with the run or the anchor that it is of."""

    key: int
    header: bytes
    scope: str
    run_id: str
    flow: str
    anchor: str


class InboxRow(NamedTuple):
    """An open wait, and whose it is."""

    wait: InterruptRow
    task: str
    flow: str
    scope: str


class NewWait(NamedTuple):
    """A wait to be saved: of which call, what is asked, until when, and what an answer must look like."""

    type: str
    call: str
    step: str
    payload: str
    at: int
    due: int | None = None
    form: str = "{}"


class SignalRow(NamedTuple):
    """A message to a run or a task that nobody has taken yet."""

    key: int
    id: str
    name: str
    body: str
    actor: str
    sent_at: int


class NewSignal(NamedTuple):
    id: str
    scope: str
    task: str
    run: int
    name: str
    body: str
    actor: str
    at: int
    taken: str = ""


LAST = 253_402_300_799_999_999  # the end of the year 9999, in microseconds: no time is later


class Damaged:
    """Mixed into a row whose columns cannot all be read. Those that cannot be, stand empty."""

    columns: tuple[str, ...] = ()


def damage_of(row: object) -> str:
    """What is wrong with a row, in words; empty when it can be read."""
    return f"its {', '.join(row.columns)} cannot be read" if isinstance(row, Damaged) else ""


def refuse_damaged(row: object, record: str) -> None:
    """Raises IntegrityBroken for a row that nobody may act on."""
    if isinstance(row, Damaged):
        raise errors.IntegrityBroken(record, damage_of(row))
