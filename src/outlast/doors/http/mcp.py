"""MCP at `/mcp`: the same keys, roles, Host and Origin as every other path; then outlast.doors.mcp answers.

Without the extra `mcp` there is no such path, and who asks for it is told which extra is missing.

It is streamable HTTP, stateless in both eras of the protocol: nothing is kept between requests, and nothing is ever
sent on its own, so that there is no stream to open with GET and no session to DELETE.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from outlast.doors.http import bodies
from outlast.doors.mcp import require
from outlast.doors.mcp.client import McpClient
from outlast.errors import MethodRefused, OutlastError

if TYPE_CHECKING:
    from outlast import Outcome, Outlast, RunRecord
    from outlast.doors.http.exchange import Exchange, Message
    from outlast.doors.http.identity import Identity
    from outlast.doors.http.state import ServerState
    from outlast.doors.mcp.gates import Stands
    from outlast.python.awaited import Started
    from outlast.python.outlast import FlowCall

PATH = "/mcp"
Receive = Callable[[], Awaitable["Message"]]
Send = Callable[["Message"], Awaitable[None]]
HoldOf = Callable[[Any], "Outlast"]
Allow = Callable[[Any, str, str], None]
LOOPBACK = ("127.0.0.1:*", "localhost:*", "[::1]:*")
LARGEST_BODY = 4 * 1024 * 1024


def _again(raw: bytes, receive: Receive) -> Receive:
    """A body that was read, to be read again; then whatever comes next."""
    left: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]

    async def following() -> Message:
        return left.pop() if left else await receive()

    return following


class McpDoor:
    """The path, as an ASGI application."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._mounted: Mounted | None = None
        self._mounting, self._ending = asyncio.Lock(), asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """While this is entered, MCP is served: from the first request for it on, since it loads much."""
        yield
        self._ending.set()
        if self._serving is not None:
            await self._serving

    async def _served_by(self) -> Mounted:
        """What answers; it is made by who asks first. Raises ExtraMissing."""
        async with self._mounting:
            if self._mounted is None:
                mounted = await asyncio.to_thread(Mounted, self._hold_of, self._allow)
                begun = asyncio.Event()
                self._serving = asyncio.ensure_future(self._serve(mounted, begun))
                await begun.wait()
                self._mounted = mounted
        return self._mounted

    async def _serve(self, mounted: Mounted, begun: asyncio.Event) -> None:
        async with mounted.lifespan():
            begun.set()
            await self._ending.wait()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope["outlast"]
        exchange.route = PATH
        exchange.identity = self._state.enter(exchange.headers)
        exchange.leave = self._state.limits.begin_request(exchange.identity)
        if exchange.method != "POST":
            raise MethodRefused(exchange.method[:20], PATH, "POST")
        mounted = await self._served_by()
        raw = await exchange.whole_body()
        await exchange.in_thread(bodies.read_json, raw)
        await mounted(scope, _again(raw, receive), send)

    def _hold_of(self, scope: Message) -> Outlast:
        exchange: Exchange = scope["outlast"]
        assert exchange.identity is not None
        tenant, actor, scope_named = (exchange.text(f"outlast-{name}") for name in ("tenant", "actor", "scope"))
        asks = exchange.identity
        held = self._state.hold_for(asks, tenant, actor, scope_named, came_from=exchange.came_from, door="mcp")
        return self._served(held, asks)

    def _served(self, outlast: Outlast, identity: Identity) -> Outlast:
        """The same, which goes on only with runs of flows that the server was given, and counts them."""
        resume = outlast.resume

        def refused_or_resumed(run_id: str, **how: Any) -> Outcome[Any]:
            self._state.flows.refuse_unserved(outlast, outlast.get(run_id), how.get("flow"))
            end = self._state.limits.begin_run(identity)
            try:
                return resume(run_id, **how)
            finally:
                end()

        begin = outlast._acting()._start  # a run of the server looks at the server's own files

        def counted(call: FlowCall) -> Started[Any]:
            return self._state.limits.counted(identity, lambda: begin(call))

        fork = outlast.fork

        def refused_or_forked(run_id: str, from_step: str, **how: Any) -> RunRecord:
            if how.get("inputs"):  # which the flow's code checks
                self._state.flows.refuse_unserved(outlast, outlast.get(run_id))
            return fork(run_id, from_step, **how)

        outlast.fork = refused_or_forked  # type: ignore[method-assign]
        outlast.resume = refused_or_resumed  # type: ignore[method-assign]
        outlast._start = counted  # type: ignore[method-assign]
        outlast._flows = self._state.flows
        return outlast

    def _allow(self, scope: Message, role: Any, what: str) -> None:
        exchange: Exchange = scope["outlast"]
        assert exchange.identity is not None
        exchange.identity.refuse_without(role)


# -- the protocol: what answers the path, behind all that is the server's own ------------------------------


class Mounted:
    """An ASGI app for `/mcp`; enter its `lifespan()` in the server's own. One of these serves for one lifespan.

    `hold_of(scope)` gives the view of who made the request; `allow(scope, role, what)` raises what refuses it. Both are
    called in a thread. `hosts` turns on a check of Host and Origin; without it that is done before.
    Raises ExtraMissing.
    """

    def __init__(self, hold_of: HoldOf, allow: Allow | None = None, hosts: Sequence[str] | None = None) -> None:
        require()
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from outlast.doors.mcp.server import make_server

        self.hold_of, self.allow, self.ready = hold_of, allow, False
        self._manager = StreamableHTTPSessionManager(
            make_server(self._client, self._gate, files=False),
            stateless=True,
            security_settings=_security(hosts),
            max_request_body_size=LARGEST_BODY,
        )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """While this is entered, requests are served."""
        async with self._manager.run():
            self.ready = True
            try:
                yield
            finally:
                self.ready = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            raise RuntimeError(f"/mcp serves http, not {scope['type']}")
        if scope["method"] != "POST":
            told = PlainTextResponse("MCP is served by POST here", 405, {"Allow": "POST"})
            await told(scope, receive, send)
        elif not self.ready:
            await PlainTextResponse("MCP is not being served", 503)(scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)

    def _client(self, request: Any, role: str, what: str) -> McpClient:
        if self.allow is not None:
            self.allow(request.scope, role, what)
        approves = role == "approve" or self._may_approve(request, what)
        return McpClient(self.hold_of(request.scope), approves=approves)

    def _may_approve(self, request: Any, what: str) -> bool:
        try:
            if self.allow is not None:
                self.allow(request.scope, "approve", what)
        except OutlastError:
            return False
        return True

    def _gate(self, ctx: Any) -> Stands:
        """The role of the key decides: nobody is asked."""
        return "open" if self._may_approve(ctx.request, "tools") else "shut"


def _security(hosts: Sequence[str] | None) -> Any:
    from mcp.server.transport_security import TransportSecuritySettings

    origins = [f"{scheme}://{host}" for host in hosts or () for scheme in ("http", "https")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=hosts is not None, allowed_hosts=list(hosts or ()), allowed_origins=origins
    )
