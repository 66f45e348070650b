"""What a client of handoffs needs beside them: content by its digest, up and down, and which handoffs may be meant.

The content of artifacts over HTTP: streamed up and down in constant memory, by ranges, checked.

Up: nothing is visible before all of it has arrived and is durable. Down: what fits into memory, and any range, is
checked before the first byte goes out; larger content is checked as it goes, and the connection is cut off before its
end if it turns out damaged, so that nobody takes it for whole.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from outlast.doors.http.bodies import Pace, check_type, refuse_content
from outlast.doors.http.calls import (
    Body,
    CallRequest,
    HttpCall,
    Nothing,
    Page,
    Paged,
    cursor_of,
    limit_of,
    page_of,
    place_in,
    shown,
)
from outlast.doors.http.limits import room_for
from outlast.errors import (
    ArtifactNotFound,
    ArtifactRemoved,
    BlobNotFound,
    BodyTooLarge,
    BodyTooSlow,
    DiskFull,
    IntegrityBroken,
    NameInvalid,
    OperationConflict,
    RangeRefused,
    RequestInvalid,
    ValueRefused,
)
from outlast.handoffs.recovered import Near
from outlast.values.codec import jsonable
from outlast.workspace.artifact import Artifact

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.exchange import Exchange


Arrived = Any  # content of the workspace that has arrived, and is not saved yet

BYTES = "application/octet-stream"
PIECE = 256 << 10
CHECKED_FIRST = 16 << 20  # content of no more is checked before anything is sent
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class UploadQuery(Body):
    """What is said of the content, which is the body of the request."""

    name: str
    media_type: str | None = None
    summary: str = ""
    source: str | None = None
    tags: tuple[str, ...] = ()
    operation_id: str | None = None
    scope: str | None = None


class ContentQuery(Body):
    """Which artifact: by ref, by name, or by name@version."""

    ref: str
    scope: str | None = None


# -- up ----------------------------------------------------------------------------------------------


async def _upload(exchange: Exchange) -> None:
    query: UploadQuery = exchange.enter(UPLOAD)
    check_type(None, exchange.header("content-encoding"), BYTES)
    limit = exchange.state.settings.artifact_bytes
    if exchange.length is not None and exchange.length > limit:
        sends = exchange.header("expect") is None  # otherwise the client waits to be asked for it
        await refuse_content(exchange.receive, limit, exchange.state.settings.body_seconds, more=sends)
    is_small = exchange.length is not None and exchange.length <= min(PIECE, limit)
    saved = await (_small if is_small else _large)(exchange, query, limit)
    exchange.state.quota.changed(exchange.identity)
    more = [(b"idempotency-replayed", b"true")] if saved.replayed else []
    await exchange.answer(200, shown(UPLOAD, saved), more=more)


async def _small(exchange: Exchange, query: UploadQuery, limit: int) -> Artifact:
    """What is one piece is held in memory until it is there, and kept by one thread at once."""
    content = b"".join([piece async for piece in _arriving(exchange, limit)])

    def work() -> Artifact:
        outlast, asked = exchange.opened(UPLOAD, query)
        exchange.state.quota.room(exchange.identity, outlast).refuse_over(len(content))
        return _save(outlast, asked, content)

    return await exchange.state.threads.keeps(work, exchange.who)


async def _large(exchange: Exchange, query: UploadQuery, limit: int) -> Artifact:
    outlast, asked = await exchange.in_thread(exchange.opened, UPLOAD, query)
    async with received(exchange, outlast, limit, _said(query)) as arrived:
        return await exchange.state.threads.keeps(partial(_save, outlast, asked, arrived), exchange.who)


def _save(outlast: Outlast, asked: CallRequest, content: bytes | Arrived) -> Artifact:
    query: UploadQuery = asked.query
    operation_id = query.operation_id if asked.operation_id is None else asked.operation_id
    return outlast.workspace.save(content=content, operation_id=operation_id, **_said(query))


def _said(query: UploadQuery) -> dict[str, Any]:
    return {name: getattr(query, name) for name in query.__struct_fields__ if name != "operation_id"}


@asynccontextmanager
async def received(
    exchange: Exchange, outlast: Outlast, limit: int, said: Mapping[str, Any] | None = None
) -> AsyncIterator[Arrived]:
    """All of a body, in a file beside the content that is kept; what is not kept goes away.

    What is said of it is checked first. No thread waits for the client.
    Raises BodyTooSlow, BodyTooLarge, Quota, Gone.
    """
    threads, room = exchange.state.threads, await room_for(exchange, outlast)
    arrived = await threads.writes_piece(partial(outlast.workspace._receive, **(said or {})), exchange.who)
    try:
        async for piece in _arriving(exchange, limit):
            await threads.writes_piece(partial(arrived.write, piece), exchange.who)
            room.refuse_over(arrived.size)
        yield arrived
    finally:
        arrived.close()


async def _arriving(exchange: Exchange, limit: int) -> AsyncIterator[bytes]:
    """A body on its way in, a good part at a time. Raises BodyTooSlow, BodyTooLarge, Gone."""
    settings, size, held, more = exchange.state.settings, 0, bytearray(), True
    pace = Pace(settings.body_seconds, settings.body_rate)
    while more:
        piece, more = await pace.next(exchange.receive)
        size += len(piece)
        if size > limit:
            await refuse_content(exchange.receive, limit, settings.body_seconds, more=more)
        held += piece
        if held and (len(held) >= PIECE or not more):
            yield bytes(held)
            held.clear()


# -- down --------------------------------------------------------------------------------------------


async def _content(exchange: Exchange) -> None:
    query: ContentQuery = exchange.enter(CONTENT)
    artifact = await exchange.in_thread(_found, exchange, query)
    tag = f'"{artifact.digest}"'
    if tag in (exchange.header("if-none-match") or ""):
        await exchange.send({"type": "http.response.start", "status": 304, "headers": [(b"etag", tag.encode())]})
        await exchange.send({"type": "http.response.body", "body": b""})
        return
    wanted = _range(exchange, artifact, tag)
    start, end = wanted or (0, artifact.size)
    found = await _proven(exchange, artifact, wanted)
    await _begin(exchange, artifact, tag, start, end, partial=wanted is not None)
    if exchange.method == "HEAD":
        await exchange.send({"type": "http.response.body", "body": b""})
        return
    await _send(exchange, found)


def _found(exchange: Exchange, query: ContentQuery) -> Artifact:
    outlast, _ = exchange.opened(CONTENT, query)
    return outlast.workspace.get(query.ref, scope=query.scope)


async def _proven(exchange: Exchange, artifact: Artifact, wanted: tuple[int, int] | None) -> bytes | Iterator[bytes]:
    """What is to be sent: all of what is small, or pieces whose first one is proven. Raises IntegrityBroken."""
    if wanted is None and artifact.size <= CHECKED_FIRST:
        return await exchange.in_thread(artifact.read)
    start, end = wanted or (0, artifact.size)
    pieces = artifact.between(start, end)
    if end - start <= PIECE:
        return await exchange.in_thread(b"".join, pieces)
    return chain([await exchange.in_thread(next, pieces, b"")], pieces)


def _range(exchange: Exchange, artifact: Artifact, tag: str) -> tuple[int, int] | None:
    """The bytes that are wanted, from and up to; None: all of them. Raises RangeRefused.

    Only one range is served; of several, or in another unit, all of the content, as is usual.
    """
    found = _RANGE.fullmatch((exchange.header("range") or "").strip())
    if found is None or found[0] == "bytes=-" or exchange.header("if-range") not in (None, tag):
        return None
    first, last = found[1], found[2]
    if first and last and int(last) < int(first):
        return None
    start = int(first) if first else max(artifact.size - int(last), 0)
    end = min(int(last) + 1, artifact.size) if first and last else artifact.size
    if start >= artifact.size or (not first and int(last) == 0):
        raise RangeRefused(artifact.size)
    return start, end


async def _begin(exchange: Exchange, artifact: Artifact, tag: str, start: int, end: int, *, partial: bool) -> None:
    name = quote(artifact.name.rsplit("/", 1)[-1][:200], safe="")
    headers = [
        (b"content-type", artifact.media_type.encode("latin-1", "replace")),
        (b"content-length", b"%d" % (end - start)),
        (b"content-disposition", f"attachment; filename*=UTF-8''{name}".encode()),
        (b"etag", tag.encode()),
        (b"accept-ranges", b"bytes"),
        (b"outlast-ref", quote(artifact.ref, safe=":/@").encode()),
    ]
    if partial:
        headers.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, artifact.size)))
    status = 206 if partial else 200
    await exchange.send({"type": "http.response.start", "status": status, "headers": headers})


async def _send(exchange: Exchange, found: bytes | Iterator[bytes]) -> None:
    """Every piece was proven before it goes out; a part that is damaged ends the answer before its end."""
    if isinstance(found, bytes):
        for at in range(0, len(found), PIECE):
            await exchange.send({"type": "http.response.body", "body": found[at : at + PIECE], "more_body": True})
    else:
        await _send_pieces(exchange, found)
    await exchange.send({"type": "http.response.body", "body": b""})


async def _send_pieces(exchange: Exchange, pieces: Iterator[bytes]) -> None:
    while piece := await exchange.in_thread(next, pieces, b""):
        await exchange.send({"type": "http.response.body", "body": piece, "more_body": True})


PATH = "/v1/workspace/artifacts"

UPLOAD = HttpCall(
    method="PUT",
    path=PATH,
    name="workspace_upload",
    summary="Save content of any size under a name: the body is the content",
    role="write",
    serves=_upload,
    query=UploadQuery,
    gives=Artifact,
    shows=jsonable,
    takes=BYTES,
    errors=(NameInvalid, ValueRefused, OperationConflict, BodyTooLarge, BodyTooSlow, DiskFull),
    headers={"Idempotency-Key": "Makes a repeat harmless: the same as `operation_id`."},
    detail="Nothing of it is visible before all of it has arrived and is durable.",
)
CONTENT = HttpCall(
    method="GET",
    path=f"{PATH}/content",
    name="workspace_content",
    summary="The content of an artifact, checked",
    role="read",
    serves=_content,
    query=ContentQuery,
    gives=bytes,
    answers="*/*",
    also={206: "The range that was asked for", 304: "It is what is known already"},
    detail="Its media type is the artifact's own; it is always sent as an attachment.",
    errors=(ArtifactNotFound, ArtifactRemoved, IntegrityBroken, RangeRefused),
    headers={
        "Range": "One range of bytes, as `bytes=0-1023`: it is answered with 206",
        "If-None-Match": "The `ETag` of what is known already: it is answered with 304",
        "If-Range": "The `ETag` that the range is meant for: of other content all is sent",
    },
)


MOST_BYTES = 32 << 20  # a file that is kept has 1 MiB, a patch 20 MiB, what a check printed less
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Blob(Body):
    """Content that is here."""

    digest: str


class NearQuery(Paged):
    """What the work is on: a branch, or a file."""

    branch: str | None = None
    file_path: str | None = None
    symbol: str | None = None
    scope: str | None = None


# -- up ----------------------------------------------------------------------------------------------


async def _put(exchange: Exchange) -> None:
    exchange.enter(PUT)
    check_type(None, exchange.header("content-encoding"), BYTES)
    digest = _digest(exchange)
    if exchange.length is not None and exchange.length > MOST_BYTES:
        await refuse_content(exchange.receive, MOST_BYTES, exchange.state.settings.body_seconds)
    outlast, _ = await exchange.in_thread(exchange.opened, PUT, Nothing())
    async with received(exchange, outlast, MOST_BYTES) as arrived:
        await exchange.state.threads.keeps(partial(_keep, exchange, outlast, digest, arrived), exchange.who)
    await exchange.answer(200, shown(PUT, Blob(digest=digest)))


def _digest(exchange: Exchange) -> str:
    found = exchange.path["digest"]
    if not _DIGEST.fullmatch(found):
        raise RequestInvalid("digest", "it is no SHA-256 in lower-case hex")
    return found


def _keep(exchange: Exchange, outlast: Outlast, digest: str, arrived: Arrived) -> None:
    """Raises IntegrityBroken for other content."""
    if arrived.digest != digest:
        raise IntegrityBroken(f"blob {digest[:12]}", "its content was changed")
    arrived.settle()
    outlast._executor.caller.note_sent(digest)
    exchange.state.quota.note(exchange.identity, outlast, digest, arrived.size)


# -- down --------------------------------------------------------------------------------------------


async def _get(exchange: Exchange) -> None:
    exchange.enter(GET)
    digest = _digest(exchange)
    outlast, _ = await exchange.in_thread(exchange.opened, GET, Nothing())
    if not await exchange.in_thread(outlast._executor.caller.has_content, digest):
        raise BlobNotFound(digest)
    if exchange.method == "HEAD":
        await exchange.answer(200, b"", BYTES.encode())
        return
    pieces = await exchange.in_thread(_checked, outlast, digest)
    headers = [(b"content-type", BYTES.encode()), (b"etag", f'"{digest}"'.encode())]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
    while piece := await exchange.in_thread(next, pieces, b""):
        await exchange.send({"type": "http.response.body", "body": piece, "more_body": True})
    await exchange.send({"type": "http.response.body", "body": b""})


def _checked(outlast: Outlast, digest: str) -> Iterator[bytes]:
    """The content, once it is known to be whole. Raises IntegrityBroken."""
    for _ in outlast._executor.home.blobs.pieces(digest):
        pass
    return outlast._executor.home.blobs.pieces(digest)


# -- which may be meant ------------------------------------------------------------------------------


def _near(outlast: Outlast, asked: CallRequest) -> Page:
    from outlast.handoffs.find import near

    query: NearQuery = asked.query
    if query.branch is not None and query.file_path is not None:
        raise RequestInvalid("branch", "name a branch or a file, one of them")
    limit, place = limit_of(query), place_in(query.cursor, int)
    scope = outlast._executor.caller.scope if query.scope is None else query.scope
    wanted = (query.branch, query.file_path, query.symbol)
    found = near(outlast._executor.caller, scope, *wanted, limit=limit + 1, before=place[0] if place else 0)
    return page_of(found, limit, lambda last: cursor_of(last.place))


PUT = HttpCall(
    method="PUT",
    path="/v1/handoff/blobs/{digest}",
    name="handoff_put_blob",
    summary="Send content that a binding keeps, or that a check printed",
    role="write",
    serves=_put,
    gives=Blob,
    shows=jsonable,
    takes=BYTES,
    errors=(IntegrityBroken, BodyTooLarge, BodyTooSlow, DiskFull),
    detail="It is refused if it has another digest. What no handoff refers to is removed by `gc` some day.",
)
GET = HttpCall(
    method="GET",
    path="/v1/handoff/blobs/{digest}",
    name="handoff_get_blob",
    summary="Content by its digest, checked",
    role="read",
    serves=_get,
    gives=bytes,
    answers=BYTES,
    errors=(BlobNotFound, IntegrityBroken),
)

CALLS = (
    PUT,
    GET,
    HttpCall(
        method="GET",
        path="/v1/handoff/near",
        name="handoff_near",
        summary="The open handoffs of a branch, or about a file, and unfinished runs; where each was stored",
        role="read",
        query=NearQuery,
        does=_near,
        gives=Near,
        shows=jsonable,
        page=True,
        errors=(),
        detail="Which of them is meant is told by who has the files: by the root, or by the commit. With neither "
        "a branch nor a file: unfinished runs alone.",
    ),
)
