"""What is done for a call, one thing at a time. No user code is called and nothing is waited for here: each
`yield` says what is to be done next, and the drivers (call_plain.py and call_async.py) do it and send the answer.

Order of writes for a step:    [start synced where it must be] -> body -> receipt (synced) -> delivered.
Order of writes for an effect: intent (synced) -> body -> outcome (synced) -> delivered. A crash between intent
and outcome leaves the effect in doubt: its probe is asked, then a person, before anything runs again.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from outlast import errors, failpoints
from outlast.errors import OutlastError, Paused, Stopped, WorkFailed
from outlast.ledger.journal import Payload
from outlast.runs import failure
from outlast.runs import failure as log
from outlast.runs.attempt import (
    Ask,
    AskProbe,
    Attempt,
    Do,
    Ended,
    Hang,
    ListenForStop,
    Park,
    Prepare,
    Raised,
    Returned,
    RunBody,
    StepCall,
    TakeSlot,
    WaitForRetry,
    Write,
    lingering,
)
from outlast.runs.call import DAMAGED, Changed, Doubtful, Fresh, Poisoned, Replay
from outlast.runs.execution import Execution, mark_of, shown
from outlast.runs.step import Work
from outlast.runs.stops import SHUTDOWN, is_stopped_along, listening_seconds
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.runs import effect as effects
else:
    effects = late("outlast.runs.effect")  # what a probe says

Driven = Generator[Do, Any, Any]


def drive(execution: Execution, asked: StepCall) -> Driven:
    """What to do for a call whose outcome is not recorded; its value is what the flow gets."""
    found = asked.next
    if isinstance(found, Fresh):
        return _attempts(execution, asked, found.attempt, found.failures)
    if isinstance(found, Replay):
        return _cancelled_before()
    return _decide(execution, asked, found)


def drive_on(execution: Execution, attempt: Attempt, ended: Ended) -> Driven:
    """The same from where the body of its first attempt has ended."""
    settled = yield from _outcome(execution, attempt, ended)
    if settled is not None:
        return settled[0]
    return (yield from _attempts(execution, attempt.asked, attempt.number + 1, attempt.failures))


def _attempts(execution: Execution, asked: StepCall, number: int, failures: int) -> Driven:
    execution.ran.add(asked.spec.name)
    while True:
        attempt = execution.attempt(asked, number, failures)
        ended = yield from (_limited if asked.spec.limit else _attempted)(execution, attempt)
        settled = yield from _outcome(execution, attempt, ended)
        if settled is not None:
            return settled[0]
        number, failures = number + 1, attempt.failures


def _limited(execution: Execution, attempt: Attempt) -> Driven:
    """The same in a slot of the limit that the step shares, from before anything is made ready to the body's end."""
    refused = yield TakeSlot(attempt)
    if refused is not None:
        return refused
    attempt.started_at, attempt.tick = execution.clock.now(), execution.ticks
    try:
        return (yield from _attempted(execution, attempt))
    finally:
        busy = lingering.get((execution.id, attempt.asked.call))
        execution.executor.live.slots.let_go(attempt.slot, busy)


def _attempted(execution: Execution, attempt: Attempt) -> Driven:
    work = attempt.asked.spec.work
    if work is not None:
        return (yield from _prepared(execution, attempt, work))
    return (yield from _body(execution, attempt))


def _outcome(execution: Execution, attempt: Attempt, ended: Ended) -> Driven:
    """Record how a body ended. A tuple: the value that the flow gets; None: try again; raises what the flow gets."""
    if isinstance(ended, Returned):
        packed = execution.pack(attempt, ended.value)
        if not isinstance(packed, Raised):
            yield Write(execution.close(attempt, "succeeded", packed[1], delivered=True))
            return (packed[0],)
        ended = packed
    return (yield from _failed(execution, attempt, ended))


def _prepared(execution: Execution, attempt: Attempt, work: Work) -> Driven:
    """A body that needs something made ready before its start can be written. That is let go, however it ends."""
    try:
        ready = yield Prepare(attempt, work)
        if isinstance(ready, Ask):
            yield from _wait(execution, attempt.asked, ready.kind, ready.payload)
        if isinstance(ready, Raised):
            return ready
        return (yield from _body(execution, attempt))
    finally:
        attempt.drop()


def _body(execution: Execution, attempt: Attempt) -> Driven:
    before = execution.begin(attempt)
    if before is not None:
        yield Write(before)
        execution.take_note(attempt)
    if failpoints.armed:
        failpoints.armed("step.begun")
    ended = yield RunBody(attempt)
    if failpoints.armed:
        failpoints.armed("step.ended")
    return ended


def _failed(execution: Execution, attempt: Attempt, ended: Raised) -> Driven:
    """Record a failure. None: try again; a tuple: the value after all; raises what the flow gets."""
    spec, error, call = attempt.asked.spec, ended.error, attempt.asked.call
    if ended.status == "interrupted":
        yield Write(execution.close(attempt, "interrupted", _error(error), mark=mark_of(spec)))
        raise error
    if ended.status == "failed" and not is_ours(error):
        yield from _unless_stopped(execution, attempt, error)
    if spec.is_effect and not spec.says_not_done(error) and not isinstance(error, errors.loaded("LimitNotFound")):
        return (yield from _in_doubt(execution, attempt, ended))
    if ended.status == "cancelled":
        execution.endings.cancelled(call)
        yield Write(execution.close(attempt, "cancelled", Payload(), delivered=True))
        raise error
    attempt.failures += 1
    final = _is_final(attempt, error) or (ended.status == "failed" and is_ours(error))
    mark = "not_done" if spec.is_effect else ""
    yield Write(execution.close(attempt, ended.status, _error(error), delivered=final, mark=mark))
    if final:
        raise execution.endings.failed(failure.deliverable(error, spec.name), call)
    yield from _retried(execution, attempt, error)
    return None


