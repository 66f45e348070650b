"""Handoffs over HTTP: store, recover, claim, renew, settle, lint; look at one, at all, at what happened.

A server looks at no file and runs no check. What a client found where the files are comes with the request
(`observed.py`); without it a handoff is stored unbound, and recovered unobserved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from outlast.doors.http.calls import (
    Body,
    CallRequest,
    Gated,
    HttpCall,
    Page,
    Paged,
    cursor_of,
    limit_of,
    page_of,
    place_in,
)
from outlast.doors.http.observed import FoundFiles, Looked, RanCheck
from outlast.doors.http.shapes import ListedHandoff, RecoveredHandoff, StoredHandoff
from outlast.errors import (
    ClaimLost,
    Finished,
    HandoffAmbiguous,
    HandoffClaimed,
    HandoffContested,
    HandoffInvalid,
    HandoffNotFound,
    HandoffWeak,
    IntegrityBroken,
    LookFirst,
    NotSettled,
    OperationConflict,
    RevisionConflict,
    RunsOnHost,
    SecretFound,
)
from outlast.handoffs.handoff import Ending, Handoff, HandoffClaim, Lint
from outlast.handoffs.reading import handoff_in_order, in_order
from outlast.handoffs.recovered import HandoffEvent, Listed, Recovered, Settlement, Standing
from outlast.home.keys import Role
from outlast.python.shown import verdict_json
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast import Outlast

Form = str | dict[str, Any]
Forms = tuple[Form, ...]
Packet = msgspec.Raw | msgspec.UnsetType  # kept byte for byte


class Contract(Body):
    """The fields of a handoff."""

    target_files: tuple[str, ...] = ()
    next_action: str | None = None
    acceptance_checks: Forms = ()
    must_change: Forms = ()
    must_remove: Forms = ()
    must_keep: Forms = ()
    rollback: Forms = ()
    execution_state_v1: Packet = msgspec.UNSET
    execution_packet_v1: Packet = msgspec.UNSET
    handoff_kind: str = "task_handoff"
    repo_root: str | None = None
    file_path: str | None = None
    symbol: str | None = None
    risk: str | None = None
    tags: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    expires: str | float | None = None
    supersedes: str | None = None
    refs: tuple[str, ...] = ()
    creates: tuple[str, ...] = ()


class BoundContract(Contract, kw_only=True):
    """The fields of a handoff, and what its files are now."""

    binding: FoundFiles | None = None
    ran: tuple[RanCheck, ...] | None = None
    looks: bool = False


class Store(BoundContract, kw_only=True):
    """A handoff to store: where to go on, what to do, and how to tell that it worked."""

    anchor: str
    summary: str
    handoff_text: str
    expected_revision: int | None = None
    operation_id: str | None = None
    tenant_id: str | None = None
    scope: str | None = None
    actor: str | None = None
    strict: bool = False
    baseline: bool | tuple[dict[str, Any], ...] = False
    redact: bool = False
    bind: bool = True
    claim_id: str | None = None


class Recover(Looked):
    """Which handoff to recover: by anchor, id, file or branch, or the newest unfinished; and whether to claim it."""

    anchor: str | None = None
    handoff_id: str | None = None
    file_path: str | None = None
    repo_root: str | None = None
    symbol: str | None = None
    tenant_id: str | None = None
    scope: str | None = None
    run_checks: bool = False
    claim: bool = False
    include_finished: bool = False
    revision: int | None = None
    branch: str | None = None
    take: bool = False
    accept: tuple[str, ...] = ()
    why: str = ""
    claim_id: str | None = None
    actor: str | None = None
    operation_id: str | None = None
    listing: bool = False


class Claim(Looked, kw_only=True):
    """Which handoff to claim, and what is taken upon oneself."""

    anchor: str
    take: bool = False
    accept: tuple[str, ...] = ()
    why: str = ""
    repo_root: str | None = None
    scope: str | None = None
    actor: str | None = None
    operation_id: str | None = None


class Verify(Looked, kw_only=True):
    """Which handoff's checks were run."""

    anchor: str
    repo_root: str | None = None
    claim_id: str | None = None
    tenant_id: str | None = None
    scope: str | None = None
    actor: str | None = None
    operation_id: str | None = None


class Renew(Body):
    """Which claim goes on."""

    anchor: str
    claim_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class Settle(Looked, kw_only=True):
    """How the work under an anchor ended."""

    anchor: str
    outcome: Ending
    evidence: tuple[dict[str, Any], ...] = ()
    acknowledged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    override: str = ""
    note: str = ""
    run_checks: bool = True
    claim_id: str | None = None
    repo_root: str | None = None
    scope: str | None = None
    actor: str | None = None
    operation_id: str | None = None


