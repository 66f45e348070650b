"""Queues: which runs wait to be taken, in what order, and what of them may go on at once.

A lane is what limits hold for together: the runs of one flow, and of one value where a flow says `per`. Then the limits
that steps of all runs share, the slots of them that are held, and the workers that are at work. And schedules: which
flow is to be run at which times, and when next.

And what people did that no journal has: changes of all these, of keys and targets, and removed runs.
"""

from __future__ import annotations

from outlast.store.contract.runs import RunRow
from outlast.values.frozen import NamedTuple, Protocol


class QueueRow(NamedTuple):
    name: str
    paused: int
    paused_by: str
    paused_at: int
    served: str  # the lane that a run was last taken from
    engine: str = ""  # who takes runs out of it: another engine than our own workers


class QueueEntry(NamedTuple):
    """The place of a run in its queue, for as long as it is unfinished."""

    run: int  # runs.key
    queue: str
    lane: str
    priority: int  # the larger goes first
    due_at: int
    most: int  # of its lane at once; 0: however many
    rate: int  # of its lane that may begin within the window; 0: however many
    window_us: int
    state: str  # delayed; ready to be taken; taken, which holds a slot; idle: it waits, failed or was stopped
    added_at: int
    expires_at: int = 0  # when it ends unless it was taken; 0: never


class Coming(NamedTuple):
    """What comes by itself, of waits, queues and schedules: when something is over next, and what is now."""

    next_at: int | None
    expired: bool  # runs were not taken in time
    scheduled: bool  # the time of a schedule has come
    queued: bool  # a run is ready to be taken, or its delay is over


class QueueReading(Protocol):
    """Lookups, each by an index."""

    def queues(self) -> list[QueueRow]: ...
    def queue_of(self, name: str) -> QueueRow | None: ...
    def entries_in(self, queue: str, state: str, after: int, limit: int) -> list[QueueEntry]: ...
    def runs_asked(self, after: int, limit: int) -> list[RunRow]: ...
    def queue_depth(self, queue: str) -> dict[str, tuple[int, int]]: ...
    def entry_of(self, run_key: int) -> QueueEntry | None: ...
    def coming(self, now: int) -> Coming: ...
    def is_delayed_over(self, now: int) -> bool: ...
    def expired(self, now: int) -> list[int]: ...
    def is_paused(self, queue: str) -> bool: ...
    def top_priority(self, queue: str, below: int) -> int | None: ...
    def next_ready(self, queue: str, priority: int, after: str, upto: str) -> QueueEntry | None: ...
    def taken_in(self, lane: str) -> int: ...
    def begun_before(self, lane: str, number: int) -> int | None: ...
    def run_by_key(self, run_key: int) -> RunRow | None: ...


class QueueWriting(QueueReading, Protocol):
    """Writes inside a transaction."""

    def add_queue(self, queue: str, engine: str = "") -> None: ...
    def set_engine(self, queue: str, engine: str) -> None: ...
    def pause_queue(self, queue: str, paused: bool, by: str, at: int) -> bool: ...
    def serve_lane(self, queue: str, lane: str) -> None: ...
    def add_entry(self, entry: QueueEntry) -> None: ...
    def set_entry(self, run_key: int, state: str, due_at: int = 0) -> None: ...
    def drop_entry(self, run_key: int) -> None: ...
    def keep_entry(self, run_key: int) -> None: ...
    def release_delayed(self, now: int) -> None: ...
    def add_begun(self, lane: str, at: int, since: int) -> None: ...


# -- limits and workers ------------------------------------------------------------------------------


class LimitRow(NamedTuple):
    name: str
    most: int  # steps at once; 0: however many
    rate: int  # that may begin within the window; 0: however many
    window_us: int
    set_by: str
    set_at: int


class SlotRow(NamedTuple):
    """A step under way that holds a slot of a limit, or waits for one."""

    number: int
    name: str
    holder: str  # the process that it is in
    run_id: str
    step: str
    state: str  # waiting, held
    since: int


