"""The description of the server: OpenAPI 3.1, made of the operations, whose requests say what each field means."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import msgspec

from outlast.doors.http.calls import Page
from outlast.doors.http.exchange import MEDIA_TYPE, Problem, status_of
from outlast.errors import (
    BodyTooLarge,
    BodyTooSlow,
    Forbidden,
    Internal,
    MediaTypeRefused,
    MethodRefused,
    NameInvalid,
    OutlastError,
    RequestInvalid,
    RequestMalformed,
    StoreBusy,
    TenantNotFound,
    Unauthenticated,
)
from outlast.operations.operation import JSON, PARAMETER, Gated, Operation, sentence_of
from outlast.operations.table import OPERATIONS
from outlast.values.codec import encode

CALLS = tuple(OPERATIONS.values())
BINARY = {"type": "string", "format": "binary"}
REFS = "#/components/schemas/{name}"
EVERYWHERE = (Unauthenticated, Forbidden, RequestMalformed, RequestInvalid, NameInvalid, TenantNotFound, MethodRefused)
EVERYWHERE_TOO = (StoreBusy, Internal)
WITH_A_BODY = (BodyTooLarge, BodyTooSlow, MediaTypeRefused)
TAGS = {
    "handoff": "Contracts for whoever continues: stored, recovered with a verdict, claimed, settled.",
    "run": "Executions of flows.",
    "queue": "Where runs wait until a worker takes them.",
    "worker": "Who is at work, and on what.",
    "limit": "What steps of all runs share, such as an API.",
    "schedule": "Flows that workers run at certain times.",
    "interrupt": "What runs wait for.",
    "signal": "Messages to runs and tasks.",
    "workspace": "What outlives a run: artifacts, records, links, checkpoints; and recall.",
    "task": "The host bridge: tasks that are opened, paused, resumed and completed.",
    "session": "Conversations: messages, a window of them, a memo.",
    "home": "What the home stands on, what happens in it, and whether its records are whole.",
    "key": "API keys: who may ask for what.",
    "stream": "What opens a stream where no header can be sent.",
    "server": "The server itself; these need no key.",
}
HEADERS = {
    "Idempotency-Key": "Makes a repeat harmless: the same as `operation_id`.",
    "Outlast-Scope": "The namespace that counts where the request names none.",
    "Outlast-Tenant": "The tenant, only without a key on the server's own machine: a key says which.",
    "Outlast-Actor": "Who acts, only without a key on the server's own machine: a key says who.",
    "Outlast-Claims": "Ids of claims, separated by spaces: whoever shows one is the claimer. Reading uses none.",
}


@cache
def described_json() -> bytes:
    """The whole description, as it is sent."""
    return encode(described())


def described() -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, Any] = {}
    for call in CALLS:
        paths.setdefault(PARAMETER.sub(r"{\1}", call.path), {})[call.method.lower()] = _operation(call)
    tags = dict.fromkeys(call.noun for call in CALLS)
    in_queries = {_name_of(_kind(call.query)) for call in CALLS}  # whose fields stand as parameters already
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Outlast",
            "version": version("outlast"),
            "description": "Agent work that outlasts its process. The calls are those of the Python library, with "
            "the same fields and the same errors.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths | _care(),
        "components": {
            "schemas": {name: schema for name, schema in _components()[1].items() if name not in in_queries},
            "examples": _examples(),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key: `ol_<id>_<secret>`."}
            },
        },
        "security": [{"key": []}, {}],
        "tags": [{"name": tag, "description": TAGS.get(tag, f"Calls about a {tag}.")} for tag in (*tags, "server")],
    }


def _operation(call: Operation) -> dict[str, Any]:
    role = call.role if isinstance(call.role, str) else "read"
    needs = call.role.says if isinstance(call.role, Gated) else f"Needs the role `{role}`."
    made: dict[str, Any] = {
        "operationId": call.name,
        "tags": [call.noun],
        "summary": call.summary,
        "description": " ".join(filter(None, [call.detail, needs])),
        "parameters": _parameters(call),
        "responses": _answers(call) | _errors(call),
    }
    if _takes_body(call):
        made["requestBody"] = _request_body(call)
    if call.by_curl:
        made["x-codeSamples"] = [{"lang": "Shell", "label": "curl", "source": call.by_curl}]
    return made


def _takes_body(call: Operation) -> bool:
    return call.body is not None or call.takes != JSON


def _request_body(call: Operation) -> dict[str, Any]:
    if call.body is None:
        return {"required": True, "description": "The content as it is.", "content": {call.takes: {"schema": BINARY}}}
    taken: dict[str, Any] = {"schema": _kind(call.body)}
    if call.example is not None:
        taken["example"] = call.example
    return {
        "required": bool(_schema(call.body).get("required")),
        "description": (call.body.__doc__ or "").strip(),
        "content": {call.takes: taken},
    }


def _parameters(call: Operation) -> list[dict[str, Any]]:
    found = [_in_path(call, name) for name in PARAMETER.findall(call.path)]
    query = _schema(call.query)
    needed = query.get("required", [])
    found += [_parameter("query", name, kind, name in needed) for name, kind in query.get("properties", {}).items()]
    names = [*(["Idempotency-Key"] if call.takes_operation else []), *list(HEADERS)[1:]]
    return found + [_header(name, HEADERS[name]) for name in names] + [_header(*each) for each in call.headers.items()]


def _in_path(call: Operation, name: str) -> dict[str, Any]:
    return _parameter("path", name, {"type": "string", "description": sentence_of(call.request, name)}, required=True)


def _parameter(place: str, name: str, schema: dict[str, Any], required: bool) -> dict[str, Any]:
    bare = {key: value for key, value in schema.items() if key != "description"}
    return {
        "name": name,
        "in": place,
        "required": required,
        "description": schema.get("description", ""),
        "schema": bare,
    }


def _header(name: str, says: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": says, "schema": {"type": "string"}}


# -- answers -----------------------------------------------------------------------------------------


def _answers(call: Operation) -> dict[str, Any]:
    answer = {"description": call.summary, "content": _content(call), "headers": _answer_headers(call)}
    own = dict.fromkeys((200, call.status), call.summary)  # what goes on is answered with 202
    found = {str(status): answer | {"description": says} for status, says in (own | dict(call.also)).items()}
    return found | ({"304": {"description": call.also[304]}} if 304 in call.also else {})


def _content(call: Operation) -> dict[str, Any]:
    """What an answer may be: JSON, a stream of it as well, or content as it is."""
    if call.answer.shape is bytes:
        return {call.answers: {"schema": BINARY}}
    is_list = call.listed or call.pages is not None
    found: dict[str, Any] = {JSON: {"schema": _page(call) if is_list else _kind(call.answer.shape)}}
    if call.answers != JSON:
        found[call.answers] = {"schema": {"type": "string"}}
    return found


def _answer_headers(call: Operation) -> dict[str, Any]:
    found = {
        "X-Request-Id": "Names the request in the server's log.",
        "Outlast-Damaged": "Records that were met and are not what was stored, percent-encoded, with commas between.",
    }
    if call.takes_operation:
        found["Idempotency-Replayed"] = "`true`: the same was done before, and this is its answer."
    if call.answer.shape is bytes:
        found["ETag"] = "The digest of the content, in quotation marks."
    return {name: {"description": says, "schema": {"type": "string"}} for name, says in found.items()}


def _page(call: Operation) -> dict[str, Any]:
    beside = {
        name: {"type": "array", "items": _kind(kind), "description": says} for name, (kind, says) in call.beside.items()
    }
    return {
        "type": "object",
        "description": (Page.__doc__ or "").strip(),
        "required": ["items", "next"],
        "properties": {
            "items": {"type": "array", "items": _kind(call.answer.shape)},
            "next": {"type": ["string", "null"], "description": "The `cursor` of the next page; null: there is none."},
            "damaged": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Records that are not what was stored; left out when there are none.",
            },
            **beside,
        },
    }


def _errors(call: Operation) -> dict[str, Any]:
    """Every error that a call may answer with, by status."""
    by_status: dict[int, list[type[OutlastError]]] = {}
    kinds = (*call.errors, *EVERYWHERE, *(WITH_A_BODY if _takes_body(call) else ()), *EVERYWHERE_TOO)
    for kind in dict.fromkeys(kinds):
        by_status.setdefault(status_of(kind), []).append(kind)
    return {str(status): _error(by_status[status]) for status in sorted(by_status)}


def _error(kinds: list[type[OutlastError]]) -> dict[str, Any]:
    examples = {kind.code: {"$ref": f"#/components/examples/{kind.code}"} for kind in kinds}
    return {
        "description": "; ".join(f"`{kind.code}`" for kind in kinds),
        "content": {MEDIA_TYPE: {"schema": _kind(Problem), "examples": examples}},
    }


def _examples() -> dict[str, Any]:
    """Each error once, by its code."""
    kinds: set[type[OutlastError]] = {*EVERYWHERE, *EVERYWHERE_TOO, *WITH_A_BODY}
    ordered = sorted(kinds.union(*(call.errors for call in CALLS)), key=lambda kind: kind.code)
    return {kind.code: {"summary": _says(kind), "value": _example(status_of(kind), kind)} for kind in ordered}


def _says(kind: type[OutlastError]) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]


def _example(status: int, kind: type[OutlastError]) -> dict[str, Any]:
    return {
        "type": f"urn:outlast:error:{kind.code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": kind.code,
        "detail": kind.says,
        "advice": kind.advice,
        "path": None,
        "facts": {},
    }


# -- schemas -----------------------------------------------------------------------------------------


@cache
def _components() -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    """How each type of the table is referred to, and the schemas by name."""
    taken = [kind for call in CALLS for kind in (call.body, call.query) if kind is not None]
    kinds = list(dict.fromkeys([Problem, *taken, *(call.answer.shape for call in CALLS)]))
    made = msgspec.json.schema_components(kinds, ref_template=REFS, schema_hook=_anything)
    names = {name: _short(name) for name in made[1]}
    assert len(set(names.values())) == len(names), "two types have one name: rename the door's"
    refs, schemas = _renamed(made[0], names), {names[name]: _renamed(each, names) for name, each in made[1].items()}
    return dict(zip(kinds, refs, strict=True)), {name: _told(each) for name, each in schemas.items()}


def _told(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, with what a field means beside it: where it may be null, msgspec says it of what else it may be."""
    return schema | {"properties": {name: _lifted(each) for name, each in schema.get("properties", {}).items()}}


