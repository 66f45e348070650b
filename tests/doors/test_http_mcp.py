"""MCP at /mcp of the server: the same keys, roles and places as every other path."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .server import Reply, Served, served

PROTOCOL = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home", keyed=True) as found:
        yield found


def ask(server: Served, method: str, params: Any = None, **options: Any) -> Reply:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    headers = PROTOCOL | options.pop("headers", {})
    return server.post("/mcp", body, headers=headers, **options)


def told(reply: Reply) -> Any:
    assert reply.status == 200, reply.raw
    text = reply.raw.decode()
    if reply.headers["content-type"].startswith("text/event-stream"):
        text = next(line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {"))
    return json.loads(text)["result"]


def call(server: Served, tool: str, arguments: Any, **options: Any) -> Any:
    return told(ask(server, "tools/call", {"name": tool, "arguments": arguments}, **options))


def test_every_tool_is_listed_and_a_handoff_goes_in_and_out(server: Served) -> None:
    tools = {tool["name"] for tool in told(ask(server, "tools/list"))["tools"]}
    assert {"handoff_store", "handoff_recover", "workspace_recall", "run_resume", "task_pause"} <= tools
    given = {"anchor": "task:mcp", "summary": "Half done", "handoff_text": "Go on in a.py", "next_action": "Go on"}
    assert not call(server, "handoff_store", given).get("isError")
    got = call(server, "handoff_recover", {"anchor": "task:mcp"})
    assert got["structuredContent"]["verdict"] == "candidate"
    assert any(reason["code"] == "unbound" for reason in got["structuredContent"]["reasons"])


def test_who_acts_is_who_the_key_says_and_roles_hold(server: Served) -> None:
    writer = server.keys().create("ann", tenant="default", roles=["write"]).text
    reader = server.keys().create("bob", tenant="default", roles=["read"]).text
    given = {"anchor": "task:ann", "summary": "Half done", "handoff_text": "Go on"}
    assert call(server, "handoff_store", given, key=writer)["structuredContent"]["actor"] == "ann"
    refused = call(server, "handoff_store", given, key=reader)
    assert (refused["isError"], refused["structuredContent"]["code"]) == (True, "forbidden")
    assert not call(server, "run_list", {}, key=reader).get("isError")


def test_another_tenant_finds_nothing(server: Served) -> None:
    given = {"anchor": "task:own", "summary": "Half done", "handoff_text": "Go on"}
    call(server, "handoff_store", given)
    other = server.keys().create("eve", tenant="elsewhere", roles=["admin"]).text
    refused = call(server, "handoff_recover", {"anchor": "task:own"}, key=other)
    assert refused["structuredContent"]["code"] == "handoff_not_found"


def test_a_bad_key_a_foreign_origin_and_another_method_are_refused_before_it(server: Served) -> None:
    assert ask(server, "tools/list", key="ol_aaaaaaaaaaaa_wrong").status == 401
    assert ask(server, "tools/list", headers={"origin": "http://evil.example"}).status == 403
    assert ask(server, "tools/list", headers={"host": "evil.example"}).status == 403
    assert server.get("/mcp").code == "method_refused"
    assert server.post("/mcp", raw=b"x" * 5_000_000).code == "body_too_large"


def test_a_run_whose_flow_the_server_was_not_given_is_not_resumed(server: Served) -> None:
    from .http_flows import asking

    with server.opened() as outlast:
        run_id = outlast.run(asking, "may I?").run_id
    refused = call(server, "run_resume", {"run_id": run_id})
    assert refused["structuredContent"]["code"] == "no_flows"


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"anchor": "task:a", "anchor": "task:b", "summary": "s", "handoff_text": "t"}',
        b'{"anchor": "task:a", "summary": "s", "handoff_text": "t", "must_keep": [{"file": "a", "file": "b"}]}',
        b'{"anchor": "task:a", "summary": "s", "handoff_text": "t", "more": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"anchor": "task:a", "summary": NaN, "handoff_text": "t"}',
    ],
    ids=["a key twice", "a key twice inside", "deep", "NaN"],
)
def test_json_that_says_two_things_or_is_too_deep_is_refused_as_everywhere(server: Served, arguments: bytes) -> None:
    said = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "handoff_store", "arguments": %s}}'
    reply = server.post("/mcp", raw=said % arguments, headers=PROTOCOL)
    assert (reply.status, reply.code) == (400, "request_malformed")
    assert call(server, "handoff_recover", {"anchor": "task:a"})["structuredContent"]["code"] == "handoff_not_found"


LOADED = """
import sys
from pathlib import Path
from tests.doors.server import served
from tests.doors.test_http_mcp import ask, told

with served(Path(sys.argv[1]) / "home") as server:
    assert server.get("/v1/runs").status == 200
    print("mcp" in sys.modules, len(told(ask(server, "tools/list"))["tools"]) > 20, "mcp" in sys.modules)
"""


def test_a_server_loads_mcp_with_the_first_request_for_it(tmp_path: Path) -> None:
    words = [sys.executable, "-c", LOADED, str(tmp_path)]
    made = subprocess.run(words, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert made.stdout.split() == ["False", "True", "True"], made.stderr


def test_many_who_ask_first_at_the_same_time_are_all_answered(tmp_path: Path) -> None:
    with served(tmp_path / "home") as server, ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask, server, "tools/list") for _ in range(8)]
        assert {len(told(each.result())["tools"]) > 20 for each in asked} == {True}
