"""Storing a handoff: checked, looked at and kept first, then one transaction makes it the anchor's next revision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from outlast.errors import ClaimLost, HandoffNotFound, HandoffWeak, RevisionConflict
from outlast.handoffs import anchor as anchors
from outlast.handoffs import foreign
from outlast.handoffs import task_state as task_states
from outlast.handoffs.anchor import Found
from outlast.handoffs.anchor import refuse_lost as refuse_lost
from outlast.handoffs.anchor_journal import row_of
from outlast.handoffs.contract import contract_of, expiry
from outlast.handoffs.find import Asked, get
from outlast.handoffs.handoff import CONTRACT_FIELDS, Binding, Contract, Evidence, Handoff, Lint
from outlast.home import once as operations
from outlast.home.once import Operation, check_id
from outlast.home.tokens import asker, named, print_of, renew
from outlast.ledger.journal import genesis_of_anchor
from outlast.store.contract import AnchorRow, LeaseRow, Reading, Writing
from outlast.tasks.task import task_of
from outlast.values.cancel import refuse_stopped
from outlast.values.frozen import dataclass

if TYPE_CHECKING:
    from outlast.home.home import Runtime
    from outlast.secrets.rules import Rule


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
    pause: bool = False  # of a task: it is paused with this, and the claim is given back
    guard: Callable[[Reading], None] | None = None  # raises, in the transaction, when who stores may not


@dataclass(frozen=True, slots=True)
class _Prepared:
    """All of a revision but its number."""

    contract: Contract
    masked: tuple[str, ...]
    binding: Binding | None
    lint: Lint  # unless nothing was done since the last revision
    baseline: tuple[Evidence, ...]


def store(runtime: Runtime, given: Mapping[str, Any], how: Storing) -> Handoff:
    """Store the next revision under an anchor, durable when this returns.

    Raises HandoffInvalid, SecretFound, HandoffWeak, RevisionConflict, ClaimLost, OperationConflict, IntegrityBroken.
    """
    check_id(how.operation_id)
    contract, masked = _without_secrets(contract_of(**given), how.redact, runtime.secret_rules)
    said = _said(runtime, contract, how)
    operation = Operation(how.operation_id, "handoff_store", _content(contract, how))
    before = runtime.store.read(operation.answered) if operation.id is not None else None
    if before is not None:
        return _again(runtime, before)
    prepared = _prepare(runtime, contract, masked, said, how)
    refuse_stopped()
    if runtime.adopted and runtime.eyes.looks:  # what was in such a home before is not ours; this is
        foreign.stored_here(contract)
    return operations.once(
        runtime, operation, lambda tx: _write(runtime, tx, prepared, how), lambda answer: _again(runtime, answer)
    )


def _content(contract: Contract, how: Storing) -> Any:
    """What makes two requests the same one: what was asked, not what was found."""
    baseline = how.baseline if isinstance(how.baseline, bool) else list(how.baseline)
    options = [how.scope, how.actor, how.strict, baseline, how.redact, how.bind, how.expected_revision]
    return [[*options, "pause"] if how.pause else options, contract]


def _again(runtime: Runtime, handoff_id: str) -> Handoff:
    return replace(get(runtime, Asked("", handoff_id=handoff_id)), replayed=True)


def _without_secrets(contract: Contract, redact: bool, rules: tuple[Rule, ...]) -> tuple[Contract, tuple[str, ...]]:
    """The contract, masked where it holds secrets and that was asked for. Raises SecretFound otherwise."""
    from outlast.secrets import find as secrets

    given = {name: value for name in CONTRACT_FIELDS if (value := getattr(contract, name))}
    if not redact:
        secrets.check(given, "", rules)
        return contract, ()
    changed, masked = secrets.masked(given, "", rules)
    return (replace(contract, **changed) if masked else contract), tuple(masked)


# -- before the transaction --------------------------------------------------------------------------


def _prepare(
    runtime: Runtime, contract: Contract, masked: tuple[str, ...], said: tuple[Evidence, ...], how: Storing
) -> _Prepared:
    from outlast.handoffs.lint import lint

    if contract.refs:
        contract = _with_whole_refs(runtime, contract, how.scope)
    root = runtime.eyes.root(runtime, contract.repo_root) if how.bind or how.baseline is True else None
    bound = runtime.eyes.bind(runtime, contract, root) if how.bind and root else None
    judged = lint(contract)
    if how.strict:  # a weak one is refused before any check is run
        runtime.store.read(
            lambda look: _judged(look, judged, contract, bound, how, _before(look, _anchor(look, contract, how)))
        )
    return _Prepared(contract, masked, bound, judged, said or _ran(runtime, contract, how, root))


def _with_whole_refs(runtime: Runtime, contract: Contract, scope: str) -> Contract:
    """With refs that each name something. Raises ValueRefused, NotFound."""
    from outlast.workspace import refs

    whole = runtime.store.read(lambda look: refs.all_whole(look, contract.refs, scope))
    return replace(contract, refs=whole)


def _said(runtime: Runtime, contract: Contract, how: Storing) -> tuple[Evidence, ...]:
    """What somebody reports of the checks. Raises HandoffInvalid, SecretFound."""
    if isinstance(how.baseline, bool):
        return ()
    from outlast.handoffs import checks as checking
    from outlast.secrets import find as secrets

    at, where, given = runtime.clock.now(), runtime.process.host, how.baseline
    found = checking.reported(given, contract, when="store", by=how.actor, at=at, where=where, path="baseline")
    secrets.check(list(given), "baseline", runtime.secret_rules)
    return tuple(found)


def _ran(runtime: Runtime, contract: Contract, how: Storing, root: Any) -> tuple[Evidence, ...]:
    """What came of the checks, if they are to be run now."""
    if how.baseline is not True:
        return ()
    leave = foreign.own(contract)
    return tuple(runtime.eyes.run_checks(runtime, contract, root, leave=leave, when="store", by=how.actor))


def _anchor(look: Reading, contract: Contract, how: Storing) -> AnchorRow | None:
    return look.anchor_of(how.scope, contract.anchor)


def _before(look: Reading, anchor: AnchorRow | None) -> Found | None:
    """The newest revision under the anchor. Raises IntegrityBroken when it cannot be read."""
    revision = look.handoff_at(anchor.key, anchor.revision) if anchor else None
    return anchors.find(look, anchor, revision) if anchor and revision else None


def _judged(
    look: Reading, judged: Lint, contract: Contract, bound: Binding | None, how: Storing, before: Found | None
) -> Lint:
    """What lint says, also of the time when it is stored. Raises HandoffWeak."""
    from outlast.handoffs.lint import lint

    if _unchanged(look, contract, bound, how.scope, before):
        judged = lint(contract, unchanged=True)
    if how.strict and judged.weak:
        raise HandoffWeak(judged.score, "; ".join(f"{each.code}: {each.better}" for each in judged.findings))
    return judged


def _unchanged(look: Reading, contract: Contract, bound: Binding | None, scope: str, before: Found | None) -> bool:
    """Whether nothing was done since the last revision or, for a task's first one, since its run began."""
    if before is None:
        return _only_begun(look, scope, contract.anchor)
    was = before.handoff
    said = (was.summary, was.handoff_text, was.next_action)
    if said != (contract.summary, contract.handoff_text, contract.next_action):
        return False
    return _as_they_were(was.binding, bound)


