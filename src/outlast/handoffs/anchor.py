"""An anchor as it lies in the store: the revision that is asked for, what happened since, and who has read it.

That somebody has read a revision is remembered beside the anchor's journal, not in it: reading does not part two
histories. It is lost with the home, and then a rival is only named once more. Who holds the claim is `claim.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast.clock import moment
from outlast.errors import IntegrityBroken, OutlastError
from outlast.files.snapshot import Bound
from outlast.handoffs.handoff import Evidence, Handoff, HandoffEvent, decode_handoff
from outlast.handoffs.journal import (
    UNREADABLE,
    Accepted,
    AnchorEntry,
    Attached,
    Claimed,
    Released,
    Settled,
    evidence_in,
    name_of,
    told_in,
)
from outlast.handoffs.verdict import ClaimWork, HandoffFacts, Holder
from outlast.home.caller import LOCAL, Caller
from outlast.ledger.journal import (
    Break,
    Header,
    JournalEntry,
    Row,
    chain_of,
    check,
    encode_header,
    encode_payload,
    facts_of,
    genesis_of_anchor,
)
from outlast.ledger.journal import Payload as EntryPayload
from outlast.store.contract import MARK, AnchorRow, HandoffRow, Hold, LeaseRow, Reading, RunRow, Writing
from outlast.values.codec import digest, encode, identity
from outlast.values.frozen import NamedTuple

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.ledger.lease import Process


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
    own: tuple[AnchorEntry, ...]  # of what happened since, what is about this revision: until the next one was stored

    @property
    def arrived(self) -> bool:
        """Whether it came by import: what it says was seen and run is then what somebody elsewhere says."""
        return self.seq <= self.anchor.arrived


def told(name: str, facts: Any, *, at: int, epoch: int, blobs: Iterable[str] = ()) -> JournalEntry:
    """An entry for an anchor's journal. `facts` is a dict or a revision, or JSON that is kept byte for byte."""
    payload = encode_payload(EntryPayload(facts=facts))
    proof = digest(payload)
    header = Header("handoff", name, delivered=True, started_at=at, ended_at=at, epoch=epoch, payload=proof)
    return JournalEntry(encode_header(header), payload, tuple(sorted(set(blobs))))


def hold_of(whose: AnchorRow | RunRow, lease: LeaseRow, epoch: int | None = None) -> Hold:
    """What guards an append to the journal of an anchor, or of a run, as of this transaction."""
    return Hold(whose.key, whose.id, lease.key, lease.epoch if epoch is None else epoch, lease.head, lease.hash)


def lease_of(look: Reading, anchor: AnchorRow) -> LeaseRow:
    """What guards the anchor's journal, and says where it ends. Raises IntegrityBroken."""
    lease = look.lease_of_anchor(anchor.id)
    if lease is None:
        raise IntegrityBroken(name_of(anchor.scope, anchor.anchor), "its lease row is missing")
    return lease


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
    own = tuple(takewhile(lambda one: not isinstance(one.said, Handoff), since))
    return FoundHandoff(anchor, lease, handoff, broken, since, newest_id, superseded, revision.seq, own)


def _before(anchor: AnchorRow, seq: int, rows: list[Row]) -> tuple[bytes, list[Row]]:
    """The hash before an entry, and the rows from it on."""
    if seq > 1 and rows and rows[0].seq == seq - 1:
        return rows[0].hash, rows[1:]
    return genesis_of_anchor(anchor.id, anchor.scope, anchor.anchor), rows


def _handoff(rows: list[Row], anchor: AnchorRow, revision: HandoffRow) -> Handoff:
    payload = rows[0].payload if rows else None
    if payload is None:
        raise IntegrityBroken(name_of(anchor.scope, anchor.anchor, revision.revision), "its entry is missing")
    try:
        return decode_handoff(facts_of(payload))
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
    from outlast.handoffs.lint import lint  # only what was imported is scored again

    unchanged = any(finding.code == "too_early" for finding in handoff.lint.findings)  # nobody here can tell
    baseline = tuple(map(_reported, handoff.baseline))
    return replace(handoff, baseline=baseline, lint=lint(handoff, unchanged=unchanged, bound=handoff.binding))


def accepted_since(found: FoundHandoff) -> tuple[str, ...]:
    """The fingerprints of the reasons that were accepted since, by somebody here."""
    here = [one.said for one in found.own if one.seq > found.anchor.arrived]
    return tuple(reason.fingerprint for said in here if isinstance(said, Accepted) for reason in said.reasons)


def _work(found: FoundHandoff) -> tuple[ClaimWork, ...]:
    """Who worked on it since: each claim with the files at its beginning and, once it was over, at its end."""
    handoff = found.handoff
    work = [ClaimWork(handoff.actor, handoff.binding.files)] if handoff.claim and handoff.binding else []
    own = found.own
    if found.arrived:
        _add_work(work, (one for one in own if one.seq <= found.anchor.arrived))
        _end(work, None)  # a claim does not travel
    _add_work(work, (one for one in own if one.seq > found.anchor.arrived))
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
    for one in entries_before(look, found):
        if one is None:
            return
        yield one
        if isinstance(one.said, Handoff) and one.said.source != "hook":
            return


