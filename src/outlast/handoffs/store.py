"""Storing a handoff: checked, looked at and kept first, then one transaction makes it the anchor's next revision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from outlast.errors import ClaimLost, HandoffInvalid, HandoffNotFound, HandoffWeak, LeaseLost, RevisionConflict, Severed
from outlast.files.ask_git import one_look
from outlast.files.snapshot import SMALL_BYTES, Binding, ContentKeeper
from outlast.handoffs import anchor as anchors
from outlast.handoffs import foreign
from outlast.handoffs import task_state as task_states
from outlast.handoffs.anchor import FoundHandoff, _read_by, is_author, was_looked_at, worker_of
from outlast.handoffs.binding import as_committed, bound_since
from outlast.handoffs.claim import claimed_error, holder_of, refuse_lost
from outlast.handoffs.contract import contract_of, expiry
from outlast.handoffs.difference import field_diffs
from outlast.handoffs.evidence import reported, with_content
from outlast.handoffs.find import HandoffQuery, get
from outlast.handoffs.handoff import CONTRACT_FIELDS, Contract, Evidence, Handoff, Lint, Unread, anchor_of, task_of
from outlast.handoffs.journal import Noted, row_of
from outlast.handoffs.lint import lint
from outlast.handoffs.observer import observer_of
from outlast.home.caller import Repeatable, check_id, once
from outlast.home.claimer import asker, named, print_of, renew
from outlast.home.home import run_row
from outlast.ledger.journal import genesis_of_anchor
from outlast.runs.holder import refuse_lost as refuse_lost_run
from outlast.store.contract import AnchorRow, FirstRevision, LeaseRow, PlainStore, Reading, TaskRow, Writing
from outlast.values.ambient import refuse_stopped
from outlast.values.codec import encode, identity, path_of
from outlast.workspace import refs

if TYPE_CHECKING:
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.attempt import Attempt, Frame
    from outlast.runs.call import Call
    from outlast.runs.execution import Execution
    from outlast.runs.live import Executor
    from outlast.secrets import SecretRules


class Storing(Struct, frozen=True, kw_only=True):
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


class _Prepared(Struct, frozen=True):
    """All of a revision but its number."""

    contract: Contract
    masked: tuple[str, ...]
    binding: Binding | None
    lint: Lint  # unless nothing was done since the last revision
    idle: bool  # no file was worked on
    contents: Mapping[str, bytes]  # small ones, to be committed with it
    baseline: tuple[Evidence, ...] = ()


def store(executor: Executor, given: Mapping[str, Any], how: Storing) -> Handoff:
    """Store the next revision under an anchor, durable when this returns.

    Raises HandoffInvalid, SecretFound, HandoffWeak, RevisionConflict, ClaimLost, OperationConflict, IntegrityBroken.
    """
    check_id(how.operation_id)
    contract, masked = _without_secrets(contract_of(**given), how.redact, executor.home.secrets)
    said = _said(executor.caller, contract, how)
    operation = Repeatable(how.operation_id, "handoff_store", _content(contract, how))
    before = executor.home.store.read(operation.answered) if operation.id is not None else None
    if before is not None:
        return _again(executor.home, before)
    prepared = _prepare(executor, contract, masked, said, how)
    refuse_stopped()
    if executor.home.adopted and executor.caller.looks:
        foreign.stored_here(contract)  # what was in such a home before is not ours; this is
    return once(
        executor.home,
        operation,
        lambda tx: _write(executor.caller, tx, prepared, how),
        lambda answer: _again(executor.home, answer),
        _plain(executor.caller, prepared, how) if operation.id is None else None,
    )


def _content(contract: Contract, how: Storing) -> Any:
    """What makes two requests the same one: what was asked, not what was found."""
    baseline = how.baseline if isinstance(how.baseline, bool) else list(how.baseline)
    options = [how.scope, how.actor, how.strict, baseline, how.redact, how.bind, how.expected_revision]
    return [[*options, "pause"] if how.pause else options, contract]


def _again(home: Home, handoff_id: str) -> Handoff:
    return replace(get(home, HandoffQuery("", handoff_id=handoff_id)), replayed=True)


def _without_secrets(contract: Contract, redact: bool, secrets: SecretRules) -> tuple[Contract, tuple[str, ...]]:
    """The contract, masked where it holds secrets and that was asked for. Raises SecretFound otherwise."""
    given = {name: value for name, value in asdict(contract).items() if value}
    if not redact:
        secrets.check(given, "")
        return contract, ()
    changed, masked = secrets.masked(given, "")
    return (replace(contract, **changed) if masked else contract), tuple(masked)


# -- before the transaction --------------------------------------------------------------------------


def _prepare(
    executor: Executor, contract: Contract, masked: tuple[str, ...], said: tuple[Evidence, ...], how: Storing
) -> _Prepared:
    if contract.refs:
        whole = executor.home.store.read(lambda look: refs.all_whole(look, contract.refs, how.scope))
        contract = replace(contract, refs=whole)
    root, bound, contents = _looked_at(executor, contract, how)
    idle = _is_idle(executor.caller, contract, how, bound)
    prepared = _Prepared(contract, masked, bound, lint(contract, bound=bound), idle, contents)
    if how.strict:  # a weak one is refused before any check is run
        executor.home.store.read(lambda look: _following(look, prepared, how, _before(look, how.scope, contract)))
    baseline = with_content(said or _ran(executor, contract, how, root), bound)
    return replace(prepared, baseline=tuple(baseline)) if baseline else prepared


def _looked_at(
    executor: Executor, contract: Contract, how: Storing
) -> tuple[Path | None, Binding | None, Mapping[str, bytes]]:
    """The root, what is bound below it, and its small contents; none of these where nobody is to look."""
    if not how.bind and how.baseline is not True:
        return None, None, {}
    caller, observer = executor.caller, observer_of(executor.caller)
    if not observer.looks:  # what a request carries: no git is asked, and nothing kept
        root = observer.root(caller, contract.repo_root)
        return root, observer.bind(caller, contract, root) if how.bind else None, {}
    with one_look(), ContentKeeper(executor.home.blobs, small_bytes=SMALL_BYTES) as keeper:
        root = observer.root(caller, contract.repo_root)
        bound = observer.bind(caller, contract, root, keeper) if how.bind else None
    return root, bound, keeper.small


def _is_idle(caller: Caller, contract: Contract, how: Storing, bound: Binding | None) -> bool:
    """Whether no file was worked on since the task of the anchor was opened; where it was not, nobody asks git."""
    if bound is None or not bound.files:
        return True
    if not caller.home.store.read(lambda look: _is_only_opened(look, how.scope, contract.anchor)):
        return False
    return as_committed(Path(path_of(bound.root)) if caller.looks else None, bound)


def _said(caller: Caller, contract: Contract, how: Storing) -> tuple[Evidence, ...]:
    """What somebody reports of the checks. Raises HandoffInvalid, SecretFound."""
    if isinstance(how.baseline, bool):
        return ()
    at, where, given = caller.home.clock.now(), caller.whence["host"], how.baseline
    found = reported(given, contract, when="store", by=how.actor, at=at, where=where, path="baseline")
    caller.home.secrets.check(list(given), "baseline")
    return tuple(found)


def _ran(executor: Executor, contract: Contract, how: Storing, root: Any) -> tuple[Evidence, ...]:
    if how.baseline is not True:
        return ()
    leave, observer = foreign.own(contract), observer_of(executor.caller)
    return tuple(observer.run_checks(executor, contract, root, leave=leave, when="store", by=how.actor))


def _before(look: Reading, scope: str, contract: Contract) -> FoundHandoff | None:
    """The newest revision under the anchor. Raises IntegrityBroken when it cannot be read."""
    anchor = look.anchor_of(scope, contract.anchor)
    revision = look.handoff_at(anchor.key, anchor.revision) if anchor else None
    return anchors.find(look, anchor, revision) if anchor and revision else None


def _following(look: Reading, prepared: _Prepared, how: Storing, before: FoundHandoff | None) -> _Prepared:
    """The same as what follows the revision before, with what lint says of that. Raises HandoffWeak."""
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
    return bound_since("must_keep", prepared.contract, before.handoff, bound, anchors.accepted_since(before))


def _unchanged(look: Reading, prepared: _Prepared, scope: str, before: FoundHandoff | None) -> bool:
    """Whether nothing was done since the last revision or, for a task's first one, since it or its run began.

    A revision that says more, or something else, is no repetition: it may be what lint asked for.
    """
    contract = prepared.contract
    if before is None:
        opened = prepared.idle and _is_only_opened(look, scope, contract.anchor)
        return opened or _only_begun(look, scope, contract.anchor)
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


def _plain(caller: Caller, prepared: _Prepared, how: Storing) -> PlainStore | None:
    """What the transaction comes to where nothing is known of the anchor and its task; None where more is asked."""
    contract = prepared.contract
    asks = (how.claim_id, how.expected_revision, how.guard, contract.supersedes)
    if how.strict or how.pause or asks.count(None) < len(asks):
        return None
    bound, said = prepared.binding, prepared.baseline
    has_content = bool(prepared.contents or (bound and bound.blobs) or any(each.output for each in said))
    make, task = partial(_first, caller, prepared, how), task_of(contract.anchor)
    return PlainStore(how.scope, contract.anchor, task, make, has_content)


def _first(caller: Caller, prepared: _Prepared, how: Storing) -> FirstRevision:
    anchor_id = caller.home.ids()
    handoff = _handoff(caller, prepared, how, None, None, None, "", "")
    start = genesis_of_anchor(anchor_id, how.scope, handoff.anchor)
    entry = anchors.told("stored", handoff, at=handoff.stored_us, epoch=0, blobs=handoff.blobs)
    return FirstRevision(anchor_id, start, entry, row_of(handoff), prepared.contents, (handoff, None))


def _write(caller: Caller, tx: Writing, prepared: _Prepared, how: Storing) -> tuple[Handoff, str]:
    contract = prepared.contract
    anchor, before = tx.anchor_of(how.scope, contract.anchor), _before(tx, how.scope, contract)
    prepared = _following(tx, prepared, how, before)
    if how.guard is not None:
        how.guard(tx)
    found = anchor.revision if anchor else 0
    if how.expected_revision is not None and how.expected_revision != found:
        raise RevisionConflict(contract.anchor, how.expected_revision, found)
    held = _held(caller, tx, before, how)
    if how.pause:
        held = _given_back(caller, tx, anchor, contract.anchor, how)
    lease = before.lease if before and not how.pause else None
    if anchor is None:
        anchor, lease = _new_anchor(caller.home, tx, how.scope, contract.anchor)
    elif lease is None:
        lease = tx.lease_of_anchor(anchor.id)
    new = _handoff(caller, prepared, how, anchor, before, _superseded(tx, contract.supersedes), *held)
    unread = None if new.rival else unread_by(caller, tx, before, new, how)
    handoff = new if unread is None else replace(new, unread=unread)
    _append(tx, anchor, handoff, lease)
    tx.keep_contents(prepared.contents)
    task_states.stored(caller.home, tx, handoff, pause=how.pause)
    return handoff, handoff.id


def _new_anchor(home: Home, tx: Writing, scope: str, anchor: str) -> tuple[AnchorRow, LeaseRow]:
    """An anchor that was not there, and its lease, which is as it was made."""
    anchor_id = home.ids()
    start = genesis_of_anchor(anchor_id, scope, anchor)
    made = tx.add_anchor(anchor_id, scope, anchor, start)
    return made, LeaseRow(made.key, 0, 0, start, None)


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
    holder = holder_of(caller, tx, found, actor, claim_id=how.claim_id)
    if holder is None:
        return "", ""
    if not holder.mine:
        if how.pause:
            raise claimed_error(found.anchor.anchor, holder)
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
    prepared: _Prepared,
    how: Storing,
    anchor: AnchorRow | None,
    before: FoundHandoff | None,
    supersedes: str | None,
    claim: str,
    rival: str,
) -> Handoff:
    contract, at = prepared.contract, caller.home.clock.now()
    given = asdict(contract) | caller.whence | {"supersedes": supersedes}
    rival, rival_id = _rivalry(before, rival, supersedes)
    return Handoff(
        **given,
        id=caller.home.ids(),
        scope=how.scope,
        revision=anchor.revision + 1 if anchor else 1,
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
        reopened=anchor is not None and anchor.status == "finished",
        worker="" if how.guard is not None else worker_of(caller),  # a run stores in whatever process it is in
        key_id=caller.key_id,
    )


def _as_asked_for(prepared: _Prepared, before: FoundHandoff | None) -> Binding | None:
    """What a hook bound; what must change, and it carries on, counts from when somebody asked for it: a session that
    ends does not undo what it changed."""
    contract, bound = prepared.contract, prepared.binding
    if before is None or bound is None or before.anchor.status == "finished" or not contract.must_change:
        return bound
    return bound_since("must_change", contract, before.handoff, bound)


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


def _is_only_opened(look: Reading, scope: str, anchor: str) -> bool:
    task = task_of(anchor)
    return task is not None and only_opened(look, look.task_of(scope, task))


def only_opened(look: Reading, row: TaskRow | None) -> bool:
    """Whether the task was opened, and nothing else happened to it."""
    return row is not None and row.head == 1 and not look.runs_of_task(row.scope, row.task, 1)


# -- a rival -----------------------------------------------------------------------------------------


def unread_by(caller: Caller, tx: Writing, before: FoundHandoff | None, new: Handoff, how: Storing) -> Unread | None:
    """The revision before, if who stores this one had not read it and they differ; or the one that it is a rival of."""
    if before is None or before.anchor.status == "finished" or new.claim or how.source:
        return None
    was = before.handoff
    knows = how.expected_revision == was.revision or new.supersedes == was.id
    if knows or was.source or _has_read(caller, tx, before, new):
        return _carried(tx, was, new)
    differs = tuple(each.field for each in field_diffs(was, new) if each.field not in ("score", "supersedes"))
    return Unread(was.id, was.revision, was.actor, was.host, differs) if differs else _carried(tx, was, new)


def _carried(tx: Writing, was: Handoff, new: Handoff) -> Unread | None:
    """What the revision before is a rival of stays named until somebody looks, or says what supersedes it."""
    if was.unread is None or new.supersedes == was.unread.id or was_looked_at(tx, was):
        return None
    return was.unread


def _has_read(caller: Caller, look: Reading, before: FoundHandoff, new: Handoff) -> bool:
    """Whether its author has, under this name or under that of his process, which stores in any name."""
    if is_author(before.handoff, new.actor, new.worker):
        return True
    names = {new.actor, caller.actor}
    if any(isinstance(one.said, Noted) and one.said.by in names for one in before.since):
        return True  # he claimed, checked or settled it
    marks = {_read_by(before.handoff.id, name, worker) for name in names for worker in ("", new.worker)}
    return any(look.operation(mark) is not None for mark in marks)


# -- stored by a run ---------------------------------------------------------------------------------


_OPTIONS = ("strict", "baseline", "redact", "bind", "expected_revision")


def store_from_run(
    execution: Execution, frame: Frame, summary: str, text: str, anchor: str | None, fields: Mapping[str, Any]
) -> Handoff:
    """The handoff that this call stored. Killed between storing and remembering it, the call finds it by its own id.

    When another worker has taken the run over nothing is stored, and the body ends.
    """
    executor = execution.executor
    run = run_row(executor.home, execution.id)
    given = {"anchor": anchor or anchor_of(run.task), "summary": summary, "handoff_text": text, **fields}
    options = {name: given.pop(name) for name in _OPTIONS if name in given}
    for name in ("scope", "actor", "tenant_id", "operation_id", "claim_id"):
        if name in given:
            raise HandoffInvalid(name, "a run stores as itself", "leave it out, or use outlast.handoff.store")

    def make(call: Call | None) -> str:
        place = identity(encode(call)) if call is not None else _in_step(execution, frame)
        operation, guard = f"run:{run.id}:{place}", partial(refuse_lost_run, hold=execution.hold)
        how = Storing(scope=run.scope, actor=run.actor, operation_id=operation, guard=guard, **options)
        try:
            return store(executor, given, how).id
        except LeaseLost as lost:
            execution.writer.sever(lost)

    stored = execution.value_of_call(frame, "run.handoff", make)
    return get(executor.home, HandoffQuery(run.scope, handoff_id=stored))


def _in_step(execution: Execution, frame: Frame) -> str:
    """Which call of which attempt it is. Raises Severed when the run is not this worker's any more."""
    if execution.writer.severed is not None:
        raise Severed from execution.writer.severed
    attempt: Attempt | None = frame.attempt
    assert attempt is not None
    attempt.handoffs += 1
    return f"{identity(encode(attempt.asked.call))}:{execution.hold.epoch}:{attempt.number}:{attempt.handoffs}"
