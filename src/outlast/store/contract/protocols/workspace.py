"""The workspace: what is asked of a store about it, and written; and the index that recall searches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager

from outlast.store.contract.workspace import (
    ArtifactCounts,
    ArtifactRow,
    CheckpointRow,
    CountedRecords,
    FoundPassage,
    IndexedDocument,
    LinkRow,
    RecordRow,
    RemovedRow,
    ShownRow,
    Tally,
    WorkspaceKeys,
)
from outlast.values.frozen import Protocol


class WorkspaceReading(Protocol):
    """Lookups, each by an index. `before` is a key: the newest first, from the one before it on. Only `records_after`,
    `links_after`, `records_by_prefix` and lookups by key or id give what nobody may see yet (`pending`)."""

    def artifact_at(self, scope: str, name: str, version: int) -> ArtifactRow | None: ...
    def artifact_by_key(self, key: int) -> ArtifactRow | None: ...

    def artifact_versions(self, scope: str, name: str, before: int, limit: int) -> list[ArtifactRow]:
        """Those that everybody sees, the newest first."""

    def next_version(self, scope: str, name: str, digest: str) -> int:
        """The number for new content: one that no other content ever had.

        What a dropped save had is given again for its very content, if nothing came after it since.
        """

    def artifact_of_digest(self, digest: str) -> tuple[str, str, str] | None:
        """The blob that holds this content already, how it is packed, and the blob that lists its chunks."""

    def stored_bytes_of(self, key: str) -> int:
        """What the holder of an API key has stored."""

    def artifacts_of_scope(self, scope: str, before: int, limit: int) -> list[ArtifactRow]: ...
    def artifacts_of_prefix(self, scope: str, prefix: str, before: int, limit: int) -> list[ArtifactRow]: ...
    def artifacts_of_tag(self, scope: str, tag: str, before: int, limit: int) -> list[ArtifactRow]: ...
    def artifacts_of_run(self, run_id: str, before: int, limit: int) -> list[ArtifactRow]: ...
    def artifacts_after(self, key: int, limit: int) -> list[ArtifactRow]: ...
    def count_artifacts(self) -> ArtifactCounts: ...

    def tags_of_artifact(self, key: int, scope: str) -> list[str]:
        """What it is found by, in order."""

    def pending_artifacts(self, run_id: str, epoch: int) -> list[int]:
        """Keys of what a run's attempts saved before that epoch, and nobody has seen."""

    def abandoned_artifacts(self) -> list[tuple[int, str]]:
        """Keys and blobs of those whose attempt will never end."""

    def blobs_of_artifact(self, key: int) -> list[str]: ...

    def artifacts_of_blob(self, blob: str) -> list[int]:
        """Keys of those that need it."""

    def refs_without_artifact(self) -> list[int]: ...

    def older_versions(self, key: int, limit: int) -> list[ArtifactRow]:
        """Versions after a key that everybody sees and that are not the newest of their name."""

    def removed_artifact(self, scope: str, name: str, version: int) -> RemovedRow | None: ...

    def removed_before(self, scope: str, name: str, version: int) -> RemovedRow | None:
        """The last removed one of the versions before that one."""

    def removed_by_key(self, key: int) -> RemovedRow | None: ...
    def checkpoints_by_prefix(self, prefix: str) -> list[CheckpointRow]: ...
    def checkpoints_of_task(self, scope: str, task: str, before: int, limit: int) -> list[CheckpointRow]: ...
    def checkpoints_of_scope(self, scope: str, before: int, limit: int) -> list[CheckpointRow]: ...
    def checkpoints_of_run(self, run_id: str, before: int, limit: int) -> list[CheckpointRow]: ...
    def checkpoints_after(self, key: int, limit: int) -> list[CheckpointRow]: ...
    def count_checkpoints(self) -> int: ...
    def record_by_key(self, key: int) -> RecordRow | None: ...
    def records_by_prefix(self, prefix: str) -> list[RecordRow]: ...
    def records_of_scope(self, scope: str, before: int, limit: int) -> list[RecordRow]: ...
    def records_of_kind(self, scope: str, kind: str, before: int, limit: int) -> list[RecordRow]: ...
    def records_of_task(self, scope: str, task: str, before: int, limit: int) -> list[RecordRow]: ...
    def records_of_tag(self, scope: str, tag: str, before: int, limit: int) -> list[RecordRow]: ...
    def pinned_records(self, scope: str, before: int, limit: int) -> list[RecordRow]: ...

    def records_of_ref(self, ref: str, before: int, limit: int) -> list[RecordRow]:
        """Those that are about it."""

    def records_of_run(self, run_id: str, before: int, limit: int) -> list[RecordRow]: ...
    def records_after(self, key: int, limit: int) -> list[RecordRow]: ...
    def tags_of_record(self, key: int, scope: str) -> list[str]: ...
    def refs_of_record(self, key: int) -> list[str]: ...
    def count_records(self) -> CountedRecords: ...
    def link_by_key(self, key: int) -> LinkRow | None: ...
    def link_by_id(self, link_id: str) -> LinkRow | None: ...

    def link_between(self, source: str, relation: str, target: str) -> LinkRow | None:
        """The one that everybody sees."""

    def links_from(self, source: str, relation: str, after: int, limit: int) -> list[LinkRow]:
        """The oldest first."""

    def links_to(self, target: str, relation: str, after: int, limit: int) -> list[LinkRow]: ...

    def linked_among(self, refs: Sequence[str]) -> set[str]:
        """Those of the refs that any link begins or ends at."""

    def refs_under_way(self) -> set[str]:
        """What records and links name that steps under way have made."""

    def links_of_run(self, run_id: str, before: int, limit: int) -> list[LinkRow]: ...
    def links_after(self, key: int, limit: int) -> list[LinkRow]: ...
    def checkpoint_by_key(self, key: int) -> CheckpointRow | None: ...

    def pending_of(self, run_id: str, epoch: int) -> WorkspaceKeys:
        """What a run's attempts made before that epoch, and nobody has seen."""

    def abandoned(self) -> WorkspaceKeys:
        """What attempts made that will never end."""

    def shown_of_scope(self, scope: str, after: int, limit: int) -> list[ShownRow]:
        """What everybody came to see in a scope after that number, in that order."""

    def shown_after(self, number: int, limit: int) -> list[ShownRow]:
        """The same of every scope."""

    def is_shown(self, noun: str, key: int) -> bool: ...

    def highest_shown(self) -> int:
        """The number that was given last, also if its row is gone."""


