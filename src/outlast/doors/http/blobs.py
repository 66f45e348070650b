"""What a client of handoffs needs beside them: content by its digest, up and down, and which handoffs may be meant."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from outlast.doors.http.bodies import check_type, refuse_content
from outlast.doors.http.calls import (
    Asked,
    Body,
    Call,
    Nothing,
    Page,
    Paged,
    cursor_of,
    limit_of,
    page_of,
    place_in,
    shown,
)
from outlast.doors.http.content import BYTES, Arrived, received
from outlast.errors import BlobNotFound, BodyTooLarge, BodyTooSlow, DiskFull, IntegrityBroken, RequestInvalid
from outlast.handoffs.recovered import Near
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast import Outlast
    from outlast.doors.http.exchange import Exchange

MOST_BYTES = 32 << 20  # a file that is kept has 1 MiB, a patch 20 MiB, what a check printed less
PIECE = 256 << 10
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
    exchange.state.quota.note(exchange.identity, outlast, digest, arrived.size)


# -- down --------------------------------------------------------------------------------------------


async def _get(exchange: Exchange) -> None:
    exchange.enter(GET)
    digest = _digest(exchange)
    outlast, _ = await exchange.in_thread(exchange.opened, GET, Nothing())
    if not await exchange.in_thread(outlast._runtime.blobs.has, digest):
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
    for _ in outlast._runtime.blobs.pieces(digest):
        pass
    return outlast._runtime.blobs.pieces(digest)


# -- which may be meant ------------------------------------------------------------------------------


def _near(outlast: Outlast, asked: Asked) -> Page:
    from outlast.handoffs.find import near

    query: NearQuery = asked.query
    if (query.branch is None) == (query.file_path is None):
        raise RequestInvalid("branch", "name a branch or a file, one of them")
    limit, place = limit_of(query), place_in(query.cursor, int)
    scope = outlast._runtime.scope if query.scope is None else query.scope
    wanted = (query.branch, query.file_path, query.symbol)
    found = near(outlast._runtime, scope, *wanted, limit=limit + 1, before=place[0] if place else 0)
    return page_of(found, limit, lambda last: cursor_of(last.place))


PUT = Call(
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
GET = Call(
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
    Call(
        method="GET",
        path="/v1/handoff/near",
        name="handoff_near",
        summary="The open handoffs of a branch, or about a file, and where each was stored",
        role="read",
        query=NearQuery,
        does=_near,
        gives=Near,
        shows=jsonable,
        page=True,
        errors=(),
        detail="Which of them is meant is told by who has the files: by the root, or by the commit.",
    ),
)
