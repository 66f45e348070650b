"""How a run stands after `run` or `resume`, and what to do next.

What resuming would do: the verdict with its reasons, each known step with its action, the waits. And what
`outlast run --dry-run` says that the same command without it would do: nothing is run or written, no home is made.

`outlast steps`: what a flow consists of, before anything of it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from shlex import join
from signal import SIGHUP, SIGINT
from typing import TYPE_CHECKING, Any

import click

from outlast.doors.cli import late
from outlast.doors.cli.entry import INTERRUPTED, exit_code_of, failed_command, is_declined, trouble
from outlast.doors.cli.invocation import Invocation, command
from outlast.doors.cli.render import (
    STYLES,
    brief,
    counted,
    document,
    emit,
    has_lines,
    inline,
    note,
    say,
    say_all,
    table,
    terminal_columns,
    turned_away,
    width,
)
from outlast.doors.cli.waits import died_in, files_ways, say_waits, say_ways, step_ways
from outlast.errors import CommandFailed, EmbeddedOnly, HomeNotFound, OutlastError, RunSealed, StepTimedOut
from outlast.values.ambient import own_place

if TYPE_CHECKING:
    from outlast import Interrupt, Outcome, Outlast, Plan, PlanStep, RunRecord, Verdict
    from outlast.python.decorators import Flow, FlowFile
    from outlast.python.named_flows import DryRun, FlowStep, FlowSteps
    from outlast.python.shared import Options


def say_outcome(call: Invocation, outcome: Outcome[Any], signal: int = 0) -> int:
    """Render an outcome; the exit code it stands for."""
    if outcome.status == "interrupted" and signal and not outcome.stopped_by:  # it was ended by an exception
        outcome = replace(outcome, stopped_by="person" if signal == SIGINT else "shutdown")
    with suppress(OSError) if signal == SIGHUP else nullcontext():  # the terminal is gone, and nobody reads this
        call.tell(outcome) if call.json else _say(call, outcome)
        sys.stdout.flush()
    code = exit_code_of(outcome)
    return 128 + signal if signal and code in (1, INTERRUPTED) else code


def _say(call: Invocation, outcome: Outcome[Any]) -> None:
    if not outcome.run_id:
        say("interrupted before the run began; run the same command again", "yellow")
        return
    say(f"run {outcome.run_id} {outcome.status}", STYLES.get(outcome.status, ""))
    if outcome.replayed:
        say("it has happened before, so nothing was done now; to have it happen once more: --again")
    if "code_changed" in outcome.notes:
        say("its code has changed since: this is what it came to then")
    if "result_pruned" in outcome.notes:
        say("its result was removed by gc, and is not known any more")
    if outcome.replayed_steps:
        say(f"reused: {counted(outcome.replayed_steps, 'finished step')} from receipts, not repeated")
    changed = [one.subject for one in outcome.verdict.reasons if one.code == "code_changed"] if outcome.verdict else []
    if changed:
        say(f"changed since they were done, reused as they are: {', '.join(changed)}")
    if outcome.unasked:
        say(f"never asked for again: {', '.join(outcome.unasked)}")
    match outcome.status:
        case "succeeded":
            say_result(outcome.result)
        case "waiting":
            say_waits(call, outcome.run_id, outcome.interrupts)
        case "aborted":
            say_aborted(outcome.status, outcome.error)
        case "failed":
            _say_failure(call, outcome)
        case _:
            say(how_to_go_on(outcome.stopped_by, call.command("resume", outcome.run_id)))


def how_to_go_on(stopped_by: str, command: str) -> str:
    """What becomes of a run that was stopped, and how to go on with it now."""
    if stopped_by == "shutdown":
        return f"stopped by a shutdown: it goes on by itself, with the next tick or server; now: {command}"
    return f"continue: the same command again, or {command}"


def say_result(result: Any) -> None:
    """A result: text as it is, everything else as JSON."""
    if isinstance(result, str) and "\n" in result:
        say("result:")
        say_all(result, "  ")
    elif has_lines(result):
        for line in document("result", result):
            say(line)
    elif result not in (None, {}):  # a flow of commands none of which gave a result
        say(f"result: {inline(result)}")


def say_aborted(status: str, error: dict[str, Any] | None) -> None:
    """Why somebody ended the run."""
    known = error or {}
    if is_declined(status, error):
        say(f"declined by {known.get('by', '')}: {known.get('message', '')}", "yellow")
    else:
        say(f"why: {known.get('message', '')}")


def say_error(error: dict[str, Any]) -> None:
    """What a run or a step died of."""
    kind = str(error.get("type", "")).rpartition(":")[2]
    first, *others = trouble(error).splitlines() or [""]
    say(f"error: {kind}: {first}" if first else f"error: {kind}", "red")
    for line in others:
        say(f"  {line}")


def say_trace(error: dict[str, Any]) -> None:
    """Where a recorded error came from. Marks under a line are left out where that line is broken."""
    before = ""
    for line in str(error.get("trace", "")).rstrip().splitlines():
        if not (set(line.strip()) <= set("^~") and sys.stdout.isatty() and width(before) > terminal_columns() - 2):
            say_all(line, "  ")
        before = line


def _say_failure(call: Invocation, outcome: Outcome[Any]) -> None:
    say_error(outcome.error or {})
    several = isinstance(outcome.exception, ExceptionGroup)
    for each in outcome.exception.exceptions if isinstance(outcome.exception, ExceptionGroup) else ():
        say(f"  {each.detail if isinstance(each, OutlastError) else each}")
    place = own_place(outcome.exception)
    if place and not several:
        say(f"at: {place}")
    for step in _commands(outcome):
        say(f"its output: {call.command('logs', outcome.run_id, step)}")
    say(f"mend the cause, then go on at the failure: {call.command('resume', outcome.run_id)}")


def _commands(outcome: Outcome[Any]) -> list[str]:
    """The steps whose commands made the run fail."""
    error = outcome.exception
    failures = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
    # without code of the user: of commands
    kinds = CommandFailed if own_place(error) else (CommandFailed, StepTimedOut)
    return [str(each.step) for each in failures if isinstance(each, kinds)] or failed_command(outcome.error or {})


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


def say_plan(
    call: Invocation, run: RunRecord, plan: Plan, waits: Iterable[Interrupt], asked: Sequence[str] = ()
) -> int:
    """Render a plan. Nothing was run or written for it. `asked`: the other words of the command it is the plan of."""
    waits = tuple(waits)
    if call.json:
        call.tell(late.shown.ShownPlan(plan, waits), status=run.status)
        return 0
    say(f"resuming run {run.id} ({run.status}){' with ' + join(asked) if asked else ''} would:")
    say_actions(plan)
    say()
    say_verdict(plan.verdict, call=call)
    if plan.resources:
        say(f"needs: {', '.join(plan.resources)}")
    say_next(call, run, plan, waits, asked)
    return 0


def say_next(
    call: Invocation, run: RunRecord, plan: Plan, waits: tuple[Interrupt, ...], asked: Sequence[str] = ()
) -> None:
    """What a person does next with a run that nobody holds."""
    if run.seal:
        say(str(RunSealed(run.id, run.seal)))
        return
    undecided = [step for step in plan.steps if step.action == "decide"]
    if plan.refused is not None and plan.refused.code != "contested":
        say(f"a resume is refused ({plan.refused.code}): {plan.refused.detail}", "yellow")
        if plan.refused.advice:
            say(plan.refused.advice)
    elif plan.refused is not None:
        taken = [word for reason in plan.refusing for word in ("--accept", f"{reason.code}:{reason.subject}")]
        say(f"mend that, or take it upon you: {call.command('resume', run.id, *asked, *taken, '--why', 'WHY')}")
    elif asked:
        say(f"do it: {call.command('resume', run.id, *asked)}")
    elif waits:
        say_waits(call, run.id, waits)
    elif undecided:
        say_doubts(call, run.id, undecided)
    else:
        say_crashed(call, run.id, plan.steps)
        say(f"continue: {call.command('resume', run.id)}")


def say_actions(plan: Plan) -> None:
    """What a resume does with each call that the ledger knows."""
    if not plan.steps:
        say("  start at the first step: none has left a receipt yet")
        return
    shown = plan.steps[-SHOWN:]
    if len(plan.steps) > SHOWN:
        say(f"… {len(plan.steps) - SHOWN:,} earlier steps, see `outlast receipts {plan.run_id}`")
    status = {"started": "did not end"}
    rows = [(s.label, s.kind, status.get(s.status, s.status), s.attempts, ACTIONS[s.action]) for s in shown]
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
    call: Invocation | None = None,
) -> None:
    """The verdict, a row for each reason, and the advice on it; that on `unsaid` codes is given elsewhere."""
    say_word(verdict, accepted)
    if verdict.reasons:
        rows = []
        for each in verdict.reasons:
            weight = "accepted" if each.fingerprint in accepted else each.weight
            rows.append((each.code, weight, each.subject, brief(each.expected, 24), each.found))
        table(("REASON", "WEIGHT", "SUBJECT", "EXPECTED", "FOUND"), rows)
    for reason in verdict.reasons:
        if reason.code not in unsaid and reason.fingerprint not in accepted:
            say(f"{reason.code} {reason.subject}: {call.pasted(reason.advice) if call else reason.advice}")


def say_word(verdict: Verdict, accepted: Collection[str]) -> None:
    """The verdict in a word, and whether somebody took all that contests upon himself."""
    taken = bool(verdict.contesting) and not verdict.unaccepted(accepted)
    word = f"{verdict.word}, and what contests it was accepted" if taken else verdict.word
    say(f"verdict: {word}", STYLES["candidate" if taken else verdict.word])


def say_crashed(call: Invocation, run_id: str, steps: Iterable[PlanStep]) -> None:
    """The three ways on from a step that was under way when its process died."""
    for step in steps:
        if step.choices:
            say(died_in(step), "yellow")
            say_ways(step_ways(call, run_id, step.label, "once more", "without it", ("--resume",)))


def say_doubts(call: Invocation, run_id: str, steps: Iterable[PlanStep]) -> None:
    """The ways on for what a resume would ask about, and no owner has opened a wait for yet."""
    for step in steps:
        if step.kind == "effect":
            say(f"in doubt: {step.label} began and nobody knows whether it happened", "yellow")
            say_ways(step_ways(call, run_id, step.label, "not done, do it", "done, go on"))
        elif step.partial:
            say(
                f"step {step.label} left files: a resume asks what becomes of them, unless you say it at once", "yellow"
            )
            say_ways(files_ways(call, run_id, step))
        else:
            say(died_in(step), "yellow")
            say_ways(step_ways(call, run_id, step.label, "once more", "without it"))
    say(f"then continue: {call.command('resume', run_id)}")


def say_dry_run(
    call: Invocation, flow: Flow[..., Any] | FlowFile, given: dict[str, Any], options: Options, words: Sequence[str]
) -> int:
    """Look, and say what would happen. Raises what the run would, EmbeddedOnly at a server."""
    if late.shared.url_of(call.home):
        raise EmbeddedOnly("run --dry-run", "look at a run: `outlast resume RUN --dry-run`")
    try:
        opened = call.open()
    except HomeNotFound:  # nothing was ever run here
        begun = late.named_flows.DryRun(late.named_flows.START, options.task or "")
        return _say_start(call, flow.steps(), begun, words)
    with opened as outlast:
        found = outlast._dry_run(flow, given, options)
        if found.action == late.named_flows.CONTINUE:
            return _say_continue(call, outlast, flow.steps(), found)
        if found.action == late.named_flows.GIVE:
            return _say_given(call, outlast, found)
        return _say_start(call, flow.steps(), found, words)


def _say_start(call: Invocation, steps: FlowSteps, found: DryRun, words: Sequence[str]) -> int:
    if call.json:
        return _tell(found, steps.steps, steps.complete)
    task = f" of task {found.task}" if found.task else ""
    instead = f", in place of run {found.instead_of}" if found.instead_of else ""
    say(f"a new run of {steps.flow}{task} would begin{instead}:")
    say_steps(steps.steps)
    say_rest(steps)
    say(f"nothing was run or written; run it: {call.command('run', *words)}")
    return 0


def _say_continue(call: Invocation, outlast: Outlast, steps: FlowSteps, found: DryRun) -> int:
    run, plan, waits = outlast.get(found.run_id), outlast.plan(found.run_id), outlast.interrupts(found.run_id)
    ahead = _ahead(steps, plan, _met_by_children(outlast, run.id))
    if call.json:
        return _tell(found, ahead, steps.complete, late.shown.ShownPlan(plan, waits))
    code = say_plan(call, run, plan, waits)
    if ahead:
        say("steps without a receipt yet:")
        say_steps(ahead)
    return code


def _ahead(steps: FlowSteps, plan: Plan, by_children: set[str]) -> tuple[FlowStep, ...]:
    """The steps of the flow that this run, or one that it started, has not come to."""
    known, over = {each.step for each in plan.steps}, set(plan.of("reuse"))
    known |= {part.partition("[")[0] for each in plan.steps for part in each.label.split("/")[:-1]}  # begun, not over
    flows = {(*each.inside, each.id) for each in steps.steps if each.kind == "flow"}

    def is_met(each: FlowStep) -> bool:
        in_other = any(each.inside[: at + 1] in flows for at in range(len(each.inside)))
        return bool(over & set(each.inside)) or each.id in (by_children if in_other else known)

    return tuple(each for each in steps.steps if not is_met(each))


def _met_by_children(outlast: Outlast, run_id: str) -> set[str]:
    """The steps that the runs which this one started have come to."""
    found, met = {run_id}, set[str]()
    for run in reversed(outlast.runs(limit=10_000)):  # a child comes after its parent
        if run.parent in found:
            found.add(run.id)
            met |= {each.step for each in outlast._attempts(run.id).heard}
    return met


def _say_given(call: Invocation, outlast: Outlast, found: DryRun) -> int:
    run = outlast.get(found.run_id)
    if call.json:
        return _tell(found, (), True)
    say(f"nothing would run: run {run.id} of task {run.task} has {run.status}, and its outcome would be given")
    say(f"look at it: {call.command('show', run.id)}")
    return 0


def _tell(found: DryRun, steps: Sequence[FlowStep], complete: bool, plan: Any = None) -> int:
    told = {"action": found.action, "task": found.task, "run": found.run_id, "instead_of": found.instead_of}
    emit(told, steps=steps, complete=complete, plan=plan)
    return 0


def say_kept(outlast: Outlast, run: RunRecord) -> None:
    """What will not be done again though the run went back over it, each with why."""
    if run.status == "running":
        return  # where it goes from here is for who runs it
    for step in outlast.plan(run.id).steps:
        if step.action == "reuse" and step.why:
            note(f"{step.label}: {step.why}")


# -- the steps of a flow -----------------------------------------------------------------------------

DOES, BOUNDS = 30, 28  # columns


@command("steps")
@click.argument("flow", metavar="FLOW")
def steps(call: Invocation, flow: str) -> None:
    """List the steps of a flow, with what they do, when, and within which limits.

    FLOW is `flow.yaml`, `module:name` or `file.py:name`. A flow file is checked whole, with the flow files that it
    runs; of Python the steps are those that its code shows. Nothing of it is run.
    """
    with turned_away(call.json):
        found = late.named_flows.find_flow(flow, call.home, note).steps()
    if call.json:
        emit(found)
        return
    say(f"flow {found.flow}, inputs: {found.inputs}")
    say_steps(found.steps)
    say_rest(found)


def say_steps(found: Iterable[FlowStep]) -> None:
    """A row for each; what is inside another stands further to the right."""
    rows = [(f"{'· ' * len(each.inside)}{each.id}", each.kind, brief(each.does, DOES), _bounds(each)) for each in found]
    if rows:
        table(("STEP", "KIND", "DOES", "WITHIN"), rows)


def say_rest(found: FlowSteps) -> None:
    """What is no step, and is needed or not known."""
    if found.secrets:
        say(f"needs these variables: {', '.join(found.secrets)}")
    if not found.complete:
        say("these are the steps that its code shows; the body decides which of them are called, and how often")


def _bounds(each: FlowStep) -> str:
    """When it is done, and what bounds it."""
    told = [f"if {each.when}"] if each.when else []
    told += [f"{name} {_limit(value)}" for name, value in each.limits.items()]
    told += ["confirmed"] if each.confirmed else []
    return brief("; ".join(told), BOUNDS)


def _limit(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}s"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
