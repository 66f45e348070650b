"""The calls that are more than one method by its name: what they do in the server."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from outlast.clock import micros
from outlast.doors.http.calls import CallRequest, Does, Page, cursor_of, page_asked, page_of
from outlast.doors.http.exchange import STREAMS
from outlast.doors.http.runs import go_on
from outlast.errors import Forbidden, HandoffInvalid, RequestInvalid
from outlast.operations.handoffs import packets
from outlast.operations.operation import fields_of
from outlast.operations.runs import StreamToken
from outlast.operations.shown import AnsweredWait, ShownPlan, ShownRun, failed_below

TOKEN_SECONDS = 60

if TYPE_CHECKING:
    from outlast import Interrupt, Outlast, RunRecord


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
