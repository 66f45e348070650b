"""What went wrong, over HTTP: problem details (`application/problem+json`) and their status, in one table."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from outlast.errors import (
    BodyTooLarge,
    BodyTooSlow,
    Conflict,
    DiskFull,
    Forbidden,
    HeadersTooSlow,
    Internal,
    Invalid,
    MediaTypeRefused,
    MethodRefused,
    NotFound,
    OutlastError,
    Quota,
    RangeRefused,
    Refused,
    RequestMalformed,
    ServerBusy,
    TooManyRequests,
    TooManyRuns,
    Unauthenticated,
    Unavailable,
    WorkFailed,
)
from outlast.values.codec import encode

MEDIA_TYPE = "application/problem+json"

# The most special class that fits wins.
OF_ERRORS: dict[type[OutlastError], int] = {
    RequestMalformed: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    MethodRefused: 405,
    BodyTooSlow: 408,
    HeadersTooSlow: 408,
    BodyTooLarge: 413,
    MediaTypeRefused: 415,
    RangeRefused: 416,
    TooManyRequests: 429,
    TooManyRuns: 429,
    ServerBusy: 429,
    Internal: 500,
    DiskFull: 507,
    Quota: 507,
    NotFound: 404,
    Conflict: 409,
    Refused: 409,
    Invalid: 422,
    Unavailable: 503,
    WorkFailed: 409,
    OutlastError: 500,
}
CLOSES = (400, 408, 413)  # what was not read is not waited for, and what may be two requests is followed by none


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong. `code` is stable, and the same in Python, on the command line and over MCP."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    advice: str
    path: str | None
    facts: dict[str, Any]


def status_of(kind: type[OutlastError]) -> int:
    """The status of an error: that of its class, or of its family."""
    return next(OF_ERRORS[each] for each in kind.__mro__ if each in OF_ERRORS)


def problem_of(error: OutlastError) -> Problem:
    """An error as every client reads it; `facts` are all that is needed to make it again."""
    status, said = status_of(type(error)), error.to_dict()
    return Problem(
        type=f"urn:outlast:error:{error.code}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=said["code"],
        detail=said["detail"],
        advice=said["advice"],
        path=said["path"],
        facts={name: _plain(value) for name, value in error.facts.items()},
    )


def shown(error: OutlastError) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """The answer that tells of an error: status, body, headers of its own."""
    problem = problem_of(error)
    headers = []
    if isinstance(error, Unauthenticated):
        headers.append((b"www-authenticate", b'Bearer realm="outlast"'))
    if isinstance(error, MethodRefused):
        headers.append((b"allow", error.allowed.encode()))
    if problem.status in (429, 503):
        headers.append((b"retry-after", b"1"))
    if problem.status in CLOSES:
        headers.append((b"connection", b"close"))
    return problem.status, msgspec.json.encode(problem), headers


def _plain(value: Any) -> Any:
    try:
        return msgspec.json.decode(encode(value))
    except (TypeError, ValueError, NotImplementedError):
        return str(value)
