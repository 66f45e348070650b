"""What else is asked about runs and the home: the inbox, what is due, transcripts, audits, the check of all records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from outlast.care.audit.flow import Audit
from outlast.doors.http.blobs import BYTES
from outlast.doors.http.calls import Body, CallRequest, HttpCall, Page
from outlast.doors.http.handoffs import listed
from outlast.doors.http.shapes import CheckedStore, ListedHandoff, StepLog, WaitItem
from outlast.errors import (
    AmbiguousPrefix,
    IntegrityBroken,
    RunNotFound,
    RunRemoved,
    StepAmbiguous,
    StepNotFound,
)
from outlast.handoffs.compose import StepHandoff
from outlast.python.shown import wait_json
from outlast.runs.due import Due
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.care.verify import Verification
    from outlast.commands.logs import CommandLog
    from outlast.doors.http.exchange import Exchange
    from outlast.runs.inbox import InboxItem

MISSING = (RunNotFound, RunRemoved, AmbiguousPrefix)
STEPS = (*MISSING, StepNotFound, StepAmbiguous, IntegrityBroken)


class InboxQuery(Body):
    """Whose waits, and of what kind."""

    assignee: str | None = None
    type: str | None = None


class DueQuery(Body):
    """Whether also those that were left more than a week ago."""

    all: bool = False


class StepQuery(Body):
    """Which step, by its label or name."""

    step: str


class LogsQuery(Body):
    """Of which step and attempt; without them, of all."""

    step: str | None = None
    attempt: int | None = None


class LogQuery(Body):
    """Of which step and attempt."""

    step: str
    attempt: int


class VerifyQuery(Body):
    """Of which run; without one, of the whole store."""

    run_id: str | None = None


def _inbox(outlast: Outlast, asked: CallRequest) -> Page:
    assignee, kind = asked.query.assignee, asked.query.type
    found = outlast.inbox(assignee=assignee, type=kind)
    told = {"contested": [listed(one) for one in found.contested]} if assignee is kind is None else {}
    return Page(found, beside=told)


def _inbox_json(item: InboxItem) -> dict[str, Any]:
    return {**jsonable(item), "interrupt": wait_json(item.interrupt)}


def _due(outlast: Outlast, asked: CallRequest) -> Page:
    return Page(outlast.due(all=asked.query.all))


def _facts(outlast: Outlast, asked: CallRequest) -> dict[str, Any]:
    return outlast.facts()


def _verify(outlast: Outlast, asked: CallRequest) -> Verification:
    if asked.query.run_id is None:
        asked.identity.refuse_without("admin")  # it reads every byte of the home
    return outlast.verify(asked.query.run_id)


def _verify_json(found: Verification) -> dict[str, Any]:
    return {**jsonable(found), "ok": found.ok}


def _audit(outlast: Outlast, asked: CallRequest) -> Audit:
    return outlast.audit(outlast.get(asked.path["run_id"]).id)


def _handoff(outlast: Outlast, asked: CallRequest) -> StepHandoff:
    return outlast.handoff.step(asked.path["run_id"], asked.query.step)


def _logs(outlast: Outlast, asked: CallRequest) -> Page:
    return Page(outlast.logs(asked.path["run_id"], asked.query.step, attempt=asked.query.attempt))


def _log_json(log: CommandLog) -> dict[str, Any]:
    names = ("step", "attempt", "status", "exit", "started_at", "ended_at", "size_bytes", "incomplete", "masked")
    return {name: jsonable(getattr(log, name)) for name in names}


async def _log(exchange: Exchange) -> None:
    query: LogQuery = exchange.enter(LOG)
    outlast, asked = await exchange.in_thread(exchange.opened, LOG, query)
    pieces = await exchange.in_thread(_pieces, outlast, asked)
    await exchange.send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", BYTES.encode())]})
    while piece := await exchange.in_thread(next, pieces, b""):
        await exchange.send({"type": "http.response.body", "body": piece, "more_body": True})
    await exchange.send({"type": "http.response.body", "body": b""})


def _pieces(outlast: Outlast, asked: CallRequest) -> Iterator[bytes]:
    """Raises StepNotFound, also for a step of Python code: it printed nothing that is kept."""
    run_id, step, attempt = asked.path["run_id"], asked.query.step, asked.query.attempt
    found = outlast.logs(run_id, step, attempt=attempt)
    if not found:
        raise StepNotFound(run_id, f"{step} (attempt {attempt}) with a transcript", "none: it is no command")
    return iter(found[0].pieces())


def _look(path: str, name: str, summary: str, **more: Any) -> HttpCall:
    return HttpCall(method="GET", path=path, name=name, summary=summary, role="read", **more)


LOG = _look(
    "/v1/runs/{run_id}/logs/content",
    "run_log",
    "What one attempt of a command printed",
    serves=_log,
    query=LogQuery,
    gives=bytes,
    answers=BYTES,
    errors=STEPS,
)

CALLS = (
    _look(
        "/v1/runs/{run_id}/logs",
        "run_logs",
        "The transcripts of a run's commands, in order",
        does=_logs,
        query=LogsQuery,
        gives=StepLog,
        shows=_log_json,
        page=True,
        errors=STEPS,
    ),
    LOG,
    _look(
        "/v1/runs/{run_id}/handoff",
        "run_step_handoff",
        "What a step hands over: its envelope",
        does=_handoff,
        query=StepQuery,
        gives=StepHandoff,
        shows=jsonable,
        errors=STEPS,
    ),
    _look(
        "/v1/runs/{run_id}/audit",
        "run_audit",
        "The six acceptance questions of a run, answered from its records",
        does=_audit,
        long=True,
        gives=Audit,
        shows=jsonable,
        errors=(*MISSING, IntegrityBroken),
    ),
    _look(
        "/v1/inbox",
        "interrupt_inbox",
        "Every open wait of every run, with whose it is: questions for people first",
        does=_inbox,
        query=InboxQuery,
        gives=WaitItem,
        shows=_inbox_json,
        page=True,
        beside={"contested": (ListedHandoff, "Handoffs that something contests; left out where only some waits are.")},
    ),
    _look(
        "/v1/due", "run_due", "The runs that can go on by themselves", does=_due, query=DueQuery, gives=Due, page=True
    ),
    _look(
        "/v1/facts",
        "home_facts",
        "What the home stands on: versions, settings, sizes, runs by status",
        does=_facts,
        long=True,
    ),
    _look(
        "/v1/verify",
        "home_verify",
        "Check every record of a run, or of the whole store",
        does=_verify,
        long=True,
        detail="One run for who may read; the whole store, of which every byte is read, for the role `admin`.",
        query=VerifyQuery,
        gives=CheckedStore,
        shows=_verify_json,
        errors=MISSING,
    ),
)
