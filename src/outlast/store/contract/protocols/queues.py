"""Queues, limits, schedules and workers: what is asked of a store about them, and written."""

from __future__ import annotations

from outlast.store.contract.queues import (
    ActRow,
    Coming,
    LimitRow,
    QueueEntry,
    QueueRow,
    ScheduleRow,
    SlotRow,
    ToldRow,
    WorkerRow,
)
from outlast.store.contract.runs import RunRow
from outlast.values.frozen import Protocol


class QueueReading(Protocol):
    """Lookups, each by an index."""

    def queues(self) -> list[QueueRow]: ...
    def queue_of(self, name: str) -> QueueRow | None: ...

    def entries_in(self, queue: str, state: str, after: int, limit: int) -> list[QueueEntry]:
        """Those of a queue in one state, by their runs."""

    def runs_asked(self, after: int, limit: int) -> list[RunRow]:
        """Those that have a request which nobody has taken."""

    def queue_depth(self, queue: str) -> dict[str, tuple[int, int]]:
        """How many there are in each state, and when the oldest of them was added."""

    def entry_of(self, run_key: int) -> QueueEntry | None: ...

    def coming(self, now: int) -> Coming:
        """All that becomes due by itself, in one question."""

    def is_delayed_over(self, now: int) -> bool: ...

    def expired(self, now: int) -> list[int]:
        """The runs that were not taken in time, by their keys."""

    def is_paused(self, queue: str) -> bool: ...
    def top_priority(self, queue: str, below: int) -> int | None: ...

    def next_ready(self, queue: str, priority: int, after: str, upto: str) -> QueueEntry | None:
        """The first of the first lane after one, up to another."""

    def taken_in(self, lane: str) -> int: ...

    def begun_before(self, lane: str, number: int) -> int | None:
        """When the so manieth from the end began; None when there were fewer."""

    def run_by_key(self, run_key: int) -> RunRow | None: ...

    # -- limits and workers --------------------------------------------------------------------------

    def limits(self) -> list[LimitRow]: ...
    def limit_of(self, name: str) -> LimitRow | None: ...
    def slots_of_limit(self, name: str, state: str) -> list[SlotRow]: ...
    def slots_of_run(self, run_id: str) -> list[SlotRow]: ...

    def count_slots(self, name: str) -> int:
        """How many are held."""

    def workers(self) -> list[WorkerRow]: ...

    def workers_at_work(self) -> list[WorkerRow]:
        """The same for who only asks whether there is one: a key that sees some scopes only may."""

    # -- notifications -------------------------------------------------------------------------------

    def told(self, target: str) -> ToldRow | None: ...

    # -- schedules -----------------------------------------------------------------------------------

    def schedules(self) -> list[ScheduleRow]: ...
    def schedule_of(self, scope: str, name: str) -> ScheduleRow | None: ...
    def due_schedules(self, now: int) -> list[ScheduleRow]: ...

    # -- what people did -----------------------------------------------------------------------------

    def acts_before(self, entry: int, number: int, first: int, limit: int) -> list[ActRow]:
        """The newest before one, of those that were done when `first` was the newest entry or later."""


class QueueWriting(QueueReading, Protocol):
    """Writes inside a transaction."""

    def add_queue(self, queue: str, engine: str = "") -> None: ...
    def set_engine(self, queue: str, engine: str) -> None: ...
    def pause_queue(self, queue: str, paused: bool, by: str, at: int) -> bool: ...
    def serve_lane(self, queue: str, lane: str) -> None: ...
    def add_entry(self, entry: QueueEntry) -> None: ...
    def set_entry(self, run_key: int, state: str, due_at: int = 0) -> None: ...
    def drop_entry(self, run_key: int) -> None: ...

    def keep_entry(self, run_key: int) -> None:
        """It does not end for having waited."""

    def release_delayed(self, now: int) -> None: ...

    def add_begun(self, lane: str, at: int, since: int) -> None:
        """That a run of the lane began; those before the window are forgotten."""

    # -- limits and workers --------------------------------------------------------------------------

    def put_limit(self, limit: LimitRow) -> None:
        """A new one, or other numbers for one of this name."""

    def remove_limit(self, name: str) -> bool: ...

    def add_slot(self, slot: SlotRow) -> int:
        """Its number."""

    def hold_slot(self, number: int, since: int) -> bool:
        """Whether it is there still: one of a process that seemed dead is gone."""

    def drop_slot(self, number: int) -> None: ...
    def put_worker(self, worker: WorkerRow) -> None: ...
    def drop_worker(self, worker_id: str) -> None: ...

    # -- notifications -------------------------------------------------------------------------------

    def add_told(self, target: str, state: str) -> None:
        """A new target; one that is there stays as it is."""

    def take_told(self, target: str, holder: str, before: str) -> bool:
        """Whether it was still held by the one who was seen to hold it, and is now by another; empty: by nobody."""

    def keep_told(self, target: str, state: str, holder: str) -> bool:
        """Whether it is still held by this one: only then is anything kept."""

    # -- schedules -----------------------------------------------------------------------------------

    def put_schedule(self, schedule: ScheduleRow) -> None:
        """A new one, or other words for one of this name."""

    def advance_schedule(self, schedule: ScheduleRow, next_at: int) -> bool:
        """To its next time, unless somebody has done so."""

    def pause_schedule(self, scope: str, name: str, paused: bool, next_at: int) -> None: ...
    def remove_schedule(self, scope: str, name: str) -> None: ...

    # -- what people did -----------------------------------------------------------------------------

    def add_act(self, act: ActRow) -> int:
        """Its number."""

    def finish_act(self, number: int) -> None:
        """It was done."""
