"""Runs on one connection: their rows, leases and journals, what they wait for, and what is left of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain as in_turn
from itertools import starmap
from typing import Any

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
    status_of_new,
)
from outlast.store.nouns.rows import AFTER_ALL, NEWEST, Rows, WrittenRows, beat, made

AHEAD = 64  # read at once of what was left, where one entry after the other is asked for
NEAR = 8  # so many entries further on is the next one
EntriesAfter = Callable[[int, int, int], list[Row]]  # of a chain, after one, at most so many


# Statements that list runs, by what they are found by.
FOUND_BY = {
    "flow": "found_by_flow",
    "identity": "found_by_identity",
    "task": "found_by_task",
    "tag": "found_by_tag",
    "session": "found_by_session",
    "trace": "found_by_trace",
    "time": "found_by_time",
    "actor": "found_by_actor",
}


class LaterPayloads:
    """What was left of a journal in the store. Who asks for one after the other has the next ones read too."""

    def __init__(self, read: EntriesAfter, chain: int) -> None:
        self._read, self._chain, self.of = read, chain, ""
        self._last = -NEAR
        self._ahead: dict[int, bytes | None] = {}

    def stored(self, seq: int) -> bytes | None:
        """The payload of an entry as it is now; None when it is gone."""
        found = self._ahead
        if seq not in found:
            count = AHEAD if 0 < seq - self._last <= NEAR else 1
            found = {row.seq: row.stored for row in self._read(self._chain, seq - 1, count)}
            self._ahead = found
        self._last = seq
        return found.get(seq)


class RunReader(Rows):
    """Lookups."""

    def run_by_id(self, run_id: str) -> RunRow | None:
        return self._row(RunRow, "run_by_id", run_id)

    def runs_by_prefix(self, prefix: str) -> list[RunRow]:
        return self._rows(RunRow, "runs_by_prefix", prefix, prefix + AFTER_ALL)

    def unfinished_run(self, scope: str, task: str, identity: str) -> RunRow | None:
        return self._row(RunRow, "unfinished_run", scope, task, identity)

    def unfinished_of_task(self, scope: str, task: str) -> list[RunRow]:
        return self._rows(RunRow, "unfinished_of_task", scope, task)

    def unfinished_of_scope(self, scope: str) -> list[RunRow]:
        return self._rows(RunRow, "unfinished_of_scope", scope)

    def finished_of_task(self, scope: str, task: str) -> list[FinishedRow]:
        return self._rows(FinishedRow, "finished_of_task", scope, task, scope, task)

    def unfinished_of_flow(self, scope: str, identity: str, limit: int) -> list[RunRow]:
        return self._rows(RunRow, "unfinished_of_flow", scope, identity, limit)

    def newest_runs(self, status: str | None, limit: int, before: int = 0) -> list[RunRow]:
        below = before or NEWEST
        if status is None:
            return self._rows_at_once(RunRow, "newest_runs", below, limit)
        return self._rows_at_once(RunRow, "newest_runs_of_status", status, below, limit)

    def runs_to_wake(self, now: int, after: int, limit: int) -> list[RunRow]:
        return self._rows_at_once(RunRow, "runs_to_wake", now, after, limit)

    def runs_where(self, by: str, values: tuple[str | int, ...], limit: int, before: int = 0) -> list[RunRow]:
        return self._rows_at_once(RunRow, FOUND_BY[by], *values, before or NEWEST, limit)

    def deadline_of(self, run_key: int) -> int | None:
        row = self._one("deadline_of", run_key)
        return int(row[0]) if row else None

    def tags_of(self, run_key: int) -> list[str]:
        return [tag for (tag,) in self._all("tags_of_run", run_key)]

    def count_runs(self) -> dict[str, int]:
        return dict(self._all("count_runs"))

    def children_of(self, run_id: str) -> list[RunRow]:
        return self._rows(RunRow, "children_of", run_id)

    def lease_of(self, run_id: str) -> LeaseRow | None:
        return self._row(LeaseRow, "lease_of", f"run:{run_id}")

    def leases_of(self, run_ids: Sequence[str]) -> dict[str, LeaseRow]:
        found = self._all_at_once(LeaseRow, "leases_of_runs", self._listed(run_ids))
        rows = {run_id: made(LeaseRow, row) for run_id, row in zip(run_ids, found, strict=True) if row[0] is not None}
        return {run_id: row for run_id, row in rows.items() if type(row) is LeaseRow}

    def held_by(self, process_id: str) -> tuple[dict[int, int], int]:
        found = self._all("held_by", process_id)
        return {key: epoch for key, epoch, _ in found}, found[0][2] if found else 0

    def beat_of(self, holder: str) -> Beat | None:
        row = self._one("beat_of", holder, holder)
        return beat(row) if row else None

    def beaten_at(self, process_id: str) -> int | None:
        row = self._one("beaten_at", process_id)
        return row[0] if row else None

    def runs_held_by(self, process_id: str) -> list[str]:
        return [run_id for (run_id,) in self._all("runs_held_by", process_id)]

    def count_processes(self) -> int:
        return int(self._one("count_processes")[0])

    def holders(self) -> list[Beat]:
        return [found for row in self._all("holders") if (found := beat(row)) is not None]

    def journal_of(self, chain: int, after: int = 0, limit: int | None = None) -> list[Row]:
        values = (chain, after, NEWEST if limit is None else limit)
        return list(starmap(Row, self.execute(self.sql["journal_of"], values)))

    def entry_pages(self, chain: int, after: int = 0, page: int = ENTRIES) -> Iterator[list[Row]]:
        size = min(page, ENTRIES)
        while rows := self.journal_of(chain, after, size):
            yield rows
            after = rows[-1].seq

    def each_entry(self, chain: int, after: int = 0, page: int = ENTRIES) -> Iterator[Row]:
        return in_turn.from_iterable(self.entry_pages(chain, after, page))

    def later(self, chain: int) -> Later | None:
        return LaterPayloads(self.entries_after, chain) if self.entries_after is not None else None

    def headers_of(self, chain: int, after: int, limit: int) -> list[tuple[int, bytes]]:
        return self._all("headers_of", chain, after, limit)

    def entries_named(self, chain: int, first: bytes, end: bytes) -> list[Row]:
        return [Row(*row) for row in self.execute(self.sql["entries_named"], (chain, first, end))]

    def entries_of(self, chain: int, seqs: Sequence[int]) -> list[Row]:
        found = (self._one("entry_of", chain, seq) for seq in sorted(seqs))
        return [Row(*row) for row in found if row is not None]

    def newest_entry(self) -> int:
        return int(self._one("newest_entry")[0])

    def highest_entry(self) -> int:
        return self.newest_entry()  # a row stands in for one that was removed

    def settled_entry(self, after: int, limit: int) -> int:
        return max(after, self.newest_entry())  # commits are in order

    def entries_between(self, after: int, upto: int, limit: int) -> list[EntryRow]:
        return [EntryRow._make(row) for row in self.execute(self.sql["entries_between"], (after, upto, limit))]

    def headers_between(self, after: int, before: int) -> list[HeaderRow]:
        return [HeaderRow._make(row) for row in self.execute(self.sql["headers_between"], (after, before))]

    def payload_at(self, key: int) -> bytes | None:
        row = self._one("payload_at", key)
        return row[0] if row else None

    def hash_at(self, chain: int, seq: int) -> bytes | None:
        row = self._one("hash_at", chain, seq)
        return row[0] if row else None

    def entry_sizes(self, chain: int, after: int, limit: int) -> list[tuple[int, int]]:
        return self._all("entry_sizes", chain, after, limit)

    def journals_of_nothing(self) -> list[int]:
        return [row[0] for row in self._all("journals_of_nothing")]

    def leases_without_run(self) -> list[str]:
        return [row[0] for row in self._all("leases_without_run")]

    def blobs_of(self, chain: int) -> list[str]:
        return [row[0] for row in self._all("blob_refs_of", chain)]

    def blob_refs_upto(self, chain: int, seq: int) -> list[tuple[int, str]]:
        return self._all("blob_refs_upto", chain, seq)

    def chains_of_blob(self, name: str) -> set[int]:
        return {row[0] for row in self._all("chains_of_blob", name)}

    def blobs_between(self, first: str, end: str) -> set[str]:
        return {row[0] for row in self._all("blobs_between", first, end, first, end)}

    def kin_of_status(self, status: str, limit: int, before: int = 0) -> list[Kin]:
        return self._rows(Kin, "kin_of_status", status, before or NEWEST, limit)

    def weight_of(self, run_key: int) -> Weight:
        return Weight(*(self._one("weight_of", run_key) or (0, 0, 0, 0)))

    def unswept(self) -> list[tuple[int, str]]:
        return self._all("unswept")

    def tombstones_by_prefix(self, prefix: str) -> list[Tombstone]:
        return self._rows(Tombstone, "tombstones_by_prefix", prefix, prefix + AFTER_ALL)

    # -- what they wait for, and what reaches them ---------------------------------------------------

    def waits_of(self, run_key: int) -> list[InterruptRow]:
        return self._rows(InterruptRow, "waits_of", run_key)

    def open_waits(self, after: int = 0, limit: int | None = None) -> list[InterruptRow]:
        return self._rows(InterruptRow, "open_waits", after, NEWEST if limit is None else limit)

    def inbox_waits(self) -> list[InboxRow]:
        rows = self._all("inbox_waits")
        waits = self._told(InterruptRow, [made(InterruptRow, row[:-3]) for row in rows])
        return [InboxRow(wait, *map(str, row[-3:])) for wait, row in zip(waits, rows, strict=True)]

    def interrupts_by_prefix(self, prefix: str) -> list[InterruptRow]:
        return self._rows(InterruptRow, "interrupts_by_prefix", prefix, prefix + AFTER_ALL)

    def interrupts_of(self, run_key: int) -> list[InterruptRow]:
        return self._rows(InterruptRow, "interrupts_of", run_key)

    def untaken(self, run_key: int) -> list[tuple[int, str, str, str]]:
        return self._all("untaken", run_key)

    def requests_of(self, run_key: int) -> list[tuple[str, str, str, int]]:
        return self._all("requests_of", run_key)

    def signal_for(self, run: RunRow, name: str) -> SignalRow | None:
        found = [self._one("signal_for_run", run.key, name), self._one("signal_for_task", run.scope, run.task, name)]
        return min(self._told(SignalRow, [made(SignalRow, row) for row in found if row]), default=None)

    def untaken_signals(self, run: RunRow) -> list[str]:
        found = [*self._all("untaken_for_run", run.key), *self._all("untaken_for_task", run.scope, run.task)]
        return sorted({row[0] for row in found})

    def untaken_bodies(self) -> list[str]:
        return [row[0] for row in self._all("untaken_bodies")]

    def operation(self, operation_id: str) -> tuple[str, str, str] | None:
        row = self._one("operation", operation_id)
        return tuple(row) if row else None

    def operations_of(self, run_id: str) -> list[tuple[str, str, int]]:
        return [tuple(row) for row in self._all("operations_of", run_id)]

    def is_undelivered(self, run_id: str) -> bool:
        return self._one("is_undelivered", run_id) is not None

    def deliveries_of(self, scope: str, task: str, since: int) -> list[tuple[str, str]]:
        return self._all("deliveries_of", scope, task, since)


class RunWriter(WrittenRows, RunReader):
    """Writes inside a transaction."""

    def add_run(self, run: NewRun, start: bytes, holder: str | None) -> Hold:
        key = self._add_chain(f"run:{run.id}", 1, 0, start, holder)
        self._one("add_run", key, *run[:6], status_of_new(holder), *run[6:12], run.at, *run[12:16])
        if run.tags:
            self.add_run_tags(key, run.tags)
        return Hold(key, run.id, key, epoch=1, head=0, hash=start)

    def add_run_tags(self, run_key: int, tags: Sequence[str]) -> None:
        self._one("drop_run_tags", run_key)
        self.do_many(self.sql["add_run_tag"], [(tag, run_key) for tag in tags])

    def put_deadline(self, run_key: int, at: int) -> None:
        self._one("put_deadline", run_key, at)

    def take_lease(self, lease: LeaseRow, holder: str | None) -> bool:
        return self._did("take_lease", holder, lease.key, lease.epoch)

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
        self._one("add_process", *_written(sign))

    def beat_claim(self, sign: Beat) -> None:
        self._one("add_claim", *_written(sign))

    def forget_process(self, process_id: str) -> None:
        self._one("forget_process", process_id)

    def forget_holder(self, holder: str) -> None:
        self._one("forget_process", holder)
        self._one("forget_claim", holder)

    def note_shared(self, process_id: str) -> None:
        self._one("note_shared", process_id)

    def forget_silent_processes(self, since: int) -> None:
        self._one("forget_silent_processes", since)
        self._one("forget_silent_claims", since)

    def bury(self, run_key: int, run_id: str, at: int, by: str, kept: KeptOutcome) -> None:
        self._one("bury_run", at, by, *kept, run_key)
        self.remove_waits(run_key)
        self.remove_delivery(run_id)
        self._one("drop_run_tags", run_key)
        self._one("drop_entry_of_queue", run_key)
        self._one("drop_deadline", run_key)
        self._one("remove_lease", f"run:{run_id}")
        self._one("remove_run", run_key)

    def remove_slice(self, piece: Slice) -> None:
        key, after, upto, whole = piece
        upto, highest = NEWEST if whole else upto, self.highest_entry()
        self._one("remove_entries", key, after, upto)
        # Numbers go on from the highest one: readers remember how far they have come. One row of no chain keeps it.
        self._one("keep_number", highest)
        self._one("drop_kept_numbers")
        self._one("remove_blob_refs", key, after, upto)
        if whole:
            self._one("mark_swept", key)

    def seal_run(self, run_key: int, seal: str, status: str) -> None:
        self._one("seal_run", seal, status, run_key)

    def add_arrived(self, run: RunRow, epoch: int, head: int, hash_: bytes) -> int:
        key = self._add_chain(f"run:{run.id}", epoch, head, hash_, None)
        self._one("add_arrived_run", key, *run[1:])
        return key

    def renew_arrived(self, run: RunRow, lease: LeaseRow) -> None:
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
        self.do(self.sql["forget_interrupts"], (run_key,))
        self.do(self.sql["forget_requests"], (run_key,))
        self.do_many(self.sql["add_entry"], [(run_key, row.seq, row.header, row.hash, row.payload) for row in rows])
        self.do_many(self.sql["add_blob_ref"], [(name, run_key, seq) for seq, name in refs])
        self.do_many(self.sql["add_arrived_interrupt"], [(wait.id, run_key, *wait[3:14]) for wait in waits])
        self.do_many(self.sql["send"], [(run_key, *request) for request in requests])

    # -- what they wait for, and what reaches them ---------------------------------------------------

    def add_interrupt(self, interrupt_id: str, run_key: int, wait: NewWait) -> bool:
        return self._did("add_interrupt", interrupt_id, run_key, *wait)

    def answer_interrupt(self, interrupt_id: str, answer: str, by: str) -> bool:
        return self._did("answer_interrupt", answer, by, interrupt_id)

    def end_interrupt(self, interrupt_id: str, by: str, reason: str) -> bool:
        return self._did("end_interrupt", by, reason, interrupt_id)

    def use_interrupt(self, interrupt_id: str) -> None:
        self._one("use_interrupt", interrupt_id)

    def cancel_interrupts(self, run_key: int) -> None:
        self._one("cancel_interrupts", run_key)

    def remove_waits(self, run_key: int, limit: int | None = None) -> None:
        most = NEWEST if limit is None else limit
        self._one("remove_interrupts", run_key, most)
        self._one("remove_requests", run_key, most)

    def add_signal(self, signal: NewSignal) -> None:
        self._one("add_signal", *signal)

    def take_signal(self, key: int, interrupt_id: str) -> None:
        self._one("take_signal", interrupt_id, key)

    def give_back_signals(self, run_key: int) -> None:
        self._one("give_back_signals", run_key)

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


def _written(sign: Beat) -> tuple[Any, ...]:
    of = sign.process
    identity = (of.id, of.host, of.boot_id, of.pid_namespace, of.pid, of.started, of.machine_id)
    return (*identity, sign.boot_us, sign.wall_us, sign.lease_seconds)
