"""The events of a run of a server as they come: taken up again where the line broke off, none lost and none doubled.

Files that gave way at a server: what is known of them, and the way to their content.

Transcripts of a server's runs, read piece by piece.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from outlast.commands.logs import CommandLog
from outlast.errors import IntegrityBroken, ReplyInvalid, ServerUnreachable
from outlast.operations.table import OPERATIONS
from outlast.remote.calls import reading, value_of
from outlast.remote.line import Broken, error_of, in_path
from outlast.runs.home_events import HomeEvent
from outlast.runs.look import Displaced
from outlast.runs.receipt import Event
from outlast.values.codec import decode, digest

if TYPE_CHECKING:
    from outlast.remote.line import Line


T = TypeVar("T")
E = TypeVar("E", Event, HomeEvent)
STREAM = "text/event-stream"
EVENT_BYTES = 16 << 20


class _Said(NamedTuple):
    name: str
    data: bytes


class _Over(Exception):
    """Nobody runs the run any more."""


class _Following(Generic[E]):
    """How far somebody has come in the events of a run, or of all."""

    def __init__(self, line: Line, path: str, after: int, kind: type[E], query: dict[str, Any] | None = None) -> None:
        self.line, self._last = line, after
        self._kind: type[E] = kind
        self.path, self.query = path, query or {}
        self._began, self._tries = time.monotonic(), 0

    @property
    def headers(self) -> dict[str, str]:
        return {"accept": STREAM, "last-event-id": str(self._last)}

    def taken(self, said: _Said) -> E | None:
        """The event, unless it was seen before. Raises _Over, Broken, and what the server says went wrong."""
        if said.name == "problem":
            raise error_of(_word(said.data, "status", 500), said.data, self.line.url)
        if said.name == "end":
            raise _Over if _word(said.data, "why", "") == "run" else Broken("the server stops")
        event: E = value_of(said.data, self._kind)
        number = event.number if isinstance(event, HomeEvent) else event.seq
        if number <= self._last:  # it keeps nobody waiting who was told it before
            return None
        self._began, self._tries = time.monotonic(), 0
        self._last = number
        return event

    def pause(self, broken: Broken) -> float:
        """How long to wait before it is taken up again. Raises ServerUnreachable when nothing came for too long."""
        self._tries += 1
        return self.line.pause(self._began, self._tries, broken.error, broken.why)


@reading()
def _word(data: bytes, name: str, usual: T) -> T:
    """One of the words of the stream itself, of the kind of the usual one."""
    return msgspec.convert(decode(data).get(name, usual), type(usual))


class _Parser:
    """Server-sent events: fields until an empty line; a comment only says that somebody is there."""

    def __init__(self, most_bytes: int) -> None:
        self._fields: dict[str, Any] = {}
        self._begun, self._size, self._most_bytes = b"", 0, min(most_bytes, EVENT_BYTES)

    def feed(self, piece: bytes) -> Iterator[_Said]:
        """The events that are whole now. Raises ReplyInvalid for one without an end."""
        *lines, self._begun = (self._begun + piece).split(b"\n")
        for line in lines:
            self._count(0 if line.startswith(b":") else len(line))
            with reading():
                said = self._read(line.removesuffix(b"\r").decode())
            if not line.strip():
                self._size = 0
            if said is not None:
                yield said
        self._count(0)

    def _count(self, more: int) -> None:
        self._size += more
        if self._size + len(self._begun) > self._most_bytes:
            raise ReplyInvalid(f"an event of more than {self._most_bytes:,} bytes")

    def _read(self, text: str) -> _Said | None:
        name, _, value = text.partition(":")
        if text == "":
            fields, self._fields = self._fields, {}
            return (
                _Said(fields.get("event", "message"), "\n".join(fields["data"]).encode()) if "data" in fields else None
            )
        if name == "data":
            self._fields.setdefault("data", []).append(value.removeprefix(" "))
        elif name:
            self._fields[name] = value.removeprefix(" ")
        return None


def _heard(line: Line, pieces: Iterator[bytes]) -> Iterator[_Said]:
    parser = _Parser(line.patience.most_bytes)
    for piece in pieces:
        yield from parser.feed(piece)


def of_run(line: Line, run_id: str, after: int) -> _Following[Event]:
    """The events of a run, after a number."""
    return _Following(line, f"/v1/runs/{in_path(run_id)}/events", after, Event)


def of_all(line: Line, after: int, asked: dict[str, Any]) -> _Following[HomeEvent]:
    """Those of all runs, after a number."""
    wanted = {name: value for name, value in asked.items() if value is not None}
    return _Following(line, "/v1/events", after, HomeEvent, wanted)


def follow(following: _Following[E]) -> Iterator[E]:
    """Every event after that one, once and in order; of a run until nobody runs it any more."""
    line = following.line
    while True:
        try:
            with line.stream(following.path, query=following.query, headers=following.headers) as answer:
                for said in _heard(line, answer.iter_raw()):
                    if event := following.taken(said):
                        yield event
            raise Broken("the stream ended")
        except _Over:
            return
        except Broken as broken:
            time.sleep(following.pause(broken))


async def follow_async(following: _Following[E]) -> AsyncIterator[E]:
    """The same on an event loop."""
    line = following.line
    async with line.on_loop() as http:
        while True:
            try:
                async with line.stream_async(
                    http, following.path, query=following.query, headers=following.headers
                ) as answer:
                    parser = _Parser(line.patience.most_bytes)
                    async for piece in answer.aiter_raw():
                        for said in parser.feed(piece):
                            if event := following.taken(said):
                                yield event
                raise Broken("the stream ended")
            except _Over:
                return
            except Broken as broken:
                await asyncio.sleep(following.pause(broken))


@reading()
def displaced_of(line: Line, raw: bytes) -> Displaced:
    """What is known of a file that gave way; its content is asked for when it is read."""
    said = msgspec.json.decode(raw, type=OPERATIONS["run_displaced"].answer.shape)
    return Displaced(**msgspec.structs.asdict(said), read=lambda: _content(line, said))


def _content(line: Line, said: Any) -> Iterator[bytes]:
    """Raises IntegrityBroken when it is not what its digest says."""
    path = f"/v1/runs/{in_path(said.run_id)}/displaced/content"
    content = line.ask("GET", path, query={"path": said.path, "seq": said.seq}).raw
    if digest(content) != said.digest:
        raise IntegrityBroken(f"{said.path} that gave way", "its content was changed")
    yield content


@reading()
def log_of(line: Line, run_id: str, raw: bytes) -> CommandLog:
    """What is known of a transcript, and the way to it."""
    said = msgspec.json.decode(raw, type=OPERATIONS["run_logs"].answer.shape)
    return CommandLog(**msgspec.structs.asdict(said), read=lambda: _pieces(line, run_id, said))


def _pieces(line: Line, run_id: str, said: Any) -> Iterator[bytes]:
    path, query = f"/v1/runs/{in_path(run_id)}/logs/content", {"step": said.step, "attempt": said.attempt}
    read_bytes = 0
    try:
        with line.stream(path, query=query) as answer:
            for piece in answer.iter_raw():
                read_bytes += len(piece)
                if said.size_bytes is not None and read_bytes > said.size_bytes:
                    raise IntegrityBroken(f"the transcript of {said.step}", "it is longer than was said")
                yield piece
    except Broken as broken:
        raise broken.error or ServerUnreachable(line.url, line.patience.deadline_seconds, 1, broken.why) from broken