class WorkspaceWriting(WorkspaceReading, Protocol):
    """Writes inside a transaction."""

    def add_artifact(self, row: ArtifactRow, tags: Sequence[str]) -> int:
        """An artifact, with the reference that keeps its blob. Gives its key; the one in the row does not count."""

    def show_artifacts(self, keys: Sequence[int]) -> None:
        """Let everybody see what an attempt saved."""

    def drop_artifacts(self, keys: Sequence[int]) -> None:
        """Forget what an attempt saved and nobody has seen, but for its numbers, which somebody may have been told.

        Its blobs are free, unless others need them.
        """

    def remove_artifact(self, key: int, at: int, by: str) -> None:
        """A stone in the place of a version: its content is free, unless others need it."""

    def note_stored(self, blob: str, key: str, size: int) -> None:
        """Who stored a blob: only the first one counts."""

    def add_stored(self, name: str, key: str, size: int) -> None:
        """So much more under a name of the key's own."""

    def forget_stored(self, blobs: Sequence[str]) -> None:
        """These blobs are gone, and nobody pays for them any more."""

    def add_checkpoint(self, row: CheckpointRow) -> None: ...

    def add_record(self, row: RecordRow, tags: Sequence[str], refs: Sequence[str]) -> int:
        """A record with what it is found by. Gives its key; the one in the row does not count."""

    def pin_record(self, key: int, pinned: bool, by: str) -> None: ...

    def add_link(self, row: LinkRow) -> int:
        """A link, which nobody made before. Gives its key; the one in the row does not count."""

    def show(self, kept: WorkspaceKeys) -> None:
        """Let everybody see what an attempt made. A link that somebody else made meanwhile is that one."""

    def drop(self, kept: WorkspaceKeys) -> None:
        """Forget what an attempt made and nobody has seen."""


class RecallIndex(Protocol):
    """The passages of one scope."""

    lasting: bool  # False: in memory, for this call only

    def mark(self, family: str) -> int:
        """All documents of the family up to this key have been looked at; 0 at first."""

    def waiting(self, family: str) -> tuple[int, ...]:
        """Keys up to the mark that could not be seen yet when they were looked at."""

    def add(self, family: str, documents: Iterable[IndexedDocument], upto: int, waiting: Iterable[int] = ()) -> int:
        """Take in the documents and set the mark to `upto`, in one transaction; how many of them were new.

        `waiting` are all keys up to there that cannot be seen yet. What another process took in meanwhile is skipped,
        and the mark never goes back.
        """

    def remove(self, family: str, keys: Iterable[int]) -> None:
        """Take documents out, in one transaction; those that are not there are fine."""

    def one_moment(self) -> AbstractContextManager[None]:
        """All lookups inside see the same."""

    def tally(self) -> Tally: ...

    def frequencies(self, terms: Collection[str]) -> dict[str, int]:
        """In how many passages each of the terms is; those that are in none are left out."""

    def voices(self, words: Collection[str]) -> list[tuple[int, str, int]]:
        """Who has one of these words in the name: a number, the name, and how many passages are theirs."""

    def best(
        self,
        terms: Iterable[str],
        limit: int,
        *,
        kinds: Collection[str] | None = None,
        voices: Collection[int] = (),
        days: tuple[int, int] | None = None,
    ) -> list[int]:
        """Numbers of the passages that have the terms most, of these kinds, voices and days."""

    def around(self, numbers: Collection[int], back: int, on: int) -> list[FoundPassage]:
        """The passages and their neighbours: so many before each, and so many after it."""

    def stem(self, word: str) -> str:
        """The word without its English ending, so that `exported` and `exports` are one."""
