"""What resuming a run comes to: one place decides it, for the plan and for the resume itself.

`outlook` says it of a run as it was found; a resume asks it before its first step, a plan asks it and goes no further.
What a plan needs besides, it takes from where a resume does it: who may take the run (`claim.py`), what people have
decided (`claim.py`), where the flow is (`start.py`). Nothing is run or written here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.errors import Contested, OutlastError, RunFinished
from outlast.flows.loading import here, is_recipe
from outlast.flows.source import file_of
from outlast.flows.spec import FlowSpec
from outlast.flows.yaml.flow import RecipeSpec
from outlast.ledger.journal import Row
from outlast.ledger.verdict import Reason, Verdict, judge, unaccepted
from outlast.runs import claim as claims
from outlast.runs import recovery
from outlast.runs.call import Call, Past, count_death, labels
from outlast.runs.deaths import death_of
from outlast.runs.plan import SETTLED, Action, Plan, PlanStep, Refusal, plan_steps, state_of
from outlast.runs.recovery import Found, Source
from outlast.runs.run import FINISHED
from outlast.runs.same_flow import whereabouts
from outlast.runs.waits.interrupt import CHOICES, Interrupt
from outlast.store.contract import LeaseRow, Reading, RunRow
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.files.changes import Left
    from outlast.home.home import Runtime
    from outlast.runs.attempt import Asked
    from outlast.runs.execution import Execution


class Outlook(NamedTuple):
    """What a resume comes to, before its first step."""

    verdict: Verdict
    standing: tuple[Reason, ...]  # that refuse it: nobody has accepted them
    steps: tuple[PlanStep, ...]
    ahead: tuple[str, ...]
    resources: tuple[str, ...]


def outlook(
    runtime: Runtime,
    found: Found,
    spec: FlowSpec | None,
    silent_at: int = 0,
    *,
    loaded: bool = True,
    more: Iterable[Reason] = (),
) -> Outlook:
    """What resuming a run with this flow comes to. `loaded`: what its module provides is known."""
    source = _source(runtime, found.run, spec)
    given = recovery.reasons(runtime, found, source, loaded=loaded)  # first: what is damaged is known from then on
    actions, ahead = _actions(runtime, found, spec, silent_at)
    given = [*_with_leftovers(runtime, found, given, actions), *_alive(runtime, found), *_asked(runtime, found)]
    verdict = judge([*given, *_changed(found, actions), *more])
    return Outlook(
        verdict,
        standing(found, verdict),
        plan_steps(found.ledger, labels(found.rows), runtime.settings.crashes_before_asking, actions),
        ahead,
        tuple(sorted(recovery.needs_of(found, source))),
    )


def standing(found: Found, verdict: Verdict) -> tuple[Reason, ...]:
    """What refuses a resume: it contests, nobody has accepted it, and no resume sees to it itself."""
    refuses = unaccepted(verdict, [entry["fingerprint"] for entry in found.ledger.accepted])
    return tuple(reason for reason in refuses if reason.code not in SETTLED)


def contested(run_id: str, standing: Iterable[Reason]) -> Contested:
    """That a run may not go on as it is."""
    return Contested(run_id, "; ".join(f"{r.code} ({r.subject}: {r.found})" for r in standing))


# -- the plan ----------------------------------------------------------------------------------------


def plan(runtime: Runtime, row: RunRow) -> Plan:
    """The plan of an unfinished run. Raises RunFinished."""
    if row.status in FINISHED:
        raise RunFinished(row.id, row.status)
    seen = runtime.store.read(lambda look: _seen(runtime, look, row))
    spec, refused = _flow(runtime, row)
    held = [Reason("claimed", row.id, "free", seen.holder, "wait for it, or stop that worker")]
    more = held if seen.holder else []
    view = outlook(runtime, seen.found, spec, seen.silent_at, loaded=spec is not None, more=more)
    refused = seen.refused or refused
    if refused is None and view.standing:
        refused = contested(row.id, view.standing)
    waits = runtime.waits(row.key)
    return Plan(
        run_id=row.id,
        flow=row.flow,
        status=seen.found.run.status,
        verdict=view.verdict,
        steps=_offering(seen, view.steps),
        resources=view.resources,
        code_changed=tuple(sorted(r.subject for r in view.verdict.reasons if r.code == "code_changed")),
        waits=tuple(wait.says for wait in waits),
        state=state_of(seen.found.rows),
        ahead=() if refused else view.ahead,
        refused=Refusal.of(refused) if refused else None,
    )


class Seen(NamedTuple):
    """A run as a resume would find it: with what people have decided, and its owner's death."""

    found: Found
    holder: str
    silent_at: int
    refused: OutlastError | None
    is_decided: bool  # somebody has said what becomes of it


