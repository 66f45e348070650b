"""Operations about tasks: the host bridge. Open a task, inspect it, pause, resume and complete it.

A claim that resuming gives is shown again as `claim_id`: each request is a session of its own.
"""

from __future__ import annotations

from outlast.errors import (
    ClaimLost,
    HandoffClaimed,
    HandoffContested,
    HandoffInvalid,
    HandoffNotFound,
    LookFirst,
    NotSettled,
    OperationConflict,
    RevisionConflict,
    RunsOnHost,
    SecretFound,
    TaskExists,
    TaskNotFound,
    TaskRefused,
    ValueRefused,
)
from outlast.operations import answers
from outlast.operations import fields as f
from outlast.operations.handoffs import SEED, ToSettle, ToStore
from outlast.operations.observed import ObservedFiles
from outlast.operations.operation import Change, Gated, Paged, Pages, Request, operation
from outlast.tasks.task import Task, TaskCompleted, TaskEvent

HELD = (TaskNotFound, HandoffClaimed, ClaimLost, TaskRefused, HandoffInvalid, OperationConflict)
BY_HOST = "the host keeps its tasks; a model pauses, resumes and completes them"


class OfTask(Request):
    """Base of what is asked about one task."""

    task_id: f.TaskId


@operation(
    "task_list",
    "GET /v1/tasks",
    "The tasks that were opened, or have an unfinished run",
    calls="tasks.list",
    role="read",
    answer=Task,
    items="tasks",
    pages=Pages(lambda last: last.task),
    errors=(TaskNotFound,),
    not_by_mcp=BY_HOST,
)
class ListTasks(Paged):
    """Which tasks to list."""

    state: f.TaskState | None = None


@operation(
    "task_open",
    "POST /v1/tasks/{task_id:path}/open",
    "Open a task, if it is not",
    role="write",
    answer=Task,
    errors=(TaskExists, ValueRefused, OperationConflict),
    detail="A completed task stays so unless `reopen` is said.",
    example={"session": "support-17"},
    not_by_mcp="task_pause opens a task that is new",
)
class OpenTask(OfTask, Change):
    """A task to open, if it is not."""

    session: f.Session = ""
    meta: f.Meaning | None = None
    reopen: f.Reopen = False
    repo_root: f.RepoRoot | None = None
    claim_id: f.ClaimId | None = None


@operation(
    "task_inspect",
    "GET /v1/tasks/{task_id:path}/inspect",
    "How a task stands, and what may be done with it",
    role="read",
    answer=answers.CONTEXT,
    errors=(TaskNotFound, ClaimLost, ValueRefused),
    not_by_mcp=BY_HOST,
)
class InspectTask(OfTask):
    """How much of its history is wanted, and which claim is shown."""

    history: f.History = 20
    claim_id: f.ClaimId | None = None


@operation(
    "task_inspect_seen",
    "POST /v1/tasks/{task_id:path}/inspect",
    "How a task stands, judged by what was seen of its files",
    role="read",
    answer=answers.CONTEXT,
    errors=(TaskNotFound, ClaimLost, HandoffInvalid, ValueRefused, LookFirst),
    example={"history": 5},
    not_by_mcp=BY_HOST,
)
class InspectTaskSeen(InspectTask, ObservedFiles):
    """How much of its history is wanted, and what was seen of its files."""

    repo_root: f.RepoRoot | None = None


@operation(
    "task_pause",
    "POST /v1/tasks/{task_id:path}/pause",
    "Pause a task: store what whoever resumes it needs, and give the claim back",
    role="write",
    answer=answers.PAUSED,
    errors=(*HELD, SecretFound, RevisionConflict, LookFirst),
    example={name: SEED[name] for name in ("summary", "handoff_text", "next_action", "acceptance_checks")},
)
class PauseTask(OfTask, ToStore):
    """What whoever resumes the task needs: the fields of a handoff."""

    stop_run: f.StopRun = False


@operation(
    "task_resume",
    "POST /v1/tasks/{task_id:path}/resume",
    "Resume a task: claim it, and recover what was handed over, with its verdict",
    role=Gated("write"),
    answer=answers.RESUMED,
    errors=(*HELD, HandoffContested, HandoffNotFound, RunsOnHost, LookFirst),
    detail="Keep `claim.id`, and show it as `claim_id` with each call about the task.",
    example={},
)
class ResumeTask(OfTask, ObservedFiles, Change):
    """What is taken upon oneself, and whether to take it from another claimer."""

    run_checks: f.RunChecks = False
    accept: f.Accept = ()
    why: f.Why = ""
    take: f.Take = False
    claim_id: f.ClaimId | None = None
    repo_root: f.RepoRoot | None = None


@operation(
    "task_complete",
    "POST /v1/tasks/{task_id:path}/complete",
    "Complete a task: its checks must have passed, and its runs be over",
    role=Gated("write"),
    answer=TaskCompleted,
    errors=(*HELD, NotSettled, RunsOnHost, LookFirst),
    example={"run_checks": False, "override": "the customer has confirmed it"},
)
class CompleteTask(OfTask, ToSettle):
    """What shows that the task is done."""


@operation(
    "task_record",
    "POST /v1/tasks/{task_id:path}/events",
    "Record an event of the host's; secrets in it are masked, and counted",
    role="write",
    answer=TaskEvent,
    errors=(TaskNotFound, ValueRefused, OperationConflict),
    example={"name": "assigned", "body": {"to": "Ana"}},
    not_by_mcp=BY_HOST,
)
class RecordTaskEvent(OfTask, Change):
    """An event of the host's."""

    name: f.EventName
    body: f.Body = None


@operation(
    "task_events",
    "GET /v1/tasks/{task_id:path}/events",
    "What happened to a task, in order",
    role="read",
    answer=TaskEvent,
    items="events",
    pages=Pages(lambda last: last.seq, int, "after"),
    errors=(TaskNotFound, ValueRefused),
    not_by_mcp=BY_HOST,
)
class TaskEvents(OfTask, Paged):
    """From where on."""

    after: f.After = 0


@operation(
    "task_get",
    "GET /v1/tasks/{task_id:path}",
    "A task and its state",
    calls="tasks.get",
    role="read",
    answer=Task,
    errors=(TaskNotFound,),
    not_by_mcp=BY_HOST,
)
class GetTask(OfTask):
    """Which task."""