class LintFields(Contract, kw_only=True):
    """A handoff to judge; nothing is stored."""

    anchor: str = ""
    summary: str = ""
    handoff_text: str = ""


class ListQuery(Paged):
    """Which handoffs to list."""

    standing: Standing | None = None
    look: bool = False
    scope: str | None = None


class OneQuery(Body):
    """In what scope to look."""

    scope: str | None = None


class AnchorQuery(Body):
    """Which anchor, and which of its revisions."""

    anchor: str
    revision: int | None = None
    scope: str | None = None


class HistoryQuery(Body):
    """Of which anchor."""

    anchor: str
    scope: str | None = None


def _store(outlast: Outlast, asked: CallRequest) -> Handoff:
    return outlast.handoff.store(**packets(asked.given()))


def packets(fields: dict[str, Any]) -> dict[str, Any]:
    """Packets as they came: an object byte for byte, and text that holds one as that text."""
    for name in ("execution_state_v1", "execution_packet_v1"):
        raw = fields.pop(name)
        if raw is not msgspec.UNSET and bytes(raw).strip() != b"null":
            fields[name] = msgspec.json.decode(raw) if bytes(raw).lstrip()[:1] == b'"' else bytes(raw)
    return fields


def _recover(outlast: Outlast, asked: CallRequest) -> Recovered:
    body: Recover = asked.body
    if body.file_path is not None and body.file_path.startswith("/"):
        raise HandoffInvalid("file_path", "it is a path of some machine", "name it from the root of the repository")
    return outlast.handoff.recover(**asked.given())


def _may_recover(body: Any) -> Role:
    """What came of checks is recorded, and a claim is renewed by use."""
    if body.accept or body.take:
        return "approve"
    return "write" if body.claim or body.claim_id or body.run_checks else "read"


def _verify(outlast: Outlast, asked: CallRequest) -> Recovered:
    return outlast.handoff.verify(**asked.given())


def _claim(outlast: Outlast, asked: CallRequest) -> HandoffClaim:
    return outlast.handoff.claim(**asked.given())


def _renew(outlast: Outlast, asked: CallRequest) -> HandoffClaim:
    return outlast.handoff.renew(**asked.given())


def _settle(outlast: Outlast, asked: CallRequest) -> Settlement:
    return outlast.handoff.settle(**asked.given())


def _lint(outlast: Outlast, asked: CallRequest) -> Lint:
    return outlast.handoff.lint(**packets(asked.given()))


def _list(outlast: Outlast, asked: CallRequest) -> Page:
    query: ListQuery = asked.query
    limit, place = limit_of(query), place_in(query.cursor, str)
    found = outlast.handoff.list(
        query.standing, limit=limit + 1, look=query.look, scope=query.scope, before=place[0] if place else None
    )
    return page_of(found, limit, lambda last: cursor_of(last.handoff_id))


def listed(one: Listed) -> dict[str, Any]:
    """One line of the list, with its verdict."""
    return {**jsonable(one), "verdict": verdict_json(one.verdict)}


def _get(outlast: Outlast, asked: CallRequest) -> Handoff:
    return outlast.handoff.get(asked.path["handoff_id"], scope=asked.query.scope)


def _get_by_anchor(outlast: Outlast, asked: CallRequest) -> Handoff:
    query: AnchorQuery = asked.query
    return outlast.handoff.get(anchor=query.anchor, revision=query.revision, scope=query.scope)


def _history(outlast: Outlast, asked: CallRequest) -> Page:
    return Page(outlast.handoff.history(asked.query.anchor, scope=asked.query.scope))


SEED = {
    "tenant_id": "default",
    "scope": "repair-flow",
    "anchor": "task:export-repair",
    "summary": "Pause after diagnosis",
    "handoff_text": "Resume in src/routes/export.ts and patch the serializer mismatch.",
    "target_files": ["src/routes/export.ts"],
    "next_action": "Patch the export serializer and rerun the relevant checks.",
    "acceptance_checks": ["npm run -s test:lite -- export"],
}
ANCHOR = {"scope": "repair-flow", "anchor": "task:export-repair"}

