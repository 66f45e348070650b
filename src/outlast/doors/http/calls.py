"""What a call is: one row of the table that routes, answers, OpenAPI and clients are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from outlast.errors import Conflict, Invalid, NotFound, OutlastError, RequestInvalid
from outlast.home.keys import Role as Role
from outlast.python.homes import GATES
from outlast.values.codec import encode

if TYPE_CHECKING:
    from outlast import Outlast
    from outlast.doors.http.exchange import Exchange
    from outlast.doors.http.identity import Identity
    from outlast.doors.http.state import ServerState

Method = Literal["GET", "POST", "PUT", "DELETE"]
MOST = 1000  # items of a page
MOST_OF_A_HEADER = 4000  # characters
BY_THE_DOOR = ("tenant_id", "actor", "binding", "ran", "observed", "looks")  # who asks, and what was seen of files


Place = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62))]  # in a list that is counted
Limit = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MOST})]


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Base of what calls take: the fields of the Python method, in the same names, with the same defaults."""


class Paged(Body):
    """Base of what lists take."""

    limit: Limit = 50
    cursor: str = ""


class Nothing(Body):
    """What a call takes that takes nothing."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some items of a list, and where the next ones begin; None: there are no more."""

    items: list[Any]
    next: str | None = None
    damaged: tuple[str, ...] = ()  # a line for each record that was met and is not what was stored
    beside: Mapping[str, Any] = field(default_factory=dict)  # what is no item of the list


@dataclass(frozen=True, slots=True)
class CallRequest:
    """What a request asks for, decoded and checked."""

    state: ServerState
    identity: Identity
    path: dict[str, str]
    query: Any
    body: Any
    operation_id: str | None = None

    def given(self, *leave_out: str) -> dict[str, Any]:
        """The fields of the body as the Python method takes them, but tenant and actor: who asks is settled."""
        fields = {name: getattr(self.body, name) for name in self.body.__struct_fields__}
        if "operation_id" in fields:
            fields["operation_id"] = self.operation_id
        for name in (*BY_THE_DOOR, *leave_out):
            fields.pop(name, None)
        return fields


class Gated:
    """A call's role, which is `approve` once one of its fields gets past a gate."""

    def __init__(self, otherwise: Role, gates: tuple[str, ...] = GATES) -> None:
        self.otherwise: Role = otherwise
        self._gates = gates

    def __call__(self, body: Any) -> Role:
        return "approve" if any(getattr(body, name, None) for name in self._gates) else self.otherwise

    @property
    def says(self) -> str:
        return f"Needs the role `{self.otherwise}`; with {_one_of(self._gates)} the role `approve`."


def _one_of(names: tuple[str, ...]) -> str:
    return f"`{'`, `'.join(names[:-1])}` or `{names[-1]}`"


Does = Callable[["Outlast", CallRequest], Any]
Serves = Callable[["Exchange"], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """One thing that can be asked over HTTP.

    `does` is the one call of the SDK, made in a worker thread: it gets an Outlast that acts for who asks, and what was
    asked; `shows` makes JSON of what it gives. `serves` takes the whole exchange instead, to stream.
    """

    method: Method
    path: str
    name: str  # of the operation: handoff_store
    summary: str
    role: Role | Callable[[Any], Role]  # or a function of the body, where it depends on what is asked
    does: Does | None = None
    serves: Serves | None = None
    body: type[Body] | None = None
    query: type[Body] = Nothing
    gives: Any = dict[str, Any]  # the type of the answer, for OpenAPI
    shows: Callable[[Any], Any] = lambda value: value
    status: int = 200
    also: dict[int, str] = field(default_factory=dict)  # further statuses of an answer, with what each says
    page: bool = False  # the answer is a Page of `gives`
    beside: dict[str, tuple[Any, str]] = field(default_factory=dict)  # lists beside its items, and what each is
    long: bool = False  # it may read much of the store: others do not wait behind it
    errors: tuple[type[OutlastError], ...] = ()
    detail: str = ""  # more than the summary, for OpenAPI
    example: dict[str, Any] | None = None  # of the body
    takes: str = "application/json"  # the media type of the body
    answers: str = "application/json"  # and of the answer
    headers: dict[str, str] = field(default_factory=dict)  # that the call reads, with what they are for

    @property
    def tag(self) -> str:
        return self.name.partition("_")[0]

    @property
    def takes_operation(self) -> bool:
        return self.body is not None and "operation_id" in self.body.__struct_fields__

    def role_of(self, body: Any) -> Role:
        return self.role(body) if callable(self.role) else self.role


def shown(call: HttpCall, value: Any) -> bytes:
    """An answer as JSON."""
    if isinstance(value, Page):
        told = {"damaged": value.damaged} if value.damaged else {}
        items = [call.shows(item) for item in value.items]
        return encode({"items": items, "next": value.next, **value.beside} | told)
    return encode(call.shows(value))


def in_header(lines: Iterable[str]) -> bytes:
    """Lines as the value of one header."""
    from urllib.parse import quote

    return ",".join(quote(line, safe=" :;'`") for line in lines)[:MOST_OF_A_HEADER].encode()


# -- cursors: opaque to who holds them ---------------------------------------------------------------


def cursor_of(*place: Any) -> str:
    """Where a list goes on, as one word."""
    import base64

    return base64.urlsafe_b64encode(encode(list(place))).decode().rstrip("=")


def place_in(cursor: str, *kinds: type) -> tuple[Any, ...] | None:
    """What `cursor_of` was given; None at the beginning of a list. Raises RequestInvalid."""
    import base64

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


def done(does: Does, outlast: Outlast, asked: CallRequest) -> Any:
    """What a call gives. A list that could be begun and cannot go on was given the cursor of another one.

    Raises RequestInvalid for that, or what the call raises.
    """
    try:
        return does(outlast, asked)
    except (NotFound, Invalid, Conflict) as error:
        if not isinstance(asked.query, Paged) or not asked.query.cursor:
            raise
        does(outlast, replace(asked, query=msgspec.structs.replace(asked.query, cursor="", limit=1)))
        raise _foreign() from error


def limit_of(query: Paged) -> int:
    """How many items are wanted. Raises RequestInvalid."""
    if not 1 <= query.limit <= MOST:
        raise RequestInvalid("limit", f"it is {query.limit}; ask for 1 to {MOST}")
    return query.limit


def page_of(items: Iterable[Any], limit: int, next_of: Callable[[Any], str]) -> Page:
    """A page of what was read: one more item than wanted says that there are more."""
    found = list(items)
    return Page(found[:limit], next_of(found[limit - 1]) if len(found) > limit else None)
