"""What resuming a run would do: nothing is run or written to say so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from outlast.errors import RunFinished
from outlast.ledger.verdict import Reason, judge
from outlast.runs import claim as claims
from outlast.runs import recovery
from outlast.runs.call import Call, count_death, labels
from outlast.runs.deaths import death_of
from outlast.runs.plan import Plan, PlanStep, plan_steps, state_of
from outlast.runs.recovery import Found
from outlast.runs.run import FINISHED
from outlast.runs.waits.interrupt import CHOICES, Interrupt
from outlast.store.contract import Reading, RunRow

if TYPE_CHECKING:
    from outlast.files.changes import Left
    from outlast.home.home import Runtime


def plan(runtime: Runtime, row: RunRow) -> Plan:
    """The plan of an unfinished run. Raises RunFinished."""
    if row.status in FINISHED:
        raise RunFinished(row.id, row.status)

    def look(reading: Reading) -> tuple[Found, str, str, bool]:
        lease = reading.lease_of(row.id)
        assert lease is not None
        found, holder = recovery.find(reading, row, lease), claims.holder_of(runtime, reading, row.id, lease)
        return found, holder, "" if holder else death_of(runtime, reading, lease), bool(reading.untaken(row.key))

    found, holder, death, is_decided = runtime.store.read(look)
    if not holder and found.run.status == "running":
        found = found._replace(run=found.run._replace(status="crashed"))
        count_death(found.ledger, death)
    waits = runtime.waits(row.key)
    claimed = [Reason("claimed", row.id, "free", holder, "wait for it, or stop that worker")] if holder else []
    alive = [] if holder else _alive(runtime, found)
    made = _made(runtime, found, waits, [*_with_leftovers(runtime, found), *claimed, *alive, *_asked(waits)])
    return made if is_decided or found.run.status != "crashed" else _offering(made)


def _offering(made: Plan) -> Plan:
    """The plan of a run whose process died: of the steps that it died in a person may choose what becomes of them."""
    return replace(made, steps=tuple(replace(step, choices=_choices(step)) for step in made.steps))


def _choices(step: PlanStep) -> tuple[str, ...]:
    died_in_it = step.kind == "step" and step.status == "started" and step.action == "retry"
    return CHOICES["crash_loop"] if died_in_it else ()


def _with_leftovers(runtime: Runtime, found: Found) -> list[Reason]:
    """Every reason there is; those about partial work say what unfinished attempts left in their files."""
    from outlast.commands.leftovers import previous_of

    given = recovery.reasons(runtime, found)
    names = labels(found.rows)
    subjects = {reason.subject for reason in given if reason.code == "partial_work"}
    left = {
        names[past.call]: told
        for past in found.ledger.calls.values()
        if names.get(past.call) in subjects and (told := previous_of(runtime, found.run.id, past)) is not None
    }
    return [_with_left(one, left[one.subject]) if one.subject in left else one for one in given]


def _with_left(reason: Reason, left: Left) -> Reason:
    if reason.code != "partial_work":
        return reason
    files = ", ".join(f"{change.path} {change.change}" for change in left.files[:5])
    more = f" and {len(left.files) - 5} more" if len(left.files) > 5 else ""
    told = f"attempt {left.attempt} {left.status}, left {left.judgement}" + (f": {files}{more}" if files else "")
    advice = "resuming tries the step again and shows it what was left; --partial restore puts the files back first"
    return replace(reason, found=told, advice=advice if left.files else reason.advice)


def _alive(runtime: Runtime, found: Found) -> list[Reason]:
    """Processes of unfinished attempts that still run."""
    from outlast.commands.orphans import orphans_of

    return [
        Reason(
            "still_running",
            orphan.label,
            "ended",
            f"process group {orphan.group.pgid}",
            "resuming waits for it" if orphan.past.kind == "effect" else "resuming ends it first",
        )
        for orphan in orphans_of(runtime, found.ledger)
    ]


def _asked(waits: list[Interrupt]) -> list[Reason]:
    """What people are asked about; the other questions speak for themselves."""
    changed = [
        Reason("effect_inputs_changed", wait.step, "equal inputs", wait.says, "answer: reuse, again or abort")
        for wait in waits
        if wait.type == "inputs_changed"
    ]
    doubtful = [
        Reason("effect_in_doubt", wait.step, "an outcome", wait.says, "decide: retry, skip or abort")
        for wait in waits
        if wait.type == "in_doubt" and "probe" in wait.payload
    ]
    return changed + doubtful


def _made(runtime: Runtime, found: Found, waits: list[Interrupt], given: list[Reason]) -> Plan:
    names = labels(found.rows)
    asked = {Call(*wait.payload["was"]) for wait in waits if wait.type == "inputs_changed"}
    return Plan(
        run_id=found.run.id,
        flow=found.run.flow,
        status=found.run.status,
        verdict=judge(given),
        steps=plan_steps(found.ledger, names, runtime.settings.crashes_before_asking, asked),
        resources=tuple(sorted(found.ledger.needs)),
        code_changed=tuple(sorted(reason.subject for reason in given if reason.code == "code_changed")),
        waits=tuple(wait.says for wait in waits),
        state=state_of(found.rows),
    )