CALLS = (
    HttpCall(
        method="POST",
        path="/v1/handoff/store",
        name="handoff_store",
        summary="Store the next revision under an anchor",
        role="write",
        body=Store,
        does=_store,
        gives=StoredHandoff,
        shows=handoff_in_order,
        errors=(HandoffInvalid, SecretFound, HandoffWeak, RevisionConflict, ClaimLost, OperationConflict, LookFirst),
        example=SEED,
    ),
    HttpCall(
        method="POST",
        path="/v1/handoff/recover",
        name="handoff_recover",
        summary="Recover a handoff with its verdict",
        role=_may_recover,
        body=Recover,
        does=_recover,
        gives=RecoveredHandoff,
        shows=in_order,
        errors=(
            HandoffNotFound,
            HandoffAmbiguous,
            Finished,
            ClaimLost,
            HandoffInvalid,
            RunsOnHost,
            LookFirst,
            OperationConflict,
        ),
        detail="Without anchor, id, file or branch: the newest that is not finished, or the unfinished run that was "
        "heard of since. It needs the role `read`; with `claim`, `claim_id` or `run_checks` the role `write`, "
        "with `accept` or `take` the role `approve`.",
        example={"tenant_id": "default", **ANCHOR},
    ),
    HttpCall(
        method="POST",
        path="/v1/handoff/claim",
        name="handoff_claim",
        summary="Claim a handoff: the exclusive right to continue, for 15 minutes after its last use",
        role=Gated("write"),
        body=Claim,
        does=_claim,
        gives=HandoffClaim,
        shows=jsonable,
        errors=(HandoffNotFound, HandoffClaimed, HandoffContested, Finished, HandoffInvalid, OperationConflict),
        detail="Whoever shows the claim's `id` as `claim_id` is the claimer: keep it, and show it with each call.",
        example=ANCHOR,
    ),
    HttpCall(
        method="POST",
        path="/v1/handoff/verify",
        name="handoff_verify",
        summary="Record what came of the checks of a handoff; nothing is claimed",
        role="write",
        body=Verify,
        does=_verify,
        gives=RecoveredHandoff,
        shows=in_order,
        errors=(HandoffNotFound, ClaimLost, HandoffInvalid, RunsOnHost, LookFirst, OperationConflict),
        example=ANCHOR,
    ),
    HttpCall(
        method="POST",
        path="/v1/handoff/renew",
        name="handoff_renew",
        summary="Begin a claim's time anew",
        role="write",
        body=Renew,
        does=_renew,
        gives=HandoffClaim,
        shows=jsonable,
        errors=(HandoffNotFound, ClaimLost, HandoffClaimed, HandoffInvalid),
        example=ANCHOR | {"claim_id": "the id of the claim"},
    ),
    HttpCall(
        method="POST",
        path="/v1/handoff/settle",
        name="handoff_settle",
        summary="Say how the work ended; the claim is given back",
        role=Gated("write"),
        body=Settle,
        does=_settle,
        gives=Settlement,
        shows=jsonable,
        errors=(HandoffNotFound, NotSettled, HandoffClaimed, ClaimLost, Finished, HandoffInvalid, OperationConflict),
        example=ANCHOR | {"outcome": "released", "missing": ["which serializer is meant"]},
    ),
    HttpCall(
        method="POST",
        path="/v1/handoff/lint",
        name="handoff_lint",
        summary="What would make a handoff better; nothing is stored",
        role="read",
        body=LintFields,
        does=_lint,
        gives=Lint,
        shows=jsonable,
        errors=(HandoffInvalid,),
        example={"anchor": "task:export-repair", "summary": "Fixed some things."},
    ),
    HttpCall(
        method="GET",
        path="/v1/handoffs",
        name="handoff_list",
        summary="The newest handoffs",
        role="read",
        query=ListQuery,
        does=_list,
        gives=ListedHandoff,
        shows=listed,
        page=True,
        errors=(HandoffInvalid,),
    ),
    HttpCall(
        method="GET",
        path="/v1/handoff",
        name="handoff_get_by_anchor",
        summary="A revision exactly as it was stored, by its anchor",
        role="read",
        query=AnchorQuery,
        does=_get_by_anchor,
        gives=StoredHandoff,
        shows=handoff_in_order,
        errors=(HandoffNotFound, HandoffInvalid, IntegrityBroken),
    ),
    HttpCall(
        method="GET",
        path="/v1/handoff/history",
        name="handoff_history",
        summary="Everything that happened under an anchor, the oldest first",
        role="read",
        query=HistoryQuery,
        does=_history,
        gives=HandoffEvent,
        page=True,
        errors=(HandoffNotFound, HandoffInvalid),
    ),
    HttpCall(
        method="GET",
        path="/v1/handoffs/{handoff_id}",
        name="handoff_get",
        summary="A revision exactly as it was stored, by its id or a unique prefix",
        role="read",
        query=OneQuery,
        does=_get,
        gives=StoredHandoff,
        shows=handoff_in_order,
        errors=(HandoffNotFound, HandoffAmbiguous, IntegrityBroken),
    ),
)
