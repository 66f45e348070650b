"""Which run of a task is one of the same flow: the only place that decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.flows.loading import is_gone
from outlast.store.contract import FinishedRow, NewRun, Reading, RunRow

if TYPE_CHECKING:
    from outlast.home.home import Runtime


def unfinished_run(runtime: Runtime, look: Reading, run: NewRun) -> RunRow | None:
    """The task's unfinished run of this flow, if there is one."""
    return look.unfinished_run(run.scope, run.task, run.flow) or _moved(runtime, look, run)


def finished_runs(runtime: Runtime, look: Reading, run: NewRun) -> list[FinishedRow]:
    """The finished runs of this flow in a named task, the newest first; those that were removed too."""
    return [row for row in look.finished_of_task(run.scope, run.task) if is_same(runtime, row.flow, run.flow)]


def is_same(runtime: Runtime, recorded: str, flow: str) -> bool:
    """Whether a recorded flow is this one: also when it had this name in a file that is gone."""
    name = flow.rpartition(":")[2]
    return recorded == flow or (recorded.rpartition(":")[2] == name and is_gone(recorded, runtime.project))


def _moved(runtime: Runtime, look: Reading, run: NewRun) -> RunRow | None:
    """The task's unfinished run of a flow of this name whose file is gone: it was moved, which changes nothing."""
    rows = look.unfinished_of_task(run.scope, run.task)
    return next((row for row in rows if is_same(runtime, row.flow, run.flow)), None)
