"""Calls of a client: methods with the signatures of the embedded ones, and what they send.

What a server answers, as the values that the embedded surface gives.
"""

from __future__ import annotations

import base64
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

import msgspec

from outlast.clock import micros
from outlast.errors import (
    ArtifactNotFound,
    CheckpointNotFound,
    EmbeddedOnly,
    HandoffNotFound,
    OutlastError,
    RecordNotFound,
    ReplyInvalid,
    RequestInvalid,
    RunNotFound,
    SessionNotFound,
    TaskNotFound,
)
from outlast.handoffs.handoff import Handoff
from outlast.handoffs.recovered import Recovered
from outlast.ledger.verdict import Verdict
from outlast.remote.line import in_path
from outlast.runs.run import Outcome
from outlast.runs.waits.interrupt import Interrupt
from outlast.values.codec import Decode, decode, encode, pack_json

if TYPE_CHECKING:
    from outlast.remote.line import Line, Reply


T = TypeVar("T")
_HANDOFF = {each.name for each in fields(Handoff)}
_RECOVERED = {each.name for each in fields(Recovered)}
_PACKETS = ("execution_state_v1", "execution_packet_v1")
_SHOWN = 300  # characters of what is wrong


class _Packets(msgspec.Struct):
    execution_state_v1: msgspec.Raw = msgspec.Raw(b"null")
    execution_packet_v1: msgspec.Raw = msgspec.Raw(b"null")


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]
    next: str | None = None


class _OutcomeJson(msgspec.Struct):
    run_id: str | None
    status: str
    result: msgspec.Raw
    interrupts: tuple[Interrupt, ...] = ()
    error: dict[str, Any] | None = None
    verdict: Verdict | None = None
    replayed_steps: int = 0
    unasked: tuple[str, ...] = ()
    replayed: bool = False
    notes: tuple[str, ...] = ()
    redelivered: bool = False
    holder: str = ""
    stopped_by: str = ""


@contextmanager
def reading() -> Iterator[None]:
    """Turn whatever comes of reading an answer into ReplyInvalid: it is of the wrong shape, or nested without end."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ReplyInvalid(f"{type(error).__name__}: {error}"[:_SHOWN]) from error


@reading()
def value_of(raw: bytes | msgspec.Raw, kind: type[T]) -> T:
    """One of our values."""
    return msgspec.json.decode(raw, type=kind)


@reading()
def page_of(raw: bytes) -> tuple[list[bytes], str | None]:
    """The items of a page as they came, and where the next one begins."""
    page = msgspec.json.decode(raw, type=_Page)
    return [bytes(each) for each in page.items], page.next


# -- handoffs ----------------------------------------------------------------------------------------


@reading()
def handoff_of(raw: bytes | msgspec.Raw) -> Handoff:
    """One revision; packets are the bytes they came in. The claim that it was stored under is not told."""
    return _handoff(decode(bytes(raw)), raw)


def _handoff(said: dict[str, Any], raw: bytes | msgspec.Raw) -> Handoff:
    given = {name: value for name, value in said.items() if name in _HANDOFF and name not in (*_PACKETS, "claim")}
    given["stored_us"], given["expires_us"] = _micros(said["stored_at"]), _micros(said["expires_at"])
    given["baseline"] = _evidence(said["baseline"])
    packets = msgspec.json.decode(raw, type=_Packets)
    found = {name: packet for name in _PACKETS if bytes(packet := getattr(packets, name)) != b"null"}
    return replace(msgspec.convert(given, Handoff), **found)


@reading()
def recovered_of(raw: bytes | msgspec.Raw) -> Recovered:
    """A handoff with its verdict."""
    said = decode(bytes(raw))
    given = {name: value for name, value in said.items() if name in _RECOVERED}
    given["evidence"] = _evidence(said["evidence"])
    kinds = get_type_hints(Recovered)
    typed = {name: msgspec.convert(value, kinds[name]) for name, value in given.items() if name != "verdict"}
    verdict = msgspec.convert({"word": said["verdict"], "reasons": said["reasons"]}, Verdict)
    return Recovered(verdict=verdict, handoff=_handoff(said, raw), **typed)


def _evidence(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each | {"at": _micros(each["at"])} for each in said]


def _micros(text: str) -> int:
    return micros(datetime.fromisoformat(text))


# -- runs --------------------------------------------------------------------------------------------


@reading()
def outcome_of(raw: bytes, back: Decode | None = None) -> Outcome[Any]:
    """How a run stands; its result as the flow's annotation types it."""
    said = msgspec.json.decode(raw, type=_OutcomeJson)
    known = said.status == "succeeded" and "result_pruned" not in said.notes
    result = _result(bytes(said.result), back or decode, said.notes) if known else None
    return Outcome(
        said.run_id or "",
        said.status,
        result,
        said.interrupts,
        said.error,
        said.verdict,
        said.replayed_steps,
        said.unasked,
        replayed=said.replayed,
        notes=said.notes,
        redelivered=said.redelivered,
        holder=said.holder,
        stopped_by=said.stopped_by,
    )


def _result(raw: bytes, back: Decode, notes: tuple[str, ...]) -> Any:
    """The result as the flow's annotation types it; plain when its code was another one then, and so was its type."""
    try:
        return back(raw)
    except msgspec.ValidationError:
        if "code_changed" not in notes:
            raise
        return decode(raw)


