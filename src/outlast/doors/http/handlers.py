"""The calls that are more than one method by its name: what they do in the server.

Runs are started and resumed in the background of the server, looked at, and decided about.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from outlast import Outcome
from outlast.clock import micros
from outlast.doors.http.calls import CallRequest, Does, Page, limit_asked, page_asked, page_of
from outlast.doors.http.exchange import STREAMS
from outlast.doors.http.streams import Follower
from outlast.errors import Forbidden, HandoffInvalid, RequestInvalid, RunFinished, RunHeld
from outlast.operations.handoffs import packets
from outlast.operations.operation import Operation, cursor_of, fields_of
from outlast.operations.runs import StreamToken
from outlast.operations.shown import AnsweredWait, ShownPlan, ShownRun, failed_below, shown
from outlast.operations.table import OPERATIONS
from outlast.python import awaited as answered
from outlast.python.door import is_executing, whose
from outlast.python.outlast import Options, acceptance_of, taken_because
from outlast.python.project import inputs_of
from outlast.values.codec import encode

if TYPE_CHECKING:
    from outlast import Acts, Interrupt, Outlast, RunRecord
    from outlast.doors.http.exchange import Exchange
    from outlast.python.awaited import Started

TOKEN_SECONDS = 60


# -- handoffs ----------------------------------------------------------------------------------------


def _store(outlast: Outlast, asked: CallRequest) -> Any:
    return asked.operation.perform(outlast, packets(asked.given()))


def _recover(outlast: Outlast, asked: CallRequest) -> Any:
    file = asked.request.file_path
    if file is not None and file.startswith("/"):
        raise HandoffInvalid("file_path", "it is a path of some machine", "name it from the root of the repository")
    return outlast.handoff.recover(**asked.given())


def _near(outlast: Outlast, asked: CallRequest) -> Page:
    request = asked.request
    if request.branch is not None and request.file_path is not None:
        raise RequestInvalid("branch", "name a branch or a file, one of them")
    limit, place = page_asked(asked, int)
    wanted = (request.branch, request.file_path, request.symbol)
    found = outlast.handoff._open_about(*wanted, limit=limit + 1, before=place[0] if place else 0)
    return page_of(found, limit, lambda last: cursor_of(last.place))


# -- runs --------------------------------------------------------------------------------------------


def _runs(outlast: Outlast, asked: CallRequest) -> Page:
    """Who started a run is not who asks."""
    limit, place = page_asked(asked, str)
    given = asked.given("started_by") | {"actor": asked.request.started_by, "limit": limit + 1}
    found = outlast.runs(**given | {"cursor": place[0] if place else None, "scope": asked.request.scope})
    return page_of(found, limit, lambda last: cursor_of(last.id))


def _run(outlast: Outlast, asked: CallRequest) -> ShownRun:
    run = outlast.get(**asked.given())
    return ShownRun(run, failed_below(outlast, run))


def _receipts(outlast: Outlast, asked: CallRequest) -> Page:
    """The whole journal is read for a page, and only its receipts are made."""
    limit, place = page_asked(asked, int)
    start = place[0] if place else 0
    attempts = outlast._attempts(asked.request.run_id)
    found = [attempts.receipt(each) for each in attempts.heard[max(start, 0) :][: limit + 1]]
    return page_of(found, limit, lambda last: cursor_of(start + limit))


def _plan(outlast: Outlast, asked: CallRequest) -> ShownPlan:
    return ShownPlan(outlast.plan(**asked.given()), outlast.interrupts(asked.request.run_id))


def _retry(outlast: Outlast, asked: CallRequest) -> RunRecord:
    effects = asked.request.effects and asked.identity.may("approve")
    return outlast.retry(**asked.given("effects"), effects=effects)


def _fork(outlast: Outlast, asked: CallRequest) -> RunRecord:
    """Other inputs are checked by the flow's code: only by that of flows that are served."""
    if asked.request.inputs:
        asked.state.refuse_unserved(outlast, outlast.get(asked.request.run_id))
    return outlast.fork(**asked.given())


