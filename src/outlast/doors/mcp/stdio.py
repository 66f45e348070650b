"""MCP over stdin and stdout: one line is one message, and nothing else is ever written to stdout.

While it serves, descriptor 0 leads nowhere and descriptor 1 to stderr: what flows, checks and libraries print or read
cannot touch the protocol. A line that is no message is answered, not dropped. At the end of input the calls under way
are answered, then runs are asked to stop at their next step; a signal ends them at once. Both can be resumed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from outlast.doors.mcp.client import McpClient, Sessions
from outlast.doors.mcp.gates import Stands, elicits
from outlast.doors.mcp.server import make_server
from outlast.errors import EmbeddedOnly
from outlast.python import rooms
from outlast.python.project import Project
from outlast.values import codec
from outlast.values.text import visible

if TYPE_CHECKING:
    from outlast.python.outlast import Outlast

GRACE_SECONDS = 2.0  # for calls under way when the input ends: clients wait about as long before they use force
LAST_SECONDS = 6.0  # after a signal; what has not stopped by then is left behind, and can be resumed
BROKEN_PIPE = 141
MAKING = (  # a home, where there is none
    *("run_start", "handoff_store", "task_pause", "workspace_save", "workspace_record", "checkpoint_record"),
    *("session_append", "signal_send"),
)
PIECE = 1 << 16
MAX_DEPTH = 250  # as deep as a body over HTTP


class ConnectionHome:
    """The home of one connection, opened by the first call that needs it, made by the first that stores something."""

    def __init__(self, open_: Callable[[bool], Outlast], *, approves: bool = False) -> None:
        self._open, self._lock = open_, threading.Lock()
        self.approves = approves
        self._outlast: Outlast | None = None
        self._project: Project | None = None
        self._sessions: Sessions = {}

    def client(self, request: Any, role: str, what: str) -> McpClient:
        """The client of whoever is at the other end; there is one, and all roles are theirs but what gates keep."""
        with self._lock:
            if self._outlast is None:
                self._outlast = self._open(what in MAKING)
                self._outlast.listen(None, lambda line: print(visible(line), file=sys.stderr, flush=True))
                self._project = _project_of(self._outlast)
        return McpClient(self._outlast, self._sessions, self._project, self.approves)

    def gate(self, ctx: Any) -> Stands:
        """Whether the model may decide in a person's place, or the person at its client can be asked."""
        if self.approves:
            return "open"
        return "ask" if elicits(ctx.session.client_capabilities) else "shut"

    def stop(self, *, now: bool = False, by: Literal["shutdown", "person"] = "shutdown") -> None:
        """Ask the runs of this process to stop."""
        if self._outlast is not None:
            self._outlast.stop(now=now, by=by)

    def close(self) -> None:
        if self._outlast is not None:
            self._outlast.close()


def _project_of(outlast: Outlast) -> Project:
    """The project that this process was started in. A server's home is no folder here."""
    try:
        return Project(outlast.home)
    except EmbeddedOnly:
        return Project()


def serve(open_: Callable[[bool], Outlast], *, approves: bool = False) -> int:
    """Serve until the input ends (0), a signal comes (130, 143) or nobody reads (141): the exit code.

    `approves`: the model may answer, skip, accept and the like; else a person is asked, or it is refused.
    """
    with _streams() as (wire_in, wire_out):
        return asyncio.run(_serve(ConnectionHome(open_, approves=approves), wire_in, wire_out))


