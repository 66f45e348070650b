"""A server with its console, and a visitor without a browser: cookies, forms, redirects."""

import html
import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from outlast.doors.console.screens import pages
from outlast.doors.http.identity import address_of, listen
from outlast.doors.http.serve import Server
from outlast.doors.http.state import ServerSettings
from outlast.home.keys import Keys

PNG = bytes.fromhex(  # one pixel
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
FLOWS = str(Path(__file__).with_name("flows.py"))


class Shown:
    """A page as it came."""

    def __init__(self, status: int, headers: list[tuple[str, str]], raw: bytes) -> None:
        self.status, self.headers, self.text = (
            status,
            {name.lower(): value for name, value in headers},
            raw.decode(errors="replace"),
        )
        self.cookies = [value for name, value in headers if name.lower() == "set-cookie"]

    def hidden(self, name: str) -> str:
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        assert found, (name, self.text)
        return html.unescape(found[1])


class Visitor:
    """Somebody with a browser of his own, without scripts."""

    def __init__(self, port: int) -> None:
        self.port, self.cookies = port, dict[str, str]()

    def ask(self, method: str, path: str, form: Any = None, **headers: str) -> Shown:
        given = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        if method == "POST":
            given |= {"content-type": "application/x-www-form-urlencoded", "origin": f"http://127.0.0.1:{self.port}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = urlencode(form, doseq=True) if form is not None else None
            connection.request(method, path, sent, {k: v for k, v in (given | headers).items() if v})
            got = connection.getresponse()
            shown = Shown(got.status, got.getheaders(), got.read())
        finally:
            connection.close()
        for each in shown.cookies:
            name, _, value = each.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
            if "Max-Age=0" in each:
                del self.cookies[name]
        return shown

    def get(self, path: str, **headers: str) -> Shown:
        return self.ask("GET", path, **headers)

    def post(self, path: str, form: dict[str, Any], **headers: str) -> Shown:
        return self.ask("POST", path, form, **headers)

    def follow(self, shown: Shown) -> Shown:
        assert shown.status == 303, shown.text
        return self.get(shown.headers["location"])

    def sign_in(self, key: str) -> Shown:
        page = self.get("/sign-in")
        return self.post("/sign-in", {"token": page.hidden("token"), "key": key, "back": "/"})


class Place:
    """A server that is asked by visitors."""

    def __init__(self, server: Server, port: int, home: Path, lines: list[bytes], thread: threading.Thread) -> None:
        self.server, self.port, self.home, self.lines, self.thread = server, port, home, lines, thread

    def visitor(self) -> Visitor:
        return Visitor(self.port)

    def key(self, actor: str, *roles: str, **how: Any) -> str:
        keys = Keys(self.home)
        try:
            return keys.create(actor, roles=roles, **how).text
        finally:
            keys.close()


@contextmanager
def opened(home: Path, port: int = 0, **options: Any) -> Iterator[Place]:
    """A server with its pages on loopback, until the block ends."""
    lines: list[bytes] = []
    settings = ServerSettings(home=home, **({"flows": (FLOWS,), "works": False, "log": lines.append} | options))
    ready, socket = threading.Event(), listen("127.0.0.1", port)
    server = Server(settings, socket, ready.set, pages)
    thread = threading.Thread(target=server.serve_all, name="console")
    thread.start()
    try:
        assert ready.wait(30), "the server did not start"
        yield Place(server, int(address_of(socket).rpartition(":")[2]), home, lines, thread)
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server did not end"


def until(holds: Callable[[], bool]) -> None:
    """Look again until it is so; fails when that never comes."""
    limit = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < limit, "it never came"
        time.sleep(0.01)
