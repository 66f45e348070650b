"""The application: every operation at its path, behind one gate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from msgspec.structs import replace
from starlette.routing import BaseRoute, Route, Router

from outlast.doors.http import blobs, handlers, streams
from outlast.doors.http import calls as table
from outlast.doors.http import mcp as mcp_door
from outlast.doors.http.bodies import Gone
from outlast.doors.http.calls import OperationRoute, Page
from outlast.doors.http.exchange import Exchange, Headers, Message
from outlast.doors.http.handlers import HANDLERS
from outlast.doors.http.log import METRICS_TYPE
from outlast.doors.http.mcp import McpDoor
from outlast.doors.http.openapi import described_json
from outlast.doors.http.state import ServerSettings, ServerState
from outlast.errors import Internal, MethodRefused, OutlastError, RouteNotFound
from outlast.operations.operation import Operation
from outlast.operations.table import OPERATIONS
from outlast.values.ambient import Noticing

CALLS = tuple(OPERATIONS.values())
SERVES = blobs.SERVES | handlers.SERVES | streams.SERVES  # what takes the whole exchange, to stream


Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Serves = Callable[[Exchange], Awaitable[None]]
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
LEFT = 499  # nobody was there any more to be answered
OF_ITSELF = ("/healthz", "/readyz", "/metrics", "/openapi.json")
SPELT_ONCE = {mcp_door.PATH, *OF_ITSELF, *(call.path for call in CALLS if "{" not in call.path)}


Pages = Callable[[ServerState], Iterable[BaseRoute]]


def make_app(settings: ServerSettings, pages: Pages | None = None) -> Gate:
    """The server as an ASGI application; its `state` is what its requests share. `pages`: what else it shows."""
    state = ServerState(settings)

    door = McpDoor(state)

    @asynccontextmanager
    async def lifespan(_: Router) -> AsyncIterator[None]:
        async with door.lifespan():
            lasting = (state.key_watch.live(), state.workers.live(), state.notifiers.live(), state.relays.live())
            watching = [asyncio.ensure_future(work) for work in lasting]
            yield
            for each in watching:
                each.cancel()
            state.end_streams()
            await asyncio.to_thread(state.close)

    routes = [*_care(state), Route(mcp_door.PATH, door), *_endpoints(), *(pages(state) if pages else ())]
    return Gate(Router(routes, redirect_slashes=False, default=_nothing_there, lifespan=lifespan), state)


class Gate:
    """Lets requests in by where they come from; each is answered, logged and counted."""

    def __init__(self, app: Router, state: ServerState) -> None:
        self._app, self.state = app, state
        self._log = state.log
        self._fixed = {call.path: _endpoint(call.path) for call in CALLS if "{" not in call.path}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(self.state, scope, receive, send)
        scope["outlast"] = exchange
        self.state.key_watch.under_way.add(exchange)
        try:
            if exchange.admit():
                await exchange.answer_preflight()
            else:
                await self._inside(scope)(scope, receive, exchange.send)
        except OutlastError as error:
            await exchange.refuse(error)
        except Gone:
            exchange.status = exchange.status or LEFT
        except asyncio.CancelledError:
            if exchange.ended is None:
                raise
            await exchange.refuse(exchange.ended)
        except Exception as error:
            self._log.failed(error, request_id=exchange.id, method=exchange.method, route=exchange.route)
            await exchange.refuse(Internal(exchange.id))
        finally:
            exchange.leave()
            self.state.key_watch.under_way.discard(exchange)
            self._tell(exchange)

    def _inside(self, scope: Message) -> Any:
        """What answers a path; one without parameters needs no router. Raises RouteNotFound.

        Such a path has one spelling: what a proxy lets by or not by its path is the same path here.
        """
        path = scope["path"]
        if path in SPELT_ONCE and scope["raw_path"] != path.encode():
            raise RouteNotFound(path[:200])
        return self._fixed.get(path, self._app)

    def _tell(self, exchange: Exchange) -> None:
        seconds, who = time.perf_counter() - exchange.began, exchange.identity
        method = exchange.method if exchange.method in METHODS else "other"  # labels are bounded
        self.state.metrics.answered(method, exchange.route, exchange.status, seconds)
        self._log.line(
            "info",
            request_id=exchange.id,
            method=exchange.method[:20],
            route=exchange.route,
            status=exchange.status,
            ms=round(seconds * 1000, 3),
            tenant=who.tenant if who else "",
            actor=who.actor if who else "",
            key=who.key.id if who and who.key else "",
            run_id=exchange.path.get("run_id", "")[:64],
        )


class Endpoint:
    """A path, and what serves it by method."""

    def __init__(self, route: str, serves: dict[str, Serves]) -> None:
        self._route, self._serves = route, serves

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope["outlast"]
        exchange.route, exchange.path = self._route, scope.get("path_params", {})
        method = "GET" if exchange.method == "HEAD" else exchange.method
        serves = self._serves.get(method)
        if serves is None:
            raise MethodRefused(exchange.method[:20], self._route, ", ".join(sorted(self._serves)))
        await serves(exchange)


async def _answer(call: Operation, exchange: Exchange) -> None:
    query = exchange.enter(call)
    raw = await exchange.body(call)
    if call.long:
        status, body, more = await exchange.in_long(_perform, exchange, call, query, raw)
    else:
        request = await exchange.asked(call, query, raw) if callable(call.role) else None
        writes = call.role_of(request) != "read"  # what only reads waits for no disk
        status, body, more = await exchange.in_thread(_perform, exchange, call, query, raw, request, writes=writes)
    await exchange.answer(status, body, more=more)


def _perform(
    exchange: Exchange, call: Operation, query: Any, raw: bytes, request: Any = None
) -> tuple[int, bytes, Headers]:
    """Decode, if that was not done yet; make the one call; encode: in a worker thread."""
    outlast, asked = exchange.opened(call, query, raw) if request is None else exchange.opened_for(call, request)
    exchange.state.quota.admit(exchange.identity, outlast, call.name, len(raw))
    with Noticing() as damaged:
        value = table.done(HANDLERS.get(call.name, table.by_name), outlast, asked)
    more = [(b"idempotency-replayed", b"true")] if getattr(value, "replayed", False) else []
    if damaged:
        more.append((b"outlast-damaged", table.in_header(damaged)))
        value = replace(value, damaged=tuple(damaged)) if isinstance(value, Page) else value
    return call.status, table.told(value), more


def _endpoints() -> list[OperationRoute]:
    return [OperationRoute(path, _endpoint(path)) for path in dict.fromkeys(call.path for call in CALLS)]


def _endpoint(path: str) -> Endpoint:
    of_path = (call for call in CALLS if call.path == path)
    return Endpoint(path, {call.method: SERVES.get(call.name) or partial(_answer, call) for call in of_path})


async def _nothing_there(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
        return
    raise RouteNotFound(str(scope["path"])[:200])


# -- care --------------------------------------------------------------------------------------------


def _care(state: ServerState) -> list[Route]:
    """What is asked about the server itself: whether it lives, serves, and what it counts and can do."""

    async def healthz(exchange: Exchange) -> None:
        await exchange.answer(200, b'{"status":"alive"}')

    async def readyz(exchange: Exchange) -> None:
        await exchange.in_thread(state.check_ready, writes=True)
        await exchange.answer(200, b'{"status":"ready"}')

    async def numbers(exchange: Exchange) -> None:
        await exchange.answer(200, state.metrics.text(), METRICS_TYPE.encode())

    async def openapi(exchange: Exchange) -> None:
        await exchange.answer(200, await exchange.in_thread(described_json))

    serving = zip(OF_ITSELF, (healthz, readyz, numbers, openapi), strict=True)
    return [Route(path, Endpoint(path, {"GET": serves})) for path, serves in serving]
