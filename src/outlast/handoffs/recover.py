"""Recovering a handoff: found, looked at, judged; and, when asked for, claimed.

The verdict is made outside of any transaction (files are hashed, checks may run for minutes). What is then written
holds only for the anchor as it was read: if it moved meanwhile, it is read and judged again. What is composed from a
run is judged here too, and claimed in `recover_run.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from outlast.clock import moment
from outlast.errors import ClaimLost, HandoffClaimed, HandoffContested, HandoffInvalid, IntegrityBroken
from outlast.files.ask_git import one_look
from outlast.handoffs import anchor as anchors
from outlast.handoffs import claim as claims
from outlast.handoffs import foreign
from outlast.handoffs import recover_run as runs
from outlast.handoffs.anchor import FoundHandoff, accept_rival, believed, note_read, was_looked_at
from outlast.handoffs.claim import Asks, Judged, Moved, Recovering, Resume
from outlast.handoffs.evidence import content_during
from outlast.handoffs.find import HandoffQuery, Subject, claimed_subject, finished, standing_of, subject_of
from outlast.handoffs.foreign import check_agree
from outlast.handoffs.handoff import Evidence, Handoff, HandoffClaim, Recovered
from outlast.handoffs.observer import observer_of, other_place
from outlast.handoffs.task_state import TaskEntry, resumed
from outlast.handoffs.verdict import HandoffFacts, Observed, edited_in, verdict_of
from outlast.home import claimer
from outlast.home.caller import Repeatable, check_id, once
from outlast.ledger.verdict import Reason
from outlast.store.contract import LeaseRow, Reading, Writing
from outlast.values.ambient import refuse_stopped
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast.handoffs.compose import Composed
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor


def recover(executor: Executor, asked: HandoffQuery, how: Recovering) -> Recovered:
    """The handoff that was asked for, with its verdict here and now.

    Raises HandoffNotFound, HandoffAmbiguous, Finished, ClaimLost, HandoffInvalid, ForeignCommands.
    """
    check(executor.home, how)
    operation = claims.operation_of(asked, how)
    before = executor.home.store.read(operation.answered) if operation.id is not None else None
    if before is not None:
        return _again(executor, asked, how, before)
    ran: tuple[Evidence, ...] = ()
    ran_for: tuple[Any, ...] | None = None
    while True:
        subject = subject_of(executor, asked)
        if subject.found is not None:
            _refuse_over(executor.caller, subject.found, how)
        elif runs.show(executor.caller, subject.composed, how.claim_id):
            continue  # it was judged as for somebody else
        handoff = subject.handoff
        checks = (handoff.id, handoff.acceptance_checks)
        if how.run_checks and ran_for != checks:  # what came of another revision's checks says nothing about this one
            ran, ran_for = _run_checks(executor, subject, asked.repo_root, how), checks
        try:
            return _judge_and_write(executor.caller, subject, asked.repo_root, how, operation, ran)
        except Moved:
            continue


def _judge_and_write(
    caller: Caller,
    subject: Subject,
    repo_root: str | None,
    how: Recovering,
    operation: Repeatable,
    ran: tuple[Evidence, ...],
) -> Recovered:
    """Raises Moved."""
    found, composed = subject.found, subject.composed
    if found is not None:
        now = judge_handoff(caller, found, repo_root, ran, composed, how)
        return _answer(caller, found, now, how, operation, ran, composed)
    assert composed is not None
    beside = judge_handoff(caller, composed.beside, repo_root, (), None, how) if composed.beside else None
    given = runs.reasons_with(caller, composed, how, beside)
    now = judge_run(caller, composed, repo_root, ran, given, foreign_note(caller, composed.beside))
    return runs.answer(caller, composed, now, beside, how, operation, ran)


def _refuse_over(caller: Caller, found: FoundHandoff, how: Recovering) -> None:
    """Raises Finished, ClaimLost."""
    if found.anchor.status == "finished" and (how.claim or not how.include_finished):
        raise finished(found)
    claims.refuse_lost(caller, found, how.claim_id)


def _again(executor: Executor, asked: HandoffQuery, how: Recovering, answer: str) -> Recovered:
    """What the first of equal writes gave, with a verdict of now; nothing is done twice."""
    claim, resume, evidence = claims.remembered(answer)
    if claim is not None:
        executor.caller.tokens.add(claim.id)
        if asked.anchor is None and not claim.run_id:
            asked = HandoffQuery(asked.scope, handoff_id=claim.handoff_id, repo_root=asked.repo_root)
    looking = Recovering(actor=how.actor, include_finished=True)
    return replace(recover(executor, asked, looking), claim=claim, resume=resume, evidence=evidence)


def check(home: Home, how: Recovering) -> None:
    """Raises HandoffInvalid, NameInvalid, SecretFound for what cannot be asked so."""
    check_id(how.operation_id)
    if how.agree is not None:
        check_agree(how.agree, runs=how.run_checks)
    if not isinstance(how.why, str):
        raise HandoffInvalid("why", "it is no text", "say why in words")
    if how.why:
        home.secrets.check(how.why, "why")
    for number, word in enumerate(how.accept):
        if not isinstance(word, str):
            raise HandoffInvalid(f"accept[{number}]", "it is no text", "name a reason: CODE or CODE:SUBJECT")
        if word.partition(":")[0] == "claimed":
            why = "the claim of somebody else is not accepted but taken, or waited for"
            raise HandoffInvalid(f"accept[{number}]", why, "take it: take=True, why=… (--take --why WHY)")
    if how.take and not how.claim:
        raise HandoffInvalid("take", "nothing is claimed", "claim it as well: claim=True (--claim)")
    if (how.accept or how.take) and not how.why.strip():
        field = "accept" if how.accept else "take"
        raise HandoffInvalid("why", f"it is empty, and {field} needs a reason", "say why; it is on the record")


# -- the verdict -------------------------------------------------------------------------------------


def judge_handoff(
    caller: Caller,
    found: FoundHandoff,
    repo_root: str | None,
    ran: tuple[Evidence, ...],
    composed: Composed | None = None,
    how: Recovering | None = None,
) -> Judged:
    """The verdict on a handoff as it was found, looked at here and now."""
    home, handoff = caller.home, found.handoff
    root, seen = _look(caller, handoff, repo_root, ran)
    holder = home.store.read(lambda look: claims.holder_for(caller, look, found, how)) if found.lease.holder else None
    known = replace(
        _with_refs(home, anchors.known_of(home, found, holder, _unreadable(home, found))),
        foreign=foreign_note(caller, found),
        elsewhere=None if root else _place_note(caller, handoff),
        looked_at=handoff.unread is not None and home.store.read(lambda look: was_looked_at(look, handoff)),
        given=() if composed is None else runs.reasons_of(caller, composed, how),
    )
    at = home.clock.now()
    return Judged(verdict_of(known, seen, at), known, seen, root, holder, at)


def judge_run(
    caller: Caller,
    composed: Composed,
    repo_root: str | None,
    ran: tuple[Evidence, ...],
    given: tuple[Reason, ...],
    foreign: Reason | None = None,
) -> Judged:
    """The verdict on what is composed from a run, looked at here and now. `given`: what its plan says against it."""
    home, handoff = caller.home, composed.handoff
    root, seen = _look(caller, handoff, repo_root, ran)
    evidence = runs.evidence_of(home, composed)
    known = HandoffFacts(handoff=handoff, newest=handoff.revision, given=given, composed=True, evidence=evidence)
    elsewhere = None if root else _place_note(caller, handoff)
    known = replace(_with_refs(home, known), foreign=foreign, elsewhere=elsewhere)
    at = home.clock.now()
    return Judged(verdict_of(known, seen, at), known, seen, root, None, at)


def foreign_note(caller: Caller, found: FoundHandoff | None) -> Reason | None:
    """That the commands of a handoff are somebody else's, if it can be read at all."""
    if found is None or found.broken is not None or not found.handoff.acceptance_checks:
        return None
    may_be_foreign = found.arrived or found.handoff.key_id or found.handoff.source == "hook" or caller.home.adopted
    if caller.looks and not may_be_foreign:
        return None  # written here: there is nothing to load
    return foreign.note_of(found.handoff, foreign.foreign_to(caller, found))


