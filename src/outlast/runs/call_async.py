"""Making calls from an async body: the async half of call_plain.py.

Bodies are awaited, plain ones in a thread; other branches go on meanwhile. A wait parks its branch.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, assert_never

from outlast import errors
from outlast.errors import OutlastError, Paused
from outlast.flows.spec import Signature
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
from outlast.runs.branches import Branches, let_calls_end, watch_tasks
from outlast.runs.call import FIRST, Changed, Past, Replay
from outlast.runs.call_logic import Driven, drive, drive_on
from outlast.runs.call_plain import judged, probe_of
from outlast.runs.effect import understood
from outlast.runs.execution import Execution
from outlast.runs.journal_writer import Entries
from outlast.runs.step import StepSpec
from outlast.runs.stops import listen
from outlast.values.ambient import begin, calls_user_code, folded


def call_async(
    frame: Frame,
    spec: StepSpec,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    call_id: str | None = None,
    depth: int = 3,
) -> Coroutine[Any, Any, Any]:
    """Make a call from an async body; other branches go on meanwhile.

    Which call it is, is settled here and now: when the loop gets to a task made of it is another time on replay.
    The flow's own code is `depth` frames above the note of it: one that is never awaited is named by its line.
    """
    execution = frame.execution
    past = None
    if execution.stopping and execution.writer.severed is None:
        made = _end_with_others(execution)
    elif (
        execution.replaying
        and call_id is None
        and (past := execution.plain_receipt(frame, spec, args, kwargs)) is not None
    ):
        made = _again(execution, spec, past)
    else:
        made = drive_async(execution, execution.ask(frame, spec, args, kwargs, call_id))
    return execution.made.add(made, spec.name, depth)


async def _end_with_others(execution: Execution) -> None:
    """A run that is to stop begins no further call: this branch ends here, once the calls of the others have.

    Ending at once it would take them along, as `asyncio.TaskGroup` cancels what runs beside a task that fails.
    """
    await let_calls_end(execution)
    execution.gate()


async def _again(execution: Execution, spec: StepSpec, past: Past) -> Any:
    """What a plain receipt gives, when it is its turn."""
    branches = execution.branches
    if branches is not None and not branches.give_next(past.seq):
        await _in_turn(branches, past.seq)
    return execution.again(spec, past)


async def drive_async(execution: Execution, asked: StepCall, *, park: bool = True) -> Any:
    """Do what the call asks for. A wait parks this branch (unless that is left to the caller: then it raises Paused);
    the run waits when all of them do.
    """
    found, branches = asked.next, execution.branches
    if found is not FIRST and isinstance(found, Replay) and found.past.status != "cancelled":
        if branches is not None and not branches.give_next(found.past.seq):
            await _in_turn(branches, found.past.seq, in_map=asked.in_map)
        return execution.recorded(asked, found.past)
    if branches is None:
        watch_tasks(asyncio.get_running_loop())  # a loop of the user's own, inside a plain body
    else:
        if asked.elsewhere is not None:
            await _let_settle(branches, asked, asked.elsewhere)
        branches.in_flight += 1
    try:
        if asked.spec.shape.is_effect and execution.made.has_question():
            await asyncio.sleep(0)  # a task that was given the question asks it now
            execution.made.refuse_before_effect()
        try:
            attempt = call_flat.begin(execution, asked)
            if attempt is None:
                return await _drive(execution, asked, drive(execution, asked), park)
            ended = await run_body(execution, attempt)
            done = call_flat.receipt_of(execution, attempt, ended)
            if done is None:
                return await _drive(execution, asked, drive_on(execution, attempt, ended), park)
        except Exception as error:
            execution.refuse_unrecorded(asked, error)
            raise
        value, made = done
        if execution.store.live > 1 or not execution.writer.append_now(made):
            call = asked.call
            del asked, attempt, ended, done, found  # while it waits: of many that do, less is there to be searched
            try:
                await execution.store.append_later(execution.hold, made)
            except OutlastError as error:
                execution.writer.sever(error)
            except asyncio.CancelledError:
                execution.cancelled_after(call, made)
                raise
        return value
    except Exception as error:
        raise folded(error)  # noqa: B904
    finally:
        if branches is not None:
            branches.in_flight -= 1
            if branches.watched:
                branches.changed.set()


async def _drive(execution: Execution, asked: StepCall, driven: Driven, park: bool) -> Any:
    """Do what the logic asks for, until it has an outcome."""
    answer: Any = None
    try:
        while True:
            do = driven.send(answer)
            answer = None
            match do:
                case Write():
                    await _write(execution, asked, do.entries)
                case RunBody():
                    answer = await run_body(execution, do.attempt)
                    if asked.spec.work is not None:
                        answer = asked.spec.work.observe(execution, do.attempt, answer)
                case Prepare():
                    answer = do.work.prepare(execution, do.attempt)
                case TakeSlot():
                    answer = await _take_slot(execution, do.attempt)
                case AskProbe():
                    with execution.asking(do.attempt):
                        answer = await _ask_probe(execution, do.attempt)
                case WaitForRetry():
                    await _nap(execution, do.attempt)
                case ListenForStop():
                    await _listen(execution, do.seconds)
                case Hang():
                    await _hang(execution, asked)
                case Park():
                    await _park(execution, park)
                case _:
                    assert_never(do)
    except StopIteration as end:
        return end.value
    finally:
        driven.close()  # what it holds is let go of now, whoever keeps the traceback


async def _take_slot(execution: Execution, attempt: Attempt) -> Raised | None:
    """Wait for a slot. If the flow cancels the call meanwhile, that is what was delivered."""
    spec = attempt.asked.spec
    with execution.executor.live.slots.wanted(spec.limit, execution.id, spec.name) as wanted:
        try:
            while seconds := wanted.take():
                await asyncio.sleep(seconds)  # a look at what others do: no time of the flow's
                execution.gate()
        except errors.LimitNotFound as error:
            return Raised(error)
        except asyncio.CancelledError:
            execution.cancelled_between(attempt)
            raise
        attempt.slot = wanted.number
    return None


async def _in_turn(branches: Branches, seq: int, *, in_map: bool = False) -> None:
    if not branches.is_next(seq) and not in_map:  # a map's results have an order of their own
        with branches.call():
            await branches.turn(seq)
    branches.given(seq)


async def _let_settle(branches: Branches, asked: StepCall, elsewhere: Past) -> None:
    """An equal effect is recorded in another branch. If that one asks for it, this one is new; else it moved here."""
    with branches.call():
        branches.deferred += 1
        try:
            while not elsewhere.asked and await branches.something_moves():
                pass
        finally:
            branches.deferred -= 1
    if not elsewhere.asked:
        asked.next = Changed(elsewhere)


async def _listen(execution: Execution, seconds: float) -> None:
    await in_thread(lambda: listen(lambda: execution.stopping, seconds))


async def _hang(execution: Execution, asked: StepCall) -> None:
    try:
        await Branches.hang()
    finally:
        execution.endings.cancelled(asked.call)


async def _park(execution: Execution, park: bool) -> None:
    if park and execution.branches is not None:
        await execution.branches.park()
        return
    execution.paused = execution.paused or park  # on a loop of the user's own, inside a plain body
    raise Paused


async def _nap(execution: Execution, attempt: Attempt) -> None:
    """Wait before the next attempt. If the flow cancels the call meanwhile, that is what was delivered."""
    try:
        left = execution.delay_of(attempt)
        while left > 0:  # in short naps, so that a request to stop ends it
            await execution.clock.sleep_async(min(left, 0.2))
            execution.gate()
            left -= 0.2
    except asyncio.CancelledError:
        execution.cancelled_between(attempt)
        raise


async def _write(execution: Execution, asked: StepCall, entries: Entries) -> None:
    """Make entries durable, while other branches go on."""
    later = execution.writer.write_soon(entries)
    if later is not None:
        await _written(execution, asked, entries, later)


async def _written(execution: Execution, asked: StepCall, entries: Entries, later: Awaitable[None]) -> None:
    """Wait until entries are durable. If the flow cancels the call meanwhile, that is what was delivered."""
    try:
        await later
    except OutlastError as error:
        execution.writer.sever(error)
    except asyncio.CancelledError:
        execution.writer.is_safe(entries)
        execution.cancelled_late(asked, entries.last)
        raise
    execution.writer.is_safe(entries)


@calls_user_code
async def run_body(execution: Execution, attempt: Attempt) -> Ended:
    """Run a body on the loop, or in a thread when it is a plain one."""
    asked = attempt.asked
    spec = asked.spec
    if lingering and not await _has_ended(execution, asked):
        return Raised(errors.StillRunning(spec.name))
    token = CURRENT.set(Frame(execution, asked.call.scope, attempt))
    attempt.awaited = asyncio.current_task()
    try:
        if spec.timeout is not None:
            return await _within_time(execution, attempt, spec.timeout)
        if spec.is_async:
            given = await _arguments(execution, attempt) if spec.shape.is_filled else asked.kwargs
            return Returned(await spec.function(*asked.args, **given))
        return Returned(await _awaited(execution, attempt))
    except asyncio.CancelledError as error:
        if execution.ending:
            return Raised(error, "interrupted")
        return Raised(error, "cancelled" if _being_cancelled() else "failed")  # failed: it raised this by itself
    except BaseException as error:
        return judged(execution, error)
    finally:
        attempt.awaited = None
        CURRENT.reset(token)


async def _has_ended(execution: Execution, asked: StepCall) -> bool:
    """Whether no earlier body of this call works any more; one that timed out is given that time once more."""
    before = lingering.get((execution.id, asked.call))
    if before is None:
        return True
    await in_thread(lambda: before.join(asked.spec.timeout))
    return not before.is_alive()


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@calls_user_code
async def _within_time(execution: Execution, attempt: Attempt, limit_seconds: float) -> Ended:
    limit = asyncio.timeout(limit_seconds)
    try:
        async with limit:
            return Returned(await _awaited(execution, attempt))
    except TimeoutError as error:
        if limit.expired():
            return Raised(errors.StepTimedOut(attempt.asked.spec.name, limit_seconds), "timed_out")
        return Raised(error)


@calls_user_code
async def _awaited(execution: Execution, attempt: Attempt) -> Any:
    """An async body on the loop; a plain one in a thread, with the run's context."""
    asked = attempt.asked
    given = await _arguments(execution, attempt)
    if asked.spec.is_async:
        return await asked.spec.function(*asked.args, **given)
    return await in_thread(lambda: asked.spec.function(*asked.args, **given), (execution.id, asked.call))


