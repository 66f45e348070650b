"""The events of a run of a server as they come: taken up again where the line broke off, none lost and none doubled."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.domain.codec import decode
from holdfast.domain.receipt import Event
from holdfast.sdk.client_errors import error_of
from holdfast.sdk.client_line import Broken, in_path
from holdfast.sdk.client_values import value_of

if TYPE_CHECKING:
    from holdfast.sdk.client_line import Line

STREAM = "text/event-stream"


class _Said(NamedTuple):
    name: str
    data: bytes


class _Over(Exception):
    """Nobody runs the run any more."""


class _Following:
    """How far somebody has come in the events of a run."""

    def __init__(self, line: Line, run_id: str, after: int) -> None:
        self._line, self._last = line, after
        self.path = f"/v1/runs/{in_path(run_id)}/events"
        self._began, self._tries = time.monotonic(), 0

    @property
    def headers(self) -> dict[str, str]:
        return {"accept": STREAM, "last-event-id": str(self._last)}

    def taken(self, said: _Said) -> Event | None:
        """The event, unless it was seen before. Raises _Over, Broken, and what the server says went wrong."""
        if said.name == "problem":
            raise error_of(int(decode(said.data).get("status", 500)), said.data, self._line.url)
        if said.name == "end":
            raise _Over if decode(said.data).get("why") == "run" else Broken("the server stops")
        event = value_of(said.data, Event)
        self._began, self._tries = time.monotonic(), 0
        if event.seq <= self._last:
            return None
        self._last = event.seq
        return event

    def pause(self, broken: Broken) -> float:
        """How long to wait before it is taken up again. Raises ServerUnreachable when nothing came for too long."""
        self._tries += 1
        return self._line.pause(self._began, self._tries, broken.error, broken.why)


class _Parser:
    """Server-sent events: fields until an empty line; a comment only says that somebody is there."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def read(self, text: str) -> _Said | None:
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


def follow(line: Line, run_id: str, after: int) -> Iterator[Event]:
    """Every event after that one, once and in order, until nobody runs the run any more."""
    following = _Following(line, run_id, after)
    while True:
        try:
            with line.stream(following.path, headers=following.headers) as answer:
                parser = _Parser()
                for text in answer.iter_lines():
                    if (said := parser.read(text)) and (event := following.taken(said)):
                        yield event
            raise Broken("the stream ended")
        except _Over:
            return
        except Broken as broken:
            time.sleep(following.pause(broken))


async def follow_async(line: Line, run_id: str, after: int) -> AsyncIterator[Event]:
    """The same on an event loop."""
    import asyncio

    following = _Following(line, run_id, after)
    async with line.on_loop() as http:
        while True:
            try:
                async with line.stream_async(http, following.path, headers=following.headers) as answer:
                    parser = _Parser()
                    async for text in answer.aiter_lines():
                        if (said := parser.read(text)) and (event := following.taken(said)):
                            yield event
                raise Broken("the stream ended")
            except _Over:
                return
            except Broken as broken:
                await asyncio.sleep(following.pause(broken))
