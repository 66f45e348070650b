"""Runs: their rows, leases and journals, what they wait for, what reaches them, and what is left of those removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from outlast.ledger.journal import Row
from outlast.ledger.lease import Beat
from outlast.values.frozen import NamedTuple

MARK = "\x1f"  # begins the id of an operation that no caller named: it cannot be printed, and names can


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


class Ending(NamedTuple):
    """How a run's status row looks after a body ended."""

    status: str
    phase: str
    result: str | None
    error: str | None
    at: int


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


class WaitReading(Protocol):
    """Lookups, each by an index."""

    def waits_of(self, run_key: int) -> list[InterruptRow]: ...
    def open_waits(self, after: int = 0, limit: int | None = None) -> list[InterruptRow]: ...
    def inbox_waits(self) -> list[InboxRow]: ...
    def interrupts_by_prefix(self, prefix: str) -> list[InterruptRow]: ...
    def interrupts_of(self, run_key: int) -> list[InterruptRow]: ...
    def untaken(self, run_key: int) -> list[tuple[int, str, str, str]]: ...
    def requests_of(self, run_key: int) -> list[tuple[str, str, str, int]]: ...
    def signal_for(self, run: RunRow, name: str) -> SignalRow | None: ...
    def untaken_signals(self, run: RunRow) -> list[str]: ...
    def untaken_bodies(self) -> list[str]: ...
    def operation(self, operation_id: str) -> tuple[str, str, str] | None: ...
    def operations_of(self, run_id: str) -> list[tuple[str, str, int]]: ...
    def is_undelivered(self, run_id: str) -> bool: ...
    def deliveries_of(self, scope: str, task: str, since: int) -> list[tuple[str, str]]: ...


class WaitWriting(WaitReading, Protocol):
    """Writes inside a transaction."""

    def add_interrupt(self, interrupt_id: str, run_key: int, wait: NewWait) -> bool: ...
    def answer_interrupt(self, interrupt_id: str, answer: str, by: str) -> bool: ...
    def end_interrupt(self, interrupt_id: str, by: str, reason: str) -> bool: ...
    def use_interrupt(self, interrupt_id: str) -> None: ...
    def cancel_interrupts(self, run_key: int) -> None: ...
    def remove_waits(self, run_key: int, limit: int | None = None) -> None: ...
    def add_signal(self, signal: NewSignal) -> None: ...
    def take_signal(self, key: int, interrupt_id: str) -> None: ...
    def give_back_signals(self, run_key: int) -> None: ...
    def send(self, run_key: int, kind: str, body: str, actor: str, at: int) -> None: ...
    def take(self, key: int) -> None: ...
    def add_operation(self, operation_id: str, kind: str, digest: str, answer: str, at: int) -> None: ...
    def add_delivery(self, run_key: int, scope: str, task: str, receiver: str) -> None: ...
    def set_receiver(self, run_key: int, receiver: str) -> None: ...
    def remove_delivery(self, run_id: str) -> None: ...
    def forget_deliveries(self, scope: str, task: str, before: int) -> None: ...


class RunReading(WaitReading, Protocol):
    """Lookups, each by an index."""

    def run_by_id(self, run_id: str) -> RunRow | None: ...
    def runs_by_prefix(self, prefix: str) -> list[RunRow]: ...
    def unfinished_run(self, scope: str, task: str, identity: str) -> RunRow | None: ...
    def unfinished_of_task(self, scope: str, task: str) -> list[RunRow]: ...
    def unfinished_of_scope(self, scope: str) -> list[RunRow]: ...
    def finished_of_task(self, scope: str, task: str) -> list[FinishedRow]: ...
    def unfinished_of_flow(self, scope: str, identity: str, limit: int) -> list[RunRow]: ...
    def newest_runs(self, status: str | None, limit: int, before: int) -> list[RunRow]: ...
    def count_runs(self) -> dict[str, int]: ...
    def children_of(self, run_id: str) -> list[RunRow]: ...
    def lease_of(self, run_id: str) -> LeaseRow | None: ...
    def leases_of(self, run_ids: Sequence[str]) -> dict[str, LeaseRow]: ...
    def beat_of(self, holder: str) -> Beat | None: ...
    def runs_held_by(self, process_id: str) -> list[str]: ...
    def count_processes(self) -> int: ...
    def holders(self) -> list[Beat]: ...
    def journal_of(self, chain: int, after: int = 0, limit: int | None = None) -> list[Row]: ...
    def entries_of(self, chain: int, seqs: Sequence[int]) -> list[Row]: ...
    def hash_at(self, chain: int, seq: int) -> bytes | None: ...
    def entry_sizes(self, chain: int, after: int, limit: int) -> list[tuple[int, int]]: ...
    def journals_of_nothing(self) -> list[int]: ...
    def leases_without_run(self) -> list[str]: ...
    def blobs_of(self, chain: int) -> list[str]: ...
    def blob_refs_upto(self, chain: int, seq: int) -> list[tuple[int, str]]: ...
    def chains_of_blob(self, name: str) -> set[int]: ...
    def blobs_between(self, first: str, end: str) -> set[str]: ...
    def kin_of_status(self, status: str, limit: int, before: int) -> list[Kin]: ...
    def weight_of(self, run_key: int) -> Weight: ...
    def unswept(self) -> list[tuple[int, str]]: ...
    def tombstones_by_prefix(self, prefix: str) -> list[Tombstone]: ...


class RunWriting(RunReading, WaitWriting, Protocol):
    """Writes inside a transaction."""

    def add_run(self, run: NewRun, start: bytes, holder: str) -> Hold: ...
    def take_lease(self, lease: LeaseRow, holder: str | None) -> bool: ...
    def release_lease(self, hold: Hold) -> None: ...
    def set_run_status(self, run_key: int, status: str, at: int) -> None: ...
    def set_run_phase(self, run_key: int, phase: str) -> None: ...
    def set_run_flow(self, run_key: int, identity: str, source: str, worktree: str) -> None: ...
    def set_run_mark(self, run_key: int, seq: int) -> None: ...
    def name_run(self, run_key: int) -> None: ...
    def end_run(self, run_key: int, ending: Ending) -> None: ...
    def beat(self, beat: Beat) -> None: ...
    def beat_claim(self, beat: Beat) -> None: ...
    def forget_process(self, process_id: str) -> None: ...
    def forget_holder(self, holder: str) -> None: ...
    def note_shared(self, process_id: str) -> None: ...
    def forget_silent_processes(self, since: int) -> None: ...
    def bury(self, run_key: int, run_id: str, at: int, by: str, kept: KeptOutcome) -> None: ...
    def remove_slice(self, piece: Slice) -> None: ...
    def seal_run(self, run_key: int, seal: str, status: str) -> None: ...
    def add_arrived(self, run: RunRow, epoch: int, head: int, hash_: bytes) -> int: ...
    def renew_arrived(self, run: RunRow, lease: LeaseRow) -> None: ...
    def fill_arrived(
        self,
        run_key: int,
        rows: Sequence[Row],
        refs: Sequence[tuple[int, str]],
        waits: Sequence[InterruptRow],
        requests: Sequence[tuple[str, str, str, int]],
    ) -> None: ...
