"""Who asked a run to stop, and whether what ends badly meanwhile was stopped along with it.

A service manager sends TERM to every process of a service: to us, to the step's command, to what a Python step
started. What dies of it has not failed. A person's Ctrl-C, or `pause`, keeps a run stopped until somebody resumes it;
after a shutdown it goes on by itself.

A run that is called off while it goes on: somebody gave it up, another worker has it, or its deadline has passed.

No further call begins. What is only awaited is cancelled and a command is ended, at once. An effect under way is let
end within the grace; then it is stopped too, and in doubt. A plain step in a thread cannot be stopped by anyone: where
that can be, nobody waits for it any more, and what it gives is dropped.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from outlast import errors
from outlast.clock import moment
from outlast.errors import OutlastError
from outlast.ledger.journal import read_facts, read_header

if TYPE_CHECKING:
    import asyncio

    from outlast.runs.attempt import Attempt
    from outlast.runs.execution import Execution
    from outlast.store.contract import LeaseRow, Reading, RunRow


PERSON, SHUTDOWN = "person", "shutdown"
SHUTDOWNS = (signal.SIGTERM, signal.SIGHUP)
LISTEN_SECONDS = 1.0  # for our own signal, after something of ours died of one
COMMAND_SECONDS = 0.05  # for it, after a command failed in another way: it may have a trap
_LOOK_SECONDS = 0.005
_CODES = {code for number in (*SHUTDOWNS, signal.SIGINT) for code in (-number, 128 + number)}


def stopped_by(number: int) -> str:
    """Whether a signal is a person's, or a shutdown's."""
    return SHUTDOWN if number in SHUTDOWNS else PERSON


def both(before: str, now: str) -> str:
    """Who stops a run that several ask to stop: what a person wants counts."""
    return PERSON if PERSON in (before, now) else now or before


def is_signal_exit(code: int | None) -> bool:
    """Whether an exit code says that INT, TERM or HUP ended the process."""
    return code in _CODES


def died_of_signal(error: BaseException) -> bool:
    """Whether an error says that a process of ours was ended by INT, TERM or HUP, or before it began."""
    if isinstance(error, errors.loaded("CommandFailed")):
        return error.exit > 128 and is_signal_exit(error.exit)
    if isinstance(error, errors.loaded("CommandNotStarted")):
        return True
    return is_signal_exit(getattr(error, "returncode", None)) or type(error).__name__ == "BrokenProcessPool"


def listening_seconds(error: BaseException) -> float:
    """How long our own signal is waited for before a step that ended so has failed."""
    if isinstance(error, errors.loaded("CommandNotStarted")):
        return COMMAND_SECONDS
    if died_of_signal(error):
        return LISTEN_SECONDS
    return COMMAND_SECONDS if isinstance(error, errors.loaded("CommandFailed")) else 0.0


def listen(is_stopping: Callable[[], bool], seconds: float) -> None:
    """Until we are asked to stop too, or the time is over."""
    until = time.monotonic() + seconds
    while not is_stopping() and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)


def is_stopped_along(execution: Execution, error: BaseException) -> bool:
    """Whether an attempt that ended so was stopped with its run: by a shutdown, or by the same Ctrl-C."""
    if not execution.stopping:
        return False
    return execution.stopped_by == SHUTDOWN or died_of_signal(error)


def who_stopped(look: Reading, run: RunRow, lease: LeaseRow) -> str:
    """Who stopped an interrupted run, by what was written then: a person, a shutdown; empty when that is not known.

    A resume that was refused leaves entries behind the stop.
    """
    for entry in (entry for seq in range(lease.head, 0, -1) for entry in look.entries_of(run.key, [seq])):
        header = read_header(entry.header)
        if header.kind == "run" and header.name in ("resumed", "started"):
            return ""
        if header.kind == "run" and header.name == "interrupted":
            return str(read_facts(entry).get("by", ""))
    return ""


def set_deadline(execution: Execution, started_at: int, seconds: float | None) -> None:
    """The run is to be done so many seconds after its start, whoever goes on with it. It may be too late already."""
    if seconds is not None:
        execution.deadline_at = started_at + int(seconds * 1_000_000)
        execution.deadline_seconds = seconds
        # for who looks at the run, with the next commit: it is read from the code whenever the run goes on
        key, at = execution.hold.run_key, execution.deadline_at
        execution.store.write_soon(lambda tx: tx.put_deadline(key, at))
        look(execution)


def look(execution: Execution) -> None:
    """At each tick of the heartbeat: whether it is past its deadline, and what is to be cancelled by now."""
    if execution.called_off_at:
        over = time.monotonic() - execution.called_off_at >= execution.settings.grace_seconds
        execution.stopping_now = execution.stopping_now or over
        _cancel_awaited(execution)
    elif execution.deadline_at and execution.clock.now() >= execution.deadline_at:
        due = moment(execution.deadline_at).isoformat(timespec="seconds")
        call_off(execution, errors.RunTimedOut(execution.id, due, execution.deadline_seconds))


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
        live = execution.executor.live.executions.get(child.run_id)
        if live is not None:
            call_off(live, None)


def _cancel_awaited(execution: Execution) -> None:
    for attempt in list(execution.open):
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
