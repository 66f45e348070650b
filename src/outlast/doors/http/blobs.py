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
from outlast.doors.http.calls import CallRequest, told
from outlast.doors.http.limits import room_for
from outlast.errors import BlobNotFound, IntegrityBroken, RangeRefused, RequestInvalid, StepNotFound
from outlast.operations.handoffs import BYTES, Blob
from outlast.operations.table import OPERATIONS
from outlast.python import door

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.exchange import Exchange
    from outlast.operations.workspace import Artifact


Arrived = Any  # content of the workspace that has arrived, and is not saved yet

PIECE = 256 << 10
CHECKED_FIRST = 16 << 20  # content of no more is checked before anything is sent
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


UPLOAD, CONTENT = OPERATIONS["workspace_upload"], OPERATIONS["workspace_content"]
PUT, GET = OPERATIONS["handoff_put_blob"], OPERATIONS["handoff_get_blob"]
LOG, DISPLACED = OPERATIONS["run_log"], OPERATIONS["run_displaced_content"]


# -- up ----------------------------------------------------------------------------------------------


async def _upload(exchange: Exchange) -> None:
    query = exchange.enter(UPLOAD)
    check_type(None, exchange.header("content-encoding"), BYTES)
    limit = exchange.state.settings.artifact_bytes
    if exchange.length is not None and exchange.length > limit:
        sends = exchange.header("expect") is None  # otherwise the client waits to be asked for it
        await refuse_content(exchange.receive, limit, exchange.state.settings.body_seconds, more=sends)
    is_small = exchange.length is not None and exchange.length <= min(PIECE, limit)
    saved = await (_small if is_small else _large)(exchange, query, limit)
    exchange.state.quota.changed(exchange.identity)
    more = [(b"idempotency-replayed", b"true")] if saved.replayed else []
    await exchange.answer(200, told(saved), more=more)


async def _small(exchange: Exchange, query: Any, limit: int) -> Artifact:
    """What is one piece is held in memory until it is there, and kept by one thread at once."""
    content = b"".join([piece async for piece in _arriving(exchange, limit)])

    def work() -> Artifact:
        outlast, asked = exchange.opened(UPLOAD, query)
        exchange.state.quota.room(exchange.identity, outlast)(len(content))
        return _save(outlast, asked, content)

    return await exchange.state.threads.keeping.do(work, exchange.who)


async def _large(exchange: Exchange, query: Any, limit: int) -> Artifact:
    outlast, asked = await exchange.in_thread(exchange.opened, UPLOAD, query)
    async with received(exchange, outlast, limit, asked.given("operation_id")) as arrived:
        return await exchange.state.threads.keeping.do(partial(_save, outlast, asked, arrived), exchange.who)


def _save(outlast: Outlast, asked: CallRequest, content: bytes | Arrived) -> Artifact:
    return outlast.workspace.save(content=content, **asked.given())


@asynccontextmanager
async def received(
    exchange: Exchange, outlast: Outlast, limit: int, said: Mapping[str, Any] | None = None
) -> AsyncIterator[Arrived]:
    """All of a body, in a file beside the content that is kept; what is not kept goes away.

    What is said of it is checked first. No thread waits for the client.
    Raises BodyTooSlow, BodyTooLarge, Quota, Gone.
    """
    threads, refuse_over = exchange.state.threads, await room_for(exchange, outlast)
    arrived = await threads.pieces.do(partial(outlast.workspace._receive, **(said or {})), exchange.who)
    try:
        async for piece in _arriving(exchange, limit):
            await threads.pieces.do(partial(arrived.write, piece), exchange.who)
            refuse_over(arrived.size)
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
    query = exchange.enter(CONTENT)
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


def _found(exchange: Exchange, query: Any) -> Artifact:
    outlast, _ = exchange.opened(CONTENT, query)
    return outlast.workspace.get(query.ref)


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


MOST_BYTES = 32 << 20  # a file that is kept has 1 MiB, a patch 20 MiB, what a check printed less
_DIGEST = re.compile(r"[0-9a-f]{64}")


# -- up ----------------------------------------------------------------------------------------------


async def _put(exchange: Exchange) -> None:
    query = exchange.enter(PUT)
    check_type(None, exchange.header("content-encoding"), BYTES)
    digest = _digest(exchange)
    if exchange.length is not None and exchange.length > MOST_BYTES:
        await refuse_content(exchange.receive, MOST_BYTES, exchange.state.settings.body_seconds)
    outlast, _ = await exchange.in_thread(exchange.opened, PUT, query)
    async with received(exchange, outlast, MOST_BYTES) as arrived:
        await exchange.state.threads.keeping.do(partial(_keep, exchange, outlast, digest, arrived), exchange.who)
    await exchange.answer(200, told(Blob(digest=digest)))


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
    door.note_sent(outlast, digest)
    exchange.state.quota.note(exchange.identity, outlast, digest, arrived.size)


# -- down --------------------------------------------------------------------------------------------


async def _get(exchange: Exchange) -> None:
    query = exchange.enter(GET)
    digest = _digest(exchange)
    outlast, _ = await exchange.in_thread(exchange.opened, GET, query)
    if not await exchange.in_thread(door.has_content, outlast, digest):
        raise BlobNotFound(digest)
    if exchange.method == "HEAD":
        await exchange.answer(200, b"", BYTES.encode())
        return
    pieces = await exchange.in_thread(door.whole_content, outlast, digest)
    await _send_bytes(exchange, pieces, (b"etag", f'"{digest}"'.encode()))


# -- what commands printed, and files that gave way --------------------------------------------------


async def _log(exchange: Exchange) -> None:
    outlast, asked = await exchange.in_thread(exchange.opened, LOG, exchange.enter(LOG))
    await _send_bytes(exchange, await exchange.in_thread(_printed, outlast, asked))


def _printed(outlast: Outlast, asked: CallRequest) -> Iterator[bytes]:
    """Raises StepNotFound, also for a step of Python code: it printed nothing that is kept."""
    request = asked.request
    found = outlast.logs(request.run_id, request.step, attempt=request.attempt)
    if not found:
        what = f"{request.step} (attempt {request.attempt}) with a transcript"
        raise StepNotFound(request.run_id, what, "none: it is no command")
    return iter(found[0].pieces())


async def _displaced(exchange: Exchange) -> None:
    """All of it is checked before the first byte goes out."""
    outlast, asked = await exchange.in_thread(exchange.opened, DISPLACED, exchange.enter(DISPLACED))
    content = await exchange.in_thread(lambda: outlast.displaced(**asked.given())[-1].content())
    await _send_bytes(exchange, iter([content]))


async def _send_bytes(exchange: Exchange, pieces: Iterator[bytes], *headers: tuple[bytes, bytes]) -> None:
    start = [(b"content-type", BYTES.encode()), *headers]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": start})
    await _send_pieces(exchange, pieces)
    await exchange.send({"type": "http.response.body", "body": b""})


SERVES = {
    UPLOAD.name: _upload,
    CONTENT.name: _content,
    PUT.name: _put,
    GET.name: _get,
    LOG.name: _log,
    DISPLACED.name: _displaced,
}
