"""Making calls: the only code that calls the user's. Plain and async halves of the same driving.

The logic of a call is Execution.drive; here a body is run, a probe is asked, time is waited, a write is made.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    EffectInsideStep,
    HoldfastError,
    Paused,
    ResourceMissing,
    Severed,
    StepOutsideRun,
    StepTimedOut,
    StillRunning,
    Stopped,
)
from holdfast.runtime.attempt import BODY, HANG, PARK, PROBE, SLEEP, WRITE, Asked, Attempt, Ended, Raised, Returned
from holdfast.runtime.context import CURRENT, Frame
from holdfast.runtime.effects import probe_arguments, understood
from holdfast.runtime.execution import Entries, Execution
from holdfast.runtime.specs import StepSpec

if TYPE_CHECKING:
    from holdfast.runtime.branches import Branches

SIGNALS = (Paused, Stopped, Severed)  # ours: they pass through bodies and are nobody's failure
_threads: dict[tuple[str, Any], threading.Thread] = {}  # timed-out bodies that have not ended yet
_outside: set[int] = set()  # threads that were there before any run: plain calls are fine in them
_live = 0


def enter_process() -> None:
    """A run begins in this process: remember which threads were there before it."""
    global _live
    if _live == 0:
        _outside.clear()
        _outside.update(thread.ident or 0 for thread in threading.enumerate())
    _live += 1


def leave_process() -> None:
    global _live
    _live -= 1


def place_of(spec: StepSpec) -> Frame | None:
    """Where a decorated call stands: in a run's body, or None when it is a plain call.

    Raises StepOutsideRun in a thread that a run may have started, EffectInsideStep for an effect in a step.
    """
    frame = CURRENT.get()
    if frame is None:
        if _live and threading.get_ident() not in _outside:
            raise StepOutsideRun(spec.name, threading.current_thread().name)
        return None
    if frame.attempt is None:
        return frame
    if spec.is_effect:
        raise EffectInsideStep(spec.name, frame.attempt.asked.spec.name)
    return None


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
                raise ResourceMissing(key)
            given[name] = frame.execution.resource(key)
    return given


# -- plain -------------------------------------------------------------------------------------------


def call_plain(
    frame: Frame, spec: StepSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any], call_id: str | None = None
) -> Any:
    """Make a call from a plain body, blocking until its outcome is durable."""
    execution = frame.execution
    return drive_plain(execution, execution.ask(frame, spec, args, kwargs, call_id))


def drive_plain(execution: Execution, asked: Asked, *, park: bool = True) -> Any:
    """Do what the call asks for. A wait ends the body, unless `park` is left to the caller."""
    driven = execution.drive(asked)
    answer: Any = None
    try:
        while True:
            what, given = driven.send(answer)
            answer = None
            if what == WRITE:
                execution.write(given)
            elif what == BODY:
                answer = _body(execution, given)
            elif what == PROBE:
                answer = _probe(execution, given)
            elif what == SLEEP:
                _nap(execution, given)
            else:
                execution.paused = execution.paused or park
                raise Paused
    except StopIteration as end:
        return end.value


def _body(execution: Execution, attempt: Attempt) -> Ended:
    spec = attempt.asked.spec
    if spec.is_async:
        return _async_body_in_plain(execution, attempt)
    if spec.timeout is not None:
        return _timed_body(execution, attempt)
    token = CURRENT.set(Frame(execution, attempt.asked.scope, attempt))
    try:
        return Returned(spec.function(*attempt.asked.args, **execution.arguments(attempt)))
    except BaseException as error:
        return judged(execution, error)
    finally:
        CURRENT.reset(token)


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


def _timed_body(execution: Execution, attempt: Attempt) -> Ended:
    """Run a body in a thread so that we can stop waiting for it. It is not tried again while it lives."""
    spec = attempt.asked.spec
    place = (execution.id, attempt.asked.call)
    before = _threads.get(place)
    if before is not None:
        before.join(spec.timeout)
        if before.is_alive():
            return Raised(StillRunning(spec.name))
    ended: list[Ended] = []

    def work() -> None:
        CURRENT.set(Frame(execution, attempt.asked.scope, attempt))
        try:
            ended.append(Returned(spec.function(*attempt.asked.args, **execution.arguments(attempt))))
        except SIGNALS as error:
            ended.append(Raised(error, "interrupted"))
        except BaseException as error:
            ended.append(judged(execution, error))

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
    thread.start()
    thread.join(spec.timeout)
    if ended:
        return ended[0]
    _threads[place] = thread
    return Raised(StepTimedOut(spec.name, spec.timeout or 0.0), "timed_out")


def _async_body_in_plain(execution: Execution, attempt: Attempt) -> Ended:
    import asyncio

    async def work() -> Ended:
        return await _async_body(execution, attempt)

    try:
        return asyncio.run(work())
    except KeyboardInterrupt as error:
        return judged(execution, error)


def _probe(execution: Execution, attempt: Attempt) -> Any:
    import inspect

    asked = attempt.asked
    confirm = asked.spec.confirm
    assert confirm is not None
    try:
        given = probe_arguments(confirm, asked.inputs, attempt.key, execution.resource)
        if inspect.iscoroutinefunction(confirm):
            import asyncio

            return understood(asyncio.run(confirm(**given)))
        return understood(confirm(**given))
    except Exception as error:
        return error


def _nap(execution: Execution, seconds: float) -> None:
    """Wait before the next attempt, in short naps so that a request to stop ends it."""
    while seconds > 0:
        execution.clock.sleep(min(seconds, 0.2))
        execution.gate()
        seconds -= 0.2


# -- async -------------------------------------------------------------------------------------------


async def call_async(
    frame: Frame, spec: StepSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any], call_id: str | None = None
) -> Any:
    """Make a call from an async body; other branches go on meanwhile."""
    execution = frame.execution
    return await drive_async(execution, execution.ask(frame, spec, args, kwargs, call_id))


async def drive_async(execution: Execution, asked: Asked) -> Any:
    """Do what the call asks for. A wait parks this branch; the run waits when all of them do."""
    branches = execution.branches
    if branches is None:  # an async step on a loop of the user's own, inside a plain body
        return await _drive_async(execution, asked, None)
    branches.in_flight += 1
    try:
        return await _drive_async(execution, asked, branches)
    finally:
        branches.in_flight -= 1
        if branches.parked:
            branches.changed.set()


async def _drive_async(execution: Execution, asked: Asked, branches: Branches | None) -> Any:
    driven = execution.drive(asked)
    answer: Any = None
    try:
        while True:
            what, given = driven.send(answer)
            answer = None
            if what == WRITE:
                later = execution.write_soon(given)
                if later is not None:
                    await _written(execution, asked, given, later)
            elif what == BODY:
                answer = await _async_body(execution, given)
            elif what == PROBE:
                answer = await _async_probe(execution, given)
            elif what == SLEEP:
                await execution.clock.sleep_async(given)
                execution.gate()
            elif what == PARK and branches is not None:
                await branches.park()
            elif what == HANG and branches is not None:
                await branches.hang()
            else:
                execution.paused = True
                raise Paused
    except StopIteration as end:
        return end.value


async def _written(execution: Execution, asked: Asked, entries: Entries, later: Awaitable[None]) -> None:
    """Wait until entries are durable. If the flow cancels the call meanwhile, that is what was delivered."""
    import asyncio

    try:
        await later
    except HoldfastError as error:
        execution.sever(error)
    except asyncio.CancelledError:
        execution.cancelled_late(asked, entries)
        raise
    execution.values_safe(entries)


async def _async_body(execution: Execution, attempt: Attempt) -> Ended:
    import asyncio

    asked = attempt.asked
    token = CURRENT.set(Frame(execution, asked.scope, attempt))
    try:
        if asked.spec.timeout is None:
            if asked.spec.is_async:
                return Returned(await asked.spec.function(*asked.args, **execution.arguments(attempt)))
            return Returned(await _awaited(execution, attempt))
        return await _within_time(execution, attempt, asked.spec.timeout)
    except asyncio.CancelledError as error:
        return Raised(error, "interrupted" if execution.stopping else "cancelled")
    except BaseException as error:
        return judged(execution, error)
    finally:
        CURRENT.reset(token)


async def _within_time(execution: Execution, attempt: Attempt, limit_seconds: float) -> Ended:
    import asyncio

    limit = asyncio.timeout(limit_seconds)
    try:
        async with limit:
            return Returned(await _awaited(execution, attempt))
    except TimeoutError as error:
        if limit.expired():
            return Raised(StepTimedOut(attempt.asked.spec.name, limit_seconds), "timed_out")
        return Raised(error)


async def _awaited(execution: Execution, attempt: Attempt) -> Any:
    """An async body on the loop; a plain one in a thread, with the run's context."""
    asked = attempt.asked
    given = execution.arguments(attempt)
    if asked.spec.is_async:
        return await asked.spec.function(*asked.args, **given)
    place = (execution.id, asked.call)
    before = _threads.get(place)
    if before is not None and before.is_alive():
        raise StillRunning(asked.spec.name)
    return await in_thread(lambda: asked.spec.function(*asked.args, **given), place)


async def in_thread(work: Callable[[], Any], place: tuple[str, Any] | None = None) -> Any:
    """Run blocking work in a thread that belongs to this place in the run."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            set_outcome(outcome)

    def body() -> None:
        try:
            done: tuple[Any, Any] = (future.set_result, work())
        except BaseException as error:
            done = (future.set_exception, _storable(error))
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *done)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(body,), daemon=True)
    thread.start()
    try:
        return await future
    except asyncio.CancelledError:
        if place is not None:
            _threads[place] = thread
        raise


def _storable(error: BaseException) -> BaseException:
    """A future cannot carry StopIteration."""
    return RuntimeError(f"the body raised {error!r}") if isinstance(error, StopIteration) else error


async def _async_probe(execution: Execution, attempt: Attempt) -> Any:
    import inspect

    asked = attempt.asked
    confirm = asked.spec.confirm
    assert confirm is not None
    try:
        given = probe_arguments(confirm, asked.inputs, attempt.key, execution.resource)
        if inspect.iscoroutinefunction(confirm):
            return understood(await confirm(**given))
        return understood(await in_thread(lambda: confirm(**given)))
    except Exception as error:
        return error
