"""Operations about sessions, and about tasks, the host bridge: open, inspect, pause, resume and complete one.

A claim that resuming gives is shown again as `claim_id`: each request is a session of its own.
"""

from __future__ import annotations

from outlast import errors as e
from outlast.operations import answers
from outlast.operations import fields as f
from outlast.operations.handoffs import SEED, ToSettle, ToStore
from outlast.operations.observed import ObservedFiles
from outlast.operations.operation import Answer, Change, Gated, Paged, Pages, Request, operation
from outlast.sessions.session import Memo, Message, Session, Window
from outlast.tasks.task import Task, TaskCompleted, TaskEvent

BY_WINDOW = "session_window gives a model what fits"
OF_HOST = "the host keeps its conversations"


class OfSession(Request):
    """Base of what is asked about one session."""

    session_id: f.SessionId


@operation(
    "session_open",
    "POST /v1/sessions",
    "Open a session: a conversation of messages",
    calls="sessions.open",
    answer=Session,
    errors=(e.SessionExists, e.ValueRefused, e.OperationConflict),
    example={"session_id": "support-17", "meta": {"channel": "mail"}},
    not_by_mcp="session_append makes one for a model",
)
class OpenSession(Change):
    """A session to open; without an id, a new one under a random id."""

    session_id: f.SessionId | None = None
    meta: f.Meaning | None = None


@operation(
    "session_list",
    "GET /v1/sessions",
    "The sessions, those that were written to last first",
    calls="sessions.list",
    answer=Session,
    items="sessions",
    pages=Pages(lambda last: last.id),
    errors=(e.SessionNotFound,),
    not_by_mcp=OF_HOST,
)
class ListSessions(Paged):
    """Which sessions to list."""


@operation(
    "session_messages",
    "GET /v1/sessions/{session_id:path}/messages",
    "Messages in order",
    calls="sessions.messages",
    answer=Message,
    items="messages",
    pages=Pages(lambda last: last.seq, int, "after"),
    errors=(e.SessionNotFound, e.ValueRefused),
    not_by_mcp=BY_WINDOW,
)
class ListMessages(OfSession, Paged):
    """From where on; `last`: only the newest."""

    after: f.After = 0
    last: f.Last | None = None


@operation(
    "session_append",
    "POST /v1/sessions/{session_id:path}/messages",
    "Append a message, durable when it is answered",
    calls="sessions.append",
    answer=Message,
    errors=(e.ValueRefused, e.OperationConflict),
    example={"role": "user", "content": "Where is my order?"},
)
class AppendMessage(OfSession, Change):
    """One message."""

    role: f.Speaker
    content: f.Said
    meta: f.Meaning | None = None
    run_id: f.SaidIn = ""


@operation(
    "session_append_many",
    "POST /v1/sessions/{session_id:path}/messages/many",
    "Append several messages, all or none",
    calls="sessions.append_many",
    answer=Message,
    items="messages",
    errors=(e.ValueRefused, e.OperationConflict),
    example={"messages": [{"role": "user", "content": "Where is my order?"}]},
    not_by_mcp="a model appends one message at a time",
)
class AppendMessages(OfSession, Change):
    """Messages, one after another, all or none."""

    messages: f.Messages


@operation(
    "session_memo",
    "GET /v1/sessions/{session_id:path}/memo",
    "The newest memo; null when there never was one",
    calls="sessions.memo",
    answer=Answer(Memo | None, Memo | None),
    errors=(e.SessionNotFound,),
    not_by_mcp=BY_WINDOW,
)
class GetMemo(OfSession):
    """Of which session."""


@operation(
    "session_set_memo",
    "PUT /v1/sessions/{session_id:path}/memo",
    "Let a text stand for the older messages",
    calls="sessions.set_memo",
    answer=Memo,
    errors=(e.SessionNotFound, e.MemoConflict, e.ValueRefused, e.OperationConflict),
    example={"text": "The customer asks for order 17.", "upto": 12},
    not_by_mcp=OF_HOST,
)
class SetMemo(OfSession, Change):
    """A text that stands for the older messages."""

    text: f.Text
    upto: f.Upto | None = None
    expected: f.Expected | None = None


@operation(
    "session_window",
    "GET /v1/sessions/{session_id:path}/window",
    "The memo, the system messages and the newest others that fit in so many tokens",
    calls="sessions.window",
    answer=Window,
    errors=(e.SessionNotFound, e.ValueRefused),
)
class MessageWindow(OfSession):
    """How many tokens there are."""

    tokens: f.Tokens


@operation(
    "session_get",
    "GET /v1/sessions/{session_id:path}",
    "A session with its memo and the runs that were started for it",
    calls="sessions.get",
    answer=Session,
    errors=(e.SessionNotFound,),
    not_by_mcp=BY_WINDOW,
)
class GetSession(OfSession):
    """Which session."""


# -- tasks -------------------------------------------------------------------------------------------


HELD = (e.TaskNotFound, e.HandoffClaimed, e.ClaimLost, e.TaskRefused, e.HandoffInvalid, e.OperationConflict)
BY_HOST = "the host keeps its tasks; a model pauses, resumes and completes them"


class OfTask(Request):
    """Base of what is asked about one task."""

    task_id: f.TaskId


@operation(
    "task_list",
    "GET /v1/tasks",
    "The tasks that were opened, or have an unfinished run",
    calls="tasks.list",
    answer=Task,
    items="tasks",
    pages=Pages(lambda last: last.task),
    errors=(e.TaskNotFound,),
    not_by_mcp=BY_HOST,
)
class ListTasks(Paged):
    """Which tasks to list."""

    state: f.TaskState | None = None


@operation(
    "task_open",
    "POST /v1/tasks/{task_id:path}/open",
    "Open a task, if it is not",
    answer=Task,
    errors=(e.TaskExists, e.ValueRefused, e.OperationConflict),
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
    answer=answers.CONTEXT,
    errors=(e.TaskNotFound, e.ClaimLost, e.ValueRefused),
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
    errors=(e.TaskNotFound, e.ClaimLost, e.HandoffInvalid, e.ValueRefused, e.LookFirst),
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
    answer=answers.PAUSED,
    errors=(*HELD, e.SecretFound, e.RevisionConflict, e.LookFirst),
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
    errors=(*HELD, e.HandoffContested, e.HandoffNotFound, e.RunsOnHost, e.LookFirst),
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
    errors=(*HELD, e.NotSettled, e.RunsOnHost, e.LookFirst),
    example={"run_checks": False, "override": "the customer has confirmed it"},
)
class CompleteTask(OfTask, ToSettle):
    """What shows that the task is done."""


@operation(
    "task_record",
    "POST /v1/tasks/{task_id:path}/events",
    "Record an event of the host's; secrets in it are masked, and counted",
    answer=TaskEvent,
    errors=(e.TaskNotFound, e.ValueRefused, e.OperationConflict),
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
    answer=TaskEvent,
    items="events",
    pages=Pages(lambda last: last.seq, int, "after"),
    errors=(e.TaskNotFound, e.ValueRefused),
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
    answer=Task,
    errors=(e.TaskNotFound,),
    not_by_mcp=BY_HOST,
)
class GetTask(OfTask):
    """Which task."""
