"""A blocking method on an event loop: in a thread, and stopped with the one who awaits it.

Runs that were started and go on in the background.

An answer goes on: the run that was answered is continued where it was answered, with the run that spawned it.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from outlast import errors
from outlast.errors import OutlastError
from outlast.python import rooms
from outlast.runs.run import Outcome
from outlast.values.ambient import STOP, begin

if TYPE_CHECKING:
    from outlast.flows.spec import FlowSpec
    from outlast.home.caller import Caller
    from outlast.python.shared import Shared
    from outlast.runs.run import RunRecord


P = ParamSpec("P")
T = TypeVar("T")


def signed_like(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Any, P], T]]:
    """Give a method that passes on what it is given the signature of the one that it passes it to."""

    def signed(passing: Callable[..., T]) -> Callable[Concatenate[Any, P], T]:
        vars(passing)["__wrapped__"] = method
        return passing

    return signed


def awaited(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The same in a thread: hashing files, running checks and synced writes would hold the loop up.

    Cancelling it asks the work to stop and waits until it has: either it was done whole, or nothing was written.
    """

    async def waits(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        found: Callable[P, T] = getattr(self.blocking, method.__name__)  # of a client it is another one
        return await to_its_end(lambda: found(*args, **kwargs))

    return functools.update_wrapper(waits, method)


def passed_on(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """The same, done by the blocking one at once: it takes but a moment."""

    def passes(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        found: Callable[P, T] = getattr(self.blocking, method.__name__)
        return found(*args, **kwargs)

    return functools.update_wrapper(passes, method)


async def to_its_end(work: Callable[[], T]) -> T:
    """What blocking work gives, done in a thread; who cancels it waits until it has stopped."""
    import asyncio  # late: a plain program never loads it

    cancelled = threading.Event()

    def stoppable() -> T:
        STOP.set(cancelled.is_set)  # the thread has a context of its own
        return work()

    under_way: asyncio.Task[T] = asyncio.ensure_future(rooms.call_async.in_thread(stoppable))
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait({under_way})
        if not under_way.cancelled():
            under_way.exception()  # who cancelled does not ask for it, and asyncio would complain
        raise


class OnLoop(Generic[T]):
    """A part of a home on an event loop: everything is awaited."""

    def __init__(self, blocking: T) -> None:
        self.blocking = blocking


class Started(Generic[T]):
    """A run that goes on in the background."""

    replayed = False  # whether it gives what the same operation_id did before

    def __init__(self, run_id: str, notes: tuple[str, ...] = ()) -> None:
        self.run_id, self.notes = run_id, notes
        self._done = threading.Event()
        self._outcome: Outcome[T] | None = None
        self._error: BaseException | None = None
        self._told: list[Callable[[], object]] = []

    def when_done(self, tell: Callable[[], object]) -> None:
        """Call it once the run has ended or waits, in whatever thread that is."""
        self._told.append(tell)
        if self._done.is_set():
            self._tell()

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
            self._tell()

    def _tell(self) -> None:
        """Each once: who asks just as it ends is here too."""
        while True:
            try:
                tell = self._told.pop(0)
            except IndexError:
                return
            tell()


class Queued(Started[T]):
    """A run that waits in a queue, or goes on where a worker has taken it."""

    def __init__(self, caller: Caller, run_id: str, spec: FlowSpec) -> None:
        super().__init__(run_id)
        self._caller, self._spec = caller, spec

    def outcome(self, timeout: float | None = None) -> Outcome[T]:
        """Wait until a worker has ended it, or it waits. Raises TimeoutError."""
        awaited = rooms.outcomes.Awaited(self._caller, self.run_id, timeout, self._spec, takes=False)
        found = rooms.outcomes.await_end(awaited)
        assert isinstance(found, Outcome)
        return found


class AwaitedRun(Generic[T]):
    """The same on an event loop: it is looked at while somebody awaits it, and not before."""

    def __init__(self, caller: Caller, run_id: str, spec: FlowSpec) -> None:
        self._caller, self._run_id, self._spec = caller, run_id, spec

    def __await__(self) -> Generator[Any, None, Outcome[T]]:
        awaited = rooms.outcomes.Awaited(self._caller, self._run_id, None, self._spec, takes=False)
        found: Any = rooms.outcomes.await_end_async(awaited).__await__()
        return cast(Generator[Any, None, Outcome[T]], found)


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
        if run.engine:
            return f"left_to_engine: {run.engine} goes on with run {run.id}, where a worker of it is"
        try:
            resume(run)
        except errors.RunHeld:
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
