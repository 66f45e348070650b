"""An anchor as it lies in the store: the revision that is asked for, what happened since, and who holds the claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.clock import moment
from holdfast.domain.handoff import Bound, Evidence, Handoff, decode_handoff
from holdfast.domain.journal import Break, Entry, Header, Row, check, decode_header, entry, genesis_of_anchor
from holdfast.domain.journal import Payload as EntryPayload
from holdfast.domain.lease import Beat, is_over
from holdfast.domain.recovered import HandoffEvent
from holdfast.domain.trust import Holder, Known, Work
from holdfast.errors import IntegrityBroken
from holdfast.runtime.processes import is_alive
from holdfast.runtime.tokens import is_ours, print_of, until
from holdfast.store.contract import AnchorRow, HandoffRow, Hold, LeaseRow, Reading

if TYPE_CHECKING:
    from holdfast.runtime import Runtime

_decode_facts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Told(NamedTuple):
    """One entry after a revision: what happened, and what was written about it."""

    seq: int
    name: str
    at: int
    facts: dict[str, Any]


class Found(NamedTuple):
    """A revision as it was stored, and what happened to its anchor since."""

    anchor: AnchorRow
    lease: LeaseRow
    handoff: Handoff
    broken: Break | None
    since: tuple[Told, ...]
    newest_id: str
    superseded_by: str


def told(name: str, facts: Any, *, at: int, epoch: int, blobs: Iterable[str] = ()) -> Entry:
    """An entry for an anchor's journal. `facts` is a dict, or JSON that is kept byte for byte."""
    header = Header("handoff", name, delivered=True, started_at=at, ended_at=at, epoch=epoch)
    return entry(header, EntryPayload(facts=facts))._replace(blobs=tuple(sorted(set(blobs))))


def hold_of(anchor: AnchorRow, lease: LeaseRow, epoch: int | None = None) -> Hold:
    """What guards an append to the anchor's journal, as of this transaction."""
    return Hold(-anchor.key, anchor.id, lease.key, lease.epoch if epoch is None else epoch, lease.head, lease.hash)


def find(look: Reading, anchor: AnchorRow, revision: HandoffRow) -> Found:
    """A revision, with its entry and all later ones checked. Raises IntegrityBroken when it cannot be read at all."""
    lease = _lease(look, anchor)
    rows = look.journal_of(-anchor.key, max(revision.seq - 2, 0))
    before, rows = _before(anchor, revision.seq, rows)
    broken = check(f"handoff {anchor.anchor}", before, rows, lease.head, lease.hash, first=revision.seq)
    if not rows or rows[0].payload is None:
        raise IntegrityBroken(f"handoff {revision.id}", "its entry is missing")
    handoff = _handoff(rows[0], anchor, revision)
    if broken is None and (handoff.id, handoff.revision) != (revision.id, revision.revision):
        broken = Break(f"handoff {revision.id}", "it is listed as another revision")
    if broken is None and (handoff.scope, handoff.anchor) != (anchor.scope, anchor.anchor):
        broken = Break(f"handoff {revision.id}", "it was stored under another anchor")
    since = tuple(map(_told, rows[1:])) if broken is None else ()
    newest = look.handoff_at(anchor.key, anchor.revision)
    return Found(
        anchor, lease, handoff, broken, since, newest.id if newest else "", _superseded(look, anchor, revision)
    )


def _lease(look: Reading, anchor: AnchorRow) -> LeaseRow:
    lease = look.lease_of_anchor(anchor.id)
    if lease is None:
        raise IntegrityBroken(f"handoff {anchor.anchor}", "its lease row is missing")
    return lease


def _before(anchor: AnchorRow, seq: int, rows: list[Row]) -> tuple[bytes, list[Row]]:
    """The hash before an entry, and the rows from it on."""
    if seq > 1 and rows and rows[0].seq == seq - 1:
        return rows[0].hash, rows[1:]
    return genesis_of_anchor(anchor.id, anchor.scope, anchor.anchor), rows


def _handoff(row: Row, anchor: AnchorRow, revision: HandoffRow) -> Handoff:
    try:
        return decode_handoff(_decode_facts(row.payload or b"")["facts"])
    except (msgspec.MsgspecError, KeyError) as error:
        raise IntegrityBroken(f"handoff {anchor.anchor}@{revision.revision}", f"it cannot be read: {error}") from error


def _told(row: Row) -> Told:
    header = decode_header(row.header)
    facts = msgspec.json.decode(_decode_facts(row.payload)["facts"]) if row.payload else {}
    return Told(row.seq, header.name, header.ended_at, facts)


def _superseded(look: Reading, anchor: AnchorRow, revision: HandoffRow) -> str:
    """The anchor of a handoff elsewhere that says it replaces this one."""
    by = look.handoff_superseding(revision.id)
    if by is None or by.anchor == anchor.key:
        return ""
    other = look.anchor_by_key(by.anchor)
    return other.anchor if other else ""


