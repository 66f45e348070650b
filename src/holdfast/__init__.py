"""Holdfast: agent work that survives being stopped."""

from holdfast.domain.interrupt import Interrupt
from holdfast.domain.plan import Plan
from holdfast.domain.receipt import Event, Receipt
from holdfast.domain.run import Outcome, RunRecord
from holdfast.domain.verdict import Reason, Verdict
from holdfast.errors import HoldfastError, NotDone, StepFailed
from holdfast.runtime.effects import NOT_DONE, UNKNOWN, Happened
from holdfast.runtime.specs import KEY
from holdfast.sdk.flow import Flow, Step, effect, flow, inject, step
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
    "Verdict",
    "current",
    "effect",
    "flow",
    "inject",
    "step",
]
