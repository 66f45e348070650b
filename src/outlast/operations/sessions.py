"""Operations about sessions: open, append, read, fit into a window, sum up in a memo."""

from __future__ import annotations

from outlast.errors import MemoConflict, OperationConflict, SessionExists, SessionNotFound, ValueRefused
from outlast.operations import fields as f
from outlast.operations.operation import Answer, Change, Paged, Pages, Request, operation
from outlast.sessions.session import Memo, Message, Session, Window

BY_WINDOW = "session_window gives a model what fits"
BY_HOST = "the host keeps its conversations"


class OfSession(Request):
    """Base of what is asked about one session."""

    session_id: f.SessionId


@operation(
    "session_open",
    "POST /v1/sessions",
    "Open a session: a conversation of messages",
    calls="sessions.open",
    role="write",
    answer=Session,
    errors=(SessionExists, ValueRefused, OperationConflict),
    example={"session_id": "support-17", "meta": {"channel": "mail"}},
    not_by_mcp="session_append makes one for a model",
)
class OpenSession(Change):
    """A session to open; without an id, a new one under a random id."""

    session_id: f.SessionId | None = None
    meta: f.Meaning | None = None


@operation(
    "session_list",
    "GET /v1/sessions",
    "The sessions, those that were written to last first",
    calls="sessions.list",
    role="read",
    answer=Session,
    items="sessions",
    pages=Pages(lambda last: last.id),
    errors=(SessionNotFound,),
    not_by_mcp=BY_HOST,
)
class ListSessions(Paged):
    """Which sessions to list."""


@operation(
    "session_messages",
    "GET /v1/sessions/{session_id:path}/messages",
    "Messages in order",
    calls="sessions.messages",
    role="read",
    answer=Message,
    items="messages",
    pages=Pages(lambda last: last.seq, int, "after"),
    errors=(SessionNotFound, ValueRefused),
    not_by_mcp=BY_WINDOW,
)
class ListMessages(OfSession, Paged):
    """From where on; `last`: only the newest."""

    after: f.After = 0
    last: f.Last | None = None


@operation(
    "session_append",
    "POST /v1/sessions/{session_id:path}/messages",
    "Append a message, durable when it is answered",
    calls="sessions.append",
    role="write",
    answer=Message,
    errors=(ValueRefused, OperationConflict),
    example={"role": "user", "content": "Where is my order?"},
)
class AppendMessage(OfSession, Change):
    """One message."""

    role: f.Speaker
    content: f.Said
    meta: f.Meaning | None = None
    run_id: f.SaidIn = ""


@operation(
    "session_append_many",
    "POST /v1/sessions/{session_id:path}/messages/many",
    "Append several messages, all or none",
    calls="sessions.append_many",
    role="write",
    answer=Message,
    items="messages",
    listed=True,
    errors=(ValueRefused, OperationConflict),
    example={"messages": [{"role": "user", "content": "Where is my order?"}]},
    not_by_mcp="a model appends one message at a time",
)
class AppendMessages(OfSession, Change):
    """Messages, one after another, all or none."""

    messages: f.Messages


@operation(
    "session_memo",
    "GET /v1/sessions/{session_id:path}/memo",
    "The newest memo; null when there never was one",
    calls="sessions.memo",
    role="read",
    answer=Answer(Memo | None, Memo | None),
    errors=(SessionNotFound,),
    not_by_mcp=BY_WINDOW,
)
class GetMemo(OfSession):
    """Of which session."""


@operation(
    "session_set_memo",
    "PUT /v1/sessions/{session_id:path}/memo",
    "Let a text stand for the older messages",
    calls="sessions.set_memo",
    role="write",
    answer=Memo,
    errors=(SessionNotFound, MemoConflict, ValueRefused, OperationConflict),
    example={"text": "The customer asks for order 17.", "upto": 12},
    not_by_mcp=BY_HOST,
)
class SetMemo(OfSession, Change):
    """A text that stands for the older messages."""

    text: f.Text
    upto: f.Upto | None = None
    expected: f.Expected | None = None


@operation(
    "session_window",
    "GET /v1/sessions/{session_id:path}/window",
    "The memo, the system messages and the newest others that fit in so many tokens",
    calls="sessions.window",
    role="read",
    answer=Window,
    errors=(SessionNotFound, ValueRefused),
)
class MessageWindow(OfSession):
    """How many tokens there are."""

    tokens: f.Tokens


@operation(
    "session_get",
    "GET /v1/sessions/{session_id:path}",
    "A session with its memo and the runs that were started for it",
    calls="sessions.get",
    role="read",
    answer=Session,
    errors=(SessionNotFound,),
    not_by_mcp=BY_WINDOW,
)
class GetSession(OfSession):
    """Which session."""
