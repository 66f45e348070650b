"""Runs over HTTP: started and resumed in the background of the server, looked at, and decided about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from outlast.doors.http.calls import (
    Body,
    CallRequest,
    Gated,
    HttpCall,
    Page,
    Paged,
    Role,
    cursor_of,
    limit_of,
    page_of,
    place_in,
)
from outlast.doors.http.shapes import RunOutcome, RunPlan
from outlast.doors.http.streams import EVENTS, Follower
from outlast.errors import (
    AmbiguousPrefix,
    Contested,
    Finished,
    FlowElsewhere,
    FlowNotFound,
    InputsConflict,
    InputsInvalid,
    IntegrityBroken,
    Invalid,
    NameInvalid,
    NoFlows,
    OperationConflict,
    RepeatsEffects,
    RequestInvalid,
    RunFinished,
    RunHeld,
    RunNotFound,
    RunRemoved,
    RunSealed,
    StepAmbiguous,
    StepNotFound,
    TaskAborted,
    TaskDeclined,
    ValueRefused,
)
from outlast.python import awaited as answered
from outlast.python.homes import GATES_OF_RESUME
from outlast.python.outlast import Options, acceptance_of, taken_because
from outlast.python.project import inputs_of
from outlast.python.shown import outcome_json, plan_json
from outlast.runs.plan import Plan
from outlast.runs.receipt import Receipt
from outlast.runs.run import Outcome, RunRecord
from outlast.runs.timeline import TimelineItem
from outlast.values.codec import encode, jsonable

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.exchange import Exchange
    from outlast.python.awaited import Started

Status = Literal["running", "waiting", "failed", "interrupted", "crashed", "succeeded", "aborted"]
MISSING = (RunNotFound, RunRemoved, AmbiguousPrefix)
REFUSALS = (NoFlows, FlowNotFound, FlowElsewhere, RunHeld, RunSealed, Contested)
SOON = 2.0  # a start that is refused is refused within this time, or told by the run itself


class Start(Body):
    """A flow that the server was given, and its inputs."""

    flow: str
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    task: str | None = None
    fresh: bool = False
    session: str = ""
    trace_id: str = ""
    meta: dict[str, Any] | None = None
    again: bool = False
    yes: bool = False
    effects: tuple[str, ...] = ()
    operation_id: str | None = None


class Resume(Body):
    """What is taken upon oneself, what becomes of partial work, and whether it is taken from who holds it."""

    accept: tuple[str, ...] = ()
    why: str = ""
    partial: Literal["keep", "restore"] | None = None
    flow: str | None = None
    take: bool = False


class WaitQuery(Body):
    """How long to wait for the run to end or wait, in seconds; 0: not at all."""

    wait: float = 0.0


class Retry(Body):
    """The step to try again; without `effects` only if it is no effect."""

    step: str
    why: str = ""
    effects: bool = True
    operation_id: str | None = None


class Skip(Body):
    """The step to skip, and what counts as its result."""

    step: str
    why: str
    result: Any = None
    operation_id: str | None = None


class Rewind(Body):
    """The step to do again, and all after it."""

    step: str
    why: str = ""
    operation_id: str | None = None


class Fork(Body):
    """The step from which on the new run goes its own way, what is other in it, and what may happen again."""

    from_step: str
    inputs: dict[str, Any] | None = None
    state: dict[str, Any] | None = None
    reuse_effects: bool = False
    yes: bool = False
    effects: tuple[str, ...] = ()
    why: str = ""
    operation_id: str | None = None


class Abort(Body):
    """Why the run is given up."""

    why: str
    operation_id: str | None = None


class Pause(Body):
    """Nothing but, perhaps, an operation_id."""

    operation_id: str | None = None


class PlanQuery(Body):
    """Of which resume: one that first goes back to a step, that takes this upon itself, that keeps or restores."""

    from_step: str | None = None
    accept: tuple[str, ...] = ()
    partial: str | None = None


class RunsQuery(Paged):
    """Which runs to list."""

    status: Status | None = None


# -- starting and going on ---------------------------------------------------------------------------


async def _start(exchange: Exchange) -> None:
    wait = _wait_of(exchange, START)
    raw = await exchange.body(START)
    outlast, begun, replayed = await exchange.state.threads.starts(partial(_begun, exchange, raw), exchange.who)
    if isinstance(begun, Outcome):
        await _told_of_another(exchange, outlast, begun, wait)
    else:
        await _told(exchange, outlast, begun, replayed, wait)


def _begun(exchange: Exchange, raw: bytes) -> tuple[Outlast, Started[Any] | Outcome[Any], bool]:
    """The run that was begun or goes on; of one that somebody else runs how it stands, with its holder."""
    outlast, asked = exchange.opened(START, WaitQuery(), raw)
    body: Start = asked.body
    if body.again or body.yes or body.effects:
        assert exchange.identity is not None
        exchange.identity.refuse_without("approve")
    flow = exchange.state.flows.named(body.flow)
    options, inputs = Options(**asked.given("flow", "inputs")), inputs_of(flow, body.inputs)
    exchange.state.quota.admit(exchange.identity, outlast, START.name, len(raw))
    here = outlast._acting()  # a run of the server looks at the server's own files
    try:
        with _counted(exchange) as count:
            started, replayed = here._begin_soon(flow, inputs, options)
            count(started)
    except RunHeld as held:
        return outlast, _executed(outlast, held), False
    return outlast, started, replayed


def _executed(outlast: Outlast, held: RunHeld) -> Outcome[Any]:
    """How a run stands that somebody else executes. Raises RunHeld for one that is only claimed."""
    run = outlast.get(held.run_id)
    if run.holder and run.status != "running":
        raise held
    return outlast._outcome(run.id)


async def _told_of_another(exchange: Exchange, outlast: Outlast, found: Outcome[Any], wait: float) -> None:
    """How a run that somebody else runs stands: 202 with its holder, or 200 once it has ended or waits.

    One whose holder dies meanwhile goes on here.
    """
    if wait:
        await _while_running(exchange, outlast, found.run_id, wait)
        found = await exchange.in_thread(lambda: outlast._outcome(found.run_id))
    if found.status == "crashed":
        started = await exchange.state.threads.starts(partial(_taken_up, exchange, outlast, found.run_id), exchange.who)
        if started is not None:
            await _told(exchange, outlast, started, False, wait)
            return
    await _answer_with(exchange, found)


def _taken_up(exchange: Exchange, outlast: Outlast, run_id: str) -> Started[Any] | None:
    """A run whose holder is dead, going on here; None if somebody was quicker."""
    try:
        with _counted(exchange) as count:
            started = outlast._acting()._resume_soon(run_id, acceptance_of((), "", None))
            count(started)
    except (RunHeld, RunFinished):
        return None
    return started


async def _answer_with(exchange: Exchange, found: Outcome[Any]) -> None:
    going = found.status in ("running", "crashed")
    more = [(b"location", f"/v1/runs/{found.run_id}".encode())] if going else []
    await exchange.answer(202 if going else 200, encode(outcome_json(found)), more=more)


@contextmanager
def _counted(exchange: Exchange) -> Iterator[Callable[[Started[Any]], None]]:
    """Counts a run among those of its key for as long as it executes. Raises TooManyRuns."""
    assert exchange.identity is not None
    end = exchange.state.limits.begin_run(exchange.identity)
    try:
        yield lambda started: started.when_done(end)
    except BaseException:
        end()
        raise


async def _resume(exchange: Exchange) -> None:
    wait = _wait_of(exchange, RESUME)
    raw = await exchange.body(RESUME)
    begun = await exchange.state.threads.starts(partial(_resumed, exchange, raw), exchange.who)
    await _told(exchange, *begun, wait)


def go_on(outlast: Outlast, asked: CallRequest, run_id: str) -> str:
    """Resume a run whose wait was answered, in the server's background; why it does not go on, when it does not."""

    def resume(run: RunRecord) -> None:
        asked.state.flows.refuse_unserved(outlast, run)
        end = asked.state.limits.begin_run(asked.identity)
        try:
            outlast._acting()._resume_soon(run.id, acceptance_of((), "", None)).when_done(end)
        except BaseException:
            end()
            raise

    return answered.go_on(outlast, run_id, resume)


