"""One request and its answer: what was sent, who sent it, and how it is answered, also where something went wrong."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from outlast.doors.http import bodies, identity
from outlast.doors.http.bodies import Gone
from outlast.doors.http.calls import CallRequest
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
    RequestInvalid,
    RequestMalformed,
    ServerBusy,
    TooManyRequests,
    TooManyRuns,
    Unauthenticated,
    Unavailable,
    WorkFailed,
)
from outlast.ids import random_id
from outlast.operations.observed import observer_in
from outlast.operations.operation import Gated, Operation
from outlast.values.codec import encode

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.identity import Identity, Origin
    from outlast.doors.http.state import ServerState

T = TypeVar("T")
Message = MutableMapping[str, Any]
Headers = list[tuple[bytes, bytes]]
JSON = b"application/json"
SECURITY: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_OF_SECURITY = frozenset(name for name, _ in SECURITY)
SHARED: Headers = [  # with pages of an origin that was allowed
    (b"vary", b"Origin"),
    (b"access-control-expose-headers", b"X-Request-Id, Idempotency-Replayed, ETag, Content-Range, Outlast-Ref"),
]
PREFLIGHT: Headers = [
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, DELETE"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Accept, Idempotency-Key, Last-Event-ID, Range, If-None-Match, If-Range, "
        b"X-Request-Id, Outlast-Tenant, Outlast-Actor, Outlast-Scope, Outlast-Claims, MCP-Protocol-Version, Mcp-Method",
    ),
    (b"access-control-max-age", b"600"),
]
COOKIE = "outlast_session"  # of who signed in on a page of the console
CONSOLE = "console"  # what its token is for
STREAMS = "streams"  # what a token of `stream_token` is for
READ_AT_ONCE = 16 << 10  # bytes of a body that the loop reads itself
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


def cookies_of(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """The cookies of a request; one that is no cookie is left out."""
    parts = headers.get(b"cookie", b"").decode("latin-1").split(";")
    pairs = (part.strip().partition("=") for part in parts)
    return {name: value.strip('"') for name, mark, value in pairs if mark}


class Exchange:
    """A request under way."""

    def __init__(
        self,
        state: ServerState,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        self.state, self.scope, self._receive, self._send = state, scope, receive, send
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.method: str = scope["method"]
        self.route = "-"  # its template, once it is known
        self.path: dict[str, str] = {}
        self.identity: Identity | None = None
        self.leave: Callable[[], None] = lambda: None  # ends its part among the requests of its key
        self.is_stream = False  # its answer has no end of its own
        self.is_waiting = False  # for something that may take long, on purpose
        self.origin: Origin | None = None  # another one, whose pages may read the answer
        self.ended: OutlastError | None = None  # why it may not go on, since its key is over
        self.on_end: Callable[[], object] | None = None  # of a stream that says goodbye by itself
        self._task = asyncio.current_task()
        self.began = time.perf_counter()
        self.status = 0  # of the answer, once it has begun
        given = self.headers.get(b"x-request-id", b"")
        self.id = given.decode() if _REQUEST_ID.fullmatch(given) else random_id()

    def header(self, name: str) -> str | None:
        """A header's text; None when it was not sent."""
        found = self.headers.get(name.encode())
        return None if found is None else found.decode("latin-1")

    @property
    def came_from(self) -> str:
        """The address that the request came from: behind a proxy, the proxy's."""
        client = self.scope.get("client")
        return str(client[0]) if client and client[0] else "a socket"

    def text(self, name: str) -> str | None:
        """A header of ours, in UTF-8. Raises RequestInvalid."""
        found = self.headers.get(name.encode())
        try:
            return None if found is None else found.decode()
        except UnicodeDecodeError:
            raise RequestInvalid(name, "it is not UTF-8") from None

    def end_for(self, error: OutlastError) -> None:
        """Its key is over: a stream says so, what is being sent is cut off, what waits or still arrives is refused."""
        self.ended = error
        if self.on_end is not None:
            self.on_end()
        elif (self.status or self.is_waiting) and self._task is not None:
            self._task.cancel()

    async def receive(self) -> Message:
        """What comes next of the request. Raises Unauthenticated when its key is over."""
        if self.ended is not None:
            raise self.ended
        return await self._receive()

    # -- what is asked ---------------------------------------------------------------------------

    def admit(self) -> bool:
        """Look at where it comes from; whether it is a browser's question if it may be sent at all.

        Raises RequestMalformed, Forbidden.
        """
        if "outlast.plain" not in self.scope.get("extensions", ()):  # such a one is as it must be
            identity.check_framing(self.scope)
        identity.check_path(self.scope["raw_path"])
        site = self.header("sec-fetch-site")
        self.origin = self.state.places.check(self.method, self.header("host"), self.header("origin"), site)
        asks = self.method == "OPTIONS" and b"access-control-request-method" in self.headers
        return asks and self.origin is not None

    def enter(self, call: Operation) -> Any:
        """Let who asks in, as far as can be said before the body is read; gives the query.

        Raises Unauthenticated, TooManyRequests, Forbidden, RequestInvalid.
        """
        self.identity, query = self._entered(self.scope["query_string"])
        self.leave = self.state.limits.begin_request(self.identity, stream=self.is_stream)
        if not callable(call.role):
            self.identity.refuse_without(call.role)
        elif isinstance(call.role, Gated):
            self.identity.refuse_without(call.role.otherwise, "approve")
        return bodies.query_of(query, call.query)

    def cookie_identity(self) -> Identity | None:
        """Who signed in on a page of the console; None when nobody did, or that is over."""
        token = cookies_of(self.headers).get(COOKIE)
        if not token:
            return None
        try:
            return self.state.door.of_token(token, CONSOLE)
        except Unauthenticated:
            return None

    def _entered(self, query: bytes) -> tuple[Identity, bytes]:
        """Who asks, and the query without a token for streams: one who can send no header has that.

        A cookie of the console lets in who only looks: what is changed needs a key, or a form of the console itself.
        """
        if self.identity is not None:
            return self.identity, query
        if b"cookie" in self.headers and b"authorization" not in self.headers and self.method in identity.READS:
            found = self.cookie_identity()
            if found is not None:
                return found, query
        if not self.is_stream or b"token=" not in query or b"authorization" in self.headers:
            return self.state.enter(self.headers), query
        parts = query.split(b"&")
        token = next((part[6:] for part in parts if part.startswith(b"token=")), b"")
        rest = b"&".join(part for part in parts if not part.startswith(b"token="))
        if not token:
            return self.state.enter(self.headers), rest
        return self.state.door.of_token(token.decode("latin-1"), STREAMS, ("read",)), rest

    async def body(self, call: Operation) -> bytes:
        """The whole body of a call that takes one. Raises MediaTypeRefused, BodyTooLarge, BodyTooSlow."""
        if call.body is None:
            return b""
        return await self.whole_body(call.takes)

    async def whole_body(self, takes: str = bodies.JSON) -> bytes:
        """The body, of a type that says what it is. Raises MediaTypeRefused, BodyTooLarge, BodyTooSlow."""
        kind, encoding = self.header("content-type"), self.header("content-encoding")
        bodies.check_type(kind, encoding, takes, is_empty=self.is_empty)
        settings = self.state.settings
        return await bodies.read(self.receive, self.length, settings.body_bytes, settings.body_seconds)

    @property
    def is_empty(self) -> bool:
        """Whether nothing follows the headers."""
        return not self.length and b"transfer-encoding" not in self.headers

    @property
    def length(self) -> int | None:
        """What the request says of its body's size; nothing when it comes in pieces."""
        found = self.headers.get(b"content-length", b"")
        return int(found) if found.isdigit() else None

    def opened(self, call: Operation, query: Any, raw: bytes = b"") -> tuple[Outlast, CallRequest]:
        """The home for who asks, and what is asked: for a worker thread, since it may open a store."""
        return self.opened_for(call, self._decoded(call, query, raw))

    async def asked(self, call: Operation, query: Any, raw: bytes) -> Any:
        """What is asked, before it is known who does it: what is small is read at once."""
        if len(raw) <= READ_AT_ONCE:
            return self._decoded(call, query, raw)
        return await self.in_thread(self._decoded, call, query, raw)

    def _decoded(self, call: Operation, query: Any, raw: bytes) -> Any:
        body = bodies.decode(raw, call.body) if call.body is not None else None
        return call.made(self.path, query, body)

    def opened_for(self, call: Operation, request: Any) -> tuple[Outlast, CallRequest]:
        """The same for a request that was read already."""
        assert self.identity is not None
        self.identity.refuse_without(call.role_of(request))
        tenant = request.tenant_id or self.text("outlast-tenant")
        actor = request.actor or self.text("outlast-actor")
        scope = self.text("outlast-scope") if request.scope is None else request.scope
        observer, shown = observer_in(request), (self.text("outlast-claims") or "").split()
        claims = shown if self.identity.may("write") else []  # beside the one it is about: using one is no reading
        outlast = self.state.hold_for(self.identity, tenant, actor, scope, observer, claims, came_from=self.came_from)
        return outlast, CallRequest(self.state, self.identity, call, request, self._operation(request))

    def _operation(self, request: Any) -> str | None:
        """The id that makes a repeat harmless: of the header or the request. Raises RequestInvalid when both differ."""
        header, field = self.text("idempotency-key"), getattr(request, "operation_id", None)
        if header is not None and field is not None and header != field:
            raise RequestInvalid("operation_id", "it is another one than the header Idempotency-Key has")
        return header if field is None else field

    # -- what is answered ------------------------------------------------------------------------

    async def send(self, *messages: Message) -> None:
        """Send parts of the answer; the first one carries the headers that all answers have."""
        try:
            await bodies.within(self.state.settings.send_seconds, self._send_all(messages))
        except TimeoutError:
            raise Gone from None  # who takes nothing of an answer for so long is not waited for

    async def _send_all(self, messages: Iterable[Message]) -> None:
        for message in messages:
            await self._send(self._begun(message) if message["type"] == "http.response.start" else message)

    def _begun(self, message: Message) -> Message:
        self.status = message["status"]
        headers = list(message.get("headers", ()))
        own = {name for name, _ in headers} & _OF_SECURITY
        headers += [pair for pair in SECURITY if pair[0] not in own] if own else SECURITY
        headers.append((b"x-request-id", self.id.encode()))
        if self.origin is not None:
            headers += [(b"access-control-allow-origin", str(self.origin).encode()), *SHARED]
        return {"type": "http.response.start", "status": self.status, "headers": headers}

    async def answer(self, status: int, body: bytes, media_type: bytes = JSON, more: Iterable[Any] = ()) -> None:
        """The whole answer at once."""
        headers = [(b"content-type", media_type), (b"content-length", b"%d" % len(body)), *more]
        start = {"type": "http.response.start", "status": status, "headers": headers}
        answer_at_once = getattr(getattr(self._send, "__self__", None), "answer_at_once", None)
        if answer_at_once is not None and not self.status and answer_at_once(self._begun(start), body):
            return
        await self.send(start, {"type": "http.response.body", "body": body})

    async def answer_preflight(self) -> None:
        """What pages of another origin may send: asked by their browser beforehand."""
        await self.send({"type": "http.response.start", "status": 204, "headers": PREFLIGHT})
        await self.send({"type": "http.response.body", "body": b""})

    async def refuse(self, error: OutlastError) -> None:
        """Tell what went wrong, if nothing was answered yet."""
        if not self.status:
            status, body, more = shown_problem(error)
            await self.answer(status, body, MEDIA_TYPE.encode(), more)

    @property
    def who(self) -> str:
        """The id of the key that asks; empty without one."""
        return self.identity.key.id if self.identity and self.identity.key else ""

    async def in_long(self, work: Callable[..., T], *args: Any) -> T:
        """A long look, in threads where nobody else waits for it. Raises ServerBusy."""
        return await self.state.threads.looks(partial(work, *args), self.who)

    async def in_thread(self, work: Callable[..., T], *args: Any, writes: bool = False) -> T:
        return await self.state.in_thread(partial(work, *args), writes=writes, who=self.who)


# -- what went wrong ---------------------------------------------------------------------------------

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


def shown_problem(error: OutlastError) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
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
