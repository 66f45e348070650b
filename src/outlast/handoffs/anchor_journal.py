"""What an anchor's journal says of it, proven entry by entry, and whether the rows beside it say the same.

The journal is the truth. The rows of anchors, handoffs and files are there to find things by, and `row_of` is the one
place that says what they are for a revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from outlast.clock import moment
from outlast.errors import IntegrityBroken
from outlast.handoffs.entries import UNREADABLE, Said, Settled, evidence_in, facts_of, said_in
from outlast.handoffs.handoff import Handoff
from outlast.ledger.journal import Row, check, decode_header, genesis_of_anchor
from outlast.store.contract import AnchorRow, LeaseRow, NewHandoff, Reading
from outlast.values.frozen import NamedTuple

PAGE = 100


class Told(NamedTuple):
    """One entry of an anchor's journal, read."""

    seq: int
    name: str
    at: int
    said: Said
    raw: msgspec.Raw

    @property
    def facts(self) -> dict[str, Any]:
        """What was written, as it was written."""
        found: dict[str, Any] = msgspec.json.decode(self.raw)
        return found


class Revision(NamedTuple):
    """A revision: its entry, and what it is found by."""

    seq: int
    row: NewHandoff


class Record(NamedTuple):
    """What a whole journal says."""

    revisions: tuple[Revision, ...]
    status: str
    outcome: str
    refs: tuple[tuple[int, str], ...]  # entries, and the blobs that they name

    @property
    def blobs(self) -> set[str]:
        return {name for _, name in self.refs}


def name_of(scope: str, anchor: str, revision: int = 0) -> str:
    """A handoff in short, as problems name it: `handoff task:x@2`."""
    name = f"handoff {anchor}@{revision}" if revision else f"handoff {anchor}"
    return name if scope == "default" else f"{name} in scope {scope}"


def chain_of(anchor: str) -> str:
    """What an anchor's journal is called where one of its entries is named: `entry handoff task:x/4`."""
    return f"handoff {anchor}"


def lease_of(look: Reading, anchor: AnchorRow) -> LeaseRow:
    """What guards the anchor's journal, and says where it ends. Raises IntegrityBroken."""
    lease = look.lease_of_anchor(anchor.id)
    if lease is None:
        raise IntegrityBroken(name_of(anchor.scope, anchor.anchor), "its lease row is missing")
    return lease


def told_in(anchor: str, row: Row) -> Told:
    """What one entry says. Raises IntegrityBroken, naming it, when no store wrote such a one."""
    try:
        header = decode_header(row.header)
        if header.kind != "handoff":
            raise ValueError(f"it is about a {header.kind}, not a handoff")
        moment(header.ended_at)  # what cannot be shown was never written
        facts = facts_of(row.payload)
        return Told(row.seq, header.name, header.ended_at, said_in(header.name, facts), facts)
    except UNREADABLE as error:
        raise IntegrityBroken(f"entry {chain_of(anchor)}/{row.seq}", f"it cannot be read: {error}") from error


def row_of(handoff: Handoff) -> NewHandoff:
    """What a revision, and its anchor from then on, is found by."""
    bound = handoff.binding
    named = {*handoff.target_files, *(bound.files if bound else ()), handoff.file_path or ""} - {""}
    return NewHandoff(
        id=handoff.id,
        revision=handoff.revision,
        supersedes=handoff.supersedes or "",
        branch=bound.branch if bound else "",
        root=bound.root if bound else "",
        symbol=handoff.symbol or "",
        score=handoff.lint.score,
        stored_at=handoff.stored_us,
        expires_at=handoff.expires_us,
        files=tuple(sorted(path.rstrip("/") for path in named)),
    )


def rows_of(look: Reading, anchor: AnchorRow) -> Iterator[Row]:
    """The journal of an anchor, a page at a time, all seen at one moment."""
    after = 0
    while page := look.journal_of(-anchor.key, after, PAGE):
        yield from page
        after = page[-1].seq


# -- reading a journal -------------------------------------------------------------------------------


