"""Recovering a handoff: found, looked at, judged; and, when asked for, claimed.

The verdict is made outside of any transaction (files are hashed, checks may run for minutes). What is then written
holds only for the anchor as it was read: if it moved meanwhile, it is read and judged again. What is composed from a
run is `recover_run.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from outlast.clock import moment
from outlast.errors import ClaimLost, HandoffClaimed, HandoffContested, HandoffInvalid, IntegrityBroken
from outlast.handoffs import anchor as anchors
from outlast.handoffs import find as handoffs
from outlast.handoffs.anchor import FoundHandoff, refuse_lost
from outlast.handoffs.answers import Resume, answer_of, operation_of, remembered
from outlast.handoffs.counting import content_during, weighed
from outlast.handoffs.find import HandoffQuery
from outlast.handoffs.handoff import Evidence, Handoff, HandoffClaim
from outlast.handoffs.observer import observer_of
from outlast.handoffs.recovered import Recovered
from outlast.handoffs.subject import Subject, claimed_subject, finished, subject_of
from outlast.handoffs.verdict import HandoffFacts, Holder, Observed, edited_in, verdict_of
from outlast.home import claimer
from outlast.home import once as operations
from outlast.home.acceptance import Acceptance
from outlast.home.once import Operation, check_id
from outlast.ledger.verdict import Reason, Verdict, unaccepted
from outlast.store.contract import LeaseRow, Reading, Writing
from outlast.values.ambient import refuse_stopped
from outlast.values.codec import jsonable
from outlast.values.frozen import NamedTuple, dataclass

if TYPE_CHECKING:
    from outlast.handoffs.compose import Composed
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovering:
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


class Moved(Exception):
    """The anchor is not as it was when it was judged."""


def recover(executor: Executor, asked: HandoffQuery, how: Recovering) -> Recovered:
    """The handoff that was asked for, with its verdict here and now.

    Raises HandoffNotFound, HandoffAmbiguous, Finished, ClaimLost, HandoffInvalid, ForeignCommands.
    """
    check(executor.home, how)
    operation = operation_of(asked, how)
    before = executor.home.store.read(operation.answered) if operation.id is not None else None
    if before is not None:
        return _again(executor, asked, how, before)
    ran: tuple[Evidence, ...] = ()
    ran_for: tuple[Any, ...] | None = None
    while True:
        subject = subject_of(executor, asked)
        if subject.found is not None:
            _refuse_over(executor.caller, subject.found, how)
        elif _shown(executor.caller, subject.composed, how.claim_id):
            continue  # it was judged as for somebody else
        checks = (subject.handoff.id, subject.handoff.acceptance_checks)
        if how.run_checks and ran_for != checks:  # what came of another revision's checks says nothing about this one
            ran, ran_for = _run_checks(executor, subject, asked.repo_root, how), checks
        try:
            return _judged_and_written(executor.caller, subject, asked, how, operation, ran)
        except Moved:
            continue


def _judged_and_written(
    caller: Caller,
    subject: Subject,
    asked: HandoffQuery,
    how: Recovering,
    operation: Operation,
    ran: tuple[Evidence, ...],
) -> Recovered:
    """Raises Moved."""
    found, composed = subject.found, subject.composed
    if found is None:
        from outlast.handoffs import recover_run as recovering_runs

        assert composed is not None
        return recovering_runs.recover(caller, composed, asked, how, operation, ran)
    now = judged(caller, found, asked.repo_root, ran, composed, how)
    return _settled_with(caller, found, now, how, operation, ran, composed)


def _shown(caller: Caller, composed: Composed | None, claim_id: str | None) -> bool:
    from outlast.handoffs import recover_run as recovering_runs

    return recovering_runs.show(caller, composed, claim_id)


def _refuse_over(caller: Caller, found: FoundHandoff, how: Recovering) -> None:
    """Raises Finished, ClaimLost."""
    if found.anchor.status == "finished" and (how.claim or not how.include_finished):
        raise finished(found)
    refuse_lost(caller, found, how.claim_id)


def _again(executor: Executor, asked: HandoffQuery, how: Recovering, answer: str) -> Recovered:
    """What the first of equal writes gave, with a verdict of now; nothing is done twice."""
    claim, resume, evidence = remembered(answer)
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
        from outlast.handoffs.foreign import check_agree

        check_agree(how.agree, runs=how.run_checks)
    if not isinstance(how.why, str):
        raise HandoffInvalid("why", "it is no text", "say why in words")
    if how.why:
        from outlast.secrets import find as secrets

        secrets.check(how.why, "why", home.secrets.rules)
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


def judged(
    caller: Caller,
    found: FoundHandoff,
    repo_root: str | None,
    ran: Iterable[Evidence],
    composed: Composed | None = None,
    how: Recovering | None = None,
) -> Judged:
    """The verdict on a handoff as it was found, looked at here and now."""
    root, seen = look_at(caller, found.handoff, repo_root, ran)
    holder = caller.home.store.read(lambda look: holder_of(caller, look, found, how)) if found.lease.holder else None
    blobs = _unreadable(caller.home, found.handoff) if found.broken is None else {}
    known = weighed(caller.home, anchors.known_of(caller.home, found, holder, blobs))
    known = replace(known, foreign=foreign_note(caller, found), elsewhere=place_note(caller, found.handoff, root))
    if found.handoff.unread is not None:
        from outlast.handoffs import reads

        known = replace(known, looked_at=caller.home.store.read(lambda look: reads.was_looked_at(look, found.handoff)))
    if composed is not None:
        from outlast.handoffs.recover_run import reasons_of

        known = replace(known, given=reasons_of(caller, composed, how))
    return Judged(verdict_of(known, seen, caller.home.clock.now()), known, seen, root, holder)


def foreign_note(caller: Caller, found: FoundHandoff | None) -> Reason | None:
    """That the commands of a handoff are somebody else's, if it can be read at all."""
    if found is None or found.broken is not None or not found.handoff.acceptance_checks:
        return None
    may_be_foreign = found.arrived or found.handoff.key_id or found.handoff.source == "hook" or caller.home.adopted
    if observer_of(caller).looks and not may_be_foreign:
        return None  # written here: there is nothing to load
    from outlast.handoffs import foreign

    return foreign.note_of(found.handoff, foreign.foreign_to(caller, found))


