"""Saving content as an artifact: the content lands first, durable; then the row that gives it a ref.

A version is numbered inside the transaction that adds it. The same content as the newest version is that version. How
saves belong to a run is runs/outputs/saves.py.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from outlast.errors import StoreFailed
from outlast.home import caller as operations
from outlast.home.caller import Repeatable
from outlast.secrets import find as secrets
from outlast.store.blobs.content import take_in
from outlast.store.contract import Reading, Writing
from outlast.store.contract.blobs import Intake, Stored, TakenContent
from outlast.store.contract.workspace import ArtifactRow
from outlast.values.codec import encode
from outlast.values.frozen import NamedTuple
from outlast.values.late import late
from outlast.workspace.artifact import Artifact, artifact_of, check_artifact_name, newest, proof_of_row, removed
from outlast.workspace.content import Given, check_media_type, may_shrink, media_type_of, pieces_of
from outlast.workspace.entry import SUMMARY_LENGTH, ArtifactSource, check_tags, check_text

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.workspace.recall import search
else:
    search = late("outlast.workspace.recall.search")

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

    done: AddedArtifact | str = operations.once(caller.home, operation, work, _as_answered)
    search.keep_up(caller.home, given.scope)
    if isinstance(done, AddedArtifact):
        return artifact_of(caller.home, done.row, replayed=not done.is_new)
    return _again(caller.home, int(done))


def operation_of(given: ArtifactDraft, taken: TakenContent, operation_id: str | None) -> Repeatable:
    """The save of this content as it was asked for, whoever carries it out. Raises NameInvalid."""
    operations.check_id(operation_id)
    return Repeatable(operation_id, OPERATION, [*given[:5], given.source, taken.digest])


def _as_answered(answer: str) -> AddedArtifact | str:
    return answer


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
    raise removed(stone)


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
    before = newest(tx, given.scope, given.name, own)
    if before is not None and before.digest == taken.digest:
        return AddedArtifact(before, is_new=False)
    version = tx.next_version(given.scope, given.name, taken.digest)
    row = _row(given, taken, version, caller.home.clock.now(), pending)
    if caller.key_id:
        tx.note_stored(taken.blob, caller.key_id, taken.size)
    return AddedArtifact(row._replace(key=tx.add_artifact(row, given.tags)), is_new=True)


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
