"""Queues, limits with their slots, workers, how far targets of notifications were told, schedules, and
what people did that no journal has.

All on one connection.
"""

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
from outlast.store.nouns.rows import Rows, WrittenRows


class QueueReader(Rows):
    """Lookups."""

    def queues(self) -> list[QueueRow]:
        return self._rows(QueueRow, "all_queues")

    def queue_of(self, name: str) -> QueueRow | None:
        return self._row(QueueRow, "queue_by_name", name)

    def entries_in(self, queue: str, state: str, after: int, limit: int) -> list[QueueEntry]:
        return self._rows(QueueEntry, "entries_of_queue", queue, state, after, limit)

    def runs_asked(self, after: int, limit: int) -> list[RunRow]:
        return self._rows(RunRow, "runs_asked", after, limit)

    def queue_depth(self, queue: str) -> dict[str, tuple[int, int]]:
        return {state: (int(count), int(oldest)) for state, count, oldest in self._all("queue_depth", queue)}

    def entry_of(self, run_key: int) -> QueueEntry | None:
        return self._row(QueueEntry, "entry_of_queue", run_key)

    def coming(self, now: int) -> Coming:
        *times, expired, scheduled, queued = self._one("coming", *(now,) * 7)
        return Coming(min(filter(None, times), default=None), bool(expired), bool(scheduled), bool(queued))

    def is_delayed_over(self, now: int) -> bool:
        return self._one("is_delayed_over", now) is not None

    def expired(self, now: int) -> list[int]:
        return [int(key) for (key,) in self._all("expired_entries", now)]

    def is_paused(self, queue: str) -> bool:
        row = self._one("is_queue_paused", queue)
        return bool(row and row[0])

    def top_priority(self, queue: str, below: int) -> int | None:
        row = self._one("top_priority", queue, below)
        return int(row[0]) if row else None

    def next_ready(self, queue: str, priority: int, after: str, upto: str) -> QueueEntry | None:
        return self._row(QueueEntry, "next_ready", queue, priority, after, upto)

    def taken_in(self, lane: str) -> int:
        return int(self._one("taken_in_lane", lane)[0])

    def begun_before(self, lane: str, number: int) -> int | None:
        row = self._one("begun_before", lane, number - 1)
        return int(row[0]) if row else None

    def run_by_key(self, run_key: int) -> RunRow | None:
        return self._row(RunRow, "run_by_key", run_key)

    # -- limits and workers --------------------------------------------------------------------------

    def limits(self) -> list[LimitRow]:
        return self._rows(LimitRow, "all_limits")

    def limit_of(self, name: str) -> LimitRow | None:
        return self._row(LimitRow, "limit_of", name)

    def slots_of_limit(self, name: str, state: str) -> list[SlotRow]:
        return self._rows(SlotRow, "slots_of_limit", name, state)

    def slots_of_run(self, run_id: str) -> list[SlotRow]:
        return self._rows(SlotRow, "slots_of_run", run_id)

    def count_slots(self, name: str) -> int:
        return int(self._one("count_slots", name)[0])

    def workers(self) -> list[WorkerRow]:
        return self._rows(WorkerRow, "all_workers")

    def workers_at_work(self) -> list[WorkerRow]:
        return self.workers()

    # -- notifications -------------------------------------------------------------------------------

    def told(self, target: str) -> ToldRow | None:
        return self._row(ToldRow, "told_of", target)

    # -- schedules -----------------------------------------------------------------------------------

    def schedules(self) -> list[ScheduleRow]:
        return self._rows(ScheduleRow, "all_schedules")

    def schedule_of(self, scope: str, name: str) -> ScheduleRow | None:
        return self._row(ScheduleRow, "schedule_of", scope, name)

    def due_schedules(self, now: int) -> list[ScheduleRow]:
        return self._rows(ScheduleRow, "due_schedules", now)

    # -- what people did -----------------------------------------------------------------------------

    def acts_before(self, entry: int, number: int, first: int, limit: int) -> list[ActRow]:
        return self._rows(ActRow, "acts_before", entry, number, first, limit)


