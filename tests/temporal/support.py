"""What the tests of Temporal share: a home, a server, workers in this process and in others, and what Temporal says."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowExecution

from outlast import Outlast, RunRecord
from outlast.adapters.temporal import TemporalSettings, TemporalWorker
from outlast.adapters.temporal.settings import run_of, task_queue_of
from outlast.runs.queues.engine import mark_of
from outlast.worker.worker import WorkNote

from . import flows

FLOWS = [each for each in vars(flows).values() if type(each).__name__ == "Flow"]
FILE = Path(flows.__file__)
PATIENCE_SECONDS = 100.0
T = TypeVar("T")


def until(found: Callable[[], T], what: str = "it") -> T:
    """What is given once it is true; fails when that never comes."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while not (now := found()):
        assert time.monotonic() < limit, f"{what} did not happen"
        time.sleep(0.01)
    return now


class Home:
    """A home in a folder, and the queue of its own that its runs go through."""

    def __init__(self, folder: Path, address: str, database: str = "") -> None:
        self.folder, self.address, self.queue = folder, address, f"q-{folder.name}-{os.getpid()}"
        self.outlast = Outlast(database) if database else Outlast(folder / "home", store_options={"synchronous": "OFF"})
        self.notes: list[WorkNote] = []

    def start(self, flow: Any, *args: Any, **more: Any) -> str:
        options = {"engine": "temporal", "queue": self.queue, **more}
        return str(self.outlast.with_options(**options).start(flow, *args).run_id)

    def settings(self, **more: Any) -> TemporalSettings:
        return TemporalSettings(address=self.address, heartbeat_seconds=2.0, **more)

    def worker(self, **more: Any) -> TemporalWorker:
        """One in this process."""
        given = more.pop("flows", FLOWS)
        return TemporalWorker(self.outlast, given, self.settings(), tell=self.notes.append, drain_seconds=5.0, **more)

    def get(self, run_id: str) -> RunRecord:
        return self.outlast.get(run_id)

    def stands(self, run_id: str, *statuses: str) -> RunRecord:
        """The run, once it stands so."""
        until(lambda: self.get(run_id).status in statuses, f"{statuses} of {run_id}, now {self.get(run_id).status}")
        return self.get(run_id)

    def answer(self, run_id: str, approved: bool = True) -> None:
        (wait,) = until(lambda: self.outlast.interrupts(run_id), "a wait")
        self.outlast.answer(wait.id, {"approved": approved})

    @property
    def task_queue(self) -> str:
        return task_queue_of(self.queue, mark_of(self.outlast._executor.home, "temporal"))

    def workflows(self, run_id: str = "") -> list[WorkflowExecution]:
        """Those of this home's queue that Temporal lists, the oldest first: all, or of one run."""
        found = asyncio.run(listed(self.address, f"TaskQueue = '{self.task_queue}'"))
        mine = [each for each in found if run_id in ("", run_of(each.id))]
        return sorted(mine, key=lambda each: each.start_time)

    def closed(self, run_id: str) -> list[WorkflowExecution]:
        """The workflows of a run, once none of them is open."""

        def all_closed() -> list[WorkflowExecution]:
            found = self.workflows(run_id)
            return found if found and all(each.close_time for each in found) else []

        return until(all_closed, f"the end of the workflow of {run_id}")

    def close(self) -> None:
        self.outlast.close()


async def listed(address: str, query: str) -> list[WorkflowExecution]:
    client = await Client.connect(address)
    return [each async for each in client.list_workflows(query)]


def result_of(address: str, workflow: WorkflowExecution) -> str:
    """What a workflow ended with. Raises WorkflowFailureError."""

    async def asked() -> Any:
        client = await Client.connect(address)
        return await client.get_workflow_handle(workflow.id, run_id=workflow.run_id, result_type=str).result()

    return str(asyncio.run(asked()))


class Workers:
    """Workers in processes of their own, which are killed and come again."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.living: list[subprocess.Popen[str]] = []
        self.stop_seconds: list[float] = []  # of those that were asked to
        self._logs: dict[int, Path] = {}

    def begin(self) -> subprocess.Popen[str]:
        words = [sys.executable, str(Path(__file__).with_name("killed_worker.py")), str(self._home.folder / "home")]
        with open(self._home.folder / f"worker-{len(self._logs)}.log", "wb") as log:
            more = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            one = subprocess.Popen([*words, self._home.address], text=True, **more)  # type: ignore[call-overload]
        self._logs[one.pid] = Path(log.name)
        self.living.append(one)
        return one

    def replace_those_that_ended(self) -> int:
        """What a supervisor does for one that found no server when it began. How many there were."""
        ended = [one for one in self.living if one.poll() is not None]
        for one in ended:
            self.end(one)
            self.begin()
        return len(ended)

    def end(self, one: subprocess.Popen[str], how: int = signal.SIGKILL) -> None:
        self.living.remove(one)
        asked_at = time.monotonic()
        one.send_signal(how)
        try:
            one.wait(120)
            self.stop_seconds += [time.monotonic() - asked_at] if how == signal.SIGTERM else []
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self._where_it_stands(one)}") from None
        finally:
            one.kill()
            one.wait(60)
            for pipe in (one.stdin, one.stdout):
                assert pipe is not None
                pipe.close()

    def _where_it_stands(self, one: subprocess.Popen[str]) -> str:
        """What its threads do, one after another."""
        log = self._logs[one.pid]
        one.send_signal(signal.SIGUSR1)
        until(lambda: "most recent call first" in log.read_text() or one.poll() is not None, "its stacks")
        return log.read_text()

    def close(self) -> None:
        for one in list(self.living):
            self.end(one)


@contextmanager
def workers(home: Home) -> Iterator[Workers]:
    found = Workers(home)
    try:
        yield found
    finally:
        found.close()
