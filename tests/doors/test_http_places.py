"""Where requests come from: what a web page could make a browser send is told apart and refused, on every path."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from outlast.doors.http.app import CALLS
from outlast.doors.http.identity import Places, origin_of, place_of
from outlast.errors import Forbidden, NameInvalid, RequestMalformed

from .server import Reply, Served, served
from .test_http_handoffs import STORE

PAGE = "https://app.example"
PATHS = sorted({call.path.replace(":path", "") for call in CALLS} | {"/mcp", "/healthz", "/metrics", "/nowhere"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home", allow_origins=(PAGE,)) as found:
        yield found


def nothing_was_stored(server: Served) -> bool:
    found: list[object] = server.get("/v1/handoffs?scope=repair-flow").json["items"]
    return found == []


def refused(reply: Reply, status: int) -> None:
    code = {400: "request_malformed", 403: "forbidden", 415: "media_type_refused"}[status]
    assert (reply.status, reply.code) == (status, code), reply.raw
    assert reply.json["advice"]
    assert "access-control-allow-origin" not in reply.headers


# -- Host and Origin ---------------------------------------------------------------------------------

FOREIGN = [
    {"host": "evil.example"},
    {"host": "localhost.evil.example"},
    {"host": "localhost."},
    {"host": "127.0.0.2"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1.evil.example"},
    {"origin": "http://localhost:3000"},
    {"origin": "http://localhost"},
    {"origin": "https://127.0.0.1"},
    {"origin": "http://app.example"},
    {"origin": "https://app.example:444"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_what_a_page_of_another_place_sends_is_refused(server: Served, headers: dict[str, str]) -> None:
    refused(server.post("/v1/handoff/store", STORE, headers=headers), 403)
    assert nothing_was_stored(server)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": ""},
        {"host": "localhost:"},
        {"host": "localhost:0"},
        {"host": "localhost:65536"},
        {"host": "localhost:80:80"},
        {"host": "a b"},
        {"host": "localhost/x"},
        {"host": "user@localhost"},
        {"host": "[::1"},
        {"host": "[::zz]"},
        {"host": "a..b"},
        {"host": "\xff"},
        {"origin": ""},
        {"origin": "localhost"},
        {"origin": "file://"},
        {"origin": "http://localhost/path"},
        {"origin": "http://a http://b"},
        {"origin": "http://user@localhost"},
        {"origin": "http://localhost:x"},
    ],
    ids=str,
)
def test_a_host_or_origin_that_is_none_is_malformed(server: Served, headers: dict[str, str]) -> None:
    refused(server.post("/v1/handoff/store", STORE, headers=headers), 400)
    assert nothing_was_stored(server)


@pytest.mark.parametrize("path", PATHS)
def test_every_path_has_the_same_gate(server: Served, path: str) -> None:
    for headers, status in (
        ({"host": "evil.example"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "null", "accept": "text/event-stream"}, 403),
        ({"origin": "nothing"}, 400),
    ):
        for method in ("GET", "POST", "OPTIONS"):
            refused(server.ask(method, path, headers=headers), status)
    refused(server.post(path, {}, headers={"sec-fetch-site": "cross-site"}), 403)


def test_a_page_of_its_own_is_let_in_under_each_of_its_names(server: Served) -> None:
    for name in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST"):
        host = f"{name}:{server.port}"
        for site in ("same-origin", "none"):
            headers = {"host": host, "origin": f"http://{host}", "sec-fetch-site": site}
            assert server.post("/v1/handoff/lint", {}, headers=headers).status == 200
    assert server.get("/v1/runs", headers={"sec-fetch-site": "cross-site"}).status == 200, "it only looks"
    assert server.get("/v1/runs", headers={"host": "localhost:80", "origin": "http://localhost"}).status == 200


# -- three options -----------------------------------------------------------------------------------


def test_behind_a_proxy_the_public_url_is_its_own_origin() -> None:
    places = Places(loopback=True, public_url="https://box.example")
    assert places.check("POST", "box.example", "https://box.example", "same-origin") is None
    assert places.check("POST", "127.0.0.1:8787", None, None) is None
    for origin in ("http://box.example", "https://box.example:8787", "https://other.example"):
        with pytest.raises(Forbidden):
            places.check("POST", "box.example", origin, None)


def test_an_allowed_host_is_a_name_and_no_origin_of_another_port() -> None:
    places = Places(loopback=True, hosts=("Box.example",))
    assert places.check("POST", "box.example:8787", "http://box.example:8787", None) is None
    for host, origin in (("box.example:8787", "http://box.example"), ("other.example", None)):
        with pytest.raises(Forbidden):
            places.check("POST", host, origin, None)


def test_a_server_that_others_reach_takes_any_name_and_pages_of_that_name() -> None:
    places = Places(loopback=False)
    assert places.check("POST", "box.example:8787", "http://box.example:8787", None) is None
    with pytest.raises(Forbidden):
        places.check("POST", "box.example:8787", "http://evil.example:8787", None)
    with pytest.raises(RequestMalformed):
        places.check("POST", None, None, None)


@pytest.mark.parametrize(
    "wrong",
    [{"public_url": "box.example"}, {"origins": ("*",)}, {"origins": ("https://a/b",)}, {"hosts": ("http://a",)}],
    ids=str,
)
def test_an_option_that_names_no_place_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(NameInvalid):
        Places(loopback=True, **wrong)  # type: ignore[arg-type]


def test_an_origin_is_compared_by_scheme_host_and_port() -> None:
    assert origin_of("http://a.example") == origin_of("HTTP://A.example:80") == place_of("a.example")
    assert str(origin_of("https://a.example:443")) == "https://a.example"
    assert origin_of("http://a.example:8080") != origin_of("http://a.example")


# -- CORS --------------------------------------------------------------------------------------------

ASKS = {"access-control-request-method": "POST", "access-control-request-headers": "authorization, content-type"}


def test_a_browser_is_told_what_pages_of_an_allowed_origin_may_send(server: Served) -> None:
    for path in ("/v1/handoff/store", "/mcp", "/v1/runs/x/events"):
        reply = server.ask("OPTIONS", path, headers={"origin": PAGE, "sec-fetch-site": "cross-site"} | ASKS)
        assert (reply.status, reply.headers["access-control-allow-origin"]) == (204, PAGE)
        assert "authorization" in reply.headers["access-control-allow-headers"].lower()
        assert (reply.headers["vary"], reply.raw) == ("Origin", b"")
        assert "access-control-allow-credentials" not in reply.headers
    refused(server.ask("OPTIONS", "/v1/handoff/store", headers={"origin": "https://evil.example"} | ASKS), 403)
    own = server.ask("OPTIONS", "/v1/runs", headers=ASKS)
    assert (own.status, "access-control-allow-methods" in own.headers) == (405, False)


def test_pages_of_an_allowed_origin_may_write_and_read_the_answer(server: Served) -> None:
    headers = {"origin": PAGE, "sec-fetch-site": "cross-site"}
    for reply in (server.post("/v1/handoff/lint", {}, headers=headers), server.get("/nowhere", headers=headers)):
        assert reply.headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-origin" not in server.get("/v1/runs").headers


# -- bodies and framing ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/handoff/store", "/mcp", "/v1/runs"])
def test_json_must_say_that_it_is(server: Served, path: str) -> None:
    """A page may send a body without a type, or as text, to anybody; not as JSON."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        refused(server.post(path, STORE, headers={"content-type": kind}), 415)
    untyped = spoken(server, b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}" % path.encode())
    assert b" 415 " in untyped.split(b"\r\n")[0]
    assert b"media_type_refused" in untyped


