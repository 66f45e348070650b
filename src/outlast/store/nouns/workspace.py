"""The workspace on one connection: named statements in, rows out."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.store.contract.workspace import (
    ArtifactCounts,
    ArtifactRow,
    CheckpointRow,
    CountedRecords,
    LinkRow,
    RecordRow,
    RemovedRow,
    ShownRow,
    WorkspaceKeys,
)
from outlast.store.nouns.rows import AFTER_ALL, NEWEST, Rows


class WorkspaceReader(Rows):
    """Lookups."""

    def artifact_at(self, scope: str, name: str, version: int) -> ArtifactRow | None:
        return self._row(ArtifactRow, "artifact_at", scope, name, version)

    def artifact_by_key(self, key: int) -> ArtifactRow | None:
        return self._row(ArtifactRow, "artifact_by_key", key)

    def artifact_versions(self, scope: str, name: str, before: int, limit: int) -> list[ArtifactRow]:
        return self._rows(ArtifactRow, "artifact_versions", scope, name, before or NEWEST, limit)

    def next_version(self, scope: str, name: str, digest: str) -> int:
        existing = self._one("existing_version", scope, name)[0] or 0
        again = self._one("dropped_version", scope, name, digest, existing)[0]
        highest = self._one("highest_version", scope, name)
        return int(again or (highest[0] if highest else 0) + 1)

    def artifact_of_digest(self, digest: str) -> tuple[str, str, str] | None:
        found: tuple[str, str, str] | None = self._one("artifact_of_digest", digest)
        return found

    def stored_bytes_of(self, key: str) -> int:
        return int(self._one("stored_bytes_of", key)[0])

    def artifacts_of_scope(self, scope: str, before: int, limit: int) -> list[ArtifactRow]:
        return self._rows(ArtifactRow, "artifacts_of_scope", scope, before or NEWEST, limit)

    def artifacts_of_prefix(self, scope: str, prefix: str, before: int, limit: int) -> list[ArtifactRow]:
        given = (scope, prefix, prefix + AFTER_ALL, before or NEWEST, limit)
        return self._rows(ArtifactRow, "artifacts_of_prefix", *given)

    def artifacts_of_tag(self, scope: str, tag: str, before: int, limit: int) -> list[ArtifactRow]:
        return self._rows(ArtifactRow, "artifacts_of_tag", scope, tag, before or NEWEST, limit)

    def artifacts_of_run(self, run_id: str, before: int, limit: int) -> list[ArtifactRow]:
        return self._rows(ArtifactRow, "artifacts_of_run", run_id, before or NEWEST, limit)

    def artifacts_after(self, key: int, limit: int) -> list[ArtifactRow]:
        return self._rows(ArtifactRow, "artifacts_after_key", key, limit)

    def count_artifacts(self) -> ArtifactCounts:
        return ArtifactCounts(*self._one("count_artifacts"))

    def tags_of_artifact(self, key: int, scope: str) -> list[str]:
        return [row[0] for row in self._all("tags_of_artifact", scope, key)]

    def pending_artifacts(self, run_id: str, epoch: int) -> list[int]:
        return [row[0] for row in self._all("pending_artifacts", run_id, epoch)]

    def abandoned_artifacts(self) -> list[tuple[int, str]]:
        found = self._all("abandoned_artifacts")
        return [(key, name) for key, blob, chunks in found for name in (blob, chunks) if name]

    def blobs_of_artifact(self, key: int) -> list[str]:
        return [row[0] for row in self._all("blobs_of_artifact", key)]

    def artifacts_of_blob(self, blob: str) -> list[int]:
        return [row[0] for row in self._all("artifacts_of_blob", blob)]

    def refs_without_artifact(self) -> list[int]:
        return [row[0] for row in self._all("refs_without_artifact", 0)]

    def older_versions(self, key: int, limit: int) -> list[ArtifactRow]:
        return self._rows(ArtifactRow, "older_versions", key, limit)

    def removed_artifact(self, scope: str, name: str, version: int) -> RemovedRow | None:
        return self._row(RemovedRow, "removed_artifact", scope, name, version)

    def removed_before(self, scope: str, name: str, version: int) -> RemovedRow | None:
        return self._row(RemovedRow, "removed_before", scope, name, version)

    def removed_by_key(self, key: int) -> RemovedRow | None:
        return self._row(RemovedRow, "removed_by_key", key)

    def checkpoints_by_prefix(self, prefix: str) -> list[CheckpointRow]:
        return self._rows(CheckpointRow, "checkpoints_by_prefix", prefix, prefix + AFTER_ALL)

    def checkpoints_of_task(self, scope: str, task: str, before: int, limit: int) -> list[CheckpointRow]:
        return self._rows(CheckpointRow, "checkpoints_of_task", scope, task, before or NEWEST, limit)

    def checkpoints_of_scope(self, scope: str, before: int, limit: int) -> list[CheckpointRow]:
        return self._rows(CheckpointRow, "checkpoints_of_scope", scope, before or NEWEST, limit)

    def checkpoints_of_run(self, run_id: str, before: int, limit: int) -> list[CheckpointRow]:
        return self._rows(CheckpointRow, "checkpoints_of_run", run_id, before or NEWEST, limit)

    def checkpoints_after(self, key: int, limit: int) -> list[CheckpointRow]:
        return self._rows(CheckpointRow, "checkpoints_after_key", key, limit)

    def count_checkpoints(self) -> int:
        return int(self._one("count_checkpoints")[0])

    def record_by_key(self, key: int) -> RecordRow | None:
        return self._row(RecordRow, "record_by_key", key)

    def records_by_prefix(self, prefix: str) -> list[RecordRow]:
        return self._rows(RecordRow, "records_by_prefix", prefix, prefix + AFTER_ALL)

    def records_of_scope(self, scope: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_scope", scope, before or NEWEST, limit)

    def records_of_kind(self, scope: str, kind: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_kind", scope, kind, before or NEWEST, limit)

    def records_of_task(self, scope: str, task: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_task", scope, task, before or NEWEST, limit)

    def records_of_tag(self, scope: str, tag: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_tag", scope, tag, before or NEWEST, limit)

    def pinned_records(self, scope: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "pinned_records", scope, before or NEWEST, limit)

    def records_of_ref(self, ref: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_ref", ref, before or NEWEST, limit)

    def records_of_run(self, run_id: str, before: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_of_run", run_id, before or NEWEST, limit)

    def records_after(self, key: int, limit: int) -> list[RecordRow]:
        return self._rows(RecordRow, "records_after_key", key, limit)

    def tags_of_record(self, key: int, scope: str) -> list[str]:
        return [row[0] for row in self._all("tags_of_record", scope, key)]

    def refs_of_record(self, key: int) -> list[str]:
        return [row[0] for row in self._all("refs_of_record", key)]

    def count_records(self) -> CountedRecords:
        return CountedRecords(*self._one("count_records"))

    def link_by_key(self, key: int) -> LinkRow | None:
        return self._row(LinkRow, "link_by_key", key)

    def link_by_id(self, link_id: str) -> LinkRow | None:
        return self._row(LinkRow, "link_by_id", link_id)

    def link_between(self, source: str, relation: str, target: str) -> LinkRow | None:
        return self._row(LinkRow, "link_between", source, relation, target)

    def links_from(self, source: str, relation: str, after: int, limit: int) -> list[LinkRow]:
        return self._rows(LinkRow, "links_from", source, relation, after, limit)

    def links_to(self, target: str, relation: str, after: int, limit: int) -> list[LinkRow]:
        return self._rows(LinkRow, "links_to", target, relation, after, limit)

    def linked_among(self, refs: Sequence[str]) -> set[str]:
        return {ref for (ref,) in self._all("linked_among", self._listed(refs))}

    def refs_under_way(self) -> set[str]:
        return {ref for (ref,) in self._all("refs_under_way")}

    def links_of_run(self, run_id: str, before: int, limit: int) -> list[LinkRow]:
        return self._rows(LinkRow, "links_of_run", run_id, before or NEWEST, limit)

    def links_after(self, key: int, limit: int) -> list[LinkRow]:
        return self._rows(LinkRow, "links_after_key", key, limit)

    def checkpoint_by_key(self, key: int) -> CheckpointRow | None:
        return self._row(CheckpointRow, "checkpoint_by_key", key)

    def pending_of(self, run_id: str, epoch: int) -> WorkspaceKeys:
        records = tuple(row[0] for row in self._all("pending_records", run_id, epoch))
        links = tuple(row[0] for row in self._all("pending_links", run_id, epoch))
        return WorkspaceKeys(tuple(self.pending_artifacts(run_id, epoch)), records, links)

    def abandoned(self) -> WorkspaceKeys:
        records = tuple(row[0] for row in self._all("abandoned_records"))
        links = tuple(row[0] for row in self._all("abandoned_links"))
        return WorkspaceKeys(tuple(key for key, _ in self.abandoned_artifacts()), records, links)

    def shown_of_scope(self, scope: str, after: int, limit: int) -> list[ShownRow]:
        return self._rows(ShownRow, "shown_of_scope", scope, after, limit)

    def shown_after(self, number: int, limit: int) -> list[ShownRow]:
        return self._rows(ShownRow, "shown_after_number", number, limit)

    def is_shown(self, noun: str, key: int) -> bool:
        return self._one("shown_row", noun, key) is not None

    def highest_shown(self) -> int:
        row = self._one("highest_shown")
        return int(row[0]) if row else 0


class WorkspaceWriter(WorkspaceReader):
    """Writes inside a transaction."""

    def add_artifact(self, row: ArtifactRow, tags: Sequence[str]) -> int:
        key = int(self._one("add_artifact", *row[1:])[0])
        self._one("add_artifact_blob", row.blob, key)
        if row.chunks:
            self._one("add_artifact_blob", row.chunks, key)
        self._one("raise_version", row.scope, row.name, row.version)
        self._one("forget_dropped", row.scope, row.name, row.digest, row.version)
        if not row.pending:
            self._one("raise_newest", key, row.scope, row.name, key)
            self._one("add_shown", "artifact", row.scope, key)
        for tag in tags:
            self._one("add_artifact_tag", row.scope, tag, key)
        return key

    def show_artifacts(self, keys: Sequence[int]) -> None:
        for key in keys:
            if shown := self._one("show_artifact", key):
                self._one("raise_newest", key, *shown, key)
                self._one("add_shown", "artifact", shown[0], key)

    def drop_artifacts(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._one("drop_artifact_tags", key)
            self._one("drop_artifact_blobs", key)
            if dropped := self._one("drop_artifact", key):
                self._one("keep_dropped", *dropped)

    def remove_artifact(self, key: int, at: int, by: str) -> None:
        self._one("drop_artifact_tags", key)
        self._one("drop_artifact_blobs", key)
        if removed := self._one("remove_artifact", key):
            self._one("add_removed", *removed, at, by)

    def note_stored(self, blob: str, key: str, size: int) -> None:
        self._one("note_stored", blob, key, size)

    def add_stored(self, name: str, key: str, size: int) -> None:
        self._one("add_stored", name, key, size)

    def forget_stored(self, blobs: Sequence[str]) -> None:
        for blob in blobs:
            self._one("forget_stored", blob)

    def add_checkpoint(self, row: CheckpointRow) -> None:
        key = int(self._one("add_checkpoint", *row[1:])[0])
        self._one("add_shown", "checkpoint", row.scope, key)

    def add_record(self, row: RecordRow, tags: Sequence[str], refs: Sequence[str]) -> int:
        key = int(self._one("add_record", *row[1:])[0])
        for tag in tags:
            self._one("add_record_tag", row.scope, tag, key)
        for ref in refs:
            self._one("add_record_ref", ref, key)
        if not row.pending:
            self._one("add_shown", "record", row.scope, key)
        return key

    def pin_record(self, key: int, pinned: bool, by: str) -> None:
        self._one("pin_record", int(pinned), by, key)

    def add_link(self, row: LinkRow) -> int:
        key = int(self._one("add_link", *row[1:])[0])
        if not row.pending:
            self._one("add_shown", "link", row.scope, key)
        return key

    def show(self, kept: WorkspaceKeys) -> None:
        self.show_artifacts(kept.artifacts)
        for key in kept.records:
            if shown := self._one("show_record", key):
                self._one("add_shown", "record", shown[0], key)
        for key in kept.links:
            row = self.link_by_key(key)
            if row is None or self.link_between(row.source, row.relation, row.target):
                self._one("drop_link", key)
            elif shown := self._one("show_link", key):
                self._one("add_shown", "link", shown[0], key)

    def drop(self, kept: WorkspaceKeys) -> None:
        self.drop_artifacts(kept.artifacts)
        for key in kept.records:
            self._one("drop_record_tags", key)
            self._one("drop_record_refs", key)
            self._one("drop_record", key)
        for key in kept.links:
            self._one("drop_link", key)