F = TypeVar("F", bound=Callable[..., Any])
Given = dict[str, Any]
_MAY_BE_NOTHING = ("answer", "result", "body", "content")  # null is a value of these, and not the lack of one
PAGE = 1000
PAGES = 10_000  # of one list


def like(method: F) -> Callable[[Callable[[Any, Given], Any]], F]:
    """Make a method with the signature and the words of another; it gets what was given, by name."""
    signature = inspect.signature(method)

    def made(function: Callable[[Any, Given], Any]) -> F:
        @functools.wraps(method)
        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return function(self, _by_name(signature, self, args, kwargs))

        return cast(F, call)

    return made


def _by_name(signature: inspect.Signature, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
    bound = signature.bind(self, *args, **kwargs)
    bound.apply_defaults()
    given = {name: value for name, value in bound.arguments.items() if name != "self"}
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            given |= given.pop(name)
    return given


def embedded_only(method: F, remedy: str) -> F:
    """The same method, which says that only who has the home can do that."""

    @functools.wraps(method)
    def refuse(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        raise EmbeddedOnly(method.__qualname__.replace("Shared.", "Outlast."), remedy)

    return cast(F, refuse)


# -- what is sent ------------------------------------------------------------------------------------


def write(line: Line, path: str, given: Given, *, method: str = "POST", **how: Any) -> Reply:
    """A write: what was given but for what has no value; with an operation_id, made here if there is none."""
    path, body = _placed(path, given)
    body.pop("tenant_id", None)
    if "operation_id" in body and body["operation_id"] is None:
        body["operation_id"] = line.operation_id()
    return line.ask(method, path, body=_said(body), **how)


def _placed(path: str, given: Given) -> tuple[str, Given]:
    """The path with its parameters, and the rest."""
    rest = dict(given)
    parts = [part.partition("}") for part in path.split("{")[1:]]
    for name, _, _ in parts:
        path = path.replace(f"{{{name}}}", in_path(str(rest.pop(name))))
    return path, rest


def _said(given: Given) -> Given:
    return {name: value for name, value in given.items() if value is not None or name in _MAY_BE_NOTHING}


def read(line: Line, path: str, given: Given, kind: type[T]) -> T:
    """One value."""
    path, query = _placed(path, given)
    return value_of(line.ask("GET", path, query=query).raw, kind)


def items(line: Line, path: str, given: Given, limit: int | None = None, cursor: str = "") -> Iterator[bytes]:
    """Items of a list as they came, page by page, as many as are wanted."""
    path, query = _placed(path, given)
    for _ in range(PAGES):
        size = PAGE if limit is None else min(limit, PAGE)
        if size < 1:
            return
        found, more = page_of(_page(line, path, query | {"limit": size, "cursor": cursor or None}))
        _refuse_odd(found, more, size, cursor)
        yield from found
        if more is None:
            return
        limit, cursor = None if limit is None else limit - len(found), more
    raise ReplyInvalid(f"a list of more than {PAGES:,} pages")


def _page(line: Line, path: str, query: Given) -> bytes:
    """Raises what the embedded list does when it is to go on after something that it does not have."""
    try:
        return line.ask("GET", path, query=query).raw
    except RequestInvalid as error:
        missing = _MISSING.get(path) if error.facts.get("path") == "cursor" else None
        if missing is None:
            raise
        raise missing(_at(query["cursor"]), query.get("scope") or "default") from error


_MISSING: dict[str, Callable[[str, str], OutlastError]] = {
    "/v1/runs": lambda name, scope: RunNotFound(name),
    "/v1/handoffs": lambda name, scope: HandoffNotFound(f"id {name!r}"),
    "/v1/sessions": SessionNotFound,
    "/v1/tasks": TaskNotFound,
    "/v1/workspace/artifacts": ArtifactNotFound,
    "/v1/workspace/records": lambda name, scope: RecordNotFound(name),
    "/v1/workspace/checkpoints": lambda name, scope: CheckpointNotFound(name),
}


def _refuse_odd(found: list[bytes], more: str | None, size: int, cursor: str) -> None:
    """Raises ReplyInvalid for a page that is longer than was asked for, or that leads nowhere."""
    if len(found) > size:
        raise ReplyInvalid(f"a page of {len(found):,} where {size:,} were asked for")
    if more is not None and (not found or more == cursor):
        raise ReplyInvalid("a list that does not go on, and does not end")


def all_items(line: Line, path: str, given: Given) -> Iterator[bytes]:
    """The items of a list that comes whole."""
    path, query = _placed(path, given)
    yield from page_of(line.ask("GET", path, query=query).raw)[0]


def cursor_at(*place: Any) -> str:
    """Where a list goes on that a server began: after this item."""
    return base64.urlsafe_b64encode(encode(list(place))).decode().rstrip("=")


def _at(cursor: str) -> str:
    """What `cursor_at` was given."""
    return str(decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))[0])


def checked_json(given: Mapping[str, Any], *names: str) -> None:
    """Raises ValueRefused for what would not come back equal."""
    for name in names:
        if given.get(name) is not None:
            pack_json(given[name], name)
