"""What resuming a run comes to: one place decides it, for the plan and for the resume itself.

`outlook` says it of a run as it was found; a resume asks it before its first step, a plan asks it and goes no further.
What a plan needs besides, it takes from where a resume does it: who may take the run and what people have decided
(`claim.py`), where the flow is (`start.py`). Nothing is run or written here.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast import errors
from outlast.errors import OutlastError
from outlast.flows.loading import file_of, here, is_flow_file, one_look_at_source
from outlast.flows.spec import FlowSpec, is_of_file
from outlast.home.caller import NOTHING_ACCEPTED, Acceptance, Caller
from outlast.ledger.verdict import Reason, Verdict, judge
from outlast.runs import claim as claims
from outlast.runs import holder as holders
from outlast.runs import recovery, under_way
from outlast.runs.call import Call, Past, count_death, labels
from outlast.runs.found import FoundRun, find, refuse_unknown_end
from outlast.runs.heard import LabelsOf
from outlast.runs.heartbeat import death_of
from outlast.runs.plan import READS, SETTLED, Action, Plan, PlanStep, Refusal, plan_steps, state_of
from outlast.runs.recovery import BodySource
from outlast.runs.run import FINISHED
from outlast.runs.same_flow import flow_if_known, refuse_unfit, whereabouts
from outlast.runs.waits.interrupt import CHOICES, Interrupt
from outlast.runs.waits.stored import waits_now
from outlast.store.contract import LeaseRow, Reading, RunRow
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.files.changes import LeftFiles
    from outlast.home.home import Home
    from outlast.runs import decisions
    from outlast.runs.live import Executor
else:
    decisions = late("outlast.runs.decisions")  # most resumes follow none


UNDER_WAY = ("partial_work", "still_running")  # what somebody who lives is at is no leftover of a death
ASKED_OF_EFFECTS = ("effect_inputs_changed", "effect_in_doubt")


class Outlook(NamedTuple):
    """What a resume comes to, before its first step."""

    verdict: Verdict
    standing: tuple[Reason, ...]  # that refuse it: nobody has accepted them
    actions: Mapping[Call, Action]  # where more is known of a call than its receipts say
    ahead: tuple[str, ...]
    resources: tuple[str, ...]


@one_look_at_source()
def outlook(
    executor: Executor,
    found: FoundRun,
    spec: FlowSpec | None,
    silent_at: int = 0,
    *,
    loaded: bool = True,
    more: Iterable[Reason] = (),
    partial: str = "",
) -> Outlook:
    """What resuming a run with this flow comes to. `loaded`: what its module provides is known.

    `partial`: what is said for this resume to become of partial work.
    """
    source = _source(executor.caller, found.run, spec)
    names = LabelsOf(found.rows)
    given = recovery.reasons(executor, found, source, names, loaded=loaded)  # first: what is damaged is known then
    actions, ahead = _actions(executor, found, spec, silent_at, partial)
    given = [
        *_with_leftovers(executor, found, given, actions, names),
        *_alive(executor, found),
        *_asked(executor.home, found),
    ]
    verdict = judge([*given, *_changed(found, actions), *more])
    return Outlook(verdict, standing(found, verdict), actions, ahead, tuple(sorted(recovery.needs_of(found, source))))


def standing(found: FoundRun, verdict: Verdict) -> tuple[Reason, ...]:
    """What refuses a resume: it contests, nobody has accepted it, and no resume sees to it itself."""
    refuses = verdict.unaccepted([entry["fingerprint"] for entry in found.ledger.accepted])
    return tuple(reason for reason in refuses if reason.code not in SETTLED)


def contested(run_id: str, standing: Iterable[Reason]) -> errors.Contested:
    """That a run may not go on as it is."""
    return errors.Contested(run_id, "; ".join(f"{r.code} ({r.subject}: {r.found})" for r in standing))


def unmatched(found: FoundRun, verdict: Verdict, accept: Acceptance) -> errors.NameInvalid | None:
    """That something is accepted which does not stand here: it may be meant for another state of the run.

    What was accepted before may be said again: the same command may be repeated.
    """
    before = [(each.get("code", ""), each.get("subject", "")) for each in found.ledger.accepted]
    there = [(reason.code, reason.subject) for reason in verdict.reasons]
    known = {word for code, subject in (*before, *there) for word in (code, f"{code}:{subject}")}
    word = next((word for word in accept.codes if word not in known), None)
    if word is None:
        return None
    named = ", ".join(f"{code}:{subject}" for code, subject in there) or "no reason at all: resume it without"
    return errors.NameInvalid("accept", word, f"it is no reason that run {found.run.id} has now; there is {named}")


# -- the plan ----------------------------------------------------------------------------------------


@one_look_at_source()
def plan(
    executor: Executor,
    row: RunRow,
    from_step: str = "",
    accept: Acceptance = NOTHING_ACCEPTED,
    *,
    reused: bool = True,
    decision: str = "rewind",
) -> Plan:
    """The plan of an unfinished run: of a resume that first goes back to a step, and takes this upon itself.

    `decision`: what is decided of that step instead, to `retry` or to `skip` it. `reused`: with the calls whose outcome
    is only given again. Raises RunFinished, StepNotFound, StepAmbiguous; Invalid where it cannot be decided so.
    """
    if row.status in FINISHED:
        raise errors.RunFinished(row.id, row.status)
    seen = executor.home.store.read(lambda look: _seen(executor.caller, look, row, from_step, decision))
    spec, refused = _flow(executor, row)
    held = [Reason("claimed", row.id, "free", seen.holder, "wait for it, or stop that worker")]
    more = held if seen.holder else []
    view = outlook(
        executor, seen.found, spec, seen.silent_at, loaded=spec is not None, more=more, partial=accept.partial
    )
    if seen.holder and seen.found.run.status == "running":
        view = view._replace(verdict=judge(r for r in view.verdict.reasons if r.code not in UNDER_WAY))
    waits = waits_now(executor.home, row.key)
    if seen.answers:
        view = view._replace(verdict=judge(_unanswered(view.verdict.reasons, waits, seen.answers)))
    found, poison = seen.found, executor.home.settings.crashes_before_asking
    is_any = reused or view.actions or found.ledger.unfinished()
    names = labels(found.rows, found.ledger.calls) if is_any else {}
    refused = seen.refused or refused
    if refused is None and not all(accept.takes(reason.code, reason.subject) for reason in view.standing):
        refused = contested(row.id, view.standing)
    refused = refused or unmatched(found, view.verdict, accept)
    asked_again = bool(from_step) and decision == "rewind"
    left = [wait for wait in waits if wait.id != seen.answers and not (asked_again and wait.by_flow)]
    return Plan(
        run_id=row.id,
        flow=row.flow,
        status=seen.found.run.status,
        verdict=view.verdict,
        steps=_offering(seen, plan_steps(found.ledger, names, poison, view.actions, reused=reused)),
        resources=view.resources,
        code_changed=tuple(sorted(r.subject for r in view.verdict.reasons if r.code == "code_changed")),
        waits=tuple(wait.says for wait in left),
        state=state_of(seen.found.rows),
        ahead=() if refused else view.ahead,
        refused=Refusal.of(refused) if refused else None,
    )


class PlannedRun(NamedTuple):
    """A run as a resume would find it: with what people have decided, and its owner's death."""

    found: FoundRun
    holder: str
    silent_at: int
    refused: OutlastError | None
    is_decided: bool  # somebody has said what becomes of it
    answers: str  # the wait that what is supposed answers


