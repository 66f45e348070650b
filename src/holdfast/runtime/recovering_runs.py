"""Recovering what is composed from a task's run: judged as any handoff, claimed by taking the run's lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.clock import moment
from holdfast.domain.codec import encode, jsonable
from holdfast.domain.handoff import Evidence, HandoffClaim
from holdfast.domain.lease import Beat
from holdfast.domain.recovered import Recovered
from holdfast.domain.trust import Known, verdict_of
from holdfast.domain.verdict import Reason, Verdict
from holdfast.errors import ClaimLost, HandoffInvalid, RunFinished, RunHeld, RunNotFound, RunSealed
from holdfast.runtime import handoffs, tokens
from holdfast.runtime.claims import is_executing
from holdfast.runtime.composing import Claiming, Composed, take_run
from holdfast.runtime.handoffs import Asked
from holdfast.runtime.recovering import (
    Moved,
    Recovering,
    composed_of,
    look_at,
    operation_of,
    refuse_unmatched,
    remembered,
)
from holdfast.store.contract import Reading, Writing

if TYPE_CHECKING:
    from holdfast.runtime import Runtime


def show(runtime: Runtime, composed: Composed | None, claim_id: str | None) -> bool:
    """Whether the claim that holds the run is shown for the first time. Raises ClaimLost when another one holds it."""
    if composed is None or claim_id is None:
        return False
    lease = runtime.store.read(lambda look: look.lease_of(composed.run.run_id))
    if lease is None or lease.holder != claim_id:
        raise ClaimLost(claim_id, composed.handoff.anchor, "its run was resumed since, or somebody else has taken it")
    first = claim_id not in runtime.tokens
    runtime.tokens.add(claim_id)
    return first


def recover(
    runtime: Runtime, composed: Composed, asked: Asked, how: Recovering, ran: tuple[Evidence, ...]
) -> Recovered:
    """What the run gives, with its verdict here and now; claimed if that is asked for. Raises Moved."""
    handoff = composed.handoff
    root, seen = look_at(runtime, handoff, asked.repo_root, ran)
    known = Known(handoff=handoff, newest=handoff.revision, given=composed.reasons, composed=True)
    verdict = verdict_of(known, seen, runtime.clock.now())
    refuse_unmatched(verdict, how)
    if how.accept and not how.claim:
        why = "what is composed from a run is accepted on the run's record, by who claims it"
        raise HandoffInvalid("accept", why, "claim it as well: claim=True (--claim)")
    standing, accepting = _divided(verdict, composed, how)
    claim, resume = None, ""
    if how.claim:
        claim, resume = (None, "lost") if standing else (_claim_run(runtime, composed, how, accepting), "attached")
    elif runtime.store.read(lambda look: _our_claim(runtime, look, composed)):
        renewed = _claim_run(runtime, composed, how, ())
        claim = renewed if how.claim_id is not None else None
    held = claim is not None or any(one.code == "claimed" for one in verdict.reasons)
    contested = str(verdict) == "contested"
    return Recovered(
        verdict=verdict,
        handoff=handoff,
        standing="claimed" if held else "contested" if contested else "open",
        root=root,
        evidence=ran,
        claim=claim,
        resume=resume,  # type: ignore[arg-type]
        accepted=(*composed.accepted, *(one.fingerprint for one in accepting if claim is not None)),
        run=composed.run,
    )


def _divided(verdict: Verdict, composed: Composed, how: Recovering) -> tuple[list[Reason], tuple[Reason, ...]]:
    """What keeps the run from being claimed, and what is accepted with the claim. One that executes is never taken."""
    contesting = [
        one for one in verdict.contesting if one.code == "claimed" or one.fingerprint not in composed.accepted
    ]
    accepting = tuple(one for one in contesting if how.acceptance.takes(one.code, one.subject))
    executes = composed.run.status == "running"
    taken = [one for one in contesting if one.code == "claimed" and how.take]
    standing = [one for one in contesting if one not in (*accepting, *taken) or (one.code == "claimed" and executes)]
    return standing, accepting


def _claim_run(runtime: Runtime, composed: Composed, how: Recovering, accepting: tuple[Reason, ...]) -> HandoffClaim:
    """The claim on a run: the one that is ours already, or a new one. Raises Moved when somebody was quicker."""
    run_id, operation = composed.run.run_id, operation_of(composed.handoff.id, how)
    takes = any(one.code == "claimed" for one in composed.reasons)
    claiming = Claiming(how.actor, how.why if takes else "", accepting, how.why)

    def work(tx: Writing) -> HandoffClaim:
        before = operation.answered(tx)
        claim = remembered(before)[0] if before is not None else None
        if claim is not None:
            return claim
        held = _our_claim(runtime, tx, composed)
        beat = tokens.beat_of(runtime, held.process.id if held else runtime.ids(), held)
        epoch = take_run(runtime, tx, run_id, beat, claiming)
        claim = _claim_of_run(composed, beat, epoch, how.actor)
        operation.note(tx, encode([jsonable(claim), "attached"]).decode(), runtime.clock.now())
        return claim

    try:
        claim = runtime.store.write(work)
    except (RunHeld, RunFinished, RunSealed, RunNotFound) as error:
        raise Moved from error
    runtime.tokens.add(claim.id)
    return claim


def _our_claim(runtime: Runtime, look: Reading, composed: Composed) -> Beat | None:
    """The last sign of life of the claim by which we may resume the run; None without one."""
    row, lease = look.run_by_id(composed.run.run_id), look.lease_of(composed.run.run_id)
    if row is None or lease is None or lease.holder is None or is_executing(row):
        return None
    beat = look.beat_of(lease.holder)
    return beat if beat is not None and tokens.is_ours(runtime, lease.holder, beat) else None


def _claim_of_run(composed: Composed, beat: Beat, epoch: int, actor: str) -> HandoffClaim:
    handoff, until = composed.handoff, moment(tokens.until(beat))
    return HandoffClaim(beat.process.id, handoff.anchor, handoff.id, 0, epoch, actor, until, composed.run.run_id)


def renew(runtime: Runtime, asked: Asked, claim_id: str | None, actor: str) -> HandoffClaim:
    """The claim on what is composed from a run, its time begun anew. Raises ClaimLost, HandoffNotFound."""
    composed = composed_of(runtime, asked, None)
    if composed is None:
        raise handoffs.not_found(runtime, asked)
    show(runtime, composed, claim_id)
    if not runtime.store.read(lambda look: _our_claim(runtime, look, composed)):
        raise ClaimLost("of yours", composed.handoff.anchor, "you hold no claim on its run now")
    return _claim_run(runtime, composed, Recovering(actor=actor, claim_id=claim_id), ())