def _seen(runtime: Runtime, look: Reading, row: RunRow) -> Seen:
    lease = look.lease_of(row.id)
    assert lease is not None
    found, refused = recovery.find(look, row, lease), None
    try:
        recovery.refuse_unknown_end(found)
        claims.refuse_taken(runtime, look, row, lease)
        found = _with_decisions(runtime, look, found)
    except OutlastError as error:
        refused = error
    holder = claims.holder_of(runtime, look, row.id, lease)
    if not holder and found.run.status == "running":
        found = found._replace(run=found.run._replace(status="crashed"))
        count_death(found.ledger, death_of(runtime, look, lease))
    return Seen(found, holder, claims.silent_since(runtime, look, row, lease), refused, bool(look.untaken(row.key)))


def _offering(seen: Seen, steps: tuple[PlanStep, ...]) -> tuple[PlanStep, ...]:
    """Of the steps that a run's process died in, what a person may choose to become of them."""
    if seen.is_decided or seen.found.run.status != "crashed":
        return steps
    return tuple(replace(step, choices=_choices(step)) for step in steps)


def _choices(step: PlanStep) -> tuple[str, ...]:
    died_in_it = step.kind == "step" and step.status == "started" and step.action == "retry"
    return CHOICES["crash_loop"] if died_in_it else ()


def _with_decisions(runtime: Runtime, look: Reading, found: Found) -> Found:
    """The run as it is when what was decided stands in its journal."""
    if found.unaccepted is not None:
        return found
    lease: LeaseRow = found.lease
    made = claims.decided(runtime, look, found.run, found.ledger, lease.epoch + 1)
    if not made.entries:
        return found
    if made.goes_back:
        found = recovery.find(look, found.run._replace(mark=0), lease)
    numbered = enumerate(made.entries, lease.head + 1)
    rows = [*found.rows, *(Row(seq, each.header, b"", each.payload) for seq, each in numbered)]
    return found._replace(rows=rows, ledger=recovery.folded(found.run, rows, found.flaws))


def _flow(runtime: Runtime, row: RunRow) -> tuple[FlowSpec | None, OutlastError | None]:
    """The flow that a resume goes on with, if it is known without running its code; or why it is refused."""
    from outlast.runs.start import flow_if_known, refuse_unfit

    try:
        spec = flow_if_known(runtime, row)
        if spec is not None:
            refuse_unfit(row, spec)
        return spec, None
    except OutlastError as error:
        return None, error


def _source(runtime: Runtime, run: RunRow, spec: FlowSpec | None) -> Source | None:
    """Where the body of a Python flow is. None of a flow file, a script, and what has no file."""
    if spec is not None:
        code = getattr(inspect.unwrap(spec.function), "__code__", None)
        is_python = code is not None and not isinstance(spec, RecipeSpec) and not spec.source.startswith("script:")
        return Source(Path(code.co_filename), spec.function.__qualname__) if code and is_python else None
    source = whereabouts(runtime, run.source) or run.source
    if source.startswith("script:") or is_recipe(source):
        return None
    place, _, name = source.rpartition(":")
    file = file_of(place, runtime.project or here())
    return Source(file, name) if file is not None else None


# -- what becomes of each call -----------------------------------------------------------------------


