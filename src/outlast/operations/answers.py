"""The shapes of answers that are more than the fields of a value: for OpenAPI, and clients made from it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, get_type_hints

import msgspec

from outlast.care.audit.flow import Audit
from outlast.care.verify import Verification
from outlast.commands.logs import CommandLog
from outlast.handoffs.handoff import Evidence as Evidence
from outlast.handoffs.handoff import Handoff as Handoff
from outlast.handoffs.handoff import Listed as Listed
from outlast.handoffs.handoff import Recovered as Recovered
from outlast.handoffs.handoff import label_of as label_of
from outlast.handoffs.verdict import rivals_of as rivals_of
from outlast.ledger.verdict import Reason
from outlast.operations import shown
from outlast.operations.operation import Answer
from outlast.runs.events import TimelineItem
from outlast.runs.look import Displaced, InboxItem
from outlast.runs.plan import Plan
from outlast.runs.run import Outcome, RunRecord
from outlast.runs.waits.interrupt import Interrupt
from outlast.secrets.find import mask as mask
from outlast.tasks.task import TaskContext, TaskPaused, TaskResumed
from outlast.workspace.checkpoint import Checkpoint, CheckpointDiff
from outlast.workspace.recall.pack import ContextPack
from outlast.workspace.record import Record
from outlast.workspace.why import Why as Why

Fields = dict[str, Any]


def shape(name: str, doc: str, fields: Fields) -> Any:
    """An object with these fields, all of which are always there."""
    return msgspec.defstruct(name, list(fields.items()), namespace={"__doc__": doc}, kw_only=True)


def of(kind: type, *leave_out: str) -> Fields:
    """A value's own fields, but for some."""
    hints = get_type_hints(kind)
    return {name: hints[name] for name in shown.field_names(kind) if name not in leave_out}


def many(kind: Any) -> Any:
    return list[kind]


def fields_of(kind: type, parts: Fields | None = None) -> Fields:
    """What `shown` makes of a value: its fields, those that are `parts` in their own shape, and what stands beside."""
    how = shown.HOW[kind.__name__]
    missing = {*how.parts} - {*(parts or {})}
    assert not missing, f"{kind.__name__}: in which shape are {missing}?"
    return of(kind, *how.without) | {name: _type_of(kind, name) for name in how.beside} | (parts or {})


def _type_of(kind: type, name: str) -> Any:
    """Of what a value knows of itself: a property, or a method that takes nothing."""
    known = getattr(kind, name)
    return get_type_hints(known.fget if isinstance(known, property) else known)["return"]


def made_of(kind: type, name: str, doc: str, parts: Fields | None = None) -> Answer:
    return Answer(kind, shape(name, doc, fields_of(kind, parts)))


_reason = of(Reason) | {"weight": str}
WeighedReason = shape("WeighedReason", "One fact that bears on the verdict.", _reason)
_accepted = _reason | {"accepted": bool}
AcceptedReason = shape("AcceptedReason", "One fact that bears on the verdict, and whether it was accepted.", _accepted)
_judged = {"word": str, "reasons": many(WeighedReason)}
Judgement = shape("Judgement", "`trusted`, `candidate` or `contested`, with the reasons.", _judged)
Entry = shape("Entry", "Where to begin; empty where none was named.", {"file": str, "symbol": str})
ShownEvidence = shape("ShownEvidence", "What came of one check.", of(Evidence) | {"at": datetime})
TakenMust = shape(
    "TakenMust",
    "A must, and what it is taken for: `unchanged`, `changed`, `absent` or `rule` are looked at, `prose` is not.",
    {"field": str, "must": str | dict[str, Any], "taken_for": str},
)
_handoff = of(Handoff, "stored_us", "expires_us", "claim") | {
    "entry": Entry,
    "musts": many(TakenMust),
    "stored_at": datetime,
    "expires_at": datetime,
    "baseline": many(ShownEvidence),
    "execution_state_v1": dict[str, Any] | None,
    "execution_packet_v1": dict[str, Any] | None,
}
StoredHandoff = shape("StoredHandoff", "One revision under an anchor, exactly as it was stored.", _handoff)
RecoveredHandoff = shape(
    "RecoveredHandoff",
    "A handoff with its verdict here and now, in reading order.",
    {"verdict": str, "reasons": many(AcceptedReason)}
    | _handoff
    | of(Recovered, "handoff", "verdict")
    | {"evidence": many(ShownEvidence), "checks_failed": list[str]},
)
ListedHandoff = shape("ListedHandoff", "One line of the list of handoffs.", of(Listed) | {"verdict": Judgement | None})
_wait = fields_of(Interrupt)
Wait = shape("Wait", "One wait of a run, and how it can be answered.", _wait)
FailedBelow = shape(
    "FailedBelow",
    "A child run in which a failed run went wrong, and the step that failed there.",
    {"run_id": str, "flow": str, "step": str, "error": dict[str, Any] | None},
)

STORED = Answer(Handoff, StoredHandoff)
RECOVERED = Answer(Recovered, RecoveredHandoff)
LISTED = Answer(Listed, ListedHandoff)
WAIT = Answer(Interrupt, Wait)
_answered = _wait | {"goes_on": bool, "why_not": str}
ANSWERED = Answer(
    Interrupt, shape("Answered", "A wait that was answered, and whether its run goes on here.", _answered)
)
OUTCOME = made_of(
    Outcome,
    "RunOutcome",
    "How a run stands.",
    {"run_id": str | None, "result": Any, "interrupts": many(Wait), "verdict": Judgement | None},
)
_run = of(RunRecord) | {"failed_below": many(FailedBelow)}
RUN = Answer(RunRecord, shape("ShownRun", "A run; of a failed one the child runs in which it went wrong.", _run))
_plan = fields_of(Plan, {"verdict": Judgement}) | {"interrupts": many(Wait)}
PLAN = Answer(Plan, shape("RunPlan", "What a resume would do: nothing is run or written.", _plan))
CONTEXT = made_of(
    TaskContext,
    "TaskStanding",
    "How a task stands here and now, and what may be done with it.",
    {"handoff": RecoveredHandoff | None, "checkpoints": many(Checkpoint), "records": many(Record)},
)
_paused = {"handoff": StoredHandoff}
PAUSED = made_of(TaskPaused, "PausedTask", "A task that was paused: what was stored for whoever resumes it.", _paused)
RESUMED = made_of(
    TaskResumed,
    "ResumedTask",
    "A task that was resumed: what was handed over with its verdict, and the claim to it.",
    {"recovered": RecoveredHandoff},
)
PACK = made_of(ContextPack, "WholePack", "What recall selects for a goal, and the same as a text for a model.")
DIFF = made_of(CheckpointDiff, "CheckpointChanges", "What is different at the second of two checkpoints.")
INBOX = made_of(InboxItem, "WaitItem", "An open wait, and whose it is.", {"interrupt": Wait})
LOG = made_of(CommandLog, "StepLog", "What is known of what one attempt of a command printed.")
DISPLACED = made_of(Displaced, "DisplacedFile", "A file that gave way when files were put back.")
CHECKED = made_of(Verification, "CheckedStore", "What a check of the records found.")
AUDIT = made_of(Audit, "RunAudit", "The six acceptance questions, each answered.")
TIMELINE = made_of(TimelineItem, "TimelinePart", "One thing that happened in a run, and how long it took.")
WHY = made_of(Why, "WhyTree", "What something rests on, and what bears on that.")
