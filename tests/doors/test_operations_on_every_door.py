"""What is declared once is on every door: a new field, and the same answers whichever door is asked."""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast import Outlast
from outlast.doors.cli import main
from outlast.doors.cli.group import CommandGroup, cli
from outlast.doors.cli.invocation import WrappedCommand
from outlast.doors.mcp.client import Tool, schema_of
from outlast.doors.mcp.tools import TOOLS
from outlast.errors import OutlastError
from outlast.operations.fields import Json
from outlast.operations.options import FILE, NOT_BY_COMMAND, as_text, options_of
from outlast.operations.shown import shown
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

old = declared.DECLARED["workspace_record"]
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
from outlast.doors.cli import invocation as of_commands
from outlast.operations.options import as_text
of_commands._table = lambda: json.loads(as_text())
from outlast.doors.cli.workspace import record as command
option = next(each for each in command.params if each.name == "mood")

client = RemoteWorkspace.__new__(RemoteWorkspace)
client._line, client._check_record = Line(), lambda given: None
try:
    client.record("note", "x", mood="glad")
except SystemExit:
    pass
print(json.dumps({"http": decoded.mood, "openapi": schema["description"],
    "mcp": tool.input_schema["properties"]["mood"]["description"], "client": client._line.said["mood"],
    "cli": [option.opts, option.default, option.help]}))
