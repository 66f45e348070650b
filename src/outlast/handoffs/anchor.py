"""An anchor as it lies in the store: the revision that is asked for, what happened since, and who holds the claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from outlast.clock import moment
from outlast.errors import ClaimLost, HandoffClaimed, IntegrityBroken
from outlast.handoffs.anchor_journal import (
    UNREADABLE,
    Accepted,
    AnchorEntry,
    Attached,
    Claimed,
    Released,
    Settled,
    chain_of,
    evidence_in,
    facts_of,
    lease_of,
    name_of,
    told_in,
)
from outlast.handoffs.handoff import Bound, Evidence, Handoff, decode_handoff
from outlast.handoffs.recovered import HandoffEvent
from outlast.handoffs.verdict import ClaimWork, HandoffFacts, Holder
from outlast.home.claimer import is_ours, named, print_of, until
from outlast.home.process import is_alive
from outlast.ledger.journal import (
    Break,
    Header,
    JournalEntry,
    Row,
    check,
    encode_header,
    encode_payload,
    genesis_of_anchor,
)
from outlast.ledger.journal import Payload as EntryPayload
from outlast.ledger.lease import Beat, is_over
from outlast.store.contract import AnchorRow, HandoffRow, Hold, LeaseRow, Reading
from outlast.values.digest import digest
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home


class FoundHandoff(NamedTuple):
    """A revision as it was stored, and what happened to its anchor since."""

    anchor: AnchorRow
    lease: LeaseRow
    handoff: Handoff
    broken: Break | None
    since: tuple[AnchorEntry, ...]
    newest_id: str
    superseded_by: str
    seq: int  # of its entry

    @property
    def arrived(self) -> bool:
        """Whether it came by import: what it says was seen and run is then what somebody elsewhere says."""
        return self.seq <= self.anchor.arrived

    @property
    def own(self) -> tuple[AnchorEntry, ...]:
        """What happened since and is about this revision: until the next one was stored."""
        return tuple(takewhile(lambda one: not isinstance(one.said, Handoff), self.since))

    @property
    def since_here(self) -> tuple[AnchorEntry, ...]:
        """The same, as far as it was written here."""
        return tuple(one for one in self.own if one.seq > self.anchor.arrived)


def told(name: str, facts: Any, *, at: int, epoch: int, blobs: Iterable[str] = ()) -> JournalEntry:
    """An entry for an anchor's journal. `facts` is a dict or a revision, or JSON that is kept byte for byte."""
    payload = encode_payload(EntryPayload(facts=facts))
    proof = digest(payload)
    header = Header("handoff", name, delivered=True, started_at=at, ended_at=at, epoch=epoch, payload=proof)
    return JournalEntry(encode_header(header), payload, tuple(sorted(set(blobs))))


def hold_of(anchor: AnchorRow, lease: LeaseRow, epoch: int | None = None) -> Hold:
    """What guards an append to the anchor's journal, as of this transaction."""
    return Hold(anchor.key, anchor.id, lease.key, lease.epoch if epoch is None else epoch, lease.head, lease.hash)


def find(look: Reading, anchor: AnchorRow, revision: HandoffRow) -> FoundHandoff:
    """A revision, with its entry and all later ones checked. Raises IntegrityBroken when it cannot be read at all."""
    lease = lease_of(look, anchor)
    rows = look.journal_of(anchor.key, max(revision.seq - 2, 0))
    before, rows = _before(anchor, revision.seq, rows)
    broken = check(chain_of(anchor.anchor), before, rows, lease.head, lease.hash, first=revision.seq)
    handoff = _handoff(rows, anchor, revision)
    since: tuple[AnchorEntry, ...] = ()
    if broken is None:
        broken = _misplaced(handoff, anchor, revision)
    if broken is None:
        since, broken = _since(anchor, rows[1:])
    newest = revision if revision.revision == anchor.revision else look.handoff_at(anchor.key, anchor.revision)
    newest_id, superseded = newest.id if newest else "", _superseded(look, anchor, revision)
    return FoundHandoff(anchor, lease, handoff, broken, since, newest_id, superseded, revision.seq)


def _before(anchor: AnchorRow, seq: int, rows: list[Row]) -> tuple[bytes, list[Row]]:
    """The hash before an entry, and the rows from it on."""
    if seq > 1 and rows and rows[0].seq == seq - 1:
        return rows[0].hash, rows[1:]
    return genesis_of_anchor(anchor.id, anchor.scope, anchor.anchor), rows


