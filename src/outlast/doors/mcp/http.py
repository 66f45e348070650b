"""MCP over streamable HTTP: an ASGI app that a server answers `/mcp` with.

Stateless in both eras of the protocol: nothing is kept between requests, and nothing is ever sent on its own, so that
there is no stream to open with GET and no session to DELETE. Keys, Host and Origin are the server's, before this.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from outlast.doors.mcp import require
from outlast.doors.mcp.client import McpClient
from outlast.errors import OutlastError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from outlast.doors.mcp.gates import Stands
    from outlast.python.outlast import Outlast

HoldOf = Callable[[Any], "Outlast"]
Allow = Callable[[Any, str, str], None]
LOOPBACK = ("127.0.0.1:*", "localhost:*", "[::1]:*")
LARGEST_BODY = 4 * 1024 * 1024


def mount(hold_of: HoldOf, allow: Allow | None = None, hosts: Sequence[str] | None = None) -> Mounted:
    """An ASGI app for `/mcp`; enter its `lifespan()` in the server's own.

    `hold_of(scope)` gives the view of who made the request; `allow(scope, role, what)` raises what refuses it. Both are
    called in a thread. `hosts` turns on a check of Host and Origin; without it that is done before.
    Raises ExtraMissing.
    """
    require()
    return Mounted(hold_of, allow, hosts)


class Mounted:
    """The app. One of these serves for one lifespan."""

    def __init__(self, hold_of: HoldOf, allow: Allow | None, hosts: Sequence[str] | None) -> None:
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
