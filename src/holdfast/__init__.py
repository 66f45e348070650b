"""Holdfast: agent work that survives being stopped."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.domain.interrupt import Interrupt
    from holdfast.domain.plan import Plan
    from holdfast.domain.receipt import Event, Receipt
    from holdfast.domain.run import Outcome, RunRecord
    from holdfast.domain.timeline import TimelineItem
    from holdfast.domain.verdict import Reason, Verdict
    from holdfast.errors import HoldfastError, NotDone, StepFailed
    from holdfast.runtime.effects import NOT_DONE, UNKNOWN, Happened
    from holdfast.runtime.specs import KEY
    from holdfast.runtime.sweep import Swept
    from holdfast.sdk.flow import Flow, FlowFile, Step, effect, flow, flow_file, inject, resource, step
    from holdfast.sdk.hold import AsyncHoldfast, Holdfast
    from holdfast.sdk.run import AsyncRun, Run, current

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
    "domain.interrupt": ("Interrupt",),
    "domain.plan": ("Plan",),
    "domain.receipt": ("Event", "Receipt"),
    "domain.run": ("Outcome", "RunRecord"),
    "domain.timeline": ("TimelineItem",),
    "domain.verdict": ("Reason", "Verdict"),
    "errors": ("HoldfastError", "NotDone", "StepFailed"),
    "runtime.effects": ("NOT_DONE", "UNKNOWN", "Happened"),
    "runtime.specs": ("KEY",),
    "runtime.sweep": ("Swept",),
    "sdk.flow": ("Flow", "FlowFile", "Step", "effect", "flow", "flow_file", "inject", "resource", "step"),
    "sdk.hold": ("AsyncHoldfast", "Holdfast"),
    "sdk.run": ("AsyncRun", "Run", "current"),
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
