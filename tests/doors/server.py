"""A server in a thread of the test's own process, and a plain client for it."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast import Outlast
from outlast.doors.http.identity import address_of, listen
from outlast.doors.http.serve import Server
from outlast.doors.http.state import ServerSettings
from outlast.home.keys import Keys


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def code(self) -> str:
        """Of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self.raw
        return str(self.json["code"])


@dataclass
class Served:
    """A running server, asked over real sockets."""

    settings: ServerSettings
    server: Server
    port: int
    lines: list[bytes] = field(default_factory=list)
    key: str | None = None  # that is sent unless another one is

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Reply:
        given = {"content-type": "application/json"} if body is not None or raw is not None else {}
        own = key or self.key
        given |= {"authorization": f"Bearer {own}"} if own else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = raw if raw is not None else None if body is None else json.dumps(body).encode()
            connection.request(method, path, sent, given | dict(headers or {}))
            got = connection.getresponse()
            return Reply(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Reply:
        return self.ask("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Reply:
        return self.ask("POST", path, {} if body is None and "raw" not in options else body, **options)

    @property
    def home(self) -> Path:
        return self.settings.home

    def keys(self) -> Keys:
        return Keys(self.home)

    def opened(self, **options: Any) -> Outlast:
        """The same home, embedded: to prepare and to look."""
        return Outlast(self.home, **options)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


def is_our_failure(line: dict[str, Any]) -> bool:
    """Whether a line of the log says that the server failed: that a run has failed is not that."""
    return line["level"] == "error" and line.get("logger") != "outlast.runs"


@contextmanager
def served(home: Path, *, keyed: bool = False, **options: Any) -> Iterator[Served]:
    """A server on a free port of loopback, until the block ends; keyed: asked with a key of an admin called `local`."""
    lines: list[bytes] = []
    settings = ServerSettings(home=home, **({"log": lines.append, "works": False} | options))
    ready, socket = threading.Event(), listen("127.0.0.1", 0)
    server = Server(settings, socket, ready.set)
    port = int(address_of(socket).rpartition(":")[2])
    thread = threading.Thread(target=server.serve_all, name="server")
    thread.start()
    try:
        assert ready.wait(30), "the server did not start"
        key = Keys(home).create("local", roles=["admin"]).text if keyed else None
        yield Served(settings, server, port, lines, key)
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server did not end"
