"""Workspace over HTTP: artifacts, checkpoints and recall. Content: content.py, records: records.py."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from outlast.doors.http.blobs import CONTENT, UPLOAD
from outlast.doors.http.calls import Body, CallRequest, HttpCall, Page, Paged, cursor_of, limit_of, page_of, place_in
from outlast.doors.http.records import GONE, SPACE, UNKNOWN
from outlast.doors.http.shapes import CheckpointChanges, WholePack
from outlast.errors import (
    AmbiguousPrefix,
    BudgetTooSmall,
    CheckpointNotFound,
    DiskFull,
    NameInvalid,
    OperationConflict,
    RequestInvalid,
    RunNotFound,
    RunRemoved,
    ValueRefused,
)
from outlast.values.codec import jsonable
from outlast.workspace.artifact import Artifact
from outlast.workspace.checkpoint import Checkpoint, CheckpointDiff
from outlast.workspace.recall.pack import ContextPack

if TYPE_CHECKING:
    from outlast import Outlast


class ArtifactSave(Body):
    """Content that fits into a request: text, or bytes as base64. Larger content is sent with PUT."""

    name: str
    content: str | None = None
    content_base64: str | None = None
    media_type: str | None = None
    summary: str = ""
    source: str | None = None
    tags: tuple[str, ...] = ()
    operation_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class ArtifactsQuery(Paged):
    """Which artifacts to list."""

    prefix: str = ""
    tag: str | None = None
    run: str | None = None
    scope: str | None = None


class ArtifactQuery(Body):
    """Which artifact: by ref, by name, or by name@version."""

    ref: str
    scope: str | None = None


class VersionsQuery(Body):
    """Of which name."""

    name: str
    limit: int = 1000
    scope: str | None = None


class CheckpointPin(Body):
    """A boundary of a task."""

    name: str
    task: str
    summary: str = ""
    refs: tuple[str, ...] = ()
    operation_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class CheckpointsQuery(Paged):
    """Of a task or of a run; without either, of all tasks."""

    task: str | None = None
    run: str | None = None
    scope: str | None = None


class DiffQuery(Body):
    """Which two checkpoints."""

    before: str
    after: str


class Recall(Body):
    """What is to be done, and how much may be said."""

    goal: str
    budget: int = 2000
    kinds: tuple[str, ...] | None = None
    task: str | None = None
    limit: int | None = None
    scope: str | None = None


# -- artifacts ---------------------------------------------------------------------------------------


def _save(outlast: Outlast, asked: CallRequest) -> Artifact:
    given = asked.given("content", "content_base64")
    return outlast.workspace.save(given.pop("name"), _content(asked.body), **given)


def _content(body: ArtifactSave) -> str | bytes:
    if (body.content is None) == (body.content_base64 is None):
        raise RequestInvalid("content", "give either content or content_base64")
    if body.content is not None:
        return body.content
    try:
        return base64.b64decode(body.content_base64 or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestInvalid("content_base64", f"it is no base64: {error}") from error


def _artifacts(outlast: Outlast, asked: CallRequest) -> Page:
    query: ArtifactsQuery = asked.query
    limit, place = limit_of(query), place_in(query.cursor, str)
    found = outlast.workspace.list(
        prefix=query.prefix,
        tag=query.tag,
        run=query.run,
        limit=limit + 1,
        before=place[0] if place else None,
        scope=query.scope,
    )
    return page_of(found, limit, lambda last: cursor_of(last.ref))


def _artifact(outlast: Outlast, asked: CallRequest) -> Artifact:
    return outlast.workspace.get(asked.query.ref, scope=asked.query.scope)


def _versions(outlast: Outlast, asked: CallRequest) -> Page:
    query: VersionsQuery = asked.query
    return Page(outlast.workspace.versions(query.name, limit=query.limit, scope=query.scope))


# -- checkpoints and recall --------------------------------------------------------------------------


def _checkpoint(outlast: Outlast, asked: CallRequest) -> Checkpoint:
    return outlast.workspace.checkpoint(**asked.given())


def _checkpoints(outlast: Outlast, asked: CallRequest) -> Page:
    query: CheckpointsQuery = asked.query
    limit, place = limit_of(query), place_in(query.cursor, str)
    found = outlast.workspace.checkpoints(
        task=query.task,
        run=query.run,
        limit=limit + 1,
        before=place[0] if place else None,
        scope=query.scope,
    )
    return page_of(found, limit, lambda last: cursor_of(last.id))


def _get_checkpoint(outlast: Outlast, asked: CallRequest) -> Checkpoint:
    return outlast.workspace.get_checkpoint(asked.path["checkpoint_id"])


def _diff(outlast: Outlast, asked: CallRequest) -> CheckpointDiff:
    return outlast.workspace.diff(asked.query.before, asked.query.after)


def _diff_json(found: CheckpointDiff) -> dict[str, Any]:
    return {**jsonable(found), "same": found.same}


def _recall(outlast: Outlast, asked: CallRequest) -> ContextPack:
    return outlast.workspace.recall(**asked.given())


def _pack_json(pack: ContextPack) -> dict[str, Any]:
    return {**jsonable(pack), "prompt": pack.prompt()}


CALLS = (
    HttpCall(
        method="POST",
        path=f"{SPACE}/artifacts",
        name="workspace_save",
        summary="Save small content under a name, as its next version",
        role="write",
        body=ArtifactSave,
        does=_save,
        gives=Artifact,
        shows=jsonable,
        errors=(NameInvalid, ValueRefused, OperationConflict, DiskFull),
        example={"name": "report.md", "content": "# Tides", "summary": "First draft"},
    ),
    UPLOAD,
    CONTENT,
    HttpCall(
        method="GET",
        path=f"{SPACE}/artifacts",
        name="workspace_list",
        summary="Artifacts, those saved last first",
        role="read",
        query=ArtifactsQuery,
        does=_artifacts,
        gives=Artifact,
        shows=jsonable,
        page=True,
        errors=(*GONE, RunNotFound, AmbiguousPrefix),
    ),
    HttpCall(
        method="GET",
        path=f"{SPACE}/artifact",
        name="workspace_get",
        summary="What is known of an artifact",
        role="read",
        query=ArtifactQuery,
        does=_artifact,
        gives=Artifact,
        shows=jsonable,
        errors=GONE,
    ),
    HttpCall(
        method="GET",
        path=f"{SPACE}/artifacts/versions",
        name="workspace_versions",
        summary="The versions of a name, the newest first",
        role="read",
        query=VersionsQuery,
        does=_versions,
        gives=Artifact,
        shows=jsonable,
        page=True,
        errors=(*GONE, NameInvalid, ValueRefused),
    ),
    HttpCall(
        method="POST",
        path=f"{SPACE}/checkpoints",
        name="workspace_checkpoint",
        summary="Pin where a task stands, under a name",
        role="write",
        body=CheckpointPin,
        does=_checkpoint,
        gives=Checkpoint,
        shows=jsonable,
        errors=(*UNKNOWN, NameInvalid, ValueRefused, OperationConflict),
        example={"name": "sources_chosen", "task": "daily-report", "summary": "Twelve sources were chosen."},
    ),
    HttpCall(
        method="GET",
        path=f"{SPACE}/checkpoints",
        name="workspace_checkpoints",
        summary="Checkpoints, the newest first",
        role="read",
        query=CheckpointsQuery,
        does=_checkpoints,
        gives=Checkpoint,
        shows=jsonable,
        page=True,
        errors=(CheckpointNotFound, RunNotFound, RunRemoved, AmbiguousPrefix, ValueRefused),
    ),
    HttpCall(
        method="GET",
        path=f"{SPACE}/checkpoints/diff",
        name="workspace_diff",
        summary="What is different at the second of two checkpoints",
        role="read",
        query=DiffQuery,
        does=_diff,
        gives=CheckpointChanges,
        shows=_diff_json,
        errors=(CheckpointNotFound, AmbiguousPrefix),
    ),
    HttpCall(
        method="GET",
        path=f"{SPACE}/checkpoints/{{checkpoint_id}}",
        name="workspace_get_checkpoint",
        summary="A checkpoint by its ref or id, or a unique prefix",
        role="read",
        does=_get_checkpoint,
        gives=Checkpoint,
        shows=jsonable,
        errors=(CheckpointNotFound, AmbiguousPrefix),
    ),
    HttpCall(
        method="POST",
        path=f"{SPACE}/recall",
        name="workspace_recall",
        summary="What of the scope matters for a goal, within so many tokens",
        role="read",
        body=Recall,
        does=_recall,
        long=True,
        gives=WholePack,
        shows=_pack_json,
        errors=(BudgetTooSmall, ValueRefused),
        example={"goal": "fix the time zones of the export", "budget": 1000},
    ),
)