def _place_note(caller: Caller, handoff: Handoff) -> Reason | None:
    """That nobody looked at its files because they are not known to be where who asks is."""
    here = observer_of(caller).elsewhere(caller, handoff)
    return other_place(handoff, here) if here else None


def _look(
    caller: Caller, handoff: Handoff, repo_root: str | None, ran: tuple[Evidence, ...]
) -> tuple[str, Observed | None]:
    """Where the files were looked at, and what was seen; nothing when they are not here."""
    observer = observer_of(caller)
    with one_look():
        root = observer.place(caller, handoff, repo_root)
        if root is None:
            return "", None
        seen = observer.observe(caller.home, handoff, root)
    if not ran:
        return str(root), seen
    return str(root), replace(seen, checks={each.key: each for each in believed(caller.home, ran)})


def _run_checks(executor: Executor, subject: Subject, repo_root: str | None, how: Recovering) -> tuple[Evidence, ...]:
    handoff, observer = subject.handoff, observer_of(executor.caller)
    root = observer.place(executor.caller, handoff, repo_root)
    if root is None:
        raise observer.not_here(handoff)
    leave = foreign.leave(executor.caller, subject.found or subject.explicit, handoff, how.agree)
    between = claimer.renewal(executor.home, held_by_us(executor.caller, subject, how))
    before = observer.observe(executor.home, handoff, root).binding
    ran = observer.run_checks(executor, handoff, root, leave=leave, when=how.when, by=how.actor, between=between)
    content = content_during(before, observer.observe(executor.home, handoff, root).binding)
    return tuple(replace(each, content=content) for each in ran)


