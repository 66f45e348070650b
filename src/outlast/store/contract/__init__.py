"""What the runtime may ask of a store, whichever database is behind it.

A store commits appends (the hot path) and pieces of work (everything else), many callers' at once in one
synced transaction. Each append guards itself by epoch and head; a stale one fails alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from outlast.ledger.journal import Break, Entry, Row
from outlast.ledger.lease import Beat
from outlast.store.contract.artifacts import ArtifactReading, ArtifactWriting
from outlast.store.contract.records import RecordReading, RecordWriting
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.care.gc.rule import Kin

T = TypeVar("T")
Ticket = Any  # what a store gives for something queued; only the store knows what it is

# What is proven row by row, because it is no entry of a chain.
PROVEN = (
    *(
        "runs",
        "leases",
        "processes",
        "interrupts",
        "inbox",
        "operations",
        "deliveries",
        "tombstones",
        "anchors",
        "handoffs",
        "signals",
    ),
    *("sessions", "tasks", "artifacts", "artifact_names", "artifact_dropped", "artifact_removed", "checkpoints"),
    *("records", "links", "stored_by", "workspace_shown"),
)


class Hold(Struct, eq=False):
    """A lease in hand, with the end of the chain it guards. The store moves the head at each commit."""

    run_key: int
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


class NewWait(NamedTuple):
    """A wait to be saved: of which call, what is asked, until when, and what an answer must look like."""

    type: str
    call: str
    step: str
    payload: str
    at: int
    due: int | None = None
    form: str = "{}"


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


class Weight(NamedTuple):
    """What a run takes up: entries of its journal and their bytes, those of its own row, its waits and requests."""

    entries: int
    entry_bytes: int
    row_bytes: int
    waits: int


class Tombstone(NamedTuple):
    """What is left of a run that was removed."""

    id: str
    flow: str
    task: str
    status: str
    ended_at: int
    removed_at: int
    removed_by: str


class Kept(NamedTuple):
    """What is kept of a run that is removed, so that its task happens once: was it named, and its outcome in short."""

    named: int
    result: str  # a digest of it
    error: str | None


class Slice(NamedTuple):
    """A piece of a removed run's journal: the entries after one seq up to another; the last one when `whole`."""

    run_key: int
    after: int
    upto: int
    whole: bool


class Room(NamedTuple):
    """How large the database is, and how much of it is free to be used again."""

    size_bytes: int
    free_bytes: int


class AnchorRow(NamedTuple):
    """An anchor and how its newest revision stands. Its journal is kept under the negative of its key."""

    key: int
    id: str
    scope: str
    anchor: str
    status: str
    outcome: str
    revision: int
    newest: int
    branch: str
    root: str
    symbol: str
    score: int
    stored_at: int
    expires_at: int
    arrived: int  # the last entry that came by import: up to it, others say so; 0 when all was written here


class HandoffRow(NamedTuple):
    """Where a revision is: its anchor, and the entry that carries its content."""

    key: int
    id: str
    anchor: int
    revision: int
    seq: int
    supersedes: str


class NewHandoff(NamedTuple):
    """A revision to add, and what its anchor is found by from now on."""

    id: str
    revision: int
    supersedes: str
    branch: str
    root: str
    symbol: str
    score: int
    stored_at: int
    expires_at: int
    files: tuple[str, ...]


class NewSession(NamedTuple):
    """A session to add, with the starts of its two chains."""

    scope: str
    id: str
    meta: str
    actor: str
    hash: bytes
    memo_hash: bytes
    created_at: int


class SessionRow(NamedTuple):
    """A session, and where its chains of messages and memos end."""

    key: int
    scope: str
    id: str
    meta: str
    actor: str
    head: int
    hash: bytes
    memos: int
    memo_hash: bytes
    created_at: int
    updated_at: int


class MessageRow(NamedTuple):
    seq: int
    role: str
    content: str
    digest: bytes
    meta: str
    run_id: str
    actor: str
    at: int
    hash: bytes


class MemoRow(NamedTuple):
    version: int
    upto: int
    text: str
    digest: bytes
    actor: str
    at: int
    hash: bytes


class NewTask(NamedTuple):
    """A task to add, with the start of its chain of events."""

    scope: str
    task: str
    state: str
    session: str
    meta: str
    actor: str
    opened_at: int
    updated_at: int
    hash: bytes


