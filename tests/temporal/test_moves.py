"""A queue that changes its engine: what is queued, waits or was interrupted goes on under the other one, and once."""

import threading
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from . import flows
from .support import FLOWS, Home, until

THERE, BACK = "temporal", "outlast"
there_and_back = pytest.mark.parametrize("to", [THERE, BACK])


@there_and_back
def test_what_is_queued_goes_on_under_the_other_engine(home: Home, to: str) -> None:
    run_id = begun(home, to, flows.plain)
    if to == BACK:
        with home.worker(executes=False):
            until(lambda: home.workflows(run_id), "its workflow")
    ends_by(home, to, run_id)
    assert flows.lines() == ["work a"]


@there_and_back
def test_what_waits_goes_on_under_the_other_engine(home: Home, to: str) -> None:
    run_id = begun(home, to, flows.asks)
    with worker_before(home, to):
        home.stands(run_id, "waiting")
        until(lambda: to == THERE or home.workflows(run_id), "its workflow")
    ends_by(home, to, run_id, answers=True)
    assert flows.lines() == ["work before a", "work after a"]


@there_and_back
def test_what_a_shutdown_interrupted_goes_on_under_the_other_engine(home: Home, to: str, tmp_path: Path) -> None:
    held = tmp_path / "hold first a"
    held.touch()
    run_id = begun(home, to, flows.twice)
    with worker_before(home, to) as worker:
        until(lambda: flows.lines() == ["work first a"], "its first step")
        until(lambda: to == THERE or home.workflows(run_id), "its workflow")
        stopping = threading.Thread(target=worker.stop)
        stopping.start()
        execution = home.outlast._executor.live.executions[run_id]
        until(lambda: execution.stopping, "that it is asked to stop")
        held.unlink()
        stopping.join()
    assert home.get(run_id).status == "interrupted"
    ends_by(home, to, run_id)
    assert flows.lines() == ["work first a", "work second a"]


def begun(home: Home, to: str, flow: Any) -> str:
    """A run in a queue of the engine that it is to leave."""
    return home.start(flow, "a", engine=BACK if to == THERE else THERE)


def worker_before(home: Home, to: str) -> Any:
    return home.outlast.worker(*FLOWS) if to == THERE else home.worker()


def ends_by(home: Home, to: str, run_id: str, answers: bool = False) -> None:
    """Once its queue is moved the run ends there, and what Temporal has of it ends too."""
    home.outlast.move_queue(home.queue, to=to)
    home.notes.clear()
    if answers:
        home.answer(run_id)
    with home.outlast.worker(*FLOWS):
        if to == BACK:
            home.stands(run_id, "succeeded")
        with home.worker():
            home.stands(run_id, "succeeded")
            found = home.closed(run_id)
    wanted = WorkflowExecutionStatus.COMPLETED if to == THERE else WorkflowExecutionStatus.TERMINATED
    assert {each.status for each in found} == {wanted}
    assert [note.kind for note in home.notes] == (["took", "ended"] if to == THERE else [])
    assert home.outlast.verify().ok