def held_by_us(caller: Caller, subject: Subject, how: Recovering) -> str | None:
    """The claim that who asks holds now."""
    found, composed = subject.found, subject.composed
    if found is None:
        assert composed is not None
        beat = caller.home.store.read(lambda look: runs.our_claim(caller, look, composed, how))
        return beat.process.id if beat else None
    holder = caller.home.store.read(lambda look: claims.holder_for(caller, look, found, how))
    return found.lease.holder if holder is not None and holder.mine else None


def _unreadable(home: Home, found: FoundHandoff) -> dict[str, str]:
    """The kept blobs that are not what was stored; of a record that is not believed none is looked at."""
    wrong: dict[str, str] = {}
    for name in found.handoff.blobs if found.broken is None else ():
        try:
            home.blobs.check(name)
        except IntegrityBroken as error:
            wrong[name] = str(error.why) if home.blobs.has(name) else "missing"
    return wrong


# -- what is written ---------------------------------------------------------------------------------


def _answer(
    caller: Caller,
    found: FoundHandoff,
    now: Judged,
    how: Recovering,
    operation: Repeatable,
    ran: tuple[Evidence, ...],
    composed: Composed | None,
) -> Recovered:
    """The answer, once what was asked for is on record: acceptances, evidence, the claim. Raises Moved."""
    claims.refuse_unmatched(now.verdict, how)
    accepted = anchors.accepted_since(found)
    contesting = claims.standing_reasons(now.verdict, accepted)
    asks = runs.asks_of(contesting, how, ran, composed)
    claim: HandoffClaim | None = None
    resume: Resume = "lost" if how.claim else ""
    uses = now.holder is not None and now.holder.mine and not how.listing
    wanted = how.claim or asks.accepting or ran or uses
    if wanted and (found.broken is None or asks.accepting):  # nothing is added to a record that is not believed
        refuse_stopped()

        def work(tx: Writing) -> tuple[tuple[HandoffClaim | None, Resume], str | None]:
            claim, resume = _write(caller, tx, found, now, asks, composed)
            return (claim, resume), claims.answer_of(claim, resume, ran)

        claim, resume = once(caller.home, operation, work, lambda answer: claims.remembered(answer)[:2])
    if claim is not None:
        caller.tokens.add(claim.id)
    wrote = claim is not None or ran or asks.accepting  # that says who it was: he has read it
    unseen = how.listing or caller.door == "hook"  # what a hook looks up nobody may ever see
    if not wrote and found.broken is None and not unseen:
        note_read(caller, found.handoff, how.actor)
    contested = any(one.code == "claimed" or one not in asks.accepting for one in contesting)
    claimed = claim is not None or now.holder is not None
    return Recovered(
        verdict=now.verdict,
        handoff=found.handoff,
        standing=standing_of(found.anchor, claimed=claimed, contested=contested, at=now.at),
        root=now.root,
        evidence=ran,
        claim=claim,
        resume=resume,
        accepted=(*accepted, *(one.fingerprint for one in asks.accepting)),
        outcome=found.anchor.outcome,
        run=composed.run if composed else None,
        diff=_edits(caller, found, now),
    )


