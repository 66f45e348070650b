"""Queues: which runs wait to be taken, in what order, and what of them may go on at once.

A lane is what limits hold for together: the runs of one flow, and of one value where a flow says `per`. Then the limits
that steps of all runs share, the slots of them that are held, and the workers that are at work. And schedules: which
flow is to be run at which times, and when next.

And what people did that no journal has: changes of all these, of keys and targets, and removed runs.
"""

from __future__ import annotations

from outlast.values.frozen import NamedTuple


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


# -- how far each target of notifications was told, and who is at it ---------------------------------


class ToldRow(NamedTuple):
    target: str
    state: str  # JSON, of whoever tells
    holder: str  # the process that tells it now; empty: none


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


# -- what people did ---------------------------------------------------------------------------------


class ActRow(NamedTuple):
    number: int  # given when it is added, and so is the entry
    entry: int  # the newest entry of any journal when it was done: what people did is told in one order
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


# -- lookups and writes ------------------------------------------------------------------------------
