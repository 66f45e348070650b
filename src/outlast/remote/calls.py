"""Calls of a client: methods with the signatures of the embedded ones, and what they send."""

from __future__ import annotations

import base64
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

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
from outlast.remote.line import in_path
from outlast.remote.values import page_of, value_of
from outlast.values.codec import decode, encode, pack_json

if TYPE_CHECKING:
    from outlast.remote.line import Line, Reply

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
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
