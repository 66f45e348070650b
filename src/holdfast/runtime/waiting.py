"""Waiting in a body: sleeps that survive restarts, and maps that wait for all of their calls."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.domain.call import Call
from holdfast.domain.journal import decode_payload
from holdfast.errors import Paused, Refused, Stopped
from holdfast.runtime.attempt import Asked
from holdfast.runtime.context import CURRENT, Frame
from holdfast.runtime.execution import Execution


def sleep_left(frame: Frame, duration: float) -> float:
    """Seconds of this sleep that are left; its end is on disk. A long rest is left to a saved timer."""
    execution = frame.execution
    if frame.attempt is not None:
        raise Refused(detail="run.sleep belongs to the flow's body; in a step, wait as you like")
    execution.gate()
    call = execution.numbered(frame, "run.sleep", "")
    past = execution.ledger.calls.get(call)
    if past is not None and past.payload:
        past.asked = True
        due = int(decode_payload(past.payload).facts["due"])
    else:
        due = execution.clock.now() + int(duration * 1_000_000)
        pen = execution.pen
        with pen.lock:
            queued = pen.queue(pen.fact("sleep", "run.sleep", {"due": due}, call))
        pen.write(queued)
    left = (due - execution.clock.now()) / 1_000_000
    if left > execution.settings.sleep_in_place_seconds:
        _save_timer(execution, call, due)
    return left


def _save_timer(execution: Execution, call: Call, due: int) -> None:
    from holdfast.clock import moment

    execution.open_wait(call, "timer", {"due": moment(due).isoformat(timespec="seconds")}, due)


def nap_plain(execution: Execution, left: float) -> bool:
    """Wait in place; False when the rest is too long and a timer was saved instead."""
    if left > execution.settings.sleep_in_place_seconds:
        execution.paused = True
        return False
    while left > 0:
        execution.clock.sleep(min(left, 0.2))
        execution.gate()
        left -= 0.2
    return True


async def nap_async(execution: Execution, left: float) -> None:
    branches = execution.branches
    if branches is None:
        await execution.clock.sleep_async(left)
        return
    with branches.call():
        if left > execution.settings.sleep_in_place_seconds:
            await branches.park()
        await execution.clock.sleep_async(left)


def map_plain(execution: Execution, asked: list[Asked], concurrency: int, drive: Callable[..., Any]) -> list[Any]:
    """Drive calls in threads. A wait in one lets the others end first; then the body ends."""
    ended: list[tuple[Any, BaseException | None]] = [(None, None)] * len(asked)
    todo = iter(range(len(asked)))
    lock, failed = threading.Lock(), threading.Event()

    def work() -> None:
        while not failed.is_set():
            with lock:
                place = next(todo, None)
            if place is None:
                return
            try:
                ended[place] = (drive(execution, asked[place], park=False), None)
            except BaseException as error:
                ended[place] = (None, error)
                if not isinstance(error, Paused):
                    failed.set()

    _in_threads(work, min(concurrency, len(asked)), execution)
    _raise_first(execution, [error for _, error in ended if error is not None])
    return [value for value, _ in ended]


def _in_threads(work: Callable[[], None], count: int, execution: Execution) -> None:
    if count <= 1:
        work()
        return
    frame = CURRENT.get()

    def body() -> None:
        CURRENT.set(frame)
        work()

    threads = [threading.Thread(target=body, name=f"holdfast-map-{n}", daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _raise_first(execution: Execution, errors: list[BaseException]) -> None:
    """Failures first, then signals: what failed is told, what waits is saved already."""
    for error in errors:
        if isinstance(error, Exception):
            raise error
    for error in errors:
        if isinstance(error, Paused):
            execution.paused = True
        raise error


async def map_async(
    execution: Execution, asked: list[Asked], concurrency: int, drive: Callable[..., Awaitable[Any]]
) -> list[Any]:
    """Drive calls as tasks, `concurrency` at a time. One that waits makes room for the next."""
    import asyncio

    slots = asyncio.Semaphore(concurrency)
    failed = asyncio.Event()

    async def work(one: Asked) -> Any:
        async with slots:
            if failed.is_set():
                raise Stopped
            try:
                return await drive(execution, one)
            except Exception:
                failed.set()
                raise

    ended = await asyncio.gather(*(work(one) for one in asked), return_exceptions=True)
    errors = [one for one in ended if isinstance(one, BaseException)]
    _raise_first(execution, [error for error in errors if not isinstance(error, Stopped)])
    return list(ended)
