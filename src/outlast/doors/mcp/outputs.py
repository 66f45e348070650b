"""JSON schemas of results. A result is the value, or in case of an error `code, detail, advice, path`: both fit."""

from __future__ import annotations

from typing import Any

TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
OBJECT, LIST = {"type": "object"}, {"type": "array"}
ANY: dict[str, Any] = {}
ERROR = {
    "code": {"type": "string", "description": "Of an error: its stable code."},
    "detail": {"type": "string", "description": "Of an error: what happened."},
    "advice": {"type": "string", "description": "Of an error: what to do next."},
    "path": {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "Of an error: which argument or value it is about.",
    },
}
CUT = {
    "cut": {
        "type": "object",
        "description": "Only where the value was too large: what is left out, and where all of it is.",
        "properties": {"left_out": {"type": "array", "items": TEXT}, "whole": TEXT},
    }
}


def said(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}


def many(items: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "items": items, "description": description}


def maybe(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}], "description": description}


def gives(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of a result with these fields, or of an error."""
    return {
        "type": "object",
        "properties": {**properties, **CUT, **ERROR},
        "anyOf": [{"required": list(required)}, {"required": ["code", "detail"]}],
    }


REASON = {
    "type": "object",
    "properties": {name: TEXT for name in ("code", "weight", "subject", "expected", "found", "advice")},
    "required": ["code", "weight", "subject"],
}
WORD = {"type": "string", "enum": ["trusted", "candidate", "contested"]}
VERDICT = maybe(
    {"type": "object", "properties": {"word": WORD, "reasons": {"type": "array", "items": REASON}}},
    "How far to trust it, with every reason.",
)
CONTRACT = {
    "anchor": said(TEXT, "The name it is recovered by."),
    "entry": said(OBJECT, "Where to begin: file, symbol."),
    "next_action": maybe(TEXT, "The one thing to do next."),
    "summary": said(TEXT, "Where the work stands."),
    "handoff_text": said(TEXT, "How to go on."),
    "target_files": many(TEXT, "What to open."),
    "creates": many(TEXT, "What is to be made."),
    "acceptance_checks": many(ANY, "How to tell that it is done."),
    "must_change": LIST,
    "must_remove": LIST,
    "must_keep": LIST,
    "musts": many(OBJECT, "field, must, taken_for: unchanged, changed, absent and rule are looked at, prose is not."),
    "rollback": LIST,
    "id": TEXT,
    "scope": TEXT,
    "revision": NUMBER,
    "lint": said(OBJECT, "score, findings."),
}
CLAIM = maybe(
    {"type": "object", "properties": {"id": TEXT, "expires_at": TEXT}}, "Your claim: give its id as claim_id."
)
HANDOFF = gives("anchor", "revision", **CONTRACT)
RECOVERED_FIELDS = {
    "verdict": WORD,
    "reasons": many(REASON, "Every reason for the verdict, with `accepted`."),
    **CONTRACT,
    "standing": said(TEXT, "open, claimed, contested, finished or expired."),
    "claim": CLAIM,
    "resume": said(TEXT, "attached or lost, when the claim was asked for."),
    "evidence": many(OBJECT, "What came of the checks that were run now."),
    "checks_failed": LIST,
    "run": maybe(OBJECT, "The task's unfinished run."),
    "notes": LIST,
    "diff": said(TEXT, "How the files differ that were only edited since a session left them."),
}
RECOVERED = gives("verdict", "reasons", "anchor", **RECOVERED_FIELDS)
SETTLEMENT_FIELDS = {
    "anchor": TEXT,
    "handoff_id": TEXT,
    "revision": NUMBER,
    "outcome": said(TEXT, "completed, failed or released."),
    "by": TEXT,
    "at": TEXT,
    "score": NUMBER,
    "evidence": many(OBJECT, "What came of each check."),
    "acknowledged": LIST,
    "missing": LIST,
    "override": TEXT,
    "note": TEXT,
    "replayed": FLAG,
}
SETTLEMENT = gives("anchor", "outcome", **SETTLEMENT_FIELDS)
RUN_FIELDS = {
    "id": TEXT,
    "flow": TEXT,
    "task": TEXT,
    "scope": TEXT,
    "status": said(TEXT, "running, waiting, failed, interrupted, crashed, succeeded or aborted."),
    "phase": TEXT,
    "inputs": OBJECT,
    "result": ANY,
    "error": maybe(OBJECT, "What it died of."),
    "created_at": TEXT,
    "updated_at": TEXT,
    "origin": said(TEXT, "Of a fork: the run that it was made from."),
    "origin_step": said(TEXT, "Of a fork: the step from which on it goes its own way."),
}
WAIT_FIELDS: dict[str, dict[str, Any]] = {
    "id": TEXT,
    "run_id": TEXT,
    "type": TEXT,
    "says": said(TEXT, "The question in one line."),
    "payload": said(OBJECT, "What is shown."),
    "choices": LIST,
    "schema": maybe(OBJECT, "What an answer must look like."),
    "digest": said(TEXT, "Give it as `shown` with the answer."),
    "status": TEXT,
}
WAIT = {"type": "object", "properties": WAIT_FIELDS, "required": ["id", "run_id", "type", "says"]}
RUNS = gives(
    "runs",
    runs=many({"type": "object", "properties": RUN_FIELDS}, "The newest first."),
    more=said(FLAG, "Whether there are more: ask with a higher limit."),
)
RUN = gives(
    "id",
    "status",
    **RUN_FIELDS,
    verdict=VERDICT,
    plan=maybe(OBJECT, "Of an unfinished run: what a resume does with each step."),
    interrupts=many(WAIT, "Its open waits."),
    receipts=many(OBJECT, "The newest attempts of its steps, oldest of them first."),
    receipts_before=said(NUMBER, "How many receipts are older; ask for them with `before`."),
    failed_below=many(
        OBJECT, "Runs that it began and that failed: run_id, flow, step, error. What went wrong is there."
    ),
)
OUTCOME = gives(
    "run_id",
    "status",
    run_id=TEXT,
    status=TEXT,
    goes_on=said(FLAG, "True: the run is still going on; call run_show later."),
    verdict=VERDICT,
    result=ANY,
    error=maybe(OBJECT, "What it died of."),
    interrupts=many(WAIT, "What it waits for."),
    replayed_steps=NUMBER,
    unasked=LIST,
    replayed=said(FLAG, "True: it is the outcome of an earlier call; nothing was done now."),
    redelivered=said(FLAG, "True: it is the outcome of an earlier call, which nobody had received."),
    holder=said(TEXT, "Who runs it, when that is somebody else."),
    notes=LIST,
    stopped_by=said(TEXT, "Of an interrupted run: person, it stays so; shutdown, it goes on by itself."),
)
WAITS = gives(
    "waits",
    waits=many(WAIT, "Questions for people first."),
    left=said(NUMBER, "How many more there are."),
    contested=many(OBJECT, "Handoffs that something contests, with their verdict."),
)
ANSWERED = gives(
    "id",
    "run_id",
    **WAIT_FIELDS,
    answer=ANY,
    answered_by=TEXT,
    replayed=FLAG,
    outcome=maybe(OBJECT, "How its run stands since it went on, as run_resume gives it."),
    why_not=said(TEXT, "Why the run did not go on here; empty when it did, or was not to."),
)
DECIDED = gives("id", "status", **RUN_FIELDS, replayed=FLAG)
ARTIFACT = gives(
    "ref",
    ref=said(TEXT, "The name of this content, for good."),
    uri=said(TEXT, "The resource that has the content."),
    scope=TEXT,
    name=TEXT,
    version=NUMBER,
    size=NUMBER,
    digest=TEXT,
    media_type=TEXT,
    summary=TEXT,
    tags=LIST,
    source=OBJECT,
    stored_at=TEXT,
    replayed=said(FLAG, "True: this content was there already."),
)
PACK = gives(
    "entries",
    "tokens",
    goal=TEXT,
    scope=TEXT,
    budget=NUMBER,
    tokens=said(NUMBER, "What the entries take."),
    entries=many(OBJECT, "ref, kind, excerpt, score, why, whole, standing."),
    left_out=many(OBJECT, "reason, count, refs."),
    matched=said(FLAG, "False: nothing recorded matches, and only what is pinned is here."),
    considered=NUMBER,
)
CHECKPOINT = gives(
    "id",
    "name",
    id=TEXT,
    scope=TEXT,
    task=TEXT,
    run_id=TEXT,
    name=TEXT,
    summary=TEXT,
    refs=LIST,
    state=said(OBJECT, "The state of the task's run then."),
    phase=TEXT,
    position=NUMBER,
    actor=TEXT,
    at=TEXT,
    replayed=FLAG,
)
PAUSED = gives(
    "task",
    "handoff",
    task=TEXT,
    handoff={"type": "object", "properties": CONTRACT},
    stopping=many(TEXT, "Runs that were asked to stop."),
    notes=LIST,
    replayed=FLAG,
)
RESUMED = gives(
    "task",
    "recovered",
    "claim",
    task=TEXT,
    recovered={"type": "object", "properties": RECOVERED_FIELDS},
    claim=CLAIM,
    command=TEXT,
    replayed=FLAG,
)
COMPLETED = gives(
    "task",
    "by",
    task=TEXT,
    by=TEXT,
    at=TEXT,
    settlement=maybe({"type": "object", "properties": SETTLEMENT_FIELDS}, "How its handoff was settled."),
    shown_by=said(TEXT, "The run that shows it, when there was no handoff."),
    override=TEXT,
    notes=LIST,
    replayed=FLAG,
)