class QueueWriter(WrittenRows, QueueReader):
    """Writes inside a transaction."""

    def add_queue(self, queue: str, engine: str = "") -> None:
        self._one("add_queue", queue, engine)

    def set_engine(self, queue: str, engine: str) -> None:
        self._one("set_engine_of_queue", engine, queue)

    def pause_queue(self, queue: str, paused: bool, by: str, at: int) -> bool:
        return self._did("pause_queue", int(paused), by, at, queue)

    def serve_lane(self, queue: str, lane: str) -> None:
        self._one("serve_lane", lane, queue)

    def add_entry(self, entry: QueueEntry) -> None:
        self._one("add_entry_of_queue", *entry)

    def set_entry(self, run_key: int, state: str, due_at: int = 0) -> None:
        self._one("set_entry_of_queue", state, due_at, state, run_key)

    def drop_entry(self, run_key: int) -> None:
        self._one("drop_entry_of_queue", run_key)

    def keep_entry(self, run_key: int) -> None:
        self._one("keep_entry_of_queue", run_key)

    def release_delayed(self, now: int) -> None:
        self._one("release_delayed", now)

    def add_begun(self, lane: str, at: int, since: int) -> None:
        self._one("forget_begun", lane, since)
        self._one("add_begun", lane, at)

    # -- limits and workers --------------------------------------------------------------------------

    def put_limit(self, limit: LimitRow) -> None:
        self._one("put_limit", *limit)

    def remove_limit(self, name: str) -> bool:
        return self._did("remove_limit", name)

    def add_slot(self, slot: SlotRow) -> int:
        return int(self._one("add_slot", *slot[1:])[0])

    def hold_slot(self, number: int, since: int) -> bool:
        return self._did("hold_slot", since, number)

    def drop_slot(self, number: int) -> None:
        self._one("drop_slot", number)

    def put_worker(self, worker: WorkerRow) -> None:
        self._one("add_worker", *worker)

    def drop_worker(self, worker_id: str) -> None:
        self._one("drop_worker", worker_id)

    # -- notifications -------------------------------------------------------------------------------

    def add_told(self, target: str, state: str) -> None:
        self._one("add_told", target, state)

    def take_told(self, target: str, holder: str, before: str) -> bool:
        return self._did("take_told", holder, target, before)

    def keep_told(self, target: str, state: str, holder: str) -> bool:
        return self._did("keep_told", state, target, holder)

    # -- schedules -----------------------------------------------------------------------------------

    def put_schedule(self, schedule: ScheduleRow) -> None:
        said = (schedule.flow, schedule.inputs, schedule.cron, schedule.timezone, schedule.missed, schedule.queue)
        made = (schedule.made_by, schedule.made_at, schedule.next_at)
        if self.schedule_of(schedule.scope, schedule.name) is None:
            self._one("add_schedule", schedule.scope, schedule.name, *said, *made)
        else:
            self._one("change_schedule", *said, *made, schedule.scope, schedule.name)

    def advance_schedule(self, schedule: ScheduleRow, next_at: int) -> bool:
        return self._did("advance_schedule", next_at, schedule.scope, schedule.name, schedule.next_at)

    def pause_schedule(self, scope: str, name: str, paused: bool, next_at: int) -> None:
        self._one("pause_schedule", int(paused), next_at, scope, name)

    def remove_schedule(self, scope: str, name: str) -> None:
        self._one("remove_schedule", scope, name)

    # -- what people did -----------------------------------------------------------------------------

    def add_act(self, act: ActRow) -> int:
        (entry,) = self._one("newest_entry")
        return int(self._one("add_act", entry, *act[2:])[0])

    def finish_act(self, number: int) -> None:
        self._one("finish_act", number)
