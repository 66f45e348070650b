"""Runs over HTTP: started and resumed in the background of the server, looked at, and decided about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from outlast import Outcome
from outlast.doors.http.streams import Follower
from outlast.errors import RequestInvalid, RunFinished, RunHeld
from outlast.operations.operation import Operation
from outlast.operations.shown import shown
from outlast.operations.table import OPERATIONS
from outlast.python import awaited as answered
from outlast.python.door import is_executing, whose
from outlast.python.outlast import Options, acceptance_of, taken_because
from outlast.python.project import inputs_of
from outlast.values.codec import encode

if TYPE_CHECKING:
    from outlast import Outlast, RunRecord
    from outlast.doors.http.calls import CallRequest
    from outlast.doors.http.exchange import Exchange
    from outlast.python.awaited import Started

START, RESUME, OUTCOME = (OPERATIONS[name] for name in ("run_start", "run_resume", "run_outcome"))
GOING = ("queued", "running")
SOON = 2.0  # a start that is refused is refused within this time, or told by the run itself


# -- starting and going on ---------------------------------------------------------------------------


async def _start(exchange: Exchange) -> None:
    query, wait = _wait_of(exchange, START)
    work = partial(_begun, exchange, query, await exchange.body(START))
    outlast, begun, replayed = await exchange.state.threads.starts(work, exchange.who)
    if isinstance(begun, Outcome):
        await _told_of_another(exchange, outlast, begun, wait)
    else:
        await _told(exchange, outlast, begun, replayed, wait)


def _begun(exchange: Exchange, query: Any, raw: bytes) -> tuple[Outlast, Started[Any] | Outcome[Any], bool]:
    """The run that was begun or goes on; of one that somebody else runs how it stands, with its holder."""
    outlast, asked = exchange.opened(START, query, raw)
    request = asked.request
    flow = exchange.state.flows.named(request.flow)
    options, inputs = _options(exchange, flow, asked.given("flow", "inputs", "wait")), inputs_of(flow, request.inputs)
    exchange.state.quota.admit(exchange.identity, outlast, START.name, len(raw))
    here = outlast._acting()  # a run of the server looks at the server's own files
    try:
        with _counted(exchange) as count:
            started, replayed = here._begin_soon(flow, inputs, options)
            count(started)
    except RunHeld as held:
        return outlast, _executed(outlast, held), False
    return outlast, started, replayed


def _options(exchange: Exchange, flow: Any, given: dict[str, Any]) -> Options:
    """What was asked for; where Temporal is the server's engine, that has what is left to no other queue."""
    named = given.get("engine") or given.get("queue") or flow.spec.limits.queue
    engine = {} if named or exchange.state.settings.temporal is None else {"engine": "temporal"}
    return Options(**given | engine)


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
    going = found.status in ("queued", "running", "crashed")
    more = [(b"location", f"/v1/runs/{found.run_id}".encode())] if going else []
    await exchange.answer(202 if going else 200, encode(shown(found)), more=more)


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
    query, wait = _wait_of(exchange, RESUME)
    work = partial(_resumed, exchange, query, await exchange.body(RESUME))
    begun = await exchange.state.threads.starts(work, exchange.who)
    await _told(exchange, *begun, wait)


def go_on(outlast: Outlast, asked: CallRequest, run_id: str) -> str:
    """Resume a run whose wait was answered, in the server's background; why it does not go on, when it does not."""

    def resume(run: RunRecord) -> None:
        asked.state.refuse_unserved(outlast, run)
        end = asked.state.limits.begin_run(asked.identity)
        try:
            outlast._acting()._resume_soon(run.id, acceptance_of((), "", None)).when_done(end)
        except BaseException:
            end()
            raise

    return answered.go_on(outlast, run_id, resume)


def _resumed(exchange: Exchange, query: Any, raw: bytes) -> tuple[Outlast, Started[Any], bool]:
    outlast, asked = exchange.opened(RESUME, query, raw)
    return outlast, resume_here(exchange, outlast, asked), False


def resume_here(exchange: Exchange, outlast: Outlast, asked: CallRequest) -> Started[Any]:
    """A run going on in the server's background. Raises NoFlows, RunHeld, RunFinished, TooManyRuns."""
    request = asked.request
    run = outlast.get(request.run_id)
    exchange.state.refuse_unserved(outlast, run, request.flow)
    here = outlast._acting()
    with _counted(exchange) as count:
        acceptance = acceptance_of(request.accept, request.why, request.partial)
        take = taken_because(request.take, request.why)
        started = here._resume_soon(run.id, acceptance, request.flow, take=take)
        count(started)
    return started


def _wait_of(exchange: Exchange, call: Operation) -> tuple[Any, float]:
    """The query, and how long it says to wait. Raises RequestInvalid."""
    query = exchange.enter(call)
    seconds: float = query.wait
    longest = exchange.state.settings.wait_seconds
    if not 0 <= seconds <= longest:
        raise RequestInvalid("wait", f"it is {seconds}; wait for 0 to {longest:g} seconds, and ask again")
    exchange.is_waiting = seconds > 0
    return query, seconds


async def _told(exchange: Exchange, outlast: Outlast, started: Started[Any], replayed: bool, wait: float) -> None:
    """How the run stands: 200 once it has ended or waits, 202 while it goes on. Raises what refused it."""
    if not await _until(started, lambda: is_executing(outlast, started.run_id), wait):
        body = shown(Outcome(started.run_id, "running", notes=started.notes))
        await exchange.answer(202, encode(body), more=[(b"location", f"/v1/runs/{started.run_id}".encode())])
        return
    outcome = started.outcome(0)
    more = [(b"idempotency-replayed", b"true")] if replayed else []
    await exchange.answer(200, encode(shown(outcome)), more=more)


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
    query, wait = _wait_of(exchange, OUTCOME)
    outlast, asked = await exchange.in_thread(exchange.opened, OUTCOME, query)
    run = await exchange.in_thread(outlast.get, asked.request.run_id)
    if wait and run.status in GOING:
        await _while_running(exchange, outlast, run.id, wait)
    found = await exchange.in_thread(lambda: outlast._outcome(run.id))
    await exchange.answer(202 if found.status in GOING else 200, encode(shown(found)))


async def _while_running(exchange: Exchange, outlast: Outlast, run_id: str, seconds: float) -> None:
    follower, watchers, tenant = Follower(), exchange.state.watchers, whose(outlast).tenant
    watch = await watchers.join(outlast, tenant, run_id, follower)
    try:
        async with asyncio.timeout(seconds):
            while watch.status in GOING and watch.error is None and not exchange.state.ending.is_set():
                await follower.wake.wait()
                follower.wake.clear()
    except TimeoutError:
        return
    finally:
        watchers.leave(tenant, run_id, watch, follower)


SERVES = {START.name: _start, RESUME.name: _resume, OUTCOME.name: _outcome}
