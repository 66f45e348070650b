"""The table of calls: what routes, OpenAPI and clients are made of agrees with the library."""

import inspect
import re
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest

from outlast import Outlast, errors
from outlast.doors.http.app import CALLS, SERVES
from outlast.doors.http.exchange import status_of
from outlast.doors.http.handlers import HANDLERS
from outlast.doors.http.openapi import described
from outlast.home.keys import ROLES
from outlast.operations.operation import WHOSE, Operation, sentence_of
from outlast.python.handoffs import Handoffs
from outlast.python.queues import Schedules
from outlast.python.sessions import Sessions
from outlast.python.tasks import Tasks, TaskSession
from outlast.python.workspace import Workspace

OBJECTS = {"handoff": Handoffs, "schedules": Schedules, "workspace": Workspace, "sessions": Sessions, "tasks": Tasks}
OTHERWISE: dict[str, Callable[..., Any]] = {  # what an operation calls that is not called by a name alone
    "run_resume": Outlast.resume,
    "workspace_save": Workspace.save,
    "workspace_upload": Workspace.save,
    "interrupt_list": Outlast.interrupts,
    "interrupt_inbox": Outlast.inbox,
    "task_open": Tasks.open,
    "task_resume": TaskSession.resume_task,
    "task_complete": TaskSession.complete_task,
    "task_record": TaskSession.record_event,
    "task_inspect": TaskSession.inspect_task_context,
    "task_events": TaskSession.events,
}
WITHOUT_METHOD = {  # of which Python has no method of the same fields, and why
    "run_start": "Python gives the flow itself, and its inputs as arguments",
    "run_outcome": "Python waits: Outlast.wait",
    "run_displaced_content": "a displaced file has its content",
    "run_log": "a transcript has its content",
    "run_audit": "Python audits flows too",
    "key_list": "Keys has them",
    "stream_token": "only a web page needs one",
    "workspace_content": "an artifact has its content",
    "handoff_put_blob": "it is for who has the files",
    "handoff_get_blob": "it is for who has the files",
    "handoff_near": "it is for who has the files",
    "handoff_lint": "Python takes any field of a handoff",
    "task_pause": "Python takes any field of a handoff",
    "task_inspect_seen": "it is task_inspect with what was seen of files",
}
PYTHON_ONLY = {"agree", "tokens_of", "embed", "before", "content"}  # of this process, or in another form
DOOR_ONLY = {"binding", "ran", "observed", "looks", "cursor", "wait", "content", "content_base64"}
SESSIONS = {"task_id", "claim_id", "repo_root"}  # of a task: said once, when its session is made
MORE = {  # beside that
    "run_events": {"follow"},
    "run_list": {"started_by"},
    "session_messages": {"last"},
    "interrupt_list": {"limit"},
    "run_receipts": {"limit"},
    "handoff_get": {"anchor", "revision"},
    "handoff_get_by_anchor": {"handoff_id"},
    "task_events": {"limit"},
}
OTHER_DEFAULTS = {  # who answers over HTTP needs no second call; one of two ways is asked for; pages are as long
    ("interrupt_answer", "resume"),
    ("handoff_get", "handoff_id"),
    ("handoff_get_by_anchor", "anchor"),
    *((name, "limit") for name in ("session_messages", "workspace_checkpoints", "task_events")),
}


def method_of(call: Operation) -> Callable[..., Any]:
    if call.name in OTHERWISE:
        return OTHERWISE[call.name]
    noun, _, name = call.calls.rpartition(".")
    found: Callable[..., Any] = getattr(OBJECTS[noun] if noun else Outlast, name)
    return found


