"""Branches of an async body: which task is which, and when all of them wait.

Every task that a body starts gets a scope of its own, named after the call it begins with, so that equal calls in
two tasks are told apart and the order in which tasks start or finish is never identity.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, cast

from outlast.errors import Paused, Stopped
from outlast.runs.attempt import CURRENT, Attempt, Frame

if TYPE_CHECKING:
    from outlast.runs.execution import Execution

_WAIT_FOR = asyncio.wait_for.__code__
_LOOK_SECONDS = 0.02
_PATIENCE = 50  # looks at a task that waits for something of its own, before replay goes on without it
_LET_OTHERS = 5  # rounds of the loop: enough for a finished task to wake who waits for it


class Branches:
    """The tasks of one async run."""

    def __init__(self, turns: Iterable[int] = (), *, can_park: bool = True) -> None:
        self._can_park = can_park  # False where the body is not ours to end: a wait raises Paused there
        self.in_flight = 0  # calls being made
        self.watched = False  # somebody wants to know when a call ends
        self.parked = 0  # of those, the ones that wait for something from outside
        self.deferred = 0  # of those, the ones that wait for a recorded outcome of another branch
        self.turns: deque[int] = deque(turns)  # recorded outcomes that were not given again yet, by seq
        self._given: set[int] = set()
        self._nudges: dict[int, asyncio.Future[None]] = {}  # whoever waits for a turn
        self.tasks: dict[asyncio.Task[Any], asyncio.Task[Any] | None] = {}  # task -> the task that started it
        self.changed = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.stirred: asyncio.Future[None] = self.loop.create_future()  # the body has ended, waits somewhere, or must
        self.off = False  # the run was called off

    def add(self, task: asyncio.Task[Any]) -> None:
        self.tasks[task] = asyncio.current_task() if task is not asyncio.current_task() else None
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)
        self.changed.set()

    def end_main(self, task: asyncio.Task[Any]) -> None:
        """The body's own task has ended."""
        self._forget(task)
        _set(self.stirred)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Something that the run waits for, unless it is parked."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            if self.parked:
                self.changed.set()

    async def park(self) -> None:
        """Wait in this branch for something from outside, until the run ends or the flow cancels it."""
        if not self._can_park:
            raise Paused
        self.parked += 1
        self.watched = True
        self.changed.set()
        _set(self.stirred)
        try:
            await self.hang()
        finally:
            self.parked -= 1

    @staticmethod
    async def hang() -> None:
        """Wait for the flow to cancel this call, as it did before."""
        await asyncio.get_running_loop().create_future()

    async def turn(self, seq: int) -> None:
        """Wait until the recorded outcomes before this one have been given again.

        Which of two branches went on first may have decided what the flow did next, so replay gives outcomes in the
        order of the journal. One that nobody asks for any more is passed over once nothing else moves.
        """
        self.deferred += 1
        idle = 0.0
        try:
            while not self._is_next(seq) and idle <= self._patience():
                before = self._position()
                await self._nudge(seq)
                coming = self.turns and self.turns[0] in self._nudges  # whoever is next is here
                idle = 0.0 if coming or before != self._position() else idle + (0.2 if self._busy() else 1.0)
            for _ in range(_LET_OTHERS):  # what the one before set in motion gets there first, as it did
                await asyncio.sleep(0)
        finally:
            self.deferred -= 1
            self._nudges.pop(seq, None)

    async def _nudge(self, seq: int) -> None:
        """Wait until it is this one's turn, or for a moment."""
        loop = asyncio.get_running_loop()
        nudge = self._nudges[seq] = loop.create_future()
        timer = loop.call_later(_LOOK_SECONDS, _set, nudge)
        await nudge
        timer.cancel()

    def _is_next(self, seq: int) -> bool:
        while self.turns and self.turns[0] in self._given:
            self._given.discard(self.turns.popleft())
        return not self.turns or self.turns[0] >= seq

    def is_next(self, seq: int) -> bool:
        """Whether it is this outcome's turn, with nobody to let go first."""
        return self._is_next(seq) and len(self.tasks) <= 1

    def give_next(self, seq: int) -> bool:
        """Give the recorded outcome that is next, in a body that does one thing after the other; else nothing is done.

        It is what `is_next` and `given` come to where nobody waits for a turn.
        """
        if len(self.tasks) > 1 or self._given or self._nudges or not self.turns or self.turns[0] != seq:
            return False
        self.turns.popleft()
        return True

    def given(self, seq: int) -> None:
        """This recorded outcome has been given again: the next one may."""
        self._given.add(seq)
        self._is_next(seq)
        if self.turns and self.turns[0] in self._nudges:
            _set(self._nudges[self.turns[0]])

    def _busy(self) -> bool:
        return self.in_flight > self.parked + self.deferred

    def _patience(self) -> int:
        """How often to look before going on without whoever is missing: once, if nobody can be on the way."""
        return _PATIENCE if self._busy() or self._leaves() > self.parked + self.deferred else 1

    async def something_moves(self) -> bool:
        """Let the others go on for a while. False once nobody can: every call waits, and no task runs on its own."""
        for _ in range(_LET_OTHERS):
            await asyncio.sleep(0)
        if self._busy():
            await asyncio.sleep(_LOOK_SECONDS / 10)
            return True
        before = self._position()
        for _ in range(self._patience()):
            await asyncio.sleep(_LOOK_SECONDS)
            if before != self._position():
                return True
        return False

    def _position(self) -> tuple[int, int, int, int]:
        return len(self.turns), len(self._given), self.in_flight, len(self.tasks)

    def _leaves(self) -> int:
        """Tasks that have started no other one which they could be waiting for."""
        parents = set(self.tasks.values())
        return sum(1 for task in self.tasks if task not in parents)

    def call_off(self) -> None:
        """The body is not to go on. On its loop."""
        self.off = True
        self.changed.set()
        _set(self.stirred)

    async def all_waiting(self) -> None:
        """Return once no branch can go on: each is parked, or waits for one that is; or once none is to."""
        while not self.off:
            await self.changed.wait()
            self.changed.clear()
            while not self.off and self.parked and self.parked == self.in_flight:
                # every task that is not parked has a child it can be waiting for
                if self._leaves() <= self.parked:
                    return
                await asyncio.sleep(_LOOK_SECONDS)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def watch_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Make the loop give each task of a run its own scope. Tasks outside of runs are left as they are."""
    before = loop.get_task_factory()
    if getattr(before, "outlast", False):
        return

    def factory(
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any],
        context: Context | None = None,
        **rest: Any,
    ) -> Any:
        frame = CURRENT.get()
        if frame is None or frame.attempt is not None:
            return _make(before, loop, coroutine, context, rest)
        if context is None and not _inside_wait_for():
            context = copy_context()
            context.run(CURRENT.set, frame.task())
        made = _make(before, loop, coroutine, context, rest)
        branches = frame.execution.branches
        if branches is not None and isinstance(made, asyncio.Task):
            branches.add(made)
        return made

    factory.outlast = True  # type: ignore[attr-defined]
    loop.set_task_factory(cast(Any, factory))


def _make(
    before: Callable[..., Any] | None,
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any],
    context: Context | None,
    rest: dict[str, Any],
) -> Any:
    if before is None:
        return asyncio.Task(coroutine, loop=loop, context=context, **rest)
    return before(loop, coroutine, context=context, **rest) if context is not None else before(loop, coroutine, **rest)


def _inside_wait_for() -> bool:
    """asyncio.wait_for starts a task in some Python versions and none in others: it is never a scope."""
    frame = sys._getframe(2)
    for _ in range(5):
        if frame.f_code is _WAIT_FOR:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


async def run_body(execution: Execution, branches: Branches, body: Coroutine[Any, Any, Any], frame: Frame) -> Any:
    """Run an async body in a task of its own until it ends or all of its branches wait (then: Paused).

    Cancelling this from outside is a request to stop: steps under way are recorded as interrupted.
    """
    context = copy_context()
    context.run(CURRENT.set, frame)
    main = asyncio.get_running_loop().create_task(body, context=context)
    branches.tasks[main] = None
    main.add_done_callback(branches.end_main)
    waiting: asyncio.Future[None] | None = None
    try:
        await branches.stirred
        if not main.done():
            waiting = asyncio.ensure_future(branches.all_waiting())
            await asyncio.wait({main, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if main.done() and not isinstance(_outcome(main), Paused):
            result = main.result()
            execution.made.refuse_left()
            return result
        if branches.off:
            raise Stopped
        if waiting is None or not waiting.done():
            await _settle(branches)
        execution.paused = True
        raise Paused
    except asyncio.CancelledError:
        execution.stopping = execution.stopping or not main.done()
        raise
    finally:
        if waiting is not None:
            waiting.cancel()
        execution.failing = not main.done() or _outcome(main) is not None
        try:
            if execution.called_off_at or (main.done() and isinstance(_outcome(main), Stopped)):
                await let_calls_end(execution)
        finally:
            await _end(branches, main)
        _outcome(main)  # asked for: else asyncio says that nobody did, of a body that was called off
        execution.made.close()


async def _settle(branches: Branches) -> None:
    """A plain wait ended the body: let the calls of other branches end first."""
    branches.watched = True
    while branches.in_flight > branches.parked:
        branches.changed.clear()
        await branches.changed.wait()


async def let_calls_end(execution: Execution) -> None:
    """Of a run that is to stop: the calls under way, for as long as they are given; if it was called off, effects."""
    while not execution.stopping_now and any(_is_let_end(execution, each) for each in list(execution.open)):
        await asyncio.sleep(_LOOK_SECONDS)


def _is_let_end(execution: Execution, attempt: Attempt) -> bool:
    return attempt.asked.spec.is_effect or not execution.called_off_at


async def _end(branches: Branches, main: asyncio.Task[Any]) -> None:
    while left := [task for task in (main, *branches.tasks) if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left)


def _outcome(task: asyncio.Task[Any]) -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.exception()
