"""Calls of a client: methods with the signatures of the embedded ones, and what they send.

What a server answers, as the values that the embedded surface gives.
"""

from __future__ import annotations

import base64
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from outlast import errors
from outlast.clock import micros
from outlast.handoffs.handoff import Handoff, Recovered
from outlast.home.place import check_text
from outlast.ledger.verdict import Verdict
from outlast.operations.operation import PARAMETER, Operation, cursor_of
from outlast.operations.table import OPERATIONS
from outlast.remote.line import in_path
from outlast.runs.run import Outcome, RunError
from outlast.runs.waits.interrupt import Interrupt
from outlast.values.codec import Decode, decode, pack_json

if TYPE_CHECKING:
    from outlast.remote.line import Line, Reply


T = TypeVar("T")
_HANDOFF = set(Handoff.__struct_fields__)
_RECOVERED = set(Recovered.__struct_fields__)
_PACKETS = ("execution_state_v1", "execution_packet_v1")
_SHOWN = 300  # characters of what is wrong


class _SentPackets(msgspec.Struct):
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
        raise errors.ReplyInvalid(f"{type(error).__name__}: {error}"[:_SHOWN]) from error


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
    packets = msgspec.json.decode(raw, type=_SentPackets)
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
    changed = {"run_id": said.run_id or "", "result": result, "error": RunError.of(said.error)}
    return Outcome(**msgspec.structs.asdict(said) | changed)


def _result(raw: bytes, back: Decode, notes: tuple[str, ...]) -> Any:
    """The result as the flow's annotation types it; plain when its code was another one then, and so was its type."""
    try:
        return back(raw)
    except msgspec.ValidationError:
        if "code_changed" not in notes:
            raise
        return decode(raw)


F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
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
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            given = {name: value for name, value in bound.arguments.items() if name != "self"}
            for name, parameter in signature.parameters.items():
                if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                    given |= given.pop(name)
            return function(self, given)

        return cast(F, call)

    return made