@pytest.mark.parametrize(
    "call", [call for call in CALLS if call.name not in WITHOUT_METHOD], ids=lambda call: call.name
)
def test_an_operation_has_the_fields_and_defaults_of_its_method(call: Operation) -> None:
    """But for who asks and where, which the object is opened with."""
    of_session = SESSIONS if call.name.startswith("task_") and "tasks.Tasks." not in str(method_of(call)) else set()
    wanted = {p.name: p.default for p in inspect.signature(method_of(call)).parameters.values() if p.name != "self"}
    fields = {each.name: each for each in msgspec.structs.fields(call.request)}
    settled = {*WHOSE, *DOOR_ONLY, *PYTHON_ONLY, *MORE.get(call.name, ()), *(of_session - set(wanted))}
    settled |= {"operation_id"} if call.repeats else set()
    assert set(fields) - settled == set(wanted) - settled
    for name in set(fields) & set(wanted) - settled:
        default = inspect.Parameter.empty if fields[name].required else fields[name].default
        assert default in (wanted[name], msgspec.UNSET) or (call.name, name) in OTHER_DEFAULTS, name


def test_what_is_said_to_be_otherwise_is_an_operation() -> None:
    names = {call.name for call in CALLS}
    assert {*OTHERWISE, *WITHOUT_METHOD, *MORE} <= names
    assert {*HANDLERS, *SERVES} <= names


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_every_call_says_who_may_what_it_does_and_how_it_fails(call: Operation) -> None:
    assert call.calls or call.name in {*HANDLERS, *SERVES}
    assert call.summary[0].isupper()
    assert not call.summary.endswith(".")
    assert callable(call.role) or call.role in ROLES
    assert all(issubclass(kind, errors.OutlastError) for kind in call.errors)
    assert call.method == "GET" or call.body is not None or call.takes != "application/json"
    if call.body is not None:
        assert call.example is not None
        msgspec.convert(dict(call.example), call.body)
    assert [name for name in call.request.__struct_fields__ if not sentence_of(call.request, name)] == []


def test_what_has_a_name_for_its_call_says_that_the_name_may_be_taken() -> None:
    said = {one["operationId"]: one["responses"] for path in described()["paths"].values() for one in path.values()}
    assert [call.name for call in CALLS if call.takes_operation and "409" not in said[call.name]] == []


def test_names_and_places_are_taken_once() -> None:
    assert len({call.name for call in CALLS}) == len(CALLS)
    assert len({(call.method, call.path) for call in CALLS}) == len(CALLS)


def test_who_only_reads_changes_nothing() -> None:
    writes = {call.name for call in CALLS if call.method == "POST" and call.role == "read"}
    assert writes <= {"handoff_lint", "workspace_recall", "task_inspect_seen", "stream_token"}
    assert {call.name for call in CALLS if call.method == "GET" and call.role != "read"} == {"key_list"}  # for admins


# OpenAPI


def refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [value["$ref"]] if "$ref" in value else [ref for each in value.values() for ref in refs(each)]
    return [ref for each in value for ref in refs(each)] if isinstance(value, list) else []


def test_openapi_describes_every_call_and_refers_only_to_what_is_there() -> None:
    page = described()
    assert page["openapi"] == "3.1.0"
    for call in CALLS:
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", call.path)
        operation = page["paths"][path][call.method.lower()]
        assert operation["operationId"] == call.name
        assert all(each["description"] for each in operation["parameters"]), call.name
        for kind in call.errors:
            answer = operation["responses"][str(status_of(kind))]
            assert kind.code in answer["content"]["application/problem+json"]["examples"]
        assert {"400", "401", "403", "422", "500"} <= set(operation["responses"])
    for ref in set(refs(page)):
        found: Any = page
        for part in ref.removeprefix("#/").split("/"):
            found = found[part]
        assert found


def test_openapi_has_a_sentence_for_every_field_that_is_sent() -> None:
    schemas = described()["components"]["schemas"]
    for call in CALLS:
        for kind in (call.body, call.query):
            fields = schemas[kind.__name__]["properties"] if kind and kind.__name__ in schemas else {}
            assert [name for name, field in fields.items() if not field.get("description")] == []


def test_unions_of_words_are_the_domains_own() -> None:
    from outlast.operations.fields import RunStatus
    from outlast.runs.run import STATUSES

    assert set(get_args(RunStatus)) == set(STATUSES)
