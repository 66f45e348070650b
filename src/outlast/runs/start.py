"""Going on with a claimed run: made ready, run until it ends or waits.

It is loaded when a run is first started or taken up: whoever only looks needs nothing of what executes.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from outlast import errors
from outlast.clock import moment
from outlast.flows.spec import FlowSpec, hints_of, is_of_file
from outlast.home.caller import NOTHING_ACCEPTED, Acceptance, Caller
from outlast.home.home import Home, refuse_loop, run_row
from outlast.home.place import restoration_of
from outlast.ledger.journal import OF_A_CALL
from outlast.runs import body as runner
from outlast.runs import claim as claims
from outlast.runs import os_signals as signals
from outlast.runs import same_flow
from outlast.runs.claim import RunClaim
from outlast.runs.journal import RELOCATED, row_digest
from outlast.runs.outcomes import standing
from outlast.runs.run import FINISHED, Outcome
from outlast.runs.stops import set_deadline
from outlast.runs.waits.stored import waits_now
from outlast.store.contract import Writing
from outlast.values.ambient import calls_user_code
from outlast.values.codec import decode, decoder, encode, pack
from outlast.values.late import asyncio, late

if TYPE_CHECKING:
    from outlast.ledger.verdict import Verdict
    from outlast.runs import call_async
    from outlast.runs import look as looks
    from outlast.runs.execution import Execution
    from outlast.runs.live import Executor
else:
    call_async = late("outlast.runs.call_async")
    looks = late("outlast.runs.look")


def pack_inputs(spec: FlowSpec, inputs: Mapping[str, Any]) -> bytes:
    """Inputs as they will come back. Raises ValueRefused for one that would not, InputsInvalid for another type."""
    hints = hints_of(spec.function)
    for name, value in inputs.items():
        try:
            pack(value, decoder(hints.get(name)), f"{spec.name}({name})")
        except errors.ValueRefused as error:
            if not isinstance(error.__cause__, msgspec.ValidationError):
                raise
            shown = ", ".join(str(each) for each in spec.signature.parameters)
            raise errors.InputsInvalid(spec.name, f"{name} is {value!r:.100}: {error.__cause__}", shown) from error
    return encode(dict(inputs))


def go_on(
    executor: Executor, claimed: RunClaim, spec: FlowSpec | None = None, accept: Acceptance = NOTHING_ACCEPTED
) -> Outcome[Any]:
    """Run a claimed run's body until it ends or waits; one that failed and is soon tried again, until that ends."""
    spec, inputs = _ready(executor, claimed, spec, blocking=True)
    if spec.is_async:
        return signals.run_on_loop(_go_on_own_loop(executor, claimed, spec, accept))
    outcome = _run(executor, claimed, spec, inputs, accept)
    try:
        while (left := runner.seconds_left(executor, outcome)) is not None and runner.wait(executor, left):
            again = _claimed_again(executor.caller, outcome)
            if not isinstance(again, RunClaim):
                return again
            outcome = _run(executor, again._replace(notes=claimed.notes), spec, inputs, NOTHING_ACCEPTED)
        return outcome
    finally:
        del outcome  # the trace of its error keeps this frame: the outcome is its caller's alone


def _claimed_again(caller: Caller, before: Outcome[Any]) -> RunClaim | Outcome[Any]:
    """The run, to be tried again; or how it stands, when somebody else has taken it or ended it meanwhile."""
    try:
        return claims.claim(caller, before.run_id)
    except (errors.RunHeld, errors.RunFinished):
        return looks.outcome_now(caller, run_row(caller.home, before.run_id))


def _run(
    executor: Executor, claimed: RunClaim, spec: FlowSpec, inputs: dict[str, Any], accept: Acceptance
) -> Outcome[Any]:
    execution, verdict = _execution(executor, claimed, spec, accept)
    body = _body(execution, spec, inputs)
    return _told(runner.run_plain(executor, execution, body, spec.decode), verdict, claimed)


