"""A blocking method on an event loop: in a thread, and stopped with the one who awaits it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def awaited(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """The same in a thread: hashing files, running checks and synced writes would hold the loop up.

    Cancelling it asks the work to stop and waits until it has: either it was done whole, or nothing was written.
    """

    async def waits(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        found: Callable[P, T] = getattr(self.blocking, method.__name__)  # of a client it is another one
        return await _to_its_end(lambda: found(*args, **kwargs))

    waits.__name__, waits.__doc__ = method.__name__, method.__doc__
    return waits


async def _to_its_end(work: Callable[[], T]) -> T:
    import asyncio
    import threading

    from outlast.runs.call_async import in_thread
    from outlast.values.cancel import STOP

    cancelled = threading.Event()

    def stoppable() -> T:
        STOP.set(cancelled.is_set)  # the thread has a context of its own
        return work()

    under_way: asyncio.Task[T] = asyncio.ensure_future(in_thread(stoppable))
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait({under_way})
        if not under_way.cancelled():
            under_way.exception()  # who cancelled does not ask for it, and asyncio would complain
        raise
