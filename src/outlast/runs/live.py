"""What executes runs in this process: the executions under way, their heart, and what they are handed.

`Live` is one for each home that is opened, and shared by all who act on it. `Executor` is one of them with it: who
executes runs, or asks whether one could go on here, takes that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # whoever only looks has neither: they are loaded when they are used
    from outlast.flows.spec import FlowSpec
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.resources.resources import Resources
    from outlast.runs.execution import Execution
    from outlast.runs.heartbeat import Heart

Facade = Callable[["Execution", bool], Any]


class Guard(Protocol):
    """Ends the commands of this process should it die."""

    def watch(self, pgid: int, folder: Path) -> None: ...

    def release(self, pgid: int) -> None: ...

    def close(self) -> None: ...


class Mirrors(Protocol):
    """Keeps the mirrors of what executes here."""

    def follow(self, execution: Execution) -> None: ...

    def let_go(self, execution: Execution) -> None: ...

    def close(self) -> None: ...


def no_flow(*_: object) -> Any:
    """Stands for what a flow's body is given where none runs."""
    raise AssertionError("no flow runs here")


def no_guard() -> Guard:
    """Stands for who makes a guard where no command runs."""
    raise AssertionError("no command runs here")


class Live:
    """What executes here. `facade` makes what a flow's body is given; `make_guard` the guard, for the first command."""

    def __init__(
        self,
        home: Home,
        *,
        facade: Facade = no_flow,
        make_guard: Callable[[], Guard] = no_guard,
        mirrors: Mirrors | None = None,
    ) -> None:
        self._home, self.facade, self._make_guard, self.mirrors = home, facade, make_guard, mirrors
        self.executions: dict[str, Execution] = {}  # by the id of their runs
        self.flows: tuple[FlowSpec, ...] = ()  # given here: runs are looked for in them first
        self.sink: Callable[[str, bytes], None] | None = None  # is shown what commands print, with the step's name
        self.stops = 0  # how often the runs of this process were asked to stop
        self._lock, self._idle = threading.Lock(), threading.Event()  # the second is set while nothing executes here
        self._idle.set()
        self._resources: Resources | None = None
        self._heart: Heart | None = None
        self._guard: Guard | None = None
        self._settled = self._closed = False

    @property
    def resources(self) -> Resources:
        """The live objects of this process."""
        with self._lock:
            if self._resources is None:
                from outlast.resources.resources import Resources

                self._resources = Resources(self._home.warn)
            return self._resources

    @property
    def heart(self) -> Heart:
        """Renews the leases of what executes here."""
        with self._lock:
            if self._heart is None:
                from outlast.runs.heartbeat import Heart

                self._heart = Heart(self._home, self.executions)
            return self._heart

    @property
    def guard(self) -> Guard:
        """The guard of this process's commands, made with the first of them."""
        with self._lock:
            if self._guard is None:
                self._guard = self._make_guard()
            return self._guard

    def enter(self, execution: Execution) -> None:
        """A run begins to execute in this process."""
        held = self._home.held
        with self._lock:
            self.executions[execution.id] = execution
            held.executing.add(execution.id)
            held.claimed.discard(execution.id)
            self._home.store.live = len(self.executions)
            self._idle.clear()
        self.heart.start()
        if self.mirrors is not None:
            self.mirrors.follow(execution)

    def leave(self, execution: Execution) -> None:
        """It executes here no more."""
        if self.mirrors is not None:
            self.mirrors.let_go(execution)
        with self._lock:
            self.executions.pop(execution.id, None)
            self._home.held.executing.discard(execution.id)
            self._home.store.live = len(self.executions)
            if not self.executions:
                self._idle.set()

    def stop(self, now: bool = False, by: str = "shutdown") -> bool:
        """Ask every run of this process to stop at its next step, or `now`: then commands under way are ended too.

        `by` a shutdown they go on by themselves later, by a person when somebody resumes them. Gives whether something
        of them can only be ended by an exception: a Python body that runs in the main thread.
        """
        self.stops += 1
        live = list(self.executions.values())
        for execution in live:
            execution.ask_to_stop(by, now=now)
        return not live or any(execution.guarded is None for execution in live)

    def settle(self) -> None:
        """Ask the runs of this process to stop, and give them time to do so, once."""
        with self._lock:
            settled, self._settled = self._settled, True
        if settled:
            return
        self.stop()
        if not self._idle.wait(self._home.settings.close_seconds):
            self.stop(now=True)  # commands are ended; Python code that does not stop is left behind
            self._idle.wait(self._home.settings.patience_seconds + 1)

    def is_closed_now(self) -> bool:
        """Whether it was not closed before: who is told so closes it."""
        with self._lock:
            closed, self._closed = self._closed, True
        return not closed

    def close(self, *, wait: bool = True) -> None:
        """Runs that still execute here are asked to stop, and given time to do so.

        Without `wait` what has not stopped is left behind, for a process that ends now: it will be found crashed.
        """
        if wait:
            self.settle()
        self.resources.close()
        if self._heart is not None:
            self._heart.stop()
        if self.mirrors is not None and wait:
            self.mirrors.close()
        if self._guard is not None:
            self._guard.close()


class Executor:
    """Who acts, with what executes runs in this process."""

    __slots__ = ("_owns", "caller", "home", "live")

    def __init__(self, caller: Caller, live: Live, *, owns: bool = True) -> None:
        self.home, self.caller, self.live = caller.home, caller, live
        self._owns = owns

    def acting_as(self, caller: Caller) -> Executor:
        """The same in this process for somebody else. To close it closes nothing: that is for who opened the home."""
        return Executor(caller, self.live, owns=False)

    def close(self, *, wait: bool = True) -> None:
        """Let go of the files, once; what executes here is ended first (`Live.close`)."""
        if not self._owns or not self.live.is_closed_now():
            return
        try:
            self.live.close(wait=wait)
        finally:
            self.home.close()
