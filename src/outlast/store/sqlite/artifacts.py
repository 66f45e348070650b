"""Artifacts and checkpoints on one SQLite connection: named statements in, rows out."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.store.contract.artifacts import ArtifactRow, CheckpointRow, Counted, RemovedRow
from outlast.store.sqlite.rows import Rows

_LAST = "\U0010ffff"
_NEWEST = 1 << 62


class ArtifactReader(Rows):
    """Lookups."""

    def artifact_at(self, scope: str, name: str, version: int) -> ArtifactRow | None:
        return self._row(ArtifactRow, "artifact_at", scope, name, version)

    def artifact_by_key(self, key: int) -> ArtifactRow | None:
        return self._row(ArtifactRow, "artifact_by_key", key)

    def artifact_versions(self, scope: str, name: str, before: int, limit: int) -> list[ArtifactRow]:
        """Those that everybody sees, the newest first."""
        return self._rows(ArtifactRow, "artifact_versions", scope, name, before or _NEWEST, limit)

    def next_version(self, scope: str, name: str, digest: str) -> int:
        """The number for new content: one that no other content ever had.

        What a dropped save had is given again for its very content, if nothing came after it since.
        """
        existing = self._one("existing_version", scope, name)[0] or 0
        again = self._one("dropped_version", scope, name, digest, existing)[0]
        highest = self._one("highest_version", scope, name)
        return int(again or (highest[0] if highest else 0) + 1)

    def artifact_of_digest(self, digest: str) -> tuple[str, str, str] | None:
        """The blob that holds this content already, how it is packed, and the blob that lists its chunks."""
        found: tuple[str, str, str] | None = self._one("artifact_of_digest", digest)
        return found

    def stored_bytes_of(self, key: str) -> int:
        """What the holder of an API key has stored."""
        return int(self._one("stored_bytes_of", key)[0])

    def artifacts_of_scope(self, scope: str, before: int, limit: int) -> list[ArtifactRow]:
        return self._rows(ArtifactRow, "artifacts_of_scope", scope, before or _NEWEST, limit)

    def artifacts_of_prefix(self, scope: str, prefix: str, before: int, limit: int) -> list[ArtifactRow]:
        given = (scope, prefix, prefix + _LAST, before or _NEWEST, limit)
        return self._rows(ArtifactRow, "artifacts_of_prefix", *given)

    def artifacts_of_tag(self, scope: str, tag: str, before: int, limit: int) -> list[ArtifactRow]:
        return self._rows(ArtifactRow, "artifacts_of_tag", scope, tag, before or _NEWEST, limit)

    def artifacts_of_run(self, run_id: str, before: int, limit: int) -> list[ArtifactRow]:
        return self._rows(ArtifactRow, "artifacts_of_run", run_id, before or _NEWEST, limit)

    def artifacts_after(self, key: int, limit: int) -> list[ArtifactRow]:
        return self._rows(ArtifactRow, "artifacts_after_key", key, limit)

    def count_artifacts(self) -> Counted:
        return Counted(*self._one("count_artifacts"))

    def tags_of_artifact(self, key: int, scope: str) -> list[str]:
        """What it is found by, in order."""
        return [row[0] for row in self._all("tags_of_artifact", key, scope)]

    def pending_artifacts(self, run_id: str, epoch: int) -> list[int]:
        """Keys of what a run's attempts saved before that epoch, and nobody has seen."""
        return [row[0] for row in self._all("pending_artifacts", run_id, epoch)]

    def abandoned_artifacts(self) -> list[tuple[int, str]]:
        """Keys and blobs of those whose attempt will never end."""
        found = self._all("abandoned_artifacts")
        return [(key, name) for key, blob, chunks in found for name in (blob, chunks) if name]

    def blobs_of_artifact(self, key: int) -> list[str]:
        return [row[0] for row in self._all("artifact_refs_of", key)]

    def artifacts_of_blob(self, blob: str) -> list[int]:
        """Keys of those that need it."""
        return [row[0] for row in self._all("artifacts_of_blob", blob)]

    def refs_without_artifact(self) -> list[int]:
        return [row[0] for row in self._all("refs_without_artifact", 0)]

    def older_versions(self, key: int, limit: int) -> list[ArtifactRow]:
        """Versions after a key that everybody sees and that are not the newest of their name."""
        return self._rows(ArtifactRow, "older_versions", key, limit)

    def removed_artifact(self, scope: str, name: str, version: int) -> RemovedRow | None:
        return self._row(RemovedRow, "removed_artifact", scope, name, version)

    def removed_before(self, scope: str, name: str, version: int) -> RemovedRow | None:
        """The last removed one of the versions before that one."""
        return self._row(RemovedRow, "removed_before", scope, name, version)

    def removed_by_key(self, key: int) -> RemovedRow | None:
        return self._row(RemovedRow, "removed_by_key", key)

    def checkpoints_by_prefix(self, prefix: str) -> list[CheckpointRow]:
        return self._rows(CheckpointRow, "checkpoints_by_prefix", prefix, prefix + _LAST)

    def checkpoints_of_task(self, scope: str, task: str, before: int, limit: int) -> list[CheckpointRow]:
        return self._rows(CheckpointRow, "checkpoints_of_task", scope, task, before or _NEWEST, limit)

    def checkpoints_of_scope(self, scope: str, before: int, limit: int) -> list[CheckpointRow]:
        return self._rows(CheckpointRow, "checkpoints_of_scope", scope, before or _NEWEST, limit)

    def checkpoints_of_run(self, run_id: str, before: int, limit: int) -> list[CheckpointRow]:
        return self._rows(CheckpointRow, "checkpoints_of_run", run_id, before or _NEWEST, limit)

    def checkpoints_after(self, key: int, limit: int) -> list[CheckpointRow]:
        return self._rows(CheckpointRow, "checkpoints_after_key", key, limit)

    def count_checkpoints(self) -> int:
        return int(self._one("count_checkpoints")[0])


