"""MCP over HTTP on a port of its own, for tools of others: `python serve.py HOME PORT`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from outlast import Outlast
from outlast.doors.mcp.http import LOOPBACK, mount


def main(home: str, port: int) -> None:
    """Serve the home until a signal comes."""
    with Outlast(home, actor="conformance") as outlast:
        door = mount(lambda scope: outlast, hosts=LOOPBACK)

        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            async with door.lifespan():
                yield

        app = Starlette(routes=[Route("/mcp", door)], lifespan=lifespan)
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
