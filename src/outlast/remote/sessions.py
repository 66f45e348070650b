"""Sessions of a server: the surface of `outlast.sessions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors import EmbeddedOnly
from outlast.operations.table import OPERATIONS
from outlast.python.sessions import Sessions
from outlast.remote.calls import Given, answer_of, from_operations, like
from outlast.sessions.session import Message, number, read_memo, read_message, read_messages, read_meta

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.remote.line import Line


@from_operations("sessions", Sessions)
class RemoteSessions(Sessions):
    """Conversations of a server."""

    def __init__(self, line: Line, caller: Caller) -> None:
        self._line, self._caller = line, caller

    def _check_open(self, given: Given) -> None:
        if given["session_id"] is not None:
            self._check_get(given)
        if given["meta"] is not None:
            read_meta(given["meta"])

    def _check_append(self, given: Given) -> None:
        read_message(given["role"], given["content"], given["meta"], given["run_id"])
        self._check_get(given)

    @like(Sessions.append_many)
    def append_many(self, given: Given) -> list[Message]:
        self._check_get(given)
        if not read_messages(given["messages"]):
            return []
        found: list[Message] = answer_of(self._line, OPERATIONS["session_append_many"], given)
        return found

    def _check_set_memo(self, given: Given) -> None:
        self._check_get(given)
        read_memo(given["text"])
        for name in ("upto", "expected"):
            if given[name] is not None:
                number(name, given[name])

    # -- looking ---------------------------------------------------------------------------------

    def _check_get(self, given: Given) -> None:
        self._asked(given["session_id"], given["scope"], given.get("actor"))

    def _check_messages(self, given: Given) -> None:
        self._check_get(given)
        number("after", given["after"])
        if not number("limit", given["limit"]):
            self.get(given["session_id"], scope=given["scope"])

    @like(Sessions.last)
    def last(self, given: Given) -> list[Message]:
        self._check_get(given)
        wanted = number("n", given["n"])
        session = self.get(given["session_id"], scope=given["scope"])
        return self.messages(session.id, after=max(session.messages - wanted, 0), limit=wanted, scope=given["scope"])

    _check_memo = _check_get

    def _check_window(self, given: Given) -> None:
        if given.pop("tokens_of") is not None:
            raise EmbeddedOnly("window with tokens_of", "leave it out: the server counts by itself")
        self._check_get(given)
        number("tokens", given["tokens"])

    def _check_list(self, given: Given) -> None:
        number("limit", given["limit"])
