"""Making calls from a plain body: the only code that calls the user's. The async half is call_async.py.

The logic of a call is call_logic.py; here a body is run, a probe is asked, time is waited, a write is made.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, assert_never

from outlast import errors
from outlast.errors import Paused, Severed, Stopped, Unavailable
from outlast.runs import call_flat
from outlast.runs.attempt import (
    CURRENT,
    AskProbe,
    Attempt,
    Ended,
    Frame,
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
from outlast.runs.call import FIRST, Replay
from outlast.runs.call_logic import Driven, drive, drive_on
from outlast.runs.execution import Execution
from outlast.runs.os_signals import run_on_loop
from outlast.runs.step import ReadyWork, StepSpec
from outlast.runs.stops import listen
from outlast.values.ambient import begin, calls_user_code, folded
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.runs import call_async
    from outlast.runs import effect as effects
else:
    call_async = late("outlast.runs.call_async")
    effects = late("outlast.runs.effect")

SIGNALS = (Paused, Stopped, Severed)  # ours: they pass through bodies and are nobody's failure
_live = 0
_LOOK_SECONDS = 0.2  # how soon one notices, who waits for a body that cannot be interrupted


def enter_process() -> None:
    """A run begins in this process: from now on a thread without its context may be one of its own."""
    global _live
    _live += 1


def leave_process() -> None:
    global _live
    _live -= 1


def refuse_misplaced(spec: StepSpec) -> None:
    """Raises StepOutsideRun in a thread that may be doing a run's work, EffectInsideStep for an effect in a step.

    Of a decorated call that is not made in a run's body: any other one is a plain call.
    """
    frame = CURRENT.get()
    if frame is None:
        if _live and threading.current_thread() is not threading.main_thread():
            raise errors.StepOutsideRun(spec.name, threading.current_thread().name)
    elif frame.attempt is not None and spec.is_effect:
        raise errors.EffectInsideStep(spec.name, frame.attempt.asked.spec.name)


def outside_arguments(spec: StepSpec, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keyword arguments of a plain call: a key of its own, resources only if they were passed."""
    signature = spec.signature
    if not signature.keyed and not signature.injected:
        return kwargs
    frame = CURRENT.get()
    given = dict(kwargs)
    for name in signature.keyed:
        given.setdefault(name, f"{spec.name}-outside-a-run")
    for name, key in signature.injected.items():
        if name not in given:
            if frame is None:
                raise errors.ResourceMissing(key)
            given[name] = frame.execution.resource(key)
    return given


# -- plain -------------------------------------------------------------------------------------------


def call_plain(
    frame: Frame, spec: StepSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any], call_id: str | None = None
) -> Any:
    """Make a call from a plain body, blocking until its outcome is durable."""
    execution = frame.execution
    try:
        if execution.replaying and call_id is None:
            past = execution.plain_receipt(frame, spec, args, kwargs)
            if past is not None:
                return execution.again(spec, past)
        return drive_plain(execution, execution.ask(frame, spec, args, kwargs, call_id))
    except Exception as error:
        raise folded(error)  # noqa: B904


def drive_plain(execution: Execution, asked: StepCall, *, park: bool = True) -> Any:
    """Do what the call asks for. A wait ends the body, unless `park` is left to the caller."""
    found = asked.next
    if found is not FIRST and isinstance(found, Replay) and found.past.status != "cancelled":
        return execution.recorded(asked, found.past)
    try:
        attempt = call_flat.begin(execution, asked)
        if attempt is None:
            return _drive(execution, asked, drive(execution, asked), park)
        ended = _ended(execution, attempt)
        done = call_flat.receipt_of(execution, attempt, ended)
        if done is None:
            return _drive(execution, asked, drive_on(execution, attempt, ended), park)
    except Exception as error:
        execution.refuse_unrecorded(asked, error)
        raise
    value, made = done
    del asked, attempt, ended, done, found  # while it waits: of many that do, less is there to be searched
    execution.writer.append(made)
    return value


def _drive(execution: Execution, asked: StepCall, driven: Driven, park: bool) -> Any:
    """Do what the logic asks for, until it has an outcome."""
    answer: Any = None
    try:
        while True:
            do = driven.send(answer)
            answer = None
            match do:
                case Write():
                    execution.writer.write(do.entries)
                case RunBody():
                    answer = _ended(execution, do.attempt)
                    if asked.spec.work is not None:
                        answer = asked.spec.work.observe(execution, do.attempt, answer)
                case Prepare():
                    answer = do.work.prepare(execution, do.attempt)
                case TakeSlot():
                    answer = _take_slot(execution, do.attempt)
                case AskProbe():
                    with execution.asking(do.attempt):
                        answer = _probe(execution, do.attempt)
                case WaitForRetry():
                    _nap(execution, execution.delay_of(do.attempt))
                case ListenForStop():
                    listen(lambda: execution.stopping, do.seconds)
                case Hang():  # an async flow cancelled it before; a plain one cannot
                    raise errors.StepFailed(asked.spec.name, "CancelledError", "the flow cancelled it")
                case Park():
                    execution.paused = execution.paused or park
                    raise Paused
                case _:
                    assert_never(do)
    except StopIteration as end:
        return end.value
    finally:
        driven.close()  # what it holds is let go of now, whoever keeps the traceback


def _take_slot(execution: Execution, attempt: Attempt) -> Raised | None:
    """Wait for a slot, in short naps so that a request to stop ends it."""
    spec = attempt.asked.spec
    with execution.executor.live.slots.wanted(spec.limit, execution.id, spec.name) as wanted:
        try:
            while seconds := wanted.take():
                time.sleep(seconds)  # a look at what others do: no time of the flow's
                execution.gate()
        except errors.LimitNotFound as error:
            return Raised(error)
        attempt.slot = wanted.number
    return None


