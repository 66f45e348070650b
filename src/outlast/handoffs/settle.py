"""Settling a handoff: completed, failed or released. Completed must be shown, or overridden with a reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.clock import moment
from outlast.errors import ClaimLost, HandoffInvalid, NotSettled
from outlast.handoffs import anchor as anchors
from outlast.handoffs import foreign
from outlast.handoffs import task_state as task_states
from outlast.handoffs.anchor import Found
from outlast.handoffs.contract import rule_of
from outlast.handoffs.entries import Checked, Settled
from outlast.handoffs.find import Asked
from outlast.handoffs.handoff import ENDINGS, Bound, Ending, Evidence, Handoff, key_of
from outlast.handoffs.recover import Moved, Recovering
from outlast.handoffs.recovered import Settlement
from outlast.handoffs.store import refuse_lost
from outlast.handoffs.subject import claimed_subject, finished
from outlast.handoffs.verdict import Holder, label_of, rival_of
from outlast.home import once as operations
from outlast.home.once import Operation, check_id
from outlast.home.tokens import asker, print_of, renewal
from outlast.store.contract import LeaseRow, Reading, Writing
from outlast.tasks.task import task_of
from outlast.values.cancel import refuse_stopped
from outlast.values.codec import encode, jsonable, pack_json

if TYPE_CHECKING:
    from outlast.handoffs.compose import Composed
    from outlast.home.home import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """How the work ended, and what shows it."""

    outcome: Ending
    actor: str
    evidence: Sequence[Mapping[str, Any]] = ()  # what somebody says came of the checks
    acknowledged: tuple[str, ...] = ()  # musts in prose that are kept, says who settles
    missing: tuple[str, ...] = ()  # what the handoff lacked
    override: str = ""
    note: str = ""
    run_checks: bool = True
    claim_id: str | None = None
    agree: str | None = None  # the digest of commands of somebody else that may run
    operation_id: str | None = None
    task: bool = False  # it is a task's completion, for a session whose claims are its own


@dataclass(frozen=True, slots=True)
class _Shown:
    """What was found before the transaction."""

    evidence: tuple[Evidence, ...]
    files: Mapping[str, Bound] | None
    lacking: tuple[str, ...]  # why it does not count as completed
    mine: bool  # who settles held the claim meanwhile


def settle(runtime: Runtime, asked: Asked, how: Settling) -> Settlement:
    """Settle the newest revision and give the claim back, durable when this returns.

    Raises NotSettled, HandoffClaimed, ClaimLost, Finished, HandoffInvalid, ForeignCommands.
    """
    check(runtime, how)
    said = [how.acknowledged, how.missing, how.override, how.note, how.run_checks]
    content = [list(asked), how.outcome, how.actor, list(how.evidence), *said, *(["task"] if how.task else [])]
    operation = Operation(how.operation_id, "handoff_settle", content)
    before = runtime.store.read(operation.answered)
    if before is not None:
        return _again(before)
    while True:
        subject = _subject(runtime, asked, how)
        if not isinstance(subject, Found):
            return _settle_run(runtime, subject, how, operation)
        with suppress(Moved):  # something happened to it: what was shown is of before that
            return _settle_found(runtime, subject, asked.repo_root, how, operation)


def _settle_found(
    runtime: Runtime, found: Found, repo_root: str | None, how: Settling, operation: Operation
) -> Settlement:
    """Raises Moved when the anchor is not as it was when the checks were run."""
    mine = _refuse(runtime, found, how)
    rival = _rival(found, mine) if how.outcome == "completed" else ""
    if rival and not how.override.strip():  # before its checks run: they are not those that were claimed
        raise NotSettled(found.anchor.anchor, rival)
    shown = _show(runtime, found, repo_root, how, mine)
    if shown.lacking and not how.override.strip():
        raise _not_settled(runtime, found, shown)
    refuse_stopped()
    settled = operations.once(runtime, operation, lambda tx: _write(runtime, tx, found, shown, how), _again)
    runtime.tokens.discard(found.lease.holder or "")
    return settled


def _not_settled(runtime: Runtime, found: Found, shown: _Shown) -> NotSettled:
    error = NotSettled(found.anchor.anchor, "; ".join(shown.lacking))
    note_printed(runtime, error, shown.evidence)
    return error


def note_printed(runtime: Runtime, error: NotSettled, evidence: Iterable[Evidence]) -> None:
    """Add a note to the error for each failed check: what it printed last."""
    from outlast.handoffs.reading import failed_of, last_lines

    for each in failed_of(evidence):
        if each.output and runtime.blobs.has(each.output):
            printed = last_lines(runtime.blobs.get(each.output))
            error.add_note("\n".join([f"{label_of(each.check)} printed:", *(f"  {line}" for line in printed)]))


def _again(answer: str) -> Settlement:
    return replace(msgspec.json.decode(answer, type=Settlement), replayed=True)


def check(runtime: Runtime, how: Settling) -> None:
    """Raises HandoffInvalid, NameInvalid, ValueRefused, SecretFound for what nothing can be settled with."""
    check_id(how.operation_id)
    foreign.check_agree(how.agree, runs=how.run_checks and how.outcome == "completed")
    if how.outcome not in ENDINGS:
        why = f"{how.outcome!r:.100} is no way to settle"
        raise HandoffInvalid("outcome", why, f"use one of {', '.join(ENDINGS)}")
    for name in ("override", "note"):
        if not isinstance(getattr(how, name), str):
            raise HandoffInvalid(name, "it is no text", "say it in words")
    for name in ("acknowledged", "missing"):
        for number, text in enumerate(getattr(how, name)):
            if not isinstance(text, str) or not text.strip():
                raise HandoffInvalid(f"{name}[{number}]", "it is no text, or empty", "say it in words")
    from outlast.secrets import find as secrets

    pack_json(list(how.evidence), "evidence")
    for name in ("evidence", "acknowledged", "missing", "override", "note"):
        given = getattr(how, name)
        secrets.check(given if isinstance(given, str) else list(given), name, runtime.secret_rules)


def _subject(runtime: Runtime, asked: Asked, how: Settling) -> Found | Composed:
    """What is settled, as recovering chooses it; of a task that is completed its handoff.

    Raises HandoffNotFound, HandoffInvalid, IntegrityBroken.
    """
    subject = claimed_subject(runtime, asked, how.claim_id, how.actor)
    found = subject.explicit if how.task else subject.found
    if found is None:
        assert subject.composed is not None
        return subject.composed
    if found.broken is not None:
        raise found.broken.as_error()
    if found.handoff.revision != found.anchor.revision:
        why = f"revision {found.handoff.revision} is not the newest"
        raise HandoffInvalid("handoff_id", why, f"settle the anchor: outlast handoff settle {found.anchor.anchor}")
    return found


def _settle_run(runtime: Runtime, composed: Composed, how: Settling, operation: Operation) -> Settlement:
    """What is composed from a run ends with the run, and can be released before.

    Raises HandoffInvalid, HandoffClaimed, ClaimLost.
    """
    from outlast.handoffs.recover_run import our_claim_on, release

    handoff, run = composed.handoff, composed.run
    if how.outcome != "released":
        why = f"{handoff.anchor!r} is composed from run {run.run_id}, and is over when that run is"
        remedy = f"continue it ({run.command}) or give it up (outlast abort {run.run_id} --why WHY)"
        raise HandoffInvalid("anchor", why, remedy)
    claim = our_claim_on(runtime, composed, Recovering(actor=how.actor, claim_id=how.claim_id, task=how.task))
    facts = {"by": how.actor, "missing": list(how.missing), "note": how.note}

    def work(tx: Writing) -> tuple[Settlement, str]:
        release(runtime, tx, composed, claim, facts)
        done = Settlement(
            anchor=handoff.anchor,
            handoff_id=handoff.id,
            revision=0,
            outcome="released",
            by=how.actor,
            at=moment(runtime.clock.now()),
            score=handoff.lint.score,
            missing=how.missing,
            note=how.note,
        )
        return done, encode(done).decode()

    settled = operations.once(runtime, operation, work, _again)
    runtime.tokens.discard(claim.process.id)
    return settled


def _refuse(runtime: Runtime, found: Found, how: Settling) -> bool:
    """Whether who settles holds the claim. Raises Finished, ClaimLost, HandoffClaimed."""
    if found.anchor.status == "finished":
        raise finished(found)
    refuse_lost(runtime, found, how.claim_id)
    holder = runtime.store.read(lambda look: _holder(runtime, look, found, how))
    if holder is not None and not holder.mine:
        raise anchors.refused_error(runtime, found, holder, asker(runtime, how.actor, alone=how.task))
    return holder is not None


def _holder(runtime: Runtime, look: Reading, found: Found, how: Settling) -> Holder | None:
    return anchors.holder_of(runtime, look, found, asker(runtime, how.actor, alone=how.task), claim_id=how.claim_id)


# -- what shows it -----------------------------------------------------------------------------------


def _show(runtime: Runtime, found: Found, repo_root: str | None, how: Settling, mine: bool) -> _Shown:
    from outlast.handoffs import checks as checking

    handoff, eyes = found.handoff, runtime.eyes
    root = eyes.place(runtime, handoff, repo_root)
    at, where = runtime.clock.now(), runtime.process.host
    said = checking.reported(how.evidence, handoff, when="settle", by=how.actor, at=at, where=where)
    ran: list[Evidence] = []
    if how.outcome == "completed" and how.run_checks and root is not None:
        between = renewal(runtime, found.lease.holder if mine else None)
        leave = foreign.leave(runtime, found, handoff, how.agree)
        ran = eyes.run_checks(runtime, handoff, root, leave=leave, when="settle", by=how.actor, between=between)
    files = eyes.observe(runtime, handoff, root).binding.files if root is not None else None
    lacking = _lacking(runtime, found, root, how, ran, said, files) if how.outcome == "completed" else ()
    if how.outcome == "completed":
        lacking += tuple(filter(None, [_rival(found, mine)]))
        lacking += runtime.store.read(lambda look: _running(runtime, look, found))
    return _Shown((*said, *ran), files, lacking, mine)


def _lacking(
    runtime: Runtime,
    found: Found,
    root: Path | None,
    how: Settling,
    ran: list[Evidence],
    said: list[Evidence],
    files: Mapping[str, Bound] | None,
) -> tuple[str, ...]:
    """Why the work does not count as completed: a check, a file rule, a must in prose."""
    known = {each.key: each for each in ran} if how.run_checks else _recorded(found, files)
    why = "could not be run here: the files are not here" if root is None else ""
    checks = [_unshown(label_of(form), known.get(key_of(form)), why) for form in found.handoff.acceptance_checks]
    disproved = [f"check {label_of(each.check)!r} failed, says {each.by}" for each in said if not each.passed]
    wrong = musts_lacking(runtime, found.handoff, root, how.acknowledged)
    return tuple(each for each in (*checks, *disproved, *wrong) if each)


def _rival(found: Found, mine: bool) -> str:
    """Why the newest revision is not the work that was claimed: somebody else stored it, and nobody accepted that."""
    rival, handoff = rival_of(found.handoff), found.handoff
    if rival is not None and rival.fingerprint not in anchors.accepted_since(found):
        take = f"--accept 'rival:{rival.subject}' --why WHY"
        return f"{rival.subject} is a rival, {rival.found}: {rival.advice}; or accept it: recover --claim {take}"
    if mine and not anchors.is_known_to_claimer(found):
        again = "read it and take it upon you: recover it with claim=True (--claim)"
        return f"revision {handoff.revision} was stored by {handoff.actor} after your claim: {again}"
    return ""


def _recorded(found: Found, files: Mapping[str, Bound] | None) -> dict[str, Evidence]:
    """What the runner found here before, of the files as they are now."""
    known: dict[str, Evidence] = {}
    for said in (one.said for one in found.since_here if isinstance(one.said, Checked | Settled)):
        if files is not None and said.files is not None and _same(said.files, files):
            known |= {each.key: each for each in said.evidence if each.runner == "runner"}
    return known


def _same(before: Mapping[str, Bound], now: Mapping[str, Bound]) -> bool:
    return before.keys() == now.keys() and all(bound.same(now[path]) for path, bound in before.items())


def _unshown(label: str, evidence: Evidence | None, why: str) -> str:
    if evidence is None:
        return f"check {label!r} {why or 'was not run by a runner on the files as they are now'}"
    return "" if evidence.passed else f"check {label!r} fails" + (f" ({evidence.note})" if evidence.note else "")


def musts_lacking(runtime: Runtime, handoff: Handoff, root: Path | None, acknowledged: Collection[str]) -> list[str]:
    """The musts that are not kept, or that nobody says are."""
    wrong = []
    for name, form in handoff.musts:
        if rule_of(form) is None:
            if label_of(form) not in acknowledged:
                wrong.append(f"{name} {label_of(form)!r} is not acknowledged")
        elif root is None:
            wrong.append(f"{name} {label_of(form)!r} was not looked at: the files are not here")
        elif broken := runtime.eyes.broken(runtime, handoff, form, root):
            wrong.append(f"{name} {label_of(form)!r}: it {broken}")
    return wrong


def _running(runtime: Runtime, look: Reading, found: Found) -> tuple[str, ...]:
    """The runs of the anchor's task that are not over."""
    task = task_of(found.anchor.anchor)
    rows = task_states.unfinished(look, found.anchor.scope, task) if task is not None else []
    return task_states.words_of(runtime, look, rows)


