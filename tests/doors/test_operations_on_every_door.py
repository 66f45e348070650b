"""What is declared once is on every door: a new field, and the same answers whichever door is asked."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast import Outlast
from outlast.errors import OutlastError
from outlast.operations.fields import Json
from outlast.operations.table import OPERATIONS

from .mcp_place import Caller, connected
from .server import Served, served

NEW_FIELD = '''
import json
from typing import Annotated
from outlast.operations import operation as declared, workspace
from outlast.operations.fields import about

class MakeRecord(workspace.MakeRecord):
    """What was observed."""
    mood: Annotated[str, about("How it felt.")] = "calm"

old = declared.OPERATIONS["workspace_record"]
declared.operation(old.name, f"{old.method} {old.path}", old.summary, calls=old.calls, role=old.role,
    answer=old.answer, errors=old.errors, example=old.example)(MakeRecord)

from outlast.python.workspace import Workspace
def record(self, kind, text, *, mood="calm", scope=None): ...
Workspace.record = record

from outlast.doors.http import app, bodies, openapi
from outlast.doors.mcp.server import Served
from outlast.remote.workspace import RemoteWorkspace

class Line:
    def operation_id(self): return "one"
    def ask(self, method, path, **said):
        self.said = said["body"]
        raise SystemExit

call = next(each for each in app.CALLS if each.name == old.name)
decoded = bodies.decode(b'{"kind": "note", "text": "x", "mood": "glad"}', call.body)
schema = openapi.described()["components"]["schemas"]["MakeRecord"]["properties"]["mood"]
tool = next(each for each in Served(None, None, ()).tools if each.name == old.name)
client = RemoteWorkspace.__new__(RemoteWorkspace)
client._line, client._check_record = Line(), lambda given: None
try:
    client.record("note", "x", mood="glad")
except SystemExit:
    pass
print(json.dumps({"http": decoded.mood, "openapi": schema["description"],
    "mcp": tool.input_schema["properties"]["mood"]["description"], "client": client._line.said["mood"]}))
'''


def test_a_field_that_is_added_to_an_operation_is_on_every_door() -> None:
    asked = subprocess.run([sys.executable, "-c", NEW_FIELD], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr[-2000:]
    says = "How it felt."
    assert json.loads(asked.stdout) == {"http": "glad", "openapi": says, "mcp": says, "client": "glad"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_takes_who_asks_and_where_and_a_write_its_own_name(name: str) -> None:
    operation = OPERATIONS[name]
    wanted = {"scope", "actor", "tenant_id"} | ({"operation_id"} if operation.writes else set())
    assert wanted <= set(operation.request.__struct_fields__)


# -- the same asked of every door --------------------------------------------------------------------


class Doors:
    """One home, asked in four ways; each in a scope of its own."""

    def __init__(self, server: Served, call: Caller) -> None:
        self.server, self.call = server, call
        self.embedded, self.client = server.opened(), Outlast(f"http://127.0.0.1:{server.port}")

    def python(self, name: str, said: Json) -> Any:
        return self._by(self.embedded, name, said)

    def over_client(self, name: str, said: Json) -> Any:
        return self._by(self.client, name, said)

    def _by(self, outlast: Outlast, name: str, said: Json) -> Any:
        try:
            found = OPERATIONS[name].perform(outlast, said)
        except OutlastError as error:
            return error.code
        return json.loads(json.dumps(OPERATIONS[name].answer.shows(found), default=str))

    def http(self, name: str, said: Json) -> Any:
        operation = OPERATIONS[name]
        reply = self.server.ask(operation.method, operation.path, said)
        return reply.json if reply.status == 200 else _family(reply.code or "")

    def mcp(self, name: str, said: Json) -> Any:
        result = self.call(name, **said)
        found: Any = result.structured_content
        return _family(found["code"]) if result.is_error else found


def _family(code: str) -> str:
    """A door that reads JSON says of a wrong type what the library says of a wrong value."""
    return {"request_invalid": "value_refused", "invalid": "value_refused"}.get(code, code)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    home: Path = tmp_path_factory.mktemp("home") / "home"
    with served(home) as server, connected(f"http://127.0.0.1:{server.port}/mcp") as call:
        found = Doors(server, call)
        yield found
        found.embedded.close()
        found.client.close()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
RECORDS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["observation", "decision", "evidence", "note"]), "text": TEXTS},
    optional={"tags": st.lists(TEXTS, max_size=2), "pinned": st.booleans(), "task": TEXTS, "source": TEXTS},
)
STORED = st.fixed_dictionaries(
    {"anchor": TEXTS, "summary": TEXTS, "handoff_text": TEXTS},
    optional={
        "next_action": TEXTS,
        "risk": TEXTS,
        "tags": st.lists(TEXTS, max_size=2),
        "acceptance_checks": st.lists(TEXTS, max_size=2),
        "must_keep": st.lists(TEXTS, max_size=2),
    },
)
FEW = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))


def same(doors: Doors, name: str, said: Json, fields: tuple[str, ...]) -> None:
    told = [
        ask(name, said | {"scope": scope})
        for scope, ask in (
            ("one", doors.python),
            ("two", doors.over_client),
            ("three", doors.http),
            ("four", doors.mcp),
        )
    ]
    shown = [each if isinstance(each, str) else {field: each[field] for field in fields} for each in told]
    assert shown == shown[:1] * 4


@FEW
@given(RECORDS)
def test_a_record_is_the_same_by_every_door(doors: Doors, said: Json) -> None:
    same(doors, "workspace_record", said, ("kind", "text", "tags", "pinned", "task"))


@FEW
@given(STORED)
def test_a_handoff_is_the_same_by_every_door(doors: Doors, said: Json) -> None:
    fields = ("anchor", "summary", "handoff_text", "next_action", "risk", "tags", "acceptance_checks", "must_keep")
    same(doors, "handoff_store", said | {"bind": False}, fields)
