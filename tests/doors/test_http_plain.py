"""Requests that one pattern reads: h11 would read the same, and a client cannot tell which of them did."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h11
import pytest
import uvicorn
from hypothesis import example, given
from hypothesis import strategies as st

from outlast.doors.http import serve
from outlast.doors.http.identity import address_of, listen
from outlast.doors.http.limits import Turnstile
from outlast.doors.http.log import COUNTED_TOGETHER
from outlast.doors.http.plain import plain_in

from .server import Served, served

HEAD = (
    b"POST /v1/handoff/recover HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nx-request-id: one\r\n"
)
RECOVER = HEAD + b'content-length: 15\r\n\r\n{"anchor": "a"}'
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-request-id: two\r\n\r\n"
LINES = (
    *(
        b"host: localhost",
        b"Host:a",
        b"host: ",
        b" host: a",
        b"host : a",
        b"content-length: 2",
        b"Content-Length: 2, 2",
    ),
    *(b"content-length: 3", b"content-length: 02", b"content-length: +2", b"transfer-encoding: chunked", b"x: a \t b"),
    *(b"connection: close", b"Connection: Keep-Alive", b"expect: 100-continue", b"upgrade: websocket", b"x:\ta ", b"x"),
    *(
        b"x: \xe4",
        b"x: a\x00b",
        b"x: a\rb",
        b"x: a\nb",
        b"x_y: a",
        b"@: a",
        b"\tfolded",
        b"content-length: 2" + b"0" * 30,
    ),
)


def read_by_h11(raw: bytes) -> Any:
    """The method, the target, the headers and the body of one request, as h11 has them."""
    connection, body = h11.Connection(h11.SERVER), b""
    connection.receive_data(raw)
    request = connection.next_event()
    assert isinstance(request, h11.Request)
    while isinstance(event := connection.next_event(), h11.Data):
        body += event.data
    assert connection.trailing_data[0] == b""
    assert connection.their_state is (h11.DONE if isinstance(event, h11.EndOfMessage) else h11.SEND_BODY)
    assert request.http_version == b"1.1"
    assert not connection.they_are_waiting_for_100_continue
    return request.method.decode(), request.target, [*request.headers], body, connection.their_state is h11.SEND_BODY


requests = st.builds(
    lambda begin, lines, body: b"\r\n".join([begin, *lines, b"", body]),
    st.sampled_from(
        [b"GET / HTTP/1.1", b"POST /a?b=%20c HTTP/1.1", b"POST * HTTP/1.1", b"GET  / HTTP/1.1", b"GET / HTTP/1.0"]
    ),
    st.lists(st.sampled_from(LINES), max_size=5),
    st.sampled_from([b"", b"{", b"{}", b"{}{", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"]),
)


@given(requests | st.binary(max_size=80))
@example(RECOVER)
@example(HEALTH)
@example(RECOVER[:-1])
def test_what_is_taken_for_plain_is_what_h11_reads(raw: bytes) -> None:
    found = plain_in(raw)
    if found is not None:
        read = (found.method, found.target, found.headers, found.body, found.missing > 0)
        assert read == read_by_h11(raw)


@pytest.mark.parametrize("line", LINES)
def test_what_frames_a_request_is_left_to_h11(line: bytes) -> None:
    plain = (b"Host:a", b"host: localhost", b"content-length: 2", b"content-length: 3", b"content-length: 02")
    host = b"" if line.lower().startswith(b"host") else b"host: a\r\n"
    length = b"" if line.lower().startswith(b"content-length") else b"content-length: 2\r\n"
    found = plain_in(b"POST / HTTP/1.1\r\n" + host + length + line + b"\r\n\r\n{}")
    assert (found is not None) == (line in (*plain, b"Connection: Keep-Alive", b"x: a \t b"))


@pytest.mark.parametrize("twice", [b"host: a", b"content-length: 2", b"Content-Length: 3"])
def test_what_is_said_twice_is_left_to_h11(twice: bytes) -> None:
    once = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n"
    assert plain_in(once + b"\r\n{}") is not None
    assert plain_in(once + twice + b"\r\n\r\n{}") is None


# -- answers -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home") as found:
        yield found


def answers(server: Served, *pieces: bytes, many: int = 1) -> list[bytes]:
    """What is answered to these, sent one after the other; without the date."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        for piece in pieces:
            line.sendall(piece)
        return [_answer(line) for _ in range(many)]


