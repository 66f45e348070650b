"""Recovering a handoff: found, looked at, judged; and, when asked for, claimed.

The verdict is made outside of any transaction (files are hashed, checks may run for minutes). What is then written
holds only for the anchor as it was read: if it moved meanwhile, it is read and judged again. What is composed from a
run is `recovering_runs.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.clock import moment
from holdfast.domain.codec import encode, jsonable
from holdfast.domain.handoff import Evidence, Handoff, HandoffClaim
from holdfast.domain.recovered import Recovered
from holdfast.domain.trust import Holder, Known, Observed, verdict_of
from holdfast.domain.verdict import Reason, Verdict, unaccepted
from holdfast.errors import (
    ClaimLost,
    Finished,
    HandoffClaimed,
    HandoffContested,
    HandoffInvalid,
    IntegrityBroken,
)
from holdfast.runtime import anchors, handoffs, tokens
from holdfast.runtime.anchors import Found
from holdfast.runtime.handoffs import Asked
from holdfast.runtime.operations import Operation
from holdfast.runtime.runner import Acceptance
from holdfast.runtime.storing import TASK, refuse_lost
from holdfast.store.contract import LeaseRow, Reading, Writing

if TYPE_CHECKING:
    from holdfast.runtime import Runtime
    from holdfast.runtime.composing import Composed


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
    operation_id: str | None = None
    tell_losses: bool = True  # a claim that is not given is on the record

    @property
    def acceptance(self) -> Acceptance:
        return Acceptance(self.accept, self.why)


class Judged(NamedTuple):
    """A verdict, and what it was made of."""

    verdict: Verdict
    known: Known
    seen: Observed | None
    root: str
    holder: Holder | None


class Moved(Exception):
    """The anchor is not as it was when it was judged."""


def recover(runtime: Runtime, asked: Asked, how: Recovering) -> Recovered:
    """The handoff that was asked for, with its verdict here and now.

    Raises HandoffNotFound, HandoffAmbiguous, Finished, ClaimLost, HandoffInvalid.
    """
    from holdfast.runtime import recovering_runs

    _refuse_unsaid(how)
    ran: tuple[Evidence, ...] | None = None
    while True:
        found, composed = _subject(runtime, asked)
        if found is not None and found.anchor.status == "finished" and not how.include_finished:
            raise finished(found)
        if found is not None:
            refuse_lost(runtime, found, how.claim_id)
        elif recovering_runs.show(runtime, composed, how.claim_id):
            continue  # it was judged as for somebody else
        subject = found or composed
        assert subject is not None
        if how.run_checks and ran is None:
            ran = _run_checks(runtime, subject.handoff, asked.repo_root, how.actor)
        try:
            if not isinstance(subject, Found):
                return recovering_runs.recover(runtime, subject, asked, how, ran or ())
            judged_now = judged(runtime, subject, asked.repo_root, ran or (), composed)
            return _settled_with(runtime, subject, judged_now, how, ran or (), composed)
        except Moved:
            continue


def _refuse_unsaid(how: Recovering) -> None:
    if (how.accept or how.take) and not how.why.strip():
        field = "accept" if how.accept else "take"
        raise HandoffInvalid("why", f"it is empty, and {field} needs a reason", "say why; it is on the record")


def _subject(runtime: Runtime, asked: Asked) -> tuple[Found | None, Composed | None]:
    """The explicit handoff, unless the task's unfinished run has gone on since: then what is composed from that."""
    place = handoffs.place_of(runtime, asked)
    found = runtime.store.read(lambda look: anchors.find(look, *place)) if place else None
    composed = composed_of(runtime, asked, found)
    if found is None and composed is None:
        raise handoffs.not_found(runtime, asked)
    if composed is None or found is None:
        return found, composed
    explicit_is_newer = found.anchor.status == "open" and found.handoff.stored_us >= composed.handoff.stored_us
    return (found if explicit_is_newer or found.broken else None), composed  # a broken record lends nothing


