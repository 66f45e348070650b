"""Values as every door shows them in JSON, where that is more than their fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from outlast.errors import OutlastError
from outlast.handoffs.handoff import Listed
from outlast.ledger.verdict import Verdict
from outlast.operations.reading import handoff_in_order, in_order, ready, ready_text
from outlast.runs.look import Displaced
from outlast.runs.plan import Plan
from outlast.runs.receipt import Event, Receipt
from outlast.runs.run import Outcome, RunRecord
from outlast.runs.waits.interrupt import Interrupt
from outlast.secrets.find import mask as mask
from outlast.tasks.task import TaskContext, TaskPaused, TaskResumed
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.care.verify import Verification
    from outlast.commands.logs import CommandLog
    from outlast.runs.look import InboxItem
    from outlast.workspace.checkpoint import CheckpointDiff
    from outlast.workspace.recall.pack import ContextPack


class Looks(Protocol):
    """Who can look at runs: the public object, of a home or of a server."""

    def get(self, run_id: str) -> RunRecord: ...
    def events(self, run_id: str) -> list[Event]: ...
    def receipts(self, run_id: str) -> list[Receipt]: ...


def outcome_json(outcome: Outcome[Any]) -> dict[str, Any]:
    return {
        "run_id": outcome.run_id or None,
        "status": outcome.status,
        "result": jsonable(outcome.result),
        "interrupts": [wait_json(wait) for wait in outcome.interrupts],
        "error": outcome.error,
        "verdict": verdict_json(outcome.verdict),
        "replayed_steps": outcome.replayed_steps,
        "unasked": list(outcome.unasked),
        "replayed": outcome.replayed,
        "notes": list(outcome.notes),
        "redelivered": outcome.redelivered,
        "holder": outcome.holder,
        "stopped_by": outcome.stopped_by,
    }


def wait_json(wait: Interrupt) -> dict[str, Any]:
    return {**jsonable(wait), "says": wait.says, "choices": list(wait.choices), "digest": wait.digest}


def verdict_json(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {"word": verdict.word, "reasons": [reason.to_dict() for reason in verdict.reasons]}


def listed_json(one: Listed) -> dict[str, Any]:
    """One line of the list of handoffs, with its verdict."""
    return {**jsonable(one), "verdict": verdict_json(one.verdict)}


def answered_json(found: tuple[Interrupt, str | None]) -> dict[str, Any]:
    """A wait that was answered, and why its run does not go on; None when it was not to."""
    wait, why_not = found
    return {**wait_json(wait), "goes_on": why_not == "", "why_not": why_not or ""}


def inbox_json(item: InboxItem) -> dict[str, Any]:
    return {**jsonable(item), "interrupt": wait_json(item.interrupt)}


def log_json(log: CommandLog) -> dict[str, Any]:
    names = ("step", "attempt", "status", "exit", "started_at", "ended_at", "size_bytes", "incomplete", "masked")
    return {name: jsonable(getattr(log, name)) for name in names}


def pack_json(pack: ContextPack) -> dict[str, Any]:
    return {**jsonable(pack), "prompt": pack.prompt()}


def diff_json(found: CheckpointDiff) -> dict[str, Any]:
    return {**jsonable(found), "same": found.same}


def verification_json(found: Verification) -> dict[str, Any]:
    return {**jsonable(found), "ok": found.ok}


def displaced_json(one: Displaced) -> dict[str, Any]:
    """A file that gave way; its content is asked for by itself."""
    return {name: jsonable(getattr(one, name)) for name in ("run_id", "seq", "step", "path", "digest", "at")}


def failed_below(outlast: Looks, run: RunRecord) -> list[dict[str, Any]]:
    """The runs that a failed one began and that failed: what went wrong is there. With the step that failed in each."""
    if run.status != "failed":
        return []
    with suppress(OutlastError):  # what cannot be read is said elsewhere
        began = dict.fromkeys(event.child for event in outlast.events(run.id) if event.child)
        failed = [child for child in map(outlast.get, began) if child.status == "failed"]
        return [_failed(outlast, child) for child in failed]
    return []


def _failed(outlast: Looks, child: RunRecord) -> dict[str, Any]:
    bad = [each.label for each in outlast.receipts(child.id) if each.status in ("failed", "timed_out")]
    return {"run_id": child.id, "flow": child.flow, "step": bad[-1] if bad else "", "error": child.error}


def plan_json(plan: Plan, waits: Iterable[Interrupt]) -> dict[str, Any]:
    return {
        **jsonable(plan),
        "verdict": verdict_json(plan.verdict),
        "interrupts": [wait_json(wait) for wait in waits],
    }


# -- tasks: handoffs in reading order ----------------------------------------------------------------


def context_json(found: TaskContext, options: Sequence[str] = ()) -> dict[str, Any]:
    """`options`: what commands in it are given, such as where the home is; without any they stay as they are."""
    told = ready(found.handoff, options) if found.handoff and options else found.handoff
    handoff = in_order(told) if told else None
    return {**jsonable(replace(found, handoff=None)), "handoff": handoff}


def paused_json(paused: TaskPaused) -> dict[str, Any]:
    kept = {"task": paused.task, "handoff": handoff_in_order(paused.handoff), "replayed": paused.replayed}
    return kept | {"stopping": jsonable(paused.stopping), "notes": jsonable(paused.notes)}


def resumed_json(got: TaskResumed, options: Sequence[str] = ()) -> dict[str, Any]:
    """`options`: what commands in it are given, such as where the home is; without any they stay as they are."""
    recovered, command = got.recovered, got.command
    if options:
        recovered, command = ready(recovered, options), ready_text(recovered, command, options)
    kept = {"task": got.task, "claim": jsonable(got.claim), "command": command, "replayed": got.replayed}
    return kept | {"recovered": in_order(recovered)}
