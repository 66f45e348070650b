"""Storing a handoff: checked, looked at and kept first, then one transaction makes it the anchor's next revision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.domain.contracts import contract_of, expiry
from holdfast.domain.handoff import Binding, Contract, Evidence, Handoff, Lint, encode_handoff
from holdfast.domain.journal import genesis_of_anchor
from holdfast.errors import ClaimLost, HandoffNotFound, HandoffWeak, RevisionConflict
from holdfast.runtime import anchors, operations
from holdfast.runtime.anchors import Found
from holdfast.runtime.handoff_records import row_of
from holdfast.runtime.handoffs import Asked, get
from holdfast.runtime.operations import Operation
from holdfast.runtime.tokens import print_of, renew
from holdfast.store.contract import AnchorRow, Reading, Writing

if TYPE_CHECKING:
    from holdfast.runtime import Runtime

TASK = "task:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing:
    """How a handoff is stored, beside what it says."""

    scope: str
    actor: str
    strict: bool = False
    baseline: bool | Sequence[Mapping[str, Any]] = False  # run the checks now; or what somebody says came of them
    redact: bool = False
    bind: bool = True
    claim_id: str | None = None
    expected_revision: int | None = None
    operation_id: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """All of a revision but its number."""

    contract: Contract
    masked: tuple[str, ...]
    binding: Binding | None
    lint: Lint
    baseline: tuple[Evidence, ...]


def store(runtime: Runtime, given: Mapping[str, Any], how: Storing) -> Handoff:
    """Store the next revision under an anchor, durable when this returns.

    Raises HandoffInvalid, SecretFound, HandoffWeak, RevisionConflict, ClaimLost, OperationConflict, IntegrityBroken.
    """
    contract, masked = _without_secrets(contract_of(**given), how.redact)
    operation = Operation(how.operation_id, "handoff_store", _content(contract, how))
    before = runtime.store.read(operation.answered) if operation.id is not None else None
    if before is not None:
        return _again(runtime, before)
    prepared = _prepare(runtime, contract, masked, how)
    return operations.once(
        runtime, operation, lambda tx: _write(runtime, tx, prepared, how), lambda answer: _again(runtime, answer)
    )


def _content(contract: Contract, how: Storing) -> Any:
    """What makes two requests the same one: what was asked, not what was found."""
    baseline = how.baseline if isinstance(how.baseline, bool) else list(how.baseline)
    options = [how.scope, how.actor, how.strict, baseline, how.redact, how.bind, how.expected_revision]
    return [options, contract]


def _again(runtime: Runtime, handoff_id: str) -> Handoff:
    return replace(get(runtime, Asked("", handoff_id=handoff_id)), replayed=True)


def _without_secrets(contract: Contract, redact: bool) -> tuple[Contract, tuple[str, ...]]:
    """The contract, masked where it holds secrets and that was asked for. Raises SecretFound otherwise."""
    from holdfast.domain import secrets

    masked: list[str] = []
    changed: dict[str, Any] = {}
    for each in fields(contract):
        value = getattr(contract, each.name)
        if not value:
            continue
        if not redact:
            secrets.check(value, each.name)
            continue
        plain = list(value) if isinstance(value, tuple) else value
        changed[each.name], paths = secrets.masked(plain, each.name)
        if isinstance(value, tuple):
            changed[each.name] = tuple(changed[each.name])
        masked += paths
    return (replace(contract, **changed) if masked else contract), tuple(masked)


# -- before the transaction --------------------------------------------------------------------------


def _prepare(runtime: Runtime, contract: Contract, masked: tuple[str, ...], how: Storing) -> _Prepared:
    from holdfast.domain.lint import lint
    from holdfast.runtime import binding

    root = binding.root_of(runtime, contract.repo_root) if how.bind or how.baseline is True else None
    bound = binding.bind(runtime, contract, root) if how.bind and root else None
    judged = lint(contract, unchanged=runtime.store.read(lambda look: _unchanged(look, contract, bound, how.scope)))
    if how.strict and judged.weak:
        raise HandoffWeak(judged.score, "; ".join(f"{each.code}: {each.better}" for each in judged.findings))
    return _Prepared(contract, masked, bound, judged, _baseline(runtime, contract, how, root))


def _baseline(runtime: Runtime, contract: Contract, how: Storing, root: Any) -> tuple[Evidence, ...]:
    """What came of the checks: run now, or as somebody reports."""
    if how.baseline is False:
        return ()
    from holdfast.runtime import checking

    if how.baseline is True:
        ran = checking.run_checks(runtime, contract.acceptance_checks, root, when="store", by=how.actor)
        return tuple(ran)
    at, where = runtime.clock.now(), runtime.process.host
    return tuple(checking.reported(how.baseline, contract, when="store", by=how.actor, at=at, where=where))


def _unchanged(look: Reading, contract: Contract, bound: Binding | None, scope: str) -> bool:
    """Whether nothing was done since the last revision or, for a task's first one, since its run began."""
    anchor = look.anchor_of(scope, contract.anchor)
    revision = look.handoff_at(anchor.key, anchor.revision) if anchor else None
    if anchor is None or revision is None:
        return _only_begun(look, scope, contract.anchor)
    before = anchors.find(look, anchor, revision).handoff
    said = (before.summary, before.handoff_text, before.next_action)
    if said != (contract.summary, contract.handoff_text, contract.next_action):
        return False
    return _as_they_were(before.binding, bound)