def _resumed(exchange: Exchange, raw: bytes) -> tuple[Outlast, Started[Any], bool]:
    outlast, asked = exchange.opened(RESUME, WaitQuery(), raw)
    body: Resume = asked.body
    run = outlast.get(asked.path["run_id"])
    exchange.state.flows.refuse_unserved(outlast, run, body.flow)
    here = outlast._acting()
    with _counted(exchange) as count:
        acceptance = acceptance_of(body.accept, body.why, body.partial)
        started = here._resume_soon(run.id, acceptance, body.flow, take=taken_because(body.take, body.why))
        count(started)
    return outlast, started, False


def _wait_of(exchange: Exchange, call: HttpCall) -> float:
    seconds: float = exchange.enter(call).wait
    longest = exchange.state.settings.wait_seconds
    if not 0 <= seconds <= longest:
        raise RequestInvalid("wait", f"it is {seconds}; wait for 0 to {longest:g} seconds, and ask again")
    exchange.is_waiting = seconds > 0
    return seconds


async def _told(exchange: Exchange, outlast: Outlast, started: Started[Any], replayed: bool, wait: float) -> None:
    """How the run stands: 200 once it has ended or waits, 202 while it goes on. Raises what refused it."""
    if not await _until(started, lambda: started.run_id in outlast._executor.live.executions, wait):
        body = outcome_json(Outcome(started.run_id, "running", notes=started.notes))
        await exchange.answer(202, encode(body), more=[(b"location", f"/v1/runs/{started.run_id}".encode())])
        return
    outcome = started.outcome(0)
    more = [(b"idempotency-replayed", b"true")] if replayed else []
    await exchange.answer(200, encode(outcome_json(outcome)), more=more)


