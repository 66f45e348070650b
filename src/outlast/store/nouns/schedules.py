"""Schedules on one connection."""

from __future__ import annotations

from outlast.store.contract.schedules import ScheduleRow
from outlast.store.nouns.rows import Rows, WrittenRows


class ScheduleReader(Rows):
    """Lookups."""

    def schedules(self) -> list[ScheduleRow]:
        return self._rows(ScheduleRow, "all_schedules")

    def schedule_of(self, scope: str, name: str) -> ScheduleRow | None:
        return self._row(ScheduleRow, "schedule_of", scope, name)

    def due_schedules(self, now: int) -> list[ScheduleRow]:
        return self._rows(ScheduleRow, "due_schedules", now)

    def next_scheduled(self, after: int) -> int | None:
        row = self._one("next_scheduled", after)
        return int(row[0]) if row and row[0] is not None else None


class ScheduleWriter(WrittenRows, ScheduleReader):
    """Writes inside a transaction."""

    def put_schedule(self, schedule: ScheduleRow) -> None:
        """A new one, or other words for one of this name."""
        said = (schedule.flow, schedule.inputs, schedule.cron, schedule.timezone, schedule.missed, schedule.queue)
        made = (schedule.made_by, schedule.made_at, schedule.next_at)
        if self.schedule_of(schedule.scope, schedule.name) is None:
            self._one("add_schedule", schedule.scope, schedule.name, *said, *made)
        else:
            self._one("change_schedule", *said, *made, schedule.scope, schedule.name)

    def advance_schedule(self, schedule: ScheduleRow, next_at: int) -> bool:
        """To its next time, unless somebody has done so."""
        self._one("advance_schedule", next_at, schedule.scope, schedule.name, schedule.next_at)
        return self.changes() == 1

    def pause_schedule(self, scope: str, name: str, paused: bool, next_at: int) -> None:
        self._one("pause_schedule", int(paused), next_at, scope, name)

    def remove_schedule(self, scope: str, name: str) -> None:
        self._one("remove_schedule", scope, name)
