"""Bytes that are no request, or could be two: none is answered by a failure, none hangs, none changes anything."""

import json
import random
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from ..doors.server import Served, is_our_failure, served
from .figures import figures

SEED, MANY, FEW = 20261116, 1000, 120
PATH, SCOPE = "/v1/handoff/store", "raw"
SECONDS = 20  # longer than the server waits for a body
QUIET = 0.15  # so long nothing comes: then it is told that no more is sent


class Said(NamedTuple):
    """What is sent; and whether a reader may take it for a whole request after all."""

    raw: bytes
    may: bool = False


Make = Callable[[random.Random, bytes], Said]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Path(tmp_path_factory.mktemp("home")) / "home", body_seconds=5.0) as found:
        yield found


def body_of(number: int) -> bytes:
    fields = {"scope": SCOPE, "anchor": f"raw-{number}", "summary": "s", "handoff_text": "t"}
    return json.dumps(fields).encode()


def request(
    body: bytes, *more: bytes, line: bytes = b"", length: bool = True, host: bytes = b"Host: localhost"
) -> bytes:
    line = line or b"POST %s HTTP/1.1" % PATH.encode()
    said = [line, host, b"Content-Type: application/json", *more]
    said += [b"Content-Length: %d" % len(body)] if length else []
    return b"\r\n".join([part for part in said if part]) + b"\r\n\r\n" + body


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


# -- kinds -------------------------------------------------------------------------------------------


def both_lengths(rng: random.Random, body: bytes) -> Said:
    length = rng.choice([0, 4, len(body), len(body) + 5, len(chunked(body))])
    lines = [b"Content-Length: %d" % length, b"Transfer-Encoding: chunked"]
    rng.shuffle(lines)
    return Said(request(b"", *lines, length=False) + chunked(body) + request(body))


def two_lengths(rng: random.Random, body: bytes) -> Said:
    other = rng.choice([0, 1, len(body) + 1, 10**18])
    raw = request(body, b"Content-Length: %d" % other)
    return Said(rng.choice([raw, raw.replace(b"Content-Length: %d\r\n" % other, b"Content-Length: 1, %d\r\n" % other)]))


def odd_length(rng: random.Random, body: bytes) -> Said:
    said = rng.choice([b"-1", b"+5", b"0x10", b"1e3", b"", b"9" * 30, b"5 5", b"\xb2", b"NaN", b"1_0"])
    return Said(request(b"", b"Content-Length: " + said, length=False) + body)


def odd_encoding(rng: random.Random, body: bytes) -> Said:
    kinds = [
        b"xchunked",
        b"chunked, identity",
        b"identity",
        b"gzip, chunked",
        b"chunked\x0b",
        b'"chunked"',
        b"chunked;q=1",
    ]
    lines = [b"Transfer-Encoding: " + rng.choice(kinds)]
    lines += [b"Transfer-Encoding: chunked"] if rng.random() < 0.3 else []
    return Said(request(b"", *lines, length=False) + chunked(body))


def bad_chunks(rng: random.Random, body: bytes) -> Said:
    size = b"%x" % len(body)
    odd = [b"zz\r\n", b"-1\r\n", b"0x%s\r\n" % size, b"f" * 30 + b"\r\n", size + b"\r", b" %s\r\n" % size, b"\r\n"]
    ends = [b"", b"\r\n", b"0\r\n", b"0\r\n\r", b"XX0\r\n\r\n", b"\r\n0;" + b"x" * 70_000]
    raw = rng.choice(odd) + body + b"\r\n0\r\n\r\n" if rng.random() < 0.5 else size + b"\r\n" + body + rng.choice(ends)
    return Said(request(b"", b"Transfer-Encoding: chunked", length=False) + raw)


def doubled_header(rng: random.Random, body: bytes) -> Said:
    twice = [b"Host: localhost", b"Host: evil.example", b"Content-Type: text/plain", b"Content-Type: application/json"]
    one = rng.choice([*twice, b"Outlast-Actor: a\r\nOutlast-Actor: b", b"Origin: http://localhost\r\nOrigin: null"])
    return Said(request(body, one))


def odd_target(rng: random.Random, body: bytes) -> Said:
    path = PATH.encode()
    targets = [b"http://evil.example" + path, b"http://localhost" + path, b"*", b"//localhost" + path, b"localhost:80"]
    targets += [b"", b"?" + path, path[1:], b"\\" + path, path + b"#x", b"javascript:alert(1)", path + b"\xff"]
    line = rng.choice([b"POST", b"POST", b"CONNECT"]) + b" " + rng.choice(targets) + b" HTTP/1.1"
    return Said(request(body, line=line))


