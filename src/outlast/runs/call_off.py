"""A run that is called off while it goes on: somebody gave it up, another worker has it, or its deadline has passed.

No further call begins. What is only awaited is cancelled and a command is ended, at once. An effect under way is let
end within the grace; then it is stopped too, and in doubt. A plain step in a thread cannot be stopped by anyone: where
that can be, nobody waits for it any more, and what it gives is dropped.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from outlast.clock import moment
from outlast.errors import OutlastError, RunTimedOut

if TYPE_CHECKING:
    import asyncio

    from outlast.runs.attempt import Attempt
    from outlast.runs.execution import Execution


def set_deadline(execution: Execution, started_at: int, seconds: float | None) -> None:
    """The run is to be done so many seconds after its start, whoever goes on with it. It may be too late already."""
    if seconds is not None:
        execution.deadline_at = started_at + int(seconds * 1_000_000)
        execution.deadline_seconds = seconds
        look(execution)


def look(execution: Execution) -> None:
    """At each tick of the heart: whether it is past its deadline, and what is to be cancelled by now."""
    if execution.called_off_at:
        over = time.monotonic() - execution.called_off_at >= execution.settings.grace_seconds
        execution.stopping_now = execution.stopping_now or over
        _cancel_awaited(execution)
    elif execution.deadline_at and execution.clock.now() >= execution.deadline_at:
        due = moment(execution.deadline_at).isoformat(timespec="seconds")
        call_off(execution, RunTimedOut(execution.id, due, execution.deadline_seconds))


def call_off(execution: Execution, why: OutlastError | None) -> None:
    """End what the run does in this process, and in its children: they are only stopped, and go on with it."""
    if execution.called_off_at:
        return
    execution.called_off, execution.called_off_at = why, time.monotonic()
    execution.stopping = True
    if execution.branches is not None:
        _soon(execution.branches.loop, execution.branches.call_off)
    _cancel_awaited(execution)
    for child in execution.children:
        live = execution.runtime.live.get(child.run_id)
        if live is not None:
            call_off(live, None)


def _cancel_awaited(execution: Execution) -> None:
    for attempt in list(execution.open.values()):
        task = attempt.awaited
        if task is not None and execution.must_end(attempt):
            _soon(task.get_loop(), _cancel, attempt, task)


def _cancel(attempt: Attempt, task: asyncio.Task[Any]) -> None:
    """On its loop: cancel it once, if it is still in that body."""
    if attempt.awaited is task:
        attempt.awaited = None
        task.cancel()


def _soon(loop: asyncio.AbstractEventLoop, *work: Any) -> None:
    with suppress(RuntimeError):  # a loop that is closed has nothing left to cancel
        loop.call_soon_threadsafe(*work)