def _unanswered(reasons: Iterable[Reason], waits: Iterable[Interrupt], answered: str) -> list[Reason]:
    """The reasons without what that wait asks."""
    steps = {wait.step for wait in waits if wait.id == answered}
    return [reason for reason in reasons if reason.code not in ASKED_OF_EFFECTS or reason.subject not in steps]


def _seen(caller: Caller, look: Reading, row: RunRow, step: str, decision: str) -> PlannedRun:
    lease = look.lease_of(row.id)
    if lease is None:
        raise errors.IntegrityBroken(f"run {row.id}", "its lease is missing")
    supposed = decisions.suppose(caller, look, row, decision, step) if step else None
    holder, refused = holders.holder_of(caller, look, row.id, lease), None
    found = find(look, row, lease)
    if not holder:
        found = under_way.with_notes(caller.home, look, found)
    try:
        refuse_unknown_end(found)
        claims.refuse_taken(caller, look, row, lease)
        found = _with_decisions(caller.home, look, found, supposed)
    except OutlastError as error:
        refused = error
    if not holder and found.run.status == "running":
        found = found._replace(run=found.run._replace(status="crashed"))
        count_death(found.ledger, death_of(caller.home, look, lease))
    silent_at, is_decided = holders.silent_since(caller.home, look, row, lease), bool(look.untaken(row.key) or supposed)
    return PlannedRun(found, holder, silent_at, refused, is_decided, supposed.answers if supposed else "")