def _as_they_were(before: Binding | None, now: Binding | None) -> bool:
    if before is None or now is None or before.commit != now.commit or {*before.files} != {*now.files}:
        return before is now
    return all(bound.same(now.files[path]) for path, bound in before.files.items())


def _only_begun(look: Reading, scope: str, anchor: str) -> bool:
    """Whether the anchor is of a task whose runs have not one receipt yet."""
    task = task_of(anchor)
    runs = look.unfinished_of_task(scope, task) if task is not None else []
    leases = [look.lease_of(run.id) for run in runs]
    return bool(leases) and all(lease is not None and lease.head <= 1 for lease in leases)


# -- the transaction ---------------------------------------------------------------------------------


def _write(runtime: Runtime, tx: Writing, prepared: _Prepared, how: Storing) -> tuple[Handoff, str]:
    contract = prepared.contract
    anchor = _anchor(tx, contract, how)
    before = _before(tx, anchor)
    judged = _judged(tx, prepared.lint, contract, prepared.binding, how, before)
    if how.guard is not None:
        how.guard(tx)
    found = anchor.revision if anchor else 0
    if how.expected_revision is not None and how.expected_revision != found:
        raise RevisionConflict(contract.anchor, how.expected_revision, found)
    held = _held(runtime, tx, before, how)
    if how.pause:
        held = _given_back(runtime, tx, anchor, contract.anchor, how)
    if anchor is None:
        anchor_id = runtime.ids()
        start = genesis_of_anchor(anchor_id, how.scope, contract.anchor)
        anchor = tx.add_anchor(anchor_id, how.scope, contract.anchor, start)
    if judged is not prepared.lint:
        prepared = replace(prepared, lint=judged)
    handoff = _handoff(runtime, tx, prepared, how, anchor, before, *held)
    _append(tx, anchor, handoff, before.lease if before and not how.pause else tx.lease_of_anchor(anchor.id))
    task_states.stored(runtime, tx, handoff, pause=how.pause)
    return handoff, handoff.id


