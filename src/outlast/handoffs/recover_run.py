"""Recovering what is composed from a task's run: judged as any handoff, claimed by taking the run's lease."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

from outlast.clock import moment
from outlast.errors import ClaimLost, HandoffClaimed, HandoffInvalid, RunFinished, RunHeld, RunNotFound, RunSealed
from outlast.handoffs import anchor as anchors
from outlast.handoffs import claim as claims
from outlast.handoffs import task_state as task_states
from outlast.handoffs.anchor import believed, evidence_since
from outlast.handoffs.claim import Asks, Claiming, Judged, Moved, Recovering, Resume
from outlast.handoffs.find import HandoffQuery
from outlast.handoffs.handoff import Evidence, HandoffClaim, Recovered
from outlast.home import claimer
from outlast.home.caller import Repeatable, once
from outlast.ledger.lease import Beat
from outlast.ledger.verdict import Reason
from outlast.store.contract import Reading, Writing
from outlast.values.ambient import refuse_stopped
from outlast.values.late import late

if TYPE_CHECKING:
    from outlast.handoffs.compose import Composed
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs import holder as holders
else:
    holders = late("outlast.runs.holder")  # most handoffs have no run


def show(caller: Caller, composed: Composed | None, claim_id: str | None) -> bool:
    """Whether the claim that holds the run is shown for the first time. Raises ClaimLost when another one holds it."""
    if composed is None or claim_id is None:
        return False
    lease = caller.home.store.read(lambda look: look.lease_of(composed.run.run_id))
    beside = composed.beside.lease.holder if composed.beside else None
    if claim_id not in (lease.holder if lease else None, beside):
        why = "its run was resumed since, or somebody else has taken it"
        raise ClaimLost(claimer.named(claim_id), composed.handoff.anchor, why)
    first = claim_id not in caller.tokens
    caller.tokens.add(claim_id)
    return first


def answer(
    caller: Caller,
    composed: Composed,
    now: Judged,
    beside: Judged | None,
    how: Recovering,
    operation: Repeatable,
    ran: tuple[Evidence, ...],
) -> Recovered:
    """What the run gives, with its verdict here and now; claimed if that is asked for. Raises Moved.

    `beside`: the verdict on the open handoff under the same anchor, whose claim goes with the run's.
    """
    verdict = now.verdict
    claims.refuse_unmatched(verdict, how)
    if how.accept and not how.claim:
        why = "what is composed from a run is accepted on the run's record, by who claims it"
        raise HandoffInvalid("accept", why, "claim it as well: claim=True (--claim)")
    asks = asks_of(claims.standing_reasons(verdict, composed.accepted), how, ran, composed)._replace(beside=beside)
    claim, notes = _write(caller, composed, asks, operation)
    resume: Resume = ("attached" if claim is not None else "lost") if how.claim else ""
    claim = claim if how.claim or how.claim_id is not None else None
    held = claim is not None or any(one.code == "claimed" for one in verdict.reasons)
    accepted = (*composed.accepted, *(one.fingerprint for one in asks.accepting if claim is not None))
    contested = bool(verdict.unaccepted(accepted))
    return Recovered(
        verdict=verdict,
        handoff=composed.handoff,
        standing="claimed" if held else "contested" if contested else "open",
        root=now.root,
        evidence=ran,
        claim=claim,
        resume=resume,
        accepted=accepted,
        run=composed.run,
        notes=notes,
    )


def evidence_of(home: Home, composed: Composed) -> tuple[Evidence, ...]:
    """What came of the checks: at store and since of the handoff that lends them, and on the run's own record."""
    lent = composed.beside
    stored = lent.handoff.baseline if lent is not None and not lent.arrived else ()
    since = (*(evidence_since(lent) if lent is not None else ()), *composed.evidence)
    return believed(home, (*stored, *sorted(since, key=lambda each: each.at)))


def reasons_of(caller: Caller, composed: Composed, how: Recovering | None) -> tuple[Reason, ...]:
    """What the task's run gives, as seen by who asks."""
    return composed.reasons if how is None else (*composed.reasons, *_held_beside(caller, composed, how))


def reasons_with(caller: Caller, composed: Composed, how: Recovering, beside: Judged | None) -> tuple[Reason, ...]:
    """The same, and somebody else's claim on the anchor, unless it is told already who holds the run."""
    given = reasons_of(caller, composed, how)
    if beside is None or any(one.code == "claimed" for one in given):
        return given
    return (*given, *(one for one in beside.verdict.reasons if one.code == "claimed"))