def test_a_call_without_a_body_needs_no_type(server: Served) -> None:
    said = spoken(server, b"POST /v1/handoff/lint HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b" 200 " in said.split(b"\r\n")[0]


TWICE = ["Host", "Origin", "Content-Type", "Authorization", "Idempotency-Key", "Outlast-Actor", "Outlast-Tenant"]


@pytest.mark.parametrize("name", TWICE)
def test_a_header_that_says_two_things_is_refused(server: Served, name: str) -> None:
    lines = [b"POST /v1/handoff/lint HTTP/1.1", b"Host: localhost", b"Content-Type: application/json"]
    lines += [b"Content-Length: 2", *(b"%s: a" % name.encode() for _ in range(2)), b"", b"{}"]
    assert b" 400 " in spoken(server, b"\r\n".join(lines)).split(b"\r\n")[0]


def test_content_length_with_transfer_encoding_is_refused_and_nothing_follows(server: Served) -> None:
    inner = b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for length in (0, 4, 5, len(inner) + 5):
        head = b"POST /v1/handoff/lint HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % length
        said = spoken(server, head + inner)
        assert said.startswith(b"HTTP/1.1 400")
        assert said.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("path", ["/v1/tasks/%ff", "/v1/tasks/%c0%af", "/v1/tasks/%", "/v1/tasks/%zz", "/v1/%ed%a0%80"])
def test_a_path_that_is_no_text_is_malformed(server: Served, path: str) -> None:
    refused(server.get(path), 400)


def spoken(server: Served, words: bytes) -> bytes:
    """What a server answers to these very bytes, until it closes or has said nothing for a while."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        with suppress(ConnectionError):
            line.sendall(words)
        got = b""
        with suppress(TimeoutError, ConnectionError):
            while piece := line.recv(65536):
                got += piece
                line.settimeout(0.3)
        return got
