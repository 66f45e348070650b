"""`outlast.schedules`: flows that workers run at certain times, each firing once. And the worker of an application.

What a worker does is in a room that builds on this one (`worker/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, Self

from outlast.errors import ValueRefused
from outlast.flows.spec import spec_of
from outlast.home.home import run_row
from outlast.python.awaited import OnLoop, awaited
from outlast.python.named_flows import find_flow
from outlast.runs.look import record_now
from outlast.runs.queues import schedule
from outlast.runs.queues.schedule import Schedule as Schedule
from outlast.values.text import duration

if TYPE_CHECKING:
    from outlast.flows.spec import FlowSpec
    from outlast.python.decorators import Flow, FlowFile
    from outlast.python.outlast import Outlast
    from outlast.runs.live import Executor
    from outlast.runs.run import RunRecord
    from outlast.store.contract import ScheduleRow


class Schedules:
    """The schedules of a home; workers fire them."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def add(
        self,
        name: str,
        flow: Flow[..., Any] | FlowFile,
        cron: str,
        *,
        inputs: dict[str, Any] | None = None,
        timezone: str = "UTC",
        missed: str = "once",
        queue: str = "",
        operation_id: str | None = None,
    ) -> Schedule:
        """Run a flow at the times of a line of cron; the same name again changes it.

        `missed`: what becomes of times at which no worker was there: run `once`, `all`, or `skip`. Raises
        ScheduleInvalid, InputsInvalid.
        """
        words = {"timezone": timezone, "missed": missed, "queue_name": queue}
        return schedule.put(self._executor.caller, spec_of(flow), name, cron, inputs or {}, operation_id, **words)

    def list(self) -> list[Schedule]:
        """Every schedule, with its next time."""
        return schedule.schedules(self._executor.caller)

    def pause(self, name: str, *, operation_id: str | None = None) -> Schedule:
        """Let it fire no more. Raises ScheduleNotFound."""
        return schedule.pause(self._executor.caller, name, operation_id, paused=True)

    def resume(self, name: str, *, operation_id: str | None = None) -> Schedule:
        """Let it fire again, from its next time on. Raises ScheduleNotFound."""
        return schedule.pause(self._executor.caller, name, operation_id, paused=False)

    def remove(self, name: str, *, operation_id: str | None = None) -> Schedule:
        """Forget it. Runs that it began stay. Raises ScheduleNotFound."""
        return schedule.remove(self._executor.caller, name, operation_id)

    def trigger(self, name: str, *, operation_id: str | None = None) -> RunRecord:
        """Put a run of it into its queue now, besides those of its times. Raises ScheduleNotFound."""
        executor = self._executor
        row = schedule.row_of(executor.caller, name)
        run_id = schedule.trigger(executor, row, self._spec_of(row), operation_id)
        return record_now(executor.caller, run_row(executor.home, run_id))

    def _spec_of(self, row: ScheduleRow) -> FlowSpec:
        """Its flow: one that was given here, or the one that is found where it lies."""
        given = schedule.given_spec(self._executor, row)
        return given if given is not None else spec_of(find_flow(row.flow, str(self._executor.home.path)))


class AsyncSchedules(OnLoop[Schedules]):
    """The same on an event loop: everything is awaited."""

    add = awaited(Schedules.add)
    list = awaited(Schedules.list)
    pause = awaited(Schedules.pause)
    resume = awaited(Schedules.resume)
    remove = awaited(Schedules.remove)
    trigger = awaited(Schedules.trigger)


ROOM = "outlast.worker.worker"  # it cannot be imported here: it builds on this


class Worker(Protocol):
    """Goes on with what can go on by itself, from `start` to `stop`, or for as long as a block lasts."""

    @property
    def under_way(self) -> list[str]:
        """The ids of the runs that it has taken, and that go on."""

    def start(self) -> Self:
        """Begin to work, in the background. Raises NoThread."""

    def stop(self) -> None:
        """Take nothing any more; runs under way end their steps, and go on where somebody works next."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...


def make_worker(
    outlast: Outlast,
    flows: Sequence[Flow[..., Any] | FlowFile],
    concurrency: int | None = None,
    drain: float | str | None = None,
    **more: Any,
) -> Worker:
    """A worker on one home. Raises ValueRefused."""
    given = {"drain_seconds": seconds_of("drain", drain), "only_given": bool(flows), "notifies": True, **more}
    if concurrency is not None:
        given["concurrency"] = concurrency
    if flows:
        outlast._serve(flows)
    found: Worker = import_module(ROOM).Worker([outlast], **given)
    return found


def seconds_of(name: str, given: float | str | None) -> float | None:
    """A time that was given, in seconds. Raises ValueRefused."""
    found = None if given is None else duration(given)
    if given is not None and found is None:
        raise ValueRefused(name, f"{given!r:.100} is no time", "give seconds, or text such as 30s, 5m")
    return found
