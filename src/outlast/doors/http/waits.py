"""Waits and signals over HTTP: what runs wait for, and how they are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.clock import micros
from outlast.doors.http.calls import Body, CallRequest, HttpCall, Page, Paged, cursor_of, limit_of, page_of, place_in
from outlast.doors.http.runs import go_on
from outlast.doors.http.shapes import Answered, Wait
from outlast.errors import (
    AlreadyAnswered,
    AmbiguousPrefix,
    AnswerInvalid,
    InterruptNotFound,
    Invalid,
    NameInvalid,
    OperationConflict,
    RunFinished,
    RunNotFound,
    RunRemoved,
    RunSealed,
    ValueRefused,
)
from outlast.python.shown import wait_json
from outlast.runs.waits.interrupt import Interrupt
from outlast.runs.waits.signal import Signal
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast import Outlast

MISSING = (InterruptNotFound, AmbiguousPrefix)


class Answer(Body):
    """The answer, as the wait's schema wants it; `shown`, its digest, binds it to what was shown."""

    answer: Any
    shown: str | None = None
    resume: bool = True
    operation_id: str | None = None


class Cancel(Body):
    """Why there will be no answer."""

    why: str
    operation_id: str | None = None


class Send(Body):
    """A named message to a task or to one run."""

    name: str
    body: Any = None
    task: str | None = None
    run_id: str | None = None
    operation_id: str | None = None


class WaitsQuery(Paged):
    """Of which run; without one, of all."""

    run_id: str | None = None


def _list(outlast: Outlast, asked: CallRequest) -> Page:
    """The open waits, the oldest first."""
    query: WaitsQuery = asked.query
    limit, after = limit_of(query), place_in(query.cursor, int, str) or (0, "")
    found = sorted(outlast.interrupts(query.run_id), key=_place)
    return page_of([wait for wait in found if _place(wait) > after], limit, lambda last: cursor_of(*_place(last)))


def _place(wait: Interrupt) -> tuple[int, str]:
    return micros(wait.opened_at), wait.id


def _get(outlast: Outlast, asked: CallRequest) -> Interrupt:
    return outlast.interrupt(asked.path["interrupt_id"])


def _answer(outlast: Outlast, asked: CallRequest) -> tuple[Interrupt, str | None]:
    wait = outlast.answer(asked.path["interrupt_id"], **asked.given("resume"))
    return wait, go_on(outlast, asked, wait.run_id) if asked.body.resume else None


def _answered(found: tuple[Interrupt, str | None]) -> dict[str, Any]:
    wait, why_not = found
    return {**wait_json(wait), "goes_on": why_not == "", "why_not": why_not or ""}


def _cancel(outlast: Outlast, asked: CallRequest) -> Interrupt:
    return outlast.cancel(asked.path["interrupt_id"], **asked.given())


def _signal(outlast: Outlast, asked: CallRequest) -> Signal:
    return outlast.signal(**asked.given())


CALLS = (
    HttpCall(
        method="GET",
        path="/v1/interrupts",
        name="interrupt_list",
        summary="Every open wait, the oldest first",
        role="read",
        query=WaitsQuery,
        does=_list,
        gives=Wait,
        shows=wait_json,
        page=True,
        errors=(RunNotFound, RunRemoved, AmbiguousPrefix),
    ),
    HttpCall(
        method="GET",
        path="/v1/interrupts/{interrupt_id}",
        name="interrupt_get",
        summary="A wait, also one that is over",
        role="read",
        does=_get,
        gives=Wait,
        shows=wait_json,
        errors=MISSING,
    ),
    HttpCall(
        method="POST",
        path="/v1/interrupts/{interrupt_id}/answer",
        name="interrupt_answer",
        summary="Answer a wait: durable before it takes effect, checked, used once",
        role="approve",
        body=Answer,
        does=_answer,
        gives=Answered,
        shows=_answered,
        errors=(*MISSING, AlreadyAnswered, AnswerInvalid, RunSealed, OperationConflict, ValueRefused),
        detail="Who answered is the key's actor; one of many answers wins. The run goes on in the server, unless "
        "`resume` is false; `why_not` says why it does not, where it cannot.",
        example={"answer": {"approved": True, "comment": "looks right"}},
    ),
    HttpCall(
        method="POST",
        path="/v1/interrupts/{interrupt_id}/cancel",
        name="interrupt_cancel",
        summary="End a wait without an answer",
        role="approve",
        body=Cancel,
        does=_cancel,
        gives=Wait,
        shows=wait_json,
        errors=(*MISSING, AlreadyAnswered, Invalid, RunSealed, OperationConflict),
        example={"why": "the release was called off"},
    ),
    HttpCall(
        method="POST",
        path="/v1/signals",
        name="signal_send",
        summary="Send a signal that a run waits for, or will",
        role="write",
        body=Send,
        does=_signal,
        gives=Signal,
        shows=jsonable,
        errors=(RunNotFound, RunRemoved, AmbiguousPrefix, RunFinished, NameInvalid, ValueRefused, OperationConflict),
        example={"name": "payment", "task": "order-17", "body": {"paid": True}},
    ),
)
