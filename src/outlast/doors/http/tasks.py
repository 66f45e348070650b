"""Tasks over HTTP: the host bridge. Open a task, inspect it, pause, resume and complete it.

A claim that resuming gives is shown again as `claim_id`: each request is a session of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.doors.http.calls import (
    Body,
    CallRequest,
    Gated,
    HttpCall,
    Page,
    Paged,
    cursor_of,
    limit_of,
    page_of,
    place_in,
)
from outlast.doors.http.handoffs import SEED, BoundContract, packets
from outlast.doors.http.observed import Looked
from outlast.doors.http.shapes import PausedTask, ResumedTask, TaskStanding
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
from outlast.python.shown import context_json, paused_json, resumed_json
from outlast.tasks.task import State, Task, TaskCompleted, TaskContext, TaskEvent, TaskPaused, TaskResumed
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.python.tasks import TaskSession


class TaskOpen(Body):
    """A task to open, if it is not."""

    session: str = ""
    meta: dict[str, Any] | None = None
    reopen: bool = False
    repo_root: str | None = None
    claim_id: str | None = None
    operation_id: str | None = None
    tenant_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class _Session(Looked):
    """Whose session it is."""

    claim_id: str | None = None
    repo_root: str | None = None
    operation_id: str | None = None
    tenant_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class TaskPause(BoundContract, kw_only=True):
    """What whoever resumes the task needs: the fields of a handoff."""

    summary: str
    handoff_text: str
    expected_revision: int | None = None
    strict: bool = False
    baseline: bool | tuple[dict[str, Any], ...] = False
    redact: bool = False
    bind: bool = True
    stop_run: bool = False
    claim_id: str | None = None
    operation_id: str | None = None
    tenant_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class TaskResume(_Session):
    """What is taken upon oneself, and whether to take it from another claimer."""

    run_checks: bool = False
    accept: tuple[str, ...] = ()
    why: str = ""
    take: bool = False


class TaskComplete(_Session):
    """What shows that the task is done."""

    evidence: tuple[dict[str, Any], ...] = ()
    acknowledged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    override: str = ""
    note: str = ""
    run_checks: bool = True


class TaskRecord(Body):
    """An event of the host's."""

    name: str
    body: Any = None
    operation_id: str | None = None
    tenant_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class TasksQuery(Paged):
    """Which tasks to list."""

    state: State | None = None
    scope: str | None = None


class TaskQuery(Body):
    """In what scope to look."""

    scope: str | None = None


class InspectQuery(Body):
    """How much of its history is wanted, and which claim is shown."""

    history: int = 20
    claim_id: str | None = None
    scope: str | None = None


class TaskInspect(Looked):
    """How much of its history is wanted, and what was seen of its files."""

    history: int = 20
    claim_id: str | None = None
    repo_root: str | None = None
    scope: str | None = None
    actor: str | None = None


class TaskEventsQuery(Paged):
    """From where on."""

    after: int = 0
    scope: str | None = None


def _open(outlast: Outlast, asked: CallRequest) -> Task:
    task = outlast.tasks.open(asked.path["task_id"], **asked.given())
    return outlast.tasks.get(task.task_id, scope=asked.body.scope)


def _at(outlast: Outlast, asked: CallRequest) -> tuple[TaskSession, dict[str, Any]]:
    """The session that a request is, and what else it says."""
    given = asked.given()
    claim_id, root = given.pop("claim_id", None), given.pop("repo_root", None)
    scope = given.pop("scope", None)
    return outlast.tasks.session(asked.path["task_id"], claim_id=claim_id, repo_root=root, scope=scope), given


def _pause(outlast: Outlast, asked: CallRequest) -> TaskPaused:
    given = packets(asked.given())
    claim_id, scope = given.pop("claim_id"), given.pop("scope")
    at = outlast.tasks.session(asked.path["task_id"], claim_id=claim_id, scope=scope)
    return at.pause_task(**given)


def _resume(outlast: Outlast, asked: CallRequest) -> TaskResumed:
    at, given = _at(outlast, asked)
    return at.resume_task(**given)


def _complete(outlast: Outlast, asked: CallRequest) -> TaskCompleted:
    at, given = _at(outlast, asked)
    return at.complete_task(**given)


def _record(outlast: Outlast, asked: CallRequest) -> TaskEvent:
    at, given = _at(outlast, asked)
    return at.record_event(**given)


def _inspect(outlast: Outlast, asked: CallRequest) -> TaskContext:
    query: InspectQuery = asked.query
    at = outlast.tasks.session(asked.path["task_id"], claim_id=query.claim_id, scope=query.scope)
    return at.inspect_task_context(history=query.history)


def _inspect_seen(outlast: Outlast, asked: CallRequest) -> TaskContext:
    at, given = _at(outlast, asked)
    return at.inspect_task_context(**given)


def _get(outlast: Outlast, asked: CallRequest) -> Task:
    return outlast.tasks.get(asked.path["task_id"], scope=asked.query.scope)