'''


def test_a_field_that_is_added_to_an_operation_is_on_every_door() -> None:
    asked = subprocess.run([sys.executable, "-c", NEW_FIELD], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr[-2000:]
    says = "How it felt."
    command = [["--mood"], "calm", says]
    assert json.loads(asked.stdout) == {
        "http": "glad",
        "openapi": says,
        "mcp": says,
        "client": "glad",
        "cli": command,
    }


def test_the_options_of_commands_are_those_that_are_made_from_operations() -> None:
    assert FILE.read_text("utf-8").splitlines() == as_text().splitlines(), (
        "write it anew: python -m outlast.operations.options"
    )


def test_the_table_is_in_the_same_order_whichever_noun_was_loaded_first() -> None:
    look = "from outlast.operations import {}; from outlast.operations.table import OPERATIONS; print(*OPERATIONS)"
    said = [[sys.executable, "-c", look.format(noun)] for noun in ("handoffs", "runs", "workspace")]
    told = {subprocess.run(words, check=True, capture_output=True, text=True).stdout for words in said}
    assert told == {" ".join(OPERATIONS) + "\n"}


def every_command(group: CommandGroup) -> Iterator[click.Command]:
    for name in group.lines:
        found = group.get_command(click.Context(group), name)
        assert found is not None
        yield from every_command(found) if isinstance(found, CommandGroup) else [found]


def test_every_operation_has_a_command_or_a_reason_why_not() -> None:
    taken = {found.of for found in every_command(cli) if isinstance(found, WrappedCommand)} - {""}
    assert taken | NOT_BY_COMMAND.keys() == OPERATIONS.keys()
    assert not taken & NOT_BY_COMMAND.keys()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in NOT_BY_COMMAND])
def test_every_command_takes_who_asks_and_where(name: str) -> None:
    for found in every_command(cli):
        if isinstance(found, WrappedCommand) and found.of == name:
            options = {option for each in found.params for option in each.opts}
            assert {"--tenant", "--scope", "--actor", "--json", "--home"} <= options
            takes_id = OPERATIONS[name].writes and not OPERATIONS[name].repeats
            assert not takes_id or "--operation-id" in options, found.name


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_takes_who_asks_and_where_and_a_write_its_own_name(name: str) -> None:
    operation = OPERATIONS[name]
    wanted = {"scope", "actor", "tenant_id"} | ({"operation_id"} if operation.writes else set())
    assert wanted <= set(operation.request.__struct_fields__)


# -- the same asked of every door --------------------------------------------------------------------


COMMANDS = {  # by operation: its words, and which of its fields are arguments
    "workspace_record": (("workspace", "record"), ("kind", "text")),
    "handoff_store": (("handoff", "store"), ("anchor",)),
}


class Doors:
    """One home, asked in five ways; each in a scope of its own."""

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
        return json.loads(json.dumps(shown(found), default=str))

    def http(self, name: str, said: Json) -> Any:
        operation = OPERATIONS[name]
        reply = self.server.ask(operation.method, operation.path, said)
        return reply.json if reply.status == 200 else _family(reply.code or "")

    def command(self, name: str, said: Json) -> Any:
        """What is typed is made of the options that the operation has."""
        words, arguments = COMMANDS[name]
        options = [each for each in options_of(OPERATIONS[name]) if each["name"] not in arguments]
        typed = [word for each in options for word in _typed(each, said.get(each["name"]))]
        where = ["--json", "--home", str(self.server.home), "--scope", said["scope"]]
        out = io.TextIOWrapper(io.BytesIO(), "utf-8")
        with contextlib.redirect_stdout(out), pytest.raises(SystemExit):
            main([*words, *where, *typed, "--", *(said[each] for each in arguments)])
        out.seek(0)
        found = json.loads(out.read())
        return _family(found["error"]["code"]) if "error" in found else found

    def mcp(self, name: str, said: Json) -> Any:
        result = self.call(name, **said)
        found: Any = result.structured_content
        return _family(found["code"]) if result.is_error else found


def _typed(option: Json, value: Any) -> list[str]:
    """A field as it is typed."""
    flag = option["flags"][-1]
    if option["kind"] == "flag":
        return [flag] if value not in (None, option["default"]) else []
    values = [] if value is None else value if isinstance(value, list) else [value]
    return [f"{flag}={each}" for each in values]


def _is_typed_otherwise(said: Json) -> bool:
    """Whether a text is a file (@FILE), standard input (-), JSON or a path for whoever types it."""
    texts = [each for value in said.values() for each in (value if isinstance(value, list) else [value])]
    return "must_keep" in said or any(str(each)[:1] in ("@", "-", "{") for each in texts)


def _family(code: str) -> str:
    """A door that reads JSON or words says of a wrong type what the library says of a wrong value."""
    return {"request_invalid": "value_refused", "invalid": "value_refused", "usage": "value_refused"}.get(code, code)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    home: Path = tmp_path_factory.mktemp("home") / "home"
    with served(home) as server, connected(f"http://127.0.0.1:{server.port}/mcp") as call:
        found = Doors(server, call)
        yield found
        found.embedded.close()
        found.client.close()


def least(tool: Tool) -> Json:
    """The arguments that a tool needs, whatever they say."""
    of_kind = {"string": "x", "integer": 1, "number": 1, "array": [], "object": {}, "boolean": False}
    schema = schema_of(tool.takes)
    needed = {name: schema["properties"][name] for name in schema["required"]}
    return {name: each.get("enum", [of_kind.get(each.get("type"), "x")])[0] for name, each in needed.items()}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_finds_no_tenant_and_takes_no_actor_but_the_callers_own(doors: Doors, name: str) -> None:
    given = least(TOOLS[name])
    assert doors.call.problem(name, **given, tenant_id="another")["code"] == "tenant_not_found"
    assert doors.call.problem(name, **given, actor="somebody-else")["code"] == "forbidden"


def test_a_misspelt_value_of_a_filter_is_refused_with_those_that_there_are(doors: Doors) -> None:
    told = [
        json.dumps(doors.server.get("/v1/runs?status=sleping").json),
        json.dumps(doors.call.problem("run_list", status="sleping")),
    ]
    for outlast in (doors.embedded, doors.client):
        with pytest.raises(OutlastError) as refused:
            outlast.runs(status="sleping")
        told.append(str(refused.value))
    assert all("queued, running, waiting, failed" in each for each in told), told


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
    told += [] if _is_typed_otherwise(said) else [doors.command(name, said | {"scope": "five"})]
    shown = [each if isinstance(each, str) else {field: each[field] for field in fields} for each in told]
    assert shown == shown[:1] * len(shown)


@FEW
@given(RECORDS)
def test_a_record_is_the_same_by_every_door(doors: Doors, said: Json) -> None:
    same(doors, "workspace_record", said, ("kind", "text", "tags", "pinned", "task"))


@FEW
@given(STORED)
def test_a_handoff_is_the_same_by_every_door(doors: Doors, said: Json) -> None:
    fields = ("anchor", "summary", "handoff_text", "next_action", "risk", "tags", "acceptance_checks", "must_keep")
    same(doors, "handoff_store", said | {"bind": False}, fields)