def _edits(caller: Caller, found: FoundHandoff, now: Judged) -> str:
    """What was edited since, where that only weakens; nothing is loaded otherwise."""
    paths = edited_in(now.verdict)
    if not paths or now.seen is None or not caller.looks:
        return ""
    from outlast.handoffs.difference import edits

    return edits(caller.home, found.handoff, now.root, now.seen.binding, paths)


def _write(
    caller: Caller, tx: Writing, found: FoundHandoff, now: Judged, asks: Asks, composed: Composed | None
) -> tuple[HandoffClaim | None, Resume]:
    """All of it in one transaction: the claim that this gave or used, and whether the one who asked for it got it."""
    how, anchor = asks.how, found.anchor
    lease = claims.unmoved(caller, tx, found, now.holder, how)
    token = lease.holder if now.holder and now.holder.mine else None
    if token is not None:
        claimer.renew(caller.home, tx, token)
    entries, epoch = [*_taken_upon(caller, tx, found, now, asks)], lease.epoch
    if asks.claims and token is None:
        token, epoch = runs.our_word(caller, tx, composed, how) or caller.home.ids(), lease.epoch + 1
        entries += claims.take(caller, tx, found, now, lease, token, how)
    elif asks.claims and token is not None and not claims.is_known_to_claimer(found):
        name, facts = claims.attached(token, now, how)
        entries.append((name, facts | {"files": claims.files_seen(now)}))
    elif how.claim and not asks.claims and how.tell_losses and any(one.code != "claimed" for one in asks.standing):
        entries.append(("lost", {"by": how.actor, "reasons": [one.to_dict() for one in asks.standing]}))
    if asks.claims and token is not None:
        runs.take_too(caller, tx, composed, token, how, takes=asks.takes)
    _append(caller, tx, found, lease, epoch, entries, asks.ran)
    if asks.claims:
        entry = TaskEntry("resumed", how.actor, {"handoff_id": found.handoff.id, "revision": found.handoff.revision})
        anew = epoch != lease.epoch
        resumed(caller.home, tx, anchor.scope, anchor.anchor, entry, anew=anew, bridge=how.task)
    claim = _claim(tx, found, token, epoch, how.actor) if token is not None and (how.claim or how.claim_id) else None
    return claim, ("attached" if asks.claims else "lost") if how.claim else ""


