"""Outlast: agent work that outlasts its process."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.care.gc.gc import Swept
    from outlast.errors import NotDone, OutlastError, StepFailed
    from outlast.flows.spec import KEY
    from outlast.ledger.verdict import Reason, Verdict
    from outlast.python.backups import restore
    from outlast.python.decorators import Flow, FlowFile, Step, effect, flow, flow_file, inject, resource, step
    from outlast.python.outlast import AsyncOutlast, Outlast
    from outlast.python.run import AsyncRun, Run, current
    from outlast.runs.displaced import Displaced
    from outlast.runs.effect import NOT_DONE, UNKNOWN, Happened
    from outlast.runs.item import Failed, Ok, unwrap_all
    from outlast.runs.outputs import Output
    from outlast.runs.plan import Plan
    from outlast.runs.receipt import Event, Receipt
    from outlast.runs.restored_outputs import RestoredOutputs
    from outlast.runs.run import Outcome, RunRecord
    from outlast.runs.timeline import TimelineItem
    from outlast.runs.waits.interrupt import Interrupt

__version__ = "0.1.0"

__all__ = [
    "KEY",
    "NOT_DONE",
    "UNKNOWN",
    "AsyncOutlast",
    "AsyncRun",
    "Displaced",
    "Event",
    "Failed",
    "Flow",
    "FlowFile",
    "Happened",
    "Interrupt",
    "NotDone",
    "Ok",
    "Outcome",
    "Outlast",
    "OutlastError",
    "Output",
    "Plan",
    "Reason",
    "Receipt",
    "RestoredOutputs",
    "Run",
    "RunRecord",
    "Step",
    "StepFailed",
    "Swept",
    "TimelineItem",
    "Verdict",
    "current",
    "effect",
    "flow",
    "flow_file",
    "inject",
    "resource",
    "restore",
    "step",
    "unwrap_all",
]

# A name is imported when it is first asked for: `outlast --help` needs none of them.
_PLACES = {
    "runs.waits.interrupt": ("Interrupt",),
    "runs.displaced": ("Displaced",),
    "runs.outputs": ("Output",),
    "runs.plan": ("Plan",),
    "runs.restored_outputs": ("RestoredOutputs",),
    "runs.receipt": ("Event", "Receipt"),
    "runs.run": ("Outcome", "RunRecord"),
    "runs.timeline": ("TimelineItem",),
    "ledger.verdict": ("Reason", "Verdict"),
    "errors": ("OutlastError", "NotDone", "StepFailed"),
    "runs.effect": ("NOT_DONE", "UNKNOWN", "Happened"),
    "runs.item": ("Failed", "Ok", "unwrap_all"),
    "flows.spec": ("KEY",),
    "care.gc.gc": ("Swept",),
    "python.backups": ("restore",),
    "python.decorators": ("Flow", "FlowFile", "Step", "effect", "flow", "flow_file", "inject", "resource", "step"),
    "python.outlast": ("AsyncOutlast", "Outlast"),
    "python.run": ("AsyncRun", "Run", "current"),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"outlast.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