def _offering(seen: PlannedRun, steps: tuple[PlanStep, ...]) -> tuple[PlanStep, ...]:
    """Of the steps that a run's process died in, what a person may choose to become of them."""
    if seen.is_decided or seen.found.run.status != "crashed":
        return steps
    return tuple(replace(step, choices=CHOICES["crash_loop"]) if _died_in(step) else step for step in steps)


def _died_in(step: PlanStep) -> bool:
    return step.kind == "step" and step.status == "started" and step.action == "retry"


def _with_decisions(
    home: Home, look: Reading, found: FoundRun, supposed: decisions.SupposedDecision | None
) -> FoundRun:
    """The run as it is when what was decided stands in its journal, and what is `supposed` to be."""
    lease: LeaseRow = found.lease
    more = [(supposed.kind, supposed.body)] if supposed else []
    made = claims.decided(home, look, found.run, found.ledger, lease.epoch + 1, more)
    if not made.entries:
        return found
    if made.goes_back:
        found = under_way.with_notes(home, look, find(look, found.run._replace(mark=0), lease))
    return under_way.with_entries(found, made.entries)


def _flow(executor: Executor, row: RunRow) -> tuple[FlowSpec | None, OutlastError | None]:
    """The flow that a resume goes on with, if it is known without running its code; or why it is refused."""
    try:
        spec = flow_if_known(executor, row)
        if spec is not None:
            refuse_unfit(row, spec)
        return spec, None
    except OutlastError as error:
        return None, error


def _source(caller: Caller, run: RunRow, spec: FlowSpec | None) -> BodySource | None:
    """Where the body of a Python flow is. None of a flow file, a script, and what has no file."""
    if spec is not None:
        code = getattr(inspect.unwrap(spec.function), "__code__", None)
        is_python = code is not None and not is_of_file(spec) and not spec.source.startswith("script:")
        return BodySource(Path(code.co_filename), spec.function.__qualname__) if code and is_python else None
    source = whereabouts(caller, run.source) or run.source
    if source.startswith("script:") or is_flow_file(source):
        return None
    place, _, name = source.rpartition(":")
    file = file_of(place, caller.home.project or here())
    return BodySource(file, name) if file is not None else None


# -- what becomes of each call -----------------------------------------------------------------------


def _actions(
    executor: Executor, found: FoundRun, spec: FlowSpec | None, silent_at: int, partial: str
) -> tuple[dict[Call, Action], tuple[str, ...]]:
    """Of a flow file: what going through it finds. Else: where a person is asked, whatever the receipts say."""
    if is_of_file(spec):
        return executor.live.commands.rehearse(executor, found, spec, silent_at, partial)
    waits = waits_now(executor.home, found.run.key)
    changed = {Call(*wait.payload["was"]) for wait in waits if wait.type == "inputs_changed"}
    known = {call: Action("decide", "it was done with other inputs") for call in changed}
    return known if partial else known | _asked_about_files(executor, found), ()


