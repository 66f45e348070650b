"""Handoffs in Python: `outlast.handoff`, blocking, and its twin on an event loop.

The inbox as callers get it: every open wait and, looked at only when it is asked for, what is contested.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.errors import HandoffInvalid, HandoffNotFound
from outlast.files.git import relative_to
from outlast.handoffs.anchor import note_looked
from outlast.handoffs.claim import Recovering
from outlast.handoffs.contract import draft_of, kind_of
from outlast.handoffs.find import HandoffQuery, get, history, near
from outlast.handoffs.handoff import (
    CONTRACT_FIELDS,
    STANDINGS,
    Ending,
    Evidence,
    Form,
    Handoff,
    HandoffClaim,
    HandoffEvent,
    Lint,
    Listed,
    Near,
    Recovered,
    Settlement,
    Standing,
)
from outlast.handoffs.list import contested_ones, left_by_runs, list_handoffs, list_stored
from outlast.handoffs.musts import is_pattern
from outlast.handoffs.observer import LOCAL, observer_of, refused
from outlast.handoffs.recover import claim, recover, renew
from outlast.handoffs.settle import Settling, settle
from outlast.handoffs.store import Storing, store
from outlast.handoffs.verdict import rivals_of
from outlast.home.place import check_name
from outlast.python import rooms
from outlast.python.awaited import OnLoop, awaited
from outlast.runs.look import InboxItem

if TYPE_CHECKING:
    from outlast.care.travel.handoff import BundleArrived, Bundled
    from outlast.handoffs.compose import StepHandoff
    from outlast.handoffs.difference import Applied, Difference
    from outlast.handoffs.list import RunLeft
    from outlast.ledger.verdict import Reason
    from outlast.runs.live import Executor

Packet = Mapping[str, Any] | str | bytes  # JSON text is kept byte for byte
_said_in = itemgetter(*CONTRACT_FIELDS)


class Handoffs:
    """Store a contract for whoever continues; recover it with a verdict; claim it; settle it."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self._caller = executor, executor.caller

    def store(
        self,
        anchor: str,
        summary: str,
        handoff_text: str,
        target_files: Sequence[str] = (),
        next_action: str | None = None,
        acceptance_checks: Sequence[Form] = (),
        must_change: Sequence[Form] = (),
        must_remove: Sequence[Form] = (),
        must_keep: Sequence[Form] = (),
        rollback: Sequence[Form] = (),
        execution_state_v1: Packet | None = None,
        execution_packet_v1: Packet | None = None,
        handoff_kind: str = "task_handoff",
        repo_root: str | None = None,
        file_path: str | None = None,
        symbol: str | None = None,
        risk: str | None = None,
        tags: Sequence[str] = (),
        environment: Sequence[str] = (),
        expires: str | datetime | timedelta | float | None = None,
        supersedes: str | None = None,
        expected_revision: int | None = None,
        operation_id: str | None = None,
        tenant_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
        *,
        strict: bool = False,
        baseline: bool | Sequence[Mapping[str, Any]] = False,
        redact: bool = False,
        bind: bool = True,
        claim_id: str | None = None,
        refs: Sequence[str] = (),
        creates: Sequence[str] = (),
    ) -> Handoff:
        """Store the next revision under an anchor, durable when this returns.

        `baseline` runs the checks now and records what came of them (or takes what somebody reports), `strict` refuses
        a weak handoff, `redact` masks secrets instead of refusing them, `bind=False` looks at no file. `refs` name the
        evidence in the workspace that it rests on: what is contradicted later contests it. `creates` names files that
        are not there yet: another target that is absent weakens the verdict.
        Raises HandoffInvalid, SecretFound, HandoffWeak, RevisionConflict, ClaimLost, OperationConflict.
        """
        fields = dict(zip(CONTRACT_FIELDS, _said_in(locals()), strict=True))
        how = Storing(
            scope=self._caller.scope_named(scope, tenant_id),
            actor=self._caller.actor_named(actor),
            strict=strict,
            baseline=baseline,
            redact=redact,
            bind=bind,
            claim_id=_claim(claim_id),
            expected_revision=_number("expected_revision", expected_revision),
            operation_id=operation_id,
        )
        return store(self._executor, fields, how)

    def recover(
        self,
        anchor: str | None = None,
        handoff_id: str | None = None,
        file_path: str | None = None,
        repo_root: str | None = None,
        symbol: str | None = None,
        tenant_id: str | None = None,
        scope: str | None = None,
        run_checks: bool = False,
        claim: bool = False,
        include_finished: bool = False,
        *,
        revision: int | None = None,
        branch: str | None = None,
        take: bool = False,
        accept: Sequence[str] = (),
        why: str = "",
        claim_id: str | None = None,
        agree: str | None = None,
        actor: str | None = None,
        operation_id: str | None = None,
        listing: bool = False,
    ) -> Recovered:
        """A handoff with its verdict here and now: by anchor, id or file; without any, the newest of this git branch.

        `branch` names another branch than the one that is checked out here.

        `run_checks` runs its checks and records what came of them. `claim` also claims it if nothing contests, or what
        contests is accepted (`accept=["file_changed:src/a.py"], why=…`); `take` takes it from another claimer.
        Commands that somebody else stored run only if `agree` is their digest, or that was agreed to before.
        `listing` is for lists: who sees one line of it has not read it, and uses no claim.
        Raises HandoffNotFound, HandoffAmbiguous, Finished, ClaimLost, HandoffInvalid, ForeignCommands.
        """
        asked = self._asked(anchor, handoff_id, file_path, repo_root, symbol, tenant_id, scope, revision, branch)
        how = Recovering(
            actor=self._caller.actor_named(actor),
            run_checks=run_checks,
            claim=claim,
            include_finished=include_finished,
            take=take,
            accept=_words("accept", accept),
            why=why,
            claim_id=_claim(claim_id),
            agree=agree,
            operation_id=operation_id,
            listing=listing,
        )
        return recover(self._executor, asked, how)

    def verify(
        self,
        anchor: str,
        *,
        repo_root: str | None = None,
        claim_id: str | None = None,
        agree: str | None = None,
        tenant_id: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
        operation_id: str | None = None,
    ) -> Recovered:
        """Run the checks and record what came of them; nothing is claimed.

        Raises ForeignCommands for those of somebody else, unless `agree` is their digest.
        """
        how = Recovering(
            actor=self._caller.actor_named(actor),
            run_checks=True,
            include_finished=True,
            claim_id=_claim(claim_id),
            agree=agree,
            operation_id=operation_id,
            when="verify",
        )
        return recover(self._executor, self._asked(anchor, None, None, repo_root, None, tenant_id, scope), how)

    def claim(
        self,
        anchor: str,
        *,
        take: bool = False,
        accept: Sequence[str] = (),
        why: str = "",
        repo_root: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
        operation_id: str | None = None,
    ) -> HandoffClaim:
        """The exclusive right to continue, for 15 minutes after its last use.

        Raises HandoffClaimed while somebody else holds it (`take` with a `why` takes it), HandoffContested,
        Finished.
        """
        how = Recovering(
            actor=self._caller.actor_named(actor),
            take=take,
            accept=_words("accept", accept),
            why=why,
            operation_id=operation_id,
        )
        return claim(self._executor, self._asked(anchor, repo_root=repo_root, scope=scope), how)

    def renew(
        self, anchor: str, *, claim_id: str | None = None, scope: str | None = None, actor: str | None = None
    ) -> HandoffClaim:
        """Begin the claim's time anew. Raises ClaimLost, HandoffClaimed."""
        asked = self._asked(anchor, scope=scope)
        return renew(self._executor, asked, _claim(claim_id), self._caller.actor_named(actor))

    def settle(
        self,
        anchor: str,
        outcome: Ending,
        *,
        evidence: Sequence[Mapping[str, Any]] = (),
        acknowledged: Sequence[str] = (),
        missing: Sequence[str] = (),
        override: str = "",
        note: str = "",
        run_checks: bool = True,
        claim_id: str | None = None,
        agree: str | None = None,
        repo_root: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
        operation_id: str | None = None,
    ) -> Settlement:
        """Say how the work ended: `completed`, `failed` or `released`; the claim is given back.

        Completed runs the checks, and is refused (NotSettled) while one of them fails, a file is not as a must says, or
        a must in prose is not `acknowledged` word for word, unless `override` says why it counts all the same.
        Raises NotSettled, HandoffClaimed, ClaimLost, Finished, HandoffInvalid, ForeignCommands.
        """
        how = Settling(
            outcome=outcome,
            actor=self._caller.actor_named(actor),
            evidence=_reports(evidence),
            acknowledged=_words("acknowledged", acknowledged),
            missing=_words("missing", missing),
            override=override,
            note=note,
            run_checks=run_checks,
            claim_id=_claim(claim_id),
            agree=agree,
            operation_id=operation_id,
        )
        return settle(self._executor, self._asked(anchor, repo_root=repo_root, scope=scope), how)

    # -- looking ---------------------------------------------------------------------------------

    def get(
        self,
        handoff_id: str | None = None,
        *,
        anchor: str | None = None,
        revision: int | None = None,
        scope: str | None = None,
    ) -> Handoff:
        """A revision exactly as it was stored, by its id or by anchor (the newest, or the revision named).

        Whoever is shown it has looked: a `rival` is named until then.
        """
        found = self._get(handoff_id, anchor=anchor, revision=revision, scope=scope)
        note_looked(self._caller, found, self._caller.actor)
        return found

    def _get(
        self,
        handoff_id: str | None = None,
        *,
        anchor: str | None,
        revision: int | None = None,
        scope: str | None = None,
    ) -> Handoff:
        _refuse_both(handoff_id, anchor)
        found = get(self._executor.home, self._asked(anchor, handoff_id, scope=scope, revision=revision))
        if found.scope != (where := self._caller.scope_named(scope)):
            raise HandoffNotFound(f"id {handoff_id!r} in scope {where!r}")
        return found

    def history(self, anchor: str, *, scope: str | None = None) -> list[HandoffEvent]:
        """Everything that happened under an anchor, oldest first."""
        return history(self._executor.home, self._asked(anchor, scope=scope))

    def evidence(self, handoff: Handoff) -> tuple[Evidence, ...]:
        """What came of a revision's checks since it was stored, oldest first."""
        events = self.history(handoff.anchor, scope=handoff.scope)
        stored = [at for at, event in enumerate(events) if event.kind == "stored"]
        begin = next((at for at in stored if events[at].body["id"] == handoff.id), len(events))
        end = next((at for at in stored if at > begin), len(events))
        return tuple(each for event in events[begin:end] for each in event.evidence)

    def rivals(self, handoff: Handoff) -> tuple[Reason, ...]:
        """Who else stored under the anchor, and was not read by who stored this revision: as its verdict names them."""
        return tuple(rivals_of(handoff))

    def not_kept(self, handoff: Handoff) -> str:
        """The files of a handoff whose content is not kept, how many, the first by name, and why; "" without any."""
        return rooms.difference.not_kept(handoff.binding)

    def _open_about(
        self, branch: str | None, file_path: str | None, symbol: str | None, *, limit: int, before: int
    ) -> list[Near]:
        """The open handoffs of a branch or about a file, and unfinished runs: who has the files says which is meant."""
        caller = self._caller
        return list(near(caller, caller.scope, branch, file_path, symbol, limit=limit, before=before))

    def output(self, evidence: Evidence) -> bytes:
        """All that a check printed and that was kept; nothing when it printed nothing. Raises IntegrityBroken."""
        return self._executor.home.blobs.get(evidence.output) if evidence.output else b""

    def _contested(self, judged: int) -> list[Listed]:
        """Of the newest handoffs those that something contests here and now."""
        return contested_ones(self._executor, self._caller.scope, judged)

    def _left_by_runs(self, limit: int, before: str = "") -> tuple[list[RunLeft], int]:
        """What unfinished runs left, a line each, and how many tasks are unfinished."""
        return left_by_runs(self._executor, self._caller.scope, limit, before)

    def _stored(self, standing: Standing | None, limit: int, before: str | None) -> list[Listed]:
        """The newest handoffs that somebody stored and that stand so."""
        return list_stored(self._executor, self._caller.scope, _standing(standing), limit, before)

    def list(
        self,
        standing: Standing | None = None,
        *,
        limit: int = 50,
        look: bool = False,
        scope: str | None = None,
        before: str | None = None,
    ) -> list[Listed]:
        """The newest handoffs that stand so. `look` judges each here and now, as contested ones always are.

        `before`, the `handoff_id` of the last one, gives those that come after it.
        """
        where = self._caller.scope_named(scope)
        return list_handoffs(self._executor, where, _standing(standing), _limit(limit), look, before)

    def lint(self, /, anchor: str = "", summary: str = "", handoff_text: str = "", **fields: Any) -> Lint:
        """What would make a handoff better, with better wordings. Nothing is stored."""
        return lint_fields({"anchor": anchor, "summary": summary, "handoff_text": handoff_text, **fields})

    def diff(
        self,
        anchor: str,
        *,
        revisions: tuple[int, int] | None = None,
        repo_root: str | None = None,
        scope: str | None = None,
    ) -> Difference:
        """What changed since a handoff was stored; or between two of its revisions."""
        if revisions is not None:
            before, after = (self.get(anchor=anchor, revision=number, scope=scope) for number in revisions)
            return rooms.difference.diff_revisions(self._executor.home, before, after)
        handoff = self.get(anchor=anchor, scope=scope)
        return rooms.difference.diff(self._executor.home, handoff, self._place(handoff, repo_root))

    def apply(
        self,
        anchor: str,
        *,
        revision: int | None = None,
        repo_root: str | None = None,
        scope: str | None = None,
        dry_run: bool = False,
        force: bool = False,
        leave_conflicts: bool = False,
    ) -> Applied:
        """Bring the work of a handoff into this clone, or back to where it was: all of it, or nothing.

        Only the folder given is written to, else the repository that we are in, if it is known to be the handoff's.
        What was changed here too is merged. `force` puts the handoff's in place of what later commits have changed;
        `leave_conflicts` writes files that do not merge with the conflicts in them. Raises NotApplicable, OtherPlace.
        """
        handoff, observer = self._get(anchor=anchor, revision=revision, scope=scope), observer_of(self._caller)
        root = observer.place(self._caller, handoff, repo_root)
        if root is None:
            raise refused(handoff, observer.elsewhere(self._caller, handoff))
        return rooms.carry.apply(
            self._executor.home, handoff, root, dry_run=dry_run, force=force, leave_conflicts=leave_conflicts
        )

    def step(self, run_id: str, step: str) -> StepHandoff:
        """What a step of a run hands over: its envelope. Raises RunNotFound, StepNotFound, StepAmbiguous."""
        return rooms.compose.step_handoff(self._executor.home, run_id, step)

    def export(self, anchor: str, path: str | Path, *, scope: str | None = None, force: bool = False) -> Bundled:
        """An anchor with its history, evidence, content and patch as one verified file."""
        where = self._caller.scope_named(scope)
        return rooms.handoff.export_handoff(self._caller, anchor, Path(path), scope=where, force=force)

    def import_(self, path: str | Path, *, scope: str | None = None, claim_id: str | None = None) -> BundleArrived:
        """Bring in a file that `export` wrote. It keeps its scope: naming another one is refused.

        Raises ArchiveInvalid, HandoffExists, HandoffClaimed.
        """
        return rooms.handoff.import_handoff(self._caller, Path(path), scope=scope, claim_id=claim_id)

    def relative(
        self, paths: Sequence[str], field: str = "target_files", *, repo_root: str | None = None
    ) -> Sequence[str]:
        """Paths from the current folder as handoffs name them: from the root. Raises HandoffInvalid for one outside."""
        root = LOCAL.root(self._caller, repo_root) if paths else Path()
        return [relative_to(root, os.path.abspath(path) if path else path, field) for path in paths]

    def relative_must(self, text: str, field: str, *, repo_root: str | None = None) -> str:
        """A must whose path is from the current folder as handoffs name it: from the root; prose stays as it is."""
        is_prose = "://" in text or any(map(str.isspace, text))
        if is_prose or not (is_pattern(text) or os.path.lexists(text)):
            return text
        return next(iter(self.relative([text], field, repo_root=repo_root)))

    # -- narrowing what was given ----------------------------------------------------------------

    def _asked(
        self,
        anchor: str | None = None,
        handoff_id: str | None = None,
        file_path: str | None = None,
        repo_root: str | None = None,
        symbol: str | None = None,
        tenant_id: str | None = None,
        scope: str | None = None,
        revision: int | None = None,
        branch: str | None = None,
    ) -> HandoffQuery:
        _refuse_two(anchor=anchor, handoff_id=handoff_id, file_path=file_path, branch=branch)
        if revision is not None:
            _refuse_two(handoff_id=handoff_id, revision=revision)
        where, number = self._caller.scope_named(scope, tenant_id), _number("revision", revision)
        return HandoffQuery(where, anchor, handoff_id, file_path, symbol, repo_root, number, branch)

    def _place(self, handoff: Handoff, repo_root: str | None) -> Path:
        root = observer_of(self._caller).place(self._caller, handoff, repo_root)
        if root is None:
            why = f"the files of {handoff.anchor!r} are not here"
            raise HandoffInvalid("repo_root", why, "name where they are: repo_root=DIR (--repo DIR)")
        return root