def _worked(execution: Execution, ready: ReadyWork) -> Ended:
    """A command's end. What cannot be kept of it ends the run here; nothing leaves the attempt open."""
    try:
        return ready.run()
    except Unavailable as error:
        execution.writer.sever(error)
    except Exception as error:
        return Raised(error)


@calls_user_code
def _ended(execution: Execution, attempt: Attempt) -> Ended:
    asked = attempt.asked
    shape = asked.spec.shape
    if attempt.ready is not None or not shape.is_bare:
        return _ended_elsewhere(execution, attempt)
    token = CURRENT.set(Frame(execution, asked.call.scope, attempt))
    try:
        given = execution.arguments(attempt) if shape.is_filled else asked.kwargs
        return Returned(asked.spec.function(*asked.args, **given))
    except BaseException as error:
        return judged(execution, error)
    finally:
        CURRENT.reset(token)


def _ended_elsewhere(execution: Execution, attempt: Attempt) -> Ended:
    """The same for what is done in another process, on a loop, or in a thread."""
    if attempt.ready is not None:
        return _worked(execution, attempt.ready)
    if attempt.asked.spec.is_async:
        return _async_body_in_plain(execution, attempt)
    return _timed_body(execution, attempt)


def judged(execution: Execution, error: BaseException) -> Raised:
    """What became of a body that raised. Our own signals pass through."""
    if isinstance(error, SIGNALS):
        raise error
    if isinstance(error, KeyboardInterrupt):
        execution.stopping = True
        return Raised(error, "interrupted")
    if isinstance(error, GeneratorExit):
        raise error
    return Raised(error)


@calls_user_code
def _timed_body(execution: Execution, attempt: Attempt) -> Ended:
    """Run a body in a thread so that we can stop waiting for it. It is not tried again while it lives."""
    spec = attempt.asked.spec
    place = (execution.id, attempt.asked.call)
    before = lingering.get(place)
    if before is not None:
        before.join(spec.timeout)
        if before.is_alive():
            return Raised(errors.StillRunning(spec.name))
    ended: list[Ended] = []

    def work() -> None:
        CURRENT.set(Frame(execution, attempt.asked.call.scope, attempt))
        try:
            ended.append(Returned(spec.function(*attempt.asked.args, **execution.arguments(attempt))))
        except SIGNALS as error:
            ended.append(Raised(error, "interrupted"))
        except BaseException as error:
            ended.append(judged(execution, error))

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    try:
        begin(thread, f"step {spec.name}")
    except errors.NoThread as error:
        return Raised(error)
    lingering[place] = thread
    try:
        is_left = _wait_for(execution, attempt, thread, spec.timeout or 0.0)
    except BaseException as error:  # Ctrl-C while we wait: the body works on, and is not forgotten
        return judged(execution, error)
    if ended:
        del lingering[place]
        return ended[0]
    if is_left:
        return Raised(Stopped(), "interrupted")
    return Raised(errors.StepTimedOut(spec.name, spec.timeout or 0.0), "timed_out")


@calls_user_code
def _wait_for(execution: Execution, attempt: Attempt, thread: threading.Thread, limit_seconds: float) -> bool:
    """Until the body has ended, or its time is over. True: the run was called off, and nobody waits for it."""
    until = time.monotonic() + limit_seconds
    while thread.is_alive() and (left := until - time.monotonic()) > 0:
        if execution.called_off_at and execution.must_end(attempt):
            return True
        thread.join(min(left, _LOOK_SECONDS))
    return False


def still_runs(execution: Execution, asked: StepCall) -> bool:
    """Whether a timed-out body of this call still works: what a probe finds now may change the next moment."""
    before = lingering.get((execution.id, asked.call))
    return before is not None and before.is_alive()


def _async_body_in_plain(execution: Execution, attempt: Attempt) -> Ended:
    try:
        ended = run_on_loop(call_async.run_body(execution, attempt))
    except KeyboardInterrupt as error:
        return judged(execution, error)
    if not isinstance(ended, Raised) or ended.status not in ("cancelled", "interrupted"):
        return ended
    if execution.called_off_at:
        return Raised(Stopped(), "interrupted")
    return judged(execution, KeyboardInterrupt())  # on a loop of ours: else by Ctrl-C only


def probe_of(execution: Execution, attempt: Attempt) -> tuple[Callable[..., Any], dict[str, Any]]:
    """An effect's probe and what to call it with. Raises StillRunning while the body it asks about works on."""
    asked = attempt.asked
    confirm = asked.spec.confirm
    assert confirm is not None
    if still_runs(execution, asked):
        raise errors.StillRunning(asked.spec.name)
    return confirm, effects.probe_arguments(confirm, asked.inputs, attempt.key, execution.resource)


@calls_user_code
def _probe(execution: Execution, attempt: Attempt) -> Any:
    try:
        confirm, given = probe_of(execution, attempt)
        if inspect.iscoroutinefunction(confirm):
            return effects.understood(run_on_loop(confirm(**given)))
        return effects.understood(confirm(**given))
    except Exception as error:
        return error


def _nap(execution: Execution, seconds: float) -> None:
    """Wait before the next attempt, in short naps so that a request to stop ends it."""
    while seconds > 0:
        execution.clock.sleep(min(seconds, 0.2))
        execution.gate()
        seconds -= 0.2