def place_note(caller: Caller, handoff: Handoff, root: str) -> Reason | None:
    """That nobody looked at its files because they are not known to be where who asks is."""
    if root or not (here := observer_of(caller).elsewhere(caller, handoff)):
        return None
    from outlast.handoffs.renames import other_place

    return other_place(handoff, here)


def holder_of(caller: Caller, look: Reading, found: FoundHandoff, how: Recovering | None) -> Holder | None:
    """Who holds the claim, as seen by who asks; or by anybody of this process."""
    if how is None:
        return anchors.holder_of(caller, look, found)
    actor = claimer.asker(caller, how.actor, alone=how.task)
    return anchors.holder_of(caller, look, found, actor, claim_id=how.claim_id)


def look_at(
    caller: Caller, handoff: Handoff, repo_root: str | None, ran: Iterable[Evidence]
) -> tuple[str, Observed | None]:
    """Where the files were looked at, and what was seen; nothing when they are not here."""
    root = observer_of(caller).place(caller, handoff, repo_root)
    if root is None:
        return "", None
    seen = observer_of(caller).observe(caller.home, handoff, root)
    checks = {each.key: each for each in anchors.believed(caller.home, ran)}
    return str(root), replace(seen, checks=checks) if checks else seen


def _run_checks(executor: Executor, subject: Subject, repo_root: str | None, how: Recovering) -> tuple[Evidence, ...]:
    from outlast.handoffs import foreign

    handoff = subject.handoff
    root = observer_of(executor.caller).place(executor.caller, handoff, repo_root)
    if root is None:
        raise observer_of(executor.caller).not_here(handoff)
    leave = foreign.leave(executor.caller, subject.found or subject.explicit, handoff, how.agree)
    token = held_by_us(executor.caller, subject, how)
    between = claimer.renewal(executor.home, token)
    before = observer_of(executor.caller).observe(executor.home, handoff, root).binding
    ran = observer_of(executor.caller).run_checks(
        executor, handoff, root, leave=leave, when=how.when, by=how.actor, between=between
    )
    content = content_during(before, observer_of(executor.caller).observe(executor.home, handoff, root).binding)
    return tuple(replace(each, content=content) for each in ran)


