"""What recall finds: records, artifacts and checkpoints as documents. The same row is the same document, always.

An artifact is found by its name and summary, and by its content if that is text of no more than a mebibyte. Of each
name only the newest version is recalled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from outlast.clock import moment
from outlast.errors import IntegrityBroken, Unavailable
from outlast.store.contract import Reading
from outlast.store.contract.artifacts import ArtifactRow, CheckpointRow
from outlast.store.contract.records import RecordRow
from outlast.values.codec import decode
from outlast.workspace import artifacts
from outlast.workspace.recall.passages import Document
from outlast.workspace.record import PREFIX

if TYPE_CHECKING:
    from outlast.home.home import Runtime

READ_BYTES = 1 << 20
NO_TEXT, TOO_LONG, DAMAGED = "content is no text", "content is too long to be read", "content is damaged"
KINDS = ("observation", "decision", "evidence", "note", "artifact", "checkpoint")
_TEXTS = ("application/json", "application/yaml", "application/toml", "application/xml", "application/jsonl")

Row = RecordRow | ArtifactRow | CheckpointRow


class Doc(NamedTuple):
    """A document with its ref, and what of it the document does not say."""

    ref: str
    document: Document
    lacks: str = ""


def row_of(look: Reading, family: str, key: int) -> Row | None:
    """The row of a document; None if it is gone, not seen yet, or an artifact that has a newer version."""
    if family == "record":
        record = look.record_by_key(key)
        return record if record is not None and not record.pending else None
    if family == "checkpoint":
        return look.checkpoint_by_key(key)
    artifact = look.artifact_by_key(key)
    if artifact is None or artifact.pending:
        return None
    newest = look.artifact_versions(artifact.scope, artifact.name, 0, 1)
    return artifact if newest and newest[0].key == key else None


def version_before(look: Reading, key: int) -> int | None:
    """The key of the version of an artifact that one took the place of, also of what was removed since."""
    row = look.artifact_by_key(key) or look.removed_by_key(key)
    if row is None:
        return None
    seen = look.artifact_versions(row.scope, row.name, row.version, 1)
    removed = look.removed_before(row.scope, row.name, row.version)
    before = [(each.version, each.key) for each in (*seen, removed) if each is not None]
    return max(before)[1] if before else None


def size_of(row: Row) -> int:
    """About how many bytes its document has."""
    match row:
        case RecordRow():
            return len(row.text)
        case ArtifactRow():
            return row.size if row.size <= READ_BYTES else 0
        case CheckpointRow():
            return len(row.summary)


def document_of(runtime: Runtime, row: Row) -> Doc:
    """A row as recall sees it."""
    match row:
        case RecordRow():
            return _of_record(row)
        case ArtifactRow():
            return _of_artifact(runtime, row)
        case CheckpointRow():
            return _of_checkpoint(row)


def _of_record(row: RecordRow) -> Doc:
    source = decode(row.source)
    stream = source.get("origin") or row.run_id or row.task
    made = Document("record", row.key, row.kind, row.text, source.get("actor", ""), stream, moment(row.at))
    return Doc(f"{PREFIX}{row.id}", made)


def _of_checkpoint(row: CheckpointRow) -> Doc:
    text = f"{row.name}: {row.summary}" if row.summary else row.name
    made = Document("checkpoint", row.key, "checkpoint", text, row.actor, row.task, moment(row.at))
    return Doc(f"checkpoint:{row.id}", made)


def _of_artifact(runtime: Runtime, row: ArtifactRow) -> Doc:
    content, lacks = _content(runtime, row)
    said = "\n".join(filter(None, [row.name, row.summary, " ".join(decode(row.tags)), content]))
    actor = decode(row.source).get("actor", "")
    made = Document("artifact", row.key, "artifact", said, actor, "", moment(row.stored_at))
    return Doc(artifacts.ref_of(row), made, lacks)


def _content(runtime: Runtime, row: ArtifactRow) -> tuple[str, str]:
    """The text of an artifact, or why it has none here. What only calls itself text has a zero byte in it."""
    kind = row.media_type.partition(";")[0]
    if not (kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))):
        return "", NO_TEXT
    if row.size > READ_BYTES:
        return "", TOO_LONG
    try:
        content = artifacts.artifact_of(runtime, row).read()
    except (IntegrityBroken, Unavailable):
        return "", DAMAGED
    return ("", NO_TEXT) if b"\0" in content else (content.decode("utf-8", "replace"), "")
