"""MCP at `/mcp`: the same keys, roles, Host and Origin as every other path; then outlast.doors.mcp answers.

Without the extra `mcp` there is no such path, and who asks for it is told which extra is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from outlast.doors.http import bodies
from outlast.errors import MethodRefused

if TYPE_CHECKING:
    from outlast import Outcome, Outlast, RunRecord
    from outlast.doors.http.exchange import Exchange, Message
    from outlast.doors.http.identity import Identity
    from outlast.doors.http.state import ServerState
    from outlast.doors.mcp.http import Mounted
    from outlast.python.awaited import Started

PATH = "/mcp"
Receive = Callable[[], Awaitable["Message"]]


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
                mounted = await asyncio.to_thread(self._mount)
                begun = asyncio.Event()
                self._serving = asyncio.ensure_future(self._serve(mounted, begun))
                await begun.wait()
                self._mounted = mounted
        return self._mounted

    def _mount(self) -> Mounted:
        from outlast.doors.mcp.http import mount

        return mount(self._hold_of, self._allow)

    async def _serve(self, mounted: Mounted, begun: asyncio.Event) -> None:
        async with mounted.lifespan():
            begun.set()
            await self._ending.wait()

    async def __call__(self, scope: Message, receive: Receive, send: Callable[[Message], Awaitable[None]]) -> None:
        exchange: Exchange = scope["outlast"]
        exchange.route = PATH
        exchange.identity = self._state.enter(exchange.headers)
        exchange.leave = self._state.limits.begin_request(exchange.identity)
        if exchange.method != "POST":
            raise MethodRefused(exchange.method[:20], PATH, "POST")
        mounted = await self._served_by()
        raw = await exchange.whole_body()
        await exchange.in_thread(bodies.check_json, raw)
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

        def counted(*asked: Any) -> Started[Any]:
            end = self._state.limits.begin_run(identity)
            try:
                started = begin(*asked)
            except BaseException:
                end()
                raise
            started.when_done(end)
            return started

        fork = outlast.fork

        def refused_or_forked(run_id: str, from_step: str, **how: Any) -> RunRecord:
            if how.get("inputs"):  # which the flow's code checks
                self._state.flows.refuse_unserved(outlast, outlast.get(run_id))
            return fork(run_id, from_step, **how)

        outlast.fork = refused_or_forked  # type: ignore[method-assign]
        outlast.resume = refused_or_resumed  # type: ignore[method-assign]
        outlast._start = counted  # type: ignore[assignment, method-assign]
        outlast._flows = self._state.flows
        return outlast

    def _allow(self, scope: Message, role: Any, what: str) -> None:
        exchange: Exchange = scope["outlast"]
        assert exchange.identity is not None
        exchange.identity.refuse_without(role)
