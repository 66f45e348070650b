"""Handoffs that travel: an anchor with its whole history and every blob of it, as one file that proves itself.

An export is a copy: the work goes on wherever somebody claims it. An import adds what is new and never rewrites: a
history that parted from ours is refused. Everything is proven before anything is written; then the blobs are put, which
nobody sees, and one transaction writes the rest. A claim does not travel: nobody holds it there. And a file proves what
was written, not that it is true: what it brought is marked (`arrived`), and counts as what somebody says.

Proving that a file holds a whole handoff: its members, its chain, every revision, every reference.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import msgspec
from msgspec import Struct

from outlast.care.travel import archive
from outlast.care.travel.archive import BLOBS, Archive, Bundle, PackedAnchor, Packer, Ref
from outlast.errors import ArchiveInvalid, HandoffExists, HandoffInvalid, Invalid, NameInvalid
from outlast.handoffs import journal as handoff_records
from outlast.handoffs.anchor import find, lease_of
from outlast.handoffs.claim import claimed_error, holder_of
from outlast.handoffs.contract import contract_of
from outlast.handoffs.find import HandoffQuery, not_found
from outlast.handoffs.handoff import Contract, Handoff
from outlast.handoffs.journal import AnchorRecord
from outlast.home.place import check_name
from outlast.ledger.journal import Row, genesis_of_anchor
from outlast.store.contract import AnchorRow, LeaseRow, Reading, Writing
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home


JOURNAL, REFS = "journal.jsonl", "refs.jsonl"


class ArrivedHandoff(NamedTuple):
    """A handoff as it was found in the file, proven."""

    packed: PackedAnchor
    hash: bytes
    rows: list[Row]
    record: AnchorRecord
    refs: list[Ref]

    @property
    def blobs(self) -> list[str]:
        return sorted({name for _, name in self.refs})


def arrived(file: Archive[Bundle]) -> ArrivedHandoff:
    """The handoff in the file, all of it read and proven but the content of blobs. Raises ArchiveInvalid."""
    packed = file.manifest.handoff
    with file.reading(archive.MANIFEST):
        _refuse_odd(packed)
    file.refuse_missing((JOURNAL, REFS))
    rows = list(file.lines(JOURNAL, archive.row_of_line))
    refs = list(file.lines(REFS, msgspec.json.Decoder(Ref).decode))
    hash_ = bytes.fromhex(packed.hash)
    with file.reading(JOURNAL):
        about = (packed.id, packed.scope, packed.anchor)
        record = handoff_records.read(*about, rows, packed.head, hash_, _refuse_odd_revision)
    with file.reading(REFS):
        for seq, name in refs:
            archive.refuse_odd_ref(seq, name, packed.head, 1)
        for seq, name in sorted({*record.refs} - {*refs}):
            raise ValueError(f"blob {name[:64]!r}, which entry {seq} refers to, is not in it")
    one = ArrivedHandoff(packed, hash_, rows, record, refs)
    file.refuse_others((JOURNAL, REFS, *(BLOBS + name for name in one.blobs)))
    return one


def _refuse_odd(packed: PackedAnchor) -> None:
    """Raises ValueError for values that no store wrote."""
    try:
        check_name("scope", packed.scope)
        check_name("anchor", packed.anchor)
    except NameInvalid as error:
        raise ValueError(str(error)) from error
    if not _is_id(packed.id) or len(bytes.fromhex(packed.hash)) != 32:
        raise ValueError(f"{packed.id!r} cannot be the id of a handoff's anchor, or its chain does not end there")
    if not 0 <= packed.epoch < archive.LARGEST or not 0 < packed.head < archive.LARGEST:
        raise ValueError(f"{packed.epoch} or {packed.head} is no number that a store has")


def _refuse_odd_revision(handoff: Handoff) -> None:
    """Raises ValueError for a revision that no caller can have stored."""
    if not _is_id(handoff.id):
        raise ValueError(f"{handoff.id[:64]!r} cannot be the id of a handoff")
    archive.refuse_odd_numbers(handoff.stored_us, handoff.expires_us, handoff.lint.score)
    try:
        contract_of(**{name: getattr(handoff, name) for name in Contract.__struct_fields__})
        _ = handoff.stored_at, handoff.expires_at  # what cannot be shown was never stored
    except (HandoffInvalid, OverflowError) as error:
        raise ValueError(str(error)) from error
    bound = handoff.binding
    for path in (*bound.files, *bound.environment, *bound.musts, *bound.folders) if bound else ():
        if not path or "\0" in path or path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"its file {path[:200]!r} leads out of its root")


def _is_id(text: str) -> bool:
    return text.isascii() and text.replace("_", "").replace("-", "").isalnum() and len(text) <= 64


Change = Literal["added", "continued", "same", "older"]


class Bundled(Struct, frozen=True):
    """A file that holds a handoff."""

    path: str
    anchor: str
    scope: str
    handoff_id: str  # of the newest revision in it
    revision: int
    entries: int
    blobs: int
    bytes: int
    digest: str  # SHA-256 of the file


class BundleArrived(Struct, frozen=True):
    """A handoff that came in, as it stands here now."""

    anchor: str
    scope: str
    handoff_id: str
    revision: int
    status: str
    change: Change  # unknown here before; went on from ours; equal to ours; ours goes on from it
    added: int  # entries that were new here
    blobs: int
    replayed: bool  # there was nothing to do: all of it was here already


class AnchorSnapshot(NamedTuple):
    """An anchor at one moment, its journal read and proven."""

    anchor: AnchorRow
    lease: LeaseRow
    record: AnchorRecord
    refs: list[Ref]


# -- going -------------------------------------------------------------------------------------------


def export_handoff(
    caller: Caller, anchor: str, path: Path, *, scope: str | None = None, force: bool = False
) -> Bundled:
    """Write an anchor's whole history, and every blob that it refers to, into one file.

    Raises HandoffNotFound, IntegrityBroken when a record or a blob is not what was stored, Conflict when there is
    another file of that name.
    """
    asked = HandoffQuery(caller.scope_named(scope), check_name("anchor", anchor))
    one = caller.home.store.read(lambda look: _standing(look, asked))
    if one is None:
        raise not_found(caller.home, asked)
    target = archive.target(path, archive.file_name(anchor, one.anchor.id, "handoff"))
    archive.refuse_to_replace(target, force, lambda there: _is_ours(one, there))
    blobs, written = archive.write_whole(target, lambda file: _write_file(caller.home, file, one))
    newest = one.record.revisions[-1].row
    about = (anchor, asked.scope, newest.id, newest.revision, one.lease.head)
    return Bundled(str(target), *about, blobs, written.size, written.digest)


def _standing(look: Reading, asked: HandoffQuery) -> AnchorSnapshot | None:
    anchor = look.anchor_of(asked.scope, asked.anchor or "")
    if anchor is None:
        return None
    lease = lease_of(look, anchor)
    rows = handoff_records.rows_of(look, anchor)
    record = handoff_records.read(anchor.id, anchor.scope, anchor.anchor, rows, lease.head, lease.hash)
    kept = [(seq, name) for seq, name in look.blob_refs_upto(anchor.key, lease.head)]
    return AnchorSnapshot(anchor, lease, record, sorted({*record.refs, *kept}))


def _is_ours(one: AnchorSnapshot, target: Path) -> bool:
    """Whether the file is an earlier export of this handoff as it is now."""
    try:
        with archive.opened(target, archive.HANDOFF) as there:
            packed = there.manifest.handoff
            return (packed.id, packed.hash) == (one.anchor.id, one.lease.hash.hex())
    except ArchiveInvalid:
        return False


def _write_file(home: Home, file: BinaryIO, one: AnchorSnapshot) -> int:
    """All members; the journal up to the head never changes, so it is read page by page. How many blobs."""
    anchor, lease = one.anchor, one.lease
    blobs = sorted({name for _, name in one.refs})
    with Packer(file) as packer:
        rows = archive.pages(home, anchor.key, lease.head)
        packer.add(JOURNAL, map(archive.line_of_row, rows))
        packer.add(REFS, archive.lines(one.refs))
        for name in blobs:
            packer.add(BLOBS + name, home.blobs.pieces(name))
        packed = PackedAnchor(anchor.id, anchor.scope, anchor.anchor, lease.epoch, lease.head, lease.hash.hex())
        packer.seal(Bundle(archive.HANDOFF.name, packed, packer.listed()))
    return len(blobs)


# -- coming ------------------------------------------------------------------------------------------


def import_handoff(
    caller: Caller, path: Path, *, scope: str | None = None, claim_id: str | None = None
) -> BundleArrived:
    """Bring a handoff in, or what is new of it. It keeps its scope and its ids.

    Raises ArchiveInvalid when the file is not whole, Invalid when it is of another scope than the one asked for,
    HandoffExists when its anchor has another history here, HandoffClaimed when it would go on from ours while
    somebody works on it (`claim_id` shows that this is us, and the claim ends). Whatever is raised, nothing was added.
    """
    with archive.opened(path, archive.HANDOFF) as file:
        one = arrived(file)
        _refuse_other_scope(file, one.packed, scope)
        for name in one.blobs:
            deque(file.pieces(BLOBS + name), maxlen=0)
        # Once now, so that a conflict is found before a blob is put; and once more where it counts.
        caller.home.store.read(lambda look: _change(caller, look, one, claim_id))
        for name in one.blobs:
            caller.home.blobs.keep(name, file.pieces(BLOBS + name))
        change, here, added = caller.home.store.write(lambda tx: _write(caller, tx, one, claim_id))
    newest = caller.home.store.read(lambda look: look.handoff_at(here.key, here.revision))
    return BundleArrived(
        anchor=here.anchor,
        scope=here.scope,
        handoff_id=newest.id if newest else "",
        revision=here.revision,
        status=here.status,
        change=change,
        added=added,
        blobs=len(one.blobs),
        replayed=added == 0,
    )


def _refuse_other_scope(file: Archive[Bundle], packed: PackedAnchor, scope: str | None) -> None:
    """The scope is part of what the chain proves, so it cannot be another one."""
    if scope is not None and scope != packed.scope:
        raise Invalid(
            detail=f"{file.path} holds {packed.anchor!r} of scope {packed.scope!r}, and a handoff keeps its scope; "
            f"import it without naming one (--scope), or with {packed.scope!r}"
        )


# -- what is here ------------------------------------------------------------------------------------


def _change(caller: Caller, look: Reading, one: ArrivedHandoff, claim_id: str | None) -> Change:
    """How the file stands to what is here. Raises HandoffExists, HandoffClaimed."""
    here = look.anchor_of(one.packed.scope, one.packed.anchor)
    if here is None:
        _refuse_taken_ids(look, one)
        return "added"
    if here.id != one.packed.id:
        raise HandoffExists(here.anchor, "it was stored here first, and the file holds another one of that name")
    lease, head = lease_of(look, here), one.packed.head
    shared = min(lease.head, head)
    if look.hash_at(here.key, shared) != one.rows[shared - 1].hash:
        raise HandoffExists(here.anchor, f"it parted from the file's after {_parted(look, here, one, shared)}")
    if lease.head >= head:
        return "same" if lease.head == head else "older"
    _refuse_taken_ids(look, one)
    _refuse_claimed(caller, look, here, lease, claim_id)
    return "continued"


def _parted(look: Reading, here: AnchorRow, one: ArrivedHandoff, shared: int) -> str:
    """The last that both have in common. Chains that parted never meet again, so it is found by halves."""
    low, high = 0, shared  # equal up to low, parted at high
    while high - low > 1:
        middle = (low + high) // 2
        if look.hash_at(here.key, middle) == one.rows[middle - 1].hash:
            low = middle
        else:
            high = middle
    revision = sum(seq <= low for seq, _ in one.record.revisions)
    return f"entry {low}, revision {revision}"


def _refuse_taken_ids(look: Reading, one: ArrivedHandoff) -> None:
    """An id means one handoff in a store, whatever name a file gives it."""
    other = look.anchor_by_id(one.packed.id)
    if other is not None and (other.scope, other.anchor) != (one.packed.scope, one.packed.anchor):
        raise HandoffExists(one.packed.anchor, f"its id {other.id} is that of {other.anchor!r}")
    mine = other.key if other else 0
    for _, new in one.record.revisions:
        for row in look.handoffs_by_prefix(new.id):
            if row.id == new.id and row.anchor != mine:
                why = f"revision {new.revision} has the id of another handoff, {new.id}"
                raise HandoffExists(one.packed.anchor, why)


def _refuse_claimed(caller: Caller, look: Reading, here: AnchorRow, lease: LeaseRow, claim_id: str | None) -> None:
    """Nothing is put under the feet of somebody who works on it."""
    newest = look.handoff_at(here.key, here.revision)
    if lease.holder is None or newest is None:
        return
    holder = holder_of(caller, look, find(look, here, newest), claim_id=claim_id)
    if holder is not None and not holder.mine:
        raise claimed_error(here.anchor, holder)


# -- writing -----------------------------------------------------------------------------------------


def _write(caller: Caller, tx: Writing, one: ArrivedHandoff, claim_id: str | None) -> tuple[Change, AnchorRow, int]:
    """All of what is new becomes visible at once. No claim of before can commit to it: the epoch is a later one."""
    packed, change = one.packed, _change(caller, tx, one, claim_id)
    if change == "added":
        start = genesis_of_anchor(packed.id, packed.scope, packed.anchor)
        tx.add_anchor(packed.id, packed.scope, packed.anchor, start)
    here = tx.anchor_of(packed.scope, packed.anchor)
    assert here is not None
    lease = lease_of(tx, here)
    added = max(packed.head - lease.head, 0)
    if added:
        _fill(tx, here, lease, one)
        here = tx.anchor_by_key(here.key)
        assert here is not None
    return change, here, added


def _fill(tx: Writing, here: AnchorRow, lease: LeaseRow, one: ArrivedHandoff) -> None:
    epoch = max(lease.epoch, one.packed.epoch) + 1
    ends = lease._replace(epoch=epoch, head=one.packed.head, hash=one.hash)
    tx.fill_anchor(here.key, ends, one.rows[lease.head :], one.refs)
    for seq, new in one.record.revisions:
        if seq > lease.head:
            tx.add_handoff(here.key, seq, new)
    tx.settle_anchor(here.key, one.record.status, one.record.outcome)
    if lease.holder is not None:
        tx.forget_holder(lease.holder)
