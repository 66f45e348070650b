"""Requests that a server cannot take: each is told apart, named, and answered as a problem."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from outlast import errors
from outlast.doors.http.bodies import MAX_DEPTH
from outlast.doors.http.exchange import OF_ERRORS, status_of
from outlast.errors import OutlastError

from .server import Reply, Served, served
from .test_http_handoffs import STORE

STORES = "/v1/handoff/store"
CHUNKED = b"content-type: application/json\r\ntransfer-encoding: chunked"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home", body_seconds=0.5) as found:
        yield found


def refused(reply: Reply, status: int, code: str) -> Any:
    assert (reply.status, reply.code) == (status, code), reply.raw
    problem = reply.json
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["advice"]
    return problem


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b'{"anchor": }',
        b"nothing",
        b'{"anchor": NaN, "summary": "s", "handoff_text": "t"}',
        b'{"anchor": "a", "anchor": "b", "summary": "s", "handoff_text": "t"}',
        b'{"anchor": "a", "summary": "s", "handoff_text": "t", "must_keep": [{"file": "a", "file": "b"}]}',
        b'{"anchor": "\xff\xfe"}',
        b"\xef\xbb\xbf{}",
        b'{"execution_state_v1": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"execution_state_v1": ' + b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1) + b"}",
        b"\x00",
    ],
    ids=[
        "cut",
        "no value",
        "no JSON",
        "NaN",
        "a key twice",
        "a key twice inside",
        "not UTF-8",
        "a BOM",
        "deep",
        "too deep",
        "NUL",
    ],
)
def test_a_body_that_cannot_be_read_is_malformed(server: Served, raw: bytes) -> None:
    refused(server.post(STORES, raw=raw), 400, "request_malformed")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"anchr": "a"}, "anchr"),
        ({"target_files": "src/a.py"}, "target_files"),
        ({"target_files": ["a", 7]}, "target_files[1]"),
        ({"expected_revision": "1"}, "expected_revision"),
        ({"summary": None}, "summary"),
    ],
)
def test_a_field_of_another_shape_is_named_by_its_path(server: Served, change: dict[str, Any], path: str) -> None:
    assert refused(server.post(STORES, STORE | change), 422, "request_invalid")["path"] == path


def test_a_field_that_is_missing_is_named(server: Served) -> None:
    assert refused(server.post(STORES, {"summary": "s"}), 422, "request_invalid")["path"] == "anchor"


def test_a_body_that_is_no_object_is_refused(server: Served) -> None:
    refused(server.post(STORES, raw=b"[1]"), 422, "request_invalid")


def test_what_the_library_refuses_keeps_its_code_and_path(server: Served) -> None:
    assert refused(server.post(STORES, STORE | {"anchor": ""}), 422, "handoff_invalid")["path"] == "anchor"


def test_a_secret_is_refused_by_path_and_not_repeated(server: Served) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    reply = server.post(STORES, STORE | {"summary": f"use {token}"})
    assert refused(reply, 422, "secret_found")["path"] == "summary"
    assert token.encode() not in reply.raw + b"".join(server.lines)


def test_a_body_over_the_limit_is_refused_whether_its_size_is_told_or_not(server: Served) -> None:
    large = json.dumps(STORE | {"handoff_text": "x" * (2 << 20)}).encode()
    refused(server.post(STORES, raw=large), 413, "body_too_large")
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(large), large)
    head = b"POST %s HTTP/1.1\r\nhost: localhost\r\n%s\r\n\r\n" % (STORES.encode(), CHUNKED)
    answer = spoken(server, head + chunked)
    assert b" 413 " in answer.split(b"\r\n")[0]


def test_a_body_that_does_not_come_is_not_waited_for(server: Served) -> None:
    head = b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % STORES.encode()
    answer = spoken(server, head + b"content-length: 100\r\n\r\n{")
    assert b" 408 " in answer.split(b"\r\n")[0]
    assert b"body_too_slow" in answer


def spoken(server: Served, words: bytes) -> bytes:
    """What a server answers to these very bytes, until it closes or has answered whole."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        with suppress(ConnectionError):  # it may have heard enough
            line.sendall(words)
        got = b""
        while piece := line.recv(65536):
            got += piece
            if b"\r\n\r\n" in got and got.endswith(b"}"):
                break
        return got


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "application/xml"]
)
def test_another_media_type_is_refused(server: Served, kind: str) -> None:
    refused(server.post(STORES, STORE, headers={"content-type": kind}), 415, "media_type_refused")


