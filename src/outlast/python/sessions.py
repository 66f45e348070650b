"""Sessions in Python: `outlast.sessions`, blocking, and its twin on an event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outlast.errors import TokenizerInvalid
from outlast.home.place import check_name
from outlast.python.awaited import OnLoop, awaited
from outlast.sessions import sessions
from outlast.sessions.session import (
    Memo,
    Message,
    Session,
    Window,
    number,
    read_memo,
    read_message,
    read_messages,
    read_meta,
)
from outlast.sessions.sessions import SessionCall

if TYPE_CHECKING:
    from outlast.home.caller import Caller


class Sessions:
    """Conversations: append messages, read them, fit them into a window, sum them up in a memo.

    A session is no task memory: nothing in a run depends on it. What is in it is kept as plain text.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def open(
        self,
        session_id: str | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        operation_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> Session:
        """A session by its id, made if there is none; without an id, a new one under a random id.

        Raises SessionExists when it was made with other meta, NameInvalid, OperationConflict.
        """
        asked = self._asked(session_id, scope, actor) if session_id is not None else self._new(scope, actor)
        raw = None if meta is None else read_meta(meta)
        return sessions.open_(self._caller.home, asked, raw, operation_id)

    def append(
        self,
        session_id: str,
        role: str,
        content: Any,
        *,
        meta: Mapping[str, Any] | None = None,
        run_id: str = "",
        operation_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> Message:
        """Append a message, durable when this returns. The first one makes the session.

        `content` is text or any JSON value that comes back equal, at most 1 MiB; it is never cut and never edited.
        Raises ValueRefused, NameInvalid, OperationConflict.
        """
        draft = read_message(role, content, meta, run_id)
        (message,) = sessions.append(self._caller.home, self._asked(session_id, scope, actor), [draft], operation_id)
        return message

    def append_many(
        self,
        session_id: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        operation_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> list[Message]:
        """Append messages (`role`, `content`, and if you like `meta` and `run_id`) one after another, all or none."""
        asked, drafts = self._asked(session_id, scope, actor), read_messages(messages)
        return sessions.append(self._caller.home, asked, drafts, operation_id) if drafts else []

    def set_memo(
        self,
        session_id: str,
        text: str,
        *,
        upto: int | None = None,
        expected: int | None = None,
        operation_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
    ) -> Memo:
        """Let a text stand for the messages up to the seq `upto`; without it, for as many as the memo before.

        With `expected`, only if the memo is at that version (0: there was none yet). An empty text takes the memo away.
        Raises SessionNotFound, MemoConflict, ValueRefused, OperationConflict.
        """
        asked, raw = self._asked(session_id, scope, actor), read_memo(text)
        stands_for = None if upto is None else number("upto", upto)
        version = None if expected is None else number("expected", expected)
        return sessions.set_memo(self._caller.home, asked, raw, stands_for, version, operation_id)

    # -- looking ---------------------------------------------------------------------------------

    def get(self, session_id: str, *, scope: str | None = None) -> Session:
        """A session with its memo and the runs that were started for it. Raises SessionNotFound."""
        return sessions.get(self._caller.home, self._asked(session_id, scope))

    def messages(self, session_id: str, *, after: int = 0, limit: int = 100, scope: str | None = None) -> list[Message]:
        """Messages in order, from the one after the seq `after` on. Raises SessionNotFound."""
        asked = self._asked(session_id, scope)
        return sessions.messages(self._caller.home, asked, number("after", after), number("limit", limit))

    def last(self, session_id: str, n: int, *, scope: str | None = None) -> list[Message]:
        """The newest `n` messages, oldest first. Raises SessionNotFound."""
        return sessions.last(self._caller.home, self._asked(session_id, scope), number("n", n))

    def memo(self, session_id: str, *, scope: str | None = None) -> Memo | None:
        """The newest memo; None when there never was one. Raises SessionNotFound."""
        return sessions.memo(self._caller.home, self._asked(session_id, scope))

    def window(
        self, session_id: str, tokens: int, *, tokens_of: Callable[[str], int] | None = None, scope: str | None = None
    ) -> Window:
        """The memo, the system messages and the newest others that fit in that many tokens, each whole; never more.

        `tokens_of` counts a text's tokens; without it they are estimated, rather too high than too low.
        Raises SessionNotFound, TokenizerInvalid, ValueRefused.
        """
        if tokens_of is not None and not callable(tokens_of):
            raise TokenizerInvalid("tokens_of", "it cannot be called", "give a function from a text to a number")
        return sessions.window(self._caller.home, self._asked(session_id, scope), number("tokens", tokens), tokens_of)

    def list(self, limit: int = 50, *, before: str | None = None, scope: str | None = None) -> list[Session]:
        """The sessions, those that were written to last first; after the one whose id is `before`."""
        return sessions.listed(self._caller.home, self._new(scope).scope, number("limit", limit), before)

    # -- narrowing what was given ----------------------------------------------------------------

    def _asked(self, session_id: str, scope: str | None, actor: str | None = None) -> SessionCall:
        new = self._new(scope, actor)
        return SessionCall(new.scope, check_name("session", session_id), new.actor)

    def _new(self, scope: str | None, actor: str | None = None) -> SessionCall:
        """One whose id is still to be chosen."""
        return SessionCall(self._caller.scope_named(scope), "", self._caller.actor_named(actor))


class AsyncSessions(OnLoop[Sessions]):
    """The same on an event loop: everything is awaited."""

    open = awaited(Sessions.open)
    append = awaited(Sessions.append)
    append_many = awaited(Sessions.append_many)
    set_memo = awaited(Sessions.set_memo)
    get = awaited(Sessions.get)
    messages = awaited(Sessions.messages)
    last = awaited(Sessions.last)
    memo = awaited(Sessions.memo)
    window = awaited(Sessions.window)
    list = awaited(Sessions.list)
