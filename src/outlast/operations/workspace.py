"""Operations about the workspace: artifacts, records, links, checkpoints, and recall."""

from __future__ import annotations

from typing import Annotated

from outlast import errors as e
from outlast.operations import answers
from outlast.operations import fields as f
from outlast.operations.handoffs import BYTES
from outlast.operations.operation import Change, Declared, Paged, Pages, Request, operation
from outlast.workspace.artifact import Artifact as Artifact
from outlast.workspace.checkpoint import Checkpoint
from outlast.workspace.link import Link
from outlast.workspace.record import Record

GONE = (e.ArtifactNotFound, e.ArtifactRemoved)
UNKNOWN = (*GONE, e.RecordNotFound, e.CheckpointNotFound, e.HandoffNotFound, e.RunNotFound, e.AmbiguousPrefix)
BY_RECALL = "workspace_recall finds it for a model"
BY_RESOURCE = "a model reads content as the resource artifact://{ref}"


# -- artifacts -----------------------------------------------------------------------------------------


class Saved(Change):
    """What is said of content."""

    name: f.Name
    media_type: f.MediaType | None = None
    summary: f.Summary = ""
    source: f.Source | None = None
    tags: f.Tags = ()


@operation(
    "workspace_save",
    "POST /v1/workspace/artifacts",
    "Save small content under a name, as its next version",
    answer=Artifact,
    errors=(e.NameInvalid, e.ValueRefused, e.OperationConflict, e.DiskFull),
    example={"name": "report.md", "content": "# Tides", "summary": "First draft"},
)
class SaveArtifact(Saved):
    """Content that fits into a request: text, or bytes as base64. Larger content is sent with PUT."""

    content: f.Content | None = None
    content_base64: f.ContentBase64 | None = None


@operation(
    "workspace_upload",
    "PUT /v1/workspace/artifacts",
    "Save content of any size under a name: the body is the content",
    answer=Artifact,
    takes=BYTES,
    errors=(e.NameInvalid, e.ValueRefused, e.OperationConflict, e.BodyTooLarge, e.BodyTooSlow, e.DiskFull),
    detail="Nothing of it is visible before all of it has arrived and is durable.",
    not_by_mcp="workspace_save takes a file of the project for a model",
)
class UploadArtifact(Saved):
    """What is said of the content, which is the body of the request."""


@operation(
    "workspace_content",
    "GET /v1/workspace/artifacts/content",
    "The content of an artifact, checked",
    answer=bytes,
    answers="*/*",
    also={206: "The range that was asked for", 304: "It is what is known already"},
    detail="Its media type is the artifact's own; it is always sent as an attachment.",
    errors=(*GONE, e.IntegrityBroken, e.RangeRefused),
    headers={
        "Range": "One range of bytes, as `bytes=0-1023`: it is answered with 206",
        "If-None-Match": "The `ETag` of what is known already: it is answered with 304",
        "If-Range": "The `ETag` that the range is meant for: of other content all is sent",
    },
    not_by_mcp=BY_RESOURCE,
)
class GetContent(Request):
    """Which artifact: by ref, by name, or by name@version."""

    ref: f.Ref


@operation(
    "workspace_list",
    "GET /v1/workspace/artifacts",
    "Artifacts, those saved last first",
    calls="workspace.list",
    answer=Artifact,
    items="artifacts",
    pages=Pages(lambda last: last.ref),
    errors=(*GONE, e.RunNotFound, e.AmbiguousPrefix),
    not_by_mcp="artifacts are listed as resources",
)
class ListArtifacts(Paged):
    """Which artifacts to list."""

    prefix: f.Prefix = ""
    tag: f.Tag | None = None
    run: f.OfRun | None = None


@operation(
    "workspace_get",
    "GET /v1/workspace/artifact",
    "What is known of an artifact",
    calls="workspace.get",
    answer=Artifact,
    errors=GONE,
)
class GetArtifact(Request):
    """Which artifact: by ref, by name, or by name@version."""

    ref: f.Ref