# -- what the entries since say ----------------------------------------------------------------------


def known_of(found: Found, holder: Holder | None, blobs: Mapping[str, str]) -> Known:
    """The recorded facts, as the verdict takes them."""
    return Known(
        handoff=found.handoff,
        newest=found.anchor.revision,
        newest_id=found.newest_id,
        superseded_by=found.superseded_by,
        broken=found.broken.why if found.broken else "",
        broken_record=found.broken.record if found.broken else "",
        blobs=blobs,
        holder=holder,
        work=_work(found),
        evidence=evidence_since(found),
    )


def evidence_since(found: Found) -> tuple[Evidence, ...]:
    """What came of checks since the revision was stored, oldest first."""
    given = [each for one in found.since for each in one.facts.get("evidence", ())]
    return tuple(msgspec.convert(given, list[Evidence]))


def accepted_since(found: Found) -> tuple[str, ...]:
    """The fingerprints of the reasons that were accepted since."""
    accepted = [one.facts["reasons"] for one in found.since if one.name == "accepted"]
    return tuple(reason["fingerprint"] for reasons in accepted for reason in reasons)


def claimer_of(found: Found) -> str:
    """Who made the claim that the lease names; "" when that was before this revision."""
    held = print_of(found.lease.holder)
    by = [str(one.facts["by"]) for one in found.since if one.facts.get("claim") == held]
    return by[0] if by else (found.handoff.actor if found.handoff.claim == held else "")


def _work(found: Found) -> tuple[Work, ...]:
    """Who worked on it since: each claim with the files as they were at its beginning and, once settled, at its end."""
    handoff = found.handoff
    work = [Work(handoff.actor, handoff.binding.files)] if handoff.claim and handoff.binding else []
    for one in found.since:
        files = msgspec.convert(one.facts.get("files") or {}, dict[str, Bound])
        if one.name == "claimed" and files:
            work.append(Work(str(one.facts["by"]), files))
        elif one.name == "settled" and files and work:
            work[-1] = Work(work[-1].by, work[-1].began, files)
    return tuple(work)


def files_of(files: Mapping[str, Bound]) -> dict[str, Any]:
    """Files as an entry carries them: what they are, not what was kept of them."""
    return {
        path: {"mode": bound.mode, "digest": bound.digest, "blob": bound.blob, "size": bound.size, "why": bound.why}
        for path, bound in files.items()
    }


# -- the claim ---------------------------------------------------------------------------------------


def holder_of(runtime: Runtime, look: Reading, found: Found) -> Holder | None:
    """Who holds the claim now; None when it is free or its holder is dead or silent for too long."""
    lease = found.lease
    beat = look.beat_of(lease.holder) if lease.holder else None
    if beat is None or lease.holder is None:
        return None
    mine = is_ours(runtime, lease.holder, beat)
    if not mine and is_lapsed(runtime, beat):
        return None
    return Holder(_who(claimer_of(found), beat), until(beat), mine)


def is_lapsed(runtime: Runtime, beat: Beat) -> bool:
    """Whether somebody else may take the claim."""
    clock = runtime.clock
    alive = is_alive(beat.process, runtime.process)
    return is_over(beat, runtime.process, alive=alive, boot_us=clock.boot(), wall_us=clock.now())


def _who(actor: str, beat: Beat) -> str:
    place = str(beat.process) if beat.process.pid else f"on {beat.process.host}"
    return f"{actor} ({place})" if actor else place


# -- history -----------------------------------------------------------------------------------------


def history(look: Reading, anchor: AnchorRow) -> list[HandoffEvent]:
    """Everything that happened under an anchor, oldest first. Raises IntegrityBroken."""
    lease = _lease(look, anchor)
    rows = look.journal_of(-anchor.key)
    start = genesis_of_anchor(anchor.id, anchor.scope, anchor.anchor)
    broken = check(f"handoff {anchor.anchor}", start, rows, lease.head, lease.hash)
    if broken is not None:
        raise broken.as_error()
    return [_event(one) for one in map(_told, rows)]


def _event(one: Told) -> HandoffEvent:
    facts = one.facts
    if one.name == "stored":
        body = {name: facts[name] for name in ("id", "revision", "summary", "next_action")}
        body |= {"score": facts["lint"]["score"], "source": facts.get("source", ""), "rival": facts.get("rival", "")}
        return HandoffEvent(one.seq, one.name, moment(one.at), facts["actor"], body)
    body = {name: value for name, value in facts.items() if name not in ("by", "files")}
    return HandoffEvent(one.seq, one.name, moment(one.at), str(facts.get("by", "")), body)
