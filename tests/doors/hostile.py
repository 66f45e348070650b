"""A server that answers whatever a test wants, on loopback and in a thread, and what it hears meanwhile."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from outlast.errors import OutlastError
from outlast.files.snapshot import Binding, Bound
from outlast.handoffs.handoff import Handoff, Lint
from outlast.handoffs.sighting import look_first
from outlast.home.process import this_place
from outlast.values.codec import encode

NOW = 1_900_000_000_000_000


@dataclass(frozen=True)
class Heard:
    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


@dataclass(frozen=True)
class Answer:
    status: int = 200
    raw: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Callable[[], Iterable[bytes]] | None = None  # instead of `raw`: as long as there are any


Answers = Callable[[Heard], Answer]


@dataclass
class Hostile:
    """What it answers may be changed at any time."""

    port: int
    answers: Answers
    heard: list[Heard] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def observed(self) -> list[dict[str, Any]]:
        """What the client said of files in its last request about them."""
        found = [one.json.get("observed", []) for one in self.heard if one.raw[:1] == b"{"]
        return list(found[-1]) if found else []

    def in_turn(self, *answers: Answer) -> None:
        """One after another; the last one for ever."""
        left = list(answers)
        self.answers = lambda heard: left.pop(0) if len(left) > 1 else left[0]


@contextmanager
def hostile(answers: Answers = lambda heard: Answer()) -> Iterator[Hostile]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (ConnectionError, BrokenPipeError):  # the client has had enough
                self.close_connection = True

        def _answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            heard = Heard(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, raw)
            found.heard.append(heard)
            self._send(found.answers(heard))

        do_GET = do_POST = do_PUT = do_HEAD = _answer

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.pieces is None:
                self.send_header("content-length", str(len(answer.raw)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else answer.raw)
                return
            self.send_header("connection", "close")
            self.end_headers()
            for piece in answer.pieces():
                self.wfile.write(piece)
                self.wfile.flush()
            self.close_connection = True

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Hostile(server.server_address[1], answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()


# what it says


def handoff(anchor: str = "task:x", **more: Any) -> Handoff:
    given: dict[str, Any] = {
        "id": "abcdefghjkmn",
        "scope": "default",
        "revision": 1,
        "actor": "mallory",
        "stored_us": NOW,
        "expires_us": NOW * 2,
        "lint": Lint(100),
        "summary": "Stopped at the limit",
        "handoff_text": "Resume in app.py.",
    }
    return Handoff(anchor=anchor, **given | more)


def bound(root: Path | str, *files: str, **more: Any) -> Binding:
    """Files as they never were, in a folder of this very host."""
    return Binding(
        root=str(root), host=this_place()[0], files={name: Bound("file", "0" * 64) for name in files}, **more
    )


def problem(error: OutlastError, status: int = 409) -> Answer:
    return Answer(status, encode(error.to_dict() | {"status": status, "facts": error.facts}))


def asks(what: Any, about: Handoff) -> Answer:
    """`look_first`: the files of a handoff, or its checks."""
    return problem(look_first(what, about))


def said(value: Any, status: int = 200) -> Answer:
    return Answer(status, encode(value))
