"""`outlast run --dry-run`: what the same command without it would do. Nothing is run or written, no home is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from outlast.doors.cli.audit import say_rest, say_steps
from outlast.doors.cli.door import Door
from outlast.doors.cli.render import emit, say
from outlast.errors import EmbeddedOnly, HomeNotFound
from outlast.python.dry_run import CONTINUE, GIVE, START, DryRun
from outlast.python.shared import url_of

if TYPE_CHECKING:
    from outlast import Outlast, Plan
    from outlast.python.decorators import Flow, FlowFile
    from outlast.python.shared import Options
    from outlast.python.steps import FlowStep, FlowSteps


def say_dry_run(
    door: Door, flow: Flow[..., Any] | FlowFile, given: dict[str, Any], options: Options, words: Sequence[str]
) -> int:
    """Look, and say what would happen. Raises what the run would, EmbeddedOnly at a server."""
    if url_of(door.home):
        raise EmbeddedOnly("run --dry-run", "look at a run: `outlast resume RUN --dry-run`")
    try:
        opened = door.open()
    except HomeNotFound:  # nothing was ever run here
        return _say_start(door, flow.steps(), DryRun(START, options.task or ""), words)
    with opened as outlast:
        found = outlast._dry_run(flow, (), given, options)
        if found.action == CONTINUE:
            return _say_continue(door, outlast, flow.steps(), found)
        if found.action == GIVE:
            return _say_given(door, outlast, found)
        return _say_start(door, flow.steps(), found, words)


def _say_start(door: Door, steps: FlowSteps, found: DryRun, words: Sequence[str]) -> int:
    if door.json:
        from outlast.values.codec import jsonable

        emit({**_told(found), "steps": jsonable(steps.steps), "complete": steps.complete, "plan": None})
        return 0
    task = f" of task {found.task}" if found.task else ""
    instead = f", in place of run {found.instead_of}" if found.instead_of else ""
    say(f"a new run of {steps.flow}{task} would begin{instead}:")
    say_steps(steps.steps)
    say_rest(steps)
    say(f"nothing was run or written; run it: {door.command('run', *words)}")
    return 0


def _say_continue(door: Door, outlast: Outlast, steps: FlowSteps, found: DryRun) -> int:
    from outlast.doors.cli.plans import say_plan
    from outlast.python.shown import plan_json
    from outlast.values.codec import jsonable

    run, plan, waits = outlast.get(found.run_id), outlast.plan(found.run_id), outlast.interrupts(found.run_id)
    ahead = _ahead(steps, plan, _met_by_children(outlast, run.id))
    if door.json:
        told = {"steps": jsonable(ahead), "complete": steps.complete, "plan": plan_json(plan, waits)}
        emit({**_told(found), **told})
        return 0
    code = say_plan(door, run, plan, waits)
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
            met |= {receipt.step for receipt in outlast.receipts(run.id)}
    return met


def _say_given(door: Door, outlast: Outlast, found: DryRun) -> int:
    run = outlast.get(found.run_id)
    if door.json:
        emit({**_told(found), "steps": [], "complete": True, "plan": None})
        return 0
    say(f"nothing would run: run {run.id} of task {run.task} has {run.status}, and its outcome would be given")
    say(f"look at it: {door.command('show', run.id)}")
    return 0


def _told(found: DryRun) -> dict[str, Any]:
    return {"action": found.action, "task": found.task, "run": found.run_id, "instead_of": found.instead_of}
