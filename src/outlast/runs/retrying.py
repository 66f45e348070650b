"""A run that failed is tried again by itself, at the failure, as often as its flow says (`@flow(retries=…)`).

Between two tries it waits for a time, as in a sleep: nobody holds it, and whoever wakes runs that are due wakes it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.clock import moment
from outlast.runs import failure
from outlast.runs.call import Call
from outlast.runs.call_logic import is_ours
from outlast.runs.waits.interrupt import RETRY

if TYPE_CHECKING:
    from outlast.home.home import Runtime
    from outlast.runs.execution import Execution
    from outlast.runs.run import Outcome

_LOOK_SECONDS = 0.2


def try_later(execution: Execution, error: BaseException) -> bool:
    """Whether a run that this ended is tried again: that, and when, is on disk then."""
    from outlast.runs import log  # late: most runs never need it

    number = execution.ledger.retried + 1
    call = Call("", RETRY, "", number)
    due = execution.clock.now() + int(execution.retry.delay(number, execution.luck(call, number)) * 1_000_000)
    if not _is_worth_it(execution, error, number, due):
        return False
    kept, undone = failure.record(error), execution.endings.ended_by(error)
    facts = {"retry": number, "of": execution.retry.retries, "due": due, "error": kept}
    facts["ended_by"] = [list(call) for call in undone]
    execution.pen.note(execution.pen.fact("run", "retrying", facts))
    shown = {"due": moment(due).isoformat(timespec="seconds"), "retry": number, "of": execution.retry.retries}
    shown["error"] = f"{kept['type'].rpartition(':')[2]}: {kept['message'][:200]}"
    execution.open_wait(call, "timer", shown, due)
    log.say_tried_again(execution, kept, number, execution.retry.retries)
    return True


def _is_worth_it(execution: Execution, error: BaseException, number: int, due: int) -> bool:
    """Not when it was called off or stopped, nor when it would be too late, nor for what would be refused again."""
    if number > execution.retry.retries or not execution.retry.takes(error) or is_ours(error):
        return False
    return not execution.stopping and not (execution.deadline_at and due >= execution.deadline_at)


def seconds_left(runtime: Runtime, outcome: Outcome[Any]) -> float | None:
    """How long to wait here before the next try; None when there is none, or it is so long that others see to it."""
    if outcome.status != "waiting":
        return None
    waits = [wait.due_at for wait in outcome.interrupts if wait.step == RETRY and wait.due_at is not None]
    left = min(((due - moment(runtime.clock.now())).total_seconds() for due in waits), default=None)
    return None if left is None or left > runtime.settings.sleep_in_place_seconds else max(left, 0.0)


def wait(runtime: Runtime, seconds: float) -> bool:
    """Until the next try. False when this process was asked to stop meanwhile: the run stays asleep."""
    stops = runtime.stops
    while seconds > 0 and runtime.stops == stops:
        runtime.clock.sleep(min(seconds, _LOOK_SECONDS))
        seconds -= _LOOK_SECONDS
    return runtime.stops == stops


async def wait_async(runtime: Runtime, seconds: float) -> bool:
    """The same on an event loop."""
    stops = runtime.stops
    while seconds > 0 and runtime.stops == stops:
        await runtime.clock.sleep_async(min(seconds, _LOOK_SECONDS))
        seconds -= _LOOK_SECONDS
    return runtime.stops == stops
