"""A blocking method on an event loop: in a thread, and stopped with the one who awaits it.

Runs that were started and go on in the background.

An answer goes on: the run that was answered is continued where it was answered, with the run that spawned it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from outlast.errors import OutlastError, RunHeld
from outlast.runs.run import Outcome
from outlast.values.ambient import STOP, begin

if TYPE_CHECKING:
    from outlast.python.shared import Shared
    from outlast.runs.run import RunRecord


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


class Started(Generic[T]):
    """A run that goes on in the background."""

    def __init__(self, run_id: str, notes: tuple[str, ...] = ()) -> None:
        self.run_id, self.notes = run_id, notes
        self._done = threading.Event()
        self._outcome: Outcome[T] | None = None
        self._error: BaseException | None = None
        self._told: list[Callable[[], object]] = []

    def when_done(self, tell: Callable[[], object]) -> None:
        """Call it once the run has ended or waits, in whatever thread that is; perhaps more than once."""
        self._told.append(tell)
        if self._done.is_set():
            tell()

    def outcome(self, timeout: float | None = None) -> Outcome[T]:
        """Wait for the run to end or wait. Raises TimeoutError, or what stopped it."""
        if not self._done.wait(timeout):
            raise TimeoutError(f"run {self.run_id} has not ended within {timeout} s")
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome

    def _work(self, go_on: Callable[[], Outcome[T]]) -> None:
        try:
            self._outcome = go_on()
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()
            for tell in self._told:
                tell()


class AsyncStarted(Generic[T]):
    """A run that goes on in a background task. Await it for its outcome."""

    def __init__(self, run_id: str, future: Any) -> None:
        self.run_id = run_id
        self._future = future

    def __await__(self) -> Generator[Any, None, Outcome[T]]:
        awaited: Generator[Any, None, Outcome[T]] = self._future.__await__()
        return awaited


_LOOK_SECONDS = 0.05


def go_on(outlast: Shared, run_id: str, resume: Callable[[RunRecord], Any]) -> str:
    """Resume the run whose wait was answered; why it does not go on here, when it does not. The answer stands.

    While other branches of it run in this process it goes on as soon as they wait or are done.
    """
    try:
        run = _first_of(outlast, run_id)
        if run.finished:
            return f"run_finished: run {run.id} is {run.status}"
        try:
            resume(run)
        except RunHeld:
            if not _runs_here(outlast, run.id):
                raise
            later = threading.Thread(target=_later, args=(outlast, run.id, resume), name="outlast-goes-on", daemon=True)
            begin(later, "going on with a run")
    except OutlastError as error:
        return f"{error.code}: {error.detail}"
    return ""


def _first_of(outlast: Shared, run_id: str) -> RunRecord:
    """The run, or the one that spawned it, or the one that spawned that."""
    run = outlast.get(run_id)
    while run.parent:
        run = outlast.get(run.parent)
    return run


def _runs_here(outlast: Shared, run_id: str) -> bool:
    return run_id in outlast._executor.live.executions


def _later(outlast: Shared, run_id: str, resume: Callable[[RunRecord], Any]) -> None:
    while _runs_here(outlast, run_id):
        time.sleep(_LOOK_SECONDS)
    run = outlast.get(run_id)
    if run.status == "waiting":
        go_on(outlast, run_id, resume)
