"""The description of the table: OpenAPI 3.1, made of the same types that requests are read with.

What the fields of requests mean: one word per idea, so one sentence per name, wherever it stands.
"""

from __future__ import annotations

import re
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec

from outlast.doors.http import problems
from outlast.doors.http.app import CALLS
from outlast.doors.http.calls import Gated, HttpCall, Page
from outlast.doors.http.problems import Problem
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

WORDS: dict[str, str] = {
    "accept": "Contesting reasons that are taken upon oneself: `CODE` or `CODE:SUBJECT`; needs `why`.",
    "acceptance_checks": "Commands, or rules about files, that show that the work is done.",
    "acknowledged": "Musts in prose that were kept, word for word.",
    "actor": "Who acts. Only without a key, on the server's own machine; a key says who acts.",
    "after": "The number of the last one seen: those after it are wanted; of two checkpoints, the second.",
    "again": "Whether a named task that has happened is to happen once more.",
    "anchor": "The stable name that a handoff is stored under and recovered by.",
    "answer": "The answer, as the wait's `schema` or `choices` want it.",
    "all": "Also those that were left more than a week ago.",
    "assignee": "Only what waits for this person.",
    "at": "When it was so, if not now: a time with its offset.",
    "attempt": "Which attempt of the step, counted from 1.",
    "baseline": "What came of the checks, as somebody reports it. A server runs none.",
    "before": "The first of two checkpoints; in a list, the last one seen.",
    "bind": "Whether the files are looked at; not: it is stored unbound.",
    "binding": "What the files are now, as a client found them where they are; blobs that it names were sent before.",
    "body": "What a signal or an event carries: any JSON value.",
    "branch": "A branch of the repository; of what is recovered, the newest of it is meant.",
    "budget": "How many tokens there are.",
    "claim": "Whether to claim it as well, if nothing contests or what contests is accepted.",
    "claim_id": "The id of a claim: whoever shows it is the claimer.",
    "content": "What is said or saved: text or, of a message, any JSON value.",
    "content_base64": "The content as base64, if it is no text.",
    "cursor": "`next` of the page before; without it a list begins at the beginning.",
    "depth": "How far to follow what it rests on.",
    "digest": "The SHA-256 of the content, by which it is kept.",
    "effects": "Of a start or a fork, the effects that may happen again, by their steps; of a retry, false: none may.",
    "creates": "Files that are not there yet: to make them is the work.",
    "environment": "Files whose change weakens the trust in a handoff.",
    "evidence": 'What came of checks, as somebody reports it: `{"check": …, "passed": true}`.',
    "execution_packet_v1": "One JSON object for the next run, kept byte for byte.",
    "execution_state_v1": "One JSON object with the state of the work, kept byte for byte.",
    "expected": "Set it only if the memo is at this version; 0: only if there is none yet.",
    "expected_revision": "Store only if the newest revision is this one; 0: only if there is none yet.",
    "expires": "When it is stale: a duration such as `48h`, seconds, or a time.",
    "file_path": "A file, named from the root of its repository.",
    "flow": "The name of a flow that the server was started with.",
    "follow": "How long a stream goes on: until the run is `idle`, or `finished`; `no`: it does not.",
    "fresh": "Whether to give the task's unfinished run up and start anew.",
    "from_step": "The step from which on a fork goes its own way, or to which a resume goes back, by its label.",
    "goal": "What is to be done, in words.",
    "handoff_id": "The id of a stored revision, or a unique prefix of it.",
    "handoff_kind": "What kind of handoff it is.",
    "handoff_text": "Where to re-enter and what to do, for whoever continues.",
    "history": "How many of the newest events are wanted.",
    "include_finished": "Whether to read one that is completed too.",
    "inputs": "The flow's inputs by name.",
    "interrupt_id": "The id of a wait, or a unique prefix of it.",
    "kind": "What kind of record it is.",
    "kinds": "Only these kinds: observation, decision, evidence, note, artifact, checkpoint.",
    "last": "Only so many of the newest.",
    "limit": "How many items are wanted at most.",
    "listing": "Whether only its verdict is wanted, for a list: who asks has not read it, and uses no claim.",
    "look": "Whether each is judged here and now.",
    "looks": "Whether the client can look at files: then it is told at what (`look_first`), not left unobserved.",
    "media_type": "What kind of content it is; without it, told by the name.",
    "messages": "Messages, each with `role` and `content`, and perhaps `meta` and `run_id`.",
    "meta": "Any JSON object to keep with it.",
    "missing": "What the handoff lacked, says who gives it back.",
    "must_change": "What must change: files and patterns by name, rules about files, or prose.",
    "must_keep": "What must stay as it is: files and patterns by name, rules about files, or prose.",
    "must_remove": "What must go: files and patterns by name, rules about files, or prose.",
    "name": "The name of a signal, an artifact, a checkpoint or an event.",
    "next_action": "The one thing to do first.",
    "note": "Anything else to say about it.",
    "observed": "What a client found of a handoff's files, where they are. Of another revision it counts for nothing.",
    "operation_id": "Makes a repeat harmless: it gets the first answer. Also as the header `Idempotency-Key`.",
    "outcome": "How the work ended.",
    "override": "Why it counts as completed all the same.",
    "partial": "What becomes of what an unfinished attempt left in its declared files.",
    "path": "A file by its path, as it is listed.",
    "paths": "Files by their paths, as they are listed.",
    "pinned": "Whether recall never leaves it out.",
    "prefix": "Only names that begin so.",
    "ran": "What came of each check, run where the files are; recorded with the key's actor and the client's host.",
    "record_id": "The ref or id of a record, or a unique prefix of it.",
    "checkpoint_id": "The ref or id of a checkpoint, or a unique prefix of it.",
    "redact": "Whether secrets are masked rather than refused.",
    "ref": "A ref, such as `artifact:default/report.md@1` or `record:ID`; of an artifact also its name.",
    "records": "Up to 1,000 of them; each has `kind` and `text`, and may have what a record has.",
    "refs": "What it rests on: artifacts, records, checkpoints, handoffs, runs, by ref.",
    "relation": "How the source bears on the target.",
    "reopen": "Whether a task that is completed is opened again.",
    "repo_root": "The folder that paths are relative to, where the files are. A server never opens it.",
    "result": "What counts as the step's result: any JSON value.",
    "reuse_effects": "Whether effects at that step and after it keep their results, and are not done again.",
    "revision": "A revision of the anchor; without it the newest.",
    "risk": "What could go wrong.",
    "role": "Who speaks: user, assistant, system, tool, or any other word.",
    "rollback": "How to go back: prose, or rules about files.",
    "run": "Only what this run saved or pinned.",
    "run_checks": "Whether checks are run: a server runs none.",
    "run_id": "The id of a run, or a unique prefix of it.",
    "scope": "A namespace inside the tenant.",
    "seq": "The number of an entry in the run's journal.",
    "session": "The conversation that a run or a task belongs to.",
    "session_id": "The id of a session.",
    "resume": "Whether its run goes on in the server, where it can.",
    "shown": "The wait's `digest`: binds the answer to what was shown.",
    "source": "Where it came from, in the words of who saves it; of a link, the ref it begins at.",
    "standing": "Only those that stand so.",
    "state": "Of a list, only tasks in this state; of a fork, values that its state has from that step on.",
    "status": "Only those of this status.",
    "step": "A step by its label, as receipts show it.",
    "stop_run": "Whether a running run of the task is asked to stop at its next step.",
    "strict": "Whether a weak handoff is refused.",
    "summary": "Where the task stopped, or what it is, in a sentence.",
    "supersedes": "The id of the handoff that this one replaces.",
    "symbol": "Where in the file: a function, a class.",
    "tag": "Only those with this tag.",
    "tags": "Words to find it by.",
    "take": "Whether to take it from another claimer; needs `why`.",
    "target": "The ref that a link ends at.",
    "target_files": "The files that matter, named from the root of their repository. A server never opens them.",
    "task": "What is worked on over many runs.",
    "task_id": "The name of a task.",
    "tenant_id": "The tenant. Only without a key, on the server's own machine; a key says which.",
    "text": "What it says.",
    "tokens": "How many tokens there are.",
    "trace_id": "The trace that the run belongs to.",
    "type": "Only waits of this kind.",
    "upto": "The number of the last message that the memo stands for.",
    "wait": "Seconds to wait for the run to end, or to wait for something itself.",
    "why": "Why; it is on the record.",
    "yes": "Whether effects that were done may happen again, whichever they are.",
}