def _told(outcome: Outcome[Any], verdict: Verdict | None, claimed: RunClaim) -> Outcome[Any]:
    """The same with what was found before its body; of most new runs that is nothing. No frame of ours keeps it."""
    if verdict is None and not claimed.notes:
        return outcome
    return dataclasses.replace(outcome, verdict=verdict, notes=claimed.notes)


def go_on_here(
    executor: Executor, claimed: RunClaim, spec: FlowSpec | None = None, accept: Acceptance = NOTHING_ACCEPTED
) -> Outcome[Any]:
    """The same for a caller who waits for it: signals that ask this process to end let the step finish first."""
    with heard(executor, claimed):
        return go_on(executor, claimed, spec, accept)


async def go_on_async(
    executor: Executor, claimed: RunClaim, spec: FlowSpec | None = None, accept: Acceptance = NOTHING_ACCEPTED
) -> Outcome[Any]:
    """The same on the running event loop. A plain flow runs in a thread."""
    spec, inputs = _ready(executor, claimed, spec)
    if not spec.is_async:
        return await _go_on_in_thread(executor, claimed, spec, accept)
    outcome = await _run_async(executor, claimed, spec, inputs, accept)
    try:
        while (left := runner.seconds_left(executor, outcome)) is not None and await runner.wait_async(executor, left):
            again = _claimed_again(executor.caller, outcome)
            if not isinstance(again, RunClaim):
                return again
            outcome = await _run_async(executor, again._replace(notes=claimed.notes), spec, inputs, NOTHING_ACCEPTED)
        return outcome
    finally:
        del outcome  # the trace of its error keeps this frame: the outcome is its caller's alone


def _execution(
    executor: Executor, claimed: RunClaim, spec: FlowSpec, accept: Acceptance
) -> tuple[Execution, Verdict | None]:
    """A claimed run made ready, with what its flow says about it. One that gets no further is not held any more."""
    try:
        execution, verdict = runner.prepare(executor, claimed, accept, spec)
        execution.retry = spec.retry
        set_deadline(execution, claimed.run.created_at, spec.deadline)
    except BaseException:
        executor.home.held.claimed.discard(claimed.run.id)
        raise
    return execution, verdict


async def _run_async(
    executor: Executor, claimed: RunClaim, spec: FlowSpec, inputs: dict[str, Any], accept: Acceptance
) -> Outcome[Any]:
    execution, verdict = _execution(executor, claimed, spec, accept)
    body = _body(execution, spec, inputs)
    return _told(await runner.run_async(executor, execution, body, spec.decode), verdict, claimed)


def _body(execution: Execution, spec: FlowSpec, inputs: dict[str, Any]) -> Callable[[], Any]:
    """What is run: the flow's function, or the nodes of its file."""
    live = execution.executor.live
    if is_of_file(spec):
        return partial(live.commands.perform, execution, spec, inputs)
    run = live.facade(execution, spec.is_async)

    @calls_user_code
    def body() -> Any:
        return spec.function(run, **inputs)

    return body


async def _go_on_own_loop(executor: Executor, claimed: RunClaim, spec: FlowSpec, accept: Acceptance) -> Outcome[Any]:
    """The same on a loop that ends with the run: so does what was opened on it."""
    try:
        return await go_on_async(executor, claimed, spec, accept)
    finally:
        await executor.live.resources.close_loop()


async def _go_on_in_thread(executor: Executor, claimed: RunClaim, spec: FlowSpec, accept: Acceptance) -> Outcome[Any]:
    """Cancelling this asks the flow to stop, and waits until it has."""
    begun = threading.Event()

    def body() -> Outcome[Any]:
        begun.set()
        return go_on(executor, claimed, spec, accept)

    work: asyncio.Task[Outcome[Any]] = asyncio.ensure_future(call_async.in_thread(body))
    try:
        with given_back(executor.home, claimed, begun.is_set):
            return await asyncio.shield(work)
    except asyncio.CancelledError:
        execution = executor.live.executions.get(claimed.run.id)
        if execution is not None:
            execution.stopping = True
        await asyncio.wait({work})
        raise


