"""Interrupts: saved waits, and the answers they take.

Some are about a call of the run itself (an effect in doubt, partial work): their answers are choices. The others are
what the flow asks of the world outside: a person, a signal. Those may have any name; the flow is given their answers.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from outlast import errors
from outlast.ledger.journal import BY_THEMSELVES, OF_A_CALL
from outlast.ledger.journal import RESERVED as RESERVED
from outlast.values.codec import decode, encode, identity

if TYPE_CHECKING:
    from outlast.store.contract import InterruptRow

CHOICES: dict[str, tuple[str, ...]] = {
    "in_doubt": ("retry", "skip", "abort"),
    "crash_loop": ("retry", "skip", "abort"),
    "inputs_changed": ("reuse", "again", "abort"),
    "partial": ("keep", "restore", "skip", "abort"),
    "limit": ("more", "continue", "abort"),
    "timer": (),
    "child": (),
}

QUESTIONS: dict[str, str] = {
    "in_doubt": "effect {step} may have happened; nobody knows",
    "crash_loop": "the process died {crashes} times in step {step}",
    "inputs_changed": "effect {step} was done before with other inputs, or elsewhere in the flow",
    "partial": "step {step} left partial work behind; {why}",
    "limit": "{step} is not satisfied after {iterations} iterations",
    "timer": "sleeps until {due}",
    "child": "child run {child} has not finished",
    "signal": "waits for the signal {name}",
}

INTERRUPT_TYPES = (*CHOICES, "signal", "approval")  # those that have a name of ours
RETRY, DEADLINE = "run.retry", "run.deadline"  # timers of the run itself, which no call of its body waits for
OF_THE_RUN: dict[str, str] = {
    RETRY: "the run is tried again at {due}, {retry} of {of}, after {error}",
    DEADLINE: "the run is to be done by {due}",
}

NO_DEFAULT: Any = object()  # a wait without one
BY_DEADLINE = "deadline"  # who answered, when nobody did in time


def is_told(kind: str) -> bool:
    """Whether the flow itself is given the answer."""
    return kind not in OF_A_CALL and kind not in ("timer", "child")


def is_for_people(kind: str) -> bool:
    """Whether nothing but a person's answer settles it."""
    return kind not in BY_THEMSELVES


_OF_A_MAP = r"(?:^|/)([^/~]+)\[\d+\]/\1(?:~|$)"


class _QuestionFacts(dict[str, Any]):
    """What a question shows; of what is not there, a mark."""

    def __missing__(self, name: str) -> str:
        return "?"


class Interrupt(Struct, frozen=True):
    """One wait of a run."""

    id: str
    run_id: str
    type: str
    step: str
    payload: dict[str, Any]
    status: str  # open, answered, used, cancelled
    answer: Any
    answered_by: str
    opened_at: datetime
    due_at: datetime | None
    replayed: bool = False
    schema: dict[str, Any] | None = None  # what an answer must look like
    default: Any = None  # what counts as the answer once the deadline has passed
    has_default: bool = False
    assignee: str = ""
    reason: str = ""  # why it was cancelled
    by_flow: bool = False  # asked by a flow in Python: whatever is answered, the flow is told
    call: str = ""  # which call of the run waits: the same in its receipts and events

    @property
    def says(self) -> str:
        """The wait in one line."""
        if self.status == "damaged":
            return f"{self.step}: damaged: {self.reason}"
        if self.type not in QUESTIONS:
            asked = self.payload.get("question") or self.payload.get("message")
            is_said = isinstance(asked, str) and asked
            return f"{self.step}: {asked}" if is_said else f"{self.step} waits for {_an(self.type)}"
        text = OF_THE_RUN.get(self.step, QUESTIONS[self.type]) if self.type == "timer" else QUESTIONS[self.type]
        said = text.format_map(_QuestionFacts(self.payload, step=self.step))
        said += "; its record is damaged" if self.payload.get("record") == "damaged" else ""
        probe = self.payload.get("probe")
        return f"{said}; its probe said: {probe}" if probe else said

    @property
    def is_for_people(self) -> bool:
        """Whether nothing but a person's answer settles it."""
        return is_for_people(self.type)

    @property
    def is_built_in(self) -> bool:
        """Whether its type is one of the runtime's, and not a question that the flow itself asks."""
        return self.type in RESERVED

    @property
    def is_overdue(self) -> bool:
        """Whether its deadline has passed: nobody can answer it any more."""
        return self.due_at is not None and is_told(self.type) and self.due_at <= datetime.now(UTC)

    @property
    def is_answered_by_deadline(self) -> bool:
        """Whether nobody answered in time, and its default or the want of one is the answer."""
        return self.answered_by == BY_DEADLINE

    @property
    def digest(self) -> str:
        """What an answer is bound to: what was asked, with what was shown."""
        return digest_of(self.type, self.payload)

    @property
    def inputs(self) -> str:
        """What the call that waits was given, as text; empty when there is nothing to show."""
        given = self.payload.get("inputs", "")
        if not isinstance(given, dict):
            return str(given)
        return ", ".join(f"{name}={value!r}" for name, value in given.items())

    @property
    def name(self) -> str:
        """The name of the step that waits, without scope and number."""
        mapped = re.search(_OF_A_MAP, self.step)  # its item's key may have any of these signs
        return mapped[1] if mapped else self.step.rpartition("/")[2].partition("~")[0]

    @property
    def choices(self) -> tuple[str, ...]:
        """What a wait about a call may be answered with; none where the flow itself asked."""
        if self.type not in CHOICES:
            return ()
        if self.type == "inputs_changed" and self.payload.get("status") not in ("succeeded", "skipped"):
            return tuple(choice for choice in CHOICES[self.type] if choice != "reuse")  # there is nothing to reuse
        left = self.payload.get("left")
        if self.type == "partial" and isinstance(left, dict) and left.get("shared"):
            return tuple(choice for choice in CHOICES[self.type] if choice != "restore")  # nobody knows whose it is
        return CHOICES[self.type]