JSON = "application/json"
BINARY = {"type": "string", "format": "binary"}
REFS = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
EVERYWHERE = (Unauthenticated, Forbidden, RequestMalformed, RequestInvalid, NameInvalid, TenantNotFound, MethodRefused)
EVERYWHERE_TOO = (StoreBusy, Internal)
WITH_A_BODY = (BodyTooLarge, BodyTooSlow, MediaTypeRefused)
TAGS = {
    "handoff": "Contracts for whoever continues: stored, recovered with a verdict, claimed, settled.",
    "run": "Executions of flows.",
    "interrupt": "What runs wait for.",
    "signal": "Messages to runs and tasks.",
    "workspace": "What outlives a run: artifacts, records, links, checkpoints; and recall.",
    "task": "The host bridge: tasks that are opened, paused, resumed and completed.",
    "session": "Conversations: messages, a window of them, a memo.",
    "home": "What the home stands on, and whether its records are whole.",
    "server": "The server itself; these need no key.",
}
HEADERS = {
    "Idempotency-Key": "Makes a repeat harmless: the same as `operation_id`.",
    "Outlast-Scope": "The namespace that counts where the request names none.",
    "Outlast-Tenant": "The tenant, only without a key on the server's own machine: a key says which.",
    "Outlast-Actor": "Who acts, only without a key on the server's own machine: a key says who.",
    "Outlast-Claims": "Ids of claims, separated by spaces: whoever shows one is the claimer. Reading uses none.",
}


