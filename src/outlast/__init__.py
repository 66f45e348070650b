"""Outlast: agent work that outlasts its process."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.care.acts import Act, Acts
    from outlast.care.audit.flow import Audit, AuditQuestion
    from outlast.care.gc.gc import Swept
    from outlast.care.travel.export_run import Exported
    from outlast.care.travel.handoff import BundleArrived, Bundled
    from outlast.care.travel.import_run import Imported
    from outlast.commands.logs import CommandLog
    from outlast.errors import NotDone, OutlastError, StepFailed
    from outlast.files.snapshot import Binding
    from outlast.flows.spec import KEY
    from outlast.handoffs.compose import StepHandoff
    from outlast.handoffs.difference import Applied, Difference
    from outlast.handoffs.handoff import (
        Contract,
        Evidence,
        Form,
        Handoff,
        HandoffClaim,
        HandoffEvent,
        Lint,
        Listed,
        Recovered,
        Settlement,
    )
    from outlast.home.keys import ApiKey, Keys
    from outlast.home.settings import Settings
    from outlast.ledger.verdict import Reason, Verdict
    from outlast.python.async_outlast import AsyncOutlast
    from outlast.python.backups import restore
    from outlast.python.decorators import Flow, FlowFile, Step, effect, flow, flow_file, inject, resource, step
    from outlast.python.outlast import Outlast
    from outlast.python.run import AsyncRun, Run, current
    from outlast.runs.effect import NOT_DONE, UNKNOWN, Happened
    from outlast.runs.events import HomeEvent, HomeEvents, TimelineItem
    from outlast.runs.find import Due
    from outlast.runs.look import Displaced, InboxItem
    from outlast.runs.map import Failed, Ok, unwrap_all
    from outlast.runs.outputs.files import Output
    from outlast.runs.outputs.restore import RestoredOutputs
    from outlast.runs.plan import Plan, PlanStep
    from outlast.runs.receipt import Event, Receipt
    from outlast.runs.run import STATUSES, Outcome, RunError, RunRecord, RunStatus
    from outlast.runs.waits.ask import Signal
    from outlast.runs.waits.interrupt import INTERRUPT_TYPES, Interrupt
    from outlast.sessions.session import Memo, Message, Session, Window
    from outlast.tasks.task import Task, TaskCompleted, TaskContext, TaskEvent, TaskPaused, TaskResumed
    from outlast.workspace.artifact import Artifact
    from outlast.workspace.checkpoint import Checkpoint, StateChange
    from outlast.workspace.link import Link
    from outlast.workspace.recall.pack import ContextPack, LeftOut
    from outlast.workspace.record import Record

__version__ = "0.1.0"

__all__ = [
    "INTERRUPT_TYPES",
    "KEY",
    "NOT_DONE",
    "STATUSES",
    "UNKNOWN",
    "Act",
    "Acts",
    "ApiKey",
    "Applied",
    "Artifact",
    "AsyncOutlast",
    "AsyncRun",
    "Audit",
    "AuditQuestion",
    "Binding",
    "BundleArrived",
    "Bundled",
    "Checkpoint",
    "CommandLog",
    "ContextPack",
    "Contract",
    "Difference",
    "Displaced",
    "Due",
    "Event",
    "Evidence",
    "Exported",
    "Failed",
    "Flow",
    "FlowFile",
    "Form",
    "Handoff",
    "HandoffClaim",
    "HandoffEvent",
    "Happened",
    "HomeEvent",
    "HomeEvents",
    "Imported",
    "InboxItem",
    "Interrupt",
    "Keys",
    "LeftOut",
    "Link",
    "Lint",
    "Listed",
    "Memo",
    "Message",
    "NotDone",
    "Ok",
    "Outcome",
    "Outlast",
    "OutlastError",
    "Output",
    "Plan",
    "PlanStep",
    "Reason",
    "Receipt",
    "Record",
    "Recovered",
    "RestoredOutputs",
    "Run",
    "RunError",
    "RunRecord",
    "RunStatus",
    "Session",
    "Settings",
    "Settlement",
    "Signal",
    "StateChange",
    "Step",
    "StepFailed",
    "StepHandoff",
    "Swept",
    "Task",
    "TaskCompleted",
    "TaskContext",
    "TaskEvent",
    "TaskPaused",
    "TaskResumed",
    "TimelineItem",
    "Verdict",
    "Window",
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
    "care.acts": "Act Acts",
    "care.audit.flow": "Audit AuditQuestion",
    "care.gc.gc": "Swept",
    "care.travel.export_run": "Exported",
    "care.travel.handoff": "BundleArrived Bundled",
    "care.travel.import_run": "Imported",
    "commands.logs": "CommandLog",
    "errors": "NotDone OutlastError StepFailed",
    "files.snapshot": "Binding",
    "flows.spec": "KEY",
    "handoffs.compose": "StepHandoff",
    "handoffs.difference": "Applied Difference",
    "handoffs.handoff": "Contract Evidence Form Handoff HandoffClaim HandoffEvent Lint Listed Recovered Settlement",
    "home.keys": "ApiKey Keys",
    "home.settings": "Settings",
    "ledger.verdict": "Reason Verdict",
    "python.async_outlast": "AsyncOutlast",
    "python.backups": "restore",
    "python.decorators": "Flow FlowFile Step effect flow flow_file inject resource step",
    "python.outlast": "Outlast",
    "python.run": "AsyncRun Run current",
    "runs.find": "Due",
    "runs.effect": "NOT_DONE UNKNOWN Happened",
    "runs.events": "HomeEvent HomeEvents TimelineItem",
    "runs.look": "Displaced InboxItem",
    "runs.map": "Failed Ok unwrap_all",
    "runs.outputs.files": "Output",
    "runs.outputs.restore": "RestoredOutputs",
    "runs.plan": "Plan PlanStep",
    "runs.receipt": "Event Receipt",
    "runs.run": "STATUSES Outcome RunError RunRecord RunStatus",
    "runs.waits.interrupt": "INTERRUPT_TYPES Interrupt",
    "runs.waits.ask": "Signal",
    "sessions.session": "Memo Message Session Window",
    "tasks.task": "Task TaskCompleted TaskContext TaskEvent TaskPaused TaskResumed",
    "workspace.artifact": "Artifact",
    "workspace.checkpoint": "Checkpoint StateChange",
    "workspace.link": "Link",
    "workspace.recall.pack": "ContextPack LeftOut",
    "workspace.record": "Record",
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names.split()}


def _load(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"outlast.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found


if not TYPE_CHECKING:  # a checker sees the imports above, and misses a name that is not among them
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
