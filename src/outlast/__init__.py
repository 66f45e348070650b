"""Outlast: agent work that outlasts its process."""

from typing import TYPE_CHECKING, Any

from outlast.values.late import load

if TYPE_CHECKING:
    from outlast.care.acts import Act as Act
    from outlast.care.acts import Acts as Acts
    from outlast.care.audit.flow import Audit as Audit
    from outlast.care.audit.flow import AuditQuestion as AuditQuestion
    from outlast.care.gc.gc import Swept as Swept
    from outlast.care.travel.export_run import Exported as Exported
    from outlast.care.travel.handoff import BundleArrived as BundleArrived
    from outlast.care.travel.handoff import Bundled as Bundled
    from outlast.care.travel.import_run import Imported as Imported
    from outlast.commands.logs import CommandLog as CommandLog
    from outlast.errors import NotDone as NotDone
    from outlast.errors import OutlastError as OutlastError
    from outlast.errors import StepFailed as StepFailed
    from outlast.files.snapshot import Binding as Binding
    from outlast.flows.spec import KEY as KEY
    from outlast.handoffs.compose import StepHandoff as StepHandoff
    from outlast.handoffs.difference import Applied as Applied
    from outlast.handoffs.difference import Difference as Difference
    from outlast.handoffs.handoff import Contract as Contract
    from outlast.handoffs.handoff import Evidence as Evidence
    from outlast.handoffs.handoff import Form as Form
    from outlast.handoffs.handoff import Handoff as Handoff
    from outlast.handoffs.handoff import HandoffClaim as HandoffClaim
    from outlast.handoffs.handoff import HandoffEvent as HandoffEvent
    from outlast.handoffs.handoff import Lint as Lint
    from outlast.handoffs.handoff import Listed as Listed
    from outlast.handoffs.handoff import Recovered as Recovered
    from outlast.handoffs.handoff import Settlement as Settlement
    from outlast.home.keys import ApiKey as ApiKey
    from outlast.home.keys import Keys as Keys
    from outlast.home.settings import Settings as Settings
    from outlast.ledger.verdict import Reason as Reason
    from outlast.ledger.verdict import Verdict as Verdict
    from outlast.python.async_outlast import AsyncOutlast as AsyncOutlast
    from outlast.python.backups import restore as restore
    from outlast.python.decorators import Flow as Flow
    from outlast.python.decorators import FlowFile as FlowFile
    from outlast.python.decorators import Step as Step
    from outlast.python.decorators import effect as effect
    from outlast.python.decorators import flow as flow
    from outlast.python.decorators import flow_file as flow_file
    from outlast.python.decorators import inject as inject
    from outlast.python.decorators import resource as resource
    from outlast.python.decorators import step as step
    from outlast.python.outlast import Outlast as Outlast
    from outlast.python.run import AsyncRun as AsyncRun
    from outlast.python.run import Run as Run
    from outlast.python.run import current as current
    from outlast.runs.effect import NOT_DONE as NOT_DONE
    from outlast.runs.effect import UNKNOWN as UNKNOWN
    from outlast.runs.effect import Happened as Happened
    from outlast.runs.events import HomeEvent as HomeEvent
    from outlast.runs.events import HomeEvents as HomeEvents
    from outlast.runs.events import TimelineItem as TimelineItem
    from outlast.runs.find import Due as Due
    from outlast.runs.look import Displaced as Displaced
    from outlast.runs.look import InboxItem as InboxItem
    from outlast.runs.map import Failed as Failed
    from outlast.runs.map import Ok as Ok
    from outlast.runs.map import unwrap_all as unwrap_all
    from outlast.runs.outputs.files import Output as Output
    from outlast.runs.outputs.restore import RestoredOutputs as RestoredOutputs
    from outlast.runs.plan import Plan as Plan
    from outlast.runs.plan import PlanStep as PlanStep
    from outlast.runs.receipt import Event as Event
    from outlast.runs.receipt import Receipt as Receipt
    from outlast.runs.run import STATUSES as STATUSES
    from outlast.runs.run import Outcome as Outcome
    from outlast.runs.run import RunError as RunError
    from outlast.runs.run import RunRecord as RunRecord
    from outlast.runs.run import RunStatus as RunStatus
    from outlast.runs.waits.ask import Signal as Signal
    from outlast.runs.waits.interrupt import INTERRUPT_TYPES as INTERRUPT_TYPES
    from outlast.runs.waits.interrupt import Interrupt as Interrupt
    from outlast.sessions.session import Memo as Memo
    from outlast.sessions.session import Message as Message
    from outlast.sessions.session import Session as Session
    from outlast.sessions.session import Window as Window
    from outlast.tasks.task import Task as Task
    from outlast.tasks.task import TaskCompleted as TaskCompleted
    from outlast.tasks.task import TaskContext as TaskContext
    from outlast.tasks.task import TaskEvent as TaskEvent
    from outlast.tasks.task import TaskPaused as TaskPaused
    from outlast.tasks.task import TaskResumed as TaskResumed
    from outlast.workspace.artifact import Artifact as Artifact
    from outlast.workspace.checkpoint import Checkpoint as Checkpoint
    from outlast.workspace.checkpoint import StateChange as StateChange
    from outlast.workspace.link import Link as Link
    from outlast.workspace.recall.pack import ContextPack as ContextPack
    from outlast.workspace.recall.pack import LeftOut as LeftOut
    from outlast.workspace.record import Record as Record

__version__ = "0.1.0"

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
    found = getattr(load(f"outlast.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found


if not TYPE_CHECKING:  # a checker sees the imports above, and misses a name that is not among them
    __all__ = sorted(_MODULE_OF)
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