def described() -> dict[str, Any]:
    """The whole description."""
    from importlib.metadata import version

    paths: dict[str, Any] = {}
    for call in CALLS:
        paths.setdefault(_PARAMETER.sub(r"{\1}", call.path), {})[call.method.lower()] = _operation(call)
    tags = dict.fromkeys(call.tag for call in CALLS)
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
            "schemas": {name: schema for name, schema in _components()[1].items() if name not in _of_queries()},
            "examples": _examples(),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key: `ol_<id>_<secret>`."}
            },
        },
        "security": [{"key": []}, {}],
        "tags": [{"name": tag, "description": TAGS.get(tag, f"Calls about a {tag}.")} for tag in (*tags, "server")],
    }


def _operation(call: HttpCall) -> dict[str, Any]:
    role = call.role if isinstance(call.role, str) else "read"
    needs = call.role.says if isinstance(call.role, Gated) else f"Needs the role `{role}`."
    made: dict[str, Any] = {
        "operationId": call.name,
        "tags": [call.tag],
        "summary": call.summary,
        "description": " ".join(filter(None, [call.detail, needs])),
        "parameters": _parameters(call),
        "responses": _answers(call) | _errors(call),
    }
    if _takes_body(call):
        made["requestBody"] = _request_body(call)
    return made


def _takes_body(call: HttpCall) -> bool:
    return call.body is not None or call.takes != JSON


def _request_body(call: HttpCall) -> dict[str, Any]:
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


def _parameters(call: HttpCall) -> list[dict[str, Any]]:
    found = [_parameter("path", name, {"type": "string"}, required=True) for name in _PARAMETER.findall(call.path)]
    query = _schema(call.query)
    needed = query.get("required", [])
    found += [_parameter("query", name, kind, name in needed) for name, kind in query.get("properties", {}).items()]
    names = [*(["Idempotency-Key"] if call.takes_operation else []), *list(HEADERS)[1:]]
    return found + [_header(name, HEADERS[name]) for name in names] + [_header(*each) for each in call.headers.items()]


def _parameter(place: str, name: str, schema: dict[str, Any], required: bool) -> dict[str, Any]:
    schema = {key: value for key, value in schema.items() if key != "description"}
    return {"name": name, "in": place, "required": required, "description": WORDS.get(name, ""), "schema": schema}