def composed_of(runtime: Runtime, asked: Asked, found: Found | None) -> Composed | None:
    """What the unfinished run of the task that was asked for gives; None when it is no task, or has no such run."""
    anchor = found.anchor.anchor if found else asked.anchor
    if anchor is None or not anchor.startswith(TASK) or asked.revision is not None or asked.handoff_id is not None:
        return None
    from holdfast.runtime.composing import compose

    return compose(runtime, asked.scope, anchor.removeprefix(TASK), found.handoff if found else None)


def finished(found: Found) -> Finished:
    """The error for an anchor whose work was completed."""
    done = next((one for one in reversed(found.since) if one.name == "settled"), None)
    by, at = (str(done.facts.get("by", "")), done.at) if done else ("somebody", found.handoff.stored_us)
    return Finished(found.anchor.anchor, by, f"{moment(at):%Y-%m-%d %H:%M} UTC")


# -- the verdict -------------------------------------------------------------------------------------


def judged(
    runtime: Runtime,
    found: Found,
    repo_root: str | None,
    ran: Iterable[Evidence],
    composed: Composed | None = None,
) -> Judged:
    """The verdict on a handoff as it was found, looked at here and now."""
    root, seen = look_at(runtime, found.handoff, repo_root, ran)
    holder = runtime.store.read(lambda look: anchors.holder_of(runtime, look, found))
    blobs = _unreadable(runtime, found.handoff) if found.broken is None else {}
    known = replace(anchors.known_of(found, holder, blobs), given=composed.reasons if composed else ())
    return Judged(verdict_of(known, seen, runtime.clock.now()), known, seen, root, holder)


def look_at(
    runtime: Runtime, handoff: Handoff, repo_root: str | None, ran: Iterable[Evidence]
) -> tuple[str, Observed | None]:
    """Where the files were looked at, and what was seen; nothing when they are not here."""
    from holdfast.runtime import binding

    root = binding.place_of(runtime, handoff, repo_root)
    if root is None:
        return "", None
    seen = binding.observe(handoff, root)
    return str(root), replace(seen, checks={each.key: each for each in ran})


def _run_checks(runtime: Runtime, handoff: Handoff, repo_root: str | None, by: str) -> tuple[Evidence, ...]:
    from holdfast.runtime import binding, checking

    root = binding.place_of(runtime, handoff, repo_root)
    if root is None:
        why = f"the files of {handoff.anchor!r} are not here, so its checks cannot be run"
        raise HandoffInvalid("repo_root", why, "name where they are: repo_root=DIR (--repo DIR)")
    return tuple(checking.run_checks(runtime, handoff.acceptance_checks, root, when="recover", by=by))


def _unreadable(runtime: Runtime, handoff: Handoff) -> dict[str, str]:
    """The kept blobs that are not what was stored."""
    wrong = {}
    for name in handoff.blobs:
        if not runtime.blobs.has(name):
            wrong[name] = "missing"
            continue
        try:
            for _ in runtime.blobs.pieces(name):
                pass
        except IntegrityBroken as error:
            wrong[name] = str(error.why)
    return wrong


# -- what is written ---------------------------------------------------------------------------------