class TaskRow(NamedTuple):
    """A task that somebody opened, and where its chain of events ends."""

    key: int
    scope: str
    task: str
    state: str
    session: str
    meta: str
    actor: str
    opened_at: int
    updated_at: int
    head: int
    hash: bytes


class TaskEventRow(NamedTuple):
    seq: int
    kind: str
    name: str
    body: str
    digest: bytes
    masked: int
    actor: str
    at: int
    hash: bytes


class Ending(NamedTuple):
    """How a run's status row looks after a body ended."""

    status: str
    phase: str
    result: str | None
    error: str | None
    at: int


class Reading(ArtifactReading, RecordReading, Protocol):
    """Lookups, each by an index, all seeing one moment of the store."""

    def run_by_id(self, run_id: str) -> RunRow | None: ...
    def runs_by_prefix(self, prefix: str) -> list[RunRow]: ...
    def unfinished_run(self, scope: str, task: str, identity: str) -> RunRow | None: ...
    def unfinished_of_task(self, scope: str, task: str) -> list[RunRow]: ...
    def finished_of_task(self, scope: str, task: str) -> list[FinishedRow]: ...
    def unfinished_of_flow(self, scope: str, identity: str, limit: int) -> list[RunRow]: ...
    def newest_runs(self, status: str | None, limit: int, before: int) -> list[RunRow]: ...
    def count_runs(self) -> dict[str, int]: ...
    def children_of(self, run_id: str) -> list[RunRow]: ...
    def lease_of(self, run_id: str) -> LeaseRow | None: ...
    def leases_of(self, run_ids: Sequence[str]) -> dict[str, LeaseRow]: ...
    def beat_of(self, process_id: str) -> Beat | None: ...
    def runs_held_by(self, process_id: str) -> list[str]: ...
    def count_processes(self) -> int: ...
    def journal_of(self, run_key: int, after: int = 0, limit: int = -1) -> list[Row]: ...
    def entries_of(self, run_key: int, seqs: Sequence[int]) -> list[Row]: ...
    def journals_without_run(self) -> list[int]: ...
    def leases_without_run(self) -> list[str]: ...
    def blobs_of(self, run_key: int) -> list[str]: ...
    def waits_of(self, run_key: int) -> list[InterruptRow]: ...
    def open_waits(self, after: int, limit: int) -> list[InterruptRow]: ...
    def inbox_waits(self) -> list[InboxRow]: ...
    def interrupts_by_prefix(self, prefix: str) -> list[InterruptRow]: ...
    def untaken(self, run_key: int) -> list[tuple[int, str, str, str]]: ...
    def operation(self, operation_id: str) -> tuple[str, str, str] | None: ...
    def is_undelivered(self, run_id: str) -> bool: ...
    def deliveries_of(self, scope: str, task: str, since: int) -> list[tuple[str, str]]: ...
    def kin_of_status(self, status: str, limit: int, before: int) -> list[Kin]: ...
    def weight_of(self, run_key: int) -> Weight: ...
    def entry_sizes(self, run_key: int, after: int, limit: int) -> list[tuple[int, int]]: ...
    def runs_of_blob(self, name: str) -> set[int]: ...
    def blobs_between(self, first: str, end: str) -> set[str]: ...
    def unswept(self) -> list[tuple[int, str]]: ...
    def tombstones_by_prefix(self, prefix: str) -> list[Tombstone]: ...
    def holders(self) -> list[Beat]: ...
    def interrupts_of(self, run_key: int) -> list[InterruptRow]: ...
    def requests_of(self, run_key: int) -> list[tuple[str, str, str, int]]: ...
    def operations_of(self, run_id: str) -> list[tuple[str, str, int]]: ...
    def blob_refs_upto(self, run_key: int, seq: int) -> list[tuple[int, str]]: ...
    def hash_at(self, run_key: int, seq: int) -> bytes | None: ...
    def anchor_of(self, scope: str, anchor: str) -> AnchorRow | None: ...
    def anchor_by_key(self, key: int) -> AnchorRow | None: ...
    def anchor_by_id(self, anchor_id: str) -> AnchorRow | None: ...
    def newest_anchors(self, scope: str, status: str, limit: int, before: int = 0) -> list[AnchorRow]: ...
    def expired_anchors(self, scope: str, at: int, limit: int, before: int = 0) -> list[AnchorRow]: ...
    def claimed_anchors(self, scope: str, limit: int) -> list[AnchorRow]: ...
    def anchors_of_branch(self, scope: str, branch: str, limit: int, before: int = 0) -> list[AnchorRow]: ...
    def anchors_of_file(self, scope: str, path: str, limit: int) -> list[AnchorRow]: ...
    def anchors_near(self, scope: str, anchor: str, limit: int) -> list[str]: ...
    def anchors_after(self, key: int, limit: int) -> list[AnchorRow]: ...
    def signal_for(self, run: RunRow, name: str) -> SignalRow | None: ...
    def untaken_signals(self, run: RunRow) -> list[str]: ...
    def untaken_bodies(self) -> list[str]: ...
    def count_anchors(self) -> dict[str, int]: ...
    def files_of_anchor(self, anchor_key: int) -> list[str]: ...
    def leases_without_anchor(self) -> list[str]: ...
    def journals_without_anchor(self) -> list[int]: ...
    def handoffs_without_anchor(self) -> list[int]: ...
    def lease_of_anchor(self, anchor_id: str) -> LeaseRow | None: ...
    def handoffs_by_prefix(self, prefix: str) -> list[HandoffRow]: ...
    def handoff_at(self, anchor_key: int, revision: int) -> HandoffRow | None: ...
    def handoffs_of(self, anchor_key: int) -> list[HandoffRow]: ...
    def handoffs_after(self, key: int, limit: int) -> list[HandoffRow]: ...
    def handoff_superseding(self, handoff_id: str) -> HandoffRow | None: ...
    def session_of(self, scope: str, session_id: str) -> SessionRow | None: ...
    def newest_sessions(self, scope: str, limit: int, before: SessionRow | None = None) -> list[SessionRow]: ...
    def sessions_after(self, key: int, limit: int) -> list[SessionRow]: ...
    def messages_after(self, session_key: int, seq: int, limit: int) -> list[MessageRow]: ...
    def messages_before(self, session_key: int, seq: int, limit: int) -> list[MessageRow]: ...
    def system_messages_after(self, session_key: int, seq: int, limit: int) -> list[MessageRow]: ...
    def memos_after(self, session_key: int, version: int, limit: int) -> list[MemoRow]: ...
    def runs_of_session(self, scope: str, session_id: str) -> list[str]: ...
    def messages_without_session(self) -> list[int]: ...
    def memos_without_session(self) -> list[int]: ...
    def task_of(self, scope: str, task: str) -> TaskRow | None: ...
    def newest_tasks(
        self, scope: str, state: str | None, limit: int, before: TaskRow | None = None
    ) -> list[TaskRow]: ...
    def tasks_after(self, key: int, limit: int) -> list[TaskRow]: ...
    def task_events_after(self, task_key: int, seq: int, limit: int) -> list[TaskEventRow]: ...
    def runs_of_task(self, scope: str, task: str, limit: int) -> list[RunRow]: ...
    def events_without_task(self) -> list[int]: ...
    def unproven(self, table: str, after: int, limit: int) -> tuple[int, list[Break]]: ...
    def unproven_row(self, table: str, key: int) -> Break | None: ...


