"""Claims on an anchor, and on the run of its task: who holds one, who may take it, how it is taken, used and lost.

Of two who claim at once the second one loses in `unmoved`: the lease is not as it was when he judged, so that he judges
again, and finds it claimed. A claim is a lease of the anchor's chain; whoever shows its id is the claimer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.clock import moment
from outlast.errors import ClaimLost, HandoffClaimed, HandoffInvalid, RunFinished, RunNotFound
from outlast.handoffs import anchor as anchors
from outlast.handoffs.anchor import FoundHandoff
from outlast.handoffs.handoff import Evidence, HandoffClaim
from outlast.handoffs.journal import Attached, Claimed, Released, Settled
from outlast.handoffs.verdict import HandoffFacts, Holder, Observed
from outlast.home import claimer
from outlast.home.caller import Acceptance, Repeatable
from outlast.home.claimer import is_ours, named, print_of, until
from outlast.home.process import is_alive
from outlast.ledger.journal import JournalEntry
from outlast.ledger.lease import Beat, is_over
from outlast.ledger.verdict import Reason, Verdict
from outlast.store.contract import Hold, LeaseRow, Reading, RunRow, Writing
from outlast.values.codec import encode, jsonable
from outlast.values.frozen import NamedTuple
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.handoffs.find import HandoffQuery
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs import claim as claims
    from outlast.runs import found as found_runs
    from outlast.runs import holder as holders
    from outlast.runs import run as runs
else:  # who only looks takes no run
    claims, found_runs = late("outlast.runs.claim"), late("outlast.runs.found")
    holders, runs = late("outlast.runs.holder"), late("outlast.runs.run")


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


class Recovering(Struct, frozen=True, kw_only=True):
    """What is wanted beside the handoff itself."""

    actor: str
    run_checks: bool = False
    claim: bool = False
    include_finished: bool = False
    take: bool = False
    accept: tuple[str, ...] = ()
    why: str = ""
    claim_id: str | None = None
    agree: str | None = None  # the digest of commands of somebody else that may run
    operation_id: str | None = None
    tell_losses: bool = True  # a claim that is not given is on the record
    when: Literal["recover", "verify"] = "recover"
    listing: bool = False  # only its verdict is wanted, for a list: nobody has read it, and no claim was used
    task: bool = False  # for a session of a task, whose claims are its own: resuming moves the task, or is refused

    @property
    def acceptance(self) -> Acceptance:
        return Acceptance(self.accept, self.why)


class Judged(NamedTuple):
    """A verdict, and what it was made of."""

    verdict: Verdict
    known: HandoffFacts
    seen: Observed | None
    root: str
    holder: Holder | None
    at: int


class Asks(NamedTuple):
    """What is to be written of a recovery."""

    how: Recovering
    ran: tuple[Evidence, ...] = ()
    accepting: tuple[Reason, ...] = ()
    takes: bool = False  # from somebody else
    claims: bool = False
    standing: tuple[Reason, ...] = ()  # why it is not claimed
    beside: Judged | None = None  # of a run: the handoff whose claim goes with it


class Moved(Exception):
    """The anchor is not as it was when it was judged."""


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
    return Holder(_holder_in_words(claimer, beat), until(beat), mine)


def _claimer_before(look: Reading, found: FoundHandoff) -> str:
    """Who made the claim before the revision was stored: somebody else stored that one meanwhile."""
    held = print_of(found.lease.holder)
    said = (one.said for one in anchors.entries_before(look, found) if one)  # what cannot be read lends nobody a claim
    return next((each.by for each in said if isinstance(each, Claimed) and each.claim == held), "")


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


def _holder_in_words(actor: str, beat: Beat) -> str:
    place = str(beat.process) if beat.process.pid else f"on {beat.process.host}"
    return f"{actor} ({place})" if actor else place


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


# -- taking a claim ----------------------------------------------------------------------------------


def holder_for(caller: Caller, look: Reading, found: FoundHandoff, how: Recovering | None) -> Holder | None:
    """Who holds the claim, as seen by who asks; or by anybody of this process."""
    if how is None:
        return holder_of(caller, look, found)
    actor = claimer.asker(caller, how.actor, alone=how.task)
    return holder_of(caller, look, found, actor, claim_id=how.claim_id)


def standing_reasons(verdict: Verdict, accepted: Iterable[str]) -> tuple[Reason, ...]:
    """The contesting reasons that nobody has accepted. That somebody else holds the claim cannot be accepted."""
    known = set(accepted)
    return tuple(one for one in verdict.contesting if one.code == "claimed" or one.fingerprint not in known)


def refuse_unmatched(verdict: Verdict, how: Recovering) -> None:
    """Raises HandoffInvalid for an acceptance of something that is not there: it may be about another state."""
    if not how.accept:
        return
    known = {word for one in verdict.contesting for word in (one.code, f"{one.code}:{one.subject}")}
    for number, word in enumerate(how.accept):
        if word not in known:
            there = ", ".join(f"{one.code}:{one.subject}" for one in verdict.contesting) or "nothing contests"
            raise HandoffInvalid(f"accept[{number}]", f"{word!r} is no contesting reason here", f"there is: {there}")


def unmoved(caller: Caller, tx: Writing, found: FoundHandoff, before: Holder | None, how: Recovering) -> LeaseRow:
    """The lease, if nothing happened to the anchor since it was judged. Raises Moved."""
    lease = tx.lease_of_anchor(found.anchor.id)
    anchor = tx.anchor_by_key(found.anchor.key)
    if lease is None or anchor != found.anchor or (lease.head, lease.epoch) != (found.lease.head, found.lease.epoch):
        raise Moved
    holder = holder_for(caller, tx, found._replace(lease=lease), how)
    if (holder is None, holder and holder.mine) != (before is None, before and before.mine):
        raise Moved
    return lease


def take(
    caller: Caller, tx: Writing, found: FoundHandoff, now: Judged, lease: LeaseRow, token: str, how: Recovering
) -> list[tuple[str, dict[str, Any]]]:
    """Take the lease under a new claim, whose first use this is; what to write about it."""
    tx.beat_claim(claimer.beat_of(caller, token, tx.beat_of(token)))
    tx.take_lease(lease, token)
    if lease.holder:
        tx.forget_holder(lease.holder)
    claimed: dict[str, Any] = {"by": how.actor, "claim": print_of(token)}
    claimed |= {"handoff": found.handoff.id, "revision": found.handoff.revision}
    if now.holder is not None and not now.holder.mine:
        claimed |= {"taken_from": now.holder.who, "why": how.why}
    return [("claimed", claimed | {"files": files_seen(now)}), attached(token, now, how)]


def files_seen(now: Judged) -> dict[str, Any] | None:
    """The files as they were seen, if they were."""
    return anchors.files_of(now.seen.binding.files) if now.seen else None


def attached(token: str, now: Judged, how: Recovering) -> tuple[str, dict[str, Any]]:
    """On what verdict the claim was given, or used for a revision that was stored since."""
    verdict = {"verdict": now.verdict.word, "reasons": [one.code for one in now.verdict.reasons]}
    return "attached", {"by": how.actor, "claim": claimer.print_of(token), **verdict}


# -- what is remembered of it ------------------------------------------------------------------------


Resume = Literal["", "attached", "lost"]


def operation_of(asked: HandoffQuery, how: Recovering) -> Repeatable:
    """The write by its id and what is asked of it."""
    content = [list(asked), how.actor, how.claim, how.accept, how.take, how.why, how.run_checks, how.when]
    return Repeatable(how.operation_id, "handoff_recover", [*content, "task"] if how.task else content)


class Remembered(NamedTuple):
    """What a write gave."""

    claim: HandoffClaim | None
    resume: Resume
    evidence: tuple[Evidence, ...] = ()


def answer_of(claim: HandoffClaim | None, resume: Resume, ran: tuple[Evidence, ...]) -> str | None:
    """What is remembered of a write; a claim that was refused may be asked for again."""
    return None if resume == "lost" else encode(jsonable([claim, resume, ran])).decode()


def remembered(answer: str) -> Remembered:
    """What the first of equal writes gave."""
    before = msgspec.json.decode(answer, type=Remembered)
    return before._replace(claim=replace(before.claim, replayed=True)) if before.claim else before


# -- a claim on a run --------------------------------------------------------------------------------


class Claiming(Struct, frozen=True):
    """Who claims a run, why it is taken from somebody else, and what is accepted with it."""

    by: str
    take: str = ""
    accepting: tuple[Reason, ...] = ()
    why: str = ""  # it is accepted


def take_run(caller: Caller, tx: Writing, run_id: str, beat: Beat, claiming: Claiming) -> int:
    """Take a run's lease for whoever shows the token of the beat, without running it. Gives the epoch.

    Until the beat's process is dead or its time is over nobody else may resume the run; who shows the token resumes
    it, and with that the claim is used up. A run that is being executed is never taken. What is accepted is on the
    run's record with it. Raises RunNotFound, RunFinished, RunSealed, RunHeld.
    """
    row, lease, token = tx.run_by_id(run_id), tx.lease_of(run_id), beat.process.id
    if row is None or lease is None:
        raise RunNotFound(run_id)
    if row.status in runs.FINISHED:
        raise RunFinished(run_id, row.status)
    holders.refuse_sealed(row)
    if not claiming.take or holders.is_executing(row):
        holders.refuse_held(caller, tx, run_id, lease)
    found_runs.refuse_unproven(tx, row, lease)
    tx.beat_claim(beat)
    if lease.holder == token and not claiming.accepting:
        return lease.epoch
    return _take_lease(caller.home, tx, row, lease, token, claiming)


def _take_lease(home: Home, tx: Writing, row: RunRow, lease: LeaseRow, token: str, claiming: Claiming) -> int:
    from outlast.runs.under_way import starts_of  # who only looks takes no run

    silent_at, starts = holders.silent_since(home, tx, row, lease), starts_of(home, tx, row, lease)
    tx.take_lease(lease, token)
    if lease.holder and lease.holder not in (home.process.id, token):
        tx.forget_holder(lease.holder)
    said = {"by": claiming.by, "why": claiming.take}
    facts: dict[str, Any] = {name: value for name, value in said.items() if value} | {"claim": print_of(token)}
    if silent_at:
        facts["silent_at"] = silent_at  # by when the owner was dead: files that changed later are not its work
    hold = anchors.hold_of(row, lease, lease.epoch + 1)
    accepted = {"why": claiming.why, "actor": claiming.by}  # as a resume writes and reads it
    told = [("accepted", {"fingerprint": one.fingerprint, **accepted, **one.to_dict()}) for one in claiming.accepting]
    told.append(("claimed", facts))  # the last one: it is read as long as the claim holds
    tx.append(hold, [*starts, *(_fact(*each, home, row, hold) for each in told)])
    if holders.is_executing(row):  # it was, and its owner is dead
        tx.set_run_status(row.key, "crashed", row.updated_at)
    return hold.epoch


def give_back(home: Home, tx: Writing, run_id: str, token: str, facts: dict[str, Any]) -> bool:
    """Give a claimed run back as it is, and say so in its journal. Whether the token still held it."""
    row, lease = tx.run_by_id(run_id), tx.lease_of(run_id)
    if row is None or lease is None or lease.holder != token or holders.is_executing(row):
        return False
    hold = anchors.hold_of(row, lease)
    tx.append(hold, [_fact("released", facts, home, row, hold)])
    tx.release_lease(hold)
    tx.forget_holder(token)
    return True


def note_checked(caller: Caller, tx: Writing, run_id: str, by: str, evidence: Sequence[Evidence]) -> str:
    """Write what came of checks into the journal of a run that nobody executes. Why it was not; "" when it was."""
    row, lease = tx.run_by_id(run_id), tx.lease_of(run_id)
    if row is None or lease is None:
        return "its run is gone"
    holder = holders.holder_of(caller, tx, run_id, lease) if holders.is_executing(row) else ""
    if holder or row.status in runs.FINISHED or row.seal:
        return f"its run is executed by {holder}" if holder else "its run has ended or left meanwhile"
    hold, blobs = anchors.hold_of(row, lease), tuple(sorted({each.output for each in evidence if each.output}))
    facts = {"by": by, "evidence": jsonable(list(evidence))}
    tx.append(hold, [_fact("checked", facts, caller.home, row, hold)._replace(blobs=blobs)])
    return ""


def _fact(name: str, facts: dict[str, Any], home: Home, row: RunRow, hold: Hold) -> JournalEntry:
    return claims.run_fact(name, facts, epoch=hold.epoch, at=home.clock.now(), trace_id=row.trace_id)
