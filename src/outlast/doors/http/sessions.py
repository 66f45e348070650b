"""Sessions over HTTP: open, append, read, fit into a window, sum up in a memo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.doors.http.calls import Body, CallRequest, HttpCall, Page, Paged, cursor_of, limit_of, page_of, place_in
from outlast.errors import MemoConflict, OperationConflict, SessionExists, SessionNotFound, ValueRefused
from outlast.sessions.session import Memo, Message, Session, Window
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast import Outlast


class SessionOpen(Body):
    """A session to open; without an id, a new one under a random id."""

    session_id: str | None = None
    meta: dict[str, Any] | None = None
    operation_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class SessionAppend(Body):
    """One message."""

    role: str
    content: Any
    meta: dict[str, Any] | None = None
    run_id: str = ""
    operation_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class SessionAppendMany(Body):
    """Messages, one after another, all or none."""

    messages: tuple[dict[str, Any], ...]
    operation_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class SessionMemo(Body):
    """A text that stands for the older messages."""

    text: str
    upto: int | None = None
    expected: int | None = None
    operation_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class SessionsQuery(Paged):
    """In what scope to look."""

    scope: str | None = None


class SessionQuery(Body):
    """In what scope to look."""

    scope: str | None = None


class MessagesQuery(Paged):
    """From where on; `last`: only the newest."""

    after: int = 0
    last: int | None = None
    scope: str | None = None


class WindowQuery(Body):
    """How many tokens there are."""

    tokens: int
    scope: str | None = None


def _open(outlast: Outlast, asked: CallRequest) -> Session:
    return outlast.sessions.open(**asked.given())


def _append(outlast: Outlast, asked: CallRequest) -> Message:
    return outlast.sessions.append(asked.path["session_id"], **asked.given())


def _append_many(outlast: Outlast, asked: CallRequest) -> Page:
    return Page(outlast.sessions.append_many(asked.path["session_id"], **asked.given()))


def _memo(outlast: Outlast, asked: CallRequest) -> Memo:
    return outlast.sessions.set_memo(asked.path["session_id"], **asked.given())


def _get_memo(outlast: Outlast, asked: CallRequest) -> Memo | None:
    return outlast.sessions.memo(asked.path["session_id"], scope=asked.query.scope)


def _get(outlast: Outlast, asked: CallRequest) -> Session:
    return outlast.sessions.get(asked.path["session_id"], scope=asked.query.scope)


def _list(outlast: Outlast, asked: CallRequest) -> Page:
    query: SessionsQuery = asked.query
    limit, place = limit_of(query), place_in(query.cursor, str)
    found = outlast.sessions.list(limit + 1, before=place[0] if place else None, scope=query.scope)
    return page_of(found, limit, lambda last: cursor_of(last.id))


def _messages(outlast: Outlast, asked: CallRequest) -> Page:
    query: MessagesQuery = asked.query
    session_id, limit, place = asked.path["session_id"], limit_of(query), place_in(query.cursor, int)
    if query.last is not None:
        return Page(outlast.sessions.last(session_id, min(query.last, limit), scope=query.scope))
    after = place[0] if place else query.after
    found = outlast.sessions.messages(session_id, after=after, limit=limit + 1, scope=query.scope)
    return page_of(found, limit, lambda last: cursor_of(last.seq))


def _window(outlast: Outlast, asked: CallRequest) -> Window:
    query: WindowQuery = asked.query
    return outlast.sessions.window(asked.path["session_id"], query.tokens, scope=query.scope)


ONE = "/v1/sessions/{session_id:path}"

CALLS = (
    HttpCall(
        method="POST",
        path="/v1/sessions",
        name="session_open",
        summary="Open a session: a conversation of messages",
        role="write",
        body=SessionOpen,
        does=_open,
        gives=Session,
        shows=jsonable,
        errors=(SessionExists, ValueRefused, OperationConflict),
        example={"session_id": "support-17", "meta": {"channel": "mail"}},
    ),
    HttpCall(
        method="GET",
        path="/v1/sessions",
        name="session_list",
        summary="The sessions, those that were written to last first",
        role="read",
        query=SessionsQuery,
        does=_list,
        gives=Session,
        shows=jsonable,
        page=True,
        errors=(SessionNotFound,),
    ),
    HttpCall(
        method="GET",
        path=f"{ONE}/messages",
        name="session_messages",
        summary="Messages in order",
        role="read",
        query=MessagesQuery,
        does=_messages,
        gives=Message,
        shows=jsonable,
        page=True,
        errors=(SessionNotFound, ValueRefused),
    ),
    HttpCall(
        method="POST",
        path=f"{ONE}/messages",
        name="session_append",
        summary="Append a message, durable when it is answered",
        role="write",
        body=SessionAppend,
        does=_append,
        gives=Message,
        shows=jsonable,
        errors=(ValueRefused, OperationConflict),
        example={"role": "user", "content": "Where is my order?"},
    ),
    HttpCall(
        method="POST",
        path=f"{ONE}/messages/many",
        name="session_append_many",
        summary="Append several messages, all or none",
        role="write",
        body=SessionAppendMany,
        does=_append_many,
        gives=Message,
        shows=jsonable,
        page=True,
        errors=(ValueRefused, OperationConflict),
        example={"messages": [{"role": "user", "content": "Where is my order?"}]},
    ),
    HttpCall(
        method="GET",
        path=f"{ONE}/memo",
        name="session_memo",
        summary="The newest memo; null when there never was one",
        role="read",
        query=SessionQuery,
        does=_get_memo,
        gives=Memo | None,
        shows=jsonable,
        errors=(SessionNotFound,),
    ),
    HttpCall(
        method="PUT",
        path=f"{ONE}/memo",
        name="session_set_memo",
        summary="Let a text stand for the older messages",
        role="write",
        body=SessionMemo,
        does=_memo,
        gives=Memo,
        shows=jsonable,
        errors=(SessionNotFound, MemoConflict, ValueRefused, OperationConflict),
        example={"text": "The customer asks for order 17.", "upto": 12},
    ),
    HttpCall(
        method="GET",
        path=f"{ONE}/window",
        name="session_window",
        summary="The memo, the system messages and the newest others that fit in so many tokens",
        role="read",
        query=WindowQuery,
        does=_window,
        gives=Window,
        shows=jsonable,
        errors=(SessionNotFound, ValueRefused),
    ),
    HttpCall(
        method="GET",
        path=ONE,
        name="session_get",
        summary="A session with its memo and the runs that were started for it",
        role="read",
        query=SessionQuery,
        does=_get,
        gives=Session,
        shows=jsonable,
        errors=(SessionNotFound,),
    ),
)
