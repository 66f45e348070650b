"""Values as plain JSON data, with the fields that every door gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from outlast.handoffs.reading import handoff_in_order, in_order
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.handoffs.handoff import Handoff
    from outlast.handoffs.recovered import Recovered
    from outlast.ledger.verdict import Verdict
    from outlast.runs.run import Outcome
    from outlast.runs.waits.interrupt import Interrupt


def plain(value: Any) -> Any:
    """JSON that is kept as bytes inside of a value becomes data like the rest."""
    return msgspec.json.decode(msgspec.json.encode(value))


def recovered_value(got: Recovered) -> dict[str, Any]:
    found: dict[str, Any] = plain(in_order(got))
    return found


def handoff_value(handoff: Handoff) -> dict[str, Any]:
    found: dict[str, Any] = plain(handoff_in_order(handoff))
    return found


def wait_value(wait: Interrupt) -> dict[str, Any]:
    return {**jsonable(wait), "says": wait.says, "choices": list(wait.choices), "digest": wait.digest}


def verdict_value(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {"word": verdict.word, "reasons": [reason.to_dict() for reason in verdict.reasons]}


def outcome_value(outcome: Outcome[Any]) -> dict[str, Any]:
    return {
        "run_id": outcome.run_id,
        "status": outcome.status,
        "goes_on": False,
        "verdict": verdict_value(outcome.verdict),
        "result": jsonable(outcome.result),
        "error": jsonable(outcome.error),
        "interrupts": [wait_value(wait) for wait in outcome.interrupts],
        "replayed_steps": outcome.replayed_steps,
        "unasked": list(outcome.unasked),
        "replayed": outcome.replayed,
        "redelivered": outcome.redelivered,
        "holder": outcome.holder,
        "notes": list(outcome.notes),
        "stopped_by": outcome.stopped_by,
    }