def odd_path(rng: random.Random, body: bytes) -> Said:
    path = PATH
    ways = [
        path.replace("/store", "%2fstore"),
        path + "%00",
        path + "/",
        "/" + path,
        path.replace("v1", "v1/"),
        path + ";x",
    ]
    ways += ["/v1/x/..%2fhandoff/store", "/v1/x/../handoff/store", "/./v1/handoff/store", "/v1/handoff/%c0%afstore"]
    ways += ["/v1/handoff/%73tore", "/v1/handoff/%", "/v1/handoff/%zz", "/v1/handoff/stor%e0%81%a5", "/%2e%2e" + path]
    ways += ["/V1/handoff/store", path + "%20", path + "%0d%0aX:%20y", "/v1/handoff/%2573tore", path + "\\x00"]
    return Said(request(body, line=b"POST %s HTTP/1.1" % rng.choice(ways).encode()))


def huge_headers(rng: random.Random, body: bytes) -> Said:
    size = rng.choice([70_000, 200_000, 1_000_000])
    ways = [b"X: " + b"a" * size, b"\r\n".join(b"X-%d: a" % at for at in range(size // 8)), b"x" * size + b": a"]
    line = b"POST %s?%s HTTP/1.1" % (PATH.encode(), b"a" * size)
    return Said(request(body, line=line) if rng.random() < 0.25 else request(body, rng.choice(ways)))


def odd_header(rng: random.Random, body: bytes) -> Said:
    ways = [
        b"X: a\rb",
        b"X: a\x00b",
        b"X\x00: a",
        b"X y: a",
        b"no colon",
        b": a",
        b"X: a\n\nb",
        b" X: a",
        b"X : a",
        b"\tX: a",
    ]
    ways += [b"X: \x7f\x01", b"X: a\r\n folded: b\x00", b"(x): y", b"X: a\x0bb\x0c"]
    return Said(request(body, rng.choice(ways)), may=False)


def odd_version(rng: random.Random, body: bytes) -> Said:
    path = PATH.encode()
    lines = [
        b"GET /",
        b"POST " + path,
        b"POST %s HTTP/2.0" % path,
        b"POST %s HTTP/0.9" % path,
        b"POST %s HTTP/9.9" % path,
    ]
    lines += [
        b"POST %s http/1.1" % path,
        b"POST %s HTTP/1.1 x" % path,
        b"POST %s HTTP/1" % path,
        b"POST  %s  HTTP/1.1" % path,
    ]
    lines += [
        b"PRI * HTTP/2.0",
        b"POST\t%s\tHTTP/1.1" % path,
        b"POST %s HTTP/1.1\x00" % path,
        b"\x16\x03\x01\x02\x00\x01",
    ]
    return Said(request(body, line=rng.choice(lines)))


def odd_method(rng: random.Random, body: bytes) -> Said:
    method = rng.choice(
        [b"post", b"FOO", b"P" * 5000, b"GET", b"TRACE", b"PO ST", b"", b"\x00", b"P\xd6ST", b"OPTIONS"]
    )
    return Said(request(body, line=b"%s %s HTTP/1.1" % (method, PATH.encode())))


def pipelined(rng: random.Random, body: bytes) -> Said:
    """What follows something malformed is not read; what is swallowed by a length is no request."""
    first = rng.choice([both_lengths, two_lengths, odd_length, bad_chunks, odd_header])(rng, body).raw
    swallows = request(b"", b"Content-Length: 100000", length=False)
    return Said(rng.choice([first, swallows]) + request(body))


def odd_host(rng: random.Random, body: bytes) -> Said:
    hosts = [
        b"",
        b"Host:",
        b"Host: evil.example",
        b"Host: localhost, evil.example",
        b"Host: a@localhost",
        b"Host: localhost:x",
    ]
    hosts += [
        b"Host: [::1",
        b"Host: localhost\x00",
        b"Host: 127.1",
        b"Host: 0.0.0.0",
        b"Host: localhost.",
        b"Host: 2130706433",
    ]
    version = rng.choice([b"1.1", b"1.0"])
    return Said(request(body, line=b"POST %s HTTP/%s" % (PATH.encode(), version), host=rng.choice(hosts)))


def cross_site(rng: random.Random, body: bytes) -> Said:
    ways = [b"Origin: null", b"Origin: http://localhost:3000", b"Origin: https://localhost", b"Origin: x", b"Origin:"]
    ways += [b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Site: same-site", b"Origin: http://evil.example"]
    return Said(request(body, rng.choice(ways)))


def odd_type(rng: random.Random, body: bytes) -> Said:
    kinds = [b"", b"Content-Type: text/plain", b"Content-Type: application/x-www-form-urlencoded", b"Content-Type:"]
    kinds += [b"Content-Type: application/json; charset=utf-7", b"Content-Type: multipart/form-data; boundary=x"]
    raw = request(body).replace(b"Content-Type: application/json\r\n", rng.choice(kinds) + b"\r\n", 1)
    return Said(raw.replace(b"localhost\r\n\r\nContent", b"localhost\r\nContent", 1))


def through_a_proxy(rng: random.Random, body: bytes) -> Said:
    ways = [
        b"Forwarded: for=1.2.3.4",
        b"X-Forwarded-For: 127.0.0.1",
        b"Via: 1.1 proxy",
        b"X-Real-IP: ::1",
        b"X-Forwarded-X:",
    ]
    return Said(request(body, rng.choice(ways)))


def cut_short(rng: random.Random, body: bytes) -> Said:
    raw = request(body)
    return Said(raw[: rng.randrange(1, len(raw) - 1)])


def flipped(rng: random.Random, body: bytes) -> Said:
    raw = bytearray(request(body))
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return Said(bytes(raw), may=True)


def noise(rng: random.Random, body: bytes) -> Said:
    return Said(rng.randbytes(rng.choice([1, 10, 100, 5000])))


def odd_upgrade(rng: random.Random, body: bytes) -> Said:
    ways = [
        b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x",
        b"Upgrade: h2c\r\nConnection: Upgrade",
    ]
    ways += [
        b"Expect: 200-ok",
        b"Expect: 100-continue",
        b"Connection: close, keep-alive",
        b"TE: trailers\r\nTrailer: Host",
    ]
    return Said(request(body, rng.choice(ways)), may=True)


KINDS: list[Make] = [
    *(both_lengths, two_lengths, odd_length, odd_encoding, bad_chunks, doubled_header, odd_target, odd_path),
    *(huge_headers, odd_header, odd_version, odd_method, pipelined, odd_host, cross_site, odd_type, through_a_proxy),
    *(cut_short, flipped, noise, odd_upgrade),
]


# -- what comes of it --------------------------------------------------------------------------------


def answered(server: Served, raw: bytes) -> bytes:
    """All that is answered until the server closes; that it does not close is a failure of the test.

    Once nothing more comes, no more is sent either: who waits for the rest of a request hears that there is none.
    """
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as line:
        with suppress(ConnectionError):
            line.sendall(raw)
        got = heard(line, QUIET)
        with suppress(OSError):  # it may have been closed
            line.shutdown(socket.SHUT_WR)
        return got + heard(line, SECONDS, until_closed=True)


def heard(line: socket.socket, seconds: float, *, until_closed: bool = False) -> bytes:
    """What comes until nothing does for so long. Raises TimeoutError when it was to be closed."""
    got = b""
    line.settimeout(seconds)
    with suppress(ConnectionError, *(() if until_closed else (TimeoutError,))):
        while piece := line.recv(65536):
            got += piece
    return got


def statuses(got: bytes) -> list[int]:
    parts = got.split(b"HTTP/1.1 ")[1:]
    return [int(part[:3]) for part in parts if part[:3].isdigit() and part[3:4] == b" "]


def test_no_bytes_make_the_server_fail_hang_or_store(server: Served, crash_long: bool) -> None:
    rng, found, failed = random.Random(SEED), Counter[int](), []
    sure: set[str] = set()
    for number in range(MANY if crash_long else FEW):
        kind = KINDS[number % len(KINDS)]
        said = kind(rng, body_of(number))
        codes = statuses(answered(server, said.raw))
        found.update(codes or [0])
        failed += [(number, kind.__name__, codes)] if any(code >= 500 for code in codes) else []
        sure |= set() if said.may else {f"raw-{number}"}
    assert failed == []
    assert server.get("/healthz").status == 200
    stored = {each["anchor"] for each in server.get(f"/v1/handoffs?scope={SCOPE}&limit=1000").json["items"]}
    assert stored & sure == set()
    assert server.get("/v1/verify").json["ok"] is True
    assert [line for line in server.log() if is_our_failure(line)] == []
    told = {f"status_{code}" if code else "closed": count for code, count in sorted(found.items())}
    figures("raw requests", sent=number + 1, seed=SEED, failures=0, stored_without_request=0, **told)


def test_a_whole_request_is_stored(server: Served) -> None:
    """Otherwise the test above would look for what nobody could have stored."""
    assert statuses(answered(server, request(body_of(99_999)))) == [200]