# -- the transaction ---------------------------------------------------------------------------------


def _write(runtime: Runtime, tx: Writing, found: Found, shown: _Shown, how: Settling) -> tuple[Settlement, str]:
    lease = _unmoved(runtime, tx, found, shown, how)
    _finish_runs(runtime, tx, found, how)
    at = runtime.clock.now()
    settled = Settlement(
        anchor=found.anchor.anchor,
        handoff_id=found.handoff.id,
        revision=found.handoff.revision,
        outcome=how.outcome,
        by=how.actor,
        at=moment(at),
        score=found.handoff.lint.score,
        evidence=shown.evidence,
        acknowledged=how.acknowledged,
        missing=how.missing,
        override=how.override if shown.lacking else "",
        note=how.note,
    )
    facts = _facts(settled, shown, lease)
    blobs = [each.output for each in shown.evidence if each.output]
    tx.take_lease(lease, None)
    hold = anchors.hold_of(found.anchor, lease, lease.epoch + 1)
    tx.append(hold, [anchors.told("settled", facts, at=at, epoch=hold.epoch, blobs=blobs)])
    if lease.holder:
        tx.forget_process(lease.holder)
    tx.settle_anchor(found.anchor.key, "finished" if how.outcome == "completed" else "open", how.outcome)
    task_states.settled(runtime, tx, found.anchor.scope, settled, bridge=how.task)
    return settled, encode(settled).decode()