def _retried(execution: Execution, attempt: Attempt, error: BaseException) -> Driven:
    """Wait for the next attempt, and let it be known that there is one."""
    log.say_retried(execution, attempt, error)
    yield WaitForRetry(attempt)


def _unless_stopped(execution: Execution, attempt: Attempt, error: BaseException) -> Driven:
    """Nothing, of an attempt that failed. One that its run's stop has reached is interrupted, and tried again."""
    seconds = 0.0 if execution.stopping else listening_seconds(error)
    if seconds:
        yield ListenForStop(seconds)
    if is_stopped_along(execution, error):
        spec = attempt.asked.spec
        mark = "not_done" if spec.is_effect and spec.says_not_done(error) else mark_of(spec)
        yield Write(execution.close(attempt, "interrupted", _error(error), mark=mark))
        raise Stopped from error


# -- effects that may have happened ------------------------------------------------------------------


def _decide(execution: Execution, asked: StepCall, found: Doubtful | Poisoned | Changed) -> Driven:
    """A call that only its probe or a person can settle."""
    match found:
        case Doubtful(past):
            revived = execution.revived(asked, past)
            settled = yield from _ask_probe(execution, revived, None)
            if settled is not None:
                return settled[0]
            return (yield from _attempts(execution, asked, past.attempts + 1, past.failures))
        case Poisoned(past):
            shared = {"shared": past.shared} if past.shared else {}
            yield from _wait(execution, asked, "crash_loop", {"crashes": past.crashes + past.shared, **shared})
        case Changed(past):
            was = {"was": list(past.call), "status": past.last.status, "seq": past.seq, "seen": asked.digest}
            yield from _wait(execution, asked, "inputs_changed", was)


def _in_doubt(execution: Execution, attempt: Attempt, ended: Raised) -> Driven:
    """An effect ended without saying whether it happened."""
    asked = attempt.asked
    yield Write(execution.close(attempt, ended.status, _error(ended.error), mark=mark_of(asked.spec)))
    if ended.status != "cancelled":
        return (yield from _ask_probe(execution, attempt, ended.error))
    execution.cancelled_in_doubt(attempt)
    raise ended.error


def _ask_probe(execution: Execution, attempt: Attempt, error: BaseException | None) -> Driven:
    """Settle an effect in doubt. A tuple: it happened; None: it did not, try again; else the run waits."""
    asked, spec = attempt.asked, attempt.asked.spec
    doubt: dict[str, Any] = {"attempt": attempt.number} | _record(asked)
    if spec.confirm is None:
        yield from _wait(execution, asked, "in_doubt", doubt)
    answer = yield AskProbe(attempt)
    if failpoints.armed:
        failpoints.armed("probe.ended")
    attempt.closed = False
    if isinstance(answer, effects.Happened):
        packed = execution.pack(attempt, answer.value)
        if not isinstance(packed, Raised):
            yield Write(execution.close(attempt, "succeeded", packed[1], delivered=True, mark="confirmed"))
            execution.settled.add(asked.call)
            return (packed[0],)
        answer = packed.error
    if answer is not effects.NOT_DONE:
        if execution.stopping and execution.stopped_by == SHUTDOWN:  # it may not have been able to say: asked again
            execution.cut_short = True
            raise Stopped
        why = f"{type(answer).__name__}: {answer}" if isinstance(answer, BaseException) else "UNKNOWN"
        yield from _wait(execution, asked, "in_doubt", {**doubt, "probe": why})
    return (yield from _not_done(execution, attempt, error))


def _record(asked: StepCall) -> dict[str, str]:
    """Why it is in doubt, if that is because what was written about it is not what was stored."""
    past = asked.next.past if isinstance(asked.next, Doubtful) else None
    return {"record": DAMAGED} if past is not None and past.last.status == DAMAGED else {}


def _not_done(execution: Execution, attempt: Attempt, error: BaseException | None) -> Driven:
    """The probe says that nothing happened: a failure like any other, if this process saw it fail."""
    spec = attempt.asked.spec
    attempt.failures += error is not None
    final = error is not None and _is_final(attempt, error)
    kept = _error(error) if error is not None else Payload()
    yield Write(execution.close(attempt, "failed", kept, delivered=final, mark="not_done"))
    execution.settled.add(attempt.asked.call)
    if error is None:
        return None
    if final:
        raise execution.endings.failed(failure.deliverable(error, spec.name), attempt.asked.call)
    yield from _retried(execution, attempt, error)
    return None


def _wait(execution: Execution, asked: StepCall, kind: str, payload: dict[str, Any]) -> Driven:
    execution.stand_at(asked.call)
    execution.open_wait(asked.call, kind, {**payload, **shown(asked)}, item=asked.item)
    log.say_waits(execution, asked, kind, payload.get("attempt", 0))
    yield Park()
    raise Paused  # a parked branch that goes on has nothing to go on with


def _cancelled_before() -> Driven:
    """The flow cancelled this call when it was first made, and will again."""
    yield Hang()
    raise Paused


def _is_final(attempt: Attempt, error: BaseException) -> bool:
    """Whether the step is not tried again: its retries are used up, or they are for other failures."""
    spec = attempt.asked.spec
    return attempt.failures > spec.retries or not spec.tries_again(error, attempt.facts)


def is_ours(error: BaseException) -> bool:
    """What Outlast itself refuses, it refuses again: trying once more is of no use."""
    return isinstance(error, OutlastError) and not isinstance(error, WorkFailed)


def _error(error: BaseException) -> Payload:
    return Payload(error=failure.record(error))