def _settled_with(
    runtime: Runtime,
    found: Found,
    now: Judged,
    how: Recovering,
    ran: tuple[Evidence, ...],
    composed: Composed | None,
) -> Recovered:
    """The answer, once what was asked for is on record: acceptances, evidence, the claim. Raises Moved."""
    accepting = [one for one in _open_reasons(found, now) if how.acceptance.takes(one.code, one.subject)]
    refuse_unmatched(now.verdict, how)
    claim, resume = None, "lost" if how.claim else ""
    asked_for = how.claim or accepting or ran or (now.holder is not None and now.holder.mine)
    if asked_for and (found.broken is None or accepting):  # nothing is added to a record that is not believed
        operation = operation_of(found.anchor.id, how)

        def work(tx: Writing) -> tuple[HandoffClaim | None, str]:
            before = operation.answered(tx)
            if before is not None:
                return remembered(before)
            claim, resume = _write(runtime, tx, found, now, how, ran, accepting)
            operation.note(tx, encode([jsonable(claim), resume]).decode(), runtime.clock.now())
            return claim, resume

        claim, resume = runtime.store.write(work)
    if claim is not None:
        runtime.tokens.add(claim.id)
    return Recovered(
        verdict=now.verdict,
        handoff=found.handoff,
        standing=handoffs.standing_of(
            found.anchor,
            claimed=claim is not None or now.holder is not None,
            contested=str(now.verdict) == "contested",
            at=runtime.clock.now(),
        ),
        root=now.root,
        evidence=ran,
        claim=claim,
        resume=resume,  # type: ignore[arg-type]
        accepted=(*anchors.accepted_since(found), *(one.fingerprint for one in accepting)),
        outcome=found.anchor.outcome,
        run=composed.run if composed else None,
    )


def operation_of(subject: str, how: Recovering) -> Operation:
    """The write by its id and what is asked of it."""
    content = [subject, how.actor, how.claim, how.accept, how.take, how.why, how.run_checks]
    return Operation(how.operation_id, "handoff_recover", content)


def remembered(answer: str) -> tuple[HandoffClaim | None, str]:
    """What the first of equal writes gave."""
    claim, resume = msgspec.json.decode(answer, type=tuple[HandoffClaim | None, str])
    return (replace(claim, replayed=True) if claim else None), resume


def _open_reasons(found: Found, now: Judged) -> tuple[Reason, ...]:
    return unaccepted(now.verdict, anchors.accepted_since(found))


def refuse_unmatched(verdict: Verdict, how: Recovering) -> None:
    """Raises HandoffInvalid for an acceptance of something that is not there: it may be about another state."""
    known = {word for one in verdict.contesting for word in (one.code, f"{one.code}:{one.subject}")}
    for number, word in enumerate(how.accept):
        if word not in known:
            there = ", ".join(f"{one.code}:{one.subject}" for one in verdict.contesting) or "nothing contests"
            raise HandoffInvalid(f"accept[{number}]", f"{word!r} is no contesting reason here", f"there is: {there}")


def _write(
    runtime: Runtime,
    tx: Writing,
    found: Found,
    now: Judged,
    how: Recovering,
    ran: tuple[Evidence, ...],
    accepting: list[Reason],
) -> tuple[HandoffClaim | None, str]:
    lease = _unmoved(runtime, tx, found, now)
    at, by, token = runtime.clock.now(), how.actor, lease.holder if now.holder and now.holder.mine else None
    if token is not None:
        tokens.renew(runtime, tx, token)
    standing = [
        one for one in _open_reasons(found, now) if one not in accepting and not (one.code == "claimed" and how.take)
    ]
    entries: list[tuple[str, dict[str, Any]]] = []
    if accepting:
        entries.append(("accepted", {"by": by, "why": how.why, "reasons": [_accepted(one) for one in accepting]}))
    if ran:
        entries.append(("checked", {"by": by, "evidence": jsonable(ran)}))
    epoch, resume = lease.epoch, ""
    if how.claim and not standing:
        resume = "attached"
        if token is None:
            token, epoch = runtime.ids(), lease.epoch + 1
            entries += _take(runtime, tx, found, now, lease, token, how)
    elif how.claim:
        resume = "lost"
        if how.tell_losses and any(one.code != "claimed" for one in standing):
            entries.append(("lost", {"by": by, "reasons": [one.to_dict() for one in standing]}))
    hold = anchors.hold_of(found.anchor, lease, epoch)
    blobs = [each.output for each in ran if each.output]
    tx.append(hold, [anchors.told(name, facts, at=at, epoch=epoch, blobs=blobs) for name, facts in entries])
    claim = _claim(tx, found, token, epoch, by) if token is not None and (how.claim or how.claim_id) else None
    return claim, resume


