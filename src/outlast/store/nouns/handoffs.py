"""Handoffs on one connection: anchors, their revisions, and what each is found by.

And tasks and sessions: lookups, and the writes that move a task or lengthen a chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outlast.ledger.journal import Row
from outlast.store.contract import MemoRow, MessageRow, RunRow, SessionRow, TaskEventRow, TaskRow
from outlast.store.contract.handoffs import AnchorRow, HandoffRow, NewHandoff
from outlast.store.contract.runs import LeaseRow
from outlast.store.nouns.rows import AFTER_ALL, NEWEST, Rows, WrittenRows


class HandoffReader(Rows):
    """Lookups."""

    def anchor_of(self, scope: str, anchor: str) -> AnchorRow | None:
        return self._row(AnchorRow, "anchor_of", scope, anchor)

    def anchor_by_key(self, key: int) -> AnchorRow | None:
        return self._row(AnchorRow, "anchor_by_key", key)

    def anchor_by_id(self, anchor_id: str) -> AnchorRow | None:
        return self._row(AnchorRow, "anchor_by_id", anchor_id)

    def newest_anchors(self, scope: str, status: str, limit: int, before: int = 0) -> list[AnchorRow]:
        return self._rows(AnchorRow, "newest_anchors", scope, status, before or NEWEST, limit)

    def expired_anchors(self, scope: str, at: int, limit: int, before: int = 0) -> list[AnchorRow]:
        return self._rows(AnchorRow, "expired_anchors", scope, at, at, before or NEWEST, limit)

    def claimed_anchors(self, scope: str, limit: int | None = None) -> list[AnchorRow]:
        return self._rows(AnchorRow, "claimed_anchors", scope, NEWEST if limit is None else limit)

    def anchors_of_branch(self, scope: str, branch: str, limit: int, before: int = 0) -> list[AnchorRow]:
        return self._rows(AnchorRow, "anchors_of_branch", scope, branch, before or NEWEST, limit)

    def anchors_of_file(self, scope: str, path: str, limit: int | None = None) -> list[AnchorRow]:
        return self._rows(AnchorRow, "anchors_of_file", path, scope, NEWEST if limit is None else limit)

    def anchors_near(self, scope: str, anchor: str, limit: int) -> list[str]:
        after = self._all("anchors_from", scope, anchor, limit)
        return [row[0] for row in (*self._all("anchors_before", scope, anchor, limit), *after)]

    def anchors_after(self, key: int, limit: int) -> list[AnchorRow]:
        return self._rows(AnchorRow, "anchors_after_key", key, limit)

    def count_anchors(self) -> dict[str, int]:
        return dict(self._all("count_anchors"))

    def files_of_anchor(self, anchor_key: int) -> list[str]:
        return [row[0] for row in self._all("files_of_anchor", anchor_key)]

    def lease_of_anchor(self, anchor_id: str) -> LeaseRow | None:
        return self._row(LeaseRow, "lease_of", f"handoff:{anchor_id}")

    def leases_without_anchor(self) -> list[str]:
        return [row[0] for row in self._all("leases_without_anchor")]

    def handoffs_without_anchor(self) -> list[int]:
        return [row[0] for row in self._all("handoffs_without_anchor")]

    def handoffs_by_prefix(self, prefix: str) -> list[HandoffRow]:
        return self._rows(HandoffRow, "handoffs_by_prefix", prefix, prefix + AFTER_ALL)

    def handoff_at(self, anchor_key: int, revision: int) -> HandoffRow | None:
        return self._row(HandoffRow, "handoff_at", anchor_key, revision)

    def handoffs_of(self, anchor_key: int) -> list[HandoffRow]:
        return self._rows(HandoffRow, "handoffs_of", anchor_key)

    def handoffs_after(self, key: int, limit: int) -> list[HandoffRow]:
        return self._rows(HandoffRow, "handoffs_after_key", key, limit)

    def handoff_superseding(self, handoff_id: str) -> HandoffRow | None:
        return self._row(HandoffRow, "handoff_superseding", handoff_id)

    def content_of(self, name: str) -> bytes | None:
        row = self._one("content_of", name)
        return row[0] if row and type(row[0]) is bytes else None

    # -- tasks ---------------------------------------------------------------------------------------

    def task_of(self, scope: str, task: str) -> TaskRow | None:
        return self._row(TaskRow, "task_of", scope, task)

    def newest_tasks(self, scope: str, state: str | None, limit: int, before: TaskRow | None = None) -> list[TaskRow]:
        place = (before.updated_at, before.key) if before else (NEWEST, NEWEST)
        if state is None:
            return self._rows(TaskRow, "newest_tasks", scope, *place, limit)
        return self._rows(TaskRow, "newest_tasks_of_state", scope, state, *place, limit)

    def tasks_after(self, key: int, limit: int) -> list[TaskRow]:
        return self._rows(TaskRow, "tasks_after_key", key, limit)

    def task_events_after(self, task_key: int, seq: int, limit: int) -> list[TaskEventRow]:
        return self._rows(TaskEventRow, "task_events_after", task_key, seq, limit)

    def runs_of_task(self, scope: str, task: str, limit: int) -> list[RunRow]:
        return self._rows(RunRow, "runs_of_task", scope, task, limit)

    def events_without_task(self) -> list[int]:
        return [row[0] for row in self._all("events_without_task")]

    # -- sessions ------------------------------------------------------------------------------------

    def session_of(self, scope: str, session_id: str) -> SessionRow | None:
        return self._row(SessionRow, "session_of", scope, session_id)

    def newest_sessions(self, scope: str, limit: int, before: SessionRow | None = None) -> list[SessionRow]:
        place = (before.updated_at, before.key) if before else (NEWEST, NEWEST)
        return self._rows(SessionRow, "newest_sessions", scope, *place, limit)

    def sessions_after(self, key: int, limit: int) -> list[SessionRow]:
        return self._rows(SessionRow, "sessions_after_key", key, limit)

    def messages_after(self, session_key: int, seq: int, limit: int) -> list[MessageRow]:
        return self._rows(MessageRow, "messages_after", session_key, seq, limit)

    def messages_before(self, session_key: int, seq: int, limit: int) -> list[MessageRow]:
        return self._rows(MessageRow, "messages_before", session_key, seq, limit)

    def system_messages_after(self, session_key: int, seq: int, limit: int) -> list[MessageRow]:
        return self._rows(MessageRow, "system_messages_after", session_key, seq, limit)

    def memos_after(self, session_key: int, version: int, limit: int) -> list[MemoRow]:
        return self._rows(MemoRow, "memos_after", session_key, version, limit)

    def runs_of_session(self, scope: str, session_id: str) -> list[str]:
        return [row[0] for row in self._all("runs_of_session", session_id, scope)]

    def messages_without_session(self) -> list[int]:
        return [row[0] for row in self._all("messages_without_session")]

    def memos_without_session(self) -> list[int]:
        return [row[0] for row in self._all("memos_without_session")]


class HandoffWriter(WrittenRows, HandoffReader):
    """Writes inside a transaction."""

    def add_anchor(self, anchor_id: str, scope: str, anchor: str, start: bytes) -> AnchorRow:
        key = self._add_chain(f"handoff:{anchor_id}", 0, 0, start, None)
        row = self._one("add_anchor", key, anchor_id, scope, anchor)
        return AnchorRow(*row)

    def add_handoff(self, anchor_key: int, seq: int, handoff: NewHandoff) -> None:
        key = self._one("add_handoff", handoff.id, anchor_key, handoff.revision, seq, handoff.supersedes)[0]
        self._one("set_anchor", handoff.revision, key, *handoff[3:9], anchor_key)
        if handoff.revision > 1:
            self._one("forget_handoff_files", anchor_key)
        self.do_many(self.sql["add_handoff_file"], [(path, anchor_key) for path in handoff.files])

    def keep_contents(self, contents: Mapping[str, bytes]) -> None:
        self.do_many(self.sql["keep_content"], contents.items())

    def settle_anchor(self, anchor_key: int, status: str, outcome: str) -> None:
        self._one("settle_anchor", status, outcome, anchor_key)

    def fill_anchor(
        self, anchor_key: int, lease: LeaseRow, rows: Sequence[Row], refs: Sequence[tuple[int, str]]
    ) -> None:
        self._one("renew_arrived_lease", lease.epoch, lease.head, lease.hash, lease.key)
        self._one("mark_anchor_arrived", lease.head, anchor_key)
        self.do_many(self.sql["add_entry"], [(anchor_key, row.seq, row.header, row.hash, row.payload) for row in rows])
        self.do_many(self.sql["add_blob_ref"], [(name, anchor_key, seq) for seq, name in refs])

    # -- tasks ---------------------------------------------------------------------------------------

    def add_task(self, task: TaskRow) -> TaskRow:
        self._one("add_task", *task[1:9], task.hash)
        found = self.task_of(task.scope, task.task)
        assert found is not None
        return found

    def add_task_event(self, task: TaskRow, event: TaskEventRow, state: str, session: str, opened_at: int) -> None:
        self._one("add_task_event", task.key, *event)
        actor = event.actor if event.kind != "event" else task.actor
        self._one("move_task", state, session, actor, opened_at, event.at, event.seq, event.hash, task.key, task.head)

    # -- sessions ------------------------------------------------------------------------------------

    def add_session(self, session: SessionRow) -> SessionRow:
        chains = session.hash, session.memo_hash
        self._one("add_session", *session[1:5], *chains, session.created_at, session.updated_at)
        found = self.session_of(session.scope, session.id)
        assert found is not None
        return found

    def add_messages(self, session: SessionRow, messages: Sequence[MessageRow]) -> None:
        for message in messages:
            self._one("add_message", session.key, *message)
        last = messages[-1]
        self._one("move_session", last.seq, last.hash, last.at, session.key, session.head)

    def add_memo(self, session: SessionRow, memo: MemoRow) -> None:
        self._one("add_memo", session.key, *memo)
        self._one("move_memo", memo.version, memo.hash, memo.at, session.key, session.memos)
