"""Whatever is sent to whatever call: an answer that the description knows, never a failure of the server."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest

from outlast.doors.http.app import CALLS
from outlast.doors.http.bodies import MAX_DEPTH
from outlast.doors.http.openapi import described
from outlast.operations.operation import Operation

from .http_world import FLOWS, World, world
from .server import Reply, Served, is_our_failure, served

LIMIT = 64 << 10
BODIED = [call for call in CALLS if call.body is not None]
DEEP = b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1)
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, flows=FLOWS, poll_seconds=0.02, body_bytes=LIMIT, artifact_bytes=LIMIT) as found:
        yield found
    assert [line["trace"][-1000:] for line in found.log() if is_our_failure(line)] == []


@pytest.fixture(scope="module")
def ours(server: Served) -> World:
    return world(server, "acme")


@pytest.fixture(scope="module")
def page() -> Any:
    return described()


def wrong(page: Any, call: Operation, reply: Reply, about: Any = "") -> list[Any]:
    """What is not as it is described: the status is none of the call's, or a problem is not told as one."""
    answers = page["paths"][call.path.replace(":path}", "}")][call.method.lower()]["responses"]
    if str(reply.status) not in answers or reply.status >= 500 or not is_told(reply):
        return [(call.name, str(about)[:100], reply.status, reply.raw[:200])]
    return []


def is_told(reply: Reply) -> bool:
    if reply.status < 400:
        return True
    said = reply.json
    is_problem = reply.headers["content-type"] == "application/problem+json"
    return bool(is_problem and said["status"] == reply.status and said["code"] and said["detail"])


# -- bodies that are none ----------------------------------------------------------------------------

MALFORMED: dict[str, tuple[bytes, dict[str, str], int]] = {
    "cut": (b'{"anchor": ', JSON, 400),
    "no JSON": (b"hello", JSON, 400),
    "a blank": (b"\n", JSON, 400),
    "not a number": (b'{"limit": NaN}', JSON, 400),
    "not UTF-8": (b'{"anchor": "\xff"}', JSON, 400),
    "UTF-16": ('{"anchor": "a"}'.encode("utf-16"), JSON, 400),
    "a key twice": (b'{"operation_id": "a", "operation_id": "b"}', JSON, 400),
    "a key twice, spelt differently": (rb'{"why": "a", "wh\u0079": "b"}', JSON, 400),
    "deep": (DEEP, JSON, 400),
    "deeper": (b"[" * 20_000, JSON, 400),
    "two": (b"{}{}", JSON, 400),
    "huge": (b'{"a": "' + b"x" * LIMIT + b'"}', JSON, 413),
    "another charset": (b"{}", {"content-type": "application/json; charset=utf-16"}, 415),
    "another type": (b"{}", {"content-type": "text/plain"}, 415),
    "a form": (b"a=b", {"content-type": "application/x-www-form-urlencoded"}, 415),
    "packed": (b"{}", JSON | {"content-encoding": "gzip"}, 415),
    "a list": (b"[{}]", JSON, 422),
    "null": (b"null", JSON, 422),
    "a text": (b'"{}"', JSON, 422),
    "an unknown field": (b'{"nobody_knows": 1}', JSON, 422),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_body_that_no_call_takes_is_refused_by_each_for_what_it_is(
    server: Served, ours: World, page: Any, kind: str
) -> None:
    raw, headers, status = MALFORMED[kind]
    found = []
    for call in BODIED:
        reply = server.ask(call.method, ours.path_of(call), raw=raw, key=ours.owner, headers=headers)
        found += wrong(page, call, reply) if reply.status == status else [(call.name, reply.status, reply.raw[:200])]
    assert found == []


# -- values that are allowed, and mean no good -------------------------------------------------------

TEXTS = [
    "",
    "\ud800",
    " ",
    "a\0b",
    "x" * 10_000,
    "😀\u202e",
    "../../etc/passwd",
    "a\nb",
    "-",
    "record:",
    "artifact:a@9999999999999",
]
NUMBERS = [-1, 0, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63) - 1]
SECONDS = [-1.0, 1e308, 1e-320]
TIMES = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00", "1969-01-01T00:00:00Z"]
THINGS: list[Any] = [
    {},
    {"": {"a\0": ["\0", 2**64, -(10**30), 1e308, "😀"]}},
    {"file": "\0", "check": 1, "passed": 2},
    {"\ud800": 1},
]


