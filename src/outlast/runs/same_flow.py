"""Which run of a task is one of the same flow: the only place that decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.flows.loading import is_gone
from outlast.store.contract import NewRun, Reading, RunRow

if TYPE_CHECKING:
    from outlast.home.home import Runtime


def unfinished_run(runtime: Runtime, look: Reading, run: NewRun) -> RunRow | None:
    """The task's unfinished run of this flow, if there is one."""
    return look.unfinished_run(run.scope, run.task, run.flow) or _moved(runtime, look, run)


def _moved(runtime: Runtime, look: Reading, run: NewRun) -> RunRow | None:
    """The task's unfinished run of a flow of this name whose file is gone: it was moved, which changes nothing."""
    name = run.flow.rpartition(":")[2]
    for row in look.unfinished_of_task(run.scope, run.task):
        if row.flow.rpartition(":")[2] == name and is_gone(row.flow, runtime.project):
            return row
    return None