def digest_of(kind: str, payload: Any) -> str:
    """The digest of a question."""
    return identity(encode([kind, payload]))


def check_answer(interrupt: Interrupt, answer: Any) -> Any:
    """The answer, if it fits the interrupt. Raises AnswerInvalid, and the interrupt stays open."""
    if interrupt.type not in CHOICES:
        return _check_told(interrupt, answer)
    choices = ", ".join(interrupt.choices) or "nothing: it ends by itself"
    if not isinstance(answer, dict) or answer.get("choice") not in interrupt.choices:
        raise errors.AnswerInvalid(interrupt.id, 'it needs {"choice": …}', choices)
    known = {"choice", "why", "result"} if answer["choice"] == "skip" else {"choice", "why"}
    unknown = sorted(set(answer) - known)
    if unknown:
        raise errors.AnswerInvalid(interrupt.id, f"unknown field {unknown[0]!r}", choices)
    if answer["choice"] == "skip" and "result" not in answer:
        raise errors.AnswerInvalid(interrupt.id, "skip needs a result (null is one)", choices)
    return answer


def _check_told(interrupt: Interrupt, answer: Any) -> Any:
    """An answer to the flow's own question, against its schema; an approval says yes or no."""
    if interrupt.type == "signal":
        send = f"outlast signal {interrupt.payload.get('name')} JSON --run {interrupt.run_id}"
        raise errors.AnswerInvalid(interrupt.id, "it waits for a signal", f"none: send the signal, `{send}`")
    from outlast.values.schema import APPROVAL, wrong_with

    schema = APPROVAL if interrupt.type == "approval" else interrupt.schema
    if wrong := wrong_with(schema, answer) if schema is not None else "":
        form = '{"approved": true} or {"approved": false, "comment": "why"}'
        raise errors.AnswerInvalid(
            interrupt.id, wrong, form if interrupt.type == "approval" else encode(schema).decode()
        )
    return answer


def is_late(wait: InterruptRow, at: int) -> bool:
    """Whether nobody has answered and the deadline has passed."""
    return wait.status == "open" and wait.due_at is not None and wait.due_at <= at and is_told(wait.type)


def in_time(wait: InterruptRow, at: int) -> InterruptRow:
    """The wait; one whose deadline has passed is answered by its default, or by nothing."""
    if not is_late(wait, at):
        return wait
    form = decode(wait.form)
    default = encode(form["default"]).decode() if "default" in form else None
    return wait._replace(status="answered", answer=default, answered_by=BY_DEADLINE)


def _an(word: str) -> str:
    return f"an {word}" if word[:1] in "aeiou" and word != "approval" else word