def values(kind: Any) -> list[Any]:
    """What a field of this type may be sent, and had better not be."""
    match kind:
        case msgspec.inspect.UnionType():
            return [value for each in kind.types for value in values(each)]
        case msgspec.inspect.StrType():
            return [*TEXTS]
        case msgspec.inspect.IntType():
            return [*NUMBERS]
        case msgspec.inspect.FloatType():
            return [*SECONDS]
        case msgspec.inspect.DateTimeType():
            return [*TIMES]
        case msgspec.inspect.DictType() | msgspec.inspect.AnyType() | msgspec.inspect.RawType():
            return [*THINGS]
        case msgspec.inspect.StructType():
            whole = {each.name: plain(each.type) for each in kind.fields if each.required}
            return [whole | {each.name: value} for each in kind.fields for value in values(each.type)]
        case msgspec.inspect.VarTupleType():
            each = values(kind.item_type)
            return [[], *([value] for value in each), each[:3] * 50]
    return []


def plain(kind: Any) -> Any:
    """What a field of this type is sent, where it is not the one that is tried."""
    match kind:
        case msgspec.inspect.LiteralType():
            return kind.values[0]
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.UnionType():
            return plain(kind.types[0])
    return "a"


def hostile(kind: type) -> list[tuple[str, Any]]:
    fields = msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]
    return [(each.name, value) for each in fields for value in values(each.type)]


def chosen(given: list[tuple[str, Any]], every: bool) -> list[tuple[str, Any]]:
    """All of them, or about one of five: over all calls each value has its turn."""
    return given if every else given[len(given) % 5 :: 5]


def turn(place: int, every: bool) -> list[Operation]:
    """All calls, or every third one: each has its turn at some of what is tried."""
    return list(CALLS) if every else list(CALLS)[place % 3 :: 3]


@pytest.mark.parametrize("noun", sorted({call.noun for call in BODIED}))
def test_a_value_that_means_no_good_does_no_harm(
    server: Served, ours: World, page: Any, noun: str, crash_long: bool
) -> None:
    found = []
    for call in (call for call in BODIED if call.noun == noun):
        for name, value in chosen(hostile(call.body or object), crash_long):
            body = (ours.body_of(call) or {}) | {name: value}
            reply = server.ask(call.method, ours.path_of(call), body, key=ours.owner)
            found += wrong(page, call, reply, (name, value))
    assert found == []


def test_a_query_that_means_no_good_does_no_harm(server: Served, ours: World, page: Any, crash_long: bool) -> None:
    found = []
    for call in (call for call in CALLS if call.body is None):
        path = ours.path_of(call).partition("?")[0]
        for name, value in chosen(hostile(call.query), crash_long):
            given = ours.query_of(call) | {name: value if isinstance(value, str) else json.dumps(value)}
            asked = urlencode(given, errors="surrogatepass")
            headers = {"content-type": call.takes} if call.takes != "application/json" else {}
            raw = b"x" if headers else None
            reply = server.ask(call.method, f"{path}?{asked}", raw=raw, key=ours.owner, headers=headers)
            found += wrong(page, call, reply, (name, value))
    assert found == []


EMPTY = ("?", "?&&")
WRONG = ("?a", "?%", "?%ff", "?a=%00", "?a=1&a=2", "?limit=NaN", "?" + "a=1&" * 200)


@pytest.mark.parametrize("query", [*EMPTY, *WRONG], ids=lambda query: query[:10])
def test_a_query_that_no_call_takes_is_refused_by_each(
    server: Served, ours: World, page: Any, query: str, crash_long: bool
) -> None:
    found = []
    for call in turn([*EMPTY, *WRONG].index(query), crash_long):
        path = ours.path_of(call).partition("?")[0]
        reply = server.ask(call.method, path + query, ours.body_of(call), key=ours.owner)
        found += wrong(page, call, reply) if reply.status in (400, 422) or query in EMPTY else [(call.name, reply)]
    assert found == []


