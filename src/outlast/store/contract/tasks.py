"""Tasks that a host opened, and the chain of what happened to each."""

from __future__ import annotations

from typing import Protocol

from outlast.store.contract.runs import RunRow
from outlast.values.frozen import NamedTuple


class NewTask(NamedTuple):
    """A task to add, with the start of its chain of events."""

    scope: str
    task: str
    state: str
    session: str
    meta: str
    actor: str
    opened_at: int
    updated_at: int
    hash: bytes


class TaskRow(NamedTuple):
    """A task that somebody opened, and where its chain of events ends."""

    key: int
    scope: str
    task: str
    state: str
    session: str
    meta: str
    actor: str
    opened_at: int
    updated_at: int
    head: int
    hash: bytes


class TaskEventRow(NamedTuple):
    seq: int
    kind: str
    name: str
    body: str
    digest: bytes
    masked: int
    actor: str
    at: int
    hash: bytes


class TaskReading(Protocol):
    """Lookups, each by an index."""

    def task_of(self, scope: str, task: str) -> TaskRow | None: ...
    def newest_tasks(
        self, scope: str, state: str | None, limit: int, before: TaskRow | None = None
    ) -> list[TaskRow]: ...
    def tasks_after(self, key: int, limit: int) -> list[TaskRow]: ...
    def task_events_after(self, task_key: int, seq: int, limit: int) -> list[TaskEventRow]: ...
    def runs_of_task(self, scope: str, task: str, limit: int) -> list[RunRow]: ...
    def events_without_task(self) -> list[int]: ...


class TaskWriting(TaskReading, Protocol):
    """Writes inside a transaction."""

    def add_task(self, task: NewTask) -> TaskRow: ...
    def add_task_event(self, task: TaskRow, event: TaskEventRow, state: str, session: str, opened_at: int) -> None: ...
