"""The proxy set-up of docs/server.md, as it is written: its commands are run, and what its proxies send is sent."""

import http.client
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
SECTION = PAGE.partition("## Behind a proxy")[2].partition("\n## ")[0]
COMMANDS = [shlex.split(line[2:]) for line in SECTION.splitlines() if line.startswith("$ outlast ")]
HOST = "box.example"


def run(words: list[str], home: Path) -> subprocess.Popen[str]:
    given = [sys.executable, "-m", *words, "--home", str(home)]
    return subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.fixture(scope="module")
def key_and_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """The commands of the page, with nothing but a free port added."""
    home = tmp_path_factory.mktemp("home") / "home"
    create, serve = COMMANDS
    key = run(create, home).communicate(timeout=60)[0].strip()
    server = run([*serve, "--port", "0", "--json"], home)
    assert server.stdout is not None
    try:
        yield key, urlsplit(json.loads(server.stdout.readline())["address"]).port or 0
    finally:
        server.terminate()
        server.wait(60)


def proxied(port: int, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """What is answered to a request as the proxy passes it on; its code, if it is a problem."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = b"{}" if method == "POST" else None
    given = {"host": HOST, "x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https", "x-forwarded-host": HOST}
    line.request(method, path, body, given | ({"content-type": "application/json"} if body else {}) | dict(headers))
    got = line.getresponse()
    said = json.loads(got.read())
    line.close()
    return got.status, said.get("code", "")


def test_who_has_no_key_is_let_in_nowhere(key_and_port: tuple[str, int]) -> None:
    _, port = key_and_port
    asked = [("GET", "/v1/runs"), ("POST", "/v1/handoff/lint"), ("POST", "/mcp"), ("GET", "/v1/runs/x/events")]
    for method, path in asked:
        assert proxied(port, method, path, {}) == (401, "unauthenticated")
        lies = {"x-forwarded-for": "127.0.0.1", "outlast-actor": "ann", "outlast-tenant": "default"}
        assert proxied(port, method, path, lies) == (401, "unauthenticated")


def test_who_has_one_is_let_in_also_from_its_own_pages(key_and_port: tuple[str, int]) -> None:
    key, port = key_and_port
    let_in = {"authorization": f"Bearer {key}"}
    assert proxied(port, "GET", "/v1/runs", let_in)[0] == 200
    own = {"origin": f"https://{HOST}", "sec-fetch-site": "same-origin"}
    assert proxied(port, "POST", "/v1/handoff/lint", let_in | own)[0] == 200


def test_pages_and_names_of_others_are_not(key_and_port: tuple[str, int]) -> None:
    key, port = key_and_port
    let_in = {"authorization": f"Bearer {key}"}
    for other in ({"origin": f"http://{HOST}"}, {"origin": "https://evil.example"}, {"host": "evil.example"}):
        assert proxied(port, "POST", "/v1/handoff/lint", let_in | other) == (403, "forbidden")


def test_the_proxies_pass_on_to_the_port_and_by_the_name_that_the_server_was_given() -> None:
    assert COMMANDS[1] == ["outlast", "serve", "--require-key", "--public-url", f"https://{HOST}"]
    assert SECTION.count("127.0.0.1:8787") == 2
    assert re.search(rf"proxy_set_header Host {re.escape(HOST)};", SECTION)
    assert SECTION.count("/metrics") == 2, "what needs no key and counts is closed in both"