class Writing(Reading, ArtifactWriting, RecordWriting, Protocol):
    """One transaction: all of it becomes durable, or none of it."""

    def add_run(self, run: NewRun, start: bytes, holder: str) -> Hold: ...
    def append(self, hold: Hold, entries: Sequence[Entry]) -> None: ...
    def take_lease(self, lease: LeaseRow, holder: str | None) -> bool: ...
    def release_lease(self, hold: Hold) -> None: ...
    def set_run_status(self, run_key: int, status: str, at: int) -> None: ...
    def set_run_phase(self, run_key: int, phase: str) -> None: ...
    def set_run_flow(self, run_key: int, identity: str, source: str, worktree: str) -> None: ...
    def set_run_mark(self, run_key: int, seq: int) -> None: ...
    def name_run(self, run_key: int) -> None: ...
    def end_run(self, run_key: int, ending: Ending) -> None: ...
    def beat(self, beat: Beat) -> None: ...
    def forget_process(self, process_id: str) -> None: ...
    def note_shared(self, process_id: str) -> None: ...
    def forget_silent_processes(self, since: int) -> None: ...
    def add_interrupt(self, interrupt_id: str, run_key: int, wait: NewWait) -> bool: ...
    def end_interrupt(self, interrupt_id: str, by: str, reason: str) -> bool: ...
    def add_signal(self, signal: NewSignal) -> None: ...
    def take_signal(self, key: int, interrupt_id: str) -> None: ...
    def give_back_signals(self, run_key: int) -> None: ...
    def answer_interrupt(self, interrupt_id: str, answer: str, by: str) -> bool: ...
    def use_interrupt(self, interrupt_id: str) -> None: ...
    def cancel_interrupts(self, run_key: int) -> None: ...
    def send(self, run_key: int, kind: str, body: str, actor: str, at: int) -> None: ...
    def take(self, key: int) -> None: ...
    def add_operation(self, operation_id: str, kind: str, digest: str, answer: str, at: int) -> None: ...
    def add_delivery(self, run_key: int, scope: str, task: str, receiver: str) -> None: ...
    def set_receiver(self, run_key: int, receiver: str) -> None: ...
    def remove_delivery(self, run_id: str) -> None: ...
    def forget_deliveries(self, scope: str, task: str, before: int) -> None: ...
    def add_anchor(self, anchor_id: str, scope: str, anchor: str, start: bytes) -> AnchorRow: ...
    def add_handoff(self, anchor_key: int, seq: int, handoff: NewHandoff) -> None: ...
    def settle_anchor(self, anchor_key: int, status: str, outcome: str) -> None: ...
    def fill_anchor(
        self, anchor_key: int, lease: LeaseRow, rows: Sequence[Row], refs: Sequence[tuple[int, str]]
    ) -> None: ...
    def add_session(self, session: NewSession) -> SessionRow: ...
    def add_messages(self, session: SessionRow, messages: Sequence[MessageRow]) -> None: ...
    def add_memo(self, session: SessionRow, memo: MemoRow) -> None: ...
    def add_task(self, task: NewTask) -> TaskRow: ...
    def add_task_event(self, task: TaskRow, event: TaskEventRow, state: str, session: str, opened_at: int) -> None: ...
    def remove_waits(self, run_key: int, limit: int) -> None: ...
    def bury(self, run_key: int, run_id: str, at: int, by: str, kept: Kept) -> None: ...
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


