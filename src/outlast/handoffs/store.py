"""Storing a handoff: checked, looked at and kept first, then one transaction makes it the anchor's next revision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.errors import ClaimLost, HandoffNotFound, HandoffWeak, RevisionConflict
from outlast.files.changes import path_of
from outlast.handoffs import anchor as anchors
from outlast.handoffs import foreign, reads
from outlast.handoffs import task_state as task_states
from outlast.handoffs.anchor import FoundHandoff
from outlast.handoffs.anchor import refuse_lost as refuse_lost
from outlast.handoffs.anchor_journal import row_of
from outlast.handoffs.contract import contract_of, expiry
from outlast.handoffs.counting import content_of
from outlast.handoffs.find import HandoffQuery, get
from outlast.handoffs.handoff import CONTRACT_FIELDS, Binding, Contract, Evidence, Handoff, Lint
from outlast.handoffs.observer import observer_of
from outlast.home import once as operations
from outlast.home.claimer import asker, named, print_of, renew
from outlast.home.once import Operation, check_id
from outlast.ledger.journal import genesis_of_anchor
from outlast.store.contract import AnchorRow, LeaseRow, Reading, Writing
from outlast.tasks.task import task_of
from outlast.values.ambient import refuse_stopped
from outlast.values.frozen import dataclass

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor
    from outlast.secrets.rules import SecretRule


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


_SAID = tuple(name for name in CONTRACT_FIELDS if name not in ("repo_root", "supersedes", "expires"))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """All of a revision but its number."""

    contract: Contract
    masked: tuple[str, ...]
    binding: Binding | None
    lint: Lint  # unless nothing was done since the last revision
    idle: bool  # of a task that was only opened: no file was worked on
    baseline: tuple[Evidence, ...] = ()


def store(executor: Executor, given: Mapping[str, Any], how: Storing) -> Handoff:
    """Store the next revision under an anchor, durable when this returns.

    Raises HandoffInvalid, SecretFound, HandoffWeak, RevisionConflict, ClaimLost, OperationConflict, IntegrityBroken.
    """
    check_id(how.operation_id)
    contract, masked = _without_secrets(contract_of(**given), how.redact, executor.home.secrets.rules)
    said = _said(executor.caller, contract, how)
    operation = Operation(how.operation_id, "handoff_store", _content(contract, how))
    before = executor.home.store.read(operation.answered) if operation.id is not None else None
    if before is not None:
        return _again(executor.home, before)
    prepared = _prepare(executor, contract, masked, said, how)
    refuse_stopped()
    if executor.home.adopted and observer_of(executor.caller).looks:
        foreign.stored_here(contract)  # what was in such a home before is not ours; this is
    return operations.once(
        executor.home,
        operation,
        lambda tx: _write(executor.caller, tx, prepared, how),
        lambda answer: _again(executor.home, answer),
    )


def _content(contract: Contract, how: Storing) -> Any:
    """What makes two requests the same one: what was asked, not what was found."""
    baseline = how.baseline if isinstance(how.baseline, bool) else list(how.baseline)
    options = [how.scope, how.actor, how.strict, baseline, how.redact, how.bind, how.expected_revision]
    return [[*options, "pause"] if how.pause else options, contract]


def _again(home: Home, handoff_id: str) -> Handoff:
    return replace(get(home, HandoffQuery("", handoff_id=handoff_id)), replayed=True)


def _without_secrets(
    contract: Contract, redact: bool, rules: tuple[SecretRule, ...]
) -> tuple[Contract, tuple[str, ...]]:
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
    executor: Executor, contract: Contract, masked: tuple[str, ...], said: tuple[Evidence, ...], how: Storing
) -> _Prepared:
    from outlast.handoffs.lint import lint

    if contract.refs:
        contract = _with_whole_refs(executor.home, contract, how.scope)
    caller, observer = executor.caller, observer_of(executor.caller)
    root = observer.root(caller, contract.repo_root) if how.bind or how.baseline is True else None
    bound = observer.bind(caller, contract, root) if how.bind and root else None
    prepared = _Prepared(contract, masked, bound, lint(contract, bound=bound), _is_idle(caller, contract, how, bound))
    if how.strict:  # a weak one is refused before any check is run
        executor.home.store.read(
            lambda look: _following(look, prepared, how, _before(look, _anchor(look, contract, how)))
        )
    return replace(prepared, baseline=_about(bound, said or _ran(executor, contract, how, root)))


def _about(bound: Binding | None, evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """The same, with the content that it is about."""
    if bound is None or not evidence:
        return evidence
    content = content_of(bound)
    return tuple(replace(each, content=content) for each in evidence)


def _is_idle(caller: Caller, contract: Contract, how: Storing, bound: Binding | None) -> bool:
    """Whether the anchor is of a task that was opened, and nobody has done anything since."""
    task = task_of(contract.anchor)
    if task is None:
        return False
    from outlast.handoffs.lint import as_committed, only_opened

    opened = caller.home.store.read(lambda look: only_opened(look, look.task_of(how.scope, task)))
    return opened and as_committed(Path(path_of(bound.root)) if bound and observer_of(caller).looks else None, bound)


def _with_whole_refs(home: Home, contract: Contract, scope: str) -> Contract:
    """With refs that each name something. Raises ValueRefused, NotFound."""
    from outlast.workspace import refs

    whole = home.store.read(lambda look: refs.all_whole(look, contract.refs, scope))
    return replace(contract, refs=whole)


def _said(caller: Caller, contract: Contract, how: Storing) -> tuple[Evidence, ...]:
    """What somebody reports of the checks. Raises HandoffInvalid, SecretFound."""
    if isinstance(how.baseline, bool):
        return ()
    from outlast.handoffs import checks as checking
    from outlast.secrets import find as secrets

    at, where, given = caller.home.clock.now(), caller.whence["host"], how.baseline
    found = checking.reported(given, contract, when="store", by=how.actor, at=at, where=where, path="baseline")
    secrets.check(list(given), "baseline", caller.home.secrets.rules)
    return tuple(found)


def _ran(executor: Executor, contract: Contract, how: Storing, root: Any) -> tuple[Evidence, ...]:
    """What came of the checks, if they are to be run now."""
    if how.baseline is not True:
        return ()
    leave = foreign.own(contract)
    return tuple(
        observer_of(executor.caller).run_checks(executor, contract, root, leave=leave, when="store", by=how.actor)
    )


def _anchor(look: Reading, contract: Contract, how: Storing) -> AnchorRow | None:
    return look.anchor_of(how.scope, contract.anchor)


def _before(look: Reading, anchor: AnchorRow | None) -> FoundHandoff | None:
    """The newest revision under the anchor. Raises IntegrityBroken when it cannot be read."""
    revision = look.handoff_at(anchor.key, anchor.revision) if anchor else None
    return anchors.find(look, anchor, revision) if anchor and revision else None


def _following(look: Reading, prepared: _Prepared, how: Storing, before: FoundHandoff | None) -> _Prepared:
    """The same as what follows the revision before, with what lint says of that. Raises HandoffWeak."""
    from outlast.handoffs.lint import lint

    bound, contract = _kept_since(prepared, before), prepared.contract
    unchanged = _unchanged(look, prepared, how.scope, before)
    if unchanged or bound is not prepared.binding:
        prepared = replace(prepared, binding=bound, lint=lint(contract, unchanged=unchanged, bound=bound))
    judged = prepared.lint
    if how.strict and judged.weak:
        raise HandoffWeak(judged.score, "; ".join(f"{each.code}: {each.better}" for each in judged.findings))
    return prepared


def _kept_since(prepared: _Prepared, before: FoundHandoff | None) -> Binding | None:
    """What is bound: what must be kept, as it was when that was first said, or accepted since."""
    bound = prepared.binding
    if bound is None or before is None or before.broken is not None or before.anchor.status == "finished":
        return bound
    if not {*map(str, prepared.contract.must_keep)} & {*map(str, before.handoff.must_keep)}:
        return bound
    from outlast.handoffs.kept import kept_since

    return kept_since(prepared.contract, before.handoff, bound, anchors.accepted_since(before))


def _unchanged(look: Reading, prepared: _Prepared, scope: str, before: FoundHandoff | None) -> bool:
    """Whether nothing was done since the last revision or, for a task's first one, since it or its run began.

    A revision that says more, or something else, is no repetition: it may be what lint asked for.
    """
    contract = prepared.contract
    if before is None:
        return prepared.idle or _only_begun(look, scope, contract.anchor)
    if any(getattr(before.handoff, name) != getattr(contract, name) for name in _SAID):
        return False
    return _as_they_were(before.handoff.binding, prepared.binding)


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


def _write(caller: Caller, tx: Writing, prepared: _Prepared, how: Storing) -> tuple[Handoff, str]:
    contract = prepared.contract
    anchor = _anchor(tx, contract, how)
    before = _before(tx, anchor)
    prepared = _following(tx, prepared, how, before)
    if how.guard is not None:
        how.guard(tx)
    found = anchor.revision if anchor else 0
    if how.expected_revision is not None and how.expected_revision != found:
        raise RevisionConflict(contract.anchor, how.expected_revision, found)
    held = _held(caller, tx, before, how)
    if how.pause:
        held = _given_back(caller, tx, anchor, contract.anchor, how)
    if anchor is None:
        anchor_id = caller.home.ids()
        start = genesis_of_anchor(anchor_id, how.scope, contract.anchor)
        anchor = tx.add_anchor(anchor_id, how.scope, contract.anchor, start)
    handoff = _handoff(caller, tx, prepared, how, anchor, before, *held)
    _append(tx, anchor, handoff, before.lease if before and not how.pause else tx.lease_of_anchor(anchor.id))
    task_states.stored(caller.home, tx, handoff, pause=how.pause)
    return handoff, handoff.id


def _held(caller: Caller, tx: Writing, found: FoundHandoff | None, how: Storing) -> tuple[str, str]:
    """Our claim on the anchor, renewed by this use, and who else holds it. Raises ClaimLost, IntegrityBroken."""
    if found is None:
        if how.claim_id is not None:
            raise ClaimLost(named(how.claim_id), "this anchor", "nothing is stored under it")
        return "", ""
    if found.broken is not None:  # what is written after it would be believed as little
        raise found.broken.as_error()
    refuse_lost(caller, found, how.claim_id)
    actor = asker(caller, how.actor, alone=how.pause)
    holder = anchors.holder_of(caller, tx, found, actor, claim_id=how.claim_id)
    if holder is None:
        return "", ""
    if not holder.mine:
        if how.pause:
            raise anchors.claimed_error(found.anchor.anchor, holder)
        return "", holder.who
    token = str(found.lease.holder)
    renew(caller.home, tx, token)
    return print_of(token), ""


def _given_back(caller: Caller, tx: Writing, anchor: AnchorRow | None, name: str, how: Storing) -> tuple[str, str]:
    """End the claim under which is stored: what changes from now on is nobody's progress."""
    task_states.give_back_runs(caller, tx, how.scope, task_of(name) or "")
    lease = tx.lease_of_anchor(anchor.id) if anchor else None
    if anchor is not None and lease is not None and lease.holder is not None:
        tx.take_lease(lease, None)
        hold = anchors.hold_of(anchor, lease, lease.epoch + 1)
        facts = {"by": how.actor, "claim": print_of(lease.holder), **caller.whence}
        tx.append(hold, [anchors.told("released", facts, at=caller.home.clock.now(), epoch=hold.epoch)])
        tx.forget_holder(lease.holder)
    return "", ""


