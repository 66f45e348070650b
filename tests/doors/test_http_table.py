"""The table of calls: what routes, OpenAPI and clients are made of agrees with the library."""

import inspect
import re
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest

from outlast import Outlast, errors
from outlast.doors.http import blobs as artifact_content
from outlast.doors.http import (
    handoffs as handoff_calls,
)
from outlast.doors.http import (
    problems,
)
from outlast.doors.http import (
    records as record_calls,
)
from outlast.doors.http import (
    runs as run_calls,
)
from outlast.doors.http import (
    sessions as session_calls,
)
from outlast.doors.http import (
    tasks as task_calls,
)
from outlast.doors.http import (
    waits as wait_calls,
)
from outlast.doors.http import (
    workspace as workspace_calls,
)
from outlast.doors.http.app import CALLS
from outlast.doors.http.calls import HttpCall
from outlast.doors.http.openapi import WORDS, described
from outlast.home.keys import ROLES
from outlast.python.handoffs import Handoffs
from outlast.python.sessions import Sessions
from outlast.python.tasks import Tasks
from outlast.python.workspace import Workspace

SAME: dict[type, tuple[Callable[..., Any], set[str]]] = {  # a body, its method, and what the door says by itself
    handoff_calls.Store: (Handoffs.store, set()),
    handoff_calls.Recover: (Handoffs.recover, {"agree"}),
    handoff_calls.Verify: (Handoffs.verify, {"agree"}),
    handoff_calls.Claim: (Handoffs.claim, set()),
    handoff_calls.Renew: (Handoffs.renew, set()),
    handoff_calls.Settle: (Handoffs.settle, {"agree"}),
    run_calls.Retry: (Outlast.retry, {"run_id"}),
    run_calls.Skip: (Outlast.skip, {"run_id"}),
    run_calls.Rewind: (Outlast.rewind, {"run_id"}),
    run_calls.Fork: (Outlast.fork, {"run_id"}),
    run_calls.Abort: (Outlast.abort, {"run_id"}),
    run_calls.Pause: (Outlast.pause, {"run_id"}),
    run_calls.Resume: (Outlast.resume, {"run_id"}),
    wait_calls.Answer: (Outlast.answer, {"interrupt_id"}),
    wait_calls.Cancel: (Outlast.cancel, {"interrupt_id"}),
    wait_calls.Send: (Outlast.signal, set()),
    record_calls.RecordMake: (Workspace.record, set()),
    record_calls.RecordMany: (Workspace.record_many, set()),
    record_calls.RecordPin: (Workspace.pin, {"ref"}),
    record_calls.LinkMake: (Workspace.link, set()),
    workspace_calls.CheckpointPin: (Workspace.checkpoint, set()),
    workspace_calls.Recall: (Workspace.recall, {"tokens_of", "embed"}),
    artifact_content.UploadQuery: (Workspace.save, {"content", "actor"}),
    task_calls.TaskOpen: (Tasks.open, {"task_id"}),
    session_calls.SessionOpen: (Sessions.open, set()),
    session_calls.SessionAppend: (Sessions.append, {"session_id"}),
    session_calls.SessionAppendMany: (Sessions.append_many, {"session_id"}),
    session_calls.SessionMemo: (Sessions.set_memo, {"session_id"}),
}


@pytest.mark.parametrize("body", SAME, ids=lambda kind: kind.__name__)
def test_a_body_has_the_fields_and_defaults_of_its_method(body: type) -> None:
    method, by_the_door = SAME[body]
    wanted = {p.name: p.default for p in inspect.signature(method).parameters.values() if p.name != "self"}
    seen = {"binding", "ran", "observed", "looks"}  # what a client found of files, beside the method's own fields
    fields = {each.name: each for each in msgspec.structs.fields(body) if each.name not in seen}
    assert set(fields) == set(wanted) - by_the_door
    wanted |= {"resume": True} if body is wait_calls.Answer else {}  # who answers over HTTP needs no second call
    for name, field in fields.items():
        default = inspect.Parameter.empty if field.required else field.default
        assert default in (wanted[name], msgspec.UNSET), name


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_every_call_says_who_may_what_it_does_and_how_it_fails(call: HttpCall) -> None:
    assert (call.does is None) != (call.serves is None)
    assert call.summary[0].isupper()
    assert not call.summary.endswith(".")
    assert callable(call.role) or call.role in ROLES
    assert all(issubclass(kind, errors.OutlastError) for kind in call.errors)
    assert call.method == "GET" or call.body is not None or call.takes != "application/json"
    if call.body is not None:
        assert call.example is not None
        msgspec.convert(call.example, call.body)
    for kind in (call.body, call.query):
        assert [name for name in (kind.__struct_fields__ if kind else ()) if name not in WORDS] == []


def test_names_and_places_are_taken_once() -> None:
    assert len({call.name for call in CALLS}) == len(CALLS)
    assert len({(call.method, call.path) for call in CALLS}) == len(CALLS)


def test_who_only_reads_changes_nothing() -> None:
    writes = {call.name for call in CALLS if call.method == "POST" and call.role == "read"}
    assert writes <= {"handoff_lint", "workspace_recall", "task_inspect_seen"}
    assert {call.name for call in CALLS if call.method == "GET" and call.role != "read"} == set()


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
            answer = operation["responses"][str(problems.status_of(kind))]
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
    from outlast.runs.run import STATUSES

    assert set(get_args(run_calls.Status)) == set(STATUSES)
