"""The content of artifacts over HTTP: streamed up and down in constant memory, by ranges, checked.

Up: nothing is visible before all of it has arrived and is durable. Down: what fits into memory, and any range, is
checked before the first byte goes out; larger content is checked as it goes, and the connection is cut off before its
end if it turns out damaged, so that nobody takes it for whole.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from outlast.doors.http.bodies import Gone, check_type, refuse_content
from outlast.doors.http.calls import Body, Call, shown
from outlast.errors import (
    ArtifactNotFound,
    ArtifactRemoved,
    BodyTooLarge,
    BodyTooSlow,
    DiskFull,
    IntegrityBroken,
    NameInvalid,
    OperationConflict,
    RangeRefused,
    ValueRefused,
)
from outlast.values.codec import jsonable
from outlast.workspace.artifact import Artifact

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.exchange import Exchange

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
    saved = await exchange.state.upload(partial(_save, exchange, query, Arriving(exchange, limit)))
    more = [(b"idempotency-replayed", b"true")] if saved.replayed else []
    await exchange.answer(200, shown(UPLOAD, saved), more=more)


def _save(exchange: Exchange, query: UploadQuery, pieces: Arriving) -> Artifact:
    outlast, asked = exchange.opened(UPLOAD, query)
    given = {name: getattr(query, name) for name in query.__struct_fields__ if name not in ("name", "operation_id")}
    operation_id = query.operation_id if asked.operation_id is None else asked.operation_id
    return outlast.workspace.save(query.name, iter(pieces), operation_id=operation_id, **given)


class Arriving:
    """A body on its way in, as a worker thread reads it, which waits for the loop: so the client waits for the disk."""

    def __init__(self, exchange: Exchange, limit: int) -> None:
        self._exchange, self._limit = exchange, limit
        self._loop = asyncio.get_running_loop()
        self._read = 0

    def __iter__(self) -> Iterator[bytes]:
        more = True
        while more:
            piece, more = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
            yield piece

    async def _next(self) -> tuple[bytes, bool]:
        """Raises BodyTooSlow, BodyTooLarge, Gone."""
        seconds = self._exchange.state.settings.body_seconds
        try:
            async with asyncio.timeout(seconds):
                message = await self._exchange.receive()
        except TimeoutError:
            raise BodyTooSlow(seconds) from None
        if message["type"] != "http.request":
            raise Gone
        piece, more = message.get("body", b""), bool(message.get("more_body"))
        self._read += len(piece)
        if self._read > self._limit:
            await refuse_content(self._exchange.receive, self._limit, seconds, more=more)
        return piece, more


# -- down --------------------------------------------------------------------------------------------


async def _content(exchange: Exchange) -> None:
    query: ContentQuery = exchange.enter(CONTENT)
    outlast, _ = await exchange.in_thread(exchange.opened, CONTENT, query)
    artifact = await exchange.in_thread(_found, outlast, query)
    tag = f'"{artifact.digest}"'
    if tag in (exchange.header("if-none-match") or ""):
        await exchange.send({"type": "http.response.start", "status": 304, "headers": [(b"etag", tag.encode())]})
        await exchange.send({"type": "http.response.body", "body": b""})
        return
    wanted = _range(exchange, artifact, tag)
    if wanted is not None or artifact.size <= CHECKED_FIRST:
        await exchange.in_thread(_check, artifact)
    start, end = wanted or (0, artifact.size)
    await _begin(exchange, artifact, tag, start, end, partial=wanted is not None)
    if exchange.method == "HEAD":
        await exchange.send({"type": "http.response.body", "body": b""})
        return
    await _send(exchange, artifact, start, end)


def _found(outlast: Outlast, query: ContentQuery) -> Artifact:
    return outlast.workspace.get(query.ref, scope=query.scope)


def _check(artifact: Artifact) -> None:
    """Raises IntegrityBroken."""
    with artifact.open() as stream:
        while stream.read(PIECE):
            pass


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


async def _send(exchange: Exchange, artifact: Artifact, start: int, end: int) -> None:
    """One piece behind what was read: the last one goes out only when all was checked."""
    stream = await exchange.in_thread(artifact.open)
    try:
        await exchange.in_thread(_skip, stream, start)
        held = b""
        left = end - start
        while left > 0 and (piece := await exchange.in_thread(stream.read, min(PIECE, left))):
            if held:
                await exchange.send({"type": "http.response.body", "body": held, "more_body": True})
            held, left = piece, left - len(piece)
        if end == artifact.size:
            await exchange.in_thread(stream.read, 1)  # its end: raises IntegrityBroken for what is not what was saved
        await exchange.send({"type": "http.response.body", "body": held})
    finally:
        await exchange.in_thread(stream.close)


def _skip(stream: Any, count: int) -> None:
    while count > 0 and (piece := stream.read(min(PIECE, count))):
        count -= len(piece)


PATH = "/v1/workspace/artifacts"

UPLOAD = Call(
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
CONTENT = Call(
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
