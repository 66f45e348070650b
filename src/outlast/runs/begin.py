"""What a call of a flow begins: a new run, its task's unfinished one, or nothing: it waits, or has happened.

Who starts a run beside an unfinished one, only because a default of the flow was edited, is told so. `dry_run` answers
the same question by looking; nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from outlast import errors
from outlast.clock import moment
from outlast.flows.loading import refuse_while_loading
from outlast.flows.spec import FlowSpec
from outlast.home.caller import Caller, Repeatable, Repeated, check_id
from outlast.home.place import check_name
from outlast.ledger.journal import JournalEntry, genesis
from outlast.runs import claim as claims
from outlast.runs import holder as holders
from outlast.runs import journal_writer, same_flow
from outlast.runs.claim import RunClaim
from outlast.runs.effect import agreed
from outlast.runs.run import AS_EVER, FINISHED, Options, Outcome
from outlast.store.contract import FinishedRow, NewRun, PlainStart, QueueEntry, Reading, RunRow, Writing
from outlast.store.contract.runs import damage_of
from outlast.values.codec import decode, identity, jsonable, pack_small
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.runs import decisions, outcomes
    from outlast.runs.live import Executor
    from outlast.runs.queues import queue
else:
    outcomes = late("outlast.runs.outcomes")
    decisions = late("outlast.runs.decisions")
    queue = late("outlast.runs.queues.queue")


R = TypeVar("R", RunRow, FinishedRow)


def new_run(
    caller: Caller, spec: FlowSpec, raw: bytes, options: Options = AS_EVER, *, task: str = "", parent: str = ""
) -> NewRun:
    """The run that would be added. `task` is its name where the caller gave none. Raises NameInvalid."""
    found, known = identity(raw), same_flow.known(caller.home, spec)
    if options.task is not None:
        given = check_name("task", options.task)
    else:
        given = task or same_flow.default_task(spec.name, found, known.worktree)
    return NewRun(
        id=caller.home.ids(),
        scope=caller.scope,
        flow=known.source,
        task=given,
        inputs=raw.decode(),
        inputs_digest=found,
        parent=parent,
        session=check_name("session", options.session) if options.session != "" else "",
        trace_id=check_name("trace_id", options.trace_id) if options.trace_id != "" else "",
        meta=pack_small(dict(options.meta), "meta").decode() if options.meta else "{}",
        actor=caller.actor,
        at=caller.home.clock.now(),
        named=int(options.named),
        tags=tuple(sorted({check_name("tag", tag) for tag in options.tags})),
        identity=known.identity,
        source=known.source,
        worktree=known.worktree,
    )


class Undelivered(NamedTuple):
    """A run that has ended well, whose outcome nobody received: it is for this call."""

    run: RunRow


Decided = RunClaim | RunRow | FinishedRow | Undelivered


def begin(executor: Executor, spec: FlowSpec, new: NewRun, options: Options = AS_EVER) -> RunClaim | Outcome[Any]:
    """A new run, or the task's unfinished one, claimed; or how it stands when it only waits.

    Of a named task that has happened it is the outcome. Raises InputsConflict, RunHeld, TaskAborted, TaskDeclined,
    Finished, RepeatsEffects, OperationConflict, FlowElsewhere.
    """
    place = _place(spec, new, options)
    try:
        found = decide(executor.caller, new, options, spec.code, lacking(executor, spec), place, spec.deadline)
    except Repeated as before:
        return outcomes.repeated(executor.caller, spec, before.answer)
    return _begun(executor, spec, new, options, found)


async def begin_async(
    executor: Executor, spec: FlowSpec, new: NewRun, options: Options = AS_EVER
) -> RunClaim | Outcome[Any]:
    """The same on an event loop: runs that begin at once share a commit. Who is cancelled meanwhile has begun none."""
    home = executor.home
    place = _place(spec, new, options)
    decision = _decision(executor.caller, new, options, spec.code, lacking(executor, spec), place, spec.deadline)
    found: Decided | None = None
    try:
        found, cancelled = await journal_writer.finish(home.store, home.store.put_work(*decision))
    except Repeated as before:
        return outcomes.repeated(executor.caller, spec, before.answer)
    finally:
        _forget_unbegun(home, new, found)
    home.store.still_there(after_commit=True)
    if cancelled is not None:
        if isinstance(found, RunClaim):
            claims.release(home, found, "interrupted")
        raise cancelled
    return _begun(executor, spec, new, options, found)


def _place(spec: FlowSpec, new: NewRun, options: Options) -> QueueEntry | None:
    """Its place in a queue. Of a run that goes through none, nothing about queues is loaded."""
    return queue.place_of(spec, new, options) if options.queue_of(spec.limits.queue) else None


def _begun(
    executor: Executor, spec: FlowSpec, new: NewRun, options: Options, found: Decided
) -> RunClaim | Outcome[Any]:
    if isinstance(found, RunRow) and found.status == "queued" and _place(spec, new, options) is not None:
        if found.inputs_digest != new.inputs_digest:
            raise errors.InputsConflict(new.task, found.id)
        return Outcome(found.id, "queued")
    if isinstance(found, RunClaim):
        notes = beside(executor.caller, spec, found.run)
        return found._replace(notes=notes) if notes else found
    if isinstance(found, Undelivered):
        return outcomes.redelivered(executor.caller, spec, found.run)
    if isinstance(found, FinishedRow):
        return outcomes.outcome_of(executor.caller, spec, new, found)
    holders.refuse_sealed(found)
    if found.inputs_digest != new.inputs_digest:
        raise errors.InputsConflict(new.task, found.id)
    try:
        return outcomes.standing(executor.home, found) or claims.claim(executor.caller, found.id)
    except errors.RunFinished:  # a moment ago, by whoever else was running it
        return begin(executor, spec, new, options)


def lacking(executor: Executor, spec: FlowSpec) -> errors.ResourceMissing | None:
    """Why a new run of a flow could not get through: a resource that it will surely need, and nobody provides."""
    missing = executor.live.resources.missing(spec.needs) if spec.needs else {}
    for key, needed_by in missing.items():
        return errors.ResourceMissing(key, needed_by, spec.needs.get(key) or spec.name)
    return None


def decide(
    caller: Caller,
    new: NewRun,
    options: Options = AS_EVER,
    code: str = "",
    lacks: errors.ResourceMissing | None = None,
    place: QueueEntry | None = None,
    deadline: float | None = None,
) -> Decided:
    """Start a run, or give the task's unfinished one, or of a named task the newest finished one.

    One transaction decides: two starters meet in one run, and who comes after its end is given that. What is given
    under an operation_id is noted with it. `code` is a digest of the flow's body; `lacks` is raised instead of adding a
    run; with a `place` in a queue a new one waits there. Raises Repeated.
    """
    found: Decided | None = None
    try:
        found = caller.home.store.write(*_decision(caller, new, options, code, lacks, place, deadline))
    finally:
        _forget_unbegun(caller.home, new, found)
    return found


def _forget_unbegun(home: Home, new: NewRun, found: Decided | None) -> None:
    """A new run counts as claimed here before it is written, so that nobody takes it: unless it was not begun."""
    if not isinstance(found, RunClaim):
        home.held.claimed.discard(new.id)


def _decision(
    caller: Caller,
    new: NewRun,
    options: Options,
    code: str,
    lacks: errors.ResourceMissing | None,
    place: QueueEntry | None,
    deadline: float | None,
) -> tuple[Callable[[Writing], Decided], PlainStart | None]:
    """What `decide` does in its transaction; and what that is where the store knows nothing of the task."""
    refuse_while_loading()
    operation = operation_of(new, options)
    start = genesis(new.id, new.flow, new.task, new.inputs_digest)
    facts = {"flow": new.flow, "task": new.task, "actor": new.actor} | ({"code": code} if code else {})
    due = new.at + int(deadline * 1_000_000) if deadline is not None else 0
    facts |= {"deadline_at": moment(due).isoformat()} if due else {}
    began = claims.started(new, facts)

    def work(tx: Writing) -> Decided:
        if (before := operation.answered(tx)) is not None:
            _refuse_other_flow(caller.home, tx, new, operation, before)
            raise Repeated(before)
        found = same_flow.unfinished_run(caller.home, tx, new)
        if found is not None and not options.fresh:
            if new.named and not found.named:  # from now on it has a name
                tx.name_run(found.key)
            return _noted(operation, tx, new, found)
        done = same_flow.finished_runs(caller.home, tx, new) if new.named else []
        if found is None and done and not options.again:
            return _noted(operation, tx, new, given(new, done[0], options))
        left = outcomes.take_undelivered(caller.home, tx, new, options)
        if left is not None:
            return Undelivered(left)
        if lacks is not None and place is None:
            raise lacks
        why = _given_up(caller, tx, new, found, options) if found else _again(tx, new, done, options)
        operation.note(tx, new.id, new.at)
        if place is not None:
            queue.put_engine(tx, place.queue, options.engine)
            queued = claims.add_queued(tx, new, start, facts, why, place)
            if due:
                tx.put_deadline(queued.key, due)
            return queued
        claimed = claims.add_begun(caller.home, tx, new, start, [began, *why])
        return claimed._replace(delivers=outcomes.expect(caller.home, tx, claimed.hold.run_key, new, options))

    if operation.id is not None or lacks is not None or place is not None or new.tags:
        return work, None
    receiver = caller.home.process.id if outcomes.is_due(caller.home, options) else ""
    return work, claims.plain_start(caller.home, new, start, began, receiver)


def operation_of(new: NewRun, options: Options) -> Repeatable:
    """The call by its operation_id, with all that makes it this call but where its flow lies. Raises NameInvalid."""
    check_id(options.operation_id)
    name = new.flow.rpartition(":")[2]
    return Repeatable(options.operation_id, "run_start", [new.scope, name, new.inputs_digest, options.said()])


def _refuse_other_flow(home: Home, look: Reading, new: NewRun, operation: Repeatable, run_id: str) -> None:
    """Raises OperationConflict when the run that the operation began is one of another flow of this name.

    FlowElsewhere where only a person can say whether it goes on with this one: an id says nothing about that.
    """
    row = look.run_by_id(run_id)
    answer = same_flow.compared(home.project, row, new) if row is not None else "same"
    if answer == "other":
        raise errors.OperationConflict(str(operation.id), operation.kind)
    if row is not None and answer != "same" and row.status not in FINISHED:
        raise same_flow.elsewhere(home.project, row, new, answer)


def _noted(operation: Repeatable, tx: Writing, new: NewRun, found: R) -> R:
    """A run that is there: the operation means it from now on. A call that will be refused leaves nothing behind."""
    refused = damage_of(found) or found.status == "aborted" or found.inputs_digest != new.inputs_digest
    if not refused and not (isinstance(found, RunRow) and found.seal):
        operation.note(tx, found.id, new.at)
    return found


def given(new: NewRun, done: FinishedRow, options: Options) -> FinishedRow:
    """The finished run of a named task. Raises Finished where it was to be given up."""
    if options.fresh and done.status == "succeeded":
        raise errors.Finished.task(new.task, done.id, f"{moment(done.ended_at):%Y-%m-%d %H:%M} UTC")
    return done


def _given_up(caller: Caller, tx: Writing, new: NewRun, found: RunRow, options: Options) -> list[JournalEntry]:
    """Give the unfinished run up, in the same transaction that starts the next one. Raises RunHeld, RepeatsEffects."""
    effects = agreed(tx, "fresh", new.task, [found], options)
    decisions.give_up(caller, tx, found.id, "given up for a fresh run")
    return [_fact("fresh", new, found.id, effects)]


def _again(tx: Writing, new: NewRun, done: list[FinishedRow], options: Options) -> list[JournalEntry]:
    """Why a task that has happened happens once more, for the record. Raises RepeatsEffects."""
    if not done:
        return []
    return [_fact("again", new, done[0].id, agreed(tx, "again", new.task, done, options))]


def _fact(how: str, new: NewRun, of: str, effects: list[dict[str, Any]]) -> JournalEntry:
    facts = {"of": of, "by": new.actor, "effects": effects}
    return claims.run_fact(how, facts, epoch=1, at=new.at, trace_id=new.trace_id)


# -- a new run beside an unfinished one ------------------------------------------------------------


MISSING = object()
LOOKED_AT = 8  # of the newest unfinished runs of a flow


def beside(caller: Caller, spec: FlowSpec, run: RunRow) -> tuple[str, ...]:
    """What to tell who started this run; nothing when it has a name of its own, or no unfinished one lies idle."""
    if run.named:
        return ()
    defaults = {each.name: each.default for each in spec.signature.parameters if each.default is not each.empty}
    return caller.home.store.read(lambda look: _note_beside(caller, look, run, defaults)) if defaults else ()


def _is_edited(defaults: Mapping[str, Any], before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether inputs differ only where a default of today stands."""
    other = [name for name in {*before, *now} if before.get(name, MISSING) != now.get(name, MISSING)]
    return all(name not in now or (name in defaults and now[name] == jsonable(defaults[name])) for name in other)


