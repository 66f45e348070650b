"""Recovering what is composed from a task's run: judged as any handoff, claimed by taking the run's lease."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.clock import moment
from holdfast.domain.handoff import Evidence, HandoffClaim
from holdfast.domain.lease import Beat
from holdfast.domain.recovered import Recovered
from holdfast.domain.trust import Known, verdict_of
from holdfast.domain.verdict import Reason, Verdict
from holdfast.errors import ClaimLost, HandoffClaimed, HandoffInvalid, RunFinished, RunHeld, RunNotFound, RunSealed
from holdfast.runtime import operations, task_states, tokens
from holdfast.runtime.claims import claimed_by, is_executing
from holdfast.runtime.composing import Claiming, Composed, give_back, note_checked, take_run
from holdfast.runtime.handoff_answers import Resume, answer_of, operation_of, remembered
from holdfast.runtime.handoffs import Asked
from holdfast.runtime.operations import Operation
from holdfast.runtime.recovering import Moved, Recovering, look_at, refuse_unmatched
from holdfast.runtime.stopping import refuse_stopped
from holdfast.store.contract import Reading, Writing

if TYPE_CHECKING:
    from holdfast.runtime import Runtime


def show(runtime: Runtime, composed: Composed | None, claim_id: str | None) -> bool:
    """Whether the claim that holds the run is shown for the first time. Raises ClaimLost when another one holds it."""
    if composed is None or claim_id is None:
        return False
    lease = runtime.store.read(lambda look: look.lease_of(composed.run.run_id))
    if lease is None or lease.holder != claim_id:
        why = "its run was resumed since, or somebody else has taken it"
        raise ClaimLost(tokens.named(claim_id), composed.handoff.anchor, why)
    first = claim_id not in runtime.tokens
    runtime.tokens.add(claim_id)
    return first


def recover(
    runtime: Runtime,
    composed: Composed,
    asked: Asked,
    how: Recovering,
    operation: Operation,
    ran: tuple[Evidence, ...],
) -> Recovered:
    """What the run gives, with its verdict here and now; claimed if that is asked for. Raises Moved."""
    handoff = composed.handoff
    root, seen = look_at(runtime, handoff, asked.repo_root, ran)
    given = (*composed.reasons, *_held_beside(runtime, composed, how))
    known = Known(handoff=handoff, newest=handoff.revision, given=given, composed=True)
    verdict = verdict_of(known, seen, runtime.clock.now())
    refuse_unmatched(verdict, how)
    if how.accept and not how.claim:
        why = "what is composed from a run is accepted on the run's record, by who claims it"
        raise HandoffInvalid("accept", why, "claim it as well: claim=True (--claim)")
    standing, accepting = _divided(verdict, composed, how)
    takes = how.take and any(one.code == "claimed" for one in verdict.contesting)
    asks = _Asks(how, ran, accepting, takes, claims=how.claim and not standing)
    claim, notes = _written(runtime, composed, asks, operation)
    resume: Resume = ("attached" if claim is not None else "lost") if how.claim else ""
    claim = claim if how.claim or how.claim_id is not None else None
    held = claim is not None or any(one.code == "claimed" for one in verdict.reasons)
    contested = str(verdict) == "contested"
    return Recovered(
        verdict=verdict,
        handoff=handoff,
        standing="claimed" if held else "contested" if contested else "open",
        root=root,
        evidence=ran,
        claim=claim,
        resume=resume,
        accepted=(*composed.accepted, *(one.fingerprint for one in accepting if claim is not None)),
        run=composed.run,
        notes=notes,
    )


def _held_beside(runtime: Runtime, composed: Composed, how: Recovering) -> tuple[Reason, ...]:
    """The claim of another actor of this very process: what the run gives does not tell the two apart."""
    if any(one.code == "claimed" for one in composed.reasons):
        return ()

    def look_at_claim(look: Reading) -> tuple[Beat | None, str]:
        return _claim_here(runtime, look, composed), _claimed_by(look, composed)

    beat, by = runtime.store.read(look_at_claim)
    if beat is None or _is_of(runtime, beat, by, how):
        return ()
    name = composed.handoff.anchor
    found = f"{by} ({beat.process}), until {moment(tokens.until(beat)):%Y-%m-%d %H:%M} UTC"
    advice = f"wait, or take it over: holdfast handoff claim {quote(name)} --take --why WHY"
    return (Reason("claimed", name, "free", found, advice),)


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


class _Asks(NamedTuple):
    """What is to be written into the run's journal."""

    how: Recovering
    ran: tuple[Evidence, ...] = ()
    accepting: tuple[Reason, ...] = ()
    takes: bool = False  # from somebody else
    claims: bool = False


Done = tuple[HandoffClaim | None, tuple[str, ...]]


