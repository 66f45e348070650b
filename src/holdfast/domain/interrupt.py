"""Interrupts: saved waits, and the answers they take."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.errors import AnswerInvalid

CHOICES: dict[str, tuple[str, ...]] = {
    "in_doubt": ("retry", "skip", "abort"),
    "crash_loop": ("retry", "skip", "abort"),
    "inputs_changed": ("reuse", "again", "abort"),
    "partial": ("keep", "restore", "skip", "abort"),
    "limit": ("more", "continue", "abort"),
    "approval": (),
    "timer": (),
    "child": (),
}

QUESTIONS: dict[str, str] = {
    "in_doubt": "effect {step} may have happened; nobody knows",
    "crash_loop": "step {step} killed its process {crashes} times",
    "inputs_changed": "effect {step} was done before with other inputs, or elsewhere in the flow",
    "partial": "step {step} left partial work behind; {why}",
    "limit": "{step} is not satisfied after {iterations} iterations",
    "approval": "{step} waits for approval",
    "timer": "sleeps until {due}",
    "child": "child run {child} has not finished",
}

TOLD = ("approval", "limit")  # answers that the flow itself is given; the others are about a call
QUESTIONS_FOR_PEOPLE = (
    "in_doubt",
    "crash_loop",
    "inputs_changed",
    "partial",
    "limit",
    "approval",
)  # nothing but an answer settles these


@dataclass(frozen=True, slots=True)
class Interrupt:
    """One wait of a run."""

    id: str
    run_id: str
    type: str
    step: str
    payload: dict[str, Any]
    status: str  # open, answered, used, cancelled
    answer: dict[str, Any] | None
    answered_by: str
    opened_at: datetime
    due_at: datetime | None
    replayed: bool = False

    @property
    def says(self) -> str:
        """The wait in one line."""
        said = QUESTIONS[self.type].format_map({**self.payload, "step": self.step})
        probe = self.payload.get("probe")
        return f"{said}; its probe said: {probe}" if probe else said

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
        return self.step.rpartition("/")[2].partition("~")[0]

    @property
    def choices(self) -> tuple[str, ...]:
        if self.type == "inputs_changed" and self.payload.get("status") not in ("succeeded", "skipped"):
            return tuple(choice for choice in CHOICES[self.type] if choice != "reuse")  # there is nothing to reuse
        return CHOICES[self.type]


def check_answer(interrupt: Interrupt, answer: Any) -> dict[str, Any]:
    """The answer, if it fits the interrupt. Raises AnswerInvalid, and the interrupt stays open."""
    if interrupt.type == "approval":
        return _check_approval(interrupt, answer)
    choices = ", ".join(interrupt.choices) or "nothing: it ends by itself"
    if not isinstance(answer, dict) or answer.get("choice") not in interrupt.choices:
        raise AnswerInvalid(interrupt.id, 'it needs {"choice": …}', choices)
    known = {"choice", "why", "result"} if answer["choice"] == "skip" else {"choice", "why"}
    unknown = sorted(set(answer) - known)
    if unknown:
        raise AnswerInvalid(interrupt.id, f"unknown field {unknown[0]!r}", choices)
    if answer["choice"] == "skip" and "result" not in answer:
        raise AnswerInvalid(interrupt.id, "skip needs a result (null is one)", choices)
    return answer


def _check_approval(interrupt: Interrupt, answer: Any) -> dict[str, Any]:
    form = '{"approved": true} or {"approved": false, "comment": "why"}'
    if not isinstance(answer, dict) or not isinstance(answer.get("approved"), bool):
        raise AnswerInvalid(interrupt.id, "it says neither yes nor no", form)
    unknown = sorted(set(answer) - {"approved", "comment"})
    if unknown:
        raise AnswerInvalid(interrupt.id, f"unknown field {unknown[0]!r}", form)
    if not isinstance(answer.get("comment", ""), str):
        raise AnswerInvalid(interrupt.id, "the comment is no text", form)
    return answer
