"""Schedules: a flow that is run at certain times. Each firing is a task of its name and time, so it happens once.

However many workers watch, the first that comes puts the run into its queue; who comes after it, or after a crash
between the run and the note of the next time, meets that run.

The times are lines of cron, in a time zone, by cronsim. At both changes of daylight saving it does what cron does: a
time that does not exist fires at the moment of the change, one that exists twice fires once; what fires every hour, or
more often, goes on evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from outlast.clock import micros, moment
from outlast.errors import ExtraMissing, ScheduleInvalid, ScheduleNotFound
from outlast.flows.loading import lasting
from outlast.flows.spec import FlowSpec
from outlast.home import act
from outlast.home.caller import Caller, Repeatable, check_id, once
from outlast.home.place import check_name
from outlast.runs import begin
from outlast.runs.live import Executor
from outlast.runs.queues import queue
from outlast.runs.queues.workers import NO_WORKER, AtWork
from outlast.runs.run import Options
from outlast.runs.same_flow import is_same_source
from outlast.runs.start import pack_inputs
from outlast.store.contract import FinishedRow, Reading, RunRow, Writing
from outlast.store.contract.queues import ScheduleRow
from outlast.values.codec import decode, digest, encode

Missed = Literal["once", "all", "skip"]
MISSED: tuple[Missed, ...] = ("once", "all", "skip")
QUEUE = "schedules"
LATE_US = 60_000_000  # a firing is missed when nobody was there to begin it within this time
MOST_MISSED = 1000  # of `all`


class Schedule(Struct, frozen=True):
    """A schedule as it stands."""

    name: str
    flow: str
    inputs: dict[str, Any]
    cron: str
    timezone: str
    missed: str  # of the times at which nobody worked: run once, all, skip
    queue: str
    paused: bool
    next_at: datetime | None
    scope: str
    made_by: str
    held_up: str = ""  # no_worker: nobody who works has its flow, so it does not fire


def put(
    caller: Caller,
    spec: FlowSpec,
    name: str,
    cron: str,
    inputs: dict[str, Any],
    operation_id: str | None = None,
    *,
    timezone: str = "UTC",
    missed: str = "once",
    queue_name: str = "",
) -> Schedule:
    """Add a schedule, or change the one of this name. Raises ScheduleInvalid, InputsInvalid, NameInvalid."""
    if missed not in MISSED:
        raise ScheduleInvalid(cron, f"missed is {missed!r:.100}, and none of {', '.join(MISSED)}")
    now, home = caller.home.clock.now(), caller.home
    raw = pack_inputs(spec, spec.bind((), inputs)).decode()
    next_at = next_after(cron, timezone, now)
    source = lasting(spec.source, home.project)
    chosen = check_name("queue", queue_name or spec.limits.queue or QUEUE)
    row = ScheduleRow(
        *(0, caller.scope, check_name("schedule", name), source, raw, cron, timezone, missed, chosen, 0),
        *(caller.actor, now, next_at),
    )

    def work(tx: Writing) -> ScheduleRow:
        before, now_is = tx.schedule_of(row.scope, row.name), row
        if before is not None and is_same_source(home.project, before.flow, row.flow):  # a file and its module are
            now_is = row._replace(flow=before.flow)
        if before is None or _said(before) != _said(now_is):
            tx.put_schedule(row)
            verb = "added" if before is None else "changed"
            act.note(caller, tx, "schedule", name, verb, _told(before, row), _told(row, before), scope=row.scope)
        return _found(tx.schedule_of(row.scope, row.name), name)

    return _changed(caller, Repeatable(operation_id, "schedule_add", [name, *_said(row)]), work)


def _changed(caller: Caller, operation: Repeatable, work: Callable[[Writing], ScheduleRow]) -> Schedule:
    """The schedule that `work` gives once it is done. An exact repeat gives it as it was then."""

    def changing(tx: Writing) -> tuple[Schedule, str]:
        row = work(tx)
        found = _shown(row, AtWork(caller, tx))
        return found, encode(found).decode()

    return once(caller.home, operation, changing, lambda kept: msgspec.json.decode(kept, type=Schedule))


def _said(row: ScheduleRow) -> tuple[Any, ...]:
    return (row.flow, row.inputs, row.cron, row.timezone, row.missed, row.queue)


def _told(row: ScheduleRow | None, other: ScheduleRow | None = None) -> dict[str, Any]:
    """What the record of a change says of it: of inputs, which may be anything, only that they are not the others."""
    if row is None:
        return {}
    said = dict(zip(("flow", "cron", "timezone", "missed", "queue"), (row.flow, *_said(row)[2:]), strict=True))
    changed = other is not None and row.inputs != other.inputs
    return said | ({"inputs": f"sha256:{digest(row.inputs.encode())[:12]}"} if changed else {})


def schedules(caller: Caller) -> list[Schedule]:
    """Every schedule, by scope and name."""

    def look(reading: Reading) -> list[Schedule]:
        at_work = AtWork(caller, reading)
        return [_shown(row, at_work) for row in reading.schedules()]

    return caller.home.store.read(look)


def _shown(row: ScheduleRow, at_work: AtWork) -> Schedule:
    next_at = None if row.paused else moment(row.next_at)
    inputs = decode(row.inputs)
    words = (row.cron, row.timezone, row.missed, row.queue, bool(row.paused))
    held_up = "" if row.paused or at_work.has_flow(row.flow) else NO_WORKER
    return Schedule(row.name, row.flow, inputs, *words, next_at, row.scope, row.made_by, held_up)


def pause(caller: Caller, name: str, operation_id: str | None = None, *, paused: bool) -> Schedule:
    """Let it fire no more, or again: from its next time on. Raises ScheduleNotFound."""
    now = caller.home.clock.now()

    def work(tx: Writing) -> ScheduleRow:
        row = _found(tx.schedule_of(caller.scope, name), name)
        tx.pause_schedule(row.scope, row.name, paused, next_after(row.cron, row.timezone, now))
        if bool(row.paused) != paused:
            act.note(caller, tx, "schedule", name, "paused" if paused else "resumed", scope=row.scope)
        return _found(tx.schedule_of(caller.scope, name), name)

    return _changed(caller, Repeatable(operation_id, "schedule_pause", [name, paused]), work)


def remove(caller: Caller, name: str, operation_id: str | None = None) -> Schedule:
    """Forget it. Runs that it began stay. Raises ScheduleNotFound."""

    def work(tx: Writing) -> ScheduleRow:
        row = _found(tx.schedule_of(caller.scope, name), name)
        tx.remove_schedule(row.scope, row.name)
        act.note(caller, tx, "schedule", name, "removed", _told(row), scope=row.scope)
        return row

    return _changed(caller, Repeatable(operation_id, "schedule_remove", [name]), work)


def _found(row: ScheduleRow | None, name: str) -> ScheduleRow:
    if row is None:
        raise ScheduleNotFound(name)
    return row


def row_of(caller: Caller, name: str) -> ScheduleRow:
    """A schedule by its name. Raises ScheduleNotFound."""
    return _found(caller.home.store.read(lambda look: look.schedule_of(caller.scope, name)), name)


# -- firing ------------------------------------------------------------------------------------------


def fire_due(executor: Executor, row: ScheduleRow, spec: FlowSpec) -> list[str]:
    """The runs of the times that have come, each in its queue once; then its next time is noted."""
    now = executor.home.clock.now()
    begun = [fire(executor, row, spec, at) for at in _meant(row, now)]
    next_at = next_after(row.cron, row.timezone, now)
    executor.home.store.write(lambda tx: tx.advance_schedule(row, next_at))
    return begun


def _meant(row: ScheduleRow, now: int) -> list[int]:
    """The times that have come and are to be run: of those that were missed as it says."""
    come = times_between(row.cron, row.timezone, row.next_at, now)
    if row.missed == "all":
        return come[-MOST_MISSED:]
    return come[-1:] if row.missed == "once" or now - come[-1] <= LATE_US else []


def given_spec(executor: Executor, row: ScheduleRow) -> FlowSpec | None:
    """The flow of a schedule, if it is one of those that were given here."""
    project = executor.home.project
    flows = [(spec, lasting(spec.source, project)) for spec in executor.live.flows]
    exact = next((spec for spec, source in flows if source == row.flow), None)
    return exact or next((spec for spec, source in flows if is_same_source(project, row.flow, source)), None)


def trigger(executor: Executor, row: ScheduleRow, spec: FlowSpec, operation_id: str | None) -> str:
    """A run of it now, whatever its times are: a task of the operation that asks for it, or of this moment.

    Who dies before the operation is noted, and asks again, meets that task.
    """
    home = executor.home
    check_id(operation_id)
    operation = Repeatable(operation_id, "schedule_trigger", [row.scope, row.name])
    before = home.store.read(operation.answered)
    if before is not None:
        return before
    now = home.clock.now()
    run_id = fire(executor, row, spec, now, f"trigger {operation_id}" if operation_id is not None else "")

    def work(tx: Writing) -> None:
        if operation.answered(tx) is None:
            operation.note(tx, run_id, now)
            act.note(executor.caller, tx, "schedule", row.name, "triggered", {}, {"run": run_id}, scope=row.scope)

    home.store.write(work)
    return run_id


def fire(executor: Executor, row: ScheduleRow, spec: FlowSpec, at: int, called: str = "") -> str:
    """The run of one firing, put into its queue, or met there: a task of the schedule's name and the time.

    Or of what else it is `called`.
    """
    caller = executor.caller.acting(actor=row.made_by, scope=row.scope)
    task = f"{row.name}@{called or shown(at, row.timezone)}"
    options = Options(task=task, queue=row.queue, tags=(f"schedule:{row.name}",))
    new = begin.new_run(caller, spec, row.inputs.encode(), options)
    place = queue.place_of(spec, new, options)
    found = begin.decide(caller, new, options, spec.code, place=place, deadline=spec.deadline)
    assert isinstance(found, RunRow | FinishedRow)
    return found.id


# -- its times ---------------------------------------------------------------------------------------


def times_after(cron: str, timezone: str, after_us: int) -> Iterator[int]:
    """Every time of it after a moment, in microseconds. Raises ScheduleInvalid, ExtraMissing."""
    zone, library = _zone(cron, timezone), _library()
    begin = moment(after_us).astimezone(zone)
    try:
        found = library.CronSim(cron, begin)
    except library.CronSimError as error:
        raise ScheduleInvalid(cron, str(error)) from error
    # Asked in the hour that comes twice, the library begins with the first of the two: that is over.
    return (at for at in (micros(each.astimezone(UTC)) for each in found) if at > after_us)


def next_after(cron: str, timezone: str, after_us: int) -> int:
    """The next time of it. Raises ScheduleInvalid for one that never comes."""
    found = next(times_after(cron, timezone, after_us), None)
    if found is None:
        raise ScheduleInvalid(cron, "it never comes")
    return found


def times_between(cron: str, timezone: str, first_us: int, upto_us: int) -> list[int]:
    """Those from one moment, which is one of them, up to another."""
    later = takewhile(lambda each: each <= upto_us, times_after(cron, timezone, first_us))
    return [first_us, *later]


def _zone(cron: str, name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        why = f"{name!r:.100} is no time zone that is known here, such as Europe/Paris"
        raise ScheduleInvalid(cron, why) from error


def _library() -> Any:
    try:
        import cronsim  # late: an extra, and only schedules need it
    except ImportError as error:
        raise ExtraMissing("a schedule", "schedule") from error
    return cronsim


def shown(at_us: int, timezone: str) -> str:
    """A firing by its time, as its task is named: two moments never have one name."""
    at = moment(at_us).astimezone(ZoneInfo(timezone))
    return at.isoformat(timespec="milliseconds" if at.microsecond else "seconds" if at.second else "minutes")
