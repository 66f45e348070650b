"""Schedules: which flow is to be run at which times, and when next."""

from __future__ import annotations

from typing import Protocol

from outlast.values.frozen import NamedTuple


class ScheduleRow(NamedTuple):
    number: int
    scope: str
    name: str
    flow: str  # as runs name it
    inputs: str
    cron: str
    timezone: str
    missed: str
    queue: str
    paused: int
    made_by: str
    made_at: int
    next_at: int


class ScheduleReading(Protocol):
    """Lookups, each by an index."""

    def schedules(self) -> list[ScheduleRow]: ...
    def schedule_of(self, scope: str, name: str) -> ScheduleRow | None: ...
    def due_schedules(self, now: int) -> list[ScheduleRow]: ...
    def next_scheduled(self, after: int) -> int | None: ...


class ScheduleWriting(ScheduleReading, Protocol):
    """Writes inside a transaction."""

    def put_schedule(self, schedule: ScheduleRow) -> None: ...
    def advance_schedule(self, schedule: ScheduleRow, next_at: int) -> bool: ...
    def pause_schedule(self, scope: str, name: str, paused: bool, next_at: int) -> None: ...
    def remove_schedule(self, scope: str, name: str) -> None: ...
