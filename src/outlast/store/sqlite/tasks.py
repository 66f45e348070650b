"""Tasks on one SQLite connection: lookups, and the writes that move a task or lengthen its chain of events."""

from __future__ import annotations

from outlast.store.contract import NewTask, RunRow, TaskEventRow, TaskRow
from outlast.store.sqlite.rows import NEWEST, Rows


class TaskReader(Rows):
    """Lookups."""

    def task_of(self, scope: str, task: str) -> TaskRow | None:
        return self._row(TaskRow, "task_of", scope, task)

    def newest_tasks(self, scope: str, state: str | None, limit: int, before: TaskRow | None = None) -> list[TaskRow]:
        """Those that were moved or written to last, first; after `before`, if that is given."""
        place = (before.updated_at, before.key) if before else (NEWEST, NEWEST)
        if state is None:
            return self._rows(TaskRow, "newest_tasks", scope, *place, limit)
        return self._rows(TaskRow, "newest_tasks_of_state", scope, state, *place, limit)

    def tasks_after(self, key: int, limit: int) -> list[TaskRow]:
        return self._rows(TaskRow, "tasks_after_key", key, limit)

    def task_events_after(self, task_key: int, seq: int, limit: int) -> list[TaskEventRow]:
        return self._rows(TaskEventRow, "task_events_after", task_key, seq, limit)

    def runs_of_task(self, scope: str, task: str, limit: int) -> list[RunRow]:
        """The newest first."""
        return self._rows(RunRow, "runs_of_task", scope, task, limit)

    def events_without_task(self) -> list[int]:
        return [row[0] for row in self._all("events_without_task")]


class TaskWriter(TaskReader):
    """Writes inside a transaction."""

    def add_task(self, task: NewTask) -> TaskRow:
        """A task without an event yet."""
        self._one("add_task", *task)
        found = self.task_of(task.scope, task.task)
        assert found is not None
        return found

    def add_task_event(self, task: TaskRow, event: TaskEventRow, state: str, session: str, opened_at: int) -> None:
        """The next event, and how the task stands after it."""
        self._one("add_task_event", task.key, *event)
        actor = event.actor if event.kind != "event" else task.actor
        self._one("move_task", state, session, actor, opened_at, event.at, event.seq, event.hash, task.key, task.head)