def _audit(outlast: Outlast, asked: CallRequest) -> Any:
    return outlast.audit(outlast.get(asked.request.run_id).id)


def _verify(outlast: Outlast, asked: CallRequest) -> Any:
    if asked.request.run_id is None:
        asked.identity.refuse_without("admin")  # it reads every byte of the home
    return outlast.verify(asked.request.run_id)


def _keys(outlast: Outlast, asked: CallRequest) -> Page:
    if asked.identity.key is not None and asked.identity.key.scopes:
        raise Forbidden("keys are of the whole tenant, and this one is bound to some of its scopes", "use another key")
    tenant = asked.identity.tenant_named(asked.request.tenant_id)
    return Page([key for key in asked.state.keys.list() if key.tenant == tenant])


def _acts(outlast: Outlast, asked: CallRequest) -> Acts:
    is_admin = asked.identity.may("admin")
    return outlast._acts(**asked.given("limit"), limit=limit_asked(asked), scope=asked.request.scope, is_admin=is_admin)


def _stream_token(outlast: Outlast, asked: CallRequest) -> StreamToken:
    key = asked.identity.key
    text = asked.state.keys.token(key.id, STREAMS, TOKEN_SECONDS) if key is not None else ""
    return StreamToken(text, TOKEN_SECONDS)


# -- schedules ---------------------------------------------------------------------------------------


def _add_schedule(outlast: Outlast, asked: CallRequest) -> Any:
    """Of a flow that the server was given."""
    flow = asked.state.flows.named(asked.request.flow)
    return outlast.schedules.add(flow=flow, **asked.given("flow"))


def _trigger(outlast: Outlast, asked: CallRequest) -> RunRecord:
    """Nobody makes the server load code: NoFlows for a schedule of another flow than it was given."""
    for one in outlast.schedules.list():
        if one.name == asked.request.name:
            asked.state.flows.named(one.flow)
    return outlast.schedules.trigger(**asked.given())


# -- interrupts --------------------------------------------------------------------------------------


def _waits(outlast: Outlast, asked: CallRequest) -> Page:
    """The open waits, the oldest first."""
    limit, place = page_asked(asked, int, str)
    found = sorted(outlast.interrupts(asked.request.run_id), key=_place)
    after = place or (0, "")
    return page_of([wait for wait in found if _place(wait) > after], limit, lambda last: cursor_of(*_place(last)))


def _place(wait: Interrupt) -> tuple[int, str]:
    return micros(wait.opened_at), wait.id


def _inbox(outlast: Outlast, asked: CallRequest) -> Page:
    found = outlast.inbox(**asked.given() | {"scope": asked.request.scope})
    is_all = asked.request.assignee is asked.request.type is None
    return Page(found, beside={"contested": found.newest_contested} if is_all else {})


def _answer(outlast: Outlast, asked: CallRequest) -> AnsweredWait:
    wait = outlast.answer(**asked.given("resume"))
    why_not = go_on(outlast, asked, wait.run_id) if asked.request.resume else None
    return AnsweredWait(wait, why_not == "", why_not or "")


# -- workspace ---------------------------------------------------------------------------------------


def _save(outlast: Outlast, asked: CallRequest) -> Any:
    return outlast.workspace.save(content=_content(asked.request), **asked.given("content", "content_base64"))