def _held(runtime: Runtime, tx: Writing, found: Found | None, how: Storing) -> tuple[str, str]:
    """Our claim on the anchor, renewed by this use, and who else holds it. Raises ClaimLost, IntegrityBroken."""
    if found is None:
        if how.claim_id is not None:
            raise ClaimLost(named(how.claim_id), "this anchor", "nothing is stored under it")
        return "", ""
    if found.broken is not None:  # what is written after it would be believed as little
        raise found.broken.as_error()
    refuse_lost(runtime, found, how.claim_id)
    actor = asker(runtime, how.actor, alone=how.pause)
    holder = anchors.holder_of(runtime, tx, found, actor, claim_id=how.claim_id)
    if holder is None:
        return "", ""
    if not holder.mine:
        if how.pause:
            raise anchors.claimed_error(found.anchor.anchor, holder)
        return "", holder.who
    token = str(found.lease.holder)
    renew(runtime, tx, token)
    return print_of(token), ""


def _given_back(runtime: Runtime, tx: Writing, anchor: AnchorRow | None, name: str, how: Storing) -> tuple[str, str]:
    """End the claim under which is stored: what changes from now on is nobody's progress."""
    task_states.give_back_runs(runtime, tx, how.scope, task_of(name) or "")
    lease = tx.lease_of_anchor(anchor.id) if anchor else None
    if anchor is not None and lease is not None and lease.holder is not None:
        tx.take_lease(lease, None)
        hold = anchors.hold_of(anchor, lease, lease.epoch + 1)
        facts = {"by": how.actor, "claim": print_of(lease.holder)}
        tx.append(hold, [anchors.told("released", facts, at=runtime.clock.now(), epoch=hold.epoch)])
        tx.forget_process(lease.holder)
    return "", ""


def _handoff(
    runtime: Runtime,
    tx: Writing,
    prepared: _Prepared,
    how: Storing,
    anchor: AnchorRow,
    before: Found | None,
    claim: str,
    rival: str,
) -> Handoff:
    contract, at = prepared.contract, runtime.clock.now()
    given = {name: getattr(contract, name) for name in CONTRACT_FIELDS}
    given["supersedes"] = _superseded(tx, contract.supersedes)
    rival, rival_id = _rivalry(before, rival, given["supersedes"])
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
        rival=rival,
        rival_id=rival_id,
        reopened=anchor.status == "finished",
        key_id=runtime.key_id,
    )


def _rivalry(found: Found | None, rival: str, supersedes: str | None) -> tuple[str, str]:
    """Who held the claim while somebody else stored, and the earlier revision that was stored so: it stays contested
    until who holds the claim, or anybody when nobody does, says that another one supersedes it."""
    if rival:
        return rival, ""
    if found is None or found.anchor.status == "finished":
        return "", ""
    before = found.handoff
    rival_id = before.rival_id or before.id
    return (before.rival, rival_id) if before.rival and supersedes != rival_id else ("", "")


def _superseded(look: Reading, named: str | None) -> str | None:
    """The whole id of the handoff that is replaced. Raises HandoffNotFound."""
    if named is None:
        return None
    rows = look.handoffs_by_prefix(named)
    if len(rows) != 1 and named not in [row.id for row in rows]:
        raise HandoffNotFound(f"supersedes={named!r}", ", ".join(row.id for row in rows))
    return next((row.id for row in rows if row.id == named), rows[0].id)


def _append(tx: Writing, anchor: AnchorRow, handoff: Handoff, lease: LeaseRow | None) -> None:
    assert lease is not None
    hold = anchors.hold_of(anchor, lease)
    tx.append(hold, [anchors.told("stored", handoff, at=handoff.stored_us, epoch=lease.epoch, blobs=handoff.blobs)])
    tx.add_handoff(anchor.key, hold.head, row_of(handoff))
