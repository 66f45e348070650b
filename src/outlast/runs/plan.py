"""What resuming a run would do, from its ledger alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any

from outlast.ledger.journal import CALLS, Row, decode_payload
from outlast.ledger.verdict import Verdict
from outlast.runs.call import Call, Ledger, Past, is_poisoned
from outlast.values.codec import decode
from outlast.values.frozen import dataclass

ACTIONS = ("reuse", "raise_again", "retry", "confirm", "decide")


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One call that the ledger knows, and what a resume does with it."""

    label: str
    step: str
    kind: str
    status: str
    attempts: int
    action: str  # one of ACTIONS
    choices: tuple[str, ...] = ()  # of a step in which its process died: what a person may choose


@dataclass(frozen=True, slots=True)
class Plan:
    """What a resume would do: nothing is run or written to make it."""

    run_id: str
    flow: str
    status: str
    verdict: Verdict
    steps: tuple[PlanStep, ...]
    resources: tuple[str, ...] = ()
    code_changed: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)

    def of(self, action: str) -> tuple[str, ...]:
        """The labels of the calls with that action."""
        return tuple(step.label for step in self.steps if step.action == action)


def action_of(past: Past, poison: int) -> str:
    """What a resume does when the body asks for this call."""
    if past.finished:
        return "raise_again" if past.ended_badly else "reuse"
    if past.in_doubt:
        return "confirm" if past.last.mark == "probed" else "decide"
    if is_poisoned(past, limit_of(past, poison)):
        return "decide"
    return "retry"


def limit_of(past: Past, otherwise: int) -> int:
    """In how many deaths a step may be alone before a person is asked: as it said when it began, if it did."""
    facts = decode_payload(past.begun).facts if past.begun and b'"crashes":' in past.begun else None
    return int(facts["crashes"]) if isinstance(facts, dict) and isinstance(facts.get("crashes"), int) else otherwise


def plan_steps(
    ledger: Ledger, names: Mapping[Call, str], poison: int, asked: Collection[Call] = ()
) -> tuple[PlanStep, ...]:
    """Every known call with its action, in the order in which the run first met them. `asked`: a person is."""
    known = sorted((past for past in ledger.calls.values() if past.kind in CALLS), key=lambda past: past.first)
    return tuple(
        PlanStep(
            label=names[past.call],
            step=past.call.step,
            kind=past.kind,
            status=past.last.status,
            attempts=past.attempts,
            action="decide" if past.call in asked else action_of(past, poison),
        )
        for past in known
    )


def state_of(rows: Iterable[Row]) -> dict[str, Any]:
    """The run's state as of its last entry, folded from what body and steps wrote."""
    state: dict[str, Any] = {}
    for row in rows:
        if row.payload is None or (b'"state":' not in row.payload and b'"wrote":' not in row.payload):
            continue
        payload = decode_payload(row.payload)
        last = payload.facts.get("state", {}) if isinstance(payload.facts, dict) else {}
        written = {**(payload.state or {}), **(payload.wrote or {})}
        for name, kept in [*((name, decode(bytes(raw))) for name, raw in written.items()), *last.items()]:
            if kept:
                state[name] = kept[0]
            else:
                state.pop(name, None)
    return state