def _answer(line: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += line.recv(1)
    length = re.search(rb"content-length: (\d+)", head)
    body = line.recv(int(length[1]), socket.MSG_WAITALL) if length else b""
    return re.sub(rb"date: [^\r]*", b"date: now", head) + body


def odd(request: bytes) -> bytes:
    """The same request, not plain any more."""
    return request.replace(b"\r\n\r\n", b"\r\nx-odd:\r\n\r\n", 1)


ASKED = {
    "a refusal": RECOVER,
    "an answer": HEALTH,
    "nothing there": HEALTH.replace(b"/healthz", b"/nowhere?a=%C3%A4"),
    "a refusal before the body": RECOVER.replace(b"/json", b"/nothing"),
    "another host": RECOVER.replace(b"localhost", b"elsewhere"),
    "one byte at a time": RECOVER,
}


@pytest.mark.parametrize("name", ASKED)
def test_it_is_answered_the_same_bytes_whoever_reads_it(server: Served, name: str) -> None:
    request = ASKED[name]
    assert plain_in(request) is not None
    assert plain_in(odd(request)) is None
    pieces = [request[at : at + 1] for at in range(len(request))] if name == "one byte at a time" else [request]
    assert answers(server, *pieces) == answers(server, odd(request))


def test_it_is_answered_without_h11(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def heard(*_: Any) -> None:
        raise AssertionError("h11 was told of it")

    monkeypatch.setattr(serve.Connection, "_give_to_h11", heard)
    assert b"alive" in answers(server, HEALTH)[0]
    assert b"handoff_not_found" in answers(server, RECOVER)[0]


def test_a_body_that_comes_later_belongs_to_its_head(server: Served) -> None:
    head, _, body = RECOVER.partition(b"\r\n\r\n")
    whole = answers(server, RECOVER)[0]
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(2):
            line.sendall(head + b"\r\n\r\n")
            line.sendall(body[:7])
            line.sendall(body[7:])
            assert _answer(line) == whole


@pytest.mark.parametrize("read_by", ["one pattern", "h11"])
def test_a_body_that_comes_after_its_answer_is_let_go_by(server: Served, read_by: str) -> None:
    request = ASKED["a refusal before the body"]
    head, _, body = (request if read_by == "one pattern" else odd(request)).partition(b"\r\n\r\n")
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(head + b"\r\n\r\n")
        assert _answer(line) == answers(server, request)[0]
        line.sendall(body + HEALTH)
        assert _answer(line) == answers(server, HEALTH)[0]


def test_requests_in_a_row_are_answered_in_their_order(server: Served) -> None:
    row = [RECOVER, HEALTH, odd(HEALTH), RECOVER]
    expected = [answers(server, each)[0] for each in row]
    assert answers(server, b"".join(row), many=4) == expected
    assert answers(server, *row, many=4) == expected
    assert answers(server, RECOVER[:-3], RECOVER[-3:] + HEALTH[:9], HEALTH[9:], many=2) == expected[:2]


def test_a_plain_request_may_have_an_answer_in_pieces(server: Served) -> None:
    asks = b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
    assert plain_in(asks) is not None
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(asks)
        assert b"transfer-encoding: chunked" in _answer(line).lower()


def test_a_connection_that_rests_for_too_long_is_closed_and_one_that_asks_again_is_not(tmp_path: Path) -> None:
    with (
        served(tmp_path / "home", idle_seconds=1.0) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as line,
    ):
        for _ in range(3):
            line.sendall(HEALTH)
            assert _answer(line).endswith(b'{"status":"alive"}')
        assert line.recv(1) == b""


def test_requests_are_in_the_numbers_as_soon_as_these_are_asked_for(tmp_path: Path) -> None:
    with served(tmp_path / "home") as server:
        for _ in range(COUNTED_TOGETHER + 1):
            assert server.get("/healthz").status == 200
        numbers = server.get("/metrics").raw.decode()
    counted = f"{COUNTED_TOGETHER + 1}.0"
    assert f'outlast_http_requests_total{{method="GET",route="/healthz",status="200"}} {counted}' in numbers
    assert f'outlast_http_request_seconds_count{{method="GET",route="/healthz"}} {counted}' in numbers


# -- answers that no handler of ours gives -----------------------------------------------------------


@contextmanager
def answering(*messages: dict[str, Any]) -> Iterator[int]:
    """The port of a server whose application sends these and no more."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    connections = serve.Connections(16, 10.0, 10.0, Turnstile())
    config = uvicorn.Config(app, http=connections.protocol, log_config=None, lifespan="off", ws="none")  # type: ignore[arg-type]
    server, opened = uvicorn.Server(config), listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([opened],))
    thread.start()
    try:
        yield int(address_of(opened).rpartition(":")[2])
    finally:
        server.should_exit = True
        thread.join(30)


def begins(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": list(headers)}


def whole(port: int) -> bytes:
    """All that is answered, up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall(HEALTH)
        return b"".join(iter(lambda: line.recv(1000), b""))


def test_an_answer_without_its_body_ends_the_connection() -> None:
    with answering(begins((b"content-length", b"5"))) as port:
        assert whole(port) == b""


def test_an_answer_that_is_not_as_long_as_it_says_ends_the_connection() -> None:
    body = {"type": "http.response.body", "body": b"four"}
    with answering(begins((b"content-length", b"5")), body) as port:
        assert whole(port).endswith(b"content-length: 5\r\n\r\nfour")


def test_an_answer_that_closes_is_framed_by_h11() -> None:
    body = {"type": "http.response.body", "body": b"four"}
    with answering(begins((b"content-length", b"4"), (b"connection", b"close")), body) as port:
        assert whole(port).lower().endswith(b"connection: close\r\n\r\nfour")
