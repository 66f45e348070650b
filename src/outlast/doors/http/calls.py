"""One call over HTTP: its path, what was asked, the call of the public object that answers it, and the answer as JSON.

A path is read as it was sent, so that what names something may have any character in it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct, field
from starlette.routing import Match, Route

from outlast.errors import Conflict, Invalid, NotFound, RequestInvalid
from outlast.operations.fields import MOST
from outlast.operations.observed import SEEN
from outlast.operations.operation import PARAMETER, WHOSE, Operation, Pages, cursor_of, fields_of
from outlast.operations.shown import shown, shown_json
from outlast.values.codec import encode

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.identity import Identity
    from outlast.doors.http.state import ServerState

MOST_OF_A_HEADER = 4000  # characters
Place = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62))]  # in a list that is counted


class Page(Struct, frozen=True):
    """Some items of a list, and where the next ones begin; None: there are no more."""

    items: list[Any]
    next: str | None = None
    damaged: tuple[str, ...] = ()  # a line for each record that was met and is not what was stored
    beside: Mapping[str, Any] = field(default_factory=dict)  # what is no item of the list


class CallRequest(Struct, frozen=True):
    """What is asked, decoded and checked, and by whom."""

    state: ServerState
    identity: Identity
    operation: Operation
    request: Any
    operation_id: str | None = None  # of the request, or of its header

    def given(self, *leave_out: str) -> dict[str, Any]:
        """The fields as the Python method takes them: who asks, where, and what was seen of files is settled."""
        given = fields_of(self.request)
        if "operation_id" in given:
            given["operation_id"] = self.operation_id
        if self.operation.repeats:
            del given["operation_id"]
        for name in (*WHOSE, *SEEN, *leave_out):
            given.pop(name, None)
        return given


Does = Callable[["Outlast", CallRequest], Any]


def by_name(outlast: Outlast, asked: CallRequest) -> Any:
    """The one call of the public object that the operation names."""
    operation = asked.operation
    if operation.pages is not None:
        return _page_by_name(outlast, asked, operation.pages)
    found = operation.perform(outlast, asked.given())
    return Page(list(found)) if operation.listed else found


def _page_by_name(outlast: Outlast, asked: CallRequest, pages: Pages) -> Page:
    limit, place = page_asked(asked, pages.kind)
    given = asked.given("cursor") | {"limit": limit + 1}
    if place or pages.by != "after":
        given[pages.by] = place[0] if place else None
    found = asked.operation.perform(outlast, given)
    return page_of(found, limit, lambda last: cursor_of(pages.key(last)))


def done(does: Does, outlast: Outlast, asked: CallRequest) -> Any:
    """What a call gives. A list that could be begun and cannot go on was given the cursor of another one.

    Raises RequestInvalid for that, or what the call raises.
    """
    try:
        return does(outlast, asked)
    except (NotFound, Invalid, Conflict) as error:
        if not getattr(asked.request, "cursor", ""):
            raise
        begun = msgspec.structs.replace(asked.request, cursor="", limit=1)
        does(outlast, CallRequest(asked.state, asked.identity, asked.operation, begun))
        raise _foreign() from error


def told(value: Any) -> bytes:
    """An answer as JSON."""
    if isinstance(value, Page):
        damaged = {"damaged": value.damaged} if value.damaged else {}
        beside = {name: shown(each) for name, each in value.beside.items()}
        return encode({"items": shown(value.items), "next": value.next, **beside} | damaged)
    return shown_json(value)


def in_header(lines: Iterable[str]) -> bytes:
    """Lines as the value of one header."""
    return ",".join(quote(line, safe=" :;'`") for line in lines)[:MOST_OF_A_HEADER].encode()


# -- pages, and cursors that are opaque to who holds them --------------------------------------------


def page_asked(asked: CallRequest, *kinds: type) -> tuple[int, tuple[Any, ...] | None]:
    """How many items are wanted, and from where on. Raises RequestInvalid."""
    return limit_asked(asked), place_in(asked.request.cursor, *kinds)


def limit_asked(asked: CallRequest) -> int:
    """How many items are wanted. Raises RequestInvalid."""
    limit: int = asked.request.limit
    if not 1 <= limit <= MOST:
        raise RequestInvalid("limit", f"it is {limit}; ask for 1 to {MOST}")
    return limit


def page_of(items: Iterable[Any], limit: int, next_of: Callable[[Any], str]) -> Page:
    """A page of what was read: one more item than wanted says that there are more."""
    found = list(items)
    return Page(found[:limit], next_of(found[limit - 1]) if len(found) > limit else None)


def place_in(cursor: str, *kinds: type) -> tuple[Any, ...] | None:
    """What `cursor_of` was given; None at the beginning of a list. Raises RequestInvalid."""
    if not cursor:
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        wanted = tuple(Place if kind is int else kind for kind in kinds)
        return tuple(msgspec.json.decode(raw, type=tuple[wanted]))  # type: ignore[valid-type]
    except (ValueError, UnicodeError, RecursionError, msgspec.MsgspecError) as error:
        raise _foreign() from error


def _foreign() -> RequestInvalid:
    return RequestInvalid("cursor", "it is not one that this list gave; begin without")


# -- paths -------------------------------------------------------------------------------------------


class OperationRoute(Route):
    """A path with its parameters, taken apart before it is decoded: `%2F` in an id divides nothing.

    `{name}` is one part of the path, and `{name:path}` as many as there are.
    """

    def __init__(self, path: str, endpoint: Callable[..., Awaitable[None]]) -> None:
        super().__init__(path, endpoint)
        self._sent = re.compile(_pattern(path), re.DOTALL)

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, dict[str, Any]]:
        """Whether it is this path, and what its parameters are."""
        found = self._sent.fullmatch(scope["raw_path"].decode("latin-1")) if scope["type"] == "http" else None
        if found is None:
            return Match.NONE, {}
        given = {name: unquote(value) for name, value in found.groupdict().items()}
        return Match.FULL, {"endpoint": self.endpoint, "path_params": given}


def _pattern(path: str) -> str:
    """The path as a regular expression: its words as they are, and a group for each parameter."""
    words = PARAMETER.split(path)
    names = PARAMETER.finditer(path)
    return "".join(
        re.escape(word) if at % 2 == 0 else f"(?P<{word}>{'.*' if ':path' in next(names)[0] else '[^/]+'})"
        for at, word in enumerate(words)
    )
