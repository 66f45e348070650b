"""What an operation is: one request that can be made of a home, whoever makes it and by whichever door.

A request is a frozen class with a typed field for each thing that is said: what a field means, its limits and its
default stand there and nowhere else. `operation` says the rest: its place over HTTP, who may, what it does and answers.
Routes, bodies and OpenAPI, MCP tools and the client's methods are made from it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Literal, TypeVar, cast, dataclass_transform, get_args, get_origin

import msgspec

from outlast.errors import OutlastError
from outlast.home.caller import LOCAL as LOCAL
from outlast.home.keys import ROLES as ROLES
from outlast.home.keys import ApiKey as ApiKey
from outlast.home.keys import Keys as Keys
from outlast.home.keys import Role as Role
from outlast.home.keys import allows as allows
from outlast.home.keys import unproven as unproven
from outlast.operations import fields as f
from outlast.values.codec import encode

JSON = "application/json"
PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
Method = Literal["GET", "POST", "PUT"]
R = TypeVar("R", bound="type[Request]")

# Fields that take something upon oneself which stopped the work: who uses one needs the role `approve`. Requests that
# do so by themselves (answer, cancel, skip, rewind, fork, and retry of an effect) need it anyway.
GATES = ("accept", "take", "override", "again", "fork")
GATES_OF_RESUME = (*GATES, "flow")  # another flow that the run goes on with may ask nobody
WHOSE = ("tenant_id", "actor", "scope")  # who asks, and where: settled by the door before the call


class _Fields(msgspec.StructMeta):
    """Gives a request its own fields, then those of all its bases; by itself msgspec takes those of one base."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **options: Any) -> Any:
        annotations = namespace.setdefault("__annotations__", {})
        for each in (field for base in bases if base is not msgspec.Struct for field in msgspec.structs.fields(base)):
            if each.name not in annotations:
                annotations[each.name] = each.type
                if not each.required:
                    namespace[each.name] = _default_of(each)
        root = (_root(bases[0]),)
        return super().__new__(cls, name, root, namespace, **options | {"kw_only": True})