def _handoff(rows: list[Row], anchor: AnchorRow, revision: HandoffRow) -> Handoff:
    if not rows or rows[0].payload is None:
        raise IntegrityBroken(name_of(anchor.scope, anchor.anchor, revision.revision), "its entry is missing")
    try:
        return decode_handoff(facts_of(rows[0].payload))
    except UNREADABLE as error:
        record = name_of(anchor.scope, anchor.anchor, revision.revision)
        raise IntegrityBroken(record, f"it cannot be read: {error}") from error


def _misplaced(handoff: Handoff, anchor: AnchorRow, revision: HandoffRow) -> Break | None:
    if (handoff.id, handoff.revision) != (revision.id, revision.revision):
        why = "it is listed as another revision"
    elif (handoff.scope, handoff.anchor) != (anchor.scope, anchor.anchor):
        why = "it was stored under another anchor"
    else:
        return None
    return Break(name_of(anchor.scope, anchor.anchor, revision.revision), why)


def _since(anchor: AnchorRow, rows: list[Row]) -> tuple[tuple[AnchorEntry, ...], Break | None]:
    """What later entries say; nothing of them is believed when one cannot be read."""
    try:
        return tuple(told_in(anchor.anchor, row) for row in rows), None
    except IntegrityBroken as error:
        return (), Break(error.record, error.why)


def _superseded(look: Reading, anchor: AnchorRow, revision: HandoffRow) -> str:
    """The anchor of a handoff elsewhere that says it replaces this one."""
    by = look.handoff_superseding(revision.id)
    if by is None or by.anchor == anchor.key:
        return ""
    other = look.anchor_by_key(by.anchor)
    return other.anchor if other else ""


# -- what the entries since say ----------------------------------------------------------------------


def known_of(home: Home, found: FoundHandoff, holder: Holder | None, blobs: Mapping[str, str]) -> HandoffFacts:
    """The recorded facts, as the verdict takes them."""
    return HandoffFacts(
        handoff=_witnessed(home, found),
        newest=found.anchor.revision,
        newest_id=found.newest_id,
        superseded_by=found.superseded_by,
        broken=found.broken.why if found.broken else "",
        broken_record=found.broken.record if found.broken else "",
        blobs=blobs,
        holder=holder,
        work=_work(found),
        evidence=believed(home, (*_evidence_before(home, found), *evidence_since(found))),
    )


def _witnessed(home: Home, found: FoundHandoff) -> Handoff:
    """The revision with what this place can vouch for: of one that was imported, its checks and its score are words."""
    handoff = found.handoff
    if not found.arrived or found.broken:
        baseline = believed(home, handoff.baseline)
        return handoff if baseline == handoff.baseline else replace(handoff, baseline=baseline)
    from outlast.handoffs.lint import lint

    unchanged = any(finding.code == "too_early" for finding in handoff.lint.findings)  # nobody here can tell
    baseline = tuple(map(_reported, handoff.baseline))
    return replace(handoff, baseline=baseline, lint=lint(handoff, unchanged=unchanged, bound=handoff.binding))


def _reported(evidence: Evidence) -> Evidence:
    return replace(evidence, runner="self")


