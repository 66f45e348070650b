"""Settling a handoff: completed, failed or released. Completed must be shown, or overridden with a reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from outlast.clock import moment
from outlast.errors import ClaimLost, HandoffInvalid, NotSettled
from outlast.files.snapshot import Bound
from outlast.handoffs import anchor as anchors
from outlast.handoffs import claim as claims
from outlast.handoffs import foreign
from outlast.handoffs import task_state as task_states
from outlast.handoffs.anchor import FoundHandoff, believed, was_looked_at
from outlast.handoffs.claim import Moved, Recovering
from outlast.handoffs.contract import passes_always
from outlast.handoffs.evidence import CountedCheck, reported, shows_nothing, with_content
from outlast.handoffs.find import HandoffQuery, claimed_subject, finished
from outlast.handoffs.handoff import ENDINGS, Ending, Evidence, Handoff, Settlement, key_of, label_of, task_of
from outlast.handoffs.musts import rule_of_must
from outlast.handoffs.observer import observer_of
from outlast.handoffs.recover_run import our_claim_on, release
from outlast.handoffs.verdict import Observed, command, counted_of, rival_of, unread_rival
from outlast.home.caller import Repeatable, check_id, once
from outlast.home.claimer import asker, print_of, renewal
from outlast.store.contract import LeaseRow, Reading, Writing
from outlast.values.ambient import refuse_stopped
from outlast.values.codec import encode, jsonable, pack_json
from outlast.values.text import last_lines

if TYPE_CHECKING:
    from outlast.handoffs.compose import Composed
    from outlast.home.caller import Caller
    from outlast.home.home import Home
    from outlast.runs.live import Executor

RECENT_RUNS = 50
NOTHING_SHOWS = (
    "nothing shows that it is done: {why}. Say what you ran (evidence=[…], --evidence), or store it again with a check"
)


class Settling(Struct, frozen=True, kw_only=True):
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


class _Shown(Struct, frozen=True):
    """What was found before the transaction."""

    evidence: tuple[Evidence, ...]
    files: Mapping[str, Bound] | None
    lacking: tuple[str, ...]  # why it does not count as completed
    mine: bool  # who settles held the claim meanwhile


def settle(executor: Executor, asked: HandoffQuery, how: Settling) -> Settlement:
    """Settle the newest revision and give the claim back, durable when this returns.

    Raises NotSettled, HandoffClaimed, ClaimLost, Finished, HandoffInvalid, ForeignCommands.
    """
    check(executor.home, how)
    said = [how.acknowledged, how.missing, how.override, how.note, how.run_checks]
    content = [list(asked), how.outcome, how.actor, list(how.evidence), *said, *(["task"] if how.task else [])]
    operation = Repeatable(how.operation_id, "handoff_settle", content)
    before = executor.home.store.read(operation.answered)
    if before is not None:
        return _again(before)
    while True:
        subject = _subject(executor, asked, how)
        if not isinstance(subject, FoundHandoff):
            return _settle_run(executor.caller, subject, how, operation)
        with suppress(Moved):  # something happened to it: what was shown is of before that
            return _settle_found(executor, subject, asked.repo_root, how, operation)


def _settle_found(
    executor: Executor, found: FoundHandoff, repo_root: str | None, how: Settling, operation: Repeatable
) -> Settlement:
    """Raises Moved when the anchor is not as it was when the checks were run."""
    if found.anchor.status == "finished":
        raise finished(found)
    mine = executor.home.store.read(lambda look: _holds(executor.caller, look, found, how))
    rival = _rival(executor.home, found, mine) if how.outcome == "completed" else ""
    if rival and not how.override.strip():  # before its checks run: they are not those that were claimed
        raise NotSettled(found.anchor.anchor, rival)
    shown = _show(executor, found, repo_root, how, mine)
    if shown.lacking and not how.override.strip():
        _remember(executor.caller, found, shown, how)
        error = NotSettled(found.anchor.anchor, "; ".join(shown.lacking))
        note_printed(executor.home, error, shown.evidence)
        raise error
    refuse_stopped()
    caller = executor.caller
    settled = once(caller.home, operation, lambda tx: _write(caller, tx, found, shown, how), _again)
    caller.tokens.discard(found.lease.holder or "")
    return settled


def _remember(caller: Caller, found: FoundHandoff, shown: _Shown, how: Settling) -> None:
    """Put on record what was run, though it does not complete the work: what was seen counts. Raises Moved."""
    ran = [each for each in shown.evidence if each.runner != "self"]
    files = anchors.files_of(shown.files) if shown.files is not None else None
    facts = {"by": how.actor, "evidence": jsonable(ran), "files": files, **caller.whence}

    def work(tx: Writing) -> None:
        lease, at = _still_open(caller, tx, found, shown, how), caller.home.clock.now()
        hold, blobs = anchors.hold_of(found.anchor, lease), [each.output for each in ran if each.output]
        tx.append(hold, [anchors.told("checked", facts, at=at, epoch=hold.epoch, blobs=blobs)])

    if ran:
        caller.home.store.write(work)


def note_printed(home: Home, error: NotSettled, evidence: Iterable[Evidence]) -> None:
    """Add a note to the error for each failed check: what it printed last."""
    for each in evidence:
        if not each.passed and each.output and home.blobs.has(each.output):
            printed = last_lines(home.blobs.get(each.output))
            error.add_note("\n".join([f"{each.label} printed:", *(f"  {line}" for line in printed)]))


def _again(answer: str) -> Settlement:
    return replace(msgspec.json.decode(answer, type=Settlement), replayed=True)


def check(home: Home, how: Settling) -> None:
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
    pack_json(list(how.evidence), "evidence")
    for name in ("evidence", "acknowledged", "missing", "override", "note"):
        given = getattr(how, name)
        home.secrets.check(given if isinstance(given, str) else list(given), name)


def _subject(executor: Executor, asked: HandoffQuery, how: Settling) -> FoundHandoff | Composed:
    """What is settled, as recovering chooses it; of a task that is completed its handoff.

    Raises HandoffNotFound, HandoffInvalid, IntegrityBroken.
    """
    subject = claimed_subject(executor, asked, how.claim_id, how.actor)
    found = subject.explicit if how.task else subject.found
    if found is None:
        assert subject.composed is not None
        return subject.composed
    if found.broken is not None:
        raise found.broken.as_error()
    if found.handoff.revision != found.anchor.revision:
        why = f"revision {found.handoff.revision} is not the newest"
        raise HandoffInvalid("handoff_id", why, f"settle the anchor: {command(found.handoff, 'settle', how.outcome)}")
    return found


def _settle_run(caller: Caller, composed: Composed, how: Settling, operation: Repeatable) -> Settlement:
    """What is composed from a run ends with the run, and can be released before.

    Raises HandoffInvalid, HandoffClaimed, ClaimLost.
    """
    handoff, run = composed.handoff, composed.run
    if how.outcome != "released":
        why = f"{handoff.anchor!r} is composed from run {run.run_id}, and is over when that run is"
        remedy = f"continue it ({run.command}) or give it up (outlast abort {run.run_id} --why WHY)"
        raise HandoffInvalid("anchor", why, remedy)
    claim = our_claim_on(caller, composed, Recovering(actor=how.actor, claim_id=how.claim_id, task=how.task))
    facts = {"by": how.actor, "missing": list(how.missing), "note": how.note}

    def work(tx: Writing) -> tuple[Settlement, str]:
        release(caller.home, tx, composed, claim, facts)
        done = _settlement(handoff, how, caller.home.clock.now())
        return done, encode(done).decode()

    settled = once(caller.home, operation, work, _again)
    caller.tokens.discard(claim.process.id)
    return settled


def _settlement(handoff: Handoff, how: Settling, at: int) -> Settlement:
    about = (handoff.anchor, handoff.id, handoff.revision, how.outcome, how.actor, moment(at), handoff.lint.score)
    return Settlement(*about, missing=how.missing, note=how.note)


def _holds(caller: Caller, look: Reading, found: FoundHandoff, how: Settling) -> bool:
    """Whether who settles holds the claim. Raises ClaimLost, HandoffClaimed."""
    claims.refuse_lost(caller, found, how.claim_id)
    asks = asker(caller, how.actor, alone=how.task)
    holder = claims.holder_of(caller, look, found, asks, claim_id=how.claim_id)
    if holder is not None and not holder.mine:
        raise claims.refused_error(caller, found, holder, asks)
    return holder is not None


# -- what shows it -----------------------------------------------------------------------------------


def _show(executor: Executor, found: FoundHandoff, repo_root: str | None, how: Settling, mine: bool) -> _Shown:
    handoff, observer = found.handoff, observer_of(executor.caller)
    root = observer.place(executor.caller, handoff, repo_root)
    at, where = executor.home.clock.now(), executor.caller.whence["host"]
    said = reported(how.evidence, handoff, when="settle", by=how.actor, at=at, where=where)
    ran: list[Evidence] = []
    if how.outcome == "completed" and how.run_checks and root is not None:
        between = renewal(executor.home, found.lease.holder if mine else None)
        leave = foreign.leave(executor.caller, found, handoff, how.agree)
        ran = observer.run_checks(executor, handoff, root, leave=leave, when="settle", by=how.actor, between=between)
    seen = observer.observe(executor.home, handoff, root) if root is not None else None
    now = seen.binding if seen is not None else None
    said, ran = with_content(said, now), with_content(ran, now)
    lacking = _lacking(executor.caller, found, root, how, ran, said, seen) if how.outcome == "completed" else ()
    if how.outcome == "completed":
        lacking += executor.home.store.read(lambda look: _unshown_work(look, found, root, said))
        lacking += tuple(filter(None, [_rival(executor.home, found, mine)]))
        lacking += executor.home.store.read(lambda look: _running(executor.caller, look, found))
    return _Shown((*said, *ran), now.files if now else None, lacking, mine)


def _lacking(
    caller: Caller,
    found: FoundHandoff,
    root: Path | None,
    how: Settling,
    ran: list[Evidence],
    said: list[Evidence],
    seen: Observed | None,
) -> tuple[str, ...]:
    """Why the work does not count as completed: a check, a file rule, a must in prose."""
    just_now = {each.key: each for each in believed(caller.home, ran) if each.runner != "self"}
    known = just_now if how.run_checks else _recorded(caller.home, found, seen)
    why = "could not be run here: the files are not here" if root is None else ""
    checks = [_unshown(label_of(form), known.get(key_of(form)), why) for form in found.handoff.acceptance_checks]
    disproved = [f"check {each.label!r} failed, says {each.by}" for each in said if not each.passed]
    wrong = musts_lacking(caller, found.handoff, root, how.acknowledged)
    unmade = _unmade(found.handoff, seen.binding.files if seen else None)
    return tuple(each for each in (*checks, *disproved, *wrong, *unmade) if each)


def _unshown_work(look: Reading, found: FoundHandoff, root: Path | None, said: Iterable[Evidence]) -> tuple[str, ...]:
    """That one without a check that can fail has nothing else to show: no report, no files that tell, no run."""
    handoff = found.handoff
    if not shows_nothing(handoff) or any(each.passed and not passes_always(each.check) for each in said):
        return ()
    work = [(name, form) for name, form in handoff.musts if name != "must_keep"]
    rules = any(rule_of_must(name, form, handoff.binding) for name, form in work)
    if root is not None and (rules or handoff.creates):
        return ()
    task = task_of(handoff.anchor)
    runs = look.runs_of_task(handoff.scope, task, RECENT_RUNS) if task is not None else ()
    ran = any(run.status == "succeeded" and not run.seal and run.updated_at >= handoff.stored_us for run in runs)
    why = "its checks pass whatever was done" if handoff.acceptance_checks else "it has no acceptance check"
    return () if ran else (NOTHING_SHOWS.format(why=why),)


def _unmade(handoff: Handoff, files: Mapping[str, Bound] | None) -> list[str]:
    if files is None:
        return [f"creates {path!r} was not looked at: the files are not here" for path in handoff.creates]
    there = {path for path, bound in files.items() if bound.mode != "absent"}
    made = {folder for path in there for folder in (path, *map(str, PurePosixPath(path).parents))}
    return [f"creates {path!r}: it is missing" for path in handoff.creates if path.removesuffix("/") not in made]


def _rival(home: Home, found: FoundHandoff, mine: bool) -> str:
    """Why the newest revision is not the work that was claimed: somebody else stored it, and nobody accepted that.

    Or why it is not all there is: another contract was stored before, and nobody has looked at the two.
    """
    rival, handoff = rival_of(found.handoff), found.handoff
    if handoff.unread is not None and not home.store.read(lambda look: was_looked_at(look, handoff)):
        unread = unread_rival(handoff, handoff.unread)
        return f"{unread.subject} is a rival, {unread.found}: {unread.advice}"
    if rival is not None and rival.fingerprint not in anchors.accepted_since(found):
        return f"{rival.subject} is a rival, {rival.found}: {rival.advice}"
    if mine and not claims.is_known_to_claimer(found):
        again = "read it and take it upon you: recover it with claim=True (--claim)"
        return f"revision {handoff.revision} was stored by {handoff.actor} after your claim: {again}"
    return ""


def _recorded(home: Home, found: FoundHandoff, seen: Observed | None) -> dict[str, Evidence]:
    """What counts of what was run before, on what is there now; where somebody says that it fails, that."""
    counts = counted_of(anchors.known_of(home, found, None, {}), seen) if seen is not None else {}
    return {key: _telling(each) for key, each in counts.items() if each.ran}


def _telling(counts: CountedCheck) -> Evidence:
    assert counts.word is not None
    return counts.against if counts.against is not None and counts.word.passed else counts.word


def _unshown(label: str, evidence: Evidence | None, why: str) -> str:
    if evidence is None:
        return f"check {label!r} {why or 'was not run by a runner on the files as they are now'}"
    return "" if evidence.passed else f"check {label!r} fails" + (f" ({evidence.note})" if evidence.note else "")


def musts_lacking(caller: Caller, handoff: Handoff, root: Path | None, acknowledged: Collection[str]) -> list[str]:
    """The musts that are not kept, or that nobody says are."""
    wrong = []
    for name, form in handoff.musts:
        if rule_of_must(name, form, handoff.binding) is None:
            if label_of(form) not in acknowledged:
                wrong.append(f"{name} {label_of(form)!r} is not acknowledged")
        elif root is None:
            wrong.append(f"{name} {label_of(form)!r} was not looked at: the files are not here")
        elif broken := observer_of(caller).broken(caller.home, handoff, (name, form), root):
            wrong.append(f"{name} {label_of(form)!r}: it {broken}")
    return wrong


def _running(caller: Caller, look: Reading, found: FoundHandoff) -> tuple[str, ...]:
    task = task_of(found.anchor.anchor)
    rows = task_states.unfinished(look, found.anchor.scope, task) if task is not None else []
    return task_states.words_of(caller, look, rows)


# -- the transaction ---------------------------------------------------------------------------------


def _write(caller: Caller, tx: Writing, found: FoundHandoff, shown: _Shown, how: Settling) -> tuple[Settlement, str]:
    lease = _still_open(caller, tx, found, shown, how)
    _finish_runs(caller, tx, found, how)
    at = caller.home.clock.now()
    settled = replace(
        _settlement(found.handoff, how, at),
        evidence=shown.evidence,
        acknowledged=how.acknowledged,
        override=how.override if shown.lacking else "",
    )
    facts = _facts(settled, shown, lease) | caller.whence
    blobs = [each.output for each in shown.evidence if each.output]
    tx.take_lease(lease, None)
    hold = anchors.hold_of(found.anchor, lease, lease.epoch + 1)
    tx.append(hold, [anchors.told("settled", facts, at=at, epoch=hold.epoch, blobs=blobs)])
    if lease.holder:
        tx.forget_holder(lease.holder)
    tx.settle_anchor(found.anchor.key, "finished" if how.outcome == "completed" else "open", how.outcome)
    task_states.settled(caller.home, tx, found.anchor.scope, settled, bridge=how.task)
    return settled, encode(settled).decode()


def _finish_runs(caller: Caller, tx: Writing, found: FoundHandoff, how: Settling) -> None:
    """Raises NotSettled for a run that began since somebody looked; our claims on runs end."""
    running = _running(caller, tx, found) if how.outcome == "completed" else ()
    if running and not how.override.strip():
        raise NotSettled(found.anchor.anchor, "; ".join(running))
    task, token = task_of(found.anchor.anchor), found.lease.holder
    if task is None:
        return
    facts = {"by": how.actor, "missing": list(how.missing), "note": how.note}
    for row in task_states.unfinished(tx, found.anchor.scope, task):
        if token is not None:
            claims.give_back(caller.home, tx, row.id, token, facts)
    task_states.give_back_runs(caller, tx, found.anchor.scope, task)


def _facts(settled: Settlement, shown: _Shown, lease: LeaseRow) -> dict[str, Any]:
    facts: dict[str, Any] = jsonable(settled)
    for name in ("replayed", "at", "anchor"):
        del facts[name]
    files = anchors.files_of(shown.files) if shown.files is not None else None
    return facts | {"claim": print_of(lease.holder), "lacking": list(shown.lacking), "files": files}


def _still_open(caller: Caller, tx: Writing, found: FoundHandoff, shown: _Shown, how: Settling) -> LeaseRow:
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
    _holds(caller, tx, now, how)
    if shown.mine and lease.epoch != found.lease.epoch:
        raise ClaimLost("of yours", anchor.anchor, "somebody else had taken it meanwhile")
    if (lease.head, lease.epoch) != (found.lease.head, found.lease.epoch):
        raise Moved
    return lease
