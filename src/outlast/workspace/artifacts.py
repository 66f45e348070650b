"""Artifacts: save, get, list. Content lands first, durable; then the row that gives it a ref.

A version is numbered inside the transaction that adds it. The same content as the newest version is that version. How
saves belong to a run is runs/artifact_saves.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.clock import moment
from outlast.errors import ArtifactNotFound, ArtifactRemoved, RunRemoved, StoreFailed, ValueRefused
from outlast.home import once as operations
from outlast.home.once import Operation
from outlast.store.blobs.intake import Intake, Stored, Taken, take_in
from outlast.store.contract import Reading, Writing
from outlast.store.contract.artifacts import ArtifactRow, RemovedRow
from outlast.store.contract.pages import below
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple
from outlast.workspace.artifact import (
    PREFIX,
    SUMMARY_LENGTH,
    Artifact,
    Place,
    Source,
    check_artifact_name,
    check_tags,
    check_text,
    parse_ref,
    proof_of,
    version_of,
)
from outlast.workspace.content import Given, StoredContent, check_media_type, may_shrink, media_type_of, pieces_of

if TYPE_CHECKING:
    from outlast.home.home import Runtime

PAGE = 200


class Draft(NamedTuple):
    """What is said of content that is to be saved, checked."""

    scope: str
    name: str
    media_type: str
    summary: str
    tags: tuple[str, ...]
    source: Source


class Added(NamedTuple):
    """The row of what was saved, and whether it is new."""

    row: ArtifactRow
    is_new: bool


def draft(
    scope: str, name: Any, given: Given, media_type: Any, summary: Any, tags: Any, origin: Any, actor: str
) -> Draft:
    """What was given, checked before anything is written. Raises NameInvalid, ValueRefused."""
    checked = check_artifact_name(name)
    kind = media_type_of(checked, given) if media_type is None else check_media_type(media_type)
    told = check_text("source", "" if origin is None else origin, SUMMARY_LENGTH)
    source = Source(actor, origin=told)
    return Draft(scope, checked, kind, check_text("summary", summary, SUMMARY_LENGTH), check_tags(tags), source)


# -- saving ------------------------------------------------------------------------------------------


def save(runtime: Runtime, given: Draft, content: Given, operation_id: str | None) -> Artifact:
    """Save content outside of a run, durable when this returns."""
    taken = stage(runtime, given, content)
    asks = [*given[:5], given.source, taken.digest]
    operation = Operation(operation_id, "artifact_save", asks)

    def work(tx: Writing) -> tuple[Added, str]:
        added = add(runtime, tx, given, taken)
        return added, str(added.row.key)

    def again(answer: str) -> Added | str:
        return answer

    done: Added | str = operations.once(runtime, operation, work, again)
    if isinstance(done, Added):
        return artifact_of(runtime, done.row, replayed=not done.is_new)
    return _again(runtime, int(done))


def _again(runtime: Runtime, key: int) -> Artifact:
    """What the first of equal saves gave. Raises ArtifactRemoved if `gc` has removed it since."""
    row = runtime.store.read(lambda look: look.artifact_by_key(key))
    if row is not None:
        return artifact_of(runtime, row, replayed=True)
    stone = runtime.store.read(lambda look: look.removed_by_key(key))
    assert stone is not None  # nothing else removes one
    raise _removed(stone)


def stage(runtime: Runtime, given: Draft, content: Given) -> Taken:
    """Make the content durable. Nobody sees it yet; `gc` finds it should this process die now.

    Raises SecretFound for a secret in what is said of it; the content itself is the caller's own.
    """
    from outlast.secrets import find as secrets

    said = {"name": given.name, "summary": given.summary, "source": given.source.origin, "tags": given.tags}
    secrets.check(said, "", runtime.secret_rules)

    def known(digest: str) -> Stored | None:
        found = runtime.store.read(lambda look: look.artifact_of_digest(digest))
        return Stored(*found) if found else None

    pack = may_shrink(given.media_type)
    if isinstance(content, Intake):  # all of it has arrived
        return content.settle(known, pack=pack)
    return take_in(runtime.blobs, pieces_of(content), known, pack=pack)


def add(
    runtime: Runtime, tx: Writing, given: Draft, taken: Taken, pending: int = 0, own: Collection[int] = ()
) -> Added:
    """The version that has this content now: the newest one, if it has it already, else a new one.

    `pending` is the epoch of an attempt that is not over; `own` are the keys of what that attempt saved before.
    """
    if not runtime.blobs.has(taken.blob):
        why = (
            f"the content of {given.name!r} was swept while this process was stopped; nothing was saved, save it again"
        )
        raise StoreFailed(str(runtime.blobs.folder), why)
    before = _newest(tx, given.scope, given.name, own)
    if before is not None and before.digest == taken.digest:
        return Added(before, is_new=False)
    version = tx.next_version(given.scope, given.name, taken.digest)
    row = _row(given, taken, version, runtime.clock.now(), pending)
    if runtime.key_id:
        tx.note_stored(taken.blob, runtime.key_id, taken.size)
    return Added(row._replace(key=tx.add_artifact(row, given.tags)), is_new=True)


def _newest(look: Reading, scope: str, name: str, own: Collection[int] = ()) -> ArtifactRow | None:
    """The newest version that the asker sees: everybody's, or his own that is not everybody's yet."""
    mine = [row for key in own if (row := look.artifact_by_key(key)) and (row.scope, row.name) == (scope, name)]
    return max((*mine, *look.artifact_versions(scope, name, 0, 1)), key=lambda row: row.version, default=None)


def _row(given: Draft, taken: Taken, version: int, at: int, pending: int) -> ArtifactRow:
    row = ArtifactRow(
        key=0,
        scope=given.scope,
        name=given.name,
        version=version,
        digest=taken.digest,
        size=taken.size,
        media_type=given.media_type,
        summary=given.summary,
        tags=encode(given.tags).decode(),
        source=encode(given.source).decode(),
        run_id=given.source.run_id,
        stored_at=at,
        blob=taken.blob,
        codec=taken.codec,
        pending=pending,
        proof=b"",
        chunks=taken.chunks,
    )
    return row._replace(proof=proof_of_row(row))


def proof_of_row(row: ArtifactRow) -> bytes:
    """What proves that a row says what it said when it was added. Whether everybody sees it is no part of that."""
    return proof_of(*row[1:14], *([row.chunks] if row.chunks else []))


def taken_of(row: ArtifactRow) -> Taken:
    """How the content of a row is stored."""
    return Taken(row.digest, row.size, row.blob, row.codec, row.chunks)


# -- looking -----------------------------------------------------------------------------------------


def get(runtime: Runtime, scope: str, asked: str, own: Collection[int] = ()) -> Artifact:
    """An artifact by its ref; by its name, then the newest version; or by `name@2`. Raises ArtifactNotFound."""
    if not isinstance(asked, str):
        raise ValueRefused("ref", f"{type(asked).__qualname__} is no text", "give a ref or a name")
    row = runtime.store.read(lambda look: _found(look, scope, asked, own))
    if row is None or (row.pending and row.key not in own):
        raise runtime.store.read(lambda look: missing(look, scope, asked))
    return artifact_of(runtime, row)


def missing(look: Reading, scope: str, asked: str) -> ArtifactNotFound | ArtifactRemoved:
    """Why there is no such artifact: it was removed, or never there."""
    place = parse_ref(asked) or version_of(scope, asked)
    stone = look.removed_artifact(*place) if place else None
    return _removed(stone) if stone else ArtifactNotFound(asked, scope)


def _removed(stone: RemovedRow) -> ArtifactRemoved:
    ref = Place(stone.scope, stone.name, stone.version).ref
    return ArtifactRemoved(ref, stone.by, f"{moment(stone.removed_at):%Y-%m-%d}")


def _found(look: Reading, scope: str, asked: str, own: Collection[int]) -> ArtifactRow | None:
    if asked.startswith(PREFIX):
        place = parse_ref(asked)
        return look.artifact_at(*place) if place else None
    named = _newest(look, scope, asked, own)
    place = version_of(scope, asked) if named is None else None
    return look.artifact_at(*place) if place else named


def ref_of(row: ArtifactRow) -> str:
    return Place(row.scope, row.name, row.version).ref


def exists(look: Reading, ref: str) -> bool:
    """Whether a ref names an artifact that everybody sees."""
    place = parse_ref(ref)
    row = look.artifact_at(*place) if place else None
    return row is not None and not row.pending


def versions(runtime: Runtime, scope: str, name: str, limit: int) -> list[Artifact]:
    """The versions of a name, the newest first. Raises ArtifactNotFound when there is none."""
    rows = runtime.store.read(lambda look: look.artifact_versions(scope, check_artifact_name(name), 0, limit))
    if not rows:
        raise ArtifactNotFound(name, scope)
    return [artifact_of(runtime, row) for row in rows]


def listed(
    runtime: Runtime,
    scope: str,
    *,
    prefix: str = "",
    tag: str | None = None,
    run: str | None = None,
    limit: int = 50,
    before: str | None = None,
) -> list[Artifact]:
    """Artifacts, those saved last first: of each name the newest version; of a run, every version that it saved.

    Those older than the ref `before`. Raises ArtifactNotFound.
    """
    found: list[Artifact] = []
    run_id = _run_id(runtime, run) if run is not None else ""
    start = 0 if before is None else _key(runtime, scope, before)
    for row in _pages(runtime, _selected(scope, prefix, tag, run_id), start):
        if len(found) >= limit:
            break
        if row.scope == scope and row.name.startswith(prefix) and (tag is None or tag in decode(row.tags)):
            found.append(artifact_of(runtime, row))
    return found


Page = Callable[[Reading, int], list[ArtifactRow]]


def _selected(scope: str, prefix: str, tag: str | None, run_id: str) -> Page:
    """The narrowest of the lookups; the other conditions are looked at afterwards."""
    if run_id:
        return lambda look, before: look.artifacts_of_run(run_id, before, PAGE)
    if tag is not None:
        return lambda look, before: look.artifacts_of_tag(scope, tag, before, PAGE)
    if prefix:
        return lambda look, before: look.artifacts_of_prefix(scope, prefix, before, PAGE)
    return lambda look, before: look.artifacts_of_scope(scope, before, PAGE)


def _key(runtime: Runtime, scope: str, ref: str) -> int:
    """The place of an artifact in the lists of its scope, also of one that was removed. Raises ArtifactNotFound."""
    place = parse_ref(ref)
    if place is not None and place.scope != scope:
        raise ArtifactNotFound(ref, scope)
    row = runtime.store.read(
        lambda look: (look.artifact_at(*place) or look.removed_artifact(*place)) if place else None
    )
    if row is None:
        raise ArtifactNotFound(ref, scope)
    return row.key


def _pages(runtime: Runtime, page: Page, before: int = 0) -> Iterator[ArtifactRow]:

    def look_at(look: Reading) -> list[ArtifactRow]:
        return page(look, before)

    while rows := runtime.store.read(look_at):
        yield from rows
        before = below(rows[-1].key)


def _run_id(runtime: Runtime, run: str) -> str:
    """A run's id by a prefix of it; a removed run is known by its whole id: what it saved stays."""
    try:
        return runtime.row(run).id
    except RunRemoved:
        return run


def artifact_of(runtime: Runtime, row: ArtifactRow, *, replayed: bool = False) -> Artifact:
    """A row as a value that knows the way to its content."""
    place = Place(row.scope, row.name, row.version)
    made = Artifact(
        ref=place.ref,
        scope=row.scope,
        name=row.name,
        version=row.version,
        size=row.size,
        digest=row.digest,
        media_type=row.media_type,
        summary=row.summary,
        tags=tuple(decode(row.tags)),
        source=msgspec.convert(decode(row.source), Source),
        stored_at=moment(row.stored_at),
    )
    return (replace(made, replayed=True) if replayed else made).opened(
        StoredContent(runtime.blobs, taken_of(row), place.ref)
    )
