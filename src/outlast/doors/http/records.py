"""Records and links over HTTP: say what was observed or decided, link it, and ask what it rests on."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from outlast.doors.http.calls import Body, CallRequest, HttpCall, Page, Paged, cursor_of, limit_of, page_of, place_in
from outlast.errors import (
    AmbiguousPrefix,
    ArtifactNotFound,
    ArtifactRemoved,
    CheckpointNotFound,
    HandoffNotFound,
    OperationConflict,
    RecordNotFound,
    RunNotFound,
    SecretFound,
    ValueRefused,
)
from outlast.values.codec import jsonable
from outlast.workspace.link import Link
from outlast.workspace.record import Record
from outlast.workspace.why import Why

if TYPE_CHECKING:
    from outlast import Outlast

SPACE = "/v1/workspace"
Kind = Literal["observation", "decision", "evidence", "note"]
Relation = Literal["supports", "contradicts", "derived_from", "supersedes", "produced_by"]
GONE = (ArtifactNotFound, ArtifactRemoved)
UNKNOWN = (*GONE, RecordNotFound, CheckpointNotFound, HandoffNotFound, RunNotFound, AmbiguousPrefix)


class RecordMake(Body):
    """What was observed, decided or found, and what it is about."""

    kind: Kind
    text: str
    refs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    pinned: bool = False
    task: str | None = None
    at: datetime | None = None
    source: str | None = None
    redact: bool = False
    operation_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class RecordOfMany(Body):
    """One of several records."""

    kind: Kind
    text: str
    refs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    pinned: bool = False
    task: str | None = None
    at: datetime | None = None
    source: str | None = None


class RecordMany(Body):
    """Up to 1,000 records, all or none."""

    records: tuple[RecordOfMany, ...]
    redact: bool = False
    operation_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class RecordsQuery(Paged):
    """Which records to list."""

    kind: Kind | None = None
    task: str | None = None
    tag: str | None = None
    ref: str | None = None
    pinned: bool | None = None
    scope: str | None = None


class RecordPin(Body):
    """Whether recall never leaves it out."""

    pinned: bool = True
    operation_id: str | None = None
    actor: str | None = None


class LinkMake(Body):
    """How two things with refs bear on each other."""

    source: str
    relation: Relation
    target: str
    note: str = ""
    redact: bool = False
    operation_id: str | None = None
    scope: str | None = None
    actor: str | None = None


class RefQuery(Body):
    """Which ref, and in what scope to look for a name."""

    ref: str
    scope: str | None = None


class WhyQuery(Body):
    """Which ref, and how far to follow what it rests on."""

    ref: str
    depth: int = 20
    scope: str | None = None


def _record(outlast: Outlast, asked: CallRequest) -> Record:
    return outlast.workspace.record(**asked.given())


def _record_many(outlast: Outlast, asked: CallRequest) -> Page:
    given = asked.given("records")
    return Page(outlast.workspace.record_many([_fields_of(each) for each in asked.body.records], **given))


def _fields_of(one: RecordOfMany) -> dict[str, Any]:
    """The fields of one of several, as the Python method takes them."""
    return {name: getattr(one, name) for name in one.__struct_fields__}


def _records(outlast: Outlast, asked: CallRequest) -> Page:
    query: RecordsQuery = asked.query
    limit, place = limit_of(query), place_in(query.cursor, str)
    found = outlast.workspace.records(
        kind=query.kind,
        task=query.task,
        tag=query.tag,
        ref=query.ref,
        pinned=query.pinned,
        limit=limit + 1,
        before=place[0] if place else None,
        scope=query.scope,
    )
    return page_of(found, limit, lambda last: cursor_of(last.ref))


def _get_record(outlast: Outlast, asked: CallRequest) -> Record:
    return outlast.workspace.get_record(asked.path["record_id"])


def _pin(outlast: Outlast, asked: CallRequest) -> Record:
    return outlast.workspace.pin(asked.path["record_id"], **asked.given())


def _link(outlast: Outlast, asked: CallRequest) -> Link:
    return outlast.workspace.link(**asked.given())


def _links(outlast: Outlast, asked: CallRequest) -> Page:
    return Page(outlast.workspace.links(asked.query.ref, scope=asked.query.scope))


def _why(outlast: Outlast, asked: CallRequest) -> Why:
    query: WhyQuery = asked.query
    return outlast.workspace.why(query.ref, depth=query.depth, scope=query.scope)


CALLS = (
    HttpCall(
        method="POST",
        path=f"{SPACE}/records",
        name="workspace_record",
        summary="Record an observation, a decision, evidence or a note",
        role="write",
        body=RecordMake,
        does=_record,
        gives=Record,
        shows=jsonable,
        errors=(*UNKNOWN, ValueRefused, SecretFound, OperationConflict),
        example={"kind": "decision", "text": "We patch the serializer first.", "pinned": True},
    ),
    HttpCall(
        method="POST",
        path=f"{SPACE}/records/many",
        name="workspace_record_many",
        summary="Record up to 1,000 things in one transaction, all or none",
        role="write",
        body=RecordMany,
        does=_record_many,
        gives=Record,
        shows=jsonable,
        page=True,
        errors=(*UNKNOWN, ValueRefused, SecretFound, OperationConflict),
        example={"records": [{"kind": "observation", "text": "The tide turned at noon."}]},
    ),
    HttpCall(
        method="GET",
        path=f"{SPACE}/records",
        name="workspace_records",
        summary="Records, the newest first",
        role="read",
        query=RecordsQuery,
        does=_records,
        gives=Record,
        shows=jsonable,
        page=True,
        errors=(*UNKNOWN, ValueRefused),
    ),
    HttpCall(
        method="GET",
        path=f"{SPACE}/records/{{record_id}}",
        name="workspace_get_record",
        summary="A record by its ref or id, or a unique prefix",
        role="read",
        does=_get_record,
        gives=Record,
        shows=jsonable,
        errors=(RecordNotFound, AmbiguousPrefix, ValueRefused),
    ),
    HttpCall(
        method="POST",
        path=f"{SPACE}/records/{{record_id}}/pin",
        name="workspace_pin",
        summary="Pin a record, so that recall never leaves it out; or take the pin away",
        role="write",
        body=RecordPin,
        does=_pin,
        gives=Record,
        shows=jsonable,
        errors=(RecordNotFound, AmbiguousPrefix, ValueRefused, OperationConflict),
        example={"pinned": True},
    ),
    HttpCall(
        method="POST",
        path=f"{SPACE}/links",
        name="workspace_link",
        summary="Say how two things with refs bear on each other",
        role="write",
        body=LinkMake,
        does=_link,
        gives=Link,
        shows=jsonable,
        errors=(*UNKNOWN, ValueRefused, SecretFound, OperationConflict),
        example={"source": "record:abc", "relation": "supports", "target": "record:def"},
    ),
    HttpCall(
        method="GET",
        path=f"{SPACE}/links",
        name="workspace_links",
        summary="The links from and to a ref, the oldest first",
        role="read",
        query=RefQuery,
        does=_links,
        gives=Link,
        shows=jsonable,
        page=True,
        errors=(*UNKNOWN, ValueRefused),
    ),
    HttpCall(
        method="GET",
        path=f"{SPACE}/why",
        name="workspace_why",
        summary="What a ref rests on, and how each part of that stands",
        role="read",
        query=WhyQuery,
        does=_why,
        long=True,
        gives=Why,
        shows=jsonable,
        errors=(*UNKNOWN, ValueRefused),
    ),
)
