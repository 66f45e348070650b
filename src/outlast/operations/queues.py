"""Operations about what runs wait for: queues, limits, schedules, and the workers that take them."""

from __future__ import annotations

from functools import partial

from outlast import errors as e
from outlast.operations import fields as f
from outlast.operations.operation import Change, Request, operation
from outlast.runs.queues.limit import Limit
from outlast.runs.queues.queue import Queue
from outlast.runs.queues.schedule import Schedule
from outlast.runs.queues.workers import WorkerRecord
from outlast.runs.run import RunRecord

OF_WORKERS = "what is queued is a matter of who runs the workers"
OF_TIMES = "when something runs by itself is for people to say; what came of it is found among the runs"


# -- queues --------------------------------------------------------------------------------------------


@operation(
    "queue_list",
    "GET /v1/queues",
    "The queues, with how many runs wait in each, and since when",
    calls="queues",
    answer=Queue,
    items="queues",
    not_by_mcp=OF_WORKERS,
)
class Queues(Request):
    """Nothing more."""


class OfQueue(Change):
    """Which queue."""

    queue: f.Queue


queue_change = partial(
    operation, answer=Queue, errors=(e.QueueNotFound, e.NameInvalid, e.OperationConflict), not_by_mcp=OF_WORKERS
)


@queue_change(
    "queue_pause",
    "POST /v1/queues/{queue}/pause",
    "Let no run out of a queue any more; those that go on do so",
    calls="pause_queue",
    example={},
)
class PauseQueue(OfQueue):
    """Which queue."""


@queue_change(
    "queue_resume", "POST /v1/queues/{queue}/resume", "Let runs out of a queue again", calls="resume_queue", example={}
)
class ResumeQueue(OfQueue):
    """Which queue."""


@queue_change(
    "queue_move",
    "POST /v1/queues/{queue}/move",
    "Let another engine take the runs of a queue, all at once",
    calls="move_queue",
    example={"to": "temporal"},
)
class MoveQueue(OfQueue):
    """Which queue, and to whom."""

    to: f.Engine
    adopt: f.Adopt = False


# -- workers -------------------------------------------------------------------------------------------


@operation(
    "worker_list",
    "GET /v1/workers",
    "The workers: what each runs, since when, of which flows and code",
    calls="workers",
    answer=WorkerRecord,
    items="workers",
    not_by_mcp=OF_WORKERS,
)
class ListWorkers(Request):
    """Nothing more."""


# -- limits --------------------------------------------------------------------------------------------


@operation(
    "limit_list",
    "GET /v1/limits",
    "The limits that steps share, with those that hold them and those that wait",
    calls="limits",
    answer=Limit,
    items="limits",
    not_by_mcp=OF_WORKERS,
)
class ListLimits(Request):
    """Nothing more."""


class OfLimit(Change):
    """Which limit."""

    limit: f.LimitName


@operation(
    "limit_set",
    "PUT /v1/limits/{limit}",
    "Say how many steps that name a limit run at once, and how many begin in a while",
    calls="set_limit",
    answer=Limit,
    errors=(e.NameInvalid, e.OperationConflict),
    example={"concurrency": 4, "rate": "30/m"},
    not_by_mcp=OF_WORKERS,
)
class SetLimit(OfLimit):
    """Which limit, and its numbers."""

    concurrency: f.LimitConcurrency = None
    rate: f.LimitRate = ""


@operation(
    "limit_remove",
    "POST /v1/limits/{limit}/remove",
    "Forget a limit: steps that name it are refused from then on",
    calls="remove_limit",
    answer=Limit,
    errors=(e.LimitNotFound, e.NameInvalid, e.OperationConflict),
    example={},
    not_by_mcp=OF_WORKERS,
)
class RemoveLimit(OfLimit):
    """Which limit."""


# -- schedules -----------------------------------------------------------------------------------------


@operation(
    "schedule_list",
    "GET /v1/schedules",
    "The schedules, with their next times",
    calls="schedules.list",
    answer=Schedule,
    items="schedules",
    not_by_mcp=OF_TIMES,
)
class ListSchedules(Request):
    """Nothing more."""


class OfSchedule(Change):
    """Which schedule."""

    name: f.ScheduleName


schedule_change = partial(
    operation,
    answer=Schedule,
    errors=(e.ScheduleNotFound, e.NameInvalid, e.OperationConflict),
    example={},
    not_by_mcp=OF_TIMES,
)


@operation(
    "schedule_add",
    "PUT /v1/schedules/{name}",
    "Run a flow that the server was given at certain times; a schedule of this name is changed",
    calls="schedules.add",
    answer=Schedule,
    errors=(
        *(e.ScheduleInvalid, e.InputsInvalid, e.NameInvalid, e.NoFlows),
        *(e.FlowNotFound, e.ExtraMissing, e.OperationConflict),
    ),
    example={"flow": "report", "cron": "0 7 * * MON-FRI", "timezone": "Europe/Paris"},
    not_by_mcp=OF_TIMES,
)
class AddSchedule(OfSchedule):
    """What, when, and what becomes of times that were missed."""

    flow: f.FlowName
    cron: f.Cron
    inputs: f.Inputs | None = None
    timezone: f.Timezone = "UTC"
    missed: f.Missed = "once"
    queue: f.ScheduleQueue = ""


@schedule_change(
    "schedule_pause", "POST /v1/schedules/{name}/pause", "Let a schedule fire no more", calls="schedules.pause"
)
class PauseSchedule(OfSchedule):
    """Which schedule."""


@schedule_change(
    "schedule_resume",
    "POST /v1/schedules/{name}/resume",
    "Let a schedule fire again, from its next time on",
    calls="schedules.resume",
)
class ResumeSchedule(OfSchedule):
    """Which schedule."""


@schedule_change(
    "schedule_remove", "POST /v1/schedules/{name}/remove", "Forget a schedule; its runs stay", calls="schedules.remove"
)
class RemoveSchedule(OfSchedule):
    """Which schedule."""


@operation(
    "schedule_trigger",
    "POST /v1/schedules/{name}/trigger",
    "Put a run of a schedule into its queue now, besides those of its times",
    calls="schedules.trigger",
    answer=RunRecord,
    errors=(e.ScheduleNotFound, e.NoFlows, e.FlowNotFound, e.NameInvalid, e.OperationConflict),
    example={},
    not_by_mcp=OF_TIMES,
)
class TriggerSchedule(OfSchedule):
    """Which schedule."""