async def _until(started: Started[Any], runs: Callable[[], bool], wait: float) -> bool:
    """Whether the run has ended, or waits, within that time. Whether it was refused shows in any case."""
    done, loop = asyncio.Event(), asyncio.get_running_loop()
    started.when_done(lambda: loop.call_soon_threadsafe(done.set))
    until, soon = loop.time() + wait, loop.time() + SOON
    while not done.is_set():
        now = loop.time()
        left = until - now if runs() or now > soon else min(0.005, soon - now)
        if left <= 0:
            return False
        try:
            await asyncio.wait_for(done.wait(), left)
        except TimeoutError:
            continue
    return True


async def _outcome(exchange: Exchange) -> None:
    """How a run stands; with `wait` once it has ended or waits, or the time is over."""
    wait = _wait_of(exchange, OUTCOME)
    outlast, asked = await exchange.in_thread(exchange.opened, OUTCOME, WaitQuery(wait=wait))
    run = await exchange.in_thread(outlast.get, asked.path["run_id"])
    if wait and run.status == "running":
        await _while_running(exchange, outlast, run.id, wait)
    found = await exchange.in_thread(lambda: outlast._outcome(run.id))
    await exchange.answer(202 if found.status == "running" else 200, encode(outcome_json(found)))


async def _while_running(exchange: Exchange, outlast: Outlast, run_id: str, seconds: float) -> None:
    follower, watchers, tenant = Follower(), exchange.state.watchers, outlast._executor.home.tenant
    watch = await watchers.join(outlast, tenant, run_id, follower)
    try:
        async with asyncio.timeout(seconds):
            while watch.status == "running" and watch.error is None and not exchange.state.ending.is_set():
                await follower.wake.wait()
                follower.wake.clear()
    except TimeoutError:
        return
    finally:
        watchers.leave(tenant, run_id, watch, follower)


# -- looking -----------------------------------------------------------------------------------------


def _list(outlast: Outlast, asked: CallRequest) -> Page:
    query: RunsQuery = asked.query
    limit, place = limit_of(query), place_in(query.cursor, str)
    found = outlast.runs(status=query.status, limit=limit + 1, before=place[0] if place else None)
    return page_of(found, limit, lambda last: cursor_of(last.id))


def _get(outlast: Outlast, asked: CallRequest) -> RunRecord:
    return outlast.get(asked.path["run_id"])