@operation(
    "workspace_versions",
    "GET /v1/workspace/artifacts/versions",
    "The versions of a name, the newest first",
    calls="workspace.versions",
    answer=Artifact,
    items="artifacts",
    errors=(*GONE, e.NameInvalid, e.ValueRefused),
    not_by_mcp=BY_RESOURCE,
)
class ArtifactVersions(Request):
    """Of which name."""

    name: f.Name
    limit: f.Most = 1000


# -- records and links ---------------------------------------------------------------------------------


class RecordOfMany(Declared):
    """One of several records."""

    kind: f.RecordKind
    text: f.Text
    refs: f.Refs = ()
    tags: f.Tags = ()
    pinned: f.Pinned = False
    task: f.Task | None = None
    at: f.At | None = None
    source: f.Source | None = None


@operation(
    "workspace_record",
    "POST /v1/workspace/records",
    "Record an observation, a decision, evidence or a note",
    calls="workspace.record",
    answer=Record,
    errors=(*UNKNOWN, e.ValueRefused, e.SecretFound, e.OperationConflict),
    example={"kind": "decision", "text": "We patch the serializer first.", "pinned": True},
)
class MakeRecord(Change):
    """What was observed, decided or found, and what it is about."""

    kind: f.RecordKind
    text: f.Text
    refs: f.Refs = ()
    tags: f.Tags = ()
    pinned: f.Pinned = False
    task: f.Task | None = None
    at: f.At | None = None
    source: f.Source | None = None
    redact: f.Redact = False


@operation(
    "workspace_record_many",
    "POST /v1/workspace/records/many",
    "Record up to 1,000 things in one transaction, all or none",
    calls="workspace.record_many",
    answer=Record,
    items="records",
    errors=(*UNKNOWN, e.ValueRefused, e.SecretFound, e.OperationConflict),
    example={"records": [{"kind": "observation", "text": "The tide turned at noon."}]},
    not_by_mcp="a model records one thing at a time",
)
class MakeRecords(Change):
    """Up to 1,000 records, all or none."""

    records: Annotated[
        tuple[RecordOfMany, ...],
        f.about("Up to 1,000 of them; each has `kind` and `text`, and may have what a record has."),
    ]
    redact: f.Redact = False


@operation(
    "workspace_records",
    "GET /v1/workspace/records",
    "Records, the newest first",
    calls="workspace.records",
    answer=Record,
    items="records",
    pages=Pages(lambda last: last.ref),
    errors=(*UNKNOWN, e.ValueRefused),
    not_by_mcp=BY_RECALL,
)
class ListRecords(Paged):
    """Which records to list."""

    kind: f.RecordKind | None = None
    task: f.Task | None = None
    tag: f.Tag | None = None
    ref: f.Ref | None = None
    pinned: f.Pinned | None = None


@operation(
    "workspace_get_record",
    "GET /v1/workspace/records/{ref}",
    "A record by its ref or id, or a unique prefix",
    calls="workspace.get_record",
    answer=Record,
    errors=(e.RecordNotFound, e.AmbiguousPrefix, e.ValueRefused),
    not_by_mcp=BY_RECALL,
)
class GetRecord(Request):
    """Which record."""

    ref: f.Ref


@operation(
    "workspace_pin",
    "POST /v1/workspace/records/{ref}/pin",
    "Pin a record, so that recall never leaves it out; or take the pin away",
    calls="workspace.pin",
    answer=Record,
    errors=(e.RecordNotFound, e.AmbiguousPrefix, e.ValueRefused, e.OperationConflict),
    example={"pinned": True},
    not_by_mcp="a model pins what it records: workspace_record with pinned",
)
class PinRecord(Change):
    """Whether recall never leaves it out."""

    ref: f.Ref
    pinned: f.Pinned = True


