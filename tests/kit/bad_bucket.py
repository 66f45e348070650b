"""A bucket that misbehaves: a proxy on loopback before a real one. What it does to a request is for the test to say."""

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

# What may be done to a request: a name, with what it needs.
PASS: tuple[Any, ...] = ("pass",)
DROP = ("drop",)  # it is cut off before anything is done
FORGET = ("forget",)  # it is done, and the answer does not arrive
TRUNCATE = ("truncate",)  # half of the answer's body arrives
IGNORE = ("ignore",)  # a condition that does not hold is not told of


def slow(seconds: float) -> tuple[Any, ...]:
    """The answer comes so late."""
    return ("slow", seconds)


def fails(status: int = 500) -> tuple[Any, ...]:
    """It is not done, and answered so."""
    return ("fails", status)


def changed(old: bytes, new: bytes) -> tuple[Any, ...]:
    """The answer's body is changed on its way, as long as it was."""
    return ("changed", old, new)


Plan = Callable[[str, str], tuple[Any, ...]]


class BadBucket:
    """The proxy: `plan` says of each request, by its method and path, what is done to it; `seen` has them all."""

    def __init__(self, upstream: str) -> None:
        self.plan: Plan = lambda method, path: PASS
        self.seen: list[tuple[str, str]] = []
        proxy = self

        class Handler(_Handler):
            bucket, target = proxy, urlsplit(upstream).netloc

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def first(self, number: int, fault: tuple[Any, ...], method: str = "", path: str = "") -> None:
        """Do this to the first so many requests of that kind, and nothing to the others."""
        left = [fault] * number

        def plan(asked: str, at: str) -> tuple[Any, ...]:
            fits = method in ("", asked) and path in at
            return left.pop() if fits and left else PASS

        self.plan = plan

    def every(self, fault: tuple[Any, ...], method: str = "", path: str = "") -> None:
        """Do this to every request of that kind."""
        self.plan = lambda asked, at: fault if method in ("", asked) and path in at else PASS

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: BadBucket
    target: str

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (TimeoutError, ConnectionError):
            self.close_connection = True

    def do(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.bucket.seen.append((self.command, self.path))
        fault = self.bucket.plan(self.command, self.path)
        match fault:
            case ("drop",):
                self._cut()
            case ("fails", status):
                self._answer(status, [], b"<Error><Code>InternalError</Code><Message>made up</Message></Error>")
            case ("slow", seconds):
                time.sleep(seconds)
                self._answer(*self._asked(body))
            case _:
                self._changed(fault, *self._asked(body))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do

    def _asked(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """What the real one answers. The host that was asked is part of what was signed."""
        line = http.client.HTTPConnection(self.target, timeout=60)
        try:
            line.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, said in self.headers.items():
                line.putheader(name, said)
            line.endheaders(body or None)
            answer = line.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            line.close()

    def _changed(self, fault: tuple[Any, ...], status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        match fault:
            case ("forget",):
                self._cut()
            case ("truncate",) if body and status < 300:
                self._answer(status, headers, body, body[: len(body) // 2])
                self._cut()
            case ("ignore",) if status == 412:
                self._answer(200, [("ETag", '"0"')], b"")
            case ("changed", old, new):
                self._answer(status, headers, body.replace(old, new))
            case _:
                self._answer(status, headers, body)

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, sent: bytes | None = None) -> None:
        self.send_response_only(status)
        given = {name.lower(): said for name, said in headers}
        length = given.get("content-length", "0") if self.command == "HEAD" else str(len(body))
        left_out = ("content-length", "transfer-encoding", "connection")
        for name, said in [*((name, said) for name, said in given.items() if name not in left_out)]:
            self.send_header(name, said)
        self.send_header("content-length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if sent is None else sent)

    def _cut(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def log_message(self, *words: object) -> None:
        """Nobody reads it."""


@contextmanager
def bad_bucket(upstream: str) -> Iterator[BadBucket]:
    made = BadBucket(upstream)
    try:
        yield made
    finally:
        made.close()