def _note_beside(caller: Caller, look: Reading, run: RunRow, defaults: Mapping[str, Any]) -> tuple[str, ...]:
    inputs = decode(run.inputs)
    rows = look.unfinished_of_flow(run.scope, run.identity, LOOKED_AT)
    others = [row for row in rows if row.id != run.id and not (row.seal or row.named or row.parent)]
    for other in others:
        lease = look.lease_of(other.id)
        is_idle = lease is not None and not holders.holder_of(caller, look, other.id, lease)
        is_edited = _is_edited(defaults, decode(other.inputs), inputs)
        if is_idle and is_edited and same_flow.compared(caller.home.project, other, run) == "same":
            status = "crashed" if other.status == "running" else other.status
            return (
                f"run {other.id} of this flow is {status}, with other inputs; run {run.id} was started beside it. "
                f"To continue that one: outlast resume {other.id}",
            )
    return ()


# -- what would begin ------------------------------------------------------------------------------


START, CONTINUE, GIVE = "start", "continue", "give"


class DryRun(NamedTuple):
    """What `run` would do now."""

    action: str  # START a new run, CONTINUE one, GIVE the outcome of one
    task: str
    run_id: str = ""  # the one that would be continued or given
    instead_of: str = ""  # the one that would be given up, or happen again