def _written(runtime: Runtime, composed: Composed, asks: _Asks, operation: Operation) -> Done:
    """The claim on a run, new or ours already, and what could not be kept. Raises Moved when somebody was quicker."""

    def work(tx: Writing) -> tuple[Done, str | None]:
        notes = _keep(runtime, tx, composed, asks)
        ours = our_claim(runtime, tx, composed, asks.how)
        renews = ours is not None and not asks.how.claim
        claim = _taken(runtime, tx, composed, asks, ours) if asks.claims or renews else None
        resume: Resume = ("attached" if asks.claims else "lost") if asks.how.claim else ""
        return (claim, notes), answer_of(claim, resume, asks.ran)

    refuse_stopped()
    try:
        claim, notes = operations.once(runtime, operation, work, lambda answer: (remembered(answer).claim, ()))
    except (RunHeld, RunFinished, RunSealed, RunNotFound) as error:
        raise Moved from error
    if claim is not None:
        runtime.tokens.add(claim.id)
    return claim, notes


def _keep(runtime: Runtime, tx: Writing, composed: Composed, asks: _Asks) -> tuple[str, ...]:
    """Put what came of the checks on the run's record; what there is to say when that cannot be."""
    if not asks.ran:
        return ()
    why = note_checked(runtime, tx, composed.run.run_id, asks.how.actor, asks.ran)
    return (f"what came of the checks was not kept: {why}",) if why else ()


def _taken(runtime: Runtime, tx: Writing, composed: Composed, asks: _Asks, ours: Beat | None) -> HandoffClaim:
    run_id, how = composed.run.run_id, asks.how
    if ours is None and not asks.takes and _claim_here(runtime, tx, composed) is not None:
        raise Moved  # another actor of this process was quicker
    beat = tokens.beat_of(runtime, ours.process.id if ours else runtime.ids(), ours)
    claiming = Claiming(how.actor, how.why if asks.takes else "", asks.accepting, how.why)
    epoch = take_run(runtime, tx, run_id, beat, claiming)
    if how.claim:
        entry = task_states.Entry("resumed", how.actor, {"run_id": run_id})
        of = composed.handoff
        task_states.resumed(runtime, tx, of.scope, of.anchor, entry, anew=ours is None, bridge=how.task)
    return _claim_of_run(composed, beat, epoch, how.actor)


def our_claim(runtime: Runtime, look: Reading, composed: Composed, how: Recovering) -> Beat | None:
    """The last sign of life of the claim by which who asks may resume the run; None without one."""
    beat = _claim_here(runtime, look, composed)
    return beat if beat is not None and _is_of(runtime, beat, _claimed_by(look, composed), how) else None


def _claim_here(runtime: Runtime, look: Reading, composed: Composed) -> Beat | None:
    """The claim by which somebody of this process, or at this terminal, may resume the run."""
    row, lease = look.run_by_id(composed.run.run_id), look.lease_of(composed.run.run_id)
    if row is None or lease is None or lease.holder is None or is_executing(row):
        return None
    beat = look.beat_of(lease.holder)
    return beat if beat is not None and tokens.is_ours(runtime, lease.holder, beat) else None


def _is_of(runtime: Runtime, beat: Beat, by: str, how: Recovering) -> bool:
    """Whether the claim is that of who asks: he made it, or shows it."""
    return tokens.asker(runtime, how.actor, alone=how.task) in (None, by) or how.claim_id == beat.process.id


def _claimed_by(look: Reading, composed: Composed) -> str:
    row, lease = look.run_by_id(composed.run.run_id), look.lease_of(composed.run.run_id)
    return claimed_by(look, row, lease) if row is not None and lease is not None else ""


def _claim_of_run(composed: Composed, beat: Beat, epoch: int, actor: str) -> HandoffClaim:
    handoff, until = composed.handoff, moment(tokens.until(beat))
    return HandoffClaim(beat.process.id, handoff.anchor, handoff.id, 0, epoch, actor, until, composed.run.run_id)


def renew(runtime: Runtime, composed: Composed, asked: Asked, claim_id: str | None, actor: str) -> HandoffClaim:
    """The claim on what is composed from a run, its time begun anew. Raises ClaimLost, HandoffClaimed."""
    how = Recovering(actor=actor, claim_id=claim_id)
    our_claim_on(runtime, composed, how)
    claim, _ = _written(runtime, composed, _Asks(how), operation_of(asked, how))
    if claim is None:
        raise ClaimLost("of yours", composed.handoff.anchor, "you hold no claim on its run now")
    return claim


def release(runtime: Runtime, tx: Writing, composed: Composed, claim: Beat, facts: dict[str, Any]) -> None:
    """Give the claim on a run back. Raises ClaimLost when it is over."""
    if not give_back(runtime, tx, composed.run.run_id, claim.process.id, facts):
        raise ClaimLost(tokens.named(claim.process.id), composed.handoff.anchor, "nobody holds a claim on it now")


def our_claim_on(runtime: Runtime, composed: Composed, how: Recovering) -> Beat:
    """The claim on the run that who asks holds. Raises ClaimLost, HandoffClaimed when somebody else holds it."""
    anchor = composed.handoff.anchor
    show(runtime, composed, how.claim_id)
    held = runtime.store.read(lambda look: our_claim(runtime, look, composed, how))
    if held is not None:
        return held
    others = (*composed.reasons, *_held_beside(runtime, composed, how))
    claimed = next((one.found for one in others if one.code == "claimed"), "")
    if claimed:
        raise HandoffClaimed(anchor, claimed, "it is given back, or its run ends")
    raise ClaimLost("of yours", anchor, "you hold no claim on its run now")
