"""Sessions: their messages and memos, each a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from outlast.values.frozen import NamedTuple


class NewSession(NamedTuple):
    """A session to add, with the starts of its two chains."""

    scope: str
    id: str
    meta: str
    actor: str
    hash: bytes
    memo_hash: bytes
    created_at: int


class SessionRow(NamedTuple):
    """A session, and where its chains of messages and memos end."""

    key: int
    scope: str
    id: str
    meta: str
    actor: str
    head: int
    hash: bytes
    memos: int
    memo_hash: bytes
    created_at: int
    updated_at: int


class MessageRow(NamedTuple):
    seq: int
    role: str
    content: str
    digest: bytes
    meta: str
    run_id: str
    actor: str
    at: int
    hash: bytes


class MemoRow(NamedTuple):
    version: int
    upto: int
    text: str
    digest: bytes
    actor: str
    at: int
    hash: bytes


class SessionReading(Protocol):
    """Lookups, each by an index."""

    def session_of(self, scope: str, session_id: str) -> SessionRow | None: ...
    def newest_sessions(self, scope: str, limit: int, before: SessionRow | None = None) -> list[SessionRow]: ...
    def sessions_after(self, key: int, limit: int) -> list[SessionRow]: ...
    def messages_after(self, session_key: int, seq: int, limit: int) -> list[MessageRow]: ...
    def messages_before(self, session_key: int, seq: int, limit: int) -> list[MessageRow]: ...
    def system_messages_after(self, session_key: int, seq: int, limit: int) -> list[MessageRow]: ...
    def memos_after(self, session_key: int, version: int, limit: int) -> list[MemoRow]: ...
    def runs_of_session(self, scope: str, session_id: str) -> list[str]: ...
    def messages_without_session(self) -> list[int]: ...
    def memos_without_session(self) -> list[int]: ...


class SessionWriting(SessionReading, Protocol):
    """Writes inside a transaction."""

    def add_session(self, session: NewSession) -> SessionRow: ...
    def add_messages(self, session: SessionRow, messages: Sequence[MessageRow]) -> None: ...
    def add_memo(self, session: SessionRow, memo: MemoRow) -> None: ...