async def _serve(home: ConnectionHome, wire_in: int, wire_out: int) -> int:
    server = make_server(home.client, home.gate, files=True)
    ended = StopRequest(home)
    wire = Wire(wire_in, wire_out, ended)
    with ended.heard():
        serving = asyncio.ensure_future(_talk(server, wire))
        await asyncio.wait({serving, ended.waiter()}, return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        await asyncio.wait({serving})
        await ended.close()
    if not serving.cancelled() and (error := serving.exception()) is not None:
        raise error
    return ended.code


async def _talk(server: Any, wire: Wire) -> None:
    async with wire.streams() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class StopRequest:
    """Whether somebody asked this process to end, and how."""

    def __init__(self, home: ConnectionHome) -> None:
        self.home, self.code = home, 0
        self._asked = asyncio.Event()

    def waiter(self) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._asked.wait())

    def heard(self) -> Any:
        """Signals are heard until the end: one that comes while runs are stopping ends them at once."""
        loop, stack = asyncio.get_running_loop(), ExitStack()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._hear, number)
            stack.callback(loop.remove_signal_handler, number)
        return stack

    def _hear(self, number: int) -> None:
        self.code = 128 + number
        self.home.stop(now=number != signal.SIGHUP, by="person" if number == signal.SIGINT else "shutdown")
        self._asked.set()

    def nothing_left(self) -> None:
        """There is no more input, and nobody waits for an answer any more: runs that still go on are asked to stop."""
        self.home.stop()

    def reader_gone(self) -> None:
        self.code = self.code or BROKEN_PIPE
        self.home.stop()
        self._asked.set()

    async def close(self) -> None:
        """Close the home, which gives runs time to stop; once a signal has come, only a little."""
        closing = asyncio.ensure_future(rooms.call_async.in_thread(self.home.close))
        if self.code in (0, BROKEN_PIPE, 128 + signal.SIGHUP):
            self._asked.clear()
            await asyncio.wait({closing, self.waiter()}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({closing}, timeout=LAST_SECONDS)


class Wire:
    """The two pipes as streams of messages."""

    def __init__(self, wire_in: int, wire_out: int, ended: StopRequest) -> None:
        self.wire_in, self.wire_out, self.ended = wire_in, wire_out, ended
        self._open: set[str | int] = set()  # requests that were not answered yet
        self._over = False  # there is no more input
        self._answered = asyncio.Event()
        self._writing = asyncio.Lock()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """What a server reads from and writes to."""
        incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, incoming)
            tasks.start_soon(self._write, to_send)
            yield received, outgoing
            tasks.cancel_scope.cancel()

    async def _read(self, incoming: Any) -> None:
        async with incoming:
            async for line in _lines(self.wire_in):
                if line.strip():
                    await self._take(line, incoming)
            self._over = True
            if not self._open:
                self.ended.nothing_left()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_answered(), GRACE_SECONDS)

    async def _take(self, line: bytes, incoming: Any) -> None:
        try:
            codec.check_strict(line, MAX_DEPTH)
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            # a request whose id is none would pass for a notification, and never be answered
            if isinstance(message, types.JSONRPCNotification) and "id" in json.loads(line):
                raise ValueError("its id is neither a text nor a whole number")
        except ValueError as error:
            await self._refuse(line, error)
            return
        if isinstance(message, types.JSONRPCRequest):
            self._open.add(message.id)
        await incoming.send(SessionMessage(message))

    async def _refuse(self, line: bytes, error: ValueError) -> None:
        """Say that a line is no message, with the id if it has one: whoever sent it may be waiting."""
        known: Any = None
        code, says = types.PARSE_ERROR, "the line is no JSON in UTF-8"
        with suppress(ValueError, RecursionError):
            known = json.loads(line)
            code, says = types.INVALID_REQUEST, "the line is no JSON-RPC message"
        if isinstance(error, codec.NotStrict) and known is not None:
            code, says = types.PARSE_ERROR, f"the line is refused: {error}"
        name = known.get("id") if isinstance(known, dict) else None
        name = None if isinstance(name, bool) else name
        print(f"outlast mcp: {says} ({len(line):,} bytes): {type(error).__name__}", file=sys.stderr, flush=True)
        answer = {"jsonrpc": "2.0", "id": name if isinstance(name, str | int) else None}
        await self._put(json.dumps(answer | {"error": {"code": code, "message": says}}).encode())

    async def _all_answered(self) -> None:
        while self._open:
            self._answered.clear()
            await self._answered.wait()

    async def _write(self, to_send: Any) -> None:
        async with to_send:
            async for each in to_send:
                message = each.message
                if self._over and self._open <= {getattr(message, "id", None)}:
                    self.ended.nothing_left()  # before the last one is told: a run may begin no further step then
                await self._put(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                    self._open.discard(message.id)
                    self._answered.set()

    async def _put(self, raw: bytes) -> None:
        """One line, whole, however slowly it is read. A reader that is gone ends the serving like the end of input."""
        async with self._writing:
            try:
                await rooms.call_async.in_thread(lambda: _write_all(self.wire_out, raw + b"\n"))
            except OSError:
                self.ended.reader_gone()


# -- descriptors ---------------------------------------------------------------------------------------


@contextmanager
def _streams() -> Iterator[tuple[int, int]]:
    """The protocol's own descriptors, while 0 leads nowhere and 1 to stderr; put back afterwards."""
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    try:
        yield kept
    finally:
        sys.stdout.flush()
        for number, own in enumerate(kept):
            os.dup2(own, number)  # the copies stay open: a thread may still be reading


async def _lines(number: int) -> AsyncIterator[bytes]:
    """Lines as they come. The thread that reads is left behind at the end: nothing else can wake it."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue(maxsize=16)

    def read() -> None:
        with suppress(RuntimeError, OSError):  # the loop is closed, or the pipe
            piece = b"-"
            while piece:
                piece = os.read(number, PIECE)
                asyncio.run_coroutine_threadsafe(pieces.put(piece), loop).result()
            return
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(pieces.put(b""), loop)

    threading.Thread(target=read, name="outlast-mcp-stdin", daemon=True).start()
    rest: list[bytes] = []
    while piece := await pieces.get():
        *whole, last = piece.split(b"\n")
        for line in whole:
            rest.append(line)
            yield b"".join(rest)
            rest = []
        rest.append(last)
    if last := b"".join(rest):
        yield last


def _write_all(number: int, raw: bytes) -> None:
    left = memoryview(raw)
    while left:
        left = left[os.write(number, left) :]
