"""A place to run flows in: a throw-away home, a clock that is told the time, and real deaths.

Flows are module-level functions, so they read what a test wants of them from KNOBS. `crash` runs a flow in a
forked child that is killed with SIGKILL when the flow reaches a named point; the home is then opened anew.
What ran is written to a file, so that bodies are counted over all processes.
"""

import asyncio
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlast import Outcome, Outlast, Receipt
from outlast.clock import ManualClock
from outlast.home.settings import Settings
from outlast.python.shared import FlowCall
from outlast.runs.receipt import Event
from outlast.runs.run import Options

from .empty import put_empty_home

KNOBS: dict[str, Any] = {}


def ran(what: str) -> None:
    """Write down that a body ran: one line, kept over deaths."""
    handle = os.open(KNOBS["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{what}\n".encode())
    os.close(handle)


def reach(point: str) -> None:
    """A named point of a flow: the process dies here, or an exception is raised, if the test says so."""
    if KNOBS.get("die") == point:
        os.kill(os.getpid(), signal.SIGKILL)
    if KNOBS.get("raise", ("", None))[0] == point:
        raise KNOBS["raise"][1]


async def until(event: str) -> None:
    """Wait for another branch of this loop to call `happen(event)`."""
    await _event(event).wait()


def happen(event: str) -> None:
    _event(event).set()


def _event(name: str) -> asyncio.Event:
    events = KNOBS.setdefault("events", {})
    return events.setdefault((id(asyncio.get_running_loop()), name), asyncio.Event())


class Place:
    """One home over many processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / ".outlast"
        self.log = folder / "ran.log"
        self.clock = ManualClock()
        self.settings = Settings()
        self._hold: Outlast | None = None

    @property
    def outlast(self) -> Outlast:
        """The home, opened in this process."""
        if self._hold is None:
            put_empty_home(self.home)
            options = {"synchronous": "OFF"}  # a killed process leaves its writes to the kernel: quick, and enough here
            self._hold = Outlast(self.home, clock=self.clock, settings=self.settings, store_options=options)
        return self._hold

    def close(self) -> None:
        if self._hold is not None:
            self._hold.close()
            self._hold = None

    def reopen(self) -> Outlast:
        self.close()
        return self.outlast

    # -- running and dying -----------------------------------------------------------------------

    def run(self, flow: Any, *args: Any, **kwargs: Any) -> Outcome[Any]:
        return self.outlast.run(flow, *args, **kwargs)

    def again(self, flow: Any, *args: Any, **options: Any) -> Outcome[Any]:
        """The same task once more, whatever effects that repeats."""
        return self.outlast._run(FlowCall(flow, args, {}, Options(again=True, yes=True, **options)))

    def fresh(self, flow: Any, *args: Any, **options: Any) -> Outcome[Any]:
        """The unfinished run given up and a new one started, whatever effects that repeats."""
        return self.outlast._run(FlowCall(flow, args, {}, Options(fresh=True, yes=True, **options)))

    def crash(self, flow: Any, *args: Any, at: str, **kwargs: Any) -> None:
        """Run a flow in a process that is killed when it reaches `at`."""
        self.killed(lambda outlast: outlast.run(flow, *args, **kwargs), at=at)

    def killed(self, work: Callable[[Outlast], Any], *, at: str) -> None:
        """Do `work` in a process of its own that is killed at `at`. It must be."""
        self.close()
        said = self.folder / "child.txt"
        said.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            self._live_and_die(work, at, said)
        _, status = os.waitpid(child, 0)
        died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert died, f"the child did not reach {at!r}: {said.read_text() if said.exists() else status}"

    def _live_and_die(self, work: Callable[[Outlast], Any], at: str, said: Path) -> None:
        try:
            KNOBS["die"] = at
            said.write_text(f"it ended with {work(self.outlast)}")
        except BaseException:
            said.write_text(traceback.format_exc())
        finally:
            os._exit(1)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def ran(self) -> list[str]:
        """What ran, in order, over all processes."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def count(self, what: str) -> int:
        return self.ran.count(what)

    @property
    def run_id(self) -> str:
        """The only run there is."""
        (run,) = self.outlast.runs()
        return run.id

    def receipts(self, step: str | None = None) -> list[Receipt]:
        found = self.outlast.receipts(self.run_id)
        return [receipt for receipt in found if step in (None, receipt.step)]

    def statuses(self, step: str | None = None) -> list[str]:
        return [receipt.status for receipt in self.receipts(step)]

    def events(self, name: str) -> list[Event]:
        return [event for event in self.outlast.events(self.run_id) if event.name == name]

    def script(self, name: str, text: str) -> Path:
        """A file of the user's, beside the home."""
        path = self.folder / name
        path.write_text(text)
        return path