class Store(Protocol):
    """A tenant's ledger."""

    path: str

    def put(self, hold: Hold, entries: Sequence[Entry]) -> Ticket:
        """Queue entries. They are committed in the order in which they were queued, once `finish` is called."""

    def put_work(self, work: Callable[[Writing], Any]) -> Ticket:
        """Queue a piece of work, in the same order."""

    def finish(self, ticket: Ticket) -> Any:
        """Make what was queued durable and give the work's result. Raises LeaseLost when the epoch is over."""

    def finish_soon(self, ticket: Ticket) -> Awaitable[None] | None:
        """The same on an event loop: None when it was done at once, else what to await."""

    def write(self, work: Callable[[Writing], T]) -> T:
        """Run `work` in a transaction and give its result once that is durable."""

    def write_soon(self, work: Callable[[Writing], Any]) -> None:
        """Run `work` in a transaction that no disk is waited for: with the next one, or now without a sync.

        It survives the death of the process, and may be lost with the power. What it raises is not told.
        """

    def read(self, look: Callable[[Reading], T]) -> T:
        """Run `look` on one moment of the store."""

    def listen(self, tell: Callable[[str], None]) -> None:
        """Tell of every row that is read and damaged, once: what it is called, and what cannot be read of it."""

    def still_there(self) -> None:
        """Raises StoreFailed when what was opened has been removed or replaced."""

    def facts(self) -> dict[str, Any]:
        """What `doctor` prints: versions, settings, sizes."""

    def check(self) -> list[str]:
        """What is wrong with the file itself; empty when nothing is."""

    def room(self) -> Room:
        """How large the database is."""

    def vacuum(self) -> None:
        """Give free pages back to the disk. Nobody can write meanwhile."""

    def close(self) -> None: ...