async def _arguments(execution: Execution, attempt: Attempt) -> Mapping[str, Any]:
    """A body's keyword arguments, once what has to be opened on this loop is open."""
    injected = attempt.asked.spec.signature.injected
    if injected:
        keys = [key for name, key in injected.items() if name not in attempt.asked.kwargs]
        await _open(execution, keys, again=attempt.number > 1)
    return execution.arguments(attempt)


async def _open(execution: Execution, keys: Iterable[str], *, again: bool = False) -> None:
    """On the loop of an async flow. One that only serves a step of a plain flow is over too soon."""
    if execution.branches is not None:
        await execution.needs.open_on_loop(keys, again=again)


async def in_thread(work: Callable[[], Any], place: tuple[str, Any] | None = None) -> Any:
    """Run blocking work in a thread that belongs to this place in the run."""
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
    begin(thread, "what is to be waited for")
    try:
        return await future
    except asyncio.CancelledError:
        if place is not None:
            lingering[place] = thread
        raise


def _storable(error: BaseException) -> BaseException:
    """A future cannot carry StopIteration."""
    return RuntimeError(f"the body raised {error!r}") if isinstance(error, StopIteration) else error


@calls_user_code
async def _ask_probe(execution: Execution, attempt: Attempt) -> Any:
    try:
        confirm = attempt.asked.spec.confirm
        assert confirm is not None
        await _open(execution, Signature(confirm).injected.values())
        confirm, given = probe_of(execution, attempt)
        if inspect.iscoroutinefunction(confirm):
            return understood(await confirm(**given))
        return understood(await in_thread(lambda: confirm(**given)))
    except asyncio.CancelledError:
        if not execution.ending:
            execution.cancelled_in_doubt(attempt)
        raise
    except Exception as error:
        return error