def _lifted(field: dict[str, Any]) -> dict[str, Any]:
    said = [each["description"] for each in field.get("anyOf", ()) if "description" in each]
    if not said:
        return field
    bare = [{name: value for name, value in each.items() if name != "description"} for each in field["anyOf"]]
    return {**field, "anyOf": bare, "description": said[0]}


def _short(name: str) -> str:
    """A name without its module. Where two types have one name, those that are not the door's keep a word of it."""
    module, _, bare = name.rpartition(".")
    return bare if not module or module.startswith("outlast.doors.http.") else module.rpartition(".")[2].title() + bare


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """The same, with each type that is referred to by its new name."""
    if isinstance(value, dict):
        given = {name: _renamed(each, names) for name, each in value.items()}
        is_ref = isinstance(value.get("$ref"), str)
        return given | {"$ref": REFS.format(name=names[_name_of(value)])} if is_ref else given
    return [_renamed(each, names) for each in value] if isinstance(value, list | tuple) else value


def _kind(kind: Any) -> dict[str, Any]:
    return _components()[0][kind]


def _schema(kind: type) -> dict[str, Any]:
    """A type's own schema, not a reference to it."""
    own: dict[str, Any] = _components()[1][_name_of(_kind(kind))]
    return own


def _name_of(ref: dict[str, Any]) -> str:
    return str(ref["$ref"]).rpartition("/")[2]


def _anything(kind: type) -> dict[str, Any]:
    """What msgspec has no schema for is any JSON; a dict of our own is an object."""
    return {"type": "object"} if issubclass(kind, dict) else {}


# -- about the server itself -------------------------------------------------------------------------


def _care() -> dict[str, Any]:
    alive = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
    about: dict[str, tuple[str, str, str, dict[str, Any]]] = {
        "/healthz": ("server_health", "Whether the server lives", "application/json", alive),
        "/readyz": ("server_ready", "Whether its home can be read and written", "application/json", alive),
        "/metrics": ("server_metrics", "Counts and times, for Prometheus", "text/plain", {"type": "string"}),
        "/openapi.json": ("server_openapi", "This description", "application/json", {"type": "object"}),
    }
    return {path: {"get": _plain(*each)} for path, each in about.items()}


def _plain(name: str, summary: str, media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    wrong = {str(status_of(kind)): _error([kind]) for kind in (Forbidden, *EVERYWHERE_TOO)}
    answer = {"200": {"description": summary, "content": {media_type: {"schema": schema}}}}
    return {
        "operationId": name,
        "tags": ["server"],
        "summary": summary,
        "description": "Needs no key.",
        "responses": answer | wrong,
        "security": [{}],
    }
