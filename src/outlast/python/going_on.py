"""An answer goes on: the run that was answered is continued where it was answered, with the run that spawned it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from outlast.errors import OutlastError, RunHeld
from outlast.values.threads import begin

if TYPE_CHECKING:
    from outlast.python.shared import Shared
    from outlast.runs.run import RunRecord

_LOOK_SECONDS = 0.05


def go_on(outlast: Shared, run_id: str, resume: Callable[[RunRecord], Any]) -> str:
    """Resume the run whose wait was answered; why it does not go on here, when it does not. The answer stands.

    While other branches of it run in this process it goes on as soon as they wait or are done.
    """
    try:
        run = _first_of(outlast, run_id)
        if run.finished:
            return f"run_finished: run {run.id} is {run.status}"
        try:
            resume(run)
        except RunHeld:
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
    return run_id in outlast._runtime.live


def _later(outlast: Shared, run_id: str, resume: Callable[[RunRecord], Any]) -> None:
    while _runs_here(outlast, run_id):
        time.sleep(_LOOK_SECONDS)
    run = outlast.get(run_id)
    if run.status == "waiting":
        go_on(outlast, run_id, resume)
