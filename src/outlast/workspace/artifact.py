"""Artifacts: content with a ref, and what is known about it; saved, got by ref or name, and listed.

A ref is `artifact:<scope>/<name>@<version>`. The last `@` splits off the version; the first `/` ends the scope, in
which `/` and `%` are written `%2F` and `%25`. A name is only a name, never a path, and never ends as a version does: so
`name@2` means one thing only.

To save one, the content lands first, durable; then the row that gives it a ref. A version is numbered inside the
transaction that adds it. The same content as the newest version is that version. How saves belong to a run is
runs/outputs/saves.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from outlast.clock import moment
from outlast.errors import ArtifactNotFound, ArtifactRemoved, NameInvalid, Refused, StoreFailed, ValueRefused
from outlast.home.caller import Repeatable, check_id, once
from outlast.secrets import find as secrets
from outlast.store.blobs.content import take_in
from outlast.store.contract import Reading, Writing
from outlast.store.contract.blobs import Intake, Stored, TakenContent
from outlast.store.contract.workspace import ArtifactRow, RemovedRow
from outlast.store.disk import write_whole
from outlast.values.codec import decode, value_of
from outlast.values.frozen import Compared, NamedTuple
from outlast.values.late import late
from outlast.workspace.content import Given, StoredContent, check_media_type, may_shrink, media_type_of, pieces_of
from outlast.workspace.refs import (
    PREFIX,
    SUMMARY_LENGTH,
    ArtifactPlace,
    ArtifactSource,
    check_tags,
    check_text,
    new_row,
    newest_first,
    parse_ref,
    proof_of,
    run_id_of,
    version_of,
)

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.workspace.recall import search
else:
    search = late("outlast.workspace.recall.search")

NAME_LENGTH = 500
OPERATION = "artifact_save"
_VERSIONED = re.compile(r"@[0-9]+\Z")


class ArtifactContent(Protocol):
    """Where an artifact's content is read from."""

    def pieces(self) -> Iterator[bytes]: ...
    def between(self, start: int, end: int) -> Iterator[bytes]: ...
    def open(self) -> BufferedReader: ...


class Artifact(Compared, frozen=True, dict=True):
    """Saved content: what is known of it, and the way to it. It is checked whenever it is read."""

    ref: str
    scope: str
    name: str
    version: int
    size: int
    digest: str  # SHA-256 of the content
    media_type: str
    summary: str
    tags: tuple[str, ...]
    source: ArtifactSource
    stored_at: datetime
    replayed: bool = False  # nothing was written: it was there

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """The content, or a part of it: from one byte up to another, as a slice would have it.

        Of large content only the chunks that have a part of it are read. Raises IntegrityBroken when they are not what
        was saved, ValueRefused.
        """
        if start == 0 and end is None:
            return b"".join(self._reach().pieces())
        return b"".join(self.between(start, end))

    def between(self, start: int, end: int | None = None) -> Iterator[bytes]:
        """The same piece by piece, every byte proven before it is given."""
        last = self.size if end is None else min(end, self.size)
        if start < 0 or last < 0:
            raise ValueRefused("start", f"{start} to {end} is no part of it", "count bytes from its beginning")
        return self._reach().between(start, last)

    def text(self, encoding: str = "utf-8") -> str:
        """The content as text. Raises ValueRefused when it is none, IntegrityBroken."""
        try:
            return self.read().decode(encoding)
        except (UnicodeDecodeError, LookupError) as error:
            why = f"it is no {encoding} text: {error}"
            raise ValueRefused(self.ref, why, "use read(), or its own encoding") from error

    def open(self) -> BufferedReader:
        """The content as a stream, for what need not fit in memory. IntegrityBroken comes at its end at the latest."""
        return self._reach().open()

    def save_to(self, path: str | os.PathLike[str]) -> Path:
        """Write the content to a file: all of it, checked and durable, or nothing. A file that is there gives way."""
        return write_whole(Path(path), self._reach().pieces())

    def opened(self, content: ArtifactContent) -> Artifact:
        """The same, with the way to its content."""
        self.__dict__["_content"] = content
        return self

    def _reach(self) -> ArtifactContent:
        content: ArtifactContent | None = self.__dict__.get("_content")
        if content is None:
            why = f"this is a copy of {self.ref} without its content"
            raise Refused(detail=f"{why}; get it by its ref from the workspace")
        return content


def check_artifact_name(name: Any) -> str:
    """A name: any printable text up to 500 characters, without blanks at its ends."""
    if not isinstance(name, str) or not name:
        raise NameInvalid("artifact", str(name), "it is no text, or empty")
    if len(name) > NAME_LENGTH:
        raise NameInvalid("artifact", name, f"it has {len(name)} characters; the limit is {NAME_LENGTH}")
    if not name.isprintable():
        raise NameInvalid("artifact", name, "it has characters that cannot be printed")
    if name != name.strip():
        raise NameInvalid("artifact", name, "it begins or ends with a blank")
    if name.startswith(PREFIX):
        raise NameInvalid("artifact", name, f"only refs begin with {PREFIX!r}")
    if _VERSIONED.search(name):
        raise NameInvalid("artifact", name, "@ and a number at its end name a version; choose another ending")
    return name