def _unmoved(runtime: Runtime, tx: Writing, found: Found, now: Judged) -> LeaseRow:
    """The lease, if nothing happened to the anchor since it was judged. Raises Moved."""
    lease = tx.lease_of_anchor(found.anchor.id)
    anchor = tx.anchor_by_key(found.anchor.key)
    if lease is None or anchor != found.anchor or (lease.head, lease.epoch) != (found.lease.head, found.lease.epoch):
        raise Moved
    holder = anchors.holder_of(runtime, tx, found._replace(lease=lease))
    if (holder is None, holder and holder.mine) != (now.holder is None, now.holder and now.holder.mine):
        raise Moved
    return lease


def _take(
    runtime: Runtime, tx: Writing, found: Found, now: Judged, lease: LeaseRow, token: str, how: Recovering
) -> list[tuple[str, dict[str, Any]]]:
    """Take the lease under a new claim, whose first use this is; what to write about it."""
    tx.beat(tokens.beat_of(runtime, token))
    tx.take_lease(lease, token)
    if lease.holder:
        tx.forget_process(lease.holder)
    files = anchors.files_of(now.seen.binding.files) if now.seen else None
    claimed = {
        "by": how.actor,
        "claim": tokens.print_of(token),
        "handoff": found.handoff.id,
        "revision": found.handoff.revision,
    }
    if now.holder is not None:
        claimed |= {"taken_from": now.holder.who, "why": how.why}
    verdict = {"verdict": now.verdict.word, "reasons": [one.code for one in now.verdict.reasons]}
    attached = {"by": how.actor, "claim": tokens.print_of(token), **verdict}
    return [("claimed", claimed | {"files": files}), ("attached", attached)]


def _claim(look: Reading, found: Found, token: str, epoch: int, actor: str) -> HandoffClaim:
    beat = look.beat_of(token)
    assert beat is not None
    handoff = found.handoff
    until = moment(tokens.until(beat))
    return HandoffClaim(token, handoff.anchor, handoff.id, handoff.revision, epoch, actor, until)


def _accepted(reason: Reason) -> dict[str, Any]:
    return {"fingerprint": reason.fingerprint, **reason.to_dict()}


# -- claiming and renewing ---------------------------------------------------------------------------


def claim(runtime: Runtime, asked: Asked, how: Recovering) -> HandoffClaim:
    """The exclusive right to continue. Raises HandoffClaimed, HandoffContested, Finished."""
    got = recover(runtime, asked, replace(how, claim=True, tell_losses=False))
    if got.claim is not None:
        return got.claim
    standing = unaccepted(got.verdict, got.accepted)
    held = [one for one in standing if one.code == "claimed"]
    others = [one for one in standing if one not in held]
    if held and not (how.take and others):
        holder, _, until = held[0].found.rpartition(", until ")
        raise HandoffClaimed(got.anchor, holder or held[0].found, until if holder else "its run ends")
    raise HandoffContested(got.anchor, "; ".join(f"{one.code} ({one.subject}: {one.found})" for one in others))


def renew(runtime: Runtime, asked: Asked, claim_id: str | None, actor: str) -> HandoffClaim:
    """Begin the claim's time anew. Raises ClaimLost, HandoffClaimed."""
    from holdfast.runtime import recovering_runs

    place = handoffs.place_of(runtime, asked)
    if place is None:
        return recovering_runs.renew(runtime, asked, claim_id, actor)

    def work(tx: Writing) -> HandoffClaim:
        found = anchors.find(tx, *place)
        refuse_lost(runtime, found, claim_id)
        holder = anchors.holder_of(runtime, tx, found)
        if holder is not None and not holder.mine and claim_id is None:
            raise HandoffClaimed(found.anchor.anchor, holder.who, f"{moment(holder.until):%H:%M} UTC")
        if holder is None and claim_id is None:
            raise ClaimLost("of yours", found.anchor.anchor, "nobody holds a claim on it now")
        token = str(found.lease.holder)
        tokens.renew(runtime, tx, token)
        return _claim(tx, found, token, found.lease.epoch, actor)

    return runtime.store.write(work)