def _events(outlast: Outlast, asked: CallRequest) -> Page:
    query: TaskEventsQuery = asked.query
    limit, place = limit_of(query), place_in(query.cursor, int)
    at = outlast.tasks.session(asked.path["task_id"], scope=query.scope)
    found = at.events(after=place[0] if place else query.after, limit=limit + 1)
    return page_of(found, limit, lambda last: cursor_of(last.seq))


def _list(outlast: Outlast, asked: CallRequest) -> Page:
    query: TasksQuery = asked.query
    limit, place = limit_of(query), place_in(query.cursor, str)
    found = outlast.tasks.list(query.state, limit=limit + 1, before=place[0] if place else None, scope=query.scope)
    return page_of(found, limit, lambda last: cursor_of(last.task))


ONE = "/v1/tasks/{task_id:path}"
HELD = (TaskNotFound, HandoffClaimed, ClaimLost, TaskRefused, HandoffInvalid, OperationConflict)

CALLS = (
    HttpCall(
        method="GET",
        path="/v1/tasks",
        name="task_list",
        summary="The tasks that were opened, or have an unfinished run",
        role="read",
        query=TasksQuery,
        does=_list,
        gives=Task,
        shows=jsonable,
        page=True,
        errors=(TaskNotFound,),
    ),
    HttpCall(
        method="POST",
        path=f"{ONE}/open",
        name="task_open",
        summary="Open a task, if it is not",
        role="write",
        body=TaskOpen,
        does=_open,
        gives=Task,
        shows=jsonable,
        errors=(TaskExists, ValueRefused, OperationConflict),
        detail="A completed task stays so unless `reopen` is said.",
        example={"session": "support-17"},
    ),
    HttpCall(
        method="GET",
        path=f"{ONE}/inspect",
        name="task_inspect",
        summary="How a task stands, and what may be done with it",
        role="read",
        query=InspectQuery,
        does=_inspect,
        gives=TaskStanding,
        shows=context_json,
        errors=(TaskNotFound, ClaimLost, ValueRefused),
    ),
    HttpCall(
        method="POST",
        path=f"{ONE}/inspect",
        name="task_inspect_seen",
        summary="How a task stands, judged by what was seen of its files",
        role="read",
        body=TaskInspect,
        does=_inspect_seen,
        gives=TaskStanding,
        shows=context_json,
        errors=(TaskNotFound, ClaimLost, HandoffInvalid, ValueRefused, LookFirst),
        example={"history": 5},
    ),
    HttpCall(
        method="POST",
        path=f"{ONE}/pause",
        name="task_pause",
        summary="Pause a task: store what whoever resumes it needs, and give the claim back",
        role="write",
        body=TaskPause,
        does=_pause,
        gives=PausedTask,
        shows=paused_json,
        errors=(*HELD, SecretFound, RevisionConflict, LookFirst),
        example={name: SEED[name] for name in ("summary", "handoff_text", "next_action", "acceptance_checks")},
    ),
    HttpCall(
        method="POST",
        path=f"{ONE}/resume",
        name="task_resume",
        summary="Resume a task: claim it, and recover what was handed over, with its verdict",
        role=Gated("write"),
        body=TaskResume,
        does=_resume,
        gives=ResumedTask,
        shows=resumed_json,
        errors=(*HELD, HandoffContested, HandoffNotFound, RunsOnHost, LookFirst),
        detail="Keep `claim.id`, and show it as `claim_id` with each call about the task.",
        example={},
    ),
    HttpCall(
        method="POST",
        path=f"{ONE}/complete",
        name="task_complete",
        summary="Complete a task: its checks must have passed, and its runs be over",
        role=Gated("write"),
        body=TaskComplete,
        does=_complete,
        gives=TaskCompleted,
        shows=jsonable,
        errors=(*HELD, NotSettled, RunsOnHost, LookFirst),
        example={"run_checks": False, "override": "the customer has confirmed it"},
    ),
    HttpCall(
        method="POST",
        path=f"{ONE}/events",
        name="task_record",
        summary="Record an event of the host's; secrets in it are masked, and counted",
        role="write",
        body=TaskRecord,
        does=_record,
        gives=TaskEvent,
        shows=jsonable,
        errors=(TaskNotFound, ValueRefused, OperationConflict),
        example={"name": "assigned", "body": {"to": "Ana"}},
    ),
    HttpCall(
        method="GET",
        path=f"{ONE}/events",
        name="task_events",
        summary="What happened to a task, in order",
        role="read",
        query=TaskEventsQuery,
        does=_events,
        gives=TaskEvent,
        shows=jsonable,
        page=True,
        errors=(TaskNotFound, ValueRefused),
    ),
    HttpCall(
        method="GET",
        path=ONE,
        name="task_get",
        summary="A task and its state",
        role="read",
        query=TaskQuery,
        does=_get,
        gives=Task,
        shows=jsonable,
        errors=(TaskNotFound,),
    ),
)