class WorkerRow(NamedTuple):
    id: str
    process: str
    about: str  # JSON: its flows, queues and how many runs at once
    since: int


class LimitReading(Protocol):
    """Lookups, each by an index."""

    def limits(self) -> list[LimitRow]: ...
    def limit_of(self, name: str) -> LimitRow | None: ...
    def slots_of_limit(self, name: str, state: str) -> list[SlotRow]: ...
    def slots_of_run(self, run_id: str) -> list[SlotRow]: ...
    def count_slots(self, name: str) -> int: ...
    def workers(self) -> list[WorkerRow]: ...
    def workers_at_work(self) -> list[WorkerRow]: ...


class LimitWriting(LimitReading, Protocol):
    """Writes inside a transaction."""

    def put_limit(self, limit: LimitRow) -> None: ...
    def remove_limit(self, name: str) -> bool: ...
    def add_slot(self, slot: SlotRow) -> int: ...
    def hold_slot(self, number: int, since: int) -> bool: ...
    def drop_slot(self, number: int) -> None: ...
    def put_worker(self, worker: WorkerRow) -> None: ...
    def drop_worker(self, worker_id: str) -> None: ...


# -- how far each target of notifications was told, and who is at it ---------------------------------


class ToldRow(NamedTuple):
    target: str
    state: str  # JSON, of whoever tells
    holder: str  # the process that tells it now; empty: none


class ToldReading(Protocol):
    """Lookups, each by an index."""

    def told(self, target: str) -> ToldRow | None: ...


class ToldWriting(ToldReading, Protocol):
    """Writes inside a transaction."""

    def add_told(self, target: str, state: str) -> None: ...
    def take_told(self, target: str, holder: str, before: str) -> bool: ...
    def keep_told(self, target: str, state: str, holder: str) -> bool: ...


# -- schedules ---------------------------------------------------------------------------------------


class ScheduleRow(NamedTuple):
    number: int
    scope: str
    name: str
    flow: str  # as runs name it
    inputs: str
    cron: str
    timezone: str
    missed: str
    queue: str
    paused: int
    made_by: str
    made_at: int
    next_at: int


class ScheduleReading(Protocol):
    """Lookups, each by an index."""

    def schedules(self) -> list[ScheduleRow]: ...
    def schedule_of(self, scope: str, name: str) -> ScheduleRow | None: ...
    def due_schedules(self, now: int) -> list[ScheduleRow]: ...


class ScheduleWriting(ScheduleReading, Protocol):
    """Writes inside a transaction."""

    def put_schedule(self, schedule: ScheduleRow) -> None: ...
    def advance_schedule(self, schedule: ScheduleRow, next_at: int) -> bool: ...
    def pause_schedule(self, scope: str, name: str, paused: bool, next_at: int) -> None: ...
    def remove_schedule(self, scope: str, name: str) -> None: ...


# -- what people did ---------------------------------------------------------------------------------


class NewAct(NamedTuple):
    at: int
    actor: str
    host: str
    door: str
    scope: str  # empty: of the whole tenant
    noun: str  # run, schedule, queue, limit, key, target
    name: str
    verb: str  # in the past: added, paused, removed
    changes: str  # JSON: what was changed, from what to what
    done: int = 1  # 0: it is about to be done outside of the ledger


class ActRow(NamedTuple):
    number: int
    entry: int  # the newest entry of any journal when it was done: what people did is told in one order
    at: int
    actor: str
    host: str
    door: str
    scope: str
    noun: str
    name: str
    verb: str
    changes: str
    done: int


class ActReading(Protocol):
    """Lookups, each by an index."""

    def acts_before(self, entry: int, number: int, first: int, limit: int) -> list[ActRow]: ...


class ActWriting(ActReading, Protocol):
    """Writes inside a transaction."""

    def add_act(self, act: NewAct) -> int: ...
    def finish_act(self, number: int) -> None: ...
