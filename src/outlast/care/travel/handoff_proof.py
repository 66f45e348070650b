"""Proving that a file holds a whole handoff: its members, its chain, every revision, every reference."""

from __future__ import annotations

from dataclasses import fields

import msgspec

from outlast.care.travel import archive
from outlast.care.travel.archive import BLOBS, Archive, Bundle, PackedAnchor, Ref
from outlast.errors import HandoffInvalid, NameInvalid
from outlast.handoffs import anchor_journal as handoff_records
from outlast.handoffs.anchor_journal import Record
from outlast.handoffs.contract import contract_of
from outlast.handoffs.handoff import Contract, Handoff
from outlast.home.place import check_name
from outlast.ledger.journal import Row
from outlast.values.frozen import NamedTuple

JOURNAL, REFS = "journal.jsonl", "refs.jsonl"
LARGEST = 1 << 62


class Arrived(NamedTuple):
    """A handoff as it was found in the file, proven."""

    packed: PackedAnchor
    hash: bytes
    rows: list[Row]
    record: Record
    refs: list[Ref]

    @property
    def blobs(self) -> list[str]:
        return sorted({name for _, name in self.refs})


def arrived(file: Archive[Bundle]) -> Arrived:
    """The handoff in the file, all of it read and proven but the content of blobs. Raises ArchiveInvalid."""
    packed = file.manifest.handoff
    with file.reading(archive.MANIFEST):
        _refuse_odd(packed)
    for name in (JOURNAL, REFS):
        if name not in file.names:
            raise file.invalid(name, "it is missing")
    rows = list(file.lines(JOURNAL, archive.row_of_line))
    refs = list(file.lines(REFS, msgspec.json.Decoder(Ref).decode))
    hash_ = bytes.fromhex(packed.hash)
    with file.reading(JOURNAL):
        about = (packed.id, packed.scope, packed.anchor)
        record = handoff_records.read(*about, rows, packed.head, hash_, _refuse_odd_revision)
    with file.reading(REFS):
        _refuse_odd_refs(packed, record, refs)
    one = Arrived(packed, hash_, rows, record, refs)
    for name in sorted(file.names ^ {JOURNAL, REFS, *(BLOBS + name for name in one.blobs)}):
        raise file.invalid(name, "nothing in it refers to it" if name in file.names else "it is missing")
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
    if not 0 <= packed.epoch < LARGEST or not 0 < packed.head < LARGEST:
        raise ValueError(f"{packed.epoch} or {packed.head} is no number that a store has")


def _refuse_odd_revision(handoff: Handoff) -> None:
    """Raises ValueError for a revision that no caller can have stored."""
    if not _is_id(handoff.id):
        raise ValueError(f"{handoff.id[:64]!r} cannot be the id of a handoff")
    for number in (handoff.stored_us, handoff.expires_us, handoff.lint.score):
        if not 0 <= number < LARGEST:
            raise ValueError(f"{number} is no number that a store has")
    try:
        contract_of(**{each.name: getattr(handoff, each.name) for each in fields(Contract)})
        _ = handoff.stored_at, handoff.expires_at  # what cannot be shown was never stored
    except (HandoffInvalid, OverflowError) as error:
        raise ValueError(str(error)) from error
    bound = handoff.binding
    for path in (*bound.files, *bound.environment, *bound.folders) if bound else ():
        if not path or "\0" in path or path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"its file {path[:200]!r} leads out of its root")


def _refuse_odd_refs(packed: PackedAnchor, record: Record, refs: list[Ref]) -> None:
    for seq, name in refs:
        if not 0 < seq <= packed.head or len(bytes.fromhex(name)) != 32 or name != name.lower():
            raise ValueError(f"{name!r} of entry {seq} is no reference to a blob")
    for seq, name in sorted({*record.refs} - {*refs}):
        raise ValueError(f"blob {name[:64]!r}, which entry {seq} refers to, is not in it")


def _is_id(text: str) -> bool:
    return text.isascii() and text.replace("_", "").replace("-", "").isalnum() and len(text) <= 64