@operation(
    "workspace_link",
    "POST /v1/workspace/links",
    "Say how two things with refs bear on each other",
    calls="workspace.link",
    answer=Link,
    errors=(*UNKNOWN, e.ValueRefused, e.SecretFound, e.OperationConflict),
    example={"source": "record:abc", "relation": "supports", "target": "record:def"},
)
class MakeLink(Change):
    """How two things with refs bear on each other."""

    source: f.LinkSource
    relation: f.LinkRelation
    target: f.LinkTarget
    note: f.Note = ""
    redact: f.Redact = False


@operation(
    "workspace_links",
    "GET /v1/workspace/links",
    "The links from and to a ref, the oldest first",
    calls="workspace.links",
    answer=Link,
    items="links",
    errors=(*UNKNOWN, e.ValueRefused),
    not_by_mcp="workspace_why tells a model what bears on it",
)
class ListLinks(Request):
    """Which ref, and in what scope to look for a name."""

    ref: f.Ref


@operation(
    "workspace_why",
    "GET /v1/workspace/why",
    "What a ref rests on, and how each part of that stands",
    calls="workspace.why",
    long=True,
    answer=answers.WHY,
    errors=(*UNKNOWN, e.ValueRefused),
)
class AskWhy(Request):
    """Which ref, and how far to follow what it rests on."""

    ref: f.Ref
    depth: f.Depth = 20


# -- checkpoints and recall ----------------------------------------------------------------------------


@operation(
    "workspace_checkpoint",
    "POST /v1/workspace/checkpoints",
    "Pin where a task stands, under a name",
    calls="workspace.checkpoint",
    answer=Checkpoint,
    errors=(*UNKNOWN, e.NameInvalid, e.ValueRefused, e.OperationConflict),
    example={"name": "sources_chosen", "task": "daily-report", "summary": "Twelve sources were chosen."},
)
class PinCheckpoint(Change):
    """A boundary of a task."""

    name: f.Name
    task: f.TaskId
    summary: f.Summary = ""
    refs: f.Refs = ()


@operation(
    "workspace_checkpoints",
    "GET /v1/workspace/checkpoints",
    "Checkpoints, the newest first",
    calls="workspace.checkpoints",
    answer=Checkpoint,
    items="checkpoints",
    pages=Pages(lambda last: last.id),
    errors=(e.CheckpointNotFound, e.RunNotFound, e.RunRemoved, e.AmbiguousPrefix, e.ValueRefused),
    not_by_mcp=BY_RECALL,
)
class ListCheckpoints(Paged):
    """Of a task or of a run; without either, of all tasks."""

    task: f.Task | None = None
    run: f.OfRun | None = None


@operation(
    "workspace_diff",
    "GET /v1/workspace/checkpoints/diff",
    "What is different at the second of two checkpoints",
    calls="workspace.diff",
    answer=answers.DIFF,
    errors=(e.CheckpointNotFound, e.AmbiguousPrefix),
    not_by_mcp=BY_RECALL,
)
class DiffCheckpoints(Request):
    """Which two checkpoints."""

    before: f.Before
    after: f.AfterCheckpoint


@operation(
    "workspace_get_checkpoint",
    "GET /v1/workspace/checkpoints/{ref}",
    "A checkpoint by its ref or id, or a unique prefix",
    calls="workspace.get_checkpoint",
    answer=Checkpoint,
    errors=(e.CheckpointNotFound, e.AmbiguousPrefix),
    not_by_mcp=BY_RECALL,
)
class GetCheckpoint(Request):
    """Which checkpoint."""

    ref: f.Ref


@operation(
    "workspace_recall",
    "POST /v1/workspace/recall",
    "What of the scope matters for a goal, within so many tokens",
    calls="workspace.recall",
    role="read",
    long=True,
    answer=answers.PACK,
    errors=(e.BudgetTooSmall, e.ValueRefused),
    example={"goal": "fix the time zones of the export", "budget": 1000},
)
class Recall(Request):
    """What is to be done, and how much may be said."""

    goal: f.Goal
    budget: f.Budget = 2000
    kinds: f.Kinds | None = None
    task: f.Task | None = None
    limit: f.Most | None = None
