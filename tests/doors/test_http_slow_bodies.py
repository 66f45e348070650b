"""Bodies made to be slow to read: whoever may only read cannot keep the server from everybody else."""

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlast.doors.http import bodies
from outlast.doors.http.app import CALLS
from outlast.errors import OutlastError
from outlast.home.keys import Keys
from outlast.operations.handoffs import LintHandoff
from outlast.operations.operation import Operation

from ..kit.cost import growth
from ..kit.hostile_json import SHAPES
from .server import Served, served

LONGEST = 3 << 19  # a server takes 2 MiB, and some shapes are a little longer than asked for
LETTERS = 1 << 15
PATHS = ["/v1/handoff/recover", "/v1/workspace/recall", "/v1/tasks/t/inspect", "/mcp"]
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


def ask(port: int, method: str, path: str, key: str, raw: bytes | None = None) -> int:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        line.request(method, path, raw, HEADERS | {"authorization": f"Bearer {key}"})
        reply = line.getresponse()
        reply.read()
        return reply.status
    finally:
        line.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def port(home: Path) -> Iterator[int]:
    """Of a server in a process of its own: one that hangs takes no test with it."""
    words = [sys.executable, "-m", "outlast", "serve", "--json", "--port", "0", "--home", str(home)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=home.parent) as process:
        assert process.stdout is not None
        try:
            yield int(json.loads(process.stdout.readline())["address"].rpartition(":")[2])
        finally:
            process.kill()


def test_while_a_reader_sends_the_slowest_bodies_everybody_else_is_answered(port: int, home: Path) -> None:
    reader, other = (Keys(home).create(name, roles=["read"]).text for name in ("mallory", "ann"))
    sent = [("/v1/handoff/lint", shape(LONGEST)) for shape in SHAPES.values()]
    sent += [(path, SHAPES["an open text of escaped quotes"](LONGEST)) for path in PATHS]
    threads = ThreadPoolExecutor(2)
    try:
        asked = [threads.submit(ask, port, "POST", path, reader, raw) for path, raw in sent]
        while not all(each.done() for each in asked):
            assert (ask(port, "GET", "/healthz", other), ask(port, "GET", "/v1/runs", other)) == (200, 200)
        assert {each.result() for each in asked} == {400, 422}
    finally:
        threads.shutdown(cancel_futures=True)


def refused(raw: bytes) -> None:
    with pytest.raises(OutlastError):
        bodies.decode(raw, LintHandoff)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_body_four_times_as_long_costs_no_more_than_eight_times_as_much(shape: str) -> None:
    short, long = SHAPES[shape](LETTERS), SHAPES[shape](4 * LETTERS)
    assert growth(lambda: refused(short), lambda: refused(long)) < 8


def test_who_may_only_read_is_refused_before_the_body_is_looked_at(tmp_path: Path) -> None:
    guarded = [call for call in CALLS if call.body and not callable(call.role) and call.role != "read"]
    with served(tmp_path / "home") as server:
        reader = server.keys().create("mallory", roles=["read"]).text
        found = {(call.name, _sent(server, call, reader)) for call in guarded}
    assert {status for _, status in found} == {403}, found


def _sent(server: Served, call: Operation, key: str) -> int:
    return server.ask(call.method, re.sub(r"\{[^}]*\}", "x", call.path), raw=b"{", key=key).status