HEADERS = [
    {"idempotency-key": ""},
    {"idempotency-key": "x" * 5_000},
    {"idempotency-key": "\xff"},
    {"outlast-scope": "a\xffb"},
    {"outlast-scope": "../x"},
    {"outlast-scope": "x" * 5_000},
    {"outlast-claims": "\xff"},
    {"outlast-claims": "x " * 2_000},
    {"outlast-actor": "\xff"},
    {"x-request-id": "\xff" * 100},
    {"range": "bytes=9-1"},
    {"if-none-match": "*"},
    {"last-event-id": "-1", "accept": "text/event-stream"},
    {"accept": "text/event-stream", "last-event-id": "9" * 18},
]


@pytest.mark.parametrize("headers", HEADERS, ids=lambda given: f"{next(iter(given))}-{len(str(given))}")
def test_a_header_that_means_no_good_does_no_harm(
    server: Served, ours: World, page: Any, headers: dict[str, str], crash_long: bool
) -> None:
    found = []
    for call in turn(HEADERS.index(headers), crash_long):
        if call.name == "home_events" and "accept" in headers:
            continue  # a stream over all runs has no end: `test_http_home_events.py` asks for it
        found += wrong(page, call, ours.ask(call, ours.owner, headers=headers))
    assert found == []


@pytest.mark.parametrize(
    "query", ["after=-1", f"after={2**63}", f"after={-(2**63) - 1}", "follow=no&after=5", "limit=0"]
)
def test_a_stream_from_nowhere_is_refused_or_ends(server: Served, ours: World, query: str) -> None:
    path = f"/v1/runs/{ours.ids['command_run']}/events?{query}"
    reply = server.get(path, key=ours.owner, headers={"accept": "text/event-stream"})
    assert reply.status == 422 if "-" in query else reply.raw.endswith(b"\n\n")


def test_a_method_that_a_path_does_not_take_is_refused_with_those_that_it_takes(
    server: Served, ours: World, crash_long: bool
) -> None:
    for call in turn(0, crash_long):
        path = ours.path_of(call).partition("?")[0]
        taken = {each.method for each in CALLS if each.path == call.path}
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} - taken:
            reply = server.ask(method, path, key=ours.owner)
            assert (reply.status, reply.headers["allow"]) == (405, ", ".join(sorted(taken))), (call.name, method)


def test_a_path_that_there_is_not_is_not_found(server: Served, ours: World) -> None:
    for path in ("/", "/v1", "/v1/", "//v1/runs", "/v1/runs/", "/v2/runs", "/v1/runs/a/b/c", "/%2e%2e/v1", "/v1/%00"):
        reply = server.get(path, key=ours.owner)
        assert (reply.status, reply.code) == (404, "route_not_found"), path
    assert server.get(f"/v1/runs/{quote('a/b', safe='')}", key=ours.owner).status == 404


def test_content_that_is_too_large_is_refused_and_the_client_hears_it(server: Served, ours: World) -> None:
    """In one piece and in many: an answer, not a connection that is cut off while the client still sends."""
    headers = {"content-type": "application/octet-stream", "authorization": f"Bearer {ours.owner}"}
    large = [b"x" * 100_000] * 30
    for body, more in ((b"".join(large), {}), (iter(large), {"transfer-encoding": "chunked"})):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        path = "/v1/workspace/artifacts?name=large"
        connection.request("PUT", path, body, headers | more, encode_chunked=bool(more))
        assert connection.getresponse().status == 413
        connection.close()
    assert server.get("/v1/workspace/artifact?ref=large", key=ours.owner).status == 404


def test_a_client_that_asks_first_is_not_told_to_send_what_is_too_large(server: Served, ours: World) -> None:
    head = f"PUT /v1/workspace/artifacts?name=a HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ours.owner}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall(head.encode() + b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.1 413")
