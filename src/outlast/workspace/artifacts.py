"""Artifacts: save, get, list. Content lands first, durable; then the row that gives it a ref.

A version is numbered inside the transaction that adds it. The same content as the newest version is that version. How
saves belong to a run is runs/saves.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.clock import moment
from outlast.errors import ArtifactNotFound, ArtifactRemoved, RunRemoved, StoreFailed, ValueRefused
from outlast.home import once as operations
from outlast.home.find import run_row
from outlast.home.once import Operation
from outlast.secrets import find as secrets
from outlast.store.blobs.content import take_in
from outlast.store.contract import Reading, Writing, below, every_row
from outlast.store.contract.blobs import Intake, Stored, TakenContent
from outlast.store.contract.workspace import ArtifactRow, RemovedRow
from outlast.values.codec import decode, encode
from outlast.values.frozen import NamedTuple
from outlast.workspace.artifact import (
    PREFIX,
    SUMMARY_LENGTH,
    Artifact,
    ArtifactPlace,
    ArtifactSource,
    check_artifact_name,
    check_tags,
    check_text,
    parse_ref,
    proof_of,
    version_of,
)
from outlast.workspace.content import Given, StoredContent, check_media_type, may_shrink, media_type_of, pieces_of

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home

PAGE = 200
OPERATION = "artifact_save"


class ArtifactDraft(NamedTuple):
    """What is said of content that is to be saved, checked."""

    scope: str
    name: str
    media_type: str
    summary: str
    tags: tuple[str, ...]
    source: ArtifactSource


class AddedArtifact(NamedTuple):
    """The row of what was saved, and whether it is new."""

    row: ArtifactRow
    is_new: bool


def draft(
    scope: str, name: Any, given: Given, media_type: Any, summary: Any, tags: Any, origin: Any, actor: str
) -> ArtifactDraft:
    """What was given, checked before anything is written. Raises NameInvalid, ValueRefused."""
    checked = check_artifact_name(name)
    kind = media_type_of(checked, given) if media_type is None else check_media_type(media_type)
    told = check_text("source", "" if origin is None else origin, SUMMARY_LENGTH)
    source = ArtifactSource(actor, origin=told)
    return ArtifactDraft(scope, checked, kind, check_text("summary", summary, SUMMARY_LENGTH), check_tags(tags), source)


# -- saving ------------------------------------------------------------------------------------------


def save(caller: Caller, given: ArtifactDraft, content: Given, operation_id: str | None) -> Artifact:
    """Save content outside of a run, durable when this returns."""
    taken = stage(caller.home, given, content)
    operation = operation_of(given, taken, operation_id)

    def work(tx: Writing) -> tuple[AddedArtifact, str]:
        added = add(caller, tx, given, taken)
        return added, str(added.row.key)

    def again(answer: str) -> AddedArtifact | str:
        return answer

    done: AddedArtifact | str = operations.once(caller.home, operation, work, again)
    _keep_up(caller.home, given.scope)
    if isinstance(done, AddedArtifact):
        return artifact_of(caller.home, done.row, replayed=not done.is_new)
    return _again(caller.home, int(done))


def operation_of(given: ArtifactDraft, taken: TakenContent, operation_id: str | None) -> Operation:
    """The save of this content as it was asked for, whoever carries it out. Raises NameInvalid."""
    operations.check_id(operation_id)
    return Operation(operation_id, OPERATION, [*given[:5], given.source, taken.digest])


def _keep_up(home: Home, scope: str) -> None:
    from outlast.workspace.recall.search import keep_up

    keep_up(home, scope)


def _again(home: Home, key: int) -> Artifact:
    """What the first of equal saves gave. Raises ArtifactRemoved if `gc` has removed it since."""
    return artifact_of(home, home.store.read(lambda look: row_again(look, key)), replayed=True)


def row_again(look: Reading, key: int) -> ArtifactRow:
    """The row that the first of equal saves added. Raises ArtifactRemoved if `gc` has removed it since."""
    row = look.artifact_by_key(key)
    if row is not None:
        return row
    stone = look.removed_by_key(key)
    assert stone is not None  # nothing else removes one
    raise _removed(stone)


def stage(home: Home, given: ArtifactDraft, content: Given) -> TakenContent:
    """Make the content durable. Nobody sees it yet; `gc` finds it should this process die now.

    Raises SecretFound for a secret in what is said of it; the content itself is the caller's own.
    """
    said = {"name": given.name, "summary": given.summary, "source": given.source.origin, "tags": given.tags}
    secrets.check(said, "", home.secrets.rules)

    def known(digest: str) -> Stored | None:
        found = home.store.read(lambda look: look.artifact_of_digest(digest))
        return Stored(*found) if found else None

    pack = may_shrink(given.media_type)
    if isinstance(content, Intake):  # all of it has arrived
        return content.settle(known, pack=pack)
    return take_in(home.blobs, pieces_of(content), known, pack=pack)


def add(
    caller: Caller, tx: Writing, given: ArtifactDraft, taken: TakenContent, pending: int = 0, own: Collection[int] = ()
) -> AddedArtifact:
    """The version that has this content now: the newest one, if it has it already, else a new one.

    `pending` is the epoch of an attempt that is not over; `own` are the keys of what that attempt saved before.
    """
    if not caller.home.blobs.has(taken.blob):
        why = (
            f"the content of {given.name!r} was swept while this process was stopped; nothing was saved, save it again"
        )
        raise StoreFailed(caller.home.blobs.place, why)
    before = _newest(tx, given.scope, given.name, own)
    if before is not None and before.digest == taken.digest:
        return AddedArtifact(before, is_new=False)
    version = tx.next_version(given.scope, given.name, taken.digest)
    row = _row(given, taken, version, caller.home.clock.now(), pending)
    if caller.key_id:
        tx.note_stored(taken.blob, caller.key_id, taken.size)
    return AddedArtifact(row._replace(key=tx.add_artifact(row, given.tags)), is_new=True)


def _newest(look: Reading, scope: str, name: str, own: Collection[int] = ()) -> ArtifactRow | None:
    """The newest version that the asker sees: everybody's, or his own that is not everybody's yet."""
    mine = [row for key in own if (row := look.artifact_by_key(key)) and (row.scope, row.name) == (scope, name)]
    return max((*mine, *look.artifact_versions(scope, name, 0, 1)), key=lambda row: row.version, default=None)


def _row(given: ArtifactDraft, taken: TakenContent, version: int, at: int, pending: int) -> ArtifactRow:
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


def taken_of(row: ArtifactRow) -> TakenContent:
    """How the content of a row is stored."""
    return TakenContent(row.digest, row.size, row.blob, row.codec, row.chunks)


# -- looking -----------------------------------------------------------------------------------------


def get(home: Home, scope: str, asked: str, own: Collection[int] = ()) -> Artifact:
    """An artifact by its ref; by its name, then the newest version; or by `name@2`. Raises ArtifactNotFound."""
    if not isinstance(asked, str):
        raise ValueRefused("ref", f"{type(asked).__qualname__} is no text", "give a ref or a name")
    row = home.store.read(lambda look: _found(look, scope, asked, own))
    if row is None or (row.pending and row.key not in own):
        raise home.store.read(lambda look: missing(look, scope, asked))
    return artifact_of(home, row)


def missing(look: Reading, scope: str, asked: str) -> ArtifactNotFound | ArtifactRemoved:
    """Why there is no such artifact: it was removed, or never there."""
    place = parse_ref(asked) or version_of(scope, asked)
    stone = look.removed_artifact(*place) if place else None
    return _removed(stone) if stone else ArtifactNotFound(asked, scope)


def _removed(stone: RemovedRow) -> ArtifactRemoved:
    ref = ArtifactPlace(stone.scope, stone.name, stone.version).ref
    return ArtifactRemoved(ref, stone.by, f"{moment(stone.removed_at):%Y-%m-%d}")


def _found(look: Reading, scope: str, asked: str, own: Collection[int]) -> ArtifactRow | None:
    if asked.startswith(PREFIX):
        place = parse_ref(asked)
        return look.artifact_at(*place) if place else None
    named = _newest(look, scope, asked, own)
    place = version_of(scope, asked) if named is None else None
    return look.artifact_at(*place) if place else named


def ref_of(row: ArtifactRow) -> str:
    return ArtifactPlace(row.scope, row.name, row.version).ref


def exists(look: Reading, ref: str) -> bool:
    """Whether a ref names an artifact that everybody sees."""
    place = parse_ref(ref)
    row = look.artifact_at(*place) if place else None
    return row is not None and not row.pending


def versions(home: Home, scope: str, name: str, limit: int) -> list[Artifact]:
    """The versions of a name, the newest first. Raises ArtifactNotFound when there is none."""
    rows = home.store.read(lambda look: look.artifact_versions(scope, check_artifact_name(name), 0, limit))
    if not rows:
        raise ArtifactNotFound(name, scope)
    return [artifact_of(home, row) for row in rows]


def listed(
    home: Home,
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
    run_id = _run_id(home, run) if run is not None else ""
    start = 0 if before is None else _key(home, scope, before)
    for row in _pages(home, _selected(scope, prefix, tag, run_id), start):
        if len(found) >= limit:
            break
        if row.scope == scope and row.name.startswith(prefix) and (tag is None or tag in decode(row.tags)):
            found.append(artifact_of(home, row))
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


def _key(home: Home, scope: str, ref: str) -> int:
    """The place of an artifact in the lists of its scope, also of one that was removed. Raises ArtifactNotFound."""
    place = parse_ref(ref)
    if place is not None and place.scope != scope:
        raise ArtifactNotFound(ref, scope)
    row = home.store.read(lambda look: (look.artifact_at(*place) or look.removed_artifact(*place)) if place else None)
    if row is None:
        raise ArtifactNotFound(ref, scope)
    return row.key


def _pages(home: Home, page: Page, before: int = 0) -> Iterator[ArtifactRow]:
    read = home.store.read
    return every_row(lambda last: read(lambda look: page(look, last)), lambda row: below(row.key), before)


def _run_id(home: Home, run: str) -> str:
    """A run's id by a prefix of it; a removed run is known by its whole id: what it saved stays."""
    try:
        return run_row(home, run).id
    except RunRemoved:
        return run


def artifact_of(home: Home, row: ArtifactRow, *, replayed: bool = False) -> Artifact:
    """A row as a value that knows the way to its content."""
    place = ArtifactPlace(row.scope, row.name, row.version)
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
        source=msgspec.convert(decode(row.source), ArtifactSource),
        stored_at=moment(row.stored_at),
    )
    return (replace(made, replayed=True) if replayed else made).opened(
        StoredContent(home.blobs, taken_of(row), place.ref)
    )
