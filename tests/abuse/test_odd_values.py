"""Odd values in every field of every call over HTTP: each is taken or refused by name, and nothing is half-written."""

import http.client
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest

from outlast.doors.http.app import CALLS
from outlast.operations.operation import Operation

from ..doors.http_world import FLOWS, World, world
from ..doors.server import Served, is_our_failure, served
from .figures import figures

SEED, MANY, FEW = 20261116, 10_000, 600
TEXTS = ["", " ", "x" * 10_000, "😀" * 50, "\u202eevil\u202c", "a\0b", "\ud800", "\udfff\ud800", "../" * 20, "..%2f"]
TEXTS += ["'; DROP TABLE runs; --", '"', "%00", "%", "\\", "a\r\nb: c", "\x1b[31m", "\ufeff", "e\u0301" * 100, "NaN"]
TEXTS += ["artifact:a/b@1", "record:", "task:", "run:x", "x@1", "-", "--help", "$(id)", "{{x}}", "\u2028", "null"]
NUMBERS = [0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**40, 0.0, -0.0, 1.5, 1e308, 5e-324]
DEEP: Any = "x"
for _ in range(240):
    DEEP = [DEEP]
OTHERS: list[Any] = [None, True, [], {}, [[]], [None], {"": ""}, {"\0": 1}, DEEP, [1, "a", None], {"a": {"b": [{}]}}]
RAW = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "01",
    "'x'",
    '"\\ud800"',
    '"\\u0000"',
    "[" * 300 + "]" * 300,
    "1" * 5000,
]
LONG = ["x" * 1_000_000, ["x"] * 20_000, [["x"] * 100] * 200, {f"k{at}": at for at in range(5_000)}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, flows=FLOWS, poll_seconds=0.02, wait_seconds=0.2) as found:
        yield found


class Asker:
    """Makes a request with one odd value in it, and sends it on a connection that is kept."""

    def __init__(self, server: Served, ours: World, rng: random.Random) -> None:
        self.server, self.ours, self.rng = server, ours, rng
        self._line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(self, call: Operation) -> tuple[int, Any, str]:
        path, raw, about = self._odd(call)
        headers = {"authorization": f"Bearer {self.ours.owner}"} | (
            {"content-type": call.takes} if raw is not None else {}
        )
        try:
            self._line.request(call.method, path, raw, headers)
            got = self._line.getresponse()
            said = got.read()
        except (http.client.HTTPException, ConnectionError):
            self._line.close()  # it was closed after the answer before: once more
            self._line.request(call.method, path, raw, headers)
            got = self._line.getresponse()
            said = got.read()
        return got.status, (got.getheader("content-type"), said), about

    def _odd(self, call: Operation) -> tuple[str, bytes | None, str]:
        """One of: a field of the body, of the query, a part of the path."""
        ways = ["body"] * 6 * (call.body is not None) + ["query"] * 2 + ["path"] * ("{" in call.path)
        way, path, raw = self.rng.choice(ways), self.ours.path_of(call), self._plain(call)
        if way == "body":
            field, raw = self._body(call)
            return path, raw, field
        if way == "query":
            return self._query(call, path), raw, "query"
        known = {name: quote(self._text()[:2000], safe="", errors="surrogatepass") or "%20" for name in self.ours.ids}
        return call.path.replace(":path", "").format(**known), raw, "path"

    def _plain(self, call: Operation) -> bytes | None:
        if call.takes != "application/json":
            return b"something"
        body = self.ours.body_of(call)
        return None if body is None else json.dumps(body).encode()

    def _body(self, call: Operation) -> tuple[str, bytes]:
        assert call.body is not None
        name = self.rng.choice(call.body.__struct_fields__ or ("nothing",))
        mark = "\u0001odd\u0001"
        body = (self.ours.body_of(call) or {}) | {name: mark}
        return name, json.dumps(body).replace(json.dumps(mark), self._json(name)).encode()

    def _json(self, name: str) -> str:
        kind = self.rng.random()
        if kind < 0.1:
            return self.rng.choice(RAW)
        if kind < 0.12:
            return json.dumps(self.rng.choice(LONG))
        value: Any = self.rng.choice([self._text(), self.rng.choice(NUMBERS), self.rng.choice(OTHERS)])
        if self.rng.random() < 0.25:
            value = [value]
        return json.dumps(value)

    def _query(self, call: Operation, path: str) -> str:
        names = [each.name for each in msgspec.structs.fields(call.query)] or ["nothing"]
        value = self.rng.choice([self._text()[:5000], str(self.rng.choice(NUMBERS))])
        given = self.ours.query_of(call) | {self.rng.choice(names): value}
        return f"{path.partition('?')[0]}?{urlencode(given, errors='surrogatepass')}"

    def _text(self) -> str:
        return self.rng.choice(TEXTS)


def told(said: tuple[str | None, bytes], status: int) -> bool:
    kind, raw = said
    if kind != "application/problem+json":
        return False
    problem = json.loads(raw)
    return bool(problem["status"] == status and problem["code"] and problem["detail"])


def test_no_value_makes_the_server_fail_or_write_half(server: Served, crash_long: bool) -> None:
    rng, ours = random.Random(SEED), world(server, "acme")
    asker, found, wrong = Asker(server, ours, rng), Counter[int](), []
    count = MANY if crash_long else FEW
    for number in range(count):
        call = CALLS[number % len(CALLS)]
        status, said, about = asker.ask(call)
        found[status] += 1
        if status >= 500 or (status >= 400 and not told(said, status)):
            wrong.append((number, call.name, about, status, said[1][:200]))
    assert wrong == []
    assert server.get("/healthz").status == 200
    checked = server.get("/v1/verify", key=ours.owner).json
    assert checked["ok"] is True, checked
    assert [line["error"] for line in server.log() if is_our_failure(line)] == []
    by = {f"status_{status}": number for status, number in sorted(found.items())}
    figures("odd values", sent=count, seed=SEED, failures=0, verify="clean", **by)