def _as_they_were(before: Binding | None, now: Binding | None) -> bool:
    if before is None or now is None or before.commit != now.commit or {*before.files} != {*now.files}:
        return before is now
    return all(bound.same(now.files[path]) for path, bound in before.files.items())


def _only_begun(look: Reading, scope: str, anchor: str) -> bool:
    """Whether the anchor is of a task whose runs have not one receipt yet."""
    runs = look.unfinished_of_task(scope, anchor.removeprefix(TASK)) if anchor.startswith(TASK) else []
    leases = [look.lease_of(run.id) for run in runs]
    return bool(leases) and all(lease is not None and lease.head <= 1 for lease in leases)


# -- the transaction ---------------------------------------------------------------------------------


def _write(runtime: Runtime, tx: Writing, prepared: _Prepared, how: Storing) -> tuple[Handoff, str]:
    contract = prepared.contract
    anchor = tx.anchor_of(how.scope, contract.anchor)
    found = anchor.revision if anchor else 0
    if how.expected_revision is not None and how.expected_revision != found:
        raise RevisionConflict(contract.anchor, how.expected_revision, found)
    held = _held(runtime, tx, anchor, how)
    if anchor is None:
        anchor_id = runtime.ids()
        start = genesis_of_anchor(anchor_id, how.scope, contract.anchor)
        anchor = tx.add_anchor(anchor_id, how.scope, contract.anchor, start)
    handoff = _handoff(runtime, tx, prepared, how, anchor, *held)
    _append(tx, anchor, handoff)
    return handoff, handoff.id


def _held(runtime: Runtime, tx: Writing, anchor: AnchorRow | None, how: Storing) -> tuple[str, str]:
    """Our claim on the anchor, renewed by this use, and who else holds it. Raises ClaimLost, IntegrityBroken."""
    newest = tx.handoff_at(anchor.key, anchor.revision) if anchor else None
    if anchor is None or newest is None:
        if how.claim_id is not None:
            raise ClaimLost(how.claim_id, "this anchor", "nothing is stored under it")
        return "", ""
    found = anchors.find(tx, anchor, newest)
    if found.broken is not None:  # what is written after it would be believed as little
        raise found.broken.as_error()
    refuse_lost(runtime, found, how.claim_id)
    holder = anchors.holder_of(runtime, tx, found)
    if holder is None:
        return "", ""
    if not holder.mine and how.claim_id is None:
        return "", holder.who
    token = str(found.lease.holder)
    renew(runtime, tx, token)
    return print_of(token), ""


def refuse_lost(runtime: Runtime, found: Found, claim_id: str | None) -> None:
    """Who shows the claim that holds is the claimer from now on. Raises ClaimLost when another one holds, or none."""
    if claim_id is None:
        return
    if found.lease.holder != claim_id:
        why = "nobody holds a claim on it now" if found.lease.holder is None else "somebody else has taken it"
        raise ClaimLost(claim_id, found.anchor.anchor, why)
    runtime.tokens.add(claim_id)


def _handoff(
    runtime: Runtime, tx: Writing, prepared: _Prepared, how: Storing, anchor: AnchorRow, claim: str, rival: str
) -> Handoff:
    contract, at = prepared.contract, runtime.clock.now()
    given = {each.name: getattr(contract, each.name) for each in fields(contract)}
    given["supersedes"] = _superseded(tx, contract.supersedes)
    return Handoff(
        **given,
        id=runtime.ids(),
        scope=how.scope,
        revision=anchor.revision + 1,
        actor=how.actor,
        stored_us=at,
        expires_us=expiry(contract.expires, at),
        lint=prepared.lint,
        binding=prepared.binding,
        baseline=prepared.baseline,
        masked=prepared.masked,
        source=how.source,
        claim=claim,
        rival="" if given["supersedes"] else rival,
        reopened=anchor.status == "finished",
    )


def _superseded(look: Reading, named: str | None) -> str | None:
    """The whole id of the handoff that is replaced. Raises HandoffNotFound."""
    if named is None:
        return None
    rows = look.handoffs_by_prefix(named)
    if len(rows) != 1 and named not in [row.id for row in rows]:
        raise HandoffNotFound(f"supersedes={named!r}", ", ".join(row.id for row in rows))
    return next((row.id for row in rows if row.id == named), rows[0].id)


def _append(tx: Writing, anchor: AnchorRow, handoff: Handoff) -> None:
    lease = tx.lease_of_anchor(anchor.id)
    assert lease is not None
    hold = anchors.hold_of(anchor, lease)
    raw = msgspec.Raw(encode_handoff(handoff))
    tx.append(hold, [anchors.told("stored", raw, at=handoff.stored_us, epoch=lease.epoch, blobs=handoff.blobs)])
    tx.add_handoff(anchor.key, hold.head, row_of(handoff))
