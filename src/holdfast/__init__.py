"""Holdfast: agent work that survives being stopped."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.care.gc.gc import Swept
    from holdfast.errors import HoldfastError, NotDone, StepFailed
    from holdfast.flows.spec import KEY
    from holdfast.ledger.verdict import Reason, Verdict
    from holdfast.python.decorators import Flow, FlowFile, Step, effect, flow, flow_file, inject, resource, step
    from holdfast.python.hold import AsyncHoldfast, Holdfast
    from holdfast.python.run import AsyncRun, Run, current
    from holdfast.runs.effect import NOT_DONE, UNKNOWN, Happened
    from holdfast.runs.plan import Plan
    from holdfast.runs.receipt import Event, Receipt
    from holdfast.runs.run import Outcome, RunRecord
    from holdfast.runs.timeline import TimelineItem
    from holdfast.runs.waits.interrupt import Interrupt

__version__ = "0.1.0"

__all__ = [
    "KEY",
    "NOT_DONE",
    "UNKNOWN",
    "AsyncHoldfast",
    "AsyncRun",
    "Event",
    "Flow",
    "FlowFile",
    "Happened",
    "Holdfast",
    "HoldfastError",
    "Interrupt",
    "NotDone",
    "Outcome",
    "Plan",
    "Reason",
    "Receipt",
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
    "step",
]

# A name is imported when it is first asked for: `holdfast --help` needs none of them.
_PLACES = {
    "runs.waits.interrupt": ("Interrupt",),
    "runs.plan": ("Plan",),
    "runs.receipt": ("Event", "Receipt"),
    "runs.run": ("Outcome", "RunRecord"),
    "runs.timeline": ("TimelineItem",),
    "ledger.verdict": ("Reason", "Verdict"),
    "errors": ("HoldfastError", "NotDone", "StepFailed"),
    "runs.effect": ("NOT_DONE", "UNKNOWN", "Happened"),
    "flows.spec": ("KEY",),
    "care.gc.gc": ("Swept",),
    "python.decorators": ("Flow", "FlowFile", "Step", "effect", "flow", "flow_file", "inject", "resource", "step"),
    "python.hold": ("AsyncHoldfast", "Holdfast"),
    "python.run": ("AsyncRun", "Run", "current"),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"holdfast.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
