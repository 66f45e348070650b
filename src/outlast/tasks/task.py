"""A task as a host sees it: its state, what happened to it, and what may be done with it now.

The states and the moves between them are one table; CHECKs and docs/tasks.md repeat it.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal

from outlast.handoffs.handoff import Handoff, HandoffClaim
from outlast.handoffs.recovered import Recovered, Settlement, TaskRun
from outlast.handoffs.task_anchor import PREFIX as PREFIX
from outlast.handoffs.task_anchor import anchor_of as anchor_of
from outlast.handoffs.task_anchor import task_of as task_of
from outlast.runs.run import RunRecord
from outlast.runs.waits.interrupt import Interrupt
from outlast.values.codec import encode
from outlast.values.frozen import dataclass

State = Literal["active", "paused", "resumed", "completed"]
STATES: tuple[State, ...] = ("active", "paused", "resumed", "completed")
FIRST: State = "active"

# A task moves to its own state again when it is paused anew, or taken over from somebody.
MOVES: dict[State, tuple[State, ...]] = {
    "active": ("paused", "resumed", "completed"),
    "paused": ("paused", "resumed", "completed"),
    "resumed": ("paused", "resumed", "completed"),
    "completed": ("active",),
}

# What is written down about a task: each move under its own name, and what a host records.
KINDS = ("opened", "paused", "resumed", "completed", "reopened", "event")
STATE_AFTER: dict[str, State] = {
    "opened": "active",
    "paused": "paused",
    "resumed": "resumed",
    "completed": "completed",
    "reopened": "active",
}
ACTIONS = ("pause", "resume", "complete", "record_event", "reopen")


def may_move(before: State, after: State) -> bool:
    """Whether a task may go from one state to another."""
    return after in MOVES[before]


@dataclass(frozen=True, slots=True)
class AllowedAction:
    """Whether something may be done with a task now. `why`: why not; or, if it may, what it still needs."""

    name: str
    allowed: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """One thing that happened to a task, in its place."""

    task: str
    seq: int  # 1, 2, 3 … without holes
    kind: str  # opened, paused, resumed, completed, reopened; event: recorded by the host
    name: str  # of a recorded event
    body: Any
    actor: str
    at: datetime
    masked: int = 0  # how many secrets of the body were masked
    replayed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Task:
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
    replayed: bool = field(default=False, compare=False)
    run: TaskRun | None = None


@dataclass(frozen=True, slots=True)
class TaskContext:
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


@dataclass(frozen=True, slots=True)
class TaskPaused:
    """A task that was paused: what was stored for whoever resumes it."""

    task: str
    handoff: Handoff
    stopping: tuple[str, ...] = ()  # runs that were asked to stop
    notes: tuple[str, ...] = ()

    @property
    def replayed(self) -> bool:
        return self.handoff.replayed


@dataclass(frozen=True, slots=True)
class TaskResumed:
    """A task that was resumed: what was handed over with its verdict, and the claim to it."""

    task: str
    recovered: Recovered
    claim: HandoffClaim
    command: str = ""  # continues its run, when there is one

    @property
    def replayed(self) -> bool:
        return self.claim.replayed


@dataclass(frozen=True, slots=True)
class TaskCompleted:
    """A task that was completed. Without a handoff there is no settlement: a run that succeeded shows it, or a word."""

    task: str
    by: str
    at: datetime
    settlement: Settlement | None = None
    shown_by: str = ""  # the run that succeeded
    override: str = ""
    notes: tuple[str, ...] = ()
    replayed: bool = field(default=False, compare=False)


# -- the chain ---------------------------------------------------------------------------------------


def genesis_of_task(scope: str, task: str) -> bytes:
    """The hash before the first event: it ties the chain to its task."""
    return sha256(b"outlast task\n" + encode([scope, task])).digest()


def event_header(seq: int, kind: str, name: str, digest: bytes, masked: int, actor: str, at: int) -> bytes:
    """What the chain proves about an event."""
    return encode([seq, kind, name, masked, actor, at, digest.hex()])