def _finish_runs(runtime: Runtime, tx: Writing, found: Found, how: Settling) -> None:
    """Raises NotSettled for a run that began since somebody looked; our claims on runs end."""
    from outlast.handoffs.compose import give_back

    running = _running(runtime, tx, found) if how.outcome == "completed" else ()
    if running and not how.override.strip():
        raise NotSettled(found.anchor.anchor, "; ".join(running))
    task, token = task_of(found.anchor.anchor), found.lease.holder
    if task is None:
        return
    facts = {"by": how.actor, "missing": list(how.missing), "note": how.note}
    for row in task_states.unfinished(tx, found.anchor.scope, task):
        if token is not None:
            give_back(runtime, tx, row.id, token, facts)
    task_states.give_back_runs(runtime, tx, found.anchor.scope, task)


def _facts(settled: Settlement, shown: _Shown, lease: LeaseRow) -> dict[str, Any]:
    facts: dict[str, Any] = jsonable(settled)
    for name in ("replayed", "at", "anchor"):
        del facts[name]
    files = anchors.files_of(shown.files) if shown.files is not None else None
    return facts | {"claim": print_of(lease.holder), "lacking": list(shown.lacking), "files": files}


def _unmoved(runtime: Runtime, tx: Writing, found: Found, shown: _Shown, how: Settling) -> LeaseRow:
    """The lease, if nothing happened to the anchor since the work was looked at.

    Raises Moved; and where looking again does not help, Finished, HandoffInvalid, ClaimLost, HandoffClaimed.
    """
    anchor = tx.anchor_by_key(found.anchor.key)
    lease = tx.lease_of_anchor(found.anchor.id)
    assert anchor is not None
    assert lease is not None
    now = found._replace(anchor=anchor, lease=lease)
    if anchor.status == "finished":
        raise finished(now)
    if anchor.revision != found.anchor.revision:
        why = f"revision {anchor.revision} was stored meanwhile"
        raise HandoffInvalid("anchor", why, "recover it, then settle what is there now")
    refuse_lost(runtime, now, how.claim_id)
    holder = _holder(runtime, tx, now, how)
    if holder is not None and not holder.mine:
        raise anchors.refused_error(runtime, now, holder, asker(runtime, how.actor, alone=how.task))
    if shown.mine and lease.epoch != found.lease.epoch:
        raise ClaimLost("of yours", anchor.anchor, "somebody else had taken it meanwhile")
    if (lease.head, lease.epoch) != (found.lease.head, found.lease.epoch):
        raise Moved
    return lease