def _handoff(
    caller: Caller,
    tx: Writing,
    prepared: _Prepared,
    how: Storing,
    anchor: AnchorRow,
    before: FoundHandoff | None,
    claim: str,
    rival: str,
) -> Handoff:
    contract, at = prepared.contract, caller.home.clock.now()
    given = {name: getattr(contract, name) for name in CONTRACT_FIELDS} | caller.whence
    given["supersedes"] = _superseded(tx, contract.supersedes)
    rival, rival_id = _rivalry(before, rival, given["supersedes"])
    new = Handoff(
        **given,
        id=caller.home.ids(),
        scope=how.scope,
        revision=anchor.revision + 1,
        actor=how.actor,
        stored_us=at,
        expires_us=expiry(contract.expires, at),
        lint=prepared.lint,
        binding=_as_asked_for(prepared, before) if how.source == "hook" else prepared.binding,
        baseline=prepared.baseline,
        masked=prepared.masked,
        source=how.source,
        claim=claim,
        rival=rival,
        rival_id=rival_id,
        reopened=anchor.status == "finished",
        worker="" if how.guard is not None else reads.worker_of(caller),  # a run stores in whatever process it is in
        key_id=caller.key_id,
    )
    unread = None if rival else reads.unread_by(caller, tx, before, new, how)
    return replace(new, unread=unread) if unread is not None else new


def _as_asked_for(prepared: _Prepared, before: FoundHandoff | None) -> Binding | None:
    """What a hook bound; what must change, and it carries on, counts from when somebody asked for it: a session that
    ends does not undo what it changed."""
    contract, bound = prepared.contract, prepared.binding
    if before is None or bound is None or before.anchor.status == "finished" or not contract.must_change:
        return bound
    from outlast.handoffs.kept import changed_since

    return changed_since(contract, before.handoff, bound)


def _rivalry(found: FoundHandoff | None, rival: str, supersedes: str | None) -> tuple[str, str]:
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