def _held_beside(caller: Caller, composed: Composed, how: Recovering) -> tuple[Reason, ...]:
    """The claim of another actor of this very process: what the run gives does not tell the two apart."""
    if any(one.code == "claimed" for one in composed.reasons):
        return ()
    beat, by = caller.home.store.read(lambda look: _claim_here(caller, look, composed))
    if beat is None or _is_of(caller, beat, by, how):
        return ()
    name = composed.handoff.anchor
    found = f"{by} ({beat.process}), until {moment(claimer.until(beat)):%Y-%m-%d %H:%M} UTC"
    advice = f"wait, or take it over: outlast handoff claim {quote(name)} --take --why WHY"
    return (Reason("claimed", name, "free", found, advice),)


def asks_of(
    contesting: tuple[Reason, ...], how: Recovering, ran: tuple[Evidence, ...], composed: Composed | None
) -> Asks:
    """What is to be written: what he takes upon himself, and the claim if nothing else stands against it."""
    accepting = tuple(one for one in contesting if how.acceptance.takes(one.code, one.subject))
    held = any(one.code == "claimed" for one in contesting)
    takes = how.take and held and not is_executed(composed)
    standing = tuple(one for one in contesting if one not in accepting and not (one.code == "claimed" and takes))
    return Asks(how, ran, accepting, takes, how.claim and not standing, standing)


Done = tuple[HandoffClaim | None, tuple[str, ...]]


def _write(caller: Caller, composed: Composed, asks: Asks, operation: Repeatable) -> Done:
    """The claim on a run, new or ours already, and what could not be kept. Raises Moved when somebody was quicker."""

    def work(tx: Writing) -> tuple[Done, str | None]:
        why = claims.note_checked(caller, tx, composed.run.run_id, asks.how.actor, asks.ran) if asks.ran else ""
        notes = (f"what came of the checks was not kept: {why}",) if why else ()
        ours = our_claim(caller, tx, composed, asks.how)
        renews = ours is not None and not asks.how.claim and not asks.how.listing
        claim = _taken(caller, tx, composed, asks, ours) if asks.claims else None
        if renews and ours is not None:
            beat, lease = claimer.renew(caller.home, tx, ours.process.id), tx.lease_of(composed.run.run_id)
            claim = _claim_of_run(composed, beat, lease.epoch if lease else 0, asks.how.actor)
        resume: Resume = ("attached" if asks.claims else "lost") if asks.how.claim else ""
        return (claim, notes), claims.answer_of(claim, resume, asks.ran)

    refuse_stopped()
    try:
        claim, notes = once(caller.home, operation, work, lambda answer: (claims.remembered(answer).claim, ()))
    except (RunHeld, RunFinished, RunSealed, RunNotFound) as error:
        raise Moved from error
    if claim is not None:
        caller.tokens.add(claim.id)
    return claim, notes


def _taken(caller: Caller, tx: Writing, composed: Composed, asks: Asks, ours: Beat | None) -> HandoffClaim:
    run_id, how = composed.run.run_id, asks.how
    if ours is None and not asks.takes and _claim_here(caller, tx, composed)[0] is not None:
        raise Moved  # another actor of this process was quicker
    beat = claimer.beat_of(caller, ours.process.id if ours else caller.home.ids(), ours)
    _take_anchor(caller, tx, composed, asks, beat.process.id)
    claiming = Claiming(how.actor, how.why if asks.takes else "", asks.accepting, how.why)
    epoch = claims.take_run(caller, tx, run_id, beat, claiming)
    entry = task_states.TaskEntry("resumed", how.actor, {"run_id": run_id})
    of = composed.handoff
    task_states.resumed(caller.home, tx, of.scope, of.anchor, entry, anew=ours is None, bridge=how.task)
    return _claim_of_run(composed, beat, epoch, how.actor)


def _take_anchor(caller: Caller, tx: Writing, composed: Composed, asks: Asks, token: str) -> None:
    """Take the lease of the anchor under the same claim. Raises Moved when something happened to it since."""
    found, now, how = composed.beside, asks.beside, asks.how
    if found is None or now is None:
        return
    lease = claims.unmoved(caller, tx, found, now.holder, how)
    if lease.holder == token:
        return
    if now.holder is not None and not now.holder.mine and not asks.takes:
        raise Moved  # the run was told to be held, and is free by now
    told = claims.take(caller, tx, found, now, lease, token, how)
    hold, at = anchors.hold_of(found.anchor, lease, lease.epoch + 1), caller.home.clock.now()
    tx.append(hold, [anchors.told(name, facts | caller.whence, at=at, epoch=hold.epoch) for name, facts in told])


def is_executed(composed: Composed | None) -> bool:
    """Whether somebody executes the task's run now: that is never taken."""
    return composed is not None and composed.run.status == "running"


