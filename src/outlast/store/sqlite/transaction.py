"""The nouns of the store on one SQLite connection: named statements in, rows out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import apsw

from outlast.errors import IntegrityBroken, LeaseLost
from outlast.ledger.journal import Entry, Row, link
from outlast.ledger.lease import Beat
from outlast.store.contract import (
    AnchorRow,
    Ending,
    FinishedRow,
    HandoffRow,
    Hold,
    InboxRow,
    InterruptRow,
    Kept,
    LeaseRow,
    NewHandoff,
    NewRun,
    NewSignal,
    NewWait,
    RunRow,
    SignalRow,
    Slice,
    Tombstone,
    Weight,
)
from outlast.store.contract.damaged import damage_of
from outlast.store.sqlite.legible import beat, made, name_of
from outlast.store.sqlite.proofs import Proofs, Prover
from outlast.store.sqlite.records import RecordReader, RecordWriter
from outlast.store.sqlite.rows import R
from outlast.store.sqlite.sessions import SessionReader, SessionWriter
from outlast.store.sqlite.tasks import TaskReader, TaskWriter

if TYPE_CHECKING:
    from outlast.care.gc.rule import Kin

_LAST = "\U0010ffff"
_NEWEST = 1 << 62


class Reader(SessionReader, TaskReader, RecordReader, Proofs):
    """Lookups on a connection."""

    def run_by_id(self, run_id: str) -> RunRow | None:
        return self._row(RunRow, "run_by_id", run_id)

    def runs_by_prefix(self, prefix: str) -> list[RunRow]:
        return self._rows(RunRow, "runs_by_prefix", prefix, prefix + _LAST)

    def unfinished_run(self, scope: str, task: str, identity: str) -> RunRow | None:
        return self._row(RunRow, "unfinished_run", scope, task, identity)

    def unfinished_of_task(self, scope: str, task: str) -> list[RunRow]:
        return self._rows(RunRow, "unfinished_of_task", scope, task)

    def finished_of_task(self, scope: str, task: str) -> list[FinishedRow]:
        return self._rows(FinishedRow, "finished_of_task", scope, task, scope, task)

    def unfinished_of_flow(self, scope: str, identity: str, limit: int) -> list[RunRow]:
        """Those that began last first."""
        return self._rows(RunRow, "unfinished_of_flow", scope, identity, limit)

    def newest_runs(self, status: str | None, limit: int, before: int = 0) -> list[RunRow]:
        below = before or _NEWEST
        if status is None:
            return self._rows_at_once(RunRow, "newest_runs", below, limit)
        return self._rows_at_once(RunRow, "newest_runs_of_status", status, below, limit)

    def count_runs(self) -> dict[str, int]:
        return dict(self._all("count_runs"))

    def children_of(self, run_id: str) -> list[RunRow]:
        return self._rows(RunRow, "children_of", run_id)

    def lease_of(self, run_id: str) -> LeaseRow | None:
        return self._row(LeaseRow, "lease_of", f"run:{run_id}")

    def leases_of(self, run_ids: Sequence[str]) -> dict[str, LeaseRow]:
        """Those of many runs. One that is missing or cannot be read is not among them: `lease_of` tells."""
        found = self._all_at_once(LeaseRow, "leases_of_runs", json.dumps(list(run_ids)))
        rows = {run_id: made(LeaseRow, row) for run_id, row in zip(run_ids, found, strict=True) if row[0] is not None}
        return {run_id: row for run_id, row in rows.items() if type(row) is LeaseRow}

    def beat_of(self, process_id: str) -> Beat | None:
        row = self._one("process", process_id)
        return beat(row) if row else None

    def runs_held_by(self, process_id: str) -> list[str]:
        """The runs that a process executes, or executed when it died."""
        return [run_id for (run_id,) in self._all("runs_held_by", process_id)]

    def count_processes(self) -> int:
        return int(self._one("count_processes")[0])

    def journal_of(self, run_key: int, after: int = 0, limit: int = -1) -> list[Row]:
        return list(map(Row._make, self.execute(self.sql["journal_of"], (run_key, after, limit))))

    def entries_of(self, run_key: int, seqs: Sequence[int]) -> list[Row]:
        found = (self._one("entry_of", run_key, seq) for seq in sorted(seqs))
        return [Row._make(row) for row in found if row is not None]

    def journals_without_run(self) -> list[int]:
        return [row[0] for row in self._all("journals_without_run")]

    def leases_without_run(self) -> list[str]:
        return [row[0] for row in self._all("leases_without_run")]

    def blobs_of(self, run_key: int) -> list[str]:
        return [row[0] for row in self._all("blob_refs_of", run_key)]

    def waits_of(self, run_key: int) -> list[InterruptRow]:
        return self._rows(InterruptRow, "waits_of", run_key)

    def open_waits(self, after: int = 0, limit: int = -1) -> list[InterruptRow]:
        return self._rows(InterruptRow, "open_waits", after, limit)

    def inbox_waits(self) -> list[InboxRow]:
        return [InboxRow(self._made(InterruptRow, row[:-3]), *map(str, row[-3:])) for row in self._all("inbox_waits")]

    def interrupts_by_prefix(self, prefix: str) -> list[InterruptRow]:
        return self._rows(InterruptRow, "interrupts_by_prefix", prefix, prefix + _LAST)

    def untaken(self, run_key: int) -> list[tuple[int, str, str, str]]:
        return self._all("untaken", run_key)

    def operation(self, operation_id: str) -> tuple[str, str, str] | None:
        row = self._one("operation", operation_id)
        return tuple(row) if row else None

    def is_undelivered(self, run_id: str) -> bool:
        return self._one("is_undelivered", run_id) is not None

    def deliveries_of(self, scope: str, task: str, since: int) -> list[tuple[str, str]]:
        return self._all("deliveries_of", scope, task, since)

    def kin_of_status(self, status: str, limit: int, before: int = 0) -> list[Kin]:
        from outlast.care.gc.rule import Kin

        return self._rows(Kin, "kin_of_status", status, before or _NEWEST, limit)

    def weight_of(self, run_key: int) -> Weight:
        return Weight(*(self._one("weight_of", run_key) or (0, 0, 0, 0)))

    def entry_sizes(self, run_key: int, after: int, limit: int) -> list[tuple[int, int]]:
        return self._all("entry_sizes", run_key, after, limit)

    def runs_of_blob(self, name: str) -> set[int]:
        return {row[0] for row in self._all("runs_of_blob", name)}

    def blobs_between(self, first: str, end: str) -> set[str]:
        return {row[0] for row in self._all("blobs_between", first, end)}

    def unswept(self) -> list[tuple[int, str]]:
        return self._all("unswept")

    def tombstones_by_prefix(self, prefix: str) -> list[Tombstone]:
        return self._rows(Tombstone, "tombstones_by_prefix", prefix, prefix + _LAST)

    def holders(self) -> list[Beat]:
        return [found for row in self._all("holders") if (found := beat(row)) is not None]

    def interrupts_of(self, run_key: int) -> list[InterruptRow]:
        return self._rows(InterruptRow, "interrupts_of", run_key)

    def requests_of(self, run_key: int) -> list[tuple[str, str, str, int]]:
        return self._all("requests_of", run_key)

    def operations_of(self, run_id: str) -> list[tuple[str, str, int]]:
        """The ids of the calls that the run was started by, each with a print of what was asked, and when."""
        return [tuple(row) for row in self._all("operations_of", run_id)]

    def blob_refs_upto(self, run_key: int, seq: int) -> list[tuple[int, str]]:
        return self._all("blob_refs_upto", run_key, seq)

    def hash_at(self, run_key: int, seq: int) -> bytes | None:
        row = self._one("hash_at", run_key, seq)
        return row[0] if row else None

    def anchor_of(self, scope: str, anchor: str) -> AnchorRow | None:
        return self._row(AnchorRow, "anchor_of", scope, anchor)

    def anchor_by_key(self, key: int) -> AnchorRow | None:
        return self._row(AnchorRow, "anchor_by_key", key)

    def anchor_by_id(self, anchor_id: str) -> AnchorRow | None:
        return self._row(AnchorRow, "anchor_by_id", anchor_id)

    def newest_anchors(self, scope: str, status: str, limit: int, before: int = 0) -> list[AnchorRow]:
        return self._rows(AnchorRow, "newest_anchors", scope, status, before or _NEWEST, limit)

    def expired_anchors(self, scope: str, at: int, limit: int, before: int = 0) -> list[AnchorRow]:
        """Those that expired last first. `before`: of those that expired just then, only anchors of smaller keys."""
        return self._rows(AnchorRow, "expired_anchors", scope, at, at, before or _NEWEST, limit)

    def claimed_anchors(self, scope: str, limit: int) -> list[AnchorRow]:
        """Those whose lease names a holder, be it alive or not."""
        return self._rows(AnchorRow, "claimed_anchors", scope, limit)

    def anchors_of_branch(self, scope: str, branch: str, limit: int, before: int = 0) -> list[AnchorRow]:
        return self._rows(AnchorRow, "anchors_of_branch", scope, branch, before or _NEWEST, limit)

    def anchors_of_file(self, scope: str, path: str, limit: int) -> list[AnchorRow]:
        return self._rows(AnchorRow, "anchors_of_file", path, scope, limit)

    def anchors_near(self, scope: str, anchor: str, limit: int) -> list[str]:
        """The anchors next to this name in the alphabet, on both sides."""
        after = self._all("anchors_from", scope, anchor, limit)
        return [row[0] for row in (*self._all("anchors_before", scope, anchor, limit), *after)]

    def anchors_after(self, key: int, limit: int) -> list[AnchorRow]:
        return self._rows(AnchorRow, "anchors_after_key", key, limit)

    def signal_for(self, run: RunRow, name: str) -> SignalRow | None:
        """The oldest untaken signal of that name for this run or its task."""
        found = [self._one("signal_for_run", run.key, name), self._one("signal_for_task", run.scope, run.task, name)]
        rows = [self._made(SignalRow, row) for row in found if row]
        return min(rows, default=None)

    def untaken_signals(self, run: RunRow) -> list[str]:
        """The names of signals for this run or its task that nobody has taken."""
        found = [*self._all("untaken_for_run", run.key), *self._all("untaken_for_task", run.scope, run.task)]
        return sorted({row[0] for row in found})

    def untaken_bodies(self) -> list[str]:
        """What signals say that nobody has taken, to whichever run or task."""
        return [row[0] for row in self._all("untaken_bodies")]

    def count_anchors(self) -> dict[str, int]:
        return dict(self._all("count_anchors"))

    def files_of_anchor(self, anchor_key: int) -> list[str]:
        """What it is found by, in order."""
        return [row[0] for row in self._all("files_of_anchor", anchor_key)]

    def leases_without_anchor(self) -> list[str]:
        return [row[0] for row in self._all("leases_without_anchor")]

    def journals_without_anchor(self) -> list[int]:
        return [row[0] for row in self._all("journals_without_anchor")]

    def handoffs_without_anchor(self) -> list[int]:
        return [row[0] for row in self._all("handoffs_without_anchor")]

    def lease_of_anchor(self, anchor_id: str) -> LeaseRow | None:
        return self._row(LeaseRow, "lease_of", f"handoff:{anchor_id}")

    def handoffs_by_prefix(self, prefix: str) -> list[HandoffRow]:
        return self._rows(HandoffRow, "handoffs_by_prefix", prefix, prefix + _LAST)

    def handoff_at(self, anchor_key: int, revision: int) -> HandoffRow | None:
        return self._row(HandoffRow, "handoff_at", anchor_key, revision)

    def handoffs_of(self, anchor_key: int) -> list[HandoffRow]:
        return self._rows(HandoffRow, "handoffs_of", anchor_key)

    def handoffs_after(self, key: int, limit: int) -> list[HandoffRow]:
        return self._rows(HandoffRow, "handoffs_after_key", key, limit)

    def handoff_superseding(self, handoff_id: str) -> HandoffRow | None:
        return self._row(HandoffRow, "handoff_superseding", handoff_id)


class Transaction(SessionWriter, TaskWriter, RecordWriter, Reader):
    """Lookups and writes inside one open transaction."""

    def __init__(self, connection: apsw.Connection, sql: dict[str, str]) -> None:
        super().__init__(connection, sql)
        cursor = connection.cursor()
        self.do = cursor.execute  # for statements without rows: one cursor, used over and over
        self.do_many = cursor.executemany
        self.changes = connection.changes
        self.total_changes = connection.total_changes
        self.prover = Prover(self)
        self.moved: list[tuple[Hold, int, bytes]] = []  # heads to put back if the transaction fails
        self._advance, self._entry = sql["advance_lease"], sql["add_entry"]

    def _row(self, kind: type[R], name: str, *values: Any) -> R | None:
        """The one row that is asked for; in a write, to act on it. Raises IntegrityBroken for a damaged one."""
        row = super()._row(kind, name, *values)
        if why := damage_of(row):
            raise IntegrityBroken(name_of(row), why)
        return row

    def append(self, hold: Hold, entries: Sequence[Entry]) -> None:
        """Chain entries to a run's journal. Raises LeaseLost when the epoch is over."""
        self.append_all([(hold, entries)])

    def append_all(self, appends: Sequence[tuple[Hold, Sequence[Entry]]]) -> None:
        """Chain entries to the journals of many runs.

        Each is guarded by its epoch and head. Raises LeaseLost when one of them is stale: the caller rolls all
        back and tries each alone.
        """
        rows: list[tuple[int, int, bytes, bytes, bytes | None]] = []
        guards, blobs = [], []
        for hold, entries in appends:
            head, before, run_key = hold.head, hold.hash, hold.run_key
            self.moved.append((hold, head, before))
            seq = head
            for header, payload, names in entries:
                seq += 1
                before = link(before, header)
                rows.append((run_key, seq, header, before, payload))
                if names:
                    blobs += [(name, run_key, seq) for name in names]
            guards.append((seq, before, hold.lease_key, hold.epoch, head))
            hold.head, hold.hash = seq, before
        expected = self.total_changes() + len(guards)
        self.do_many(self._advance, guards)
        if self.total_changes() != expected:
            self.put_back(len(self.moved) - len(appends))
            raise LeaseLost(appends[0][0].run_id, appends[0][0].epoch)
        self.do_many(self._entry, rows)
        if blobs:
            self.do_many(self.sql["add_blob_ref"], blobs)

    def put_back(self, to: int = 0) -> None:
        """Forget heads that were moved since: what moved them was rolled back."""
        for hold, head, before in reversed(self.moved[to:]):
            hold.head, hold.hash = head, before
        del self.moved[to:]

    def add_run(self, run: NewRun, start: bytes, holder: str) -> Hold:
        known = (run.named, run.identity, run.source, run.worktree)
        run_key = self._one("add_run", *run[: -len(known)], run.at, *known)[0]
        lease_key = self._one("add_lease", f"run:{run.id}", start, holder)[0]
        return Hold(run_key, run.id, lease_key, epoch=1, head=0, hash=start)

    def take_lease(self, lease: LeaseRow, holder: str | None) -> bool:
        self._one("take_lease", holder, lease.key, lease.epoch)
        return self.changes() == 1

    def release_lease(self, hold: Hold) -> None:
        self._one("release_lease", hold.lease_key, hold.epoch)

    def set_run_status(self, run_key: int, status: str, at: int) -> None:
        self._one("set_run_status", status, at, run_key)

    def set_run_phase(self, run_key: int, phase: str) -> None:
        self._one("set_run_phase", phase, run_key)

    def set_run_flow(self, run_key: int, identity: str, source: str, worktree: str) -> None:
        self._one("set_run_flow", identity, source, worktree, run_key)

    def set_run_mark(self, run_key: int, seq: int) -> None:
        self._one("set_run_mark", seq, run_key)

    def name_run(self, run_key: int) -> None:
        self._one("name_run", run_key)

    def end_run(self, run_key: int, ending: Ending) -> None:
        self._one("end_run", *ending, run_key)

    def beat(self, sign: Beat) -> None:
        of = sign.process
        identity = (of.id, of.host, of.boot_id, of.pid_namespace, of.pid, of.started, of.machine_id)
        self._one("add_process", *identity, sign.boot_us, sign.wall_us, sign.lease_seconds)

    def note_shared(self, process_id: str) -> None:
        """A dead process was at work on several runs: none of their steps is blamed for its death alone."""
        self._one("note_shared", process_id)

    def forget_silent_processes(self, since: int) -> None:
        self._one("forget_silent_processes", since)

    def forget_process(self, process_id: str) -> None:
        self._one("forget_process", process_id)

    def add_interrupt(self, interrupt_id: str, run_key: int, wait: NewWait) -> bool:
        """Save a wait. False when the call waits already."""
        self._one("add_interrupt", interrupt_id, run_key, *wait)
        return self.changes() == 1

    def end_interrupt(self, interrupt_id: str, by: str, reason: str) -> bool:
        """End an open wait without an answer: its deadline passed, or somebody cancelled it."""
        self._one("end_interrupt", by, reason, interrupt_id)
        return self.changes() == 1

    def add_signal(self, signal: NewSignal) -> None:
        self._one("add_signal", *signal)

    def take_signal(self, key: int, interrupt_id: str) -> None:
        self._one("take_signal", interrupt_id, key)

    def give_back_signals(self, run_key: int) -> None:
        """Signals to a task that answered waits of this run, and that it was never given, are to be taken again."""
        self._one("give_back_signals", run_key)

    def answer_interrupt(self, interrupt_id: str, answer: str, by: str) -> bool:
        self._one("answer_interrupt", answer, by, interrupt_id)
        return self.changes() == 1

    def use_interrupt(self, interrupt_id: str) -> None:
        self._one("use_interrupt", interrupt_id)

    def cancel_interrupts(self, run_key: int) -> None:
        self._one("cancel_interrupts", run_key)

    def send(self, run_key: int, kind: str, body: str, actor: str, at: int) -> None:
        self._one("send", run_key, kind, body, actor, at)

    def take(self, key: int) -> None:
        self._one("take", key)

    def add_operation(self, operation_id: str, kind: str, digest: str, answer: str, at: int) -> None:
        self._one("add_operation", operation_id, kind, digest, answer, at)

    def add_delivery(self, run_key: int, scope: str, task: str, receiver: str) -> None:
        self._one("add_delivery", run_key, scope, task, receiver)

    def set_receiver(self, run_key: int, receiver: str) -> None:
        self._one("set_receiver", receiver, run_key, receiver)

    def remove_delivery(self, run_id: str) -> None:
        self._one("remove_delivery", run_id)

    def forget_deliveries(self, scope: str, task: str, before: int) -> None:
        self._one("forget_deliveries", scope, task, scope, task, before)

    def add_anchor(self, anchor_id: str, scope: str, anchor: str, start: bytes) -> AnchorRow:
        """An anchor without a revision yet, and its lease, which nobody holds."""
        row = self._one("add_anchor", anchor_id, scope, anchor)
        self._one("add_handoff_lease", f"handoff:{anchor_id}", start)
        return AnchorRow(*row)

    def add_handoff(self, anchor_key: int, seq: int, handoff: NewHandoff) -> None:
        """A revision whose content is the entry `seq`; the anchor is open and found by it from now on."""
        key = self._one("add_handoff", handoff.id, anchor_key, handoff.revision, seq, handoff.supersedes)[0]
        self._one("set_anchor", handoff.revision, key, *handoff[3:9], anchor_key)
        if handoff.revision > 1:
            self._one("forget_handoff_files", anchor_key)
        self.do_many(self.sql["add_handoff_file"], [(path, anchor_key) for path in handoff.files])

    def settle_anchor(self, anchor_key: int, status: str, outcome: str) -> None:
        self._one("settle_anchor", status, outcome, anchor_key)

    def fill_anchor(
        self, anchor_key: int, lease: LeaseRow, rows: Sequence[Row], refs: Sequence[tuple[int, str]]
    ) -> None:
        """Entries that came from elsewhere. The chain ends as `lease` says from now on, and nobody holds it."""
        self._one("renew_arrived_lease", lease.epoch, lease.head, lease.hash, lease.key)
        self._one("mark_anchor_arrived", lease.head, anchor_key)
        self.do_many(self._entry, [(-anchor_key, *row) for row in rows])
        self.do_many(self.sql["add_blob_ref"], [(name, -anchor_key, seq) for seq, name in refs])

    def remove_waits(self, run_key: int, limit: int = -1) -> None:
        self._one("remove_interrupts", run_key, limit)
        self._one("remove_requests", run_key, limit)

    def bury(self, run_key: int, run_id: str, at: int, by: str, kept: Kept) -> None:
        """Put a tombstone in a run's place. Its journal stays, to be removed in slices."""
        self._one("bury_run", at, by, *kept, run_key)
        self.remove_waits(run_key)
        self.remove_delivery(run_id)
        self._one("remove_lease", f"run:{run_id}")
        self._one("remove_run", run_key)

    def remove_slice(self, piece: Slice) -> None:
        """Remove a slice of a buried run's journal; with the last one, all else that belongs to the run."""
        key, after, upto, whole = piece
        upto = _NEWEST if whole else upto
        self._one("remove_entries", key, after, upto)
        self._one("remove_blob_refs", key, after, upto)
        if whole:
            self._one("mark_swept", key)

    def seal_run(self, run_key: int, seal: str, status: str) -> None:
        self._one("seal_run", seal, status, run_key)

    def add_arrived(self, run: RunRow, epoch: int, head: int, hash_: bytes) -> int:
        """A run that came from elsewhere, with its lease, which nobody holds. Gives its key."""
        key = self._one("add_arrived_run", *run[1:])[0]
        self._one("add_arrived_lease", f"run:{run.id}", epoch, head, hash_)
        return int(key)

    def renew_arrived(self, run: RunRow, lease: LeaseRow) -> None:
        """A run that is known here came again, further on."""
        changing = (run.status, run.phase, run.result, run.error, run.updated_at, run.mark, run.seal, run.named)
        self._one("renew_arrived_run", *changing, run.identity, run.source, run.worktree, run.key)
        self._one("renew_arrived_lease", lease.epoch, lease.head, lease.hash, lease.key)

    def fill_arrived(
        self,
        run_key: int,
        rows: Sequence[Row],
        refs: Sequence[tuple[int, str]],
        waits: Sequence[InterruptRow],
        requests: Sequence[tuple[str, str, str, int]],
    ) -> None:
        """Its entries, its waits instead of those that were known, and what it has been asked."""
        self.do(self.sql["forget_interrupts"], (run_key,))
        self.do(self.sql["forget_requests"], (run_key,))
        self.do_many(self._entry, [(run_key, *row) for row in rows])
        self.do_many(self.sql["add_blob_ref"], [(name, run_key, seq) for seq, name in refs])
        self.do_many(self.sql["add_arrived_interrupt"], [(wait.id, run_key, *wait[3:14]) for wait in waits])
        self.do_many(self.sql["send"], [(run_key, *request) for request in requests])
