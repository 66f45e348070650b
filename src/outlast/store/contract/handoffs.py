"""Handoffs: anchors, their revisions, and what each is found by. Tasks that a host opened, and sessions.

What happened to a task is a chain; so are the messages of a session, and its memos.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outlast.ledger.journal import JournalEntry, Row
from outlast.store.contract.runs import LeaseRow, RunRow
from outlast.values.frozen import NamedTuple, Protocol


class AnchorRow(NamedTuple):
    """An anchor and how its newest revision stands. Its key is that of its chain."""

    key: int
    id: str
    scope: str
    anchor: str
    status: str
    outcome: str
    revision: int
    newest: int
    branch: str
    root: str
    symbol: str
    score: int
    stored_at: int
    expires_at: int
    arrived: int  # the last entry that came by import: up to it, others say so; 0 when all was written here


class HandoffRow(NamedTuple):
    """Where a revision is: its anchor, and the entry that carries its content."""

    key: int
    id: str
    anchor: int
    revision: int
    seq: int
    supersedes: str


class NewHandoff(NamedTuple):
    """A revision to add, and what its anchor is found by from now on."""

    id: str
    revision: int
    supersedes: str
    branch: str
    root: str
    symbol: str
    score: int
    stored_at: int
    expires_at: int
    files: tuple[str, ...]


class FirstRevision(NamedTuple):
    """All of an anchor that is to be added with its first revision, which supersedes none."""

    anchor_id: str
    start: bytes  # what its chain begins with
    entry: JournalEntry
    handoff: NewHandoff
    contents: Mapping[str, bytes]  # small ones, to be kept with it
    given: Any  # what the work would have given


class PlainStore(NamedTuple):
    """A handoff as it is stored where nothing is known of its anchor and of its task."""

    scope: str
    anchor: str
    task: str | None  # that the anchor is of
    make: Callable[[], FirstRevision]  # asked in the transaction, once it is known to be plain


class TaskRow(NamedTuple):
    """A task that somebody opened, and where its chain of events ends. To be added it has key 0 and no event."""

    key: int
    scope: str
    task: str
    state: str
    session: str
    meta: str
    actor: str
    opened_at: int
    updated_at: int
    head: int
    hash: bytes


class TaskEventRow(NamedTuple):
    seq: int
    kind: str
    name: str
    body: str
    digest: bytes
    masked: int
    actor: str
    at: int
    hash: bytes


class SessionRow(NamedTuple):
    """A session, and where its chains of messages and memos end. To be added it has key 0 and the starts of these."""

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


class HandoffReading(Protocol):
    """Lookups, each by an index."""

    def anchor_of(self, scope: str, anchor: str) -> AnchorRow | None: ...
    def anchor_by_key(self, key: int) -> AnchorRow | None: ...
    def anchor_by_id(self, anchor_id: str) -> AnchorRow | None: ...
    def newest_anchors(self, scope: str, status: str, limit: int, before: int = 0) -> list[AnchorRow]: ...

    def expired_anchors(self, scope: str, at: int, limit: int, before: int = 0) -> list[AnchorRow]:
        """Those that expired last first. `before`: of those that expired just then, only anchors of smaller keys."""

    def claimed_anchors(self, scope: str, limit: int | None = None) -> list[AnchorRow]:
        """Those whose lease names a holder, be it alive or not."""

    def anchors_of_branch(self, scope: str, branch: str, limit: int, before: int = 0) -> list[AnchorRow]: ...
    def anchors_of_file(self, scope: str, path: str, limit: int | None = None) -> list[AnchorRow]: ...

    def anchors_near(self, scope: str, anchor: str, limit: int) -> list[str]:
        """The anchors next to this name in the alphabet, on both sides."""

    def anchors_after(self, key: int, limit: int) -> list[AnchorRow]: ...
    def count_anchors(self) -> dict[str, int]: ...

    def files_of_anchor(self, anchor_key: int) -> list[str]:
        """What it is found by, in order."""

    def lease_of_anchor(self, anchor_id: str) -> LeaseRow | None: ...
    def leases_without_anchor(self) -> list[str]: ...
    def handoffs_without_anchor(self) -> list[int]: ...
    def handoffs_by_prefix(self, prefix: str) -> list[HandoffRow]: ...
    def handoff_at(self, anchor_key: int, revision: int) -> HandoffRow | None: ...
    def handoffs_of(self, anchor_key: int) -> list[HandoffRow]: ...
    def handoffs_after(self, key: int, limit: int) -> list[HandoffRow]: ...
    def handoff_superseding(self, handoff_id: str) -> HandoffRow | None: ...

    def content_of(self, name: str) -> bytes | None:
        """Content that was committed with what refers to it."""

    # -- tasks ---------------------------------------------------------------------------------------

    def task_of(self, scope: str, task: str) -> TaskRow | None: ...

    def newest_tasks(self, scope: str, state: str | None, limit: int, before: TaskRow | None = None) -> list[TaskRow]:
        """Those that were moved or written to last, first; after `before`, if that is given."""

    def tasks_after(self, key: int, limit: int) -> list[TaskRow]: ...
    def task_events_after(self, task_key: int, seq: int, limit: int) -> list[TaskEventRow]: ...

    def runs_of_task(self, scope: str, task: str, limit: int) -> list[RunRow]:
        """The newest first."""

    def events_without_task(self) -> list[int]: ...

    # -- sessions ------------------------------------------------------------------------------------

    def session_of(self, scope: str, session_id: str) -> SessionRow | None: ...

    def newest_sessions(self, scope: str, limit: int, before: SessionRow | None = None) -> list[SessionRow]:
        """Those that were written to last, first; after `before`, if that is given."""

    def sessions_after(self, key: int, limit: int) -> list[SessionRow]: ...
    def messages_after(self, session_key: int, seq: int, limit: int) -> list[MessageRow]: ...

    def messages_before(self, session_key: int, seq: int, limit: int) -> list[MessageRow]:
        """The newest first."""

    def system_messages_after(self, session_key: int, seq: int, limit: int) -> list[MessageRow]: ...
    def memos_after(self, session_key: int, version: int, limit: int) -> list[MemoRow]: ...

    def runs_of_session(self, scope: str, session_id: str) -> list[str]:
        """The newest first."""

    def messages_without_session(self) -> list[int]: ...
    def memos_without_session(self) -> list[int]: ...


class HandoffWriting(HandoffReading, Protocol):
    """Writes inside a transaction."""

    def add_anchor(self, anchor_id: str, scope: str, anchor: str, start: bytes) -> AnchorRow:
        """An anchor without a revision yet, and its lease, which nobody holds."""

    def add_handoff(self, anchor_key: int, seq: int, handoff: NewHandoff) -> None:
        """A revision whose content is the entry `seq`; the anchor is open and found by it from now on."""

    def keep_contents(self, contents: Mapping[str, bytes]) -> None:
        """Small contents by their digests, with what refers to them. What is there already stays."""

    def settle_anchor(self, anchor_key: int, status: str, outcome: str) -> None: ...

    def fill_anchor(
        self, anchor_key: int, lease: LeaseRow, rows: Sequence[Row], refs: Sequence[tuple[int, str]]
    ) -> None:
        """Entries that came from elsewhere. The chain ends as `lease` says from now on, and nobody holds it."""

    # -- tasks ---------------------------------------------------------------------------------------

    def add_task(self, task: TaskRow) -> TaskRow:
        """A task without an event yet."""

    def add_task_event(self, task: TaskRow, event: TaskEventRow, state: str, session: str, opened_at: int) -> None:
        """The next event, and how the task stands after it."""

    # -- sessions ------------------------------------------------------------------------------------

    def add_session(self, session: SessionRow) -> SessionRow:
        """A session without a message yet."""

    def add_messages(self, session: SessionRow, messages: Sequence[MessageRow]) -> None:
        """Messages that follow the session's newest one, in order."""

    def add_memo(self, session: SessionRow, memo: MemoRow) -> None:
        """The memo from now on."""