def entries_before(look: Reading, found: FoundHandoff) -> Iterator[AnchorEntry | None]:
    """What was written before a revision, newest first; None for what cannot be read, which `verify` names."""
    for row in reversed(look.journal_of(found.anchor.key)[: found.seq - 1]):
        try:
            yield told_in(found.anchor.anchor, row)
        except IntegrityBroken:
            yield None


def _counting(found: FoundHandoff, one: AnchorEntry) -> Iterator[Evidence]:
    """What an entry says of checks; what was not run here is what somebody says."""
    came = evidence_in(one.said)
    yield from came if one.seq > found.anchor.arrived else map(_reported, came)


def evidence_since(found: FoundHandoff) -> tuple[Evidence, ...]:
    """What came of checks since the revision was stored, oldest first. What was not run here is what somebody says."""
    return tuple(each for one in found.own for each in _counting(found, one))


def written(look: Reading, found: FoundHandoff) -> FoundHandoff | None:
    """The revision whose checks these are: a hook carries on those of the revision before. None: that is unreadable."""
    if not _is_carried_on(found):
        return found
    for one in entries_before(look, found):
        if one is None:
            return None
        if isinstance(one.said, Handoff):
            found = found._replace(handoff=one.said, seq=one.seq)
            if not _is_carried_on(found):
                return found
    return found


def _is_carried_on(found: FoundHandoff) -> bool:
    """Whether a hook stored it, here."""
    return found.handoff.source == "hook" and not found.arrived and not found.handoff.key_id


def files_of(files: Mapping[str, Bound]) -> dict[str, Any]:
    """Files as an entry carries them: what they are, not what was kept of them."""
    return {
        path: {"mode": bound.mode, "digest": bound.digest, "blob": bound.blob, "size": bound.size, "why": bound.why}
        for path, bound in files.items()
    }


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


# -- who has read which revision ---------------------------------------------------------------------


_KIND = "handoff_read"


def worker_of(caller: Caller) -> str:
    """The process that whoever acts sits in, in short: of a command its terminal. "" where that is not known."""
    return _in_short(caller.claimer or caller.home.process)


@lru_cache(maxsize=16)
def _in_short(process: Process) -> str:
    if not process.pid:
        return ""
    return identity(encode([process.boot_id, process.pid_namespace, process.pid, process.started]))[:16]


def is_author(handoff: Handoff, actor: str, worker: str) -> bool:
    """Whether it was stored by this actor, and for all that is known in this process. Who gave no name was this one."""
    return handoff.actor in (actor, LOCAL) and (not handoff.worker or not worker or handoff.worker == worker)


def note_read(caller: Caller, handoff: Handoff, actor: str) -> None:
    """Who recovers somebody else's revision has read it. A home that cannot be written to forgets it."""
    worker = worker_of(caller)
    if handoff.revision and not is_author(handoff, actor, worker):
        _note(caller.home, _read_by(handoff.id, actor, worker))


def note_looked(caller: Caller, handoff: Handoff, actor: str) -> None:
    """Who is shown a revision has read it, and has looked at what is a rival of it, or it of another."""
    note_read(caller, handoff, actor)
    newest = caller.home.store.read(lambda look: _newest_of(look, handoff))
    if newest is not None and newest.unread is not None and handoff.id in (newest.id, newest.unread.id):
        _note(caller.home, _looked_at(newest.id))


def _newest_of(look: Reading, handoff: Handoff) -> Handoff | None:
    """The newest revision under the same anchor, if this one is that or may have a rival in it."""
    row = look.anchor_of(handoff.scope, handoff.anchor)
    if row is None or row.revision == handoff.revision:
        return handoff
    revision = look.handoff_at(row.key, row.revision)
    with suppress(OutlastError):  # what cannot be read says nothing of others
        return find(look, row, revision).handoff if revision else None
    return None


def accept_rival(tx: Writing, handoff: Handoff, at: int) -> None:
    """Somebody took the rival upon himself: that is to have looked."""
    _add(tx, _looked_at(handoff.id), at)


def was_looked_at(look: Reading, handoff: Handoff) -> bool:
    """Whether somebody has looked at what this revision is a rival of."""
    return handoff.unread is None or look.operation(_looked_at(handoff.id)) is not None


def _note(home: Home, mark: str) -> None:
    if home.store.read(lambda look: look.operation(mark)) is None:
        with suppress(OutlastError):
            home.store.write(lambda tx: _add(tx, mark, home.clock.now()))


def _add(tx: Writing, mark: str, at: int) -> None:
    if tx.operation(mark) is None:
        tx.add_operation(mark, _KIND, "", "", at)


def _read_by(handoff_id: str, actor: str, worker: str) -> str:
    return f"{MARK}{_KIND}:{handoff_id}:{identity(encode([actor, worker]))[:16]}"


def _looked_at(handoff_id: str) -> str:
    return f"{MARK}{_KIND}:{handoff_id}:looked"