def believed(home: Home, evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The same, as it counts in this home: where only a runner's word does, what a client ran is what somebody says."""
    only = home.settings.evidence == "runner"
    return tuple(_reported(each) if only and each.runner == "client" else each for each in evidence)


def _evidence_before(home: Home, found: FoundHandoff) -> tuple[Evidence, ...]:
    """What came of checks that a hook carries on, since the revision that they are of: who ran them is not forgotten
    because a session ended. What cannot be read tells nothing."""
    if found.broken or not found.handoff.acceptance_checks or not _is_carried_on(found):
        return ()
    told = home.store.read(lambda look: [*_carried_on_since(look, found)])
    return tuple(each for one in reversed(told) for each in _counting(found, one))


def _carried_on_since(look: Reading, found: FoundHandoff) -> Iterator[AnchorEntry]:
    """The entries before a revision, newest first, back to the one that somebody wrote, or to what cannot be read."""
    for row in reversed(look.journal_of(found.anchor.key)[: found.seq - 1]):
        try:
            one = told_in(found.anchor.anchor, row)
        except IntegrityBroken:
            return
        yield one
        if isinstance(one.said, Handoff) and one.said.source != "hook":
            return


def _counting(found: FoundHandoff, one: AnchorEntry) -> Iterator[Evidence]:
    """What an entry says of checks; what was not run here is what somebody says."""
    came = evidence_in(one.said)
    yield from came if one.seq > found.anchor.arrived else map(_reported, came)


def evidence_since(found: FoundHandoff) -> tuple[Evidence, ...]:
    """What came of checks since the revision was stored, oldest first. What was not run here is what somebody says."""
    return tuple(each for one in found.own for each in _counting(found, one))


def accepted_since(found: FoundHandoff) -> tuple[str, ...]:
    """The fingerprints of the reasons that were accepted since, by somebody here."""
    accepted = [one.said.reasons for one in found.since_here if isinstance(one.said, Accepted)]
    return tuple(reason.fingerprint for reasons in accepted for reason in reasons)


def claimer_of(found: FoundHandoff) -> str:
    """Who made the claim that the lease names; "" when that was before this revision."""
    held = print_of(found.lease.holder)
    by = [one.said.by for one in found.since if isinstance(one.said, Claimed) and one.said.claim == held]
    return by[0] if by else (found.handoff.actor if found.handoff.claim == held else "")


def is_known_to_claimer(found: FoundHandoff) -> bool:
    """Whether the claim that holds was made, or used, for this revision or a later one; or stored it."""
    held = print_of(found.lease.holder)
    seen = [one.said.claim for one in found.since if isinstance(one.said, Claimed | Attached)]
    return held in (found.handoff.claim, *seen)


def _work(found: FoundHandoff) -> tuple[ClaimWork, ...]:
    """Who worked on it since: each claim with the files at its beginning and, once it was over, at its end."""
    handoff = found.handoff
    work = [ClaimWork(handoff.actor, handoff.binding.files)] if handoff.claim and handoff.binding else []
    _add_work(work, [one for one in found.own if one.seq <= found.anchor.arrived])
    if found.arrived:
        _end(work, None)  # a claim does not travel
    _add_work(work, found.since_here)
    return tuple(work)


def _add_work(work: list[ClaimWork], since: Iterable[AnchorEntry]) -> None:
    for one in since:
        if isinstance(one.said, Claimed | Attached) and one.said.files is not None:
            work.append(ClaimWork(one.said.by, one.said.files))
        elif isinstance(one.said, Settled | Released):
            _end(work, one.said.files if isinstance(one.said, Settled) else None)


def _end(work: list[ClaimWork], files: Mapping[str, Bound] | None) -> None:
    """The last claim is over. Where nobody looked at the files it ends as it began: what changes is not its work."""
    if work and work[-1].ended is None:
        work[-1] = replace(work[-1], ended=work[-1].began if files is None else files)


def files_of(files: Mapping[str, Bound]) -> dict[str, Any]:
    """Files as an entry carries them: what they are, not what was kept of them."""
    return {
        path: {"mode": bound.mode, "digest": bound.digest, "blob": bound.blob, "size": bound.size, "why": bound.why}
        for path, bound in files.items()
    }


# -- the claim ---------------------------------------------------------------------------------------


def holder_of(
    caller: Caller, look: Reading, found: FoundHandoff, actor: str | None = None, *, claim_id: str | None = None
) -> Holder | None:
    """Who holds the claim now; None when it is free or its holder is dead or silent for too long.

    It is `mine` when this object made it and, where an `actor` is named, for that one; or when `claim_id` shows it.
    On the command line all that was made at this terminal, or is shown to the command, is.
    """
    lease = found.lease
    beat = look.beat_of(lease.holder) if lease.holder else None
    if beat is None or lease.holder is None:
        return None
    claimer = claimer_of(found) or _claimer_before(look, found)
    by_name = caller.claimer is not None or actor in (None, claimer)  # a command line is one claimer, by any name
    mine = lease.holder == claim_id or (by_name and is_ours(caller, lease.holder, beat))
    if not mine and is_lapsed(caller.home, beat):
        return None
    return Holder(_who(claimer, beat), until(beat), mine)


def _claimer_before(look: Reading, found: FoundHandoff) -> str:
    """Who made the claim before the revision was stored: somebody else stored that one meanwhile."""
    held = print_of(found.lease.holder)
    for row in reversed(look.journal_of(found.anchor.key)[: found.seq - 1]):
        try:
            said = told_in(found.anchor.anchor, row).said
        except IntegrityBroken:
            continue  # it lends nobody a claim; `verify` names it
        if isinstance(said, Claimed) and said.claim == held:
            return said.by
    return ""


def written(look: Reading, found: FoundHandoff) -> FoundHandoff | None:
    """The revision whose checks these are: a hook carries on those of the revision before. None: that is unreadable."""
    if not _is_carried_on(found):
        return found
    for row in reversed(look.journal_of(found.anchor.key)[: found.seq - 1]):
        try:
            one = told_in(found.anchor.anchor, row)
        except IntegrityBroken:
            return None
        if isinstance(one.said, Handoff):
            found = found._replace(handoff=one.said, seq=one.seq)
            if not _is_carried_on(found):
                return found
    return found


def _is_carried_on(found: FoundHandoff) -> bool:
    """Whether a hook stored it, here."""
    return found.handoff.source == "hook" and not found.arrived and not found.handoff.key_id


def claimed_error(anchor: str, holder: Holder) -> HandoffClaimed:
    """What is raised where somebody else holds the claim."""
    return HandoffClaimed(anchor, holder.who, f"{moment(holder.until):%Y-%m-%d %H:%M} UTC")


def refused_error(caller: Caller, found: FoundHandoff, holder: Holder, actor: str | None) -> HandoffClaimed | ClaimLost:
    """What who holds no claim is told: that somebody else holds it; or, if it was his before, who took it and why."""
    return lost_error(caller, found, actor) or claimed_error(found.anchor.anchor, holder)


def lost_error(caller: Caller, found: FoundHandoff, actor: str | None, claim_id: str | None = None) -> ClaimLost | None:
    """Who took the claim that was ours, or the one that is shown, when and why; None when nobody took one of ours."""
    moves = [one for one in found.since if isinstance(one.said, Claimed | Settled | Released)]
    for before, one in reversed([*zip((each.said for each in moves), moves[1:], strict=False)]):
        taken = one.said
        if not isinstance(before, Claimed) or not isinstance(taken, Claimed):
            continue  # it was given back
        token = claim_id if claim_id and print_of(claim_id) == before.claim else _ours(caller, before, taken, actor)
        if token is not None:
            by = f"{taken.by} took it over on {moment(one.at):%Y-%m-%d %H:%M} UTC"
            why = taken.why or "its time was over, or its process had ended"
            return ClaimLost(named(token) if token else "of yours", found.anchor.anchor, f"{by}: {why}")
    return None


def _ours(caller: Caller, before: Claimed, taken: Claimed, actor: str | None) -> str | None:
    """The claim that was taken, if it was ours: this object made it; "" if it was made at this terminal."""
    for token in caller.tokens:
        if print_of(token) == before.claim and actor in (None, before.by):
            return token
    at_terminal = caller.claimer is not None and caller.claimer.pid != 0
    return "" if at_terminal and taken.taken_from.endswith(f"({caller.claimer})") else None


def is_lapsed(home: Home, beat: Beat) -> bool:
    """Whether somebody else may take the claim. Who made it says nothing between two uses: one lease is enough."""
    clock = home.clock
    alive = is_alive(beat.process, home.process)
    return is_over(beat, home.process, alive=alive, boot_us=clock.boot(), wall_us=clock.now(), leases=1)


def _who(actor: str, beat: Beat) -> str:
    place = str(beat.process) if beat.process.pid else f"on {beat.process.host}"
    return f"{actor} ({place})" if actor else place


# -- history -----------------------------------------------------------------------------------------


def history(look: Reading, anchor: AnchorRow) -> list[HandoffEvent]:
    """Everything that happened under an anchor, oldest first. Raises IntegrityBroken."""
    lease = lease_of(look, anchor)
    rows = look.journal_of(anchor.key)
    start = genesis_of_anchor(anchor.id, anchor.scope, anchor.anchor)
    broken = check(chain_of(anchor.anchor), start, rows, lease.head, lease.hash)
    if broken is not None:
        raise broken.as_error()
    return [_event(told_in(anchor.anchor, row)) for row in rows]


def _event(one: AnchorEntry) -> HandoffEvent:
    said = one.said
    if isinstance(said, Handoff):
        body = {name: getattr(said, name) for name in ("id", "revision", "summary", "next_action")}
        body |= {"score": said.lint.score, "source": said.source, "rival": said.rival}
        return HandoffEvent(one.seq, one.name, moment(one.at), said.actor, body, said.host, said.door)
    body = {name: value for name, value in one.facts.items() if name not in ("by", "files", "host", "door")}
    return HandoffEvent(one.seq, one.name, moment(one.at), said.by, body, said.host, said.door)


def refuse_lost(caller: Caller, found: FoundHandoff, claim_id: str | None) -> None:
    """Who shows the claim that holds is the claimer from now on. Raises ClaimLost when another one holds, or none."""
    if claim_id is None:
        return
    if found.lease.holder != claim_id:
        told = lost_error(caller, found, None, claim_id)
        if told is not None:
            raise told
        why = "nobody holds a claim on it now" if found.lease.holder is None else "somebody else has taken it"
        raise ClaimLost(named(claim_id), found.anchor.anchor, why)
    caller.tokens.add(claim_id)
