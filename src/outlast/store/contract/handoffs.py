"""Handoffs: anchors, their revisions, and what each is found by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from outlast.ledger.journal import Row
from outlast.store.contract.runs import LeaseRow
from outlast.values.frozen import NamedTuple


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


class HandoffReading(Protocol):
    """Lookups, each by an index."""

    def anchor_of(self, scope: str, anchor: str) -> AnchorRow | None: ...
    def anchor_by_key(self, key: int) -> AnchorRow | None: ...
    def anchor_by_id(self, anchor_id: str) -> AnchorRow | None: ...
    def newest_anchors(self, scope: str, status: str, limit: int, before: int = 0) -> list[AnchorRow]: ...
    def expired_anchors(self, scope: str, at: int, limit: int, before: int = 0) -> list[AnchorRow]: ...
    def claimed_anchors(self, scope: str, limit: int | None = None) -> list[AnchorRow]: ...
    def anchors_of_branch(self, scope: str, branch: str, limit: int, before: int = 0) -> list[AnchorRow]: ...
    def anchors_of_file(self, scope: str, path: str, limit: int | None = None) -> list[AnchorRow]: ...
    def anchors_near(self, scope: str, anchor: str, limit: int) -> list[str]: ...
    def anchors_after(self, key: int, limit: int) -> list[AnchorRow]: ...
    def count_anchors(self) -> dict[str, int]: ...
    def files_of_anchor(self, anchor_key: int) -> list[str]: ...
    def lease_of_anchor(self, anchor_id: str) -> LeaseRow | None: ...
    def leases_without_anchor(self) -> list[str]: ...
    def handoffs_without_anchor(self) -> list[int]: ...
    def handoffs_by_prefix(self, prefix: str) -> list[HandoffRow]: ...
    def handoff_at(self, anchor_key: int, revision: int) -> HandoffRow | None: ...
    def handoffs_of(self, anchor_key: int) -> list[HandoffRow]: ...
    def handoffs_after(self, key: int, limit: int) -> list[HandoffRow]: ...
    def handoff_superseding(self, handoff_id: str) -> HandoffRow | None: ...


class HandoffWriting(HandoffReading, Protocol):
    """Writes inside a transaction."""

    def add_anchor(self, anchor_id: str, scope: str, anchor: str, start: bytes) -> AnchorRow: ...
    def add_handoff(self, anchor_key: int, seq: int, handoff: NewHandoff) -> None: ...
    def settle_anchor(self, anchor_key: int, status: str, outcome: str) -> None: ...
    def fill_anchor(
        self, anchor_key: int, lease: LeaseRow, rows: Sequence[Row], refs: Sequence[tuple[int, str]]
    ) -> None: ...
