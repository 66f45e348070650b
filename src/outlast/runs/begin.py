"""What a call of a flow begins: a new run, its task's unfinished one, or nothing: it waits, or has happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from outlast.clock import moment
from outlast.errors import Finished, InputsConflict, OperationConflict, ResourceMissing, RunFinished
from outlast.flows.loading import refuse_while_loading
from outlast.flows.spec import FlowSpec
from outlast.home.once import Operation, Repeated, check_id
from outlast.home.place import check_name
from outlast.ledger.journal import JournalEntry, genesis
from outlast.runs import claim as claims
from outlast.runs import delivery, same_flow
from outlast.runs.beside import beside
from outlast.runs.claim import RunClaim
from outlast.runs.look import waits_now
from outlast.runs.options import AS_EVER, Options, agreed
from outlast.runs.run import FINISHED, Outcome
from outlast.runs.waits.interrupt import OF_A_CALL
from outlast.store.contract import FinishedRow, NewRun, Reading, RunRow, Writing
from outlast.store.contract.damaged import damage_of
from outlast.values.codec import pack_small
from outlast.values.digest import identity
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

R = TypeVar("R", RunRow, FinishedRow)


def new_run(
    caller: Caller, spec: FlowSpec, raw: bytes, options: Options = AS_EVER, *, task: str = "", parent: str = ""
) -> NewRun:
    """The run that would be added. `task` is its name where the caller gave none. Raises NameInvalid."""
    found, known = identity(raw), same_flow.known(caller.home, spec)
    own = task or same_flow.default_task(spec.name, found, known.worktree)
    given = own if options.task is None else check_name("task", options.task)
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
        meta=pack_small(dict(options.meta or {}), "meta").decode(),
        actor=caller.actor,
        at=caller.home.clock.now(),
        named=int(options.named),
        **known._asdict(),
    )


class Undelivered(NamedTuple):
    """A run that has ended well, whose outcome nobody received: it is for this call."""

    run: RunRow


def begin(executor: Executor, spec: FlowSpec, new: NewRun, options: Options = AS_EVER) -> RunClaim | Outcome[Any]:
    """A new run, or the task's unfinished one, claimed; or how it stands when it only waits.

    Of a named task that has happened it is the outcome. Raises InputsConflict, RunHeld, TaskAborted, TaskDeclined,
    Finished, RepeatsEffects, OperationConflict, FlowElsewhere.
    """
    try:
        found = decide(executor.caller, new, options, spec.code, lacking(executor, spec))
    except Repeated as before:
        from outlast.runs.repeated import repeated

        return repeated(executor.caller, spec, before.answer)
    if isinstance(found, RunClaim):
        return found._replace(notes=beside(executor.caller, spec, found.run))
    if isinstance(found, Undelivered):
        from outlast.runs.repeated import redelivered

        return redelivered(executor.caller, spec, found.run)
    if isinstance(found, FinishedRow):
        from outlast.runs.finished import outcome_of

        return outcome_of(executor.caller, spec, new, found)
    claims.refuse_sealed(found)
    if found.inputs_digest != new.inputs_digest:
        raise InputsConflict(new.task, found.id)
    try:
        return standing(executor.home, found) or claims.claim(executor.caller, found.id)
    except RunFinished:  # a moment ago, by whoever else was running it
        return begin(executor, spec, new, options)


def lacking(executor: Executor, spec: FlowSpec) -> ResourceMissing | None:
    """Why a new run of a flow could not get through: a resource that it will surely need, and nobody provides."""
    missing = executor.live.resources.missing(spec.needs) if spec.needs else {}
    for key, needed_by in missing.items():
        return ResourceMissing(key, needed_by, spec.needs.get(key) or spec.name)
    return None


def decide(
    caller: Caller,
    new: NewRun,
    options: Options = AS_EVER,
    code: str = "",
    lacks: ResourceMissing | None = None,
) -> RunClaim | RunRow | FinishedRow | Undelivered:
    """Start a run, or give the task's unfinished one, or of a named task the newest finished one.

    One transaction decides: two starters meet in one run, and who comes after its end is given that. What is given
    under an operation_id is noted with it. `code` is a digest of the flow's body; `lacks` is raised instead of adding a
    run. Raises Repeated.
    """
    refuse_while_loading()
    operation = operation_of(new, options)
    start = genesis(new.id, new.flow, new.task, new.inputs_digest)
    facts = {"flow": new.flow, "task": new.task, "actor": new.actor} | ({"code": code} if code else {})

    def work(tx: Writing) -> RunClaim | RunRow | FinishedRow | Undelivered:
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
        left = delivery.take_undelivered(caller.home, tx, new, options)
        if left is not None:
            return Undelivered(left)
        if lacks is not None:
            raise lacks
        why = _given_up(caller, tx, new, found, options) if found else _again(tx, new, done, options)
        operation.note(tx, new.id, new.at)
        claimed = claims.add(caller.home, tx, new, start, facts, why)
        delivery.expect(caller.home, tx, claimed.hold.run_key, new, options)
        return claimed

    return caller.home.store.write(work)


def operation_of(new: NewRun, options: Options) -> Operation:
    """The call by its operation_id, with all that makes it this call but where its flow lies. Raises NameInvalid."""
    check_id(options.operation_id)
    name = new.flow.rpartition(":")[2]
    return Operation(options.operation_id, "run_start", [new.scope, name, new.inputs_digest, options.said()])


def _refuse_other_flow(home: Home, look: Reading, new: NewRun, operation: Operation, run_id: str) -> None:
    """Raises OperationConflict when the run that the operation began is one of another flow of this name.

    FlowElsewhere where only a person can say whether it goes on with this one: an id says nothing about that.
    """
    row = look.run_by_id(run_id)
    answer = same_flow.compared(home.project, row, new) if row is not None else "same"
    if answer == "other":
        raise OperationConflict(str(operation.id), operation.kind)
    if row is not None and answer != "same" and row.status not in FINISHED:
        raise same_flow.elsewhere(home.project, row, new, answer)


def _noted(operation: Operation, tx: Writing, new: NewRun, found: R) -> R:
    """A run that is there: the operation means it from now on. A call that will be refused leaves nothing behind."""
    refused = damage_of(found) or found.status == "aborted" or found.inputs_digest != new.inputs_digest
    if not refused and not (isinstance(found, RunRow) and found.seal):
        operation.note(tx, found.id, new.at)
    return found


def given(new: NewRun, done: FinishedRow, options: Options) -> FinishedRow:
    """The finished run of a named task. Raises Finished where it was to be given up."""
    if options.fresh and done.status == "succeeded":
        raise Finished.task(new.task, done.id, f"{moment(done.ended_at):%Y-%m-%d %H:%M} UTC")
    return done


def _given_up(caller: Caller, tx: Writing, new: NewRun, found: RunRow, options: Options) -> list[JournalEntry]:
    """Give the unfinished run up, in the same transaction that starts the next one. Raises RunHeld, RepeatsEffects."""
    from outlast.runs import decisions

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


def standing(home: Home, row: RunRow) -> Outcome[Any] | None:
    """How a waiting run stands, when nothing has happened that lets it go on."""
    if row.status != "waiting":
        return None
    waits = waits_now(home, row.key)
    now = home.clock.now()
    rows = home.store.read(lambda look: look.waits_of(row.key))
    asks_again = any(
        wait.status == "answered"
        or (wait.due_at is not None and wait.due_at <= now)
        or wait.type == "child"
        or (wait.type in OF_A_CALL and '"probe"' in wait.payload)
        for wait in rows
    )
    untaken = home.store.read(lambda look: look.untaken(row.key))
    if asks_again or untaken or not rows:
        return None
    return Outcome(row.id, "waiting", interrupts=tuple(waits))