def _content(request: Any) -> str | bytes:
    if (request.content is None) == (request.content_base64 is None):
        raise RequestInvalid("content", "give either content or content_base64")
    if request.content is not None:
        return str(request.content)
    try:
        return base64.b64decode(request.content_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestInvalid("content_base64", f"it is no base64: {error}") from error


def _record_many(outlast: Outlast, asked: CallRequest) -> Page:
    records = [fields_of(each) for each in asked.request.records]
    return Page(outlast.workspace.record_many(records, **asked.given("records")))


def _messages(outlast: Outlast, asked: CallRequest) -> Page:
    request, (limit, place) = asked.request, page_asked(asked, int)
    if request.last is not None:
        return Page(outlast.sessions.last(request.session_id, min(request.last, limit)))
    after = place[0] if place else request.after
    found = outlast.sessions.messages(request.session_id, after=after, limit=limit + 1)
    return page_of(found, limit, lambda last: cursor_of(last.seq))


# -- tasks: each request is a session of its own -----------------------------------------------------


def _open_task(outlast: Outlast, asked: CallRequest) -> Any:
    return outlast.tasks.get(outlast.tasks.open(**asked.given()).task_id)


def _at_task(method: str) -> Does:
    """A call of the session that a request is, with what else it says."""

    def does(outlast: Outlast, asked: CallRequest) -> Any:
        given = packets(asked.given()) if method == "pause_task" else asked.given()
        whose = {name: given.pop(name) for name in ("task_id", "claim_id", "repo_root") if name in given}
        if method == "pause_task":
            given["repo_root"] = whose.pop("repo_root")
        return getattr(outlast.tasks.session(**whose), method)(**given)

    return does


def _task_events(outlast: Outlast, asked: CallRequest) -> Page:
    limit, place = page_asked(asked, int)
    at = outlast.tasks.session(asked.request.task_id)
    found = at.events(after=place[0] if place else asked.request.after, limit=limit + 1)
    return page_of(found, limit, lambda last: cursor_of(last.seq))


HANDLERS: dict[str, Does] = {
    "handoff_store": _store,
    "handoff_lint": _store,
    "handoff_recover": _recover,
    "handoff_near": _near,
    "run_list": _runs,
    "run_get": _run,
    "run_receipts": _receipts,
    "run_plan": _plan,
    "run_retry": _retry,
    "run_fork": _fork,
    "run_audit": _audit,
    "home_verify": _verify,
    "stream_token": _stream_token,
    "home_acts": _acts,
    "key_list": _keys,
    "schedule_add": _add_schedule,
    "schedule_trigger": _trigger,
    "interrupt_list": _waits,
    "interrupt_inbox": _inbox,
    "interrupt_answer": _answer,
    "workspace_save": _save,
    "workspace_record_many": _record_many,
    "session_messages": _messages,
    "task_open": _open_task,
    "task_inspect": _at_task("inspect_task_context"),
    "task_inspect_seen": _at_task("inspect_task_context"),
    "task_pause": _at_task("pause_task"),
    "task_resume": _at_task("resume_task"),
    "task_complete": _at_task("complete_task"),
    "task_record": _at_task("record_event"),
    "task_events": _task_events,
}


# -- runs in the background --------------------------------------------------------------------------

START, RESUME, OUTCOME = (OPERATIONS[name] for name in ("run_start", "run_resume", "run_outcome"))
GOING = ("queued", "running")
SOON = 2.0  # a start that is refused is refused within this time, or told by the run itself


# -- starting and going on ---------------------------------------------------------------------------


async def _start(exchange: Exchange) -> None:
    query, wait = _wait_of(exchange, START)
    work = partial(_begun, exchange, query, await exchange.body(START))
    outlast, begun = await exchange.state.threads.starting.do(work, exchange.who)
    if isinstance(begun, Outcome):
        await _told_of_another(exchange, outlast, begun, wait)
    else:
        await _told(exchange, outlast, begun, wait)


def _begun(exchange: Exchange, query: Any, raw: bytes) -> tuple[Outlast, Started[Any] | Outcome[Any]]:
    """The run that was begun or goes on; of one that somebody else runs how it stands, with its holder."""
    outlast, asked = exchange.opened(START, query, raw)
    request = asked.request
    flow = exchange.state.flows.named(request.flow)
    options, inputs = _options(exchange, flow, asked.given("flow", "inputs", "wait")), inputs_of(flow, request.inputs)
    exchange.state.quota.admit(exchange.identity, outlast, START.name, len(raw))
    here = outlast._acting()  # a run of the server looks at the server's own files
    try:
        begin = partial(here._begin_soon, flow, inputs, options)
        return outlast, exchange.state.limits.counted(asked.identity, begin)
    except RunHeld as held:
        return outlast, _executed(outlast, held)


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
        started = await exchange.state.threads.starting.do(
            partial(_taken_up, exchange, outlast, found.run_id), exchange.who
        )
        if started is not None:
            await _told(exchange, outlast, started, wait)
            return
    await _answer_with(exchange, found)


def _taken_up(exchange: Exchange, outlast: Outlast, run_id: str) -> Started[Any] | None:
    """A run whose holder is dead, going on here; None if somebody was quicker."""
    assert exchange.identity is not None
    resume = partial(outlast._acting()._resume_soon, run_id, acceptance_of((), "", None))
    try:
        return exchange.state.limits.counted(exchange.identity, resume)
    except (RunHeld, RunFinished):
        return None


async def _answer_with(exchange: Exchange, found: Outcome[Any]) -> None:
    going = found.status in ("queued", "running", "crashed")
    more = [(b"location", f"/v1/runs/{found.run_id}".encode())] if going else []
    await exchange.answer(202 if going else 200, encode(shown(found)), more=more)


async def _resume(exchange: Exchange) -> None:
    query, wait = _wait_of(exchange, RESUME)
    work = partial(_resumed, exchange, query, await exchange.body(RESUME))
    begun = await exchange.state.threads.starting.do(work, exchange.who)
    await _told(exchange, *begun, wait)


def go_on(outlast: Outlast, asked: CallRequest, run_id: str) -> str:
    """Resume a run whose wait was answered, in the server's background; why it does not go on, when it does not."""

    def resume(run: RunRecord) -> None:
        asked.state.refuse_unserved(outlast, run)
        begin = partial(outlast._acting()._resume_soon, run.id, acceptance_of((), "", None))
        asked.state.limits.counted(asked.identity, begin)

    return answered.go_on(outlast, run_id, resume)


def _resumed(exchange: Exchange, query: Any, raw: bytes) -> tuple[Outlast, Started[Any]]:
    outlast, asked = exchange.opened(RESUME, query, raw)
    return outlast, resume_here(exchange, outlast, asked)


def resume_here(exchange: Exchange, outlast: Outlast, asked: CallRequest) -> Started[Any]:
    """A run going on in the server's background. Raises NoFlows, RunHeld, RunFinished, TooManyRuns."""
    request = asked.request
    run = outlast.get(request.run_id)
    exchange.state.refuse_unserved(outlast, run, request.flow)
    here = outlast._acting()

    def begin() -> Started[Any]:
        acceptance = acceptance_of(request.accept, request.why, request.partial, whose(here).actor)
        take = taken_because(request.take, request.why)
        return here._resume_soon(run.id, acceptance, request.flow, take=take)

    return exchange.state.limits.counted(asked.identity, begin)


def _wait_of(exchange: Exchange, call: Operation) -> tuple[Any, float]:
    """The query, and how long it says to wait. Raises RequestInvalid."""
    query = exchange.enter(call)
    seconds: float = query.wait
    longest = exchange.state.settings.wait_seconds
    if not 0 <= seconds <= longest:
        raise RequestInvalid("wait", f"it is {seconds}; wait for 0 to {longest:g} seconds, and ask again")
    exchange.is_waiting = seconds > 0
    return query, seconds


async def _told(exchange: Exchange, outlast: Outlast, started: Started[Any], wait: float) -> None:
    """How the run stands: 200 once it has ended or waits, 202 while it goes on. Raises what refused it."""
    if not await _until(started, lambda: is_executing(outlast, started.run_id), wait):
        await _answer_with(exchange, Outcome(started.run_id, "running", notes=started.notes))
        return
    outcome = started.outcome(0)
    more = [(b"idempotency-replayed", b"true")] if started.replayed else []
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