def _header(name: str, says: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": says, "schema": {"type": "string"}}


# -- answers -----------------------------------------------------------------------------------------


def _answers(call: HttpCall) -> dict[str, Any]:
    answer = {"description": call.summary, "content": _content(call), "headers": _answer_headers(call)}
    own = dict.fromkeys((200, call.status) if call.serves else (call.status,), call.summary)
    found = {str(status): answer | {"description": says} for status, says in (own | call.also).items()}
    return found | ({"304": {"description": call.also[304]}} if 304 in call.also else {})


def _content(call: HttpCall) -> dict[str, Any]:
    """What an answer may be: JSON, a stream of it as well, or content as it is."""
    if call.gives is bytes:
        return {call.answers: {"schema": BINARY}}
    found: dict[str, Any] = {JSON: {"schema": _page(call) if call.page else _kind(call.gives)}}
    if call.answers != JSON:
        found[call.answers] = {"schema": {"type": "string"}}
    return found


def _answer_headers(call: HttpCall) -> dict[str, Any]:
    found = {
        "X-Request-Id": "Names the request in the server's log.",
        "Outlast-Damaged": "Records that were met and are not what was stored, percent-encoded, with commas between.",
    }
    if call.takes_operation:
        found["Idempotency-Replayed"] = "`true`: the same was done before, and this is its answer."
    if call.gives is bytes:
        found["ETag"] = "The digest of the content, in quotation marks."
    return {name: {"description": says, "schema": {"type": "string"}} for name, says in found.items()}


def _page(call: HttpCall) -> dict[str, Any]:
    beside = {
        name: {"type": "array", "items": _kind(kind), "description": says} for name, (kind, says) in call.beside.items()
    }
    return {
        "type": "object",
        "description": (Page.__doc__ or "").strip(),
        "required": ["items", "next"],
        "properties": {
            "items": {"type": "array", "items": _kind(call.gives)},
            "next": {"type": ["string", "null"], "description": "The `cursor` of the next page; null: there is none."},
            "damaged": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Records that are not what was stored; left out when there are none.",
            },
            **beside,
        },
    }


def _errors(call: HttpCall) -> dict[str, Any]:
    """Every error that a call may answer with, by status."""
    by_status: dict[int, list[type[OutlastError]]] = {}
    kinds = (*call.errors, *EVERYWHERE, *(WITH_A_BODY if _takes_body(call) else ()), *EVERYWHERE_TOO)
    for kind in dict.fromkeys(kinds):
        by_status.setdefault(problems.status_of(kind), []).append(kind)
    return {str(status): _error(by_status[status]) for status in sorted(by_status)}


def _error(kinds: list[type[OutlastError]]) -> dict[str, Any]:
    examples = {kind.code: {"$ref": f"#/components/examples/{kind.code}"} for kind in kinds}
    return {
        "description": "; ".join(f"`{kind.code}`" for kind in kinds),
        "content": {problems.MEDIA_TYPE: {"schema": _kind(Problem), "examples": examples}},
    }


def _examples() -> dict[str, Any]:
    """Each error once, by its code."""
    kinds: set[type[OutlastError]] = {*EVERYWHERE, *EVERYWHERE_TOO, *WITH_A_BODY}
    ordered = sorted(kinds.union(*(call.errors for call in CALLS)), key=lambda kind: kind.code)
    return {kind.code: {"summary": _says(kind), "value": _example(problems.status_of(kind), kind)} for kind in ordered}


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
    taken = dict.fromkeys(kind for call in CALLS for kind in (call.body, call.query) if kind is not None)
    kinds = list(dict.fromkeys([Problem, *taken, *(call.gives for call in CALLS)]))
    made = msgspec.json.schema_components(kinds, ref_template=REFS, schema_hook=_anything)
    names = {name: _short(name) for name in made[1]}
    assert len(set(names.values())) == len(names), "two types have one name: rename the door's"
    refs, schemas = _renamed(made[0], names), {names[name]: _renamed(each, names) for name, each in made[1].items()}
    found = dict(zip(kinds, refs, strict=True))
    for kind in taken:
        for name, field in schemas[_name_of(found[kind])].get("properties", {}).items():
            field.setdefault("description", WORDS.get(name, ""))
    return found, schemas


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


def _of_queries() -> set[str]:
    """Schemas whose fields stand as parameters already."""
    return {_name_of(_kind(call.query)) for call in CALLS}


def _kind(kind: Any) -> dict[str, Any]:
    return _components()[0][kind]


def _schema(kind: type) -> dict[str, Any]:
    """A type's own schema, not a reference to it."""
    own: dict[str, Any] = _components()[1][_name_of(_kind(kind))]
    return own


def _name_of(ref: dict[str, Any]) -> str:
    return str(ref["$ref"]).rpartition("/")[2]


def _anything(kind: type) -> dict[str, Any]:
    """What msgspec has no schema for is any JSON."""
    return {}


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
    wrong = {str(problems.status_of(kind)): _error([kind]) for kind in (Forbidden, *EVERYWHERE_TOO)}
    answer = {"200": {"description": summary, "content": {media_type: {"schema": schema}}}}
    return {
        "operationId": name,
        "tags": ["server"],
        "summary": summary,
        "description": "Needs no key.",
        "responses": answer | wrong,
        "security": [{}],
    }
