"""Errors of what is kept beside runs: artifacts, checkpoints, records, sessions, tasks."""

from __future__ import annotations

from outlast.errors import Conflict, Invalid, NotFound, Refused


class ArtifactNotFound(NotFound):
    """Raised when no artifact has this ref or name, or nobody may see it yet."""

    ref: str
    scope: str
    says = "no artifact {ref!r} in scope {scope!r}"
    advice = "see `outlast workspace list`; a ref is `artifact:SCOPE/NAME@VERSION`"


class ArtifactRemoved(NotFound):
    """Raised when the version of an artifact that was named has been removed by `gc`."""

    ref: str
    by: str
    at: str
    says = "{ref} was removed by {by} on {at}"
    advice = "newer versions of it are there: `outlast workspace versions NAME`"


class CheckpointNotFound(NotFound):
    """Raised when no checkpoint has this id or id prefix."""

    checkpoint: str
    says = "no checkpoint {checkpoint!r}"
    advice = "see `outlast workspace checkpoints`"


class RecordNotFound(NotFound):
    """Raised when no record has this ref, id or id prefix, or nobody may see it yet."""

    record: str
    says = "no record {record!r}"
    advice = "see `outlast workspace records`; a ref is `record:ID`"


class SessionNotFound(NotFound):
    """Raised when a scope has no session of this id."""

    session: str
    scope: str
    says = "no session {session!r} in scope {scope!r}"
    advice = "see `outlast session list`; the first message, or `outlast.sessions.open`, makes one"


class TaskNotFound(NotFound):
    """Raised when nothing is known of a task: nobody opened it, and it has neither runs nor a handoff."""

    task: str
    scope: str
    says = "no task {task!r} in scope {scope!r}"
    advice = "open it: outlast.tasks.open(…), `outlast task open TASK`; `outlast task list` has those that were"


class SessionExists(Conflict):
    """Raised when a session is opened with other meta than it was made with."""

    session: str
    meta: str
    says = "session {session!r} was made with other meta: {meta}"
    advice = "open it without meta, or choose another id"


class MemoConflict(Conflict):
    """Raised when a memo is set on condition of a version that is not the newest."""

    session: str
    expected: int
    found: int
    says = "the memo of session {session!r} is at version {found}, not {expected}; nothing was written"
    advice = "read it, take what is new into account, and set it again with expected={found}"


class TaskExists(Conflict):
    """Raised when a task is opened with other meta than it was opened with first."""

    task: str
    meta: str
    says = "task {task!r} was opened with other meta: {meta}"
    advice = "open it without meta, or choose another id; what changes is recorded as an event"


class TaskRefused(Refused):
    """Raised when a task is in no state for what is asked."""

    task: str
    action: str
    why: str
    remedy: str
    says = "cannot {action} task {task!r}: {why}"
    advice = "{remedy}"


class BudgetTooSmall(Invalid):
    """Raised by recall when what must not be left out does not fit into the budget."""

    budget: int
    needed: int
    count: int
    says = "{count} pinned or required items need {needed} tokens, and the budget is {budget}"
    advice = "ask again with budget={needed} (--budget {needed}), or unpin what is no longer needed"