def dry_run(executor: Executor, spec: FlowSpec, new: NewRun, options: Options) -> DryRun:
    """What `begin` would do. Raises what it would: InputsConflict, TaskAborted, RepeatsEffects, FlowElsewhere, …"""
    found = executor.home.store.read(lambda look: _decided(executor, look, spec, new, options))
    if isinstance(found, DryRun):
        return found
    if isinstance(found, FinishedRow):
        return DryRun(GIVE, new.task, outcomes.outcome_of(executor.caller, spec, new, found).run_id)
    holders.refuse_sealed(found)
    if found.inputs_digest != new.inputs_digest:
        raise errors.InputsConflict(new.task, found.id)
    return DryRun(CONTINUE, new.task, found.id)


def _decided(
    executor: Executor, look: Reading, spec: FlowSpec, new: NewRun, options: Options
) -> DryRun | RunRow | FinishedRow:
    before = operation_of(new, options).answered(look)
    row = look.run_by_id(before) if before is not None else None
    if row is not None:
        return DryRun(GIVE, row.task, row.id) if row.status in FINISHED else DryRun(CONTINUE, row.task, row.id)
    found = same_flow.unfinished_run(executor.home, look, new)
    if found is not None and not options.fresh:
        return found
    done = same_flow.finished_runs(executor.home, look, new) if new.named else []
    if found is None and done and not options.again:
        return given(new, done[0], options)
    left = outcomes.find_undelivered(executor.home, look, new, options)
    if left is not None:
        return DryRun(GIVE, new.task, left.id)
    if (lacks := lacking(executor, spec)) is not None:
        raise lacks
    return DryRun(START, new.task, instead_of=_agreed(look, new, found, done, options))


def _agreed(look: Reading, new: NewRun, found: RunRow | None, done: list[FinishedRow], options: Options) -> str:
    """The run that a new one takes the place of, if the effects of that may happen again. Raises RepeatsEffects."""
    if found is not None:
        agreed(look, "fresh", new.task, [found], options)
        return found.id
    if done:
        agreed(look, "again", new.task, done, options)
        return done[0].id
    return ""