@pytest.mark.parametrize(
    "kind", ["application/json; charset=UTF-8", 'application/json;charset="utf-8"', "application/vnd.x+json"]
)
def test_json_in_utf8_is_taken_however_it_is_said(server: Served, kind: str) -> None:
    assert server.post("/v1/handoff/lint", {}, headers={"content-type": kind}).status == 200


def test_a_packed_body_is_refused(server: Served) -> None:
    refused(server.post(STORES, STORE, headers={"content-encoding": "gzip"}), 415, "media_type_refused")


def test_a_path_that_is_not_there_is_a_problem_too(server: Served) -> None:
    for path in ("/", "/v1", "/v1/handoff/store/", "/v1/../etc/passwd", "/v1/%00", "/docs"):
        refused(server.get(path), 404, "route_not_found")


def test_another_method_is_refused_with_those_that_are_allowed(server: Served) -> None:
    reply = server.ask("PATCH", "/v1/runs")
    refused(reply, 405, "method_refused")
    assert reply.headers["allow"] == "GET, POST"
    assert refused(server.ask("DELETE", "/healthz"), 405, "method_refused")["facts"]["allowed"] == "GET"


@pytest.mark.parametrize(
    "query", ["limit=many", "limit=0", "limit=1001", "nope=1", "limit=5&limit=6", "cursor=zzzz", "status=over"]
)
def test_a_query_that_is_not_the_calls_own_is_refused(server: Served, query: str) -> None:
    refused(server.get(f"/v1/runs?{query}"), 422, "request_invalid")


def test_a_query_that_is_not_utf8_is_malformed(server: Served) -> None:
    refused(server.get("/v1/runs?status=%ff"), 400, "request_malformed")


def test_head_answers_like_get_without_a_body(server: Served) -> None:
    reply = server.ask("HEAD", "/v1/runs")
    assert (reply.status, reply.raw) == (200, b"")


def test_every_answer_carries_the_headers_that_keep_browsers_honest(server: Served) -> None:
    for reply in (server.get("/healthz"), server.get("/nope"), server.post(STORES, raw=b"{"), server.get("/v1/runs")):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["x-request-id"]
        assert "server" not in reply.headers


def test_the_callers_request_id_is_kept_unless_it_could_harm_the_log(server: Served) -> None:
    assert server.get("/healthz", headers={"x-request-id": "trace-7"}).headers["x-request-id"] == "trace-7"
    assert server.get("/healthz", headers={"x-request-id": "a b\tc"}).headers["x-request-id"] != "a b\tc"


def test_what_nobody_foresaw_is_told_without_details_and_logged_with_them(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> bytes:
        raise ZeroDivisionError("password=hunter2-hunter2-hunter2")

    monkeypatch.setattr(server.server.state.metrics, "text", broken)
    reply = server.get("/metrics")
    problem = refused(reply, 500, "internal")
    assert b"hunter2" not in reply.raw
    assert b"ZeroDivision" not in reply.raw
    line = next(line for line in server.log() if line.get("error"))
    assert line["request_id"] == problem["facts"]["request"] == reply.headers["x-request-id"]
    assert line["error"].startswith("ZeroDivisionError")


def test_every_error_has_one_status() -> None:
    families = {
        errors.NotFound: 404,
        errors.Conflict: 409,
        errors.Refused: 409,
        errors.Invalid: 422,
        errors.WorkFailed: 409,
    }
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OutlastError)]
    own = set(OF_ERRORS)
    for kind in kinds:
        family = next((each for each in families if issubclass(kind, each)), None)
        if family is not None and kind not in own:
            assert status_of(kind) == families[family]
    assert status_of(errors.DiskFull) == 507
    assert status_of(errors.StoreBusy) == 503