def _taken_upon(
    caller: Caller, tx: Writing, found: FoundHandoff, now: Judged, asks: Asks
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What somebody takes upon himself, and what came of checks, as entries."""
    if any(one.code == "rival" for one in asks.accepting):
        accept_rival(tx, found.handoff, caller.home.clock.now())
    by = asks.how.actor
    if asks.accepting:
        reasons = [{"fingerprint": one.fingerprint, **one.to_dict()} for one in asks.accepting]
        yield "accepted", {"by": by, "why": asks.how.why, "reasons": reasons}
    if asks.ran:
        yield "checked", {"by": by, "evidence": jsonable(asks.ran), "files": claims.files_seen(now)}


def _append(
    caller: Caller,
    tx: Writing,
    found: FoundHandoff,
    lease: LeaseRow,
    epoch: int,
    entries: list[tuple[str, dict[str, Any]]],
    ran: tuple[Evidence, ...],
) -> None:
    blobs = {"checked": [each.output for each in ran if each.output]}  # kept by the entry that names them
    at = caller.home.clock.now()
    told = [
        anchors.told(name, facts | caller.whence, at=at, epoch=epoch, blobs=blobs.get(name, ()))
        for name, facts in entries
    ]
    tx.append(anchors.hold_of(found.anchor, lease, epoch), told)


def _claim(look: Reading, found: FoundHandoff, token: str, epoch: int, actor: str) -> HandoffClaim:
    beat = look.beat_of(token)
    assert beat is not None
    handoff = found.handoff
    until = moment(claimer.until(beat))
    return HandoffClaim(token, handoff.anchor, handoff.id, handoff.revision, epoch, actor, until)


# -- claiming and renewing ---------------------------------------------------------------------------


def claim(executor: Executor, asked: HandoffQuery, how: Recovering) -> HandoffClaim:
    """The exclusive right to continue. Raises HandoffClaimed, HandoffContested, Finished."""
    how = replace(how, claim=True, tell_losses=False)
    check(executor.home, how)
    before = executor.home.store.read(claims.operation_of(asked, how).answered)
    # also when the work is over, and its run gone
    claim = claims.remembered(before).claim if before is not None else None
    if claim is None:
        got = recover(executor, asked, how)
        if got.claim is None:
            raise refusal(got, how)
        claim = got.claim
    executor.caller.tokens.add(claim.id)
    return claim


def refusal(got: Recovered, how: Recovering) -> HandoffClaimed | HandoffContested:
    """Why a claim that was asked for was not given."""
    standing = claims.standing_reasons(got.verdict, got.accepted)
    held = [one for one in standing if one.code == "claimed"]
    others = [one for one in standing if one not in held]
    if held and not (how.take and others):
        holder, _, until = held[0].found.rpartition(", until ")
        return HandoffClaimed(got.anchor, holder or held[0].found, until if holder else "its run ends")
    return HandoffContested(got.anchor, "; ".join(f"{one.code} ({one.subject}: {one.found})" for one in others))


def _unclaimed(caller: Caller, found: FoundHandoff, actor: str) -> ClaimLost | HandoffInvalid:
    """What who renews is told when nobody holds the claim."""
    lost = claims.lost_error(caller, found, claimer.asker(caller, actor))
    why, name = "nobody holds a claim on it now", found.anchor.anchor
    return lost or HandoffInvalid("anchor", why, f"claim it: claim({name!r}) (outlast handoff claim {quote(name)})")


def renew(executor: Executor, asked: HandoffQuery, claim_id: str | None, actor: str) -> HandoffClaim:
    """Begin the claim's time anew. Raises ClaimLost, HandoffClaimed."""
    subject = claimed_subject(executor, asked, claim_id, actor)
    if subject.found is None:
        assert subject.composed is not None
        return runs.renew(executor.caller, subject.composed, asked, claim_id, actor)
    anchor, revision = subject.found.anchor, subject.found.handoff.revision

    def work(tx: Writing) -> HandoffClaim:
        row = tx.handoff_at(anchor.key, revision)
        assert row is not None
        found = anchors.find(tx, anchor, row)
        claims.refuse_lost(executor.caller, found, claim_id)
        holder = claims.holder_of(executor.caller, tx, found, claimer.asker(executor.caller, actor), claim_id=claim_id)
        if holder is not None and not holder.mine:
            raise claims.refused_error(executor.caller, found, holder, claimer.asker(executor.caller, actor))
        if holder is None:
            raise _unclaimed(executor.caller, found, actor)
        token = str(found.lease.holder)
        claimer.renew(executor.home, tx, token)
        return _claim(tx, found, token, found.lease.epoch, actor)

    return executor.home.store.write(work)


def _with_refs(home: Home, known: HandoffFacts) -> HandoffFacts:
    """The recorded facts with what became of what the handoff refers to and rests on. Most rest on nothing."""
    linked = bool(known.handoff.refs) or bool(home.store.read(lambda look: look.links_after(0, 1)))
    if known.broken or not linked:
        return known
    from outlast.workspace.why import fallen, is_here, spoilt

    handoff = known.handoff
    refs, own = handoff.refs, () if known.composed else (f"handoff:{handoff.id}",)
    gone = home.store.read(lambda look: [ref for ref in refs if not is_here(look, ref)])
    there = [ref for ref in refs if ref not in gone]
    down = home.store.read(lambda look: fallen(look, [*own, *there]))
    lost = [("artifact_missing", ref, "it is not in this home") for ref in gone]
    return replace(known, fallen=down, lost=(*lost, *spoilt(home, there)))