def held_by_us(caller: Caller, subject: Subject, how: Recovering) -> str | None:
    """The claim that who asks holds now."""
    from outlast.handoffs import recover_run as recovering_runs

    found, composed = subject.found, subject.composed
    if found is None:
        assert composed is not None
        beat = caller.home.store.read(lambda look: recovering_runs.our_claim(caller, look, composed, how))
        return beat.process.id if beat else None
    holder = caller.home.store.read(lambda look: holder_of(caller, look, found, how))
    return found.lease.holder if holder is not None and holder.mine else None


def _unreadable(home: Home, handoff: Handoff) -> dict[str, str]:
    """The kept blobs that are not what was stored."""
    wrong = {}
    for name in handoff.blobs:
        if not home.blobs.has(name):
            wrong[name] = "missing"
            continue
        try:
            for _ in home.blobs.pieces(name):
                pass
        except IntegrityBroken as error:
            wrong[name] = str(error.why)
    return wrong


# -- what is written ---------------------------------------------------------------------------------


def _settled_with(
    caller: Caller,
    found: FoundHandoff,
    now: Judged,
    how: Recovering,
    operation: Operation,
    ran: tuple[Evidence, ...],
    composed: Composed | None,
) -> Recovered:
    """The answer, once what was asked for is on record: acceptances, evidence, the claim. Raises Moved."""
    accepting = [one for one in _open_reasons(found, now) if how.acceptance.takes(one.code, one.subject)]
    refuse_unmatched(now.verdict, how)
    claim: HandoffClaim | None = None
    resume: Resume = "lost" if how.claim else ""
    uses = now.holder is not None and now.holder.mine and not how.listing
    asked_for = how.claim or accepting or ran or uses
    if asked_for and (found.broken is None or accepting):  # nothing is added to a record that is not believed
        refuse_stopped()
        claim, resume = operations.once(
            caller.home,
            operation,
            lambda tx: _written(caller, tx, found, now, how, ran, accepting, composed),
            lambda answer: remembered(answer)[:2],
        )
    if claim is not None:
        caller.tokens.add(claim.id)
    wrote = claim is not None or ran or accepting  # that says who it was: he has read it
    unseen = how.listing or caller.door == "hook"  # what a hook looks up nobody may ever see
    if not wrote and found.broken is None and not unseen:
        from outlast.handoffs import reads

        reads.note_read(caller, found.handoff, how.actor)
    accepted = (*anchors.accepted_since(found), *(one.fingerprint for one in accepting))
    return Recovered(
        verdict=now.verdict,
        handoff=found.handoff,
        standing=handoffs.standing_of(
            found.anchor,
            claimed=claim is not None or now.holder is not None,
            contested=bool(standing_reasons(now.verdict, accepted)),
            at=caller.home.clock.now(),
        ),
        root=now.root,
        evidence=ran,
        claim=claim,
        resume=resume,
        accepted=accepted,
        outcome=found.anchor.outcome,
        run=composed.run if composed else None,
        diff=_edits(caller, found, now),
    )


def _edits(caller: Caller, found: FoundHandoff, now: Judged) -> str:
    """What was edited since, where that only weakens; nothing is loaded otherwise."""
    paths = edited_in(now.verdict)
    if not paths or now.seen is None or not observer_of(caller).looks:
        return ""
    from outlast.handoffs.renames import edits

    return edits(caller.home, found.handoff, now.root, now.seen.binding, paths)


def _written(
    caller: Caller,
    tx: Writing,
    found: FoundHandoff,
    now: Judged,
    how: Recovering,
    ran: tuple[Evidence, ...],
    accepting: list[Reason],
    composed: Composed | None,
) -> tuple[tuple[HandoffClaim | None, Resume], str | None]:
    claim, resume = _write(caller, tx, found, now, how, ran, accepting, composed)
    return (claim, resume), answer_of(claim, resume, ran)


def _open_reasons(found: FoundHandoff, now: Judged) -> tuple[Reason, ...]:
    return standing_reasons(now.verdict, anchors.accepted_since(found))


def standing_reasons(verdict: Verdict, accepted: Iterable[str]) -> tuple[Reason, ...]:
    """The contesting reasons that nobody has accepted. That somebody else holds the claim cannot be accepted."""
    kept = unaccepted(verdict, accepted)
    return tuple(one for one in verdict.contesting if one.code == "claimed" or one in kept)


