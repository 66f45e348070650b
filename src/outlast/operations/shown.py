"""Values as every door shows them in JSON: HTTP, `--json` and tools render an answer here, and nowhere else.

Mostly a value is its fields. `HOW` says of some what they show beside those, what they leave out, and which parts are
shown in their own way; `answers.py` makes the shapes for OpenAPI from the same table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

from outlast.errors import OutlastError
from outlast.values.codec import decode, encode, jsonable
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.handoffs.difference import Difference
    from outlast.ledger.verdict import Verdict
    from outlast.operations import reading
    from outlast.runs.plan import Plan
    from outlast.runs.receipt import Event, Receipt
    from outlast.runs.run import Outcome, RunRecord
    from outlast.runs.waits.interrupt import Interrupt
else:
    reading = late("outlast.operations.reading")  # only of handoffs


class Rendering(NamedTuple):
    """How a value is shown."""

    beside: tuple[str, ...] = ()  # what it knows of itself, beside its fields
    without: tuple[str, ...] = ()  # fields that are nobody's business
    parts: tuple[str, ...] = ()  # fields that are shown as this module says, and not as they are
    spread: str = ""  # a field whose own fields stand in its place


class ShownRun(Struct, frozen=True):
    """A run; of a failed one the child runs in which it went wrong."""

    run: RunRecord
    failed_below: Sequence[dict[str, Any]] = ()


class ShownPlan(Struct, frozen=True):
    """What a resume would do, and what the run waits for."""

    plan: Plan
    interrupts: Sequence[Interrupt] = ()


class AnsweredWait(Struct, frozen=True):
    """A wait that was answered, and whether its run goes on here."""

    interrupt: Interrupt
    goes_on: bool = False
    why_not: str = ""


class StepNow(Struct, frozen=True):
    """How a step stands, in brief: the last attempt, and what its command left. Its receipts have all of it."""

    label: str
    kind: str
    agent: str
    status: str
    attempts: int
    exit: int | None
    left: Any
    masked: int
    stragglers: Sequence[Any]
    inputs: dict[str, Any]
    started_at: datetime
    ended_at: datetime | None
    error: dict[str, Any] | None
    broken: str

    @classmethod
    def of(cls, last: Receipt) -> StepNow:
        """Of its last receipt."""
        facts = {"exit": None, "left": None, "masked": 0, "stragglers": []} | dict(last.facts)
        told = {name: getattr(last, name) if name not in facts else facts[name] for name in OF_STEP}
        return cls(attempts=last.attempt, **told)


OF_STEP = [name for name in StepNow.__struct_fields__ if name != "attempts"]
HOW = {  # by the name of the class: one name, one idea
    "AnsweredWait": Rendering(spread="interrupt"),
    "Audit": Rendering(("passed",)),
    "CheckpointDiff": Rendering(("same",)),
    "CommandLog": Rendering(without=("read",)),
    "ContextPack": Rendering(("prompt",)),
    "Displaced": Rendering(without=("read",)),
    "InboxItem": Rendering(parts=("interrupt",)),
    "Interrupt": Rendering(("says", "choices", "digest")),
    "Listed": Rendering(parts=("verdict",)),
    "Outcome": Rendering(without=("exception", "inputs_changed"), parts=("interrupts", "verdict")),
    "Plan": Rendering(parts=("verdict",)),
    "ShownPlan": Rendering(parts=("interrupts",), spread="plan"),
    "ShownRun": Rendering(spread="run"),
    "Swept": Rendering(("nothing",)),
    "TaskContext": Rendering(parts=("handoff",)),
    "TaskPaused": Rendering(("replayed",), parts=("handoff",)),
    "TaskResumed": Rendering(("replayed",), parts=("recovered",)),
    "TimelineItem": Rendering(("seconds",)),
    "Verification": Rendering(("ok",)),
    "Why": Rendering(("left_out",)),
}


def shown(value: Any) -> Any:
    """A value, or a list of them, as JSON on every door. Packets keep their bytes."""
    if isinstance(value, list) or type(value) is tuple:
        return [shown(each) for each in value]
    if (whole := WHOLE.get(type(value).__name__)) is not None:
        return whole(value)
    how = HOW.get(type(value).__name__)
    return jsonable(value) if how is None else dict(_parts(value, how))


def shown_json(value: Any) -> bytes:
    """The same as JSON text."""
    return reading.handoff_json(value) if type(value).__name__ == "Handoff" else encode(shown(value))


def _parts(value: Any, how: Rendering) -> Iterator[tuple[str, Any]]:
    for name in field_names(type(value)):
        if name == how.spread:
            yield from shown(getattr(value, name)).items()
        elif name not in how.without:
            yield name, (shown if name in how.parts else jsonable)(getattr(value, name))
    for name in how.beside:
        known = getattr(value, name)
        yield name, jsonable(known() if callable(known) else known)


def field_names(kind: type) -> Sequence[str]:
    """The fields of a value's class."""
    found: Sequence[str] | None = getattr(kind, "__struct_fields__", None)
    return found if found is not None else [each.name for each in dataclasses.fields(kind)]


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"word": verdict.word, "reasons": [reason.to_dict() for reason in verdict.reasons]}


def _outcome(outcome: Outcome[Any]) -> dict[str, Any]:
    return dict(_parts(outcome, HOW["Outcome"])) | {"run_id": outcome.run_id or None}


def _difference(found: Difference) -> dict[str, Any]:
    """Packets in it are read by people."""
    return {"same": found.same, **decode(encode(found))}


WHOLE: dict[str, Callable[[Any], dict[str, Any]]] = {  # in an order, or a form, of their own
    "Difference": _difference,
    "Handoff": lambda handoff: reading.handoff_in_order(handoff),
    "Outcome": _outcome,
    "Recovered": lambda recovered: reading.in_order(recovered),
    "Verdict": _verdict,
}


# -- what went wrong in a run that failed ------------------------------------------------------------


class Looks(Protocol):
    """Who can look at runs: the public object, of a home or of a server."""

    def get(self, run_id: str) -> RunRecord: ...
    def events(self, run_id: str) -> list[Event]: ...
    def receipts(self, run_id: str) -> list[Receipt]: ...


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
