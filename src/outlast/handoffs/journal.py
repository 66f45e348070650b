"""What an anchor's journal says of it, proven entry by entry.

The journal is the truth. The rows of anchors, handoffs and files are there to find things by, and `row_of` is the one
place that says what they are for a revision; `verify` compares them.

The entries of an anchor's journal: what each kind of them says.

Whatever reads one reads it by these, so an entry that is not of this shape is found where it comes in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from outlast.clock import moment
from outlast.errors import IntegrityBroken
from outlast.files.snapshot import Bound
from outlast.handoffs.handoff import Ending, Evidence, Handoff, decode_handoff
from outlast.ledger.journal import Row, chain_of, check, decode_header, facts_of, genesis_of_anchor
from outlast.store.contract import AnchorRow, NewHandoff, Reading, every_row
from outlast.values.frozen import NamedTuple

Files = dict[str, Bound]
PAGE = 100


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What every entry about a revision says."""

    by: str
    host: str = ""  # from which it was done
    door: str = ""  # and by which: python, cli, http, mcp, hook


class Claimed(Noted, frozen=True, kw_only=True):
    """Somebody took the claim."""

    claim: str  # in short, not the word itself
    handoff: str = ""
    revision: int = 0
    taken_from: str = ""
    why: str = ""
    files: Files | None = None  # as they were then; None: they were not there


class Attached(Noted, frozen=True, kw_only=True):
    """On what verdict the claim was given."""

    claim: str
    verdict: str
    reasons: tuple[str, ...]  # codes
    files: Files | None = None  # as they were then, for a claim that was held already: its work on this one begins


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """A reason that contested."""

    code: str
    subject: str
    expected: str
    found: str
    advice: str
    weight: str


class Lost(Noted, frozen=True, kw_only=True):
    """A claim was asked for and not given."""

    reasons: tuple[Against, ...]


class Taken(Against, frozen=True, kw_only=True):
    """A reason that somebody took upon himself, as it was found."""

    fingerprint: str


class Accepted(Noted, frozen=True, kw_only=True):
    """Somebody took reasons upon himself."""

    why: str
    reasons: tuple[Taken, ...]


class Checked(Noted, frozen=True, kw_only=True):
    """Checks were run."""

    evidence: tuple[Evidence, ...]
    files: Files | None = None  # as they were then


class Settled(Noted, frozen=True, kw_only=True):
    """How the work ended. The claim is over."""

    outcome: Ending
    evidence: tuple[Evidence, ...]
    missing: tuple[str, ...]
    override: str
    note: str
    acknowledged: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    handoff_id: str = ""
    revision: int = 0
    score: int = 0
    claim: str = ""
    files: Files | None = None


class Released(Noted, frozen=True, kw_only=True):
    """The claim was given back, and nothing was settled."""

    claim: str


Said = Handoff | Noted
_NOTED: tuple[type[Noted], ...] = (Claimed, Attached, Lost, Accepted, Checked, Settled, Released)
KINDS = {kind.__name__.lower(): kind for kind in _NOTED}
UNREADABLE = (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


def said_in(name: str, facts: msgspec.Raw) -> Said:
    """What an entry of this kind says: of a `stored` one the revision. Raises one of UNREADABLE."""
    if name != "stored" and name not in KINDS:
        raise ValueError(f"{name!r} is no kind of entry that a handoff has")
    said = decode_handoff(facts) if name == "stored" else msgspec.json.decode(facts, type=KINDS[name])
    for each in evidence_in(said):
        moment(each.at)  # what cannot be shown was never written
    return said


def evidence_in(said: Said) -> tuple[Evidence, ...]:
    """What came of checks, as the entry tells it."""
    if isinstance(said, Handoff):
        return said.baseline
    return said.evidence if isinstance(said, Checked | Settled) else ()


class AnchorEntry(NamedTuple):
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


class AnchorRecord(NamedTuple):
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


def told_in(anchor: str, row: Row) -> AnchorEntry:
    """What one entry says. Raises IntegrityBroken, naming it, when no store wrote such a one."""
    try:
        header = decode_header(row.header)
        if header.kind != "handoff":
            raise ValueError(f"it is about a {header.kind}, not a handoff")
        moment(header.ended_at)  # what cannot be shown was never written
        facts = facts_of(row.payload)
        return AnchorEntry(row.seq, header.name, header.ended_at, said_in(header.name, facts), facts)
    except UNREADABLE as error:
        raise IntegrityBroken(f"entry {chain_of(anchor)}/{row.seq}", f"it cannot be read: {error}") from error


def row_of(handoff: Handoff) -> NewHandoff:
    """What a revision, and its anchor from then on, is found by."""
    bound = handoff.binding
    named = {*handoff.target_files, *handoff.creates, *(bound.files if bound else ())}
    if handoff.file_path is not None:
        named.add(handoff.file_path)
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
        files=tuple(sorted([path.rstrip("/") for path in named])),
    )


def rows_of(look: Reading, anchor: AnchorRow) -> Iterator[Row]:
    """The journal of an anchor, a page at a time, all seen at one moment."""
    return every_row(lambda after: look.journal_of(anchor.key, after, PAGE), lambda row: row.seq)


# -- reading a journal -------------------------------------------------------------------------------


def read(
    anchor_id: str,
    scope: str,
    anchor: str,
    rows: Iterable[Row],
    head: int,
    hash_: bytes,
    inspect: Callable[[Handoff], None] = lambda handoff: None,
) -> AnchorRecord:
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
    return AnchorRecord(tuple(reader.revisions), reader.status, reader.outcome, tuple(reader.refs))


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