def refuse_unmatched(verdict: Verdict, how: Recovering) -> None:
    """Raises HandoffInvalid for an acceptance of something that is not there: it may be about another state."""
    if not how.accept:
        return
    known = {word for one in verdict.contesting for word in (one.code, f"{one.code}:{one.subject}")}
    for number, word in enumerate(how.accept):
        if word not in known:
            there = ", ".join(f"{one.code}:{one.subject}" for one in verdict.contesting) or "nothing contests"
            raise HandoffInvalid(f"accept[{number}]", f"{word!r} is no contesting reason here", f"there is: {there}")


def _write(
    caller: Caller,
    tx: Writing,
    found: FoundHandoff,
    now: Judged,
    how: Recovering,
    ran: tuple[Evidence, ...],
    accepting: list[Reason],
    composed: Composed | None,
) -> tuple[HandoffClaim | None, Resume]:
    from outlast.handoffs import recover_run as recovering_runs

    lease = unmoved(caller, tx, found, now.holder, how)
    at, by, token = caller.home.clock.now(), how.actor, lease.holder if now.holder and now.holder.mine else None
    if token is not None:
        claimer.renew(caller.home, tx, token)
    held = any(one.code == "claimed" for one in now.verdict.contesting)
    takes = how.take and held and not recovering_runs.is_executed(composed)
    standing = [
        one for one in _open_reasons(found, now) if one not in accepting and not (one.code == "claimed" and takes)
    ]
    entries: list[tuple[str, dict[str, Any]]] = []
    if any(one.code == "rival" for one in accepting):
        from outlast.handoffs import reads

        reads.accept(tx, found.handoff, at)
    if accepting:
        entries.append(("accepted", {"by": by, "why": how.why, "reasons": [_accepted(one) for one in accepting]}))
    if ran:
        entries.append(("checked", {"by": by, "evidence": jsonable(ran), "files": _files(now)}))
    epoch = lease.epoch
    resume: Resume = ""
    if how.claim and not standing:
        resume = "attached"
        if token is None:
            token, epoch = recovering_runs.our_word(caller, tx, composed, how) or caller.home.ids(), lease.epoch + 1
            entries += take(caller, tx, found, now, lease, token, how)
        elif not anchors.is_known_to_claimer(found):
            name, facts = attached(token, now, how)
            entries.append((name, facts | {"files": _files(now)}))
        recovering_runs.take_too(caller, tx, composed, token, how, takes=takes)
    elif how.claim:
        resume = "lost"
        if how.tell_losses and any(one.code != "claimed" for one in standing):
            entries.append(("lost", {"by": by, "reasons": [one.to_dict() for one in standing]}))
    hold = anchors.hold_of(found.anchor, lease, epoch)
    blobs = {"checked": [each.output for each in ran if each.output]}  # kept by the entry that names them
    whence = caller.whence
    told = [
        anchors.told(name, facts | whence, at=at, epoch=epoch, blobs=blobs.get(name, ())) for name, facts in entries
    ]
    tx.append(hold, told)
    if resume == "attached":
        from outlast.handoffs import task_state as task_states

        entry = task_states.TaskEntry(
            "resumed", by, {"handoff_id": found.handoff.id, "revision": found.handoff.revision}
        )
        anew, of = epoch != lease.epoch, found.anchor
        task_states.resumed(caller.home, tx, of.scope, of.anchor, entry, anew=anew, bridge=how.task)
    claim = _claim(tx, found, token, epoch, by) if token is not None and (how.claim or how.claim_id) else None
    return claim, resume


def unmoved(caller: Caller, tx: Writing, found: FoundHandoff, before: Holder | None, how: Recovering) -> LeaseRow:
    """The lease, if nothing happened to the anchor since it was judged. Raises Moved."""
    lease = tx.lease_of_anchor(found.anchor.id)
    anchor = tx.anchor_by_key(found.anchor.key)
    if lease is None or anchor != found.anchor or (lease.head, lease.epoch) != (found.lease.head, found.lease.epoch):
        raise Moved
    holder = holder_of(caller, tx, found._replace(lease=lease), how)
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
    claimed = {
        "by": how.actor,
        "claim": claimer.print_of(token),
        "handoff": found.handoff.id,
        "revision": found.handoff.revision,
    }
    if now.holder is not None and not now.holder.mine:
        claimed |= {"taken_from": now.holder.who, "why": how.why}
    return [("claimed", claimed | {"files": _files(now)}), attached(token, now, how)]


