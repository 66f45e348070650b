"""The shapes of answers that are more than the fields of a value: for OpenAPI, and clients made from it."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any, get_type_hints

import msgspec

from outlast import Displaced
from outlast.care.verify import Verification
from outlast.handoffs.handoff import Evidence, Handoff
from outlast.handoffs.recovered import Listed, Recovered
from outlast.ledger.verdict import Reason
from outlast.runs.plan import Plan
from outlast.runs.run import Outcome
from outlast.runs.waits.interrupt import Interrupt
from outlast.tasks.task import TaskContext, TaskPaused, TaskResumed
from outlast.workspace.checkpoint import Checkpoint, CheckpointDiff
from outlast.workspace.recall.pack import ContextPack
from outlast.workspace.record import Record

Fields = dict[str, Any]


def shape(name: str, doc: str, fields: Fields) -> Any:
    """An object with these fields, all of which are always there."""
    return msgspec.defstruct(name, list(fields.items()), namespace={"__doc__": doc}, kw_only=True)


def fields_of(kind: type, *leave_out: str) -> Fields:
    """A value's own fields, but for some."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind) if each.name not in leave_out}


def many(kind: Any) -> Any:
    return list[kind]


_reason = fields_of(Reason) | {"weight": str}
WeighedReason = shape("WeighedReason", "One fact that bears on the verdict.", _reason)
AcceptedReason = shape(
    "AcceptedReason", "One fact that bears on the verdict, and whether it was accepted.", _reason | {"accepted": bool}
)
Judgement = shape(
    "Judgement",
    "`trusted`, `candidate` or `contested`, with the reasons.",
    {"word": str, "reasons": many(WeighedReason)},
)
Entry = shape("Entry", "Where to begin; empty where none was named.", {"file": str, "symbol": str})
ShownEvidence = shape("ShownEvidence", "What came of one check.", fields_of(Evidence) | {"at": datetime})

TakenMust = shape(
    "TakenMust",
    "A must, and what it is taken for: `unchanged`, `changed`, `absent` or `rule` are looked at, `prose` is not.",
    {"field": str, "must": str | dict[str, Any], "taken_for": str},
)

_handoff = fields_of(Handoff, "stored_us", "expires_us", "claim") | {
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
    | fields_of(Recovered, "handoff", "verdict")
    | {"evidence": many(ShownEvidence), "checks_failed": list[str]},
)
ListedHandoff = shape(
    "ListedHandoff", "One line of the list of handoffs.", fields_of(Listed) | {"verdict": Judgement | None}
)
Wait = shape(
    "Wait",
    "One wait of a run, and how it can be answered.",
    fields_of(Interrupt) | {"says": str, "choices": list[str], "digest": str},
)
Answered = shape(
    "Answered",
    "A wait that was answered, and whether its run goes on here.",
    fields_of(Interrupt) | {"says": str, "choices": list[str], "digest": str, "goes_on": bool, "why_not": str},
)
RunOutcome = shape(
    "RunOutcome",
    "How a run stands.",
    fields_of(Outcome, "exception", "inputs_changed")
    | {"run_id": str | None, "result": Any, "interrupts": many(Wait), "verdict": Judgement | None},
)
RunPlan = shape(
    "RunPlan",
    "What a resume would do: nothing is run or written.",
    fields_of(Plan) | {"verdict": Judgement, "interrupts": many(Wait)},
)
TaskStanding = shape(
    "TaskStanding",
    "How a task stands here and now, and what may be done with it.",
    fields_of(TaskContext)
    | {"handoff": RecoveredHandoff | None, "checkpoints": many(Checkpoint), "records": many(Record)},
)
PausedTask = shape(
    "PausedTask",
    "A task that was paused: what was stored for whoever resumes it.",
    fields_of(TaskPaused) | {"handoff": StoredHandoff, "replayed": bool},
)
ResumedTask = shape(
    "ResumedTask",
    "A task that was resumed: what was handed over with its verdict, and the claim to it.",
    fields_of(TaskResumed) | {"recovered": RecoveredHandoff, "replayed": bool},
)
WholePack = shape(
    "WholePack",
    "What recall selects for a goal, and the same as a text for a model.",
    fields_of(ContextPack) | {"prompt": str},
)
CheckpointChanges = shape(
    "CheckpointChanges",
    "What is different at the second of two checkpoints.",
    fields_of(CheckpointDiff) | {"same": bool},
)
WaitItem = shape(
    "WaitItem", "An open wait, and whose it is.", {"interrupt": Wait, "task": str, "flow": str, "scope": str}
)
StepLog = shape(
    "StepLog",
    "What is known of what one attempt of a command printed.",
    {
        "step": str,
        "attempt": int,
        "status": str,
        "exit": int | None,
        "started_at": datetime,
        "ended_at": datetime | None,
        "size_bytes": int | None,
        "incomplete": str,
        "masked": int | None,
    },
)
DisplacedFile = shape("DisplacedFile", "A file that gave way when files were put back.", fields_of(Displaced, "read"))
CheckedStore = shape("CheckedStore", "What a check of the records found.", fields_of(Verification) | {"ok": bool})