def _asked_about_files(executor: Executor, found: FoundRun) -> dict[Call, Action]:
    """Steps of a Python flow that left something, and said when they began that a person decides about it."""
    unfinished = [past for past in found.ledger.unfinished() if past.attempts]
    known: dict[Call, Action] = {}
    for past in unfinished:
        if why := executor.live.commands.asked_about(executor.home, found.run.id, past):
            left = executor.live.commands.left_by(executor.home, found.run.id, past)
            known[past.call] = Action.about_files(why, left.shared if left is not None else "")
    return known


# -- reasons that only a look at the world gives -----------------------------------------------------


def _with_leftovers(
    executor: Executor, found: FoundRun, given: list[Reason], actions: dict[Call, Action], names_of: LabelsOf
) -> list[Reason]:
    """The reasons, where those about partial work say what is in the files: after a failure as after a crash."""
    unfinished = [past for past in found.ledger.unfinished() if past.kind == "step"]
    names = names_of(unfinished)
    partial = {reason.subject: reason for reason in given if reason.code == "partial_work"}
    for past in unfinished:
        label = names.get(past.call, "")
        if past.call in actions and actions[past.call].word == "leave":
            partial.pop(label, None)
        elif (left := executor.live.commands.left_by(executor.home, found.run.id, past)) is not None:
            known = partial.get(label) or _failed_half_way(past, label, left)
            partial |= {label: _with_left(known, left)} if known is not None else {}
    return [*(reason for reason in given if reason.code != "partial_work"), *partial.values()]


def _failed_half_way(past: Past, label: str, left: LeftFiles) -> Reason | None:
    """A step that failed, and did something to the files that it declared."""
    if left.judgement == "none":
        return None
    return Reason("partial_work", label, "an outcome", f"attempt {past.attempts} {past.last.status}", "")


def _with_left(reason: Reason, left: LeftFiles) -> Reason:
    files = ", ".join(f"{change.path} {change.change}" for change in left.files[:5])
    more = f" and {len(left.files) - 5} more" if len(left.files) > 5 else ""
    told = f"attempt {left.attempt} {left.status}, left {left.judgement}"
    told += f": {files}{more}{left.doubt}" if files else ""
    put_back = "nothing is put back" if left.shared else "--partial restore puts the files back first"
    advice = f"resuming tries the step again and shows it what was left; {put_back}"
    return replace(reason, found=told, advice=advice if left.files else reason.advice)


def _alive(executor: Executor, found: FoundRun) -> list[Reason]:
    """Processes of unfinished attempts that still run."""
    then = {"effect": "resuming waits for it", "step": "resuming ends it first"}
    return [
        Reason("still_running", past.call.path, "ended", f"process group {pgid}", then[past.kind])
        for past, pgid in executor.live.commands.still_running(executor.home, found.ledger)
    ]


def _asked(home: Home, found: FoundRun) -> list[Reason]:
    """What people are asked about; the other questions speak for themselves."""
    told: dict[str, Any] = {
        "inputs_changed": ("effect_inputs_changed", "equal inputs", "answer: reuse, again or abort"),
        "in_doubt": ("effect_in_doubt", "an outcome", "decide: retry, skip or abort"),
    }
    waits: list[Interrupt] = []
    with suppress(OutlastError):
        waits = [wait for wait in waits_now(home, found.run.key) if wait.type in told]
    asked = [wait for wait in waits if wait.type == "inputs_changed" or "probe" in wait.payload]
    return [
        Reason(code, wait.step, expected, wait.says, advice)
        for wait in asked
        for code, expected, advice in (told[wait.type],)
    ]


def _changed(found: FoundRun, actions: dict[Call, Action]) -> list[Reason]:
    """Finished steps of a flow file that are done anew because what they read has changed."""
    changed = [call for call, action in actions.items() if (action.word, action.why) == ("redo", READS)]
    names = labels(found.rows) if changed else {}
    advice = "put the files back to keep what it did"
    return [
        Reason("inputs_changed", names.get(call, ""), "the files as it read them", "others: it is done anew", advice)
        for call in changed
    ]
