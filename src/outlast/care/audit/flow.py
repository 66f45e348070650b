"""The six questions about a flow, answered from what its code or file shows. Pure: looking is done elsewhere.

The six acceptance questions about a flow or a run, and what an answer to one is made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

QUESTIONS: tuple[tuple[str, str], ...] = (
    ("Which steps can rerun?", "Rerunnable steps have no irreversible side effects or use idempotency keys"),
    ("Which steps cannot rerun?", "External writes, billing, notifications, and approvals are recorded and protected"),
    (
        "What live dependencies are needed after restore?",
        "runtime_resources keys are explicit and the restore side can reinject them",
    ),
    (
        "Where does execution continue?",
        "Pending interrupt, checkpoint state, or business phase can locate the next step",
    ),
    ("Can artifacts be trusted?", "Each artifact has source, summary, scope, and links when needed"),
    ("How is failure debugged?", "RuntimeEvent, execution snapshot, and Workspace evidence can be correlated"),
)


class AuditFinding(Struct, frozen=True):
    """Something that was found about a question: it fails it, or is only noted."""

    code: str
    subject: str  # the step, effect, run or record
    found: str
    advice: str
    fails: bool = True


class AuditQuestion(Struct, frozen=True):
    """One of the six, answered."""

    number: int
    question: str
    standard: str
    passed: bool
    evidence: tuple[str, ...]
    findings: tuple[AuditFinding, ...]


class Audit(Struct, frozen=True):
    """The six questions about one flow or run, answered from facts."""

    kind: str  # flow, run
    subject: str  # the flow's name, or the run's id
    questions: tuple[AuditQuestion, ...]

    @property
    def passed(self) -> bool:
        """Whether all six pass."""
        return all(question.passed for question in self.questions)

    @property
    def failed(self) -> tuple[int, ...]:
        """The numbers of those that do not."""
        return tuple(question.number for question in self.questions if not question.passed)


class AuditAnswer(Struct, frozen=True):
    """What was found for one question."""

    evidence: tuple[str, ...] = ()
    findings: tuple[AuditFinding, ...] = ()


def answered(kind: str, subject: str, answers: Iterable[AuditAnswer]) -> Audit:
    """An audit of six answers, in the order of the questions. A question fails by any finding that does."""
    made = [
        AuditQuestion(
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


class Unit(Struct, frozen=True):
    """A step or effect of a flow, as it looks from outside."""

    name: str
    kind: str  # step, effect
    place: str  # where it is written
    signs: tuple[str, ...] = ()  # that it cannot be repeated
    undeclared: tuple[str, ...] = ()  # writes of files that it does not declare
    writes: tuple[str, ...] = ()
    keyed: bool = False
    confirmed: bool = False
    unsafe: tuple[AuditFinding, ...] = ()  # what makes an effect's protection worthless
    injected: tuple[str, ...] = ()
    live: tuple[str, ...] = ()  # live objects that it takes from its module
    hidden: tuple[str, ...] = ()  # failures that it lets pass
    mark: str = "mark it: @effect(confirm=…)"
    declare: str = "declare them: @step(writes=[…])"
    code: str = ""  # tells two units of one name apart


class AuditedFlow(Struct, frozen=True):
    """A flow, looked at."""

    name: str
    units: tuple[Unit, ...]
    body: tuple[str, ...] = ()  # signs in the body itself, which runs again on every resume
    unsteady: tuple[tuple[str, str], ...] = ()  # what the body reads that changes, and what to use instead
    nameless: tuple[str, ...] = ()  # calls of lambdas
    unsummed: tuple[tuple[str, str], ...] = ()  # who saves artifacts without a summary, and where
    needs: tuple[str, ...] = ()  # resources that the body asks for
    secrets: tuple[str, ...] = ()  # that the flow declares
    unsaid: tuple[tuple[str, str], ...] = ()  # secrets that a step uses and the flow does not declare
    waits: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()  # what could not be looked at
    commands: bool = False  # it is a file of commands


def answers_of(seen: AuditedFlow, provided: frozenset[str] = frozenset()) -> list[AuditAnswer]:
    """The six answers."""
    return [
        _reruns(seen),
        _protected(seen),
        _needs(seen, provided),
        _continues(seen),
        _artifacts(seen),
        _debugged(seen),
    ]


def _reruns(seen: AuditedFlow) -> AuditAnswer:
    steps = [unit for unit in seen.units if unit.kind == "step"]
    plain = [unit for unit in steps if not unit.signs]
    found = [
        AuditFinding("looks_unrepeatable", unit.name, sign, f"it may run twice; {unit.mark}")
        for unit in steps
        for sign in unit.signs
    ]
    advice = "the body runs again on every resume: put it into an effect"
    found += [AuditFinding("body_acts", seen.name, sign, advice) for sign in seen.body]
    found += [_note("not_seen", seen.name, what, "look at it yourself") for what in seen.unseen]
    told = f"can rerun: {_listed(unit.name for unit in plain)}" if plain else "none that can rerun was seen"
    return AuditAnswer((told if steps else "no plain step: nothing is done twice",), tuple(found))


def _protected(seen: AuditedFlow) -> AuditAnswer:
    effects = [unit for unit in seen.units if unit.kind == "effect"]
    found = [finding for unit in seen.units for finding in unit.unsafe]
    told = []
    for unit in effects:
        if not unit.confirmed:
            advice = "a person settles it when it is in doubt; a confirm probe would do so by itself"
            found.append(_note("no_probe", unit.name, "it has no confirm probe", advice))
        key = "a key of its own" if unit.keyed else "no key"
        asked = "its probe is asked" if unit.confirmed else "a person decides"
        told.append(f"effect {unit.name}: intent on disk first; {key}; in doubt {asked}")
    told += [f"approval {name}: answered once, on record" for name in seen.waits]
    return AuditAnswer(tuple(told or ["no effects and no approvals"]), tuple(found))


def _needs(seen: AuditedFlow, provided: frozenset[str]) -> AuditAnswer:
    keys = sorted({key for unit in seen.units for key in unit.injected} | set(seen.needs))
    told = [f"resource {key}: {_provider(key, provided)}" for key in keys]
    told += [f"secret {name}: demanded before the first step" for name in seen.secrets]
    found = [
        AuditFinding("live_object", unit.name, f"it uses {live} ({unit.place})", "inject it: parameter=inject('name')")
        for unit in seen.units
        for live in unit.live
    ]
    advice = "declare it: secrets: [{}]"
    found += [AuditFinding("secret_not_declared", step, f"${name}", advice.format(name)) for step, name in seen.unsaid]
    return AuditAnswer(tuple(told or ["none: nothing live is needed"]), tuple(found))


def _provider(key: str, provided: frozenset[str]) -> str:
    return "provided by this process" if key in provided else f"to be provided: outlast.resource({key!r}, …)"


def _continues(seen: AuditedFlow) -> AuditAnswer:
    by = "ids" if seen.commands else "names and inputs"
    told = [f"steps are known by their {by}: the first call without an outcome is next"]
    told += [f"wait {name}: saved, visible, answered by its id" for name in seen.waits]
    found = [
        AuditFinding("body_changes", seen.name, what, f"it may differ on resume, and lead elsewhere; use {instead}")
        for what, instead in seen.unsteady
    ]
    advice = "define a function, or give it a name"
    found += [AuditFinding("no_name", seen.name, what, advice) for what in seen.nameless]
    codes = {(unit.name, unit.code) for unit in seen.units if unit.code}
    twice = [name for name, count in Counter(name for name, _ in codes).items() if count > 1]
    advice = "give one of them another name: @step(name=…)"
    found += [AuditFinding("name_taken", name, "two functions have this name", advice) for name in sorted(twice)]
    return AuditAnswer(tuple(told), tuple(found))


def _artifacts(seen: AuditedFlow) -> AuditAnswer:
    told = ["results are digested with their receipts; those over 32 KiB are blobs, verified when read"]
    told += [f"{unit.name} declares {_listed(unit.writes)}" for unit in seen.units if unit.writes]
    found = [
        AuditFinding("writes_not_declared", unit.name, what, unit.declare)
        for unit in seen.units
        for what in unit.undeclared
        if unit.kind == "step" or seen.commands
    ]
    advice = "save it with summary=…: what it is"
    found += [AuditFinding("no_summary", who, where, advice) for who, where in seen.unsummed]
    return AuditAnswer(tuple(told), tuple(found))


def _debugged(seen: AuditedFlow) -> AuditAnswer:
    told = ["every attempt leaves a receipt with run, step, attempt, times, error and trace id"]
    if seen.commands:
        told.append("what a command prints is its transcript, kept with the receipt")
    advice = "let it be raised, or say it in the result: what is swallowed is in no receipt"
    found = [_note("failure_hidden", unit.name, what, advice) for unit in seen.units for what in unit.hidden]
    return AuditAnswer(tuple(told), tuple(found))


def _note(code: str, subject: str, found: str, advice: str) -> AuditFinding:
    return AuditFinding(code, subject, found, advice, fails=False)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