def _receipts(outlast: Outlast, asked: CallRequest) -> Page:
    """Receipts are made of the whole journal: a page is a part of that."""
    query: Paged = asked.query
    limit, place = limit_of(query), place_in(query.cursor, int)
    start = place[0] if place else 0
    found = outlast.receipts(asked.path["run_id"])[max(start, 0) :]
    return page_of(found[: limit + 1], limit, lambda last: cursor_of(start + limit))


def _timeline(outlast: Outlast, asked: CallRequest) -> Page:
    return Page(outlast.timeline(asked.path["run_id"]))


def _plan(outlast: Outlast, asked: CallRequest) -> tuple[Plan, Any]:
    run_id, query = asked.path["run_id"], asked.query
    plan = outlast.plan(run_id, from_step=query.from_step, accept=query.accept, partial=query.partial)
    return plan, outlast.interrupts(run_id)


# -- deciding ----------------------------------------------------------------------------------------


def _retry(outlast: Outlast, asked: CallRequest) -> RunRecord:
    effects = asked.body.effects and asked.identity.may("approve")
    return outlast.retry(asked.path["run_id"], **asked.given("effects"), effects=effects)


def _skip(outlast: Outlast, asked: CallRequest) -> RunRecord:
    return outlast.skip(asked.path["run_id"], **asked.given())


def _rewind(outlast: Outlast, asked: CallRequest) -> RunRecord:
    return outlast.rewind(asked.path["run_id"], **asked.given())


def _fork(outlast: Outlast, asked: CallRequest) -> RunRecord:
    """Other inputs are checked by the flow's code: only by that of flows that are served."""
    if asked.body.inputs:
        asked.state.flows.refuse_unserved(outlast, outlast.get(asked.path["run_id"]))
    return outlast.fork(asked.path["run_id"], **asked.given())


def _abort(outlast: Outlast, asked: CallRequest) -> RunRecord:
    return outlast.abort(asked.path["run_id"], **asked.given())


def _pause(outlast: Outlast, asked: CallRequest) -> RunRecord:
    return outlast.pause(asked.path["run_id"], **asked.given())


def _look(path: str, name: str, summary: str, **more: Any) -> HttpCall:
    return HttpCall(method="GET", path=f"/v1/runs{path}", name=name, summary=summary, role="read", **more)


def _decide(
    verb: str,
    summary: str,
    body: type[Body],
    does: Any,
    example: dict[str, Any],
    role: Role = "write",
    detail: str = "",
) -> HttpCall:
    """A decision about a run or a step of it."""
    return HttpCall(
        method="POST",
        path=f"/v1/runs/{{run_id}}/{verb}",
        name=f"run_{verb}",
        summary=summary,
        role=role,
        body=body,
        does=does,
        gives=RunRecord,
        shows=jsonable,
        errors=(*MISSING, RunFinished, RunHeld, RunSealed, StepNotFound, StepAmbiguous, Invalid, OperationConflict),
        example=example,
        detail=detail,
    )


HELD = (
    " While somebody else runs it already, the answer is 202 with its id and its `holder`, and `wait` waits for that "
    "one; should its holder die, it goes on here. With an `operation_id`, or the header `Idempotency-Key`, the same "
    "call again gives the run that it began, whatever became of it."
)
GOING = (
    "The answer comes at once (202) while the run goes on in the server; `wait` waits for its end, or for it to wait, "
    "and then answers 200. Only flows that the server was started with (`--flows`) can be run."
)
START = HttpCall(
    method="POST",
    path="/v1/runs",
    name="run_start",
    summary="Run a flow; the same call after a crash continues the same run",
    role="write",
    body=Start,
    query=WaitQuery,
    serves=_start,
    gives=RunOutcome,
    status=202,
    errors=(
        *REFUSALS,
        InputsInvalid,
        InputsConflict,
        NameInvalid,
        OperationConflict,
        TaskAborted,
        TaskDeclined,
        Finished,
        RepeatsEffects,
        IntegrityBroken,
    ),
    detail=f"{GOING}{HELD} A task that is named happens once: after its success the same call is answered with its "
    "outcome (`replayed`), and `again` starts another. `again`, `yes` and `effects` need the role `approve`.",
    example={"flow": "daily_report", "inputs": {"topic": "ai"}, "task": "report-2026-11-16"},
)
RESUME = HttpCall(
    method="POST",
    path="/v1/runs/{run_id}/resume",
    name="run_resume",
    summary="Continue a run",
    role=Gated("write", GATES_OF_RESUME),
    body=Resume,
    query=WaitQuery,
    serves=_resume,
    gives=RunOutcome,
    status=202,
    errors=(*REFUSALS, *MISSING, RunFinished, IntegrityBroken, NameInvalid),
    detail=f"{GOING} To take it from who holds it (`take`, with `why`), and to name the flow that it goes on with "
    "(`flow`), needs the role approve.",
    example={"accept": ["code_changed"], "why": "the change is a comment"},
)
OUTCOME = _look(
    "/{run_id}/outcome",
    "run_outcome",
    "How a run stands: its result, waits or error",
    serves=_outcome,
    query=WaitQuery,
    gives=RunOutcome,
    errors=MISSING,
    also={202: "It still goes on"},
    detail="202 while the run goes on; `wait` waits for its end, or for it to wait.",
)