def _actions(
    runtime: Runtime, found: Found, spec: FlowSpec | None, silent_at: int
) -> tuple[dict[Call, Action], tuple[str, ...]]:
    """Of a flow file: what going through it finds. Else: where a person is asked, whatever the receipts say."""
    if isinstance(spec, RecipeSpec):
        from outlast.runs.replay.rehearsal import rehearse

        return rehearse(runtime, found, spec, silent_at, _asks)
    waits = runtime.waits(found.run.key)
    changed = {Call(*wait.payload["was"]) for wait in waits if wait.type == "inputs_changed"}
    known = {call: Action("decide", "it was done with other inputs") for call in changed}
    return known | _asked_about_files(runtime, found), ()


def _asks(execution: Execution, asked: Asked) -> str:
    from outlast.commands.leftovers import previous, why_asked

    return why_asked(execution, asked.spec, previous(execution, asked)) if asked.spec.prepares else ""


def _asked_about_files(runtime: Runtime, found: Found) -> dict[Call, Action]:
    """Steps of a Python flow that left something, and said when they began that a person decides about it."""
    from outlast.commands.leftovers import asked_by_declaration

    unfinished = [past for past in found.ledger.calls.values() if past.attempts and not past.finished]
    why = {past.call: asked_by_declaration(runtime, found.run.id, past) for past in unfinished}
    return {call: Action("decide", f"what it left: {text}") for call, text in why.items() if text}


# -- reasons that only a look at the world gives -----------------------------------------------------


def _with_leftovers(runtime: Runtime, found: Found, given: list[Reason], actions: dict[Call, Action]) -> list[Reason]:
    """The reasons, where those about partial work say what is in the files: after a failure as after a crash."""
    from outlast.commands.leftovers import previous_of

    names = labels(found.rows)
    partial = {reason.subject: reason for reason in given if reason.code == "partial_work"}
    for past in [past for past in found.ledger.calls.values() if past.kind == "step" and not past.finished]:
        label = names.get(past.call, "")
        if past.call in actions and actions[past.call].word == "leave":
            partial.pop(label, None)
        elif (left := previous_of(runtime, found.run.id, past)) is not None:
            known = partial.get(label) or _failed_half_way(past, label, left)
            partial |= {label: _with_left(known, left)} if known is not None else {}
    return [*(reason for reason in given if reason.code != "partial_work"), *partial.values()]


def _failed_half_way(past: Past, label: str, left: Left) -> Reason | None:
    """A step that failed, and did something to the files that it declared."""
    if left.judgement == "none":
        return None
    return Reason("partial_work", label, "an outcome", f"attempt {past.attempts} {past.last.status}", "")


def _with_left(reason: Reason, left: Left) -> Reason:
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


def _asked(runtime: Runtime, found: Found) -> list[Reason]:
    """What people are asked about; the other questions speak for themselves."""
    told: dict[str, Any] = {
        "inputs_changed": ("effect_inputs_changed", "equal inputs", "answer: reuse, again or abort"),
        "in_doubt": ("effect_in_doubt", "an outcome", "decide: retry, skip or abort"),
    }
    waits: list[Interrupt] = []
    with suppress(OutlastError):
        waits = [wait for wait in runtime.waits(found.run.key) if wait.type in told]
    asked = [wait for wait in waits if wait.type == "inputs_changed" or "probe" in wait.payload]
    return [
        Reason(code, wait.step, expected, wait.says, advice)
        for wait in asked
        for code, expected, advice in (told[wait.type],)
    ]


def _changed(found: Found, actions: dict[Call, Action]) -> list[Reason]:
    """Finished steps of a flow file that are done anew because what they read has changed."""
    from outlast.runs.replay.rehearsal import READS

    names = labels(found.rows)
    advice = "put the files back to keep what it did"
    return [
        Reason("inputs_changed", names.get(call, ""), "the files as it read them", "others: it is done anew", advice)
        for call, action in actions.items()
        if action == ("redo", READS)
    ]