def embedded_only(method: F, remedy: str) -> F:
    """The same method, which says that only who has the home can do that."""

    @functools.wraps(method)
    def refuse(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        raise errors.EmbeddedOnly(method.__qualname__.replace("Shared.", "Outlast."), remedy)

    return cast(F, refuse)


# -- operations --------------------------------------------------------------------------------------


def from_operations(noun: str, base: type) -> Callable[[C], C]:
    """Give a class every method of its base that an operation names, unless it has one of its own.

    Each has the base's signature and asks the server. Before that `_check_NAME` is called, if there is one, with what
    was given: it raises what the embedded method does before it looks anything up.
    """

    def filled(cls: C) -> C:
        for operation in OPERATIONS.values():
            where, _, name = operation.calls.rpartition(".")
            if name and where == noun and name not in vars(cls):
                setattr(cls, name, like(getattr(base, name))(_asker(operation, f"_check_{name}")))
        return cls

    return filled


def _asker(operation: Operation, check: str) -> Callable[[Any, Given], Any]:
    def ask(self: Any, given: Given) -> Any:
        if (checks := getattr(self, check, None)) is not None:
            checks(given)
        return answer_of(self._line, operation, given)

    return ask


def answer_of(line: Line, operation: Operation, given: Given) -> Any:
    """What a server answers to an operation, as the value that the embedded method gives."""
    made = OTHERWISE.get(operation.answer.value) or partial(value_of, kind=operation.answer.value)
    if operation.pages is not None:
        return [made(each) for each in pages(line, operation, given)]
    raw = ask(line, operation, given).raw
    return [made(each) for each in page_of(raw)[0]] if operation.listed else made(raw)


def ask(line: Line, operation: Operation, given: Given, **how: Any) -> Reply:
    """Ask for an operation: each field in its place. A write has an operation_id, made here if there is none."""
    _check_texts(operation, given)
    path, rest = _placed(operation.path, given)
    rest.pop("tenant_id", None)
    if "operation_id" in rest and rest["operation_id"] is None:
        rest["operation_id"] = line.operation_id()
    asked = {name: rest.pop(name) for name in operation.query.__struct_fields__ if name in rest}
    said = {name: value for name, value in rest.items() if value is not None or name in _MAY_BE_NOTHING}
    return line.ask(operation.method, path, query=asked, body=said if operation.body else None, **how)


def _check_texts(operation: Operation, given: Given) -> None:
    """Raises ValueRefused for what is no text and would become one on its way: all of a path and a query is text."""
    placed = PARAMETER.findall(operation.path)
    for name, value in given.items():
        if isinstance(value, str) or not (name in placed or (value is not None and name in _texts(operation.name))):
            continue
        check_text(name, value)


@cache
def _texts(operation_name: str) -> frozenset[str]:
    """The fields of a query that are text."""
    kinds = {each.name: each.type for each in msgspec.structs.fields(OPERATIONS[operation_name].query)}
    return frozenset(name for name, kind in kinds.items() if _is_text(kind))


def _is_text(kind: Any) -> bool:
    return kind is str or (get_origin(kind) is not tuple and any(map(_is_text, get_args(kind))))


def _placed(path: str, given: Given) -> tuple[str, Given]:
    rest = dict(given)

    def said(found: re.Match[str]) -> str:
        return in_path(rest.pop(found[1]))

    return PARAMETER.sub(said, path), rest


# -- lists -------------------------------------------------------------------------------------------


def pages(line: Line, operation: Operation, given: Given) -> Iterator[bytes]:
    """Items of a list as they came, page by page, as many as are wanted; after the last one seen."""
    rest = dict(given)
    assert operation.pages is not None
    if type(limit := rest.get("limit", 0)) is not int or limit < 0:
        raise errors.ValueRefused("limit", f"{limit!r:.100} is no number of items", "give a whole number from 0 on")
    limit, last = rest.pop("limit", None), rest.pop(operation.pages.by, None) if operation.pages.by != "after" else None
    cursor = "" if last is None else cursor_of(last)
    for _ in range(PAGES):
        size = PAGE if limit is None else min(limit, PAGE)
        if size < 1:
            return
        found, more = page_of(_page(line, operation, rest | {"limit": size, "cursor": cursor or None}))
        _refuse_odd(found, more, size, cursor)
        yield from found
        if more is None:
            return
        limit, cursor = None if limit is None else limit - len(found), more
    raise errors.ReplyInvalid(f"a list of more than {PAGES:,} pages")


def _page(line: Line, operation: Operation, given: Given) -> bytes:
    """Raises what the embedded list does when it is to go on after something that it does not have."""
    try:
        return ask(line, operation, given).raw
    except errors.RequestInvalid as error:
        missing = _MISSING.get(operation.name) if error.facts.get("path") == "cursor" else None
        if missing is None:
            raise
        raise missing(_at(given["cursor"]), given.get("scope") or "default") from error


_MISSING: dict[str, Callable[[str, str], errors.OutlastError]] = {
    "run_list": lambda name, scope: errors.RunNotFound(name),
    "handoff_list": lambda name, scope: errors.HandoffNotFound(f"id {name!r}"),
    "session_list": errors.SessionNotFound,
    "task_list": errors.TaskNotFound,
    "workspace_list": errors.ArtifactNotFound,
    "workspace_records": lambda name, scope: errors.RecordNotFound(name),
    "workspace_checkpoints": lambda name, scope: errors.CheckpointNotFound(name),
}


def _refuse_odd(found: list[bytes], more: str | None, size: int, cursor: str) -> None:
    """Raises ReplyInvalid for a page that is longer than was asked for, or that leads nowhere."""
    if len(found) > size:
        raise errors.ReplyInvalid(f"a page of {len(found):,} where {size:,} were asked for")
    if more is not None and (not found or more == cursor):
        raise errors.ReplyInvalid("a list that does not go on, and does not end")


def _at(cursor: str) -> str:
    """What `cursor_of` was given."""
    return str(decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))[0])


def checked_json(given: Mapping[str, Any], *names: str) -> None:
    """Raises ValueRefused for what would not come back equal."""
    for name in names:
        if given.get(name) is not None:
            pack_json(given[name], name)


OTHERWISE: dict[Any, Callable[[bytes], Any]] = {Handoff: handoff_of, Recovered: recovered_of}  # more than their fields