CALLS = (
    _look("", "run_list", "The newest runs", does=_list, query=RunsQuery, gives=RunRecord, shows=jsonable, page=True),
    START,
    _look("/{run_id}", "run_get", "A run", does=_get, gives=RunRecord, shows=jsonable, errors=MISSING),
    OUTCOME,
    EVENTS,
    _look(
        "/{run_id}/receipts",
        "run_receipts",
        "One receipt for each attempt of each step",
        does=_receipts,
        query=Paged,
        gives=Receipt,
        shows=jsonable,
        page=True,
        errors=(*MISSING, IntegrityBroken),
    ),
    _look(
        "/{run_id}/timeline",
        "run_timeline",
        "Every attempt, wait, decision and stop of a run, with when it began and ended",
        does=_timeline,
        gives=TimelineItem,
        shows=jsonable,
        page=True,
        errors=(*MISSING, IntegrityBroken),
    ),
    _look(
        "/{run_id}/plan",
        "run_plan",
        "What resuming would do, with the verdict and its reasons",
        does=_plan,
        query=PlanQuery,
        gives=RunPlan,
        shows=lambda found: plan_json(*found),
        errors=(*MISSING, IntegrityBroken, RunFinished, StepNotFound, StepAmbiguous, NameInvalid),
    ),
    RESUME,
    _decide(
        "retry",
        "Let the next resume try a step again",
        Retry,
        _retry,
        {"step": "publish", "why": "it is up again"},
        detail="Of an effect it needs the role `approve` too.",
    ),
    _decide(
        "skip",
        "Let the next resume take a result instead of running a step",
        Skip,
        _skip,
        {"step": "publish", "result": None, "why": "published by hand"},
        role="approve",
    ),
    _decide(
        "rewind",
        "Let the next resume do a step and all after it again",
        Rewind,
        _rewind,
        {"step": "draft"},
        role="approve",
    ),
    HttpCall(
        method="POST",
        path="/v1/runs/{run_id}/fork",
        name="run_fork",
        summary="Make another run from a chosen step of one, which stays as it is",
        role="approve",
        body=Fork,
        does=_fork,
        gives=RunRecord,
        shows=jsonable,
        errors=(
            *MISSING,
            *(RunSealed, StepNotFound, StepAmbiguous, IntegrityBroken),
            *(RepeatsEffects, InputsInvalid, NoFlows, FlowNotFound, FlowElsewhere),
            *(NameInvalid, ValueRefused, OperationConflict),
        ),
        example={"from_step": "draft", "inputs": {"tone": "stern"}, "reuse_effects": True},
        detail="What came before the step is taken over; the rest is done anew when the new run is resumed. Effects "
        "that it would repeat are refused (`repeats_effects`) unless `yes`, or `effects` names them; `reuse_effects` "
        "keeps their results. Other `inputs` need a flow that the server was started with.",
    ),
    _decide("abort", "Give a run up, now, whoever owns it", Abort, _abort, {"why": "not needed any more"}),
    _decide("pause", "Ask a running run to stop at its next step", Pause, _pause, {}),
)
