"""Handoffs on one SQLite connection: anchors, their revisions, and what each is found by."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.ledger.journal import Row
from outlast.store.contract.handoffs import AnchorRow, HandoffRow, NewHandoff
from outlast.store.contract.runs import LeaseRow
from outlast.store.sqlite.rows import AFTER_ALL, NEWEST, Rows, WrittenRows


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
        """Those that expired last first. `before`: of those that expired just then, only anchors of smaller keys."""
        return self._rows(AnchorRow, "expired_anchors", scope, at, at, before or NEWEST, limit)

    def claimed_anchors(self, scope: str, limit: int | None = None) -> list[AnchorRow]:
        """Those whose lease names a holder, be it alive or not."""
        return self._rows(AnchorRow, "claimed_anchors", scope, NEWEST if limit is None else limit)

    def anchors_of_branch(self, scope: str, branch: str, limit: int, before: int = 0) -> list[AnchorRow]:
        return self._rows(AnchorRow, "anchors_of_branch", scope, branch, before or NEWEST, limit)

    def anchors_of_file(self, scope: str, path: str, limit: int | None = None) -> list[AnchorRow]:
        return self._rows(AnchorRow, "anchors_of_file", path, scope, NEWEST if limit is None else limit)

    def anchors_near(self, scope: str, anchor: str, limit: int) -> list[str]:
        """The anchors next to this name in the alphabet, on both sides."""
        after = self._all("anchors_from", scope, anchor, limit)
        return [row[0] for row in (*self._all("anchors_before", scope, anchor, limit), *after)]

    def anchors_after(self, key: int, limit: int) -> list[AnchorRow]:
        return self._rows(AnchorRow, "anchors_after_key", key, limit)

    def count_anchors(self) -> dict[str, int]:
        return dict(self._all("count_anchors"))

    def files_of_anchor(self, anchor_key: int) -> list[str]:
        """What it is found by, in order."""
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


class HandoffWriter(WrittenRows, HandoffReader):
    """Writes inside a transaction."""

    def add_anchor(self, anchor_id: str, scope: str, anchor: str, start: bytes) -> AnchorRow:
        """An anchor without a revision yet, and its lease, which nobody holds."""
        key = self._add_chain(f"handoff:{anchor_id}", 0, 0, start, None)
        row = self._one("add_anchor", key, anchor_id, scope, anchor)
        return AnchorRow(*row)

    def add_handoff(self, anchor_key: int, seq: int, handoff: NewHandoff) -> None:
        """A revision whose content is the entry `seq`; the anchor is open and found by it from now on."""
        key = self._one("add_handoff", handoff.id, anchor_key, handoff.revision, seq, handoff.supersedes)[0]
        self._one("set_anchor", handoff.revision, key, *handoff[3:9], anchor_key)
        if handoff.revision > 1:
            self._one("forget_handoff_files", anchor_key)
        self.do_many(self.sql["add_handoff_file"], [(path, anchor_key) for path in handoff.files])

    def settle_anchor(self, anchor_key: int, status: str, outcome: str) -> None:
        self._one("settle_anchor", status, outcome, anchor_key)

    def fill_anchor(
        self, anchor_key: int, lease: LeaseRow, rows: Sequence[Row], refs: Sequence[tuple[int, str]]
    ) -> None:
        """Entries that came from elsewhere. The chain ends as `lease` says from now on, and nobody holds it."""
        self._one("renew_arrived_lease", lease.epoch, lease.head, lease.hash, lease.key)
        self._one("mark_anchor_arrived", lease.head, anchor_key)
        self.do_many(self.sql["add_entry"], [(anchor_key, *row) for row in rows])
        self.do_many(self.sql["add_blob_ref"], [(name, anchor_key, seq) for seq, name in refs])
