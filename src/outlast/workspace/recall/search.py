"""Searching the index of a scope, and keeping it near the ledger: what everybody came to see since is taken in first.

What was replaced is taken out, so an index that grew gives what one built anew from the same ledger gives. Records,
artifacts and checkpoints are documents; the same row is the same document, always. An artifact is found by its name and
summary, and by its content if that is text: by the passages of its first four mebibytes. Of each name only the newest
version is recalled.

Whoever records takes in what waits, before it is much: the first recall after any number of records has little to do.
What comes to be seen in a scope has numbers that grow over all scopes and processes: as long as fewer were given than
may wait, nothing needs to be looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from outlast.clock import moment
from outlast.errors import IntegrityBroken, OutlastError, Unavailable
from outlast.store.contract import Reading
from outlast.store.contract.workspace import FAMILIES, ArtifactRow, CheckpointRow, RecallIndex, RecordRow
from outlast.store.sqlite.recall import index_path, with_index
from outlast.values.ambient import refuse_stopped
from outlast.values.codec import decode
from outlast.values.frozen import NamedTuple
from outlast.workspace import artifact as artifacts
from outlast.workspace.recall import index as indexed
from outlast.workspace.recall.index import SearchResult
from outlast.workspace.recall.words import AROUND, Document, Query, Span
from outlast.workspace.refs import RECORD

if TYPE_CHECKING:
    from outlast.home.home import Home


READ_BYTES = 4 << 20  # of the content of an artifact that is searched, from its beginning
HELD = 1 << 20  # characters; of a longer text only what is near the match is held
MORE = "there is more of it"
NO_TEXT, DAMAGED = "content is no text", "content is damaged"
TOO_LONG = f"only the first {READ_BYTES >> 20} MiB of its content are searched"
KINDS = ("observation", "decision", "evidence", "note", "artifact", "checkpoint")
_TEXTS = ("application/json", "application/yaml", "application/toml", "application/xml", "application/jsonl")

Row = RecordRow | ArtifactRow | CheckpointRow


class Doc(NamedTuple):
    """A document with its ref, and what of it the document does not say."""

    ref: str
    document: Document
    lacks: str = ""
    skips: int = 0  # characters before what is held of its text


def ref_of(row: Row) -> str:
    """The ref of what a row is of."""
    match row:
        case RecordRow():
            return f"{RECORD}{row.id}"
        case ArtifactRow():
            return artifacts.ref_of(row)
        case CheckpointRow():
            return f"checkpoint:{row.id}"


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
            return min(row.size, READ_BYTES)
        case CheckpointRow():
            return len(row.summary)


def document_of(home: Home, row: Row, near: Span | None = None) -> Doc:
    """A row as recall sees it; of a very long text only what is around `near`, if that is given."""
    match row:
        case RecordRow():
            return _of_record(row)
        case ArtifactRow():
            found = _of_artifact(home, row)
            return found if near is None else _around(found, near)
        case CheckpointRow():
            return _of_checkpoint(row)


def _of_record(row: RecordRow) -> Doc:
    source = decode(row.source)
    stream = source.get("origin") or row.run_id or row.task
    made = Document("record", row.key, row.kind, row.text, source.get("actor", ""), stream, moment(row.at))
    return Doc(ref_of(row), made)


def _of_checkpoint(row: CheckpointRow) -> Doc:
    text = f"{row.name}: {row.summary}" if row.summary else row.name
    made = Document("checkpoint", row.key, "checkpoint", text, row.actor, row.task, moment(row.at))
    return Doc(ref_of(row), made)


def _of_artifact(home: Home, row: ArtifactRow) -> Doc:
    content, lacks = _content(home, row)
    said = "\n".join(filter(None, [row.name, row.summary, " ".join(decode(row.tags)), content]))
    actor = decode(row.source).get("actor", "")
    made = Document("artifact", row.key, "artifact", said, actor, "", moment(row.stored_at))
    return Doc(ref_of(row), made, lacks)


def _around(doc: Doc, near: Span) -> Doc:
    """The same, holding no more of a long text than an excerpt may come from: many may match."""
    text = doc.document.text
    if len(text) <= HELD:
        return doc
    first = max(near.start - 2 * AROUND, 0)
    held = doc.document._replace(text=text[first : near.end + 2 * AROUND])
    return doc._replace(document=held, skips=first, lacks=doc.lacks or MORE)


def _content(home: Home, row: ArtifactRow) -> tuple[str, str]:
    """The text of an artifact, and why it is not all of it. What only calls itself text has a zero byte in it."""
    kind = row.media_type.partition(";")[0]
    if not (kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))):
        return "", NO_TEXT
    long = row.size > READ_BYTES
    try:
        content = artifacts.artifact_of(home, row).read(0, READ_BYTES if long else None)
    except (IntegrityBroken, Unavailable):
        return "", DAMAGED
    if b"\0" in content:
        return "", NO_TEXT
    text = content.decode("utf-8", "replace")
    return (text.rstrip("\ufffd"), TOO_LONG) if long else (text, "")  # a character may have been cut in two


TELLS = 5_000  # documents after which it is told how far the index is
CHUNK, CHUNK_BYTES = 500, 16 << 20  # documents taken into the index in one transaction, and about their size


def search(home: Home, scope: str, query: Query, kinds: Collection[str] | None, limit: int) -> SearchResult:
    """The documents of a scope that a goal asks for, of everything that everybody sees by now."""
    path = index_path(home.folder, scope)
    return with_index(path, lambda index: _search(home, index, scope, query, kinds, limit))


def _search(
    home: Home, index: RecallIndex, scope: str, query: Query, kinds: Collection[str] | None, limit: int
) -> SearchResult:
    take_in_all(home, index, scope)
    found = indexed.search(index, query, kinds, limit)
    if stale := home.store.read(lambda look: _stale(look, found)):  # left by two that took in at the same time
        index.remove("artifact", stale)
        found = indexed.search(index, query, kinds, limit)
    return found


def _stale(look: Reading, found: SearchResult) -> list[int]:
    keys = [match.key for match in found.matches if match.family == "artifact"]
    return [key for key in keys if row_of(look, "artifact", key) is None]


def take_in_all(home: Home, index: RecallIndex, scope: str) -> None:
    """Take in all that everybody came to see since. Where that is much, it tells how far it is."""
    taken = 0
    while chunk := _take_in(home, index, scope):
        taken += chunk
        if taken % TELLS == 0:
            home.tell(f"recall: the index of scope {scope!r} is made anew, {taken:,} taken in so far")
        refuse_stopped()


class _Chunk(NamedTuple):
    """Some of what everybody came to see, in that order."""

    upto: int  # the number of the last one; 0 when there was none
    size: int  # how many they are
    rows: list[Row]
    replaced: list[int]  # keys of artifacts that are not the newest of their name any more


def _take_in(home: Home, index: RecallIndex, scope: str) -> int:
    """Take in some of what everybody came to see since, and out what that replaces; how many they were.

    The mark of a family is a number in the order of that. Killed between two families, the next one begins at the
    smaller mark, and what is in the index already is skipped.
    """
    at = min(index.mark(family) for family in FAMILIES)
    chunk = home.store.read(lambda look: _chunk(look, scope, at))
    docs = [document_of(home, row).document for row in chunk.rows]
    if chunk.replaced:
        index.remove("artifact", chunk.replaced)
    for family in FAMILIES if chunk.upto else ():
        indexed.add(index, family, [one for one in docs if one.family == family], chunk.upto)
    return chunk.size


def _chunk(look: Reading, scope: str, at: int) -> _Chunk:
    upto, count, size, rows, replaced = 0, 0, 0, list[Row](), list[int]()
    for one in look.shown_of_scope(scope, at, CHUNK):
        upto, count = one.number, count + 1
        if one.noun == "artifact" and (before := version_before(look, one.row)) is not None:
            replaced.append(before)
        if one.noun in FAMILIES and (row := row_of(look, one.noun, one.row)) is not None:
            rows.append(row)
            size += size_of(row)
        if size >= CHUNK_BYTES:
            break
    return _Chunk(upto, count, rows, replaced)


WAITING = 500  # records and saves that wait at most for being taken in, but for those under way in other processes


def keep_up(home: Home, scope: str) -> None:
    """Take what waits into the index of a scope if that is much. What was recorded is durable, whatever this meets."""
    with suppress(OutlastError):
        given = home.store.read(lambda look: look.highest_shown())
        if given >= home.recall_due.get(scope, 0):
            home.recall_due[scope] = given + _room(home, scope)


def keep_up_all(home: Home) -> None:
    """The same for every scope that something was recorded in here."""
    for scope in list(home.recall_due):
        keep_up(home, scope)


def _room(home: Home, scope: str) -> int:
    """How many more may be recorded before this has to be looked at again."""
    path = index_path(home.folder, scope)
    if not path.exists() and (room := WAITING - _behind(home, scope, 0)) > 0:
        return room
    return with_index(path, lambda index: _kept_up(home, index, scope))


def _kept_up(home: Home, index: RecallIndex, scope: str) -> int:
    if not index.lasting:  # the folder cannot be written: a recall will do it in memory
        return WAITING
    if (room := WAITING - _behind(home, scope, min(index.mark(family) for family in FAMILIES))) > 0:
        return room
    take_in_all(home, index, scope)
    return WAITING


def _behind(home: Home, scope: str, mark: int) -> int:
    return len(home.store.read(lambda look: look.shown_of_scope(scope, mark, WAITING)))
