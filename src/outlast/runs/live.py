"""What executes runs in this process: the executions under way, their heartbeat, and what they are handed.

`Live` is one for each home that is opened, and shared by all who act on it. `Executor` is one of them with it: who
executes runs, or asks whether one could go on here, takes that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.values.frozen import Protocol
from outlast.values.late import late

if TYPE_CHECKING:  # whoever only looks has neither: they are loaded when they are used
    from outlast.files.changes import LeftFiles
    from outlast.flows.spec import FlowSpec
    from outlast.flows.yaml.flow import FlowFileSpec
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.resources.resources import Resources
    from outlast.runs.call import Ledger, Past
    from outlast.runs.execution import Execution
    from outlast.runs.found import FoundRun
    from outlast.runs.heartbeat import Heartbeat
    from outlast.runs.plan import Rehearsed
    from outlast.runs.queues import limit
    from outlast.runs.replay.execution import Replaying

else:
    limit = late("outlast.runs.queues.limit")

Facade = Callable[["Execution", bool], Any]


class CommandGuard(Protocol):
    """Ends the commands of this process should it die."""

    def watch(self, pgid: int, folder: Path) -> None: ...

    def release(self, pgid: int) -> None: ...

    def close(self) -> None: ...


class MirrorWriter(Protocol):
    """Keeps the mirrors of what executes here."""

    def follow(self, execution: Execution) -> None: ...

    def let_go(self, execution: Execution) -> None: ...

    def close(self) -> None: ...


def no_flow(*_: object) -> Any:
    """Stands for what a flow's body is given where none runs."""
    raise AssertionError("no flow runs here")


class Commands(Protocol):
    """What the room of commands does for runs. It comes after this one: who opens a home hands it in."""

    def new_guard(self, home: Home) -> CommandGuard: ...

    def perform(self, execution: Execution, spec: FlowFileSpec, inputs: dict[str, Any]) -> dict[str, Any]:
        """The body of a flow file: the results of its steps, by id."""

    def on_receipts(self, execution: Replaying, spec: FlowFileSpec, inputs: dict[str, Any]) -> Callable[[], Any]:
        """The same body, to be gone through on receipts alone."""

    def rehearse(
        self, executor: Executor, found: FoundRun, spec: FlowFileSpec, silent_at: int, partial_work: str
    ) -> Rehearsed:
        """What a resume would do at each node of a flow file."""

    def still_running(self, home: Home, ledger: Ledger) -> list[tuple[Past, int]]:
        """Unfinished attempts whose processes still live here, with their process groups."""

    def left_by(self, home: Home, run_id: str, past: Past) -> LeftFiles | None:
        """What the last attempt of a call left: as it was noted, or, if it crashed, as it is found now without git."""

    def asked_about(self, home: Home, run_id: str, past: Past) -> str:
        """Why a person is asked about what a step left that said so when it began; nothing where nobody is."""


def no_commands() -> Commands:
    """Stands for the room of commands where no command runs, and nobody asks about one."""
    raise AssertionError("no command runs here")


class Live:
    """What executes here. `facade` makes what a flow's body is given; `load_commands` gives what runs commands."""

    def __init__(
        self,
        home: Home,
        *,
        facade: Facade = no_flow,
        load_commands: Callable[[], Commands] = no_commands,
        mirrors: MirrorWriter | None = None,
    ) -> None:
        self._home, self.facade, self._load_commands, self.mirrors = home, facade, load_commands, mirrors
        self.executions: dict[str, Execution] = {}  # by the id of their runs
        self.flows: tuple[FlowSpec, ...] = ()  # given here: runs are looked for in them first
        self.sink: Callable[[str, bytes], None] | None = None  # is shown what commands print, with the step's name
        self.stops = 0  # how often the runs of this process were asked to stop
        self._lock = threading.Lock()
        self._idle: threading.Event | None = None  # that nothing executes here any more, for who waits for that
        self._resources: Resources | None = None
        self._heartbeat: Heartbeat | None = None
        self._guard: CommandGuard | None = None
        self._settled = self._closed = False

    @property
    def resources(self) -> Resources:
        """The live objects of this process."""
        with self._lock:
            if self._resources is None:
                from outlast.resources.resources import Resources

                self._resources = Resources(self._home.warn)
                if self._closed:
                    self._resources.close()
            return self._resources

    @property
    def heartbeat(self) -> Heartbeat:
        """Renews the leases of what executes here."""
        with self._lock:
            if self._heartbeat is None:
                from outlast.runs.heartbeat import Heartbeat

                self._heartbeat = Heartbeat(self._home, self.executions)
            return self._heartbeat

    @cached_property
    def commands(self) -> Commands:
        """What runs commands here, loaded when it is first asked for."""
        return self._load_commands()

    @cached_property
    def slots(self) -> limit.SlotLines:
        """Where steps of this process wait for the limits that they share with those of others."""
        return limit.SlotLines(self._home)

    @property
    def guard(self) -> CommandGuard:
        """The guard of this process's commands, made with the first of them."""
        with self._lock:
            if self._guard is None:
                self._guard = self.commands.new_guard(self._home)
            return self._guard

    def enter(self, execution: Execution) -> None:
        """A run begins to execute in this process."""
        held = self._home.held
        with self._lock:
            self.executions[execution.id] = execution
            held.executing.add(execution.id)
            held.claimed.discard(execution.id)
            self._home.store.live = len(self.executions)
        self.heartbeat.start()
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
            if self._idle is not None and not self.executions:
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
        with self._lock:
            idle = self._idle = threading.Event()
            if not self.executions:
                idle.set()
        if not idle.wait(self._home.settings.close_seconds):
            self.stop(now=True)  # commands are ended; Python code that does not stop is left behind
            idle.wait(self._home.settings.patience_seconds + 1)

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
        if self._resources is not None:
            self._resources.close()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self.mirrors is not None and wait:
            self.mirrors.close()
        if self._guard is not None:
            self._guard.close()


class Executor:
    """Who acts, with what executes runs in this process."""

    __slots__ = ("_owns", "caller", "home", "live", "waits_for_retries")

    def __init__(self, caller: Caller, live: Live, *, owns: bool = True, waits_for_retries: bool = True) -> None:
        self.home, self.caller, self.live = caller.home, caller, live
        self._owns = owns
        self.waits_for_retries = waits_for_retries  # in place; else whoever wakes runs sees to them

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