def _root(base: type) -> type:
    """What all requests are: their fields are merged already, and a class has one layout."""
    return next((each for each in base.__mro__ if each.__name__ == "Declared"), base)


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    made = field.default_factory is not msgspec.NODEFAULT
    return msgspec.field(default_factory=field.default_factory) if made else field.default


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Declared(msgspec.Struct, metaclass=_Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that is declared field by field, and never changed; what is none of its fields is refused."""


class Request(Declared):
    """What every operation takes: in whose name it is asked, and in which scope."""

    scope: f.Scope | None = None
    actor: f.Actor | None = None
    tenant_id: f.TenantId | None = None


class Change(Request):
    """Base of what changes something."""

    operation_id: f.OperationId | None = None


class Paged(Request):
    """Base of what lists take."""

    limit: f.Limit = 50
    cursor: f.Cursor = ""


class Gated:
    """A role, which is `approve` once one of the request's fields gets past a gate."""

    def __init__(self, otherwise: Role, gates: tuple[str, ...] = GATES) -> None:
        self.otherwise: Role = otherwise
        self.gates = gates

    def __call__(self, request: Any) -> Role:
        return "approve" if any(getattr(request, name, None) for name in self.gates) else self.otherwise

    @property
    def says(self) -> str:
        names = f"`{'`, `'.join(self.gates[:-1])}` or `{self.gates[-1]}`"
        return f"Needs the role `{self.otherwise}`; with {names} the role `approve`."


class Answer(msgspec.Struct, frozen=True):
    """What is answered: the value that Python gets, and its shape as JSON; `shown` makes the one of the other."""

    value: Any
    shape: Any


ANYTHING = Answer(dict[str, Any], dict[str, Any])


class Pages(msgspec.Struct, frozen=True):
    """A list that comes page by page, and how its next page is found: by which argument of the method."""

    key: Callable[[Any], Any]  # of the last item: where the next page begins
    kind: type = str
    by: Literal["before", "after", "cursor"] = "before"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be asked."""

    name: str  # handoff_store
    request: type[Request]
    method: Method
    path: str
    summary: str
    role: Role | Callable[[Any], Role]  # or a function of the request, where it depends on what is asked
    calls: str = ""  # the method of the public object; without one each door does it in a way of its own
    answer: Answer = ANYTHING
    listed: bool = False  # the answer is a list of that
    pages: Pages | None = None  # and it comes page by page
    items: str = ""  # what that list is called where it has a name: by commands and tools; over HTTP it is `items`
    beside: Mapping[str, tuple[Any, str]] = {}  # lists beside its items, and what each is
    status: int = 200
    also: Mapping[int, str] = {}  # further statuses of an answer over HTTP, with what each says
    body: type[Any] | None  # its fields that are sent as JSON
    query: type[Any]  # and those that stand in the query
    repeats: bool = False  # the same again is harmless by itself: the method takes no operation_id
    long: bool = False  # it may read much of the store: others do not wait behind it
    errors: tuple[type[OutlastError], ...] = ()
    detail: str = ""  # more than the summary
    example: Mapping[str, Any] | None = None
    by_curl: str = ""  # the same asked by a shell, where an example does not say how one comes to its fields
    takes: str = JSON  # the media type of the body
    answers: str = JSON
    headers: Mapping[str, str] = {}  # that are read over HTTP, with what they are for
    not_by_mcp: str = ""  # why models have no tool for it

    @property
    def takes_operation(self) -> bool:
        return "operation_id" in self.request.__struct_fields__

    @property
    def noun(self) -> str:
        return self.name.partition("_")[0]

    @property
    def writes(self) -> bool:
        return self.role != "read" and self.method != "GET"

    def role_of(self, request: Any) -> Role:
        """The role that this request needs."""
        return self.role(request) if callable(self.role) else self.role

    def made(self, path: Mapping[str, str], query: Any, body: Any) -> Any:
        """The request whose parts these are."""
        for part in (query, body):
            if type(part) is self.request:
                return part
        return self.request(**path, **fields_of(query), **(fields_of(body) if body is not None else {}))

    def perform(self, outlast: Any, given: Mapping[str, Any]) -> Any:
        """The one call of the public object, with these fields."""
        return attrgetter(self.calls)(outlast)(**given)


DECLARED: dict[str, Operation] = {}  # by name, as far as they are loaded: `table.py` has all of them


def operation(
    name: str, place: str, summary: str, *, answer: Any = None, in_query: tuple[str, ...] = (), **more: Any
) -> Callable[[R], R]:
    """Declare a request as an operation: its name, `METHOD /path`, and a line that says what it does.

    `in_query`: fields that stand in the query although there is a body. Unless something else is said, who only looks
    needs the role `read` and who changes something `write`, and items that come in no pages are a list.
    """
    method, _, path = place.partition(" ")
    more.setdefault("role", "read" if method == "GET" else "write")
    more.setdefault("listed", "items" in more and "pages" not in more)
    if answer is not None:
        more["answer"] = answer if isinstance(answer, Answer) else Answer(answer, answer)

    def declared(request: R) -> R:
        names = [each for each in request.__struct_fields__ if each not in PARAMETER.findall(path)]
        has_body = method != "GET" and more.get("takes", JSON) == JSON
        said = [each for each in names if has_body and each not in in_query]
        asked = [each for each in names if each not in said]
        more["body"] = part_of(request, request.__name__, said) if has_body else None
        more["query"] = part_of(request, f"{request.__name__}Query", asked)
        DECLARED[name] = Operation(
            name=name, request=request, method=cast(Any, method), path=path, summary=summary, **more
        )
        return request

    return declared


def part_of(
    request: type[Any],
    name: str,
    fields: list[str],
    other: Mapping[str, tuple[Any, Any]] | None = None,
    more: type[Declared] | None = None,
) -> type[Any]:
    """Some fields of a request as a class of their own, `other` ones with another type and default, and `more`.

    All of them as they are: the request itself.
    """
    if len(fields) == len(request.__struct_fields__) and not other and more is None:
        return request
    every = {each.name: each for each in msgspec.structs.fields(request) if each.name in fields}
    kinds = {each: every[each].type for each in fields} | {each: kind for each, (kind, _) in (other or {}).items()}
    defaults = {each: _default_of(every[each]) for each in fields if not every[each].required}
    defaults |= {each: default for each, (_, default) in (other or {}).items()}
    namespace = {"__doc__": request.__doc__, "__module__": request.__module__, "__annotations__": kinds}
    for each in msgspec.structs.fields(more) if more is not None else ():
        kinds[each.name], defaults[each.name] = each.type, _default_of(each)
    return cast(type[Any], _Fields(name, (Declared,), namespace | defaults))


def fields_of(request: Any) -> dict[str, Any]:
    """What a request says, by name."""
    return msgspec.structs.asdict(request)


def cursor_of(*place: Any) -> str:
    """Where a list goes on, after this item, as one word."""
    return base64.urlsafe_b64encode(encode(list(place))).decode().rstrip("=")


def sentence_of(request: type[Any], name: str) -> str:
    """What a field of a request means."""
    (kind,) = (each.type for each in msgspec.structs.fields(request) if each.name == name)
    return next(_sentences(kind), "")


def choices_of(request: type[Any], name: str) -> tuple[str, ...]:
    """The values that a field of a request can have, if they are few; none of what is no field of it."""
    return tuple(word for each in msgspec.structs.fields(request) if each.name == name for word in _choices(each.type))


def _choices(kind: Any) -> Iterator[str]:
    for each in get_args(kind):
        yield from [each] if isinstance(each, str) and get_origin(kind) is Literal else _choices(each)


def _sentences(kind: Any) -> Iterator[str]:
    for each in (*getattr(kind, "__metadata__", ()), *get_args(kind)):
        if isinstance(each, msgspec.Meta):
            yield from filter(None, [each.description])
        else:
            yield from _sentences(each)
