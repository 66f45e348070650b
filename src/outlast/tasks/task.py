"""A task as a host sees it: its state, what happened to it, and what may be done with it now.

Its states, and the moves between them, are in `handoffs/task_state.py`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from outlast.handoffs.handoff import Handoff, HandoffClaim, Recovered, Settlement, TaskRun
from outlast.handoffs.task_state import State as State
from outlast.runs.run import RunRecord
from outlast.runs.waits.interrupt import Interrupt
from outlast.values.frozen import Compared

ACTIONS = ("pause", "resume", "complete", "record_event", "reopen")


class AllowedAction(Struct, frozen=True):
    """Whether something may be done with a task now. `why`: why not; or, if it may, what it still needs."""

    name: str
    allowed: bool
    why: str = ""


class TaskEvent(Compared, frozen=True):
    """One thing that happened to a task, in its place."""

    task: str
    seq: int  # 1, 2, 3 … without holes
    kind: str  # opened, paused, resumed, completed, reopened; event: recorded by the host
    name: str  # of a recorded event
    body: Any
    actor: str
    at: datetime
    masked: int = 0  # how many secrets of the body were masked
    replayed: bool = False


class Task(Compared, frozen=True):
    """A task and its state. `opened_at` is None for one that nobody opened: it only has runs, or a handoff.

    `run` is its unfinished run, in a list: of several the one that was heard of last.
    """

    task: str
    scope: str
    state: State
    session: str
    meta: dict[str, Any]
    actor: str  # who moved it last
    opened_at: datetime | None
    updated_at: datetime | None
    events: int = 0  # how many there are
    replayed: bool = False
    run: TaskRun | None = None


class TaskContext(Struct, frozen=True):
    """How a task stands here and now, and what may be done with it."""

    task: str
    scope: str
    state: State
    handoff: Recovered | None  # what whoever resumes is given, with its verdict
    runs: tuple[RunRecord, ...]  # unfinished ones first, then the newest others
    waits: tuple[Interrupt, ...]  # of its unfinished runs
    checkpoints: tuple[Any, ...]
    history: tuple[TaskEvent, ...]  # the newest ones, oldest first
    allowed_actions: tuple[AllowedAction, ...]
    events: int  # how many there are in all
    session: str
    meta: dict[str, Any]
    actor: str
    opened_at: datetime | None
    updated_at: datetime | None
    trouble: str = ""  # why its handoff cannot be shown
    records: tuple[Any, ...] = ()  # the newest ones of the task

    def allows(self, name: str) -> bool:
        """Whether that action may be tried now."""
        return any(each.allowed for each in self.allowed_actions if each.name == name)

    def why_not(self, name: str) -> str:
        """Why an action is refused; "" for one that is allowed."""
        return next((each.why for each in self.allowed_actions if each.name == name and not each.allowed), "")


class TaskPaused(Struct, frozen=True):
    """A task that was paused: what was stored for whoever resumes it."""

    task: str
    handoff: Handoff
    stopping: tuple[str, ...] = ()  # runs that were asked to stop
    notes: tuple[str, ...] = ()

    @property
    def replayed(self) -> bool:
        """Whether this repeats an earlier call, and nothing was written."""
        return self.handoff.replayed


class TaskResumed(Struct, frozen=True):
    """A task that was resumed: what was handed over with its verdict, and the claim to it."""

    task: str
    recovered: Recovered
    claim: HandoffClaim
    command: str = ""  # continues its run, when there is one

    @property
    def replayed(self) -> bool:
        """Whether this repeats an earlier call, and nothing was written."""
        return self.claim.replayed


class TaskCompleted(Compared, frozen=True):
    """A task that was completed. Without a handoff there is no settlement: a run that succeeded shows it, or a word."""

    task: str
    by: str
    at: datetime
    settlement: Settlement | None = None
    shown_by: str = ""  # the run that succeeded
    override: str = ""
    notes: tuple[str, ...] = ()
    replayed: bool = False
