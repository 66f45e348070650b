"""What resuming a run would do: the value, and what its ledger alone says of each call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from outlast.errors import OutlastError
from outlast.ledger.journal import CALLS, Row, decode_payload
from outlast.ledger.verdict import Reason, Verdict
from outlast.runs.call import PROBED, Call, Ledger, Past, is_poisoned
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple

ACTIONS = ("reuse", "raise_again", "retry", "confirm", "decide", "redo", "later", "leave")
SETTLED = ("effect_in_doubt", "effect_inputs_changed", "still_running")  # contest, and refuse no resume: it asks a
# person about them, or ends (or waits for) what still runs
READS = "what it reads has changed"  # why a finished step of a flow file is done anew


class PlanStep(Struct, frozen=True):
    """One call that the ledger knows, and what a resume does with it."""

    label: str
    step: str
    kind: str
    status: str
    attempts: int
    action: str  # one of ACTIONS
    why: str = ""  # of one that does not follow from its receipts alone
    choices: tuple[str, ...] = ()  # of a step in which its process died: what a person may choose
    partial: tuple[str, ...] = ()  # of a step whose files a person decides about: what `--partial` may say


class Refusal(Struct, frozen=True):
    """The error that a resume raises as things stand."""

    code: str
    detail: str
    advice: str

    @classmethod
    def of(cls, error: OutlastError) -> Refusal:
        return cls(error.code, error.detail, error.what_next)


class Plan(Struct, frozen=True):
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
    ahead: tuple[str, ...] = ()  # steps of a flow file that have no receipt yet, until it ends or has to wait
    refused: Refusal | None = None  # a resume is, as things stand

    @property
    def refusing(self) -> tuple[Reason, ...]:
        """The reasons for which a resume is refused until they are mended or accepted."""
        return tuple(reason for reason in self.verdict.contesting if reason.code not in SETTLED)

    def of(self, action: str) -> tuple[str, ...]:
        """The labels of the calls with that action."""
        return tuple(step.label for step in self.steps if step.action == action)


def action_of(past: Past, poison: int) -> str:
    """What a resume does when the body asks for this call."""
    if past.finished:
        return "raise_again" if past.ended_badly else "reuse"
    if past.in_doubt:
        return "confirm" if past.last.mark == PROBED else "decide"
    if is_poisoned(past, limit_of(past, poison)):
        return "decide"
    return "retry"


def limit_of(past: Past, otherwise: int) -> int:
    """In how many deaths a step may be alone before a person is asked: as it said when it began, if it did."""
    facts = decode_payload(past.begun).facts if past.begun and b'"crashes":' in past.begun else None
    return int(facts["crashes"]) if isinstance(facts, dict) and isinstance(facts.get("crashes"), int) else otherwise


class Action(NamedTuple):
    """What a resume does with a call, and why, if its receipts alone do not say it."""

    word: str  # one of ACTIONS
    why: str = ""
    partial: tuple[str, ...] = ()  # what may become of files that it left, where a person decides

    @classmethod
    def about_files(cls, why: str, shared: str) -> Action:
        """A person decides what becomes of what was left. Of files that parts done at once share none is put back."""
        return cls("decide", f"what it left: {why}", ("keep",) if shared else ("keep", "restore"))


class Rehearsed(NamedTuple):
    """What going through a flow file finds: of each call that the ledger knows, and which steps have no receipt yet."""

    actions: dict[Call, Action]
    ahead: tuple[str, ...]


def plan_steps(
    ledger: Ledger,
    names: Mapping[Call, str],
    poison: int,
    known: Mapping[Call, Action] | None = None,
    *,
    reused: bool = True,
) -> tuple[PlanStep, ...]:
    """Every call with its action, in the order in which the run first met them. `known`: of which more is known.

    Without the `reused` ones: only those of which more happens than that their outcome is given again.
    """
    actions = known or {}
    pasts = (past for past in ledger.calls.values() if past.kind in CALLS)
    wanted = pasts if reused else (past for past in pasts if not past.finished or past.call in actions)
    calls = sorted(wanted, key=lambda past: past.first)
    return tuple(_step(past, names[past.call], actions.get(past.call), poison) for past in calls)


def _step(past: Past, label: str, known: Action | None, poison: int) -> PlanStep:
    action = known or Action(action_of(past, poison))
    head = (label, past.call.step, past.kind, past.status, past.attempts)
    return PlanStep(*head, action.word, action.why, partial=action.partial)


def state_of(rows: Iterable[Row]) -> dict[str, Any]:
    """The run's state as of its last entry, folded from what body and steps wrote."""
    state: dict[str, Any] = {}
    for row in rows:
        told = row.kept
        if type(told) is not bytes or b'te":' not in told or not (b'"state":' in told or b'"wrote":' in told):
            continue  # of most entries one look is enough
        payload = decode_payload(told)
        last = payload.facts.get("state", {}) if isinstance(payload.facts, dict) else {}
        written = {**(payload.state or {}), **(payload.wrote or {})}
        for name, kept in [*((name, decode(bytes(raw))) for name, raw in written.items()), *last.items()]:
            if kept:
                state[name] = kept[0]
            else:
                state.pop(name, None)
    return state