def our_word(caller: Caller, look: Reading, composed: Composed | None, how: Recovering) -> str | None:
    """The claim on the task's run that who asks holds already: the handoff is claimed under the same."""
    beat = our_claim(caller, look, composed, how) if composed is not None else None
    return beat.process.id if beat else None


def take_too(
    caller: Caller, tx: Writing, composed: Composed | None, token: str, how: Recovering, *, takes: bool
) -> None:
    """Take the task's run under the claim on its handoff: there is one claimer of both.

    Raises Moved when somebody was quicker, or the run is over.
    """
    if composed is None or is_executed(composed):
        return
    beside, by = _claim_here(caller, tx, composed)
    if beside is not None and not takes and not _is_of(caller, beside, by, how):
        raise Moved  # another actor of this process was quicker
    claiming = Claiming(how.actor, how.why if takes else "")
    try:
        claims.take_run(caller, tx, composed.run.run_id, claimer.renew(caller.home, tx, token), claiming)
    except (RunHeld, RunFinished, RunSealed, RunNotFound) as error:
        raise Moved from error


def our_claim(caller: Caller, look: Reading, composed: Composed, how: Recovering) -> Beat | None:
    """The last sign of life of the claim of who asks, on the run or, where that was used up, on its anchor."""
    (beat, by), beside = _claim_here(caller, look, composed), composed.beside
    if beat is not None and _is_of(caller, beat, by, how):
        return beat
    lease = look.lease_of_anchor(beside.anchor.id) if beside else None
    if beside is None or lease is None or lease.holder is None:
        return None
    holder = claims.holder_for(caller, look, beside._replace(lease=lease), how)
    return look.beat_of(lease.holder) if holder is not None and holder.mine else None


def _claim_here(caller: Caller, look: Reading, composed: Composed) -> tuple[Beat | None, str]:
    """The claim by which somebody of this process, or at this terminal, may resume the run, and whose it is."""
    row, lease = look.run_by_id(composed.run.run_id), look.lease_of(composed.run.run_id)
    if row is None or lease is None or lease.holder is None or holders.is_executing(row):
        return None, ""
    beat = look.beat_of(lease.holder)
    is_ours = beat is not None and claimer.is_ours(caller, lease.holder, beat)
    return (beat, holders.claimed_by(look, row, lease)) if is_ours else (None, "")


def _is_of(caller: Caller, beat: Beat, by: str, how: Recovering) -> bool:
    """Whether the claim is that of who asks: he made it, or shows it."""
    return claimer.asker(caller, how.actor, alone=how.task) in (None, by) or how.claim_id == beat.process.id


def _claim_of_run(composed: Composed, beat: Beat, epoch: int, actor: str) -> HandoffClaim:
    handoff, until = composed.handoff, moment(claimer.until(beat))
    return HandoffClaim(beat.process.id, handoff.anchor, handoff.id, 0, epoch, actor, until, composed.run.run_id)


def renew(caller: Caller, composed: Composed, asked: HandoffQuery, claim_id: str | None, actor: str) -> HandoffClaim:
    """The claim on what is composed from a run, its time begun anew. Raises ClaimLost, HandoffClaimed."""
    how = Recovering(actor=actor, claim_id=claim_id)
    our_claim_on(caller, composed, how)
    claim, _ = _write(caller, composed, Asks(how), claims.operation_of(asked, how))
    if claim is None:
        raise ClaimLost("of yours", composed.handoff.anchor, "you hold no claim on its run now")
    return claim


def release(home: Home, tx: Writing, composed: Composed, claim: Beat, facts: dict[str, Any]) -> None:
    """Give the claim on a run back. Raises ClaimLost when it is over."""
    if not claims.give_back(home, tx, composed.run.run_id, claim.process.id, facts):
        raise ClaimLost(claimer.named(claim.process.id), composed.handoff.anchor, "nobody holds a claim on it now")


def our_claim_on(caller: Caller, composed: Composed, how: Recovering) -> Beat:
    """The claim on the run that who asks holds. Raises ClaimLost, HandoffClaimed when somebody else holds it."""
    anchor = composed.handoff.anchor
    show(caller, composed, how.claim_id)
    held = caller.home.store.read(lambda look: our_claim(caller, look, composed, how))
    if held is not None:
        return held
    others = (*composed.reasons, *_held_beside(caller, composed, how))
    claimed = next((one.found for one in others if one.code == "claimed"), "")
    if claimed:
        raise HandoffClaimed(anchor, claimed, "it is given back, or its run ends")
    raise ClaimLost("of yours", anchor, "you hold no claim on its run now")