# -- rows --------------------------------------------------------------------------------------------


def proof_of_row(row: ArtifactRow) -> bytes:
    """What proves that a row says what it said when it was added. Whether everybody sees it is no part of that."""
    return proof_of(*row[1:14], *([row.chunks] if row.chunks else []))


def taken_of(row: ArtifactRow) -> TakenContent:
    """How the content of a row is stored."""
    return TakenContent(row.digest, row.size, row.blob, row.codec, row.chunks)


def newest(look: Reading, scope: str, name: str, own: Collection[int] = ()) -> ArtifactRow | None:
    """The newest version that the asker sees: everybody's, or his own that is not everybody's yet."""
    mine = [row for key in own if (row := look.artifact_by_key(key)) and (row.scope, row.name) == (scope, name)]
    return max((*mine, *look.artifact_versions(scope, name, 0, 1)), key=lambda row: row.version, default=None)


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
    return removed(stone) if stone else ArtifactNotFound(asked, scope)


def removed(stone: RemovedRow) -> ArtifactRemoved:
    ref = ArtifactPlace(stone.scope, stone.name, stone.version).ref
    return ArtifactRemoved(ref, stone.by, f"{moment(stone.removed_at):%Y-%m-%d}")


def _found(look: Reading, scope: str, asked: str, own: Collection[int]) -> ArtifactRow | None:
    if asked.startswith(PREFIX):
        place = parse_ref(asked)
        return look.artifact_at(*place) if place else None
    named = newest(look, scope, asked, own)
    place = version_of(scope, asked) if named is None else None
    return look.artifact_at(*place) if place else named


def ref_of(row: ArtifactRow) -> str:
    return ArtifactPlace(row.scope, row.name, row.version).ref


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
    run_id = run_id_of(home, run) if run is not None else ""
    start = 0 if before is None else _key(home, scope, before)

    def fits(row: ArtifactRow) -> bool:
        return row.scope == scope and row.name.startswith(prefix) and (tag is None or tag in decode(row.tags))

    rows = newest_first(home, _selected(scope, prefix, tag, run_id), start)
    return [artifact_of(home, row) for row in islice(filter(fits, rows), limit)]


Page = Callable[[Reading, int, int], list[ArtifactRow]]


def _selected(scope: str, prefix: str, tag: str | None, run_id: str) -> Page:
    """The narrowest of the lookups; the other conditions are looked at afterwards."""
    if run_id:
        return lambda look, before, most: look.artifacts_of_run(run_id, before, most)
    if tag is not None:
        return lambda look, before, most: look.artifacts_of_tag(scope, tag, before, most)
    if prefix:
        return lambda look, before, most: look.artifacts_of_prefix(scope, prefix, before, most)
    return lambda look, before, most: look.artifacts_of_scope(scope, before, most)


def _key(home: Home, scope: str, ref: str) -> int:
    """The place of an artifact in the lists of its scope, also of one that was removed. Raises ArtifactNotFound."""
    place = parse_ref(ref)
    if place is not None and place.scope != scope:
        raise ArtifactNotFound(ref, scope)
    row = home.store.read(lambda look: (look.artifact_at(*place) or look.removed_artifact(*place)) if place else None)
    if row is None:
        raise ArtifactNotFound(ref, scope)
    return row.key


def artifact_of(home: Home, row: ArtifactRow, *, replayed: bool = False) -> Artifact:
    """A row as a value that knows the way to its content."""
    place = ArtifactPlace(row.scope, row.name, row.version)
    made = value_of(Artifact, row, ref=place.ref, replayed=replayed)
    return made.opened(StoredContent(home.blobs, taken_of(row), place.ref))


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

    def work(tx: Writing) -> tuple[AddedArtifact | str, str]:
        added = add(caller, tx, given, taken)
        return added, str(added.row.key)

    done = once(caller.home, operation, work, lambda answer: answer)
    search.keep_up(caller.home, given.scope)
    if isinstance(done, AddedArtifact):
        return artifact_of(caller.home, done.row, replayed=not done.is_new)
    return artifact_of(caller.home, caller.home.store.read(lambda look: row_again(look, int(done))), replayed=True)


def operation_of(given: ArtifactDraft, taken: TakenContent, operation_id: str | None) -> Repeatable:
    """The save of this content as it was asked for, whoever carries it out. Raises NameInvalid."""
    check_id(operation_id)
    return Repeatable(operation_id, OPERATION, [*given[:5], given.source, taken.digest])


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
        why = f"the content of {given.name!r} was swept while this process was stopped"
        raise StoreFailed(caller.home.blobs.place, f"{why}; nothing was saved, save it again")
    before = newest(tx, given.scope, given.name, own)
    if before is not None and before.digest == taken.digest:
        return AddedArtifact(before, is_new=False)
    version = tx.next_version(given.scope, given.name, taken.digest)
    told = {"run_id": given.source.run_id, "stored_at": caller.home.clock.now(), "pending": pending}
    row = new_row(ArtifactRow, given, taken, version=version, **told)
    row = row._replace(proof=proof_of_row(row))
    if caller.key_id:
        tx.note_stored(taken.blob, caller.key_id, taken.size)
    return AddedArtifact(row._replace(key=tx.add_artifact(row, given.tags)), is_new=True)
