"""The events of a run of a server as they come: taken up again where the line broke off, none lost and none doubled."""

from __future__ import annotations

import time
from collections.abc import Iterator
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


def follow(line: Line, run_id: str, after: int) -> Iterator[Event]:
    """Every event after that one, once and in order, until nobody runs the run any more."""
    last, began, tries = after, time.monotonic(), 0
    while True:
        try:
            for said in _said(line, run_id, last):
                if said.name == "end" and decode(said.data).get("why") == "run":
                    return
                if said.name == "problem":
                    raise error_of(_status(said.data), said.data, line.url)
                if said.name == "end":
                    break  # the server stops: another one may go on
                event = value_of(said.data, Event)
                began, tries = time.monotonic(), 0
                if event.seq > last:
                    last = event.seq
                    yield event
            broken = Broken("the stream ended")
        except Broken as error:
            broken = error
        tries += 1
        line.again(broken, began, tries)


def _status(data: bytes) -> int:
    return int(decode(data).get("status", 500))


def _said(line: Line, run_id: str, last: int) -> Iterator[_Said]:
    """What the stream says, from after an event on. Raises Broken."""
    headers = {"accept": STREAM, "last-event-id": str(last)}
    with line.stream(f"/v1/runs/{in_path(run_id)}/events", headers=headers) as answer:
        yield from _parsed(answer.iter_lines())


def _parsed(lines: Iterator[str]) -> Iterator[_Said]:
    """Server-sent events: fields until an empty line; a comment only says that somebody is there."""
    fields: dict[str, Any] = {}
    for text in lines:
        name, _, value = text.partition(":")
        if text == "":
            if "data" in fields:
                yield _Said(fields.get("event", "message"), "\n".join(fields["data"]).encode())
            fields = {}
        elif name == "data":
            fields.setdefault("data", []).append(value.removeprefix(" "))
        elif name:
            fields[name] = value.removeprefix(" ")
