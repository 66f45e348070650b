"""Operations about handoffs: store, recover, claim, renew, settle, lint; look at one, at all, at what happened.

A server looks at no file and runs no check. What a caller found where the files are comes with the request
(`observed.py`); without it a handoff is stored unbound, and recovered unobserved.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast import errors as e
from outlast.handoffs.handoff import HandoffClaim as HandoffClaim
from outlast.handoffs.handoff import HandoffEvent, Lint, Near
from outlast.handoffs.handoff import Settlement as Settlement
from outlast.home.keys import Role
from outlast.operations import fields as f
from outlast.operations.answers import LISTED, RECOVERED, STORED
from outlast.operations.observed import RECOVER_BY_CURL, STORE_BY_CURL, BoundFiles, ObservedFiles
from outlast.operations.operation import Change, Gated, Paged, Pages, Request, operation

BYTES = "application/octet-stream"
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
BY_RESOURCE = "a model reads it as a resource, or with handoff_recover"
BY_RECOVER = "handoff_recover does it for a model"
FOR_CLIENTS = "a client that has the files sends and asks it, no model"


class ContractFields(Request):
    """The fields of a handoff."""

    target_files: f.TargetFiles = ()
    next_action: f.NextAction | None = None
    acceptance_checks: f.AcceptanceChecks = ()
    must_change: f.MustChange = ()
    must_remove: f.MustRemove = ()
    must_keep: f.MustKeep = ()
    rollback: f.Rollback = ()
    execution_state_v1: f.ExecutionState = msgspec.UNSET
    execution_packet_v1: f.ExecutionPacket = msgspec.UNSET
    handoff_kind: f.HandoffKind = "task_handoff"
    repo_root: f.RepoRoot | None = None
    file_path: f.FilePath | None = None
    symbol: f.Symbol | None = None
    risk: f.Risk | None = None
    tags: f.Tags = ()
    environment: f.Environment = ()
    expires: f.Expires | None = None
    supersedes: f.Supersedes | None = None
    refs: f.Refs = ()
    creates: f.Creates = ()


class ToStore(ContractFields, BoundFiles, Change):
    """What is said when a handoff is stored, under an anchor or for a task."""

    summary: f.Summary
    handoff_text: f.HandoffText
    expected_revision: f.ExpectedRevision | None = None
    strict: f.Strict = False
    baseline: f.Baseline = False
    redact: f.Redact = False
    bind: f.Bind = True
    claim_id: f.ClaimId | None = None


@operation(
    "handoff_store",
    "POST /v1/handoff/store",
    "Store the next revision under an anchor",
    calls="handoff.store",
    answer=STORED,
    errors=(
        *(e.HandoffInvalid, e.SecretFound, e.HandoffWeak, e.RevisionConflict),
        *(e.ClaimLost, e.OperationConflict, e.LookFirst),
    ),
    example=SEED,
    by_curl=STORE_BY_CURL,
)
class StoreHandoff(ToStore):
    """A handoff to store: where to go on, what to do, and how to tell that it worked."""

    anchor: f.Anchor


def packets(given: dict[str, Any]) -> dict[str, Any]:
    """Packets as they came: an object byte for byte, and text that holds one as that text."""
    for name in ("execution_state_v1", "execution_packet_v1"):
        raw = given.pop(name, msgspec.UNSET)
        if raw is not msgspec.UNSET and bytes(raw).strip() != b"null":
            given[name] = msgspec.json.decode(raw) if bytes(raw).lstrip()[:1] == b'"' else bytes(raw)
    return given


def _may_recover(request: Any) -> Role:
    """What came of checks is recorded, and a claim is renewed by use."""
    if request.accept or request.take:
        return "approve"
    return "write" if request.claim or request.claim_id or request.run_checks else "read"


@operation(
    "handoff_recover",
    "POST /v1/handoff/recover",
    "Recover a handoff with its verdict",
    calls="handoff.recover",
    role=_may_recover,
    answer=RECOVERED,
    errors=(
        *(e.HandoffNotFound, e.HandoffAmbiguous, e.Finished, e.ClaimLost, e.HandoffInvalid, e.RunsOnHost, e.LookFirst),
        e.OperationConflict,
    ),
    detail="Without anchor, id, file or branch: the newest that is not finished, or the unfinished run that was "
    "heard of since. It needs the role `read`; with `claim`, `claim_id` or `run_checks` the role `write`, "
    "with `accept` or `take` the role `approve`.",
    example={"tenant_id": "default", **ANCHOR},
    by_curl=RECOVER_BY_CURL,
)
class RecoverHandoff(ObservedFiles, Change):
    """Which handoff to recover: by anchor, id, file or branch, or the newest unfinished; and whether to claim it."""

    anchor: f.Anchor | None = None
    handoff_id: f.HandoffId | None = None
    file_path: f.FilePath | None = None
    repo_root: f.RepoRoot | None = None
    symbol: f.Symbol | None = None
    run_checks: f.RunChecks = False
    claim: f.Claim = False
    include_finished: f.IncludeFinished = False
    revision: f.Revision | None = None
    branch: f.Branch | None = None
    take: f.Take = False
    accept: f.Accept = ()
    why: f.Why = ""
    claim_id: f.ClaimId | None = None
    listing: f.Listing = False


@operation(
    "handoff_claim",
    "POST /v1/handoff/claim",
    "Claim a handoff: the exclusive right to continue, for 15 minutes after its last use",
    calls="handoff.claim",
    role=Gated("write"),
    answer=HandoffClaim,
    errors=(e.HandoffNotFound, e.HandoffClaimed, e.HandoffContested, e.Finished, e.HandoffInvalid, e.OperationConflict),
    detail="Whoever shows the claim's `id` as `claim_id` is the claimer: keep it, and show it with each call.",
    example=ANCHOR,
    not_by_mcp=BY_RECOVER,
)
class ClaimHandoff(ObservedFiles, Change):
    """Which handoff to claim, and what is taken upon oneself."""

    anchor: f.Anchor
    take: f.Take = False
    accept: f.Accept = ()
    why: f.Why = ""
    repo_root: f.RepoRoot | None = None


@operation(
    "handoff_verify",
    "POST /v1/handoff/verify",
    "Record what came of the checks of a handoff; nothing is claimed",
    calls="handoff.verify",
    answer=RECOVERED,
    errors=(e.HandoffNotFound, e.ClaimLost, e.HandoffInvalid, e.RunsOnHost, e.LookFirst, e.OperationConflict),
    example=ANCHOR,
    not_by_mcp=BY_RECOVER,
)
class VerifyHandoff(ObservedFiles, Change):
    """Which handoff's checks were run."""

    anchor: f.Anchor
    repo_root: f.RepoRoot | None = None
    claim_id: f.ClaimId | None = None


