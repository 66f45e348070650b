"""Settling a handoff: completed, failed or released. Completed must be shown, or overridden with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.clock import moment
from holdfast.domain.codec import encode, jsonable
from holdfast.domain.contracts import rule_of
from holdfast.domain.handoff import ENDINGS, Bound, Ending, Evidence, Handoff, key_of
from holdfast.domain.recovered import Settlement
from holdfast.domain.trust import label_of
from holdfast.errors import HandoffClaimed, HandoffInvalid, NotSettled
from holdfast.runtime import anchors, handoffs, operations
from holdfast.runtime.anchors import Found
from holdfast.runtime.handoffs import Asked
from holdfast.runtime.operations import Operation
from holdfast.runtime.recovering import finished
from holdfast.runtime.storing import refuse_lost
from holdfast.runtime.tokens import print_of
from holdfast.store.contract import LeaseRow, Writing

if TYPE_CHECKING:
    from holdfast.runtime import Runtime


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
    operation_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Shown:
    """What was found before the transaction."""

    evidence: tuple[Evidence, ...]
    files: Mapping[str, Bound] | None
    lacking: tuple[str, ...]  # why it does not count as completed


def settle(runtime: Runtime, asked: Asked, how: Settling) -> Settlement:
    """Settle the newest revision and give the claim back, durable when this returns.

    Raises NotSettled, HandoffClaimed, ClaimLost, Finished, HandoffInvalid.
    """
    _check(how)
    said = [how.acknowledged, how.missing, how.override, how.note, how.run_checks]
    content = [list(asked), how.outcome, how.actor, list(how.evidence), *said]
    operation = Operation(how.operation_id, "handoff_settle", content)
    before = runtime.store.read(operation.answered)
    if before is not None:
        return _again(before)
    found = _found(runtime, asked, how)
    shown = _show(runtime, found, asked.repo_root, how)
    if shown.lacking and not how.override.strip():
        raise NotSettled(found.anchor.anchor, "; ".join(shown.lacking))
    return operations.once(runtime, operation, lambda tx: _write(runtime, tx, found, shown, how), _again)


def _again(answer: str) -> Settlement:
    return replace(msgspec.json.decode(answer, type=Settlement), replayed=True)


def _check(how: Settling) -> None:
    if how.outcome not in ENDINGS:
        why = f"{how.outcome!r} is no way to settle"
        raise HandoffInvalid("outcome", why, f"use one of {', '.join(ENDINGS)}")
    for name in ("acknowledged", "missing"):
        for number, text in enumerate(getattr(how, name)):
            if not isinstance(text, str) or not text.strip():
                raise HandoffInvalid(f"{name}[{number}]", "it is no text, or empty", "say it in words")


def _found(runtime: Runtime, asked: Asked, how: Settling) -> Found:
    place = handoffs.place_of(runtime, asked)
    if place is None:
        _refuse_run(runtime, asked)
        raise handoffs.not_found(runtime, asked)
    found = runtime.store.read(lambda look: anchors.find(look, *place))
    if found.broken is not None:
        raise found.broken.as_error()
    if found.handoff.revision != found.anchor.revision:
        why = f"revision {found.handoff.revision} is not the newest"
        raise HandoffInvalid("handoff_id", why, f"settle the anchor: holdfast handoff settle {found.anchor.anchor}")
    _refuse(runtime, found, how)
    return found


def _refuse_run(runtime: Runtime, asked: Asked) -> None:
    """What is composed from a run ends with the run. Raises HandoffInvalid."""
    from holdfast.runtime.composing import compose
    from holdfast.runtime.storing import TASK

    if asked.anchor is None or not asked.anchor.startswith(TASK):
        return
    composed = compose(runtime, asked.scope, asked.anchor.removeprefix(TASK))
    if composed is not None:
        why = f"{asked.anchor!r} is composed from run {composed.run.run_id}, and is over when that run is"
        remedy = f"continue it ({composed.run.command}) or give it up (holdfast abort {composed.run.run_id} --why WHY)"
        raise HandoffInvalid("anchor", why, remedy)


def _refuse(runtime: Runtime, found: Found, how: Settling) -> None:
    """Raises Finished, ClaimLost, HandoffClaimed."""
    if found.anchor.status == "finished":
        raise finished(found)
    refuse_lost(runtime, found, how.claim_id)
    holder = runtime.store.read(lambda look: anchors.holder_of(runtime, look, found))
    if holder is not None and not holder.mine and how.claim_id is None:
        raise HandoffClaimed(found.anchor.anchor, holder.who, f"{moment(holder.until):%Y-%m-%d %H:%M} UTC")


# -- what shows it -----------------------------------------------------------------------------------


def _show(runtime: Runtime, found: Found, repo_root: str | None, how: Settling) -> _Shown:
    from holdfast.runtime import binding, checking

    handoff = found.handoff
    root = binding.place_of(runtime, handoff, repo_root)
    at, where = runtime.clock.now(), runtime.process.host
    said = checking.reported(how.evidence, handoff, when="settle", by=how.actor, at=at, where=where)
    ran: list[Evidence] = []
    if how.outcome == "completed" and how.run_checks and root is not None:
        ran = checking.run_checks(runtime, handoff.acceptance_checks, root, when="settle", by=how.actor)
    files = binding.observe(handoff, root).binding.files if root is not None else None
    lacking = _lacking(found, root, how, ran, said) if how.outcome == "completed" else ()
    return _Shown((*said, *ran), files, lacking)


def _lacking(
    found: Found, root: Path | None, how: Settling, ran: list[Evidence], said: list[Evidence]
) -> tuple[str, ...]:
    """Why the work does not count as completed: a check, a file rule, a must in prose."""
    known = {each.key: each for each in anchors.evidence_since(found) if each.runner == "runner"}
    known |= {each.key: each for each in ran}
    checks = [_unshown(label_of(form), known.get(key_of(form))) for form in found.handoff.acceptance_checks]
    disproved = [f"check {label_of(each.check)!r} failed, says {each.by}" for each in said if not each.passed]
    return tuple(each for each in (*checks, *disproved, *_musts(found.handoff, root, how)) if each)


def _unshown(label: str, evidence: Evidence | None) -> str:
    if evidence is None:
        return f"check {label!r} was not run by a runner"
    return "" if evidence.passed else f"check {label!r} fails" + (f" ({evidence.note})" if evidence.note else "")


def _musts(handoff: Handoff, root: Path | None, how: Settling) -> list[str]:
    from holdfast.runtime.checking import broken_rule

    wrong = []
    for name, form in handoff.musts:
        rule = rule_of(form)
        if rule is None:
            if label_of(form) not in how.acknowledged:
                wrong.append(f"{name} {label_of(form)!r} is not acknowledged")
        elif root is None:
            wrong.append(f"{name} {label_of(form)!r} was not looked at: the files are not here")
        elif broken := broken_rule(root, rule):
            wrong.append(f"{name} {label_of(form)!r}: it {broken}")
    return wrong


# -- the transaction ---------------------------------------------------------------------------------


def _write(runtime: Runtime, tx: Writing, found: Found, shown: _Shown, how: Settling) -> tuple[Settlement, str]:
    lease = _unmoved(runtime, tx, found, how)
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
        runtime.tokens.discard(lease.holder)
    tx.settle_anchor(found.anchor.key, "finished" if how.outcome == "completed" else "open", how.outcome)
    return settled, encode(settled).decode()


def _facts(settled: Settlement, shown: _Shown, lease: LeaseRow) -> dict[str, Any]:
    facts: dict[str, Any] = jsonable(settled)
    for name in ("replayed", "at", "anchor"):
        del facts[name]
    files = anchors.files_of(shown.files) if shown.files is not None else None
    return facts | {"claim": print_of(lease.holder), "lacking": list(shown.lacking), "files": files}


def _unmoved(runtime: Runtime, tx: Writing, found: Found, how: Settling) -> LeaseRow:
    """The lease, if what was shown is still about the newest revision, and nobody else took the claim meanwhile."""
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
    holder = anchors.holder_of(runtime, tx, now)
    if holder is not None and not holder.mine and how.claim_id is None:
        raise HandoffClaimed(anchor.anchor, holder.who, f"{moment(holder.until):%Y-%m-%d %H:%M} UTC")
    return lease