class ArtifactWriter(ArtifactReader):
    """Writes inside a transaction."""

    def add_artifact(self, row: ArtifactRow, tags: Sequence[str]) -> int:
        """An artifact, with the reference that keeps its blob. Gives its key; the one in the row does not count."""
        key = int(self._one("add_artifact", *row[1:])[0])
        self._one("add_blob_ref", row.blob, 0, key)
        if row.chunks:
            self._one("add_blob_ref", row.chunks, 0, key)
        self._one("raise_version", row.scope, row.name, row.version)
        self._one("forget_dropped", row.scope, row.name, row.digest, row.version)
        if not row.pending:
            self._one("raise_newest", row.scope, row.name, key)
            self._one("add_shown", "artifact", row.scope, key)
        for tag in tags:
            self._one("add_artifact_tag", row.scope, tag, key)
        return key

    def show_artifacts(self, keys: Sequence[int]) -> None:
        """Let everybody see what an attempt saved."""
        for key in keys:
            if shown := self._one("show_artifact", key):
                self._one("raise_newest", *shown, key)
                self._one("add_shown", "artifact", shown[0], key)

    def drop_artifacts(self, keys: Sequence[int]) -> None:
        """Forget what an attempt saved and nobody has seen, but for its numbers, which somebody may have been told.

        Its blobs are free, unless others need them.
        """
        for key in keys:
            self._one("drop_artifact_tags", key)
            self._one("drop_artifact_ref", key)
            if dropped := self._one("drop_artifact", key):
                self._one("keep_dropped", *dropped)

    def remove_artifact(self, key: int, at: int, by: str) -> None:
        """A stone in the place of a version: its content is free, unless others need it."""
        self._one("drop_artifact_tags", key)
        self._one("drop_artifact_ref", key)
        if removed := self._one("remove_artifact", key):
            self._one("add_removed", *removed, at, by)

    def note_stored(self, blob: str, key: str, size: int) -> None:
        """Who stored a blob: only the first one counts."""
        self._one("note_stored", blob, key, size)

    def add_stored(self, name: str, key: str, size: int) -> None:
        """So much more under a name of the key's own."""
        self._one("add_stored", name, key, size)

    def forget_stored(self, blobs: Sequence[str]) -> None:
        """These blobs are gone, and nobody pays for them any more."""
        for blob in blobs:
            self._one("forget_stored", blob)

    def add_checkpoint(self, row: CheckpointRow) -> None:
        key = int(self._one("add_checkpoint", *row[1:])[0])
        self._one("add_shown", "checkpoint", row.scope, key)
