"""What resuming would do: the verdict with its reasons, each known step with its action, the waits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from shlex import join

from outlast.doors.cli.door import Door
from outlast.doors.cli.render import STYLES, brief, emit, say, table
from outlast.doors.cli.ways import say_waits, say_ways, step_ways
from outlast.errors import RunSealed
from outlast.ledger.verdict import Reason, Verdict, unaccepted
from outlast.python.shown import plan_json
from outlast.runs.plan import SETTLED, Plan, PlanStep
from outlast.runs.run import RunRecord
from outlast.runs.waits.interrupt import Interrupt

ACTIONS = {
    "reuse": "reuse its receipt",
    "raise_again": "raise its failure again",
    "retry": "run it again",
    "confirm": "ask its confirm probe",
    "decide": "wait for your decision",
    "redo": "do it anew",
    "later": "not come to it yet",
    "leave": "leave its receipt as it is",
}
DECIDED_BY_WAYS = ("effect_in_doubt", "effect_inputs_changed")  # a person decides; the ways on follow
SHOWN = 50


def say_plan(door: Door, run: RunRecord, plan: Plan, waits: Iterable[Interrupt], asked: Sequence[str] = ()) -> int:
    """Render a plan. Nothing was run or written for it. `asked`: the other words of the command it is the plan of."""
    waits = tuple(waits)
    if door.json:
        emit({**plan_json(plan, waits), "status": run.status})
        return 0
    say(f"resuming run {run.id} ({run.status}){' with ' + join(asked) if asked else ''} would:")
    say_actions(plan)
    say()
    say_verdict(plan.verdict, door=door)
    if plan.resources:
        say(f"needs: {', '.join(plan.resources)}")
    say_next(door, run, plan, waits, asked)
    return 0


def say_next(door: Door, run: RunRecord, plan: Plan, waits: tuple[Interrupt, ...], asked: Sequence[str] = ()) -> None:
    """What a person does next with a run that nobody holds."""
    if run.seal:
        say(str(RunSealed(run.id, run.seal)))
        return
    undecided = plan.of("decide")
    refused = [reason for reason in plan.verdict.contesting if reason.code not in SETTLED]
    if plan.refused is not None and plan.refused.code != "contested":
        say(f"a resume is refused ({plan.refused.code}): {plan.refused.detail}", "yellow")
        if plan.refused.advice:
            say(plan.refused.advice)
    elif plan.refused is not None:
        taken = [word for reason in refused for word in ("--accept", f"{reason.code}:{reason.subject}")]
        say(f"mend that, or take it upon you: {door.command('resume', run.id, *asked, *taken, '--why', 'WHY')}")
    elif asked:
        say(f"do it: {door.command('resume', run.id, *asked)}")
    elif waits:
        say_waits(door, run.id, waits)
    elif undecided:
        say_doubts(door, run.id, undecided)
    else:
        say_crashed(door, run.id, plan.steps)
        say(f"continue: {door.command('resume', run.id)}")


def say_actions(plan: Plan) -> None:
    """What a resume does with each call that the ledger knows."""
    if not plan.steps:
        say("  start at the first step: none has left a receipt yet")
        return
    shown = plan.steps[-SHOWN:]
    if len(plan.steps) > SHOWN:
        say(f"… {len(plan.steps) - SHOWN:,} earlier steps, see `outlast receipts {plan.run_id}`")
    rows = [(step.label, step.kind, _status(step), step.attempts, ACTIONS[step.action]) for step in shown]
    table(("STEP", "KIND", "STATUS", "ATTEMPTS", "A RESUME WILL"), rows)
    for step in shown:
        if step.why:
            say(f"{step.label}: {step.why}")
    ahead = [*plan.ahead[:SHOWN], f"{len(plan.ahead) - SHOWN:,} more"] if len(plan.ahead) > SHOWN else plan.ahead
    say(f"then run: {', '.join(ahead)}" if ahead else "then run what comes after them")


def say_verdict(
    verdict: Verdict,
    unsaid: Iterable[str] = DECIDED_BY_WAYS,
    accepted: Collection[str] = (),
    door: Door | None = None,
) -> None:
    """The verdict, a row for each reason, and the advice on it; that on `unsaid` codes is given elsewhere."""
    say_word(verdict, accepted)
    if verdict.reasons:
        rows = [(r.code, _weight(r, accepted), r.subject, brief(r.expected, 24), r.found) for r in verdict.reasons]
        table(("REASON", "WEIGHT", "SUBJECT", "EXPECTED", "FOUND"), rows)
    for reason in verdict.reasons:
        if reason.code not in unsaid and reason.fingerprint not in accepted:
            say(f"{reason.code} {reason.subject}: {door.pasted(reason.advice) if door else reason.advice}")


def say_word(verdict: Verdict, accepted: Collection[str]) -> None:
    """The verdict in a word, and whether somebody took all that contests upon himself."""
    taken = bool(verdict.contesting) and not unaccepted(verdict, accepted)
    word = f"{verdict.word}, and what contests it was accepted" if taken else verdict.word
    say(f"verdict: {word}", STYLES["candidate" if taken else verdict.word])


def _weight(reason: Reason, accepted: Collection[str]) -> str:
    return "accepted" if reason.fingerprint in accepted else reason.weight


def _status(step: PlanStep) -> str:
    return "did not end" if step.status == "started" else step.status


def say_crashed(door: Door, run_id: str, steps: Iterable[PlanStep]) -> None:
    """The three ways on from a step that was under way when its process died."""
    for step in steps:
        if step.choices:
            say(died_in(step), "yellow")
            say_ways(step_ways(door, run_id, step.label, "once more", "without it", ("--resume",)))


def died_in(step: PlanStep) -> str:
    """A step that was under way when its process died, in a line."""
    return f"step {step.label} did not end: its process died in attempt {step.attempts}"


def say_doubts(door: Door, run_id: str, labels: Iterable[str]) -> None:
    """The three ways on for work in doubt that no owner has opened a wait for yet."""
    for label in labels:
        say(f"in doubt: {label} began and nobody knows whether it happened", "yellow")
        say_ways(step_ways(door, run_id, label, "not done, do it", "done, go on"))
    say(f"then continue: {door.command('resume', run_id)}")