@operation(
    "handoff_renew",
    "POST /v1/handoff/renew",
    "Begin a claim's time anew",
    calls="handoff.renew",
    answer=HandoffClaim,
    errors=(e.HandoffNotFound, e.ClaimLost, e.HandoffClaimed, e.HandoffInvalid),
    example=ANCHOR | {"claim_id": "the id of the claim"},
    repeats=True,
    not_by_mcp="every use of a claim renews it",
)
class RenewHandoff(Change):
    """Which claim goes on."""

    anchor: f.Anchor
    claim_id: f.ClaimId | None = None


class ToSettle(ObservedFiles, Change):
    """What is said when work has ended, under an anchor or of a task."""

    evidence: f.Evidence = ()
    acknowledged: f.Acknowledged = ()
    missing: f.Missing = ()
    override: f.Override = ""
    note: f.Note = ""
    run_checks: f.RunChecks = True
    claim_id: f.ClaimId | None = None
    repo_root: f.RepoRoot | None = None


@operation(
    "handoff_settle",
    "POST /v1/handoff/settle",
    "Say how the work ended; the claim is given back",
    calls="handoff.settle",
    role=Gated("write"),
    answer=Settlement,
    errors=(
        *(e.HandoffNotFound, e.NotSettled, e.HandoffClaimed, e.ClaimLost),
        *(e.Finished, e.HandoffInvalid, e.OperationConflict),
    ),
    example=ANCHOR | {"outcome": "released", "missing": ["which serializer is meant"]},
)
class SettleHandoff(ToSettle):
    """How the work under an anchor ended."""

    anchor: f.Anchor
    outcome: f.Outcome


