"""The shapes of answers that are more than the fields of a value: for OpenAPI, and clients made from it."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any, get_type_hints

import msgspec

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
from outlast.operations.reading import handoff_in_order, in_order
from outlast.runs.look import Displaced, InboxItem
from outlast.runs.plan import Plan
from outlast.runs.run import Outcome, RunRecord
from outlast.runs.waits.interrupt import Interrupt
from outlast.tasks.task import TaskContext, TaskPaused, TaskResumed
from outlast.workspace.checkpoint import Checkpoint, CheckpointDiff
from outlast.workspace.recall.pack import ContextPack
from outlast.workspace.record import Record

Fields = dict[str, Any]


def shape(name: str, doc: str, fields: Fields) -> Any:
    """An object with these fields, all of which are always there."""
    return msgspec.defstruct(name, list(fields.items()), namespace={"__doc__": doc}, kw_only=True)


def of(kind: type, *leave_out: str) -> Fields:
    """A value's own fields, but for some."""
    hints = get_type_hints(kind)
    names = getattr(kind, "__struct_fields__", None) or [each.name for each in dataclasses.fields(kind)]
    return {name: hints[name] for name in names if name not in leave_out}


def many(kind: Any) -> Any:
    return list[kind]


_reason = of(Reason) | {"weight": str}
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
_wait = of(Interrupt) | {"says": str, "choices": list[str], "digest": str}
Wait = shape("Wait", "One wait of a run, and how it can be answered.", _wait)

STORED = Answer(Handoff, StoredHandoff, handoff_in_order)
RECOVERED = Answer(Recovered, RecoveredHandoff, in_order)
LISTED = Answer(Listed, ListedHandoff, shown.listed_json)
WAIT = Answer(Interrupt, Wait, shown.wait_json)
ANSWERED = Answer(
    Interrupt,
    shape(
        "Answered",
        "A wait that was answered, and whether its run goes on here.",
        _wait | {"goes_on": bool, "why_not": str},
    ),
    shown.answered_json,
)
OUTCOME = Answer(
    Outcome,
    shape(
        "RunOutcome",
        "How a run stands.",
        of(Outcome, "exception", "inputs_changed")
        | {"run_id": str | None, "result": Any, "interrupts": many(Wait), "verdict": Judgement | None},
    ),
    shown.outcome_json,
)
FailedBelow = shape(
    "FailedBelow",
    "A child run in which a failed run went wrong, and the step that failed there.",
    {"run_id": str, "flow": str, "step": str, "error": dict[str, Any] | None},
)
RUN = Answer(
    RunRecord,
    shape(
        "ShownRun",
        "A run; of a failed one the child runs in which it went wrong.",
        of(RunRecord) | {"failed_below": many(FailedBelow)},
    ),
)
PLAN = Answer(
    Plan,
    shape(
        "RunPlan",
        "What a resume would do: nothing is run or written.",
        of(Plan) | {"verdict": Judgement, "interrupts": many(Wait)},
    ),
    lambda found: shown.plan_json(*found),
)
CONTEXT = Answer(
    TaskContext,
    shape(
        "TaskStanding",
        "How a task stands here and now, and what may be done with it.",
        of(TaskContext)
        | {"handoff": RecoveredHandoff | None, "checkpoints": many(Checkpoint), "records": many(Record)},
    ),
    shown.context_json,
)
PAUSED = Answer(
    TaskPaused,
    shape(
        "PausedTask",
        "A task that was paused: what was stored for whoever resumes it.",
        of(TaskPaused) | {"handoff": StoredHandoff, "replayed": bool},
    ),
    shown.paused_json,
)
RESUMED = Answer(
    TaskResumed,
    shape(
        "ResumedTask",
        "A task that was resumed: what was handed over with its verdict, and the claim to it.",
        of(TaskResumed) | {"recovered": RecoveredHandoff, "replayed": bool},
    ),
    shown.resumed_json,
)
PACK = Answer(
    ContextPack,
    shape(
        "WholePack",
        "What recall selects for a goal, and the same as a text for a model.",
        of(ContextPack) | {"prompt": str},
    ),
    shown.pack_json,
)
DIFF = Answer(
    CheckpointDiff,
    shape(
        "CheckpointChanges", "What is different at the second of two checkpoints.", of(CheckpointDiff) | {"same": bool}
    ),
    shown.diff_json,
)
INBOX = Answer(
    InboxItem,
    shape("WaitItem", "An open wait, and whose it is.", {"interrupt": Wait, "task": str, "flow": str, "scope": str}),
    shown.inbox_json,
)
LOG = Answer(
    CommandLog,
    shape(
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
    ),
    shown.log_json,
)
DISPLACED = Answer(
    Displaced,
    shape("DisplacedFile", "A file that gave way when files were put back.", of(Displaced, "read")),
    shown.displaced_json,
)
CHECKED = Answer(
    Verification,
    shape("CheckedStore", "What a check of the records found.", of(Verification) | {"ok": bool}),
    shown.verification_json,
)
