"""The files of finished steps over HTTP: looked at and put back where the run lives; and what gave way there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outlast import Output, RestoredOutputs
from outlast.doors.http.blobs import BYTES
from outlast.doors.http.calls import Body, CallRequest, HttpCall, Page
from outlast.doors.http.shapes import DisplacedFile
from outlast.errors import (
    AmbiguousPrefix,
    DisplacedNotFound,
    IntegrityBroken,
    NotRestorable,
    OutputNotFound,
    OutputNotKept,
    RunHeld,
    RunNotFound,
    RunRemoved,
    RunSealed,
)
from outlast.python.shown import displaced_json
from outlast.values.codec import jsonable

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.exchange import Exchange

MISSING = (RunNotFound, RunRemoved, AmbiguousPrefix)


class RestoreOutputs(Body):
    """Which files: of a step, or named; without both, every one that is missing."""

    step: str | None = None
    paths: tuple[str, ...] = ()


class DisplacedQuery(Body):
    """Which files that gave way: of that path, or of an entry; without both, all."""

    path: str | None = None
    seq: int | None = None


class DisplacedContentQuery(Body):
    """Which file that gave way: the newest of that path, or that of an entry."""

    path: str
    seq: int | None = None


def _outputs(outlast: Outlast, asked: CallRequest) -> Page:
    return Page(outlast.outputs(asked.path["run_id"]))


def _restore(outlast: Outlast, asked: CallRequest) -> RestoredOutputs:
    return outlast.restore_outputs(asked.path["run_id"], step=asked.body.step, paths=asked.body.paths)


def _displaced(outlast: Outlast, asked: CallRequest) -> Page:
    return Page(outlast.displaced(asked.path["run_id"], path=asked.query.path, seq=asked.query.seq))


async def _content(exchange: Exchange) -> None:
    query: DisplacedContentQuery = exchange.enter(CONTENT)
    outlast, asked = await exchange.in_thread(exchange.opened, CONTENT, query)
    pieces = await exchange.in_thread(_pieces, outlast, asked)
    await exchange.send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", BYTES.encode())]})
    while piece := await exchange.in_thread(next, pieces, b""):
        await exchange.send({"type": "http.response.body", "body": piece, "more_body": True})
    await exchange.send({"type": "http.response.body", "body": b""})


def _pieces(outlast: Outlast, asked: CallRequest) -> Iterator[bytes]:
    """All of it is checked before the first byte goes out."""
    found = outlast.displaced(asked.path["run_id"], path=asked.query.path, seq=asked.query.seq)
    return iter([found[-1].content()])


CONTENT = HttpCall(
    method="GET",
    path="/v1/runs/{run_id}/displaced/content",
    name="run_displaced_content",
    summary="The content of a file that gave way",
    role="read",
    serves=_content,
    query=DisplacedContentQuery,
    gives=bytes,
    answers=BYTES,
    errors=(*MISSING, DisplacedNotFound, IntegrityBroken),
)
CALLS = (
    HttpCall(
        method="GET",
        path="/v1/runs/{run_id}/outputs",
        name="run_outputs",
        summary="The files that finished steps left, and what is there now, at the server",
        role="read",
        does=_outputs,
        long=True,
        gives=Output,
        shows=jsonable,
        page=True,
        errors=(*MISSING, IntegrityBroken),
    ),
    HttpCall(
        method="POST",
        path="/v1/runs/{run_id}/outputs/restore",
        name="run_outputs_restore",
        summary="Put files of finished steps back from what was kept, at the server",
        role="write",
        body=RestoreOutputs,
        does=_restore,
        gives=RestoredOutputs,
        shows=jsonable,
        errors=(*MISSING, RunHeld, RunSealed, OutputNotFound, OutputNotKept, NotRestorable, IntegrityBroken),
        detail="What is missing is put back; a file that was changed only if it is in `paths`, and then what gives way "
        "is kept: `/displaced` lists it.",
        example={"step": "plan"},
    ),
    HttpCall(
        method="GET",
        path="/v1/runs/{run_id}/displaced",
        name="run_displaced",
        summary="What gave way when files were put back",
        role="read",
        does=_displaced,
        query=DisplacedQuery,
        gives=DisplacedFile,
        shows=displaced_json,
        page=True,
        errors=(*MISSING, DisplacedNotFound),
    ),
    CONTENT,
)
