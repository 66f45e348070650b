"""A key that is over keeps nothing open: its streams end within a moment, those of others go on."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from outlast.clock import ManualClock
from outlast.home.keys import Keys

from .hook_work import until
from .server import Served, served

FLOWS = str(Path(__file__).with_name("http_flows.py"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home", keyed=True, flows=(FLOWS,), poll_seconds=0.02, key_seconds=0.05) as found:
        yield found


@pytest.fixture
def run(server: Served, tmp_path: Path) -> Iterator[str]:
    """One that goes on as long as the test does."""
    over = tmp_path / "over"
    found = server.post("/v1/runs", {"flow": "patient", "inputs": {"path": str(over)}}).json["run_id"]
    yield str(found)
    over.write_text("over")


def stream(server: Served, run: str, key: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {"accept": "text/event-stream", "authorization": f"Bearer {key}"}
    connection.request("GET", f"/v1/runs/{run}/events", headers=headers)
    found = connection.getresponse()
    assert found.status == 200
    found.readline()
    return found


def last_of(found: http.client.HTTPResponse) -> Any:
    """What the last event of a stream says, once it has ended."""
    events = found.read().decode().split("\n\n")
    name, data = [each for each in events if each.startswith("event: ")][-1].split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_a_stream_of_a_revoked_key_ends_and_says_why(server: Served, run: str) -> None:
    bad, good = (server.keys().create(name, roles=["read"]) for name in ("ann", "bob"))
    ends, stays = stream(server, run, bad.text), stream(server, run, good.text)
    server.keys().revoke(bad.key.id)
    name, problem = last_of(ends)
    assert (name, problem["code"], problem["status"]) == ("problem", "unauthenticated", 401)
    assert "was revoked" in problem["detail"]
    assert not stays.isclosed()
    server.keys().revoke(good.key.id)
    assert last_of(stays)[0] == "problem"


def test_a_stream_of_a_key_that_expires_ends(server: Served, run: str) -> None:
    clock = ManualClock()
    server.server.state.keys = server.server.state.door.keys = Keys(server.home, clock=clock)
    short = Keys(server.home, clock=clock).create("ann", roles=["read"], expires="1h")
    found = stream(server, run, short.text)
    clock.advance(3601)
    name, problem = last_of(found)
    assert (name, "has expired" in problem["detail"]) == ("problem", True)


def test_content_that_is_being_sent_to_a_revoked_key_is_cut_off(server: Served) -> None:
    size = 64 << 20
    large = {"content-type": "application/octet-stream"}
    saved = server.ask("PUT", "/v1/workspace/artifacts?name=large.bin", raw=b"x" * size, headers=large)
    assert saved.status == 200, saved.raw
    made = server.keys().create("ann", roles=["read"])
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        head = "GET /v1/workspace/artifacts/content?ref=large.bin HTTP/1.1\r\nHost: localhost\r\n"
        line.sendall(f"{head}Authorization: Bearer {made.text}\r\n\r\n".encode())
        got = len(line.recv(1000))
        server.keys().revoke(made.key.id)
        until_ended(server, made.key.id)
        while piece := line.recv(1 << 20):
            got += len(piece)
    assert got < size


def until_ended(server: Served, key_id: str) -> None:
    """Until nothing that the key opened is under way."""
    watch, over = server.server.state.key_watch, threading.Event()
    for _ in range(600):
        if key_id not in {each.identity.key.id for each in [*watch.under_way] if each.identity and each.identity.key}:
            return
        over.wait(0.05)
    raise AssertionError("it is still open")


def test_an_upload_of_a_revoked_key_is_refused_while_it_arrives(server: Served) -> None:
    made = server.keys().create("ann", roles=["write"])
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        head = f"PUT /v1/workspace/artifacts?name=late HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {made.text}"
        line.sendall(head.encode() + b"\r\nContent-Length: 1000000\r\n\r\nx")
        server.keys().revoke(made.key.id)
        for _ in range(600):
            state = server.server.state
            if any(each.ended is not None for each in list(state.key_watch.under_way)):
                break
            threading.Event().wait(0.02)
        line.sendall(b"xx")
        said = line.recv(65536)
    assert b" 401 " in said.split(b"\r\n")[0]
    assert server.get("/v1/workspace/artifact?ref=late").code == "artifact_not_found"


def test_who_waits_for_a_run_with_a_revoked_key_is_refused_at_once(server: Served, run: str) -> None:
    made, told = server.keys().create("ann", roles=["read", "write"]), list[Any]()
    over = str(Path(server.home).parent / "over")
    asked = (
        partial(server.get, f"/v1/runs/{run}/outcome?wait=60"),
        partial(server.post, "/v1/runs?wait=60", {"flow": "patient", "inputs": {"path": over}, "task": "mine"}),
    )
    waits = [threading.Thread(target=lambda ask=ask: told.append(ask(key=made.text))) for ask in asked]
    for wait in waits:
        wait.start()
    watched = server.server.state.key_watch.under_way
    until(lambda: sum(exchange.is_waiting for exchange in list(watched)) == 2)
    server.keys().revoke(made.key.id)
    for wait in waits:
        wait.join(30)
    assert [(found.status, found.code) for found in told] == [(401, "unauthenticated")] * 2
    assert server.get(f"/v1/runs/{run}").json["status"] == "running"  # and the runs go on


def test_no_tool_answers_a_revoked_key(server: Served, run: str) -> None:
    made = server.keys().create("ann", roles=["read", "write"])
    call: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call["params"] = {"name": "run_list", "arguments": {}}
    said = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    assert server.post("/mcp", call, key=made.text, headers=said).status == 200
    server.keys().revoke(made.key.id)
    assert server.post("/mcp", call, key=made.text, headers=said).code == "unauthenticated"


def test_a_look_at_the_keys_that_fails_is_not_the_last_one(
    server: Served, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when no thread can be started for it."""
    tried = threading.Event()
    check = Keys.check_usable

    def failing_once(keys: Keys, key_id: str) -> Any:
        if tried.is_set():
            return check(keys, key_id)
        tried.set()
        raise RuntimeError("can't start new thread")

    made = server.keys().create("ann")
    monkeypatch.setattr(Keys, "check_usable", failing_once)
    found = stream(server, run, made.text)
    assert tried.wait(30)
    server.keys().revoke(made.key.id)
    assert last_of(found)[1]["code"] == "unauthenticated"
