"""The six acceptance questions about a flow or a run, and what an answer to one is made of."""

from __future__ import annotations

from collections.abc import Iterable

from outlast.values.frozen import dataclass

QUESTIONS: tuple[tuple[str, str], ...] = (
    (
        "Which steps can rerun?",
        "Rerunnable steps have no irreversible side effects or use idempotency keys",
    ),
    (
        "Which steps cannot rerun?",
        "External writes, billing, notifications, and approvals are recorded and protected",
    ),
    (
        "What live dependencies are needed after restore?",
        "runtime_resources keys are explicit and the restore side can reinject them",
    ),
    (
        "Where does execution continue?",
        "Pending interrupt, checkpoint state, or business phase can locate the next step",
    ),
    (
        "Can artifacts be trusted?",
        "Each artifact has source, summary, scope, and links when needed",
    ),
    (
        "How is failure debugged?",
        "RuntimeEvent, execution snapshot, and Workspace evidence can be correlated",
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was found about a question: it fails it, or is only noted."""

    code: str
    subject: str  # the step, effect, run or record
    found: str
    advice: str
    fails: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """One of the six, answered."""

    number: int
    question: str
    standard: str
    passed: bool
    evidence: tuple[str, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """The six questions about one flow or run, answered from facts."""

    kind: str  # flow, run
    subject: str  # the flow's name, or the run's id
    questions: tuple[Question, ...]

    @property
    def passed(self) -> bool:
        """Whether all six pass."""
        return all(question.passed for question in self.questions)

    @property
    def failed(self) -> tuple[int, ...]:
        """The numbers of those that do not."""
        return tuple(question.number for question in self.questions if not question.passed)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found for one question."""

    evidence: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def answered(kind: str, subject: str, answers: Iterable[Answer]) -> Audit:
    """An audit of six answers, in the order of the questions. A question fails by any finding that does."""
    made = [
        Question(
            number,
            question,
            standard,
            not any(finding.fails for finding in answer.findings),
            answer.evidence,
            answer.findings,
        )
        for number, ((question, standard), answer) in enumerate(zip(QUESTIONS, answers, strict=True), start=1)
    ]
    return Audit(kind, subject, tuple(made))