def read(
    anchor_id: str,
    scope: str,
    anchor: str,
    rows: Iterable[Row],
    head: int,
    hash_: bytes,
    inspect: Callable[[Handoff], None] = lambda handoff: None,
) -> Record:
    """What the journal says. Raises IntegrityBroken, naming the first record that is not what was stored.

    `inspect` is shown each revision, and raises ValueError for one that nobody can have stored.
    """
    reader = _Reader(scope, anchor, inspect)
    start = genesis_of_anchor(anchor_id, scope, anchor)
    broken = check(chain_of(anchor), start, reader.proven(rows), head, hash_)
    if broken is not None:
        raise broken.as_error()
    if not reader.revisions:
        raise IntegrityBroken(name_of(scope, anchor), "it has no revision")
    return Record(tuple(reader.revisions), reader.status, reader.outcome, tuple(reader.refs))


class _Reader:
    """Takes in one entry after the other."""

    def __init__(self, scope: str, anchor: str, inspect: Callable[[Handoff], None]) -> None:
        self.scope, self.anchor, self.inspect = scope, anchor, inspect
        self.revisions: list[Revision] = []
        self.ids: set[str] = set()
        self.status, self.outcome = "open", ""
        self.refs: list[tuple[int, str]] = []

    def proven(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows. Each is taken in only once whoever checks the chain asks for the next one."""
        for row in rows:
            yield row
            self._take(row)

    def _take(self, row: Row) -> None:
        said = told_in(self.anchor, row).said
        if isinstance(said, Handoff):
            self._store(row.seq, said)
        elif isinstance(said, Settled):
            self.outcome = said.outcome
            self.status = "finished" if said.outcome == "completed" else "open"
        blobs = said.blobs if isinstance(said, Handoff) else {each.output for each in evidence_in(said)} - {""}
        self.refs += [(row.seq, name) for name in sorted(blobs)]

    def _store(self, seq: int, handoff: Handoff) -> None:
        following = len(self.revisions) + 1
        record = name_of(self.scope, self.anchor, following)
        if (handoff.scope, handoff.anchor) != (self.scope, self.anchor):
            raise IntegrityBroken(record, f"it was stored under {handoff.anchor!r} in scope {handoff.scope!r}")
        if handoff.revision != following or handoff.id in self.ids:
            raise IntegrityBroken(record, f"entry {seq} is revision {handoff.revision}, {handoff.id}, in its place")
        try:
            self.inspect(handoff)
        except UNREADABLE as error:
            raise IntegrityBroken(f"entry {chain_of(self.anchor)}/{seq}", f"it cannot be read: {error}") from error
        self.revisions.append(Revision(seq, row_of(handoff)))
        self.ids.add(handoff.id)
        self.status = "open"


# -- the rows beside it ------------------------------------------------------------------------------


def differences(look: Reading, anchor: AnchorRow, record: Record) -> Iterator[tuple[str, str]]:
    """Where the rows say something else than the journal: the record, and what is wrong with it."""
    yield from _revisions(look, anchor, record)
    newest = record.revisions[-1].row
    known = look.handoff_at(anchor.key, newest.revision)
    wanted = anchor._replace(
        status=record.status,
        outcome=record.outcome,
        revision=newest.revision,
        newest=known.key if known else anchor.newest,
        **{name: getattr(newest, name) for name in ("branch", "root", "symbol", "score", "stored_at", "expires_at")},
    )
    name = name_of(anchor.scope, anchor.anchor)
    for column, found, proven in zip(AnchorRow._fields, anchor, wanted, strict=True):
        if found != proven:
            yield name, f"its row says {column} {found!r}, its journal {proven!r}"
    if anchor.arrived > lease_of(look, anchor).head:
        yield name, f"its row says that entry {anchor.arrived} came by import, and there is no such entry"
    if look.files_of_anchor(anchor.key) != sorted(set(newest.files)):
        yield name, "the files that it is found by are not those of its newest revision"
    for _, blob in sorted(set(record.refs) ^ set(look.blob_refs_upto(-anchor.key, (1 << 63) - 1))):
        yield name, f"the reference that keeps blob {blob[:12]} for it is missing, or is none"


def _revisions(look: Reading, anchor: AnchorRow, record: Record) -> Iterator[tuple[str, str]]:
    listed = {row.revision: row for row in look.handoffs_of(anchor.key)}
    for seq, new in record.revisions:
        row, name = listed.pop(new.revision, None), name_of(anchor.scope, anchor.anchor, new.revision)
        if row is None:
            yield name, "its row is missing"
        elif (row.id, row.seq, row.supersedes) != (new.id, seq, new.supersedes):
            yield name, f"its row says {row.id}, entry {row.seq}; its journal {new.id}, entry {seq}"
    for revision in sorted(listed):
        yield name_of(anchor.scope, anchor.anchor, revision), "its entry is missing"