def _files(now: Judged) -> dict[str, Any] | None:
    """The files as they were seen, if they were."""
    return anchors.files_of(now.seen.binding.files) if now.seen else None


def attached(token: str, now: Judged, how: Recovering) -> tuple[str, dict[str, Any]]:
    """On what verdict the claim was given, or used for a revision that was stored since."""
    verdict = {"verdict": now.verdict.word, "reasons": [one.code for one in now.verdict.reasons]}
    return "attached", {"by": how.actor, "claim": claimer.print_of(token), **verdict}


def _claim(look: Reading, found: FoundHandoff, token: str, epoch: int, actor: str) -> HandoffClaim:
    beat = look.beat_of(token)
    assert beat is not None
    handoff = found.handoff
    until = moment(claimer.until(beat))
    return HandoffClaim(token, handoff.anchor, handoff.id, handoff.revision, epoch, actor, until)


def _accepted(reason: Reason) -> dict[str, Any]:
    return {"fingerprint": reason.fingerprint, **reason.to_dict()}


# -- claiming and renewing ---------------------------------------------------------------------------


def claim(executor: Executor, asked: HandoffQuery, how: Recovering) -> HandoffClaim:
    """The exclusive right to continue. Raises HandoffClaimed, HandoffContested, Finished."""
    how = replace(how, claim=True, tell_losses=False)
    check(executor.home, how)
    before = executor.home.store.read(operation_of(asked, how).answered)
    claim = remembered(before).claim if before is not None else None  # also when the work is over, and its run gone
    if claim is None:
        got = recover(executor, asked, how)
        if got.claim is None:
            raise refusal(got, how)
        claim = got.claim
    executor.caller.tokens.add(claim.id)
    return claim


def refusal(got: Recovered, how: Recovering) -> HandoffClaimed | HandoffContested:
    """Why a claim that was asked for was not given."""
    standing = standing_reasons(got.verdict, got.accepted)
    held = [one for one in standing if one.code == "claimed"]
    others = [one for one in standing if one not in held]
    if held and not (how.take and others):
        holder, _, until = held[0].found.rpartition(", until ")
        return HandoffClaimed(got.anchor, holder or held[0].found, until if holder else "its run ends")
    return HandoffContested(got.anchor, "; ".join(f"{one.code} ({one.subject}: {one.found})" for one in others))


def _unclaimed(caller: Caller, found: FoundHandoff, actor: str) -> ClaimLost | HandoffInvalid:
    """What who renews is told when nobody holds the claim."""
    lost = anchors.lost_error(caller, found, claimer.asker(caller, actor))
    why, name = "nobody holds a claim on it now", found.anchor.anchor
    return lost or HandoffInvalid("anchor", why, f"claim it: claim({name!r}) (outlast handoff claim {quote(name)})")


def renew(executor: Executor, asked: HandoffQuery, claim_id: str | None, actor: str) -> HandoffClaim:
    """Begin the claim's time anew. Raises ClaimLost, HandoffClaimed."""
    from outlast.handoffs import recover_run as recovering_runs

    subject = claimed_subject(executor, asked, claim_id, actor)
    if subject.found is None:
        assert subject.composed is not None
        return recovering_runs.renew(executor.caller, subject.composed, asked, claim_id, actor)
    anchor, revision = subject.found.anchor, subject.found.handoff.revision

    def work(tx: Writing) -> HandoffClaim:
        row = tx.handoff_at(anchor.key, revision)
        assert row is not None
        found = anchors.find(tx, anchor, row)
        refuse_lost(executor.caller, found, claim_id)
        holder = anchors.holder_of(executor.caller, tx, found, claimer.asker(executor.caller, actor), claim_id=claim_id)
        if holder is not None and not holder.mine:
            raise anchors.refused_error(executor.caller, found, holder, claimer.asker(executor.caller, actor))
        if holder is None:
            raise _unclaimed(executor.caller, found, actor)
        token = str(found.lease.holder)
        claimer.renew(executor.home, tx, token)
        return _claim(tx, found, token, found.lease.epoch, actor)

    return executor.home.store.write(work)
