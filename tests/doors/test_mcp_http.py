"""MCP at `/mcp`, over real HTTP: the stateless revision of 2026-07-28, and the older handshake."""

import threading
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import MCPError
from starlette.applications import Starlette
from starlette.routing import Route

from outlast import Outlast
from outlast.doors.http.mcp import LOOPBACK, Mounted
from outlast.doors.mcp.tools import TOOLS as TABLE
from outlast.errors import Forbidden
from outlast.python.project import Flows

from .mcp_place import TOOLS, Caller, Place, connected, contract, recalled, story

ERAS = {"2026-07-28": "2026-07-28", "handshake": "legacy"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


class Server:
    """The door in a server of its own, with one rule of who may do what."""

    def __init__(self, outlast: Outlast) -> None:
        self.outlast = outlast
        self.asked: list[tuple[str, str]] = []
        self.refused: set[str] = set()
        self.door = Mounted(self._hold_of, self._allow, LOOPBACK)
        app = Starlette(routes=[Route("/mcp", self.door)], lifespan=self._lifespan)
        self.uvicorn = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> Any:
        async with self.door.lifespan():
            yield

    def _hold_of(self, scope: Any) -> Outlast:
        assert scope["path"] == "/mcp"
        assert threading.current_thread() is not self.thread, "it would hold up the loop"
        return self.outlast

    def _allow(self, scope: Any, role: str, what: str) -> None:
        self.asked.append((role, what))
        if role in self.refused:
            raise Forbidden(f"this key has no role {role}", "ask for one that has")

    @contextmanager
    def serving(self) -> Iterator[str]:
        self.thread = threading.Thread(target=self.uvicorn.run, daemon=True)
        self.thread.start()
        until = time.monotonic() + 60
        while not self.uvicorn.started:
            assert time.monotonic() < until
            time.sleep(0.01)
        port = self.uvicorn.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"
        self.uvicorn.should_exit = True
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("project"))
    with made.inside():
        yield made


@pytest.fixture(scope="module")
def server(place: Place) -> Iterator[Server]:
    with place.opened(actor="model") as outlast:
        outlast._flows = Flows(("flows.py",), outlast.home)
        yield Server(outlast)


@pytest.fixture(scope="module")
def url(server: Server) -> Iterator[str]:
    with server.serving() as address:
        yield address


@pytest.fixture(scope="module", params=ERAS)
def call(request: pytest.FixtureRequest, url: str) -> Iterator[Caller]:
    with connected(url, mode=ERAS[request.param]) as caller:
        caller.era = request.param
        yield caller


def test_every_tool_can_be_called_in_both_eras(call: Caller, place: Place) -> None:
    assert {each.name for each in call.does(call.client.list_tools).tools} == TOOLS
    version = call.client.protocol_version
    assert version == "2026-07-28" if call.era == "2026-07-28" else version < "2026"
    story(call, place, f"http{call.era[:4]}")
    recalled(call, f"tide{call.era[:4]}")


def test_resources_and_the_prompt_can_be_read_in_both_eras(call: Caller) -> None:
    anchor = f"read-{call.era}"
    call.value("handoff_store", anchor=anchor, **contract())
    text, data = call.does(lambda: call.client.read_resource(f"handoff://default/{anchor}")).contents
    assert text.text.startswith("# Verdict: ")
    assert data.mime_type == "application/json"
    assert anchor in [each.name for each in call.does(call.client.list_resources).resources]
    (message,) = call.does(lambda: call.client.get_prompt("resume", {"anchor": anchor})).messages
    assert message.content.text.startswith("# Verdict: ")
    with pytest.raises(MCPError) as error:
        call.does(lambda: call.client.read_resource("handoff://default/none"))
    assert error.value.error.code == (-32602 if call.era == "2026-07-28" else -32002)


def test_errors_have_the_same_codes_in_both_eras(call: Caller) -> None:
    assert call.problem("handoff_recover", anchor="none")["code"] == "handoff_not_found"
    assert call.problem("run_list", limits=1)["code"] == "invalid"
    with pytest.raises(MCPError, match="unknown tool"):
        call("nothing")


def test_a_server_reads_no_file_of_its_own_for_whoever_asks(call: Caller) -> None:
    (tool,) = [each for each in call.does(call.client.list_tools).tools if each.name == "workspace_save"]
    assert "path" not in tool.input_schema["properties"]
    problem = call.problem("workspace_save", name="x", path="/etc/passwd")
    assert (problem["code"], problem["path"]) == ("invalid", "path")


def test_each_call_asks_for_the_role_that_it_needs(call: Caller, server: Server) -> None:
    server.asked.clear()
    server.refused = {"write", "approve"}
    try:
        assert call.problem("interrupt_answer", interrupt_id="x", answer=1)["code"] == "forbidden"
        assert call.problem("handoff_store", anchor="x", **contract())["code"] == "forbidden"
        assert call.problem("handoff_recover", anchor="none", claim=True)["code"] == "forbidden"
        assert call.problem("handoff_recover", anchor="none")["code"] == "handoff_not_found"
        call.value("run_list")
    finally:
        server.refused = set()
    needed = [role for role, what in server.asked if what != "tools"]
    assert [role for role in needed if role != "approve"] == ["write", "write", "read", "read"]
    assert needed[0] == "approve"


def test_the_table_of_roles_is_that_of_the_server() -> None:
    roles = {name: tool.operation.role for name, tool in TABLE.items()}
    assert {name for name, role in roles.items() if role == "approve"} == {
        "interrupt_answer",
        "run_skip",
        "run_rewind",
        "run_fork",
    }
    assert {name for name, role in roles.items() if role == "read"} == {
        "run_list",
        "run_show",
        "run_events",
        "interrupt_list",
        "workspace_get",
        "workspace_recall",
        "workspace_why",
        "session_window",
    }


def test_a_claim_is_shown_by_its_id_because_nothing_is_kept_between_requests(call: Caller) -> None:
    task = f"shown-{call.era}"
    call.value("task_pause", task=task, **contract(acceptance_checks=["test -d ."]))
    claim = call.value("task_resume", task=task)["claim"]["id"]
    assert call.problem("task_complete", task=task)["code"] == "handoff_claimed"
    assert call.value("task_complete", task=task, claim_id=claim)["by"] == "model"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:1"}, 200),
    ],
)
@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
def test_a_foreign_host_or_origin_is_turned_away(url: str, version: str, headers: dict[str, str], status: int) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"_meta": meta} if version == "2026-07-28" else {}
    sent = {**ACCEPT, **headers, "MCP-Protocol-Version": version, "Mcp-Method": "tools/list"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    assert httpx2.post(url, json=body, headers=sent).status_code == status


def test_only_post_is_served_and_a_large_body_is_refused(url: str) -> None:
    for method in ("GET", "DELETE", "PUT"):
        answer = httpx2.request(method, url, headers=ACCEPT)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert httpx2.post(url, content=b" " * (4 * 1024 * 1024 + 1), headers=ACCEPT).status_code == 413


def test_before_and_after_its_lifespan_nothing_is_served() -> None:
    door = Mounted(lambda scope: None)  # type: ignore[arg-type, return-value]

    class Asked:
        def __init__(self) -> None:
            self.status = 0

        async def __call__(self, message: Any) -> None:
            self.status = message.get("status", self.status)

    import asyncio

    asked = Asked()
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    asyncio.run(door(scope, lambda: None, asked))  # type: ignore[arg-type, return-value]
    assert asked.status == 503
