"""Sessions of a server: the surface of `outlast.sessions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.errors import EmbeddedOnly
from outlast.python.sessions import Sessions
from outlast.remote.calls import Given, cursor_at, items, like, page_of, read, value_of, write
from outlast.remote.line import in_path
from outlast.sessions import drafts as session_drafts
from outlast.sessions.drafts import number
from outlast.sessions.session import Memo, Message, Session, Window

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.remote.line import Line

ONE = "/v1/sessions/{session_id}"


class RemoteSessions(Sessions):
    """Conversations of a server."""

    def __init__(self, line: Line, caller: Caller) -> None:
        self._line, self._caller = line, caller

    @like(Sessions.open)
    def open(self, given: Given) -> Session:
        if given["session_id"] is not None:
            self._asked(given["session_id"], given["scope"], given["actor"])
        if given["meta"] is not None:
            session_drafts.meta_of(given["meta"])
        return value_of(write(self._line, "/v1/sessions", given).raw, Session)

    @like(Sessions.append)
    def append(self, given: Given) -> Message:
        session_drafts.draft(given["role"], given["content"], given["meta"], given["run_id"])
        self._asked(given["session_id"], given["scope"], given["actor"])
        return value_of(write(self._line, f"{ONE}/messages", given).raw, Message)

    @like(Sessions.append_many)
    def append_many(self, given: Given) -> list[Message]:
        self._asked(given["session_id"], given["scope"], given["actor"])
        if not session_drafts.drafts(given["messages"]):
            return []
        reply = write(self._line, f"{ONE}/messages/many", given)
        return [value_of(each, Message) for each in page_of(reply.raw)[0]]

    @like(Sessions.set_memo)
    def set_memo(self, given: Given) -> Memo:
        self._asked(given["session_id"], given["scope"], given["actor"])
        session_drafts.memo_of(given["text"])
        for name in ("upto", "expected"):
            if given[name] is not None:
                number(name, given[name])
        return value_of(write(self._line, f"{ONE}/memo", given, method="PUT").raw, Memo)

    # -- looking ---------------------------------------------------------------------------------

    @like(Sessions.get)
    def get(self, given: Given) -> Session:
        self._asked(given["session_id"], given["scope"])
        return read(self._line, ONE, given, Session)

    @like(Sessions.messages)
    def messages(self, given: Given) -> list[Message]:
        self._asked(given["session_id"], given["scope"])
        limit, path = number("limit", given.pop("limit")), f"{ONE}/messages"
        number("after", given["after"])
        if not limit:
            self.get(given["session_id"], scope=given["scope"])
        return [value_of(each, Message) for each in items(self._line, path, given, limit)]

    @like(Sessions.last)
    def last(self, given: Given) -> list[Message]:
        self._asked(given["session_id"], given["scope"])
        wanted = number("n", given["n"])
        session = self.get(given["session_id"], scope=given["scope"])
        return self.messages(session.id, after=max(session.messages - wanted, 0), limit=wanted, scope=given["scope"])

    @like(Sessions.memo)
    def memo(self, given: Given) -> Memo | None:
        self._asked(given["session_id"], given["scope"])
        path = f"/v1/sessions/{in_path(given['session_id'])}/memo"
        raw = self._line.ask("GET", path, query={"scope": given["scope"]}).raw
        return None if raw == b"null" else value_of(raw, Memo)

    @like(Sessions.window)
    def window(self, given: Given) -> Window:
        if given.pop("tokens_of") is not None:
            raise EmbeddedOnly("window with tokens_of", "leave it out: the server counts by itself")
        self._asked(given["session_id"], given["scope"])
        number("tokens", given["tokens"])
        return read(self._line, f"{ONE}/window", given, Window)

    @like(Sessions.list)
    def list(self, given: Given) -> Any:
        limit, before = number("limit", given.pop("limit")), given.pop("before", None)
        cursor = cursor_at(before) if before is not None else ""
        return [value_of(each, Session) for each in items(self._line, "/v1/sessions", given, limit, cursor)]
