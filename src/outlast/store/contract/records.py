"""The workspace's part of the contract that is about records and links, and about what everybody came to see when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from outlast.store.contract.artifacts import CheckpointRow
from outlast.values.frozen import NamedTuple


class RecordRow(NamedTuple):
    key: int
    id: str
    scope: str
    kind: str
    text: str
    refs: str
    tags: str
    source: str
    run_id: str
    task: str
    at: int
    stored_at: int
    masked: str
    pending: int
    pinned: int
    pinned_by: str
    proof: bytes


class LinkRow(NamedTuple):
    key: int
    id: str
    scope: str
    source: str
    relation: str
    target: str
    note: str
    by: str
    run_id: str
    stored_at: int
    masked: str
    pending: int
    proof: bytes


class Shown(NamedTuple):
    """Something of the workspace that everybody sees: the how manieth it is, what it is, and its key there."""

    number: int
    noun: str  # artifact, checkpoint, record, link
    scope: str
    row: int


class Kept(NamedTuple):
    """Keys of what an attempt put into the workspace: everybody sees it, or nobody ever, when the attempt ends."""

    artifacts: tuple[int, ...] = ()
    records: tuple[int, ...] = ()
    links: tuple[int, ...] = ()


class CountedRecords(NamedTuple):
    """How many records and links everybody sees."""

    records: int
    links: int


class RecordReading(Protocol):
    """Lookups, each by an index. `before` is a key: the newest first, from the one before it on. Only `records_after`,
    `links_after`, `records_by_prefix` and lookups by key or id give what nobody may see yet (`pending`)."""

    def record_by_key(self, key: int) -> RecordRow | None: ...
    def records_by_prefix(self, prefix: str) -> list[RecordRow]: ...
    def records_of_scope(self, scope: str, before: int, limit: int) -> list[RecordRow]: ...
    def records_of_kind(self, scope: str, kind: str, before: int, limit: int) -> list[RecordRow]: ...
    def records_of_task(self, scope: str, task: str, before: int, limit: int) -> list[RecordRow]: ...
    def records_of_tag(self, scope: str, tag: str, before: int, limit: int) -> list[RecordRow]: ...
    def pinned_records(self, scope: str, before: int, limit: int) -> list[RecordRow]: ...
    def records_of_ref(self, ref: str, before: int, limit: int) -> list[RecordRow]: ...
    def records_of_run(self, run_id: str, before: int, limit: int) -> list[RecordRow]: ...
    def records_after(self, key: int, limit: int) -> list[RecordRow]: ...
    def tags_of_record(self, key: int, scope: str) -> list[str]: ...
    def refs_of_record(self, key: int) -> list[str]: ...
    def count_records(self) -> CountedRecords: ...
    def link_by_key(self, key: int) -> LinkRow | None: ...
    def link_by_id(self, link_id: str) -> LinkRow | None: ...
    def link_between(self, source: str, relation: str, target: str) -> LinkRow | None: ...
    def links_from(self, source: str, relation: str, after: int, limit: int) -> list[LinkRow]: ...
    def links_to(self, target: str, relation: str, after: int, limit: int) -> list[LinkRow]: ...
    def linked_among(self, refs: Sequence[str]) -> set[str]: ...
    def refs_under_way(self) -> set[str]: ...
    def links_of_run(self, run_id: str, before: int, limit: int) -> list[LinkRow]: ...
    def links_after(self, key: int, limit: int) -> list[LinkRow]: ...
    def checkpoint_by_key(self, key: int) -> CheckpointRow | None: ...
    def pending_of(self, run_id: str, epoch: int) -> Kept: ...
    def abandoned(self) -> Kept: ...
    def shown_of_scope(self, scope: str, after: int, limit: int) -> list[Shown]: ...
    def shown_after(self, number: int, limit: int) -> list[Shown]: ...
    def is_shown(self, noun: str, key: int) -> bool: ...
    def highest_shown(self) -> int: ...


class RecordWriting(RecordReading, Protocol):
    """Writes inside a transaction."""

    def add_record(self, row: RecordRow, tags: Sequence[str], refs: Sequence[str]) -> int: ...
    def pin_record(self, key: int, pinned: bool, by: str) -> None: ...
    def add_link(self, row: LinkRow) -> int: ...
    def show(self, kept: Kept) -> None: ...
    def drop(self, kept: Kept) -> None: ...