@contextmanager
def given_back(home: Home, claimed: RunClaim, has_begun: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """A claimed run for which there is no thread is given back as it was found; a new one is interrupted."""
    try:
        yield
    except errors.NoThread:
        if not has_begun():
            _give_back(home, claimed)
        raise


def _give_back(home: Home, claimed: RunClaim) -> None:
    claims.release(home, claimed, claimed.found if claimed.found != "new" else "interrupted")


def heard(executor: Executor, claimed: RunClaim) -> AbstractContextManager[object]:
    """Signals are heard while a claimed run goes on here. Entered it raises NoThread, giving it back."""
    return signals.over_defaults(executor, lambda: _give_back(executor.home, claimed))


def _ready(
    executor: Executor, claimed: RunClaim, spec: FlowSpec | None, *, blocking: bool = False
) -> tuple[FlowSpec, dict[str, Any]]:
    """A claimed run's flow and inputs. What cannot be run is given back: FlowNotFound, FlowElsewhere, InputsInvalid."""
    try:
        found = spec or same_flow.flow_of_run(executor, claimed.run)
        if found.is_async and blocking:
            refuse_loop(f"running the async flow {found.name}")
        if claimed.found != "new":
            _tell_restored(executor.home, claimed)
            inputs = same_flow.refuse_unfit(claimed.run, found)
            _relocate(executor.caller, claimed, found)
        else:
            inputs = found.typed(decode(claimed.run.inputs))
        return found, inputs
    except BaseException:
        _give_back(executor.home, claimed)
        raise


def _relocate(caller: Caller, claimed: RunClaim, spec: FlowSpec) -> None:
    """From now on the run is found where it goes on: on the record, and once for each place."""
    run = claimed.run
    now = same_flow.stays(caller.home.project, run, same_flow.known(caller.home, spec))
    if now == (run.identity, run.source, run.worktree):
        return
    facts = {"from": run.source, "to": now.source, "by": caller.actor}

    def work(tx: Writing) -> None:
        taken = tx.unfinished_run(run.scope, run.task, now.identity)
        known = now if taken is None else now._replace(identity=run.identity)
        moved = facts | {"row": row_digest(run._replace(**known._asdict()))}
        epoch, at = claimed.hold.epoch, caller.home.clock.now()
        tx.append(claimed.hold, [claims.run_fact(RELOCATED, moved, epoch=epoch, at=at, trace_id=run.trace_id)])
        tx.set_run_flow(run.key, *known)

    caller.home.store.write(work)


def _tell_restored(home: Home, claimed: RunClaim) -> None:
    """Say so before a run goes on that came out of a backup: what it did after that is not known here."""
    came = restoration_of(home.path)
    if came is not None and claimed.run.created_at <= came.made_at:
        at = f"{moment(came.made_at):%Y-%m-%d %H:%M:%S} UTC"
        home.warn(
            f"run {claimed.run.id} is as a backup of {came.home} had it at {at}; what it did there later is not known "
            "here and is done again, effects too: see that it does not go on in both homes"
        )


def continue_child(executor: Executor, run_id: str, spec: FlowSpec) -> Outcome[Any]:
    """A child run as it ended, or run on to its end: with the flow that its parent spawns now."""
    row = run_row(executor.home, run_id)
    if row.status in FINISHED:
        return looks.outcome_now(executor.caller, row)
    is_about_a_step = any(wait.type in OF_A_CALL for wait in waits_now(executor.home, row.key))
    stands = None if is_about_a_step else standing(executor.home, row)  # its flow may not ask for that step any more
    return stands or go_on(executor, claims.claim(executor.caller, run_id), spec)


def claim_run(caller: Caller, run_id: str, take: str = "") -> RunClaim:
    """Take a run over; `take` says why, of one that somebody holds. Raises RunFinished, RunHeld."""
    row = run_row(caller.home, run_id)
    if row.status in FINISHED:
        raise errors.RunFinished(row.id, row.status)
    return claims.claim(caller, row.id, take)