def lint_fields(fields: Mapping[str, Any]) -> Lint:
    """What would make a handoff of these fields better; this needs no home. Raises HandoffInvalid."""
    return rooms.lint.lint(draft_of(**fields))


def _number(name: str, value: int | None) -> int | None:
    if value is not None and (type(value) is not int or value < 0):
        raise HandoffInvalid(name, f"{value!r} is no revision", "revisions count from 1; 0: there is none yet")
    return value


def _refuse_both(handoff_id: str | None, anchor: str | None) -> None:
    """Raises HandoffInvalid unless one of them is named."""
    if (handoff_id is None) == (anchor is None):
        raise HandoffInvalid("handoff_id", "give either an id or an anchor", "get(ID) or get(anchor=ANCHOR)")


def _standing(value: Standing | None) -> Standing | None:
    if value is not None and value not in STANDINGS:
        raise HandoffInvalid("standing", f"{value!r} is none", f"use one of {', '.join(STANDINGS)}")
    return value


def _limit(value: int) -> int:
    if type(value) is not int or value < 0:
        raise HandoffInvalid("limit", f"{value!r:.100} is no number of handoffs", "give a whole number, 0 or more")
    return value


def _words(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """A list of texts; a bare text is the classic mistake, and meant as a list of one."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable):
        raise HandoffInvalid(name, f"is no list but {kind_of(given)}", "give a list of texts")
    return tuple(given)


def _reports(given: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """What somebody says came of checks."""
    if not isinstance(given, list | tuple):
        remedy = 'give a list of {"check": …, "passed": true}'
        raise HandoffInvalid("evidence", f"is no list but {kind_of(given)}", remedy)
    return tuple(dict(each) if isinstance(each, Mapping) else each for each in given)


def _claim(claim_id: str | None) -> str | None:
    return None if claim_id is None else check_name("claim_id", claim_id)


def _refuse_two(**names: Any) -> None:
    """Raises HandoffInvalid when a handoff is named in two ways, which may not mean the same one."""
    given = [name for name, value in names.items() if value is not None]
    if len(given) > 1:
        why = f"{' and '.join(given)} name one each"
        raise HandoffInvalid(given[-1], why, f"give one of {', '.join(names)}")


MOST = 50  # so many contested handoffs are in an inbox
JUDGED = 25  # of what runs left, and of what was stored, so many of the newest are judged by who asks often


class Inbox(list[InboxItem]):
    """The open waits: questions for people first. `contested` has the handoffs that something contests."""

    def __init__(self, waits: Iterable[InboxItem], handoffs: Handoffs | None = None) -> None:
        super().__init__(waits)
        self._handoffs = handoffs

    @cached_property
    def contested(self) -> list[Listed]:
        """The handoffs that something contests here and now: checks, files, rivals. No newer ones hide an older one.

        They are judged when this is read first; none where only some waits were asked for.
        """
        return [] if self._handoffs is None else [*self._handoffs.list("contested", limit=MOST)]

    @cached_property
    def newest_contested(self) -> list[Listed]:
        """Those among 25 that unfinished runs left last and 25 that were stored last: what that costs does not grow.

        For a server, a page and a message, which ask again and again.
        """
        return [] if self._handoffs is None else self._handoffs._contested(JUDGED)


def inbox_of(waits: Iterable[InboxItem], handoffs: Handoffs, *asked_for: str | None) -> Inbox:
    """The waits, with what is contested unless only some of them were asked for."""
    return Inbox(waits, None if any(each is not None for each in asked_for) else handoffs)


class AsyncHandoffs(OnLoop[Handoffs]):
    """The same on an event loop: everything is awaited."""

    store = awaited(Handoffs.store)
    recover = awaited(Handoffs.recover)
    verify = awaited(Handoffs.verify)
    claim = awaited(Handoffs.claim)
    renew = awaited(Handoffs.renew)
    settle = awaited(Handoffs.settle)
    get = awaited(Handoffs.get)
    history = awaited(Handoffs.history)
    output = awaited(Handoffs.output)
    list = awaited(Handoffs.list)
    lint = awaited(Handoffs.lint)
    diff = awaited(Handoffs.diff)
    apply = awaited(Handoffs.apply)
    step = awaited(Handoffs.step)
    export = awaited(Handoffs.export)
    import_ = awaited(Handoffs.import_)
    relative = awaited(Handoffs.relative)
