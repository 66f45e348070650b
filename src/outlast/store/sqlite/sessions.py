"""Sessions on one SQLite connection: lookups, and the writes that lengthen a chain."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.store.contract import MemoRow, MessageRow, NewSession, SessionRow
from outlast.store.sqlite.rows import NEWEST, Rows


class SessionReader(Rows):
    """Lookups."""

    def session_of(self, scope: str, session_id: str) -> SessionRow | None:
        return self._row(SessionRow, "session_of", scope, session_id)

    def newest_sessions(self, scope: str, limit: int, before: SessionRow | None = None) -> list[SessionRow]:
        """Those that were written to last, first; after `before`, if that is given."""
        place = (before.updated_at, before.key) if before else (NEWEST, NEWEST)
        return self._rows(SessionRow, "newest_sessions", scope, *place, limit)

    def sessions_after(self, key: int, limit: int) -> list[SessionRow]:
        return self._rows(SessionRow, "sessions_after_key", key, limit)

    def messages_after(self, session_key: int, seq: int, limit: int) -> list[MessageRow]:
        return self._rows(MessageRow, "messages_after", session_key, seq, limit)

    def messages_before(self, session_key: int, seq: int, limit: int) -> list[MessageRow]:
        """The newest first."""
        return self._rows(MessageRow, "messages_before", session_key, seq, limit)

    def system_messages_after(self, session_key: int, seq: int, limit: int) -> list[MessageRow]:
        return self._rows(MessageRow, "system_messages_after", session_key, seq, limit)

    def memos_after(self, session_key: int, version: int, limit: int) -> list[MemoRow]:
        return self._rows(MemoRow, "memos_after", session_key, version, limit)

    def runs_of_session(self, scope: str, session_id: str) -> list[str]:
        """The newest first."""
        return [row[0] for row in self._all("runs_of_session", session_id, scope)]

    def messages_without_session(self) -> list[int]:
        return [row[0] for row in self._all("messages_without_session")]

    def memos_without_session(self) -> list[int]:
        return [row[0] for row in self._all("memos_without_session")]


class SessionWriter(SessionReader):
    """Writes inside a transaction."""

    def add_session(self, session: NewSession) -> SessionRow:
        """A session without a message yet."""
        self._one("add_session", *session, session.created_at)
        found = self.session_of(session.scope, session.id)
        assert found is not None
        return found

    def add_messages(self, session: SessionRow, messages: Sequence[MessageRow]) -> None:
        """Messages that follow the session's newest one, in order."""
        for message in messages:
            self._one("add_message", session.key, *message)
        last = messages[-1]
        self._one("move_session", last.seq, last.hash, last.at, session.key, session.head)

    def add_memo(self, session: SessionRow, memo: MemoRow) -> None:
        """The memo from now on."""
        self._one("add_memo", session.key, *memo)
        self._one("move_memo", memo.version, memo.hash, memo.at, session.key, session.memos)
