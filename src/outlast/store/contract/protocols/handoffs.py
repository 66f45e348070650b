"""Handoffs, tasks and sessions: what is asked of a store about them, and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outlast.ledger.journal import Row
from outlast.store.contract.handoffs import (
    AnchorRow,
    HandoffRow,
    MemoRow,
    MessageRow,
    NewHandoff,
    SessionRow,
    TaskEventRow,
    TaskRow,
)
from outlast.store.contract.runs import LeaseRow, RunRow
from outlast.values.frozen import Protocol


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