@operation(
    "handoff_lint",
    "POST /v1/handoff/lint",
    "What would make a handoff better; nothing is stored",
    calls="handoff.lint",
    role="read",
    answer=Lint,
    errors=(e.HandoffInvalid,),
    example={"anchor": "task:export-repair", "summary": "Fixed some things."},
    not_by_mcp="handoff_store tells a model the same",
)
class LintHandoff(ContractFields):
    """A handoff to judge; nothing is stored."""

    anchor: f.Anchor = ""
    summary: f.Summary = ""
    handoff_text: f.HandoffText = ""


@operation(
    "handoff_list",
    "GET /v1/handoffs",
    "The newest handoffs",
    calls="handoff.list",
    answer=LISTED,
    items="handoffs",
    pages=Pages(lambda last: last.handoff_id),
    errors=(e.HandoffInvalid,),
    not_by_mcp="handoffs are listed as resources",
)
class ListHandoffs(Paged):
    """Which handoffs to list."""

    standing: f.HandoffStanding | None = None
    look: f.Look = False


@operation(
    "handoff_get_by_anchor",
    "GET /v1/handoff",
    "A revision exactly as it was stored, by its anchor",
    calls="handoff.get",
    answer=STORED,
    errors=(e.HandoffNotFound, e.HandoffInvalid, e.IntegrityBroken),
    not_by_mcp=BY_RESOURCE,
)
class GetHandoffByAnchor(Request):
    """Which anchor, and which of its revisions."""

    anchor: f.Anchor
    revision: f.Revision | None = None


@operation(
    "handoff_history",
    "GET /v1/handoff/history",
    "Everything that happened under an anchor, the oldest first",
    calls="handoff.history",
    answer=HandoffEvent,
    items="history",
    errors=(e.HandoffNotFound, e.HandoffInvalid),
    not_by_mcp=BY_RESOURCE,
)
class HandoffHistory(Request):
    """Of which anchor."""

    anchor: f.Anchor


@operation(
    "handoff_get",
    "GET /v1/handoffs/{handoff_id}",
    "A revision exactly as it was stored, by its id or a unique prefix",
    calls="handoff.get",
    answer=STORED,
    errors=(e.HandoffNotFound, e.HandoffAmbiguous, e.IntegrityBroken),
    not_by_mcp=BY_RESOURCE,
)
class GetHandoff(Request):
    """Which revision."""

    handoff_id: f.HandoffId


# -- for who has the files -----------------------------------------------------------------------------


class Blob(msgspec.Struct, frozen=True):
    """Content that is here."""

    digest: str


@operation(
    "handoff_put_blob",
    "PUT /v1/handoff/blobs/{digest}",
    "Send content that a binding keeps, or that a check printed",
    answer=Blob,
    takes=BYTES,
    errors=(e.IntegrityBroken, e.BodyTooLarge, e.BodyTooSlow, e.DiskFull),
    detail="It is refused if it has another digest. What no handoff refers to is removed by `gc` some day.",
    not_by_mcp=FOR_CLIENTS,
    repeats=True,
)
class PutBlob(Change):
    """Which content."""

    digest: f.Digest


@operation(
    "handoff_get_blob",
    "GET /v1/handoff/blobs/{digest}",
    "Content by its digest, checked",
    answer=bytes,
    answers=BYTES,
    errors=(e.BlobNotFound, e.IntegrityBroken),
    not_by_mcp=FOR_CLIENTS,
)
class GetBlob(Request):
    """Which content."""

    digest: f.Digest


@operation(
    "handoff_near",
    "GET /v1/handoff/near",
    "The open handoffs of a branch, or about a file, and unfinished runs; where each was stored",
    answer=Near,
    items="handoffs",
    pages=Pages(lambda last: last.place, int),
    detail="Which of them is meant is told by who has the files: by the root, or by the commit. With neither "
    "a branch nor a file: unfinished runs alone.",
    not_by_mcp=FOR_CLIENTS,
)
class NearHandoffs(Paged):
    """What the work is on: a branch, or a file."""

    branch: f.Branch | None = None
    file_path: f.FilePath | None = None
    symbol: f.Symbol | None = None
