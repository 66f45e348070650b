"""A workflow that goes on for long: it continues as new, and nothing that happens meanwhile is lost."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from outlast.adapters.temporal.settings import workflow_id
from outlast.adapters.temporal.worker import Advancer
from outlast.adapters.temporal.workflow import NUDGE, ROUNDS, RunRef, RunWorkflow
from outlast.runs.queues import engine

from . import flows
from .support import Home


def test_it_continues_as_new_however_many_rounds_there_are(home: Home, crash_long: bool) -> None:
    rounds, chain = (ROUNDS, 10_000 // ROUNDS) if crash_long else (4, 3)
    run_id = home.start(flows.hears)
    (run,) = engine.runs_in(home.outlast._executor.home, home.queue)
    name = workflow_id("default", run)
    asyncio.run(begun(home, name, run_id, rounds))
    with counted_looks() as looks, home.worker():
        home.stands(run_id, "waiting")
        asyncio.run(nudged(home, name, chain, looks))
        home.outlast.signal("news", {"n": 1}, run_id=run_id)
        home.stands(run_id, "succeeded")
        found = home.closed(run_id)
    ends = [each.status for each in found]
    print(f"{len(looks)} looks, {len(found)} workflows, at most {max(each.history_length for each in found)} events")
    assert ends[-1] == WorkflowExecutionStatus.COMPLETED
    assert len(ends) > chain
    assert len(looks) >= rounds * chain
    assert set(ends[:-1]) == {WorkflowExecutionStatus.CONTINUED_AS_NEW}
    assert max(each.history_length for each in found) < 10_240  # from there on Temporal warns


async def begun(home: Home, name: str, run_id: str, rounds: int) -> None:
    """The workflow of the run, which its worker then finds there."""
    client = await Client.connect(home.address)
    ref = RunRef("default", run_id, 2.0, rounds)
    await client.start_workflow(RunWorkflow.run, ref, id=name, task_queue=home.task_queue)


@contextmanager
def counted_looks() -> Iterator[list[str]]:
    """The runs that workers of this process look at, as they do."""
    looks, advance = list[str](), Advancer.advance

    def counted(self: Advancer, run_id: str) -> Any:
        looks.append(run_id)
        return advance(self, run_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Advancer, "advance", counted)
        yield looks


async def nudged(home: Home, name: str, chain: int, looks: list[str]) -> None:
    """Nudge it again and again, each time that it has looked, until so many have continued as new."""
    client = await Client.connect(home.address)
    handle: WorkflowHandle[Any, Any] = client.get_workflow_handle(name)
    while len([each async for each in client.list_workflows(f"WorkflowId = '{name}'")]) <= chain:
        for _ in range(20):
            before = len(looks)
            await handle.signal(NUDGE)
            while len(looks) == before:
                await asyncio.sleep(0.002)
