"""Runs: what is asked of a store about them, and written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outlast.ledger.journal import Later, Row
from outlast.ledger.lease import Beat
from outlast.store.contract.runs import (
    ENTRIES,
    Ending,
    EntryRow,
    FinishedRow,
    HeaderRow,
    Hold,
    InboxRow,
    InterruptRow,
    KeptOutcome,
    Kin,
    LeaseRow,
    NewRun,
    NewSignal,
    NewWait,
    RunRow,
    SignalRow,
    Slice,
    Tombstone,
    Weight,
)
from outlast.values.frozen import Protocol


class RunReading(Protocol):
    """Lookups, each by an index."""

    def run_by_id(self, run_id: str) -> RunRow | None: ...
    def runs_by_prefix(self, prefix: str) -> list[RunRow]: ...
    def unfinished_run(self, scope: str, task: str, identity: str) -> RunRow | None: ...
    def unfinished_of_task(self, scope: str, task: str) -> list[RunRow]: ...
    def unfinished_of_scope(self, scope: str) -> list[RunRow]: ...
    def finished_of_task(self, scope: str, task: str) -> list[FinishedRow]: ...

    def unfinished_of_flow(self, scope: str, identity: str, limit: int) -> list[RunRow]:
        """Those that began last first."""

    def newest_runs(self, status: str | None, limit: int, before: int = 0) -> list[RunRow]: ...

    def runs_to_wake(self, now: int, after: int, limit: int) -> list[RunRow]:
        """Waiting runs of which something may be over: answered, decided on, past its time, or a child's wait."""

    def runs_where(self, by: str, values: tuple[str | int, ...], limit: int, before: int = 0) -> list[RunRow]:
        """The newest below the key `before`. `by` is flow, identity, task, tag, session, trace, time or actor."""

    def deadline_of(self, run_key: int) -> int | None: ...
    def tags_of(self, run_key: int) -> list[str]: ...
    def count_runs(self) -> dict[str, int]: ...
    def children_of(self, run_id: str) -> list[RunRow]: ...
    def lease_of(self, run_id: str) -> LeaseRow | None: ...

    def leases_of(self, run_ids: Sequence[str]) -> dict[str, LeaseRow]:
        """Those of many runs. One that is missing or cannot be read is not among them: `lease_of` tells."""

    def held_by(self, process_id: str) -> tuple[dict[int, int], int]:
        """The leases that a process holds, the epoch of each by its key; if any, how much is asked of runs at all."""

    def beat_of(self, holder: str) -> Beat | None:
        """The last sign of life of a process or a claim."""

    def beaten_at(self, process_id: str) -> int | None:
        """When a process gave its last sign of life, by the clock of its machine."""

    def runs_held_by(self, process_id: str) -> list[str]:
        """The runs that a process executes, or executed when it died."""

    def count_processes(self) -> int: ...
    def holders(self) -> list[Beat]: ...
    def journal_of(self, chain: int, after: int = 0, limit: int | None = None) -> list[Row]: ...

    def entry_pages(self, chain: int, after: int = 0, page: int = ENTRIES) -> Iterator[list[Row]]:
        """The same, a page at a time as they are used: to be used within the look that asked."""

    def each_entry(self, chain: int, after: int = 0, page: int = ENTRIES) -> Iterator[Row]:
        """The same, one after the other."""

    def later(self, chain: int) -> Later | None:
        """Where long payloads of a journal are read when they are asked for, also after this look; None: nowhere."""

    def headers_of(self, chain: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        """The headers alone: what they carry stays on the disk."""

    def entries_named(self, chain: int, first: bytes, end: bytes) -> list[Row]:
        """Those whose headers are not before `first` and before `end`, as bytes."""

    def entries_of(self, chain: int, seqs: Sequence[int]) -> list[Row]: ...

    def newest_entry(self) -> int:
        """The highest number of an entry, of whichever chain."""

    def highest_entry(self) -> int:
        """The highest number that was ever given, also to an entry that was removed or is not committed yet."""

    def settled_entry(self, after: int, limit: int) -> int:
        """Up to which number, of the next so many after one, no entry comes in any more."""

    def entries_between(self, after: int, upto: int, limit: int) -> list[EntryRow]: ...

    def headers_between(self, after: int, before: int) -> list[HeaderRow]:
        """Those of the entries between two numbers, the newest first."""

    def payload_at(self, key: int) -> bytes | None:
        """What the entry of a number carries."""

    def hash_at(self, chain: int, seq: int) -> bytes | None: ...
    def entry_sizes(self, chain: int, after: int, limit: int) -> list[tuple[int, int]]: ...

    def journals_of_nothing(self) -> list[int]:
        """The chains whose entries are here, and neither a run nor an anchor that has them."""

    def leases_without_run(self) -> list[str]: ...
    def blobs_of(self, chain: int) -> list[str]: ...
    def blob_refs_upto(self, chain: int, seq: int) -> list[tuple[int, str]]: ...

    def chains_of_blob(self, name: str) -> set[int]:
        """The chains of which an entry needs it."""

    def blobs_between(self, first: str, end: str) -> set[str]: ...
    def kin_of_status(self, status: str, limit: int, before: int = 0) -> list[Kin]: ...
    def weight_of(self, run_key: int) -> Weight: ...
    def unswept(self) -> list[tuple[int, str]]: ...
    def tombstones_by_prefix(self, prefix: str) -> list[Tombstone]: ...

    # -- what they wait for, and what reaches them ---------------------------------------------------

    def waits_of(self, run_key: int) -> list[InterruptRow]: ...
    def open_waits(self, after: int = 0, limit: int | None = None) -> list[InterruptRow]: ...
    def inbox_waits(self) -> list[InboxRow]: ...
    def interrupts_by_prefix(self, prefix: str) -> list[InterruptRow]: ...
    def interrupts_of(self, run_key: int) -> list[InterruptRow]: ...
    def untaken(self, run_key: int) -> list[tuple[int, str, str, str]]: ...
    def requests_of(self, run_key: int) -> list[tuple[str, str, str, int]]: ...

    def signal_for(self, run: RunRow, name: str) -> SignalRow | None:
        """The oldest untaken signal of that name for this run or its task."""

    def untaken_signals(self, run: RunRow) -> list[str]:
        """The names of signals for this run or its task that nobody has taken."""

    def untaken_bodies(self) -> list[str]:
        """What signals say that nobody has taken, to whichever run or task."""

    def operation(self, operation_id: str) -> tuple[str, str, str] | None: ...

    def operations_of(self, run_id: str) -> list[tuple[str, str, int]]:
        """The ids of the calls that the run was started by, each with a print of what was asked, and when."""

    def is_undelivered(self, run_id: str) -> bool: ...
    def deliveries_of(self, scope: str, task: str, since: int) -> list[tuple[str, str]]: ...


class RunWriting(RunReading, Protocol):
    """Writes inside a transaction."""

    def add_run(self, run: NewRun, start: bytes, holder: str | None) -> Hold:
        """A run that is running in a holder's hands; without one it is queued."""

    def add_run_tags(self, run_key: int, tags: Sequence[str]) -> None:
        """What a run was tagged with at its start, found by that; nothing instead of what it had."""

    def put_deadline(self, run_key: int, at: int) -> None:
        """By when it is to be done."""

    def take_lease(self, lease: LeaseRow, holder: str | None) -> bool: ...
    def release_lease(self, hold: Hold) -> None: ...
    def set_run_status(self, run_key: int, status: str, at: int) -> None: ...
    def set_run_phase(self, run_key: int, phase: str) -> None: ...
    def set_run_flow(self, run_key: int, identity: str, source: str, worktree: str) -> None: ...
    def set_run_mark(self, run_key: int, seq: int) -> None: ...
    def name_run(self, run_key: int) -> None: ...
    def end_run(self, run_key: int, ending: Ending) -> None: ...
    def beat(self, sign: Beat) -> None: ...

    def beat_claim(self, sign: Beat) -> None:
        """The same of a claim, whose id is the word that its claimer shows."""

    def forget_process(self, process_id: str) -> None: ...

    def forget_holder(self, holder: str) -> None:
        """A process or a claim, unless it holds something yet."""

    def note_shared(self, process_id: str) -> None:
        """A dead process was at work on several runs: none of their steps is blamed for its death alone."""

    def forget_silent_processes(self, since: int) -> None: ...

    def bury(self, run_key: int, run_id: str, at: int, by: str, kept: KeptOutcome) -> None:
        """Put a tombstone in a run's place. Its journal stays, to be removed in slices."""

    def remove_slice(self, piece: Slice) -> None:
        """Remove a slice of a buried run's journal; with the last one, all else that belongs to the run."""

    def seal_run(self, run_key: int, seal: str, status: str) -> None: ...

    def add_arrived(self, run: RunRow, epoch: int, head: int, hash_: bytes) -> int:
        """A run that came from elsewhere, with its lease, which nobody holds. Gives its key."""

    def renew_arrived(self, run: RunRow, lease: LeaseRow) -> None:
        """A run that is known here came again, further on."""

    def fill_arrived(
        self,
        run_key: int,
        rows: Sequence[Row],
        refs: Sequence[tuple[int, str]],
        waits: Sequence[InterruptRow],
        requests: Sequence[tuple[str, str, str, int]],
    ) -> None:
        """Its entries, its waits instead of those that were known, and what it has been asked."""

    # -- what they wait for, and what reaches them ---------------------------------------------------

    def add_interrupt(self, interrupt_id: str, run_key: int, wait: NewWait) -> bool:
        """Save a wait. False when the call waits already."""

    def answer_interrupt(self, interrupt_id: str, answer: str, by: str) -> bool: ...

    def end_interrupt(self, interrupt_id: str, by: str, reason: str) -> bool:
        """End an open wait without an answer: its deadline passed, or somebody cancelled it."""

    def use_interrupt(self, interrupt_id: str) -> None: ...
    def cancel_interrupts(self, run_key: int) -> None: ...
    def remove_waits(self, run_key: int, limit: int | None = None) -> None: ...
    def add_signal(self, signal: NewSignal) -> None: ...
    def take_signal(self, key: int, interrupt_id: str) -> None: ...

    def give_back_signals(self, run_key: int) -> None:
        """Signals to a task that answered waits of this run, and that it was never given, are to be taken again."""

    def send(self, run_key: int, kind: str, body: str, actor: str, at: int) -> None: ...
    def take(self, key: int) -> None: ...
    def add_operation(self, operation_id: str, kind: str, digest: str, answer: str, at: int) -> None: ...
    def add_delivery(self, run_key: int, scope: str, task: str, receiver: str) -> None: ...
    def set_receiver(self, run_key: int, receiver: str) -> None: ...
    def remove_delivery(self, run_id: str) -> None: ...
    def forget_deliveries(self, scope: str, task: str, before: int) -> None: ...
