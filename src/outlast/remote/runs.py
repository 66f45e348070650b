"""Runs of a server: started and resumed by name, waited for. What the client does does not stop them.

And its schedules, which start runs: the server knows the flow by its name.

Events of runs as they come: taken up again where the line broke off, none lost and none doubled. Their transcripts,
read piece by piece. Files that gave way at a server: what is known of them, and the way to their content.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from outlast.commands.logs import CommandLog
from outlast.errors import IntegrityBroken, ReplyInvalid, RunFinished, RunHeld, ServerUnreachable
from outlast.operations.table import OPERATIONS
from outlast.python.outlast import acceptance_of, taken_because
from outlast.python.queues import Schedules
from outlast.remote.calls import Given, from_operations, outcome_of, reading, value_of
from outlast.remote.line import Broken, error_of, in_path
from outlast.runs.events import HomeEvent
from outlast.runs.look import Displaced
from outlast.runs.receipt import Attempts, Event, Receipt
from outlast.runs.run import Options, Outcome
from outlast.runs.start import pack_inputs
from outlast.values.ambient import STOP, refuse_stopped
from outlast.values.codec import Decode, decode, digest

if TYPE_CHECKING:
    from outlast.home.home import Home
    from outlast.python.decorators import Flow, FlowFile
    from outlast.python.shared import FlowCall
    from outlast.remote.line import Line

FIRST_LOOK = 1.0  # seconds: a run that is shorter is told whole at once
OF_THE_CLIENT = ("wait", "returns")  # options that no server is told
WHEN_AWAITED = 1.0  # one who is awaited may be cancelled, and looks up more often


class GivenReceipts(Attempts):
    """Receipts that a server gave: each is its own attempt."""

    def __init__(self, receipts: list[Receipt]) -> None:
        self.heard: Sequence[Any] = receipts
        self.once_each = False

    def receipt(self, heard: Any) -> Receipt:
        found: Receipt = heard
        return found

    def broken(self) -> Iterator[Receipt]:
        return (each for each in self if each.broken)


class Runs:
    """The runs of a server, as a client starts and waits for them."""

    def __init__(self, line: Line, home: Home) -> None:
        self._line, self._home = line, home

    def begin(self, call: FlowCall, *, look: float = FIRST_LOOK) -> Outcome[Any]:
        """How a run stands that was started, or goes on, just now. Raises RunHeld, unless the caller would wait."""
        spec, options, unheard = call.flow.spec, call.options, list[int]()
        inputs = decode(pack_inputs(spec, spec.bind(call.args, call.kwargs)))
        body = {"flow": spec.name, "inputs": inputs, "operation_id": self._line.operation_id(), **_said(options)}
        with _goes_on(""):
            query = {"wait": look}
            reply = self._line.ask("POST", "/v1/runs", query=query, body=body, wait=look, failed=unheard.append)
        found = outcome_of(reply.raw, spec.decode)
        is_running = found.status == "running" and found.holder
        if (
            is_running and options.wait is False and not unheard
        ):  # else it may be our own: only its answer was not heard
            raise RunHeld(found.run_id, found.holder, 0)
        for note in found.notes if not found.replayed else ():
            self._home.warn(note)
        return found

    def resume(
        self,
        run_id: str,
        accept: Iterable[str],
        why: str,
        partial: str | None,
        flow: Flow[..., Any] | FlowFile | str | None,
        take: bool = False,
    ) -> Outcome[Any]:
        """How a run stands that goes on since now."""
        taken = acceptance_of(accept, why, partial)
        taken_because(take, why)
        body = {"accept": taken.codes, "why": why, "partial": partial, "take": take}
        if flow is not None:
            body["flow"] = flow if isinstance(flow, str) else flow.spec.name
        unheard: list[int] = []
        path = f"/v1/runs/{in_path(run_id)}/resume"
        try:
            with _goes_on(run_id):
                query = {"wait": FIRST_LOOK}
                reply = self._line.ask("POST", path, query=query, body=body, wait=FIRST_LOOK, failed=unheard.append)
        except (RunHeld, RunFinished):
            if not unheard:
                raise
            return self.look(run_id, 0.0)  # our first word was heard, and its answer was not
        return outcome_of(reply.raw)

    def look(self, run_id: str, wait: float, back: Decode | None = None) -> Outcome[Any]:
        """How a run stands; with `wait`, once it has ended or waits, or that time is over."""
        path = f"/v1/runs/{in_path(run_id)}/outcome"
        return outcome_of(self._line.ask("GET", path, query={"wait": wait}, wait=wait).raw, back)

    def until_over(self, found: Outcome[Any], back: Decode | None = None) -> Outcome[Any]:
        """How it stands once nobody runs it any more. Who stops waiting stops nothing."""
        notes = found.notes
        with _goes_on(found.run_id):
            while found.status in ("queued", "running"):
                refuse_stopped()
                seconds = self._line.patience.poll_seconds
                found = self.look(found.run_id, min(seconds, WHEN_AWAITED) if STOP.get() else seconds, back)
        return replace(found, notes=(*notes, *(note for note in found.notes if note not in notes)))

    def finish(self, begun: Outcome[Any], call: FlowCall) -> Outcome[Any]:
        """How it stands once nobody runs it. Of a run that somebody else runs the caller waits as long as he would."""
        back, options = call.flow.spec.decode, call.options
        if not begun.holder or options.wait is False:
            return self.until_over(begun, back)
        try:
            return self.wait(begun.run_id, None if options.wait is True else float(options.wait), back)
        except TimeoutError:
            raise RunHeld(begun.run_id, begun.holder, 0) from None

    def wait(self, run_id: str, timeout: float | None, back: Decode | None = None) -> Outcome[Any]:
        """How a run stands once nobody runs it; if its holder dies, it goes on at the server. Raises TimeoutError."""
        until = time.monotonic() + (float("inf") if timeout is None else timeout)
        with _goes_on(run_id):
            found = self.look(run_id, 0.0, back)
            while found.status in ("queued", "running", "crashed"):
                refuse_stopped()
                if found.status == "crashed":
                    with suppress(RunHeld, RunFinished):  # somebody was quicker
                        self.resume(run_id, (), "", None, None)
                if (left := until - time.monotonic()) <= 0:
                    raise TimeoutError(f"run {run_id} has not ended within {timeout} s")
                found = self.look(run_id, min(left, WHEN_AWAITED), back)
        return found


def _said(options: Options) -> dict[str, Any]:
    """What is said of a run in a request: what was given, in the same names."""
    names = [name for name in options.__struct_fields__ if name not in OF_THE_CLIENT]
    return {name: value for name in names if (value := getattr(options, name)) not in (None, False, "", ())}


@contextmanager
def _goes_on(run_id: str) -> Iterator[None]:
    """Whoever interrupts the waiting is told that the run goes on."""
    try:
        yield
    except KeyboardInterrupt as error:
        stop = f"outlast.pause({run_id!r})" if run_id else "outlast.pause(RUN)"
        error.add_note(f"the run {run_id or 'that was started'} goes on at the server; to stop it: {stop}")
        raise


# -- schedules ---------------------------------------------------------------------------------------


@from_operations("schedules", Schedules)
class RemoteSchedules(Schedules):
    """The schedules of a server; its workers fire them."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def _check_add(self, given: Given) -> None:
        given["flow"] = given["flow"].spec.name


# -- events, transcripts, displaced files ------------------------------------------------------------

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
            said = "\n".join(fields.get("data", ())).encode()
            return _Said(fields.get("event", "message"), said) if "data" in fields else None
        if name == "data":
            self._fields.setdefault("data", []).append(value.removeprefix(" "))
        elif name:
            self._fields[name] = value.removeprefix(" ")
        return None


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
                parser = _Parser(line.patience.most_bytes)
                for said in chain.from_iterable(map(parser.feed, answer.iter_raw())):
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
