"""The handoff of the first page of the docs, word for word, on every door."""

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from outlast import Outlast

from .conftest import environment
from .mcp_place import connected
from .server import Served, served

STORE: dict[str, Any] = {
    "tenant_id": "default",
    "scope": "repair-flow",
    "anchor": "task:export-repair",
    "summary": "Pause after diagnosis",
    "handoff_text": "Resume in src/routes/export.ts and patch the serializer mismatch.",
    "target_files": ["src/routes/export.ts"],
    "next_action": "Patch the export serializer and rerun the relevant checks.",
    "acceptance_checks": ["npm run -s test:lite -- export"],
}
RECOVER = {"tenant_id": "default", "scope": "repair-flow", "anchor": "task:export-repair"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home") as found:
        yield found


def by_http(server: Served, given: dict[str, Any], name: str) -> dict[str, Any]:
    reply = server.post(f"/v1/handoff/{name}", given)
    assert reply.status == 200, reply.raw
    found: dict[str, Any] = reply.json
    return found


def check(stored: dict[str, Any], recovered: dict[str, Any]) -> None:
    for name in ("anchor", "summary", "handoff_text", "target_files", "next_action", "acceptance_checks"):
        assert list(stored[name]) == list(recovered[name]) == list(STORE[name]), name
    assert stored["scope"] == recovered["scope"] == "repair-flow"


def test_in_python_and_by_the_client(server: Served, tmp_path: Path) -> None:
    for home in (tmp_path / "embedded", f"http://127.0.0.1:{server.port}"):
        with Outlast(home) as outlast:
            stored = outlast.handoff.store(**STORE)
            recovered = outlast.handoff.recover(**RECOVER)
            assert recovered.handoff.anchor == stored.anchor == STORE["anchor"]
            assert recovered.handoff.next_action == STORE["next_action"]


def test_over_http(server: Served) -> None:
    check(by_http(server, STORE, "store"), by_http(server, RECOVER, "recover"))


def camel(given: dict[str, Any]) -> dict[str, Any]:
    def spelt(name: str) -> str:
        first, *rest = name.split("_")
        return first + "".join(word.capitalize() for word in rest)

    return {spelt(name): value for name, value in given.items()}


def test_over_http_in_the_spelling_of_typescript(server: Served) -> None:
    assert "handoffText" in camel(STORE)
    check(by_http(server, camel(STORE), "store"), by_http(server, camel(RECOVER), "recover"))
    twice = server.post("/v1/handoff/store", {**STORE, "handoffText": "another"})
    assert (twice.status, twice.json["path"]) == (422, "handoffText")
    odd = server.post("/v1/handoff/store", {**STORE, "handoffTexts": "x"})
    assert (odd.status, odd.json["path"]) == (422, "handoffTexts")


def test_over_mcp(tmp_path: Path) -> None:
    words = ["-m", "outlast", "mcp", "--home", str(tmp_path / "home"), "--actor", "model"]
    server = StdioServerParameters(command=sys.executable, args=words, cwd=tmp_path, env=environment())
    with connected(server) as call:
        check(call.value("handoff_store", **STORE), call.value("handoff_recover", **RECOVER))
        strangers = call.problem("handoff_recover", **RECOVER | {"tenant_id": "another"})
        assert strangers["code"] == "tenant_not_found"
        assert call.problem("handoff_store", **STORE | {"actor": "somebody else"})["code"] == "forbidden"
        task = {name: value for name, value in STORE.items() if name != "anchor"}
        assert call.value("task_pause", task_id="export-repair", **task)["handoff"]["anchor"] == STORE["anchor"]


def test_the_bridge_by_task_over_http(server: Served) -> None:
    """openTaskSession, inspectTaskContext, pauseTask, resumeTask, completeTask."""
    task = "/v1/tasks/export-repair"
    said = {name: value for name, value in STORE.items() if name != "anchor"}
    who = {name: said[name] for name in ("tenant_id", "scope")}
    assert server.post(f"{task}/open", who).status == 200
    assert server.post(f"{task}/pause", camel(said)).status == 200
    resumed = server.post(f"{task}/resume", who)
    assert resumed.status == 200, resumed.raw
    claim = json.loads(resumed.raw)["claim"]["id"]
    done = {"claimId": claim, "runChecks": False, "override": "it was checked by hand", **who}
    assert server.post(f"{task}/complete", done).status == 200
    assert server.get(f"{task}/inspect?scope=repair-flow").json["state"] == "completed"


def test_a_file_that_another_language_bound_is_judged_by_its_digest(server: Served) -> None:
    """As docs/server.md has it for curl."""

    def seen(content: bytes) -> dict[str, Any]:
        file = {"mode": "file", "digest": sha256(content).hexdigest(), "size": len(content)}
        return {"root": "/elsewhere", "host": "there", "files": {"src/routes/export.ts": file}}

    said = {name: value for name, value in STORE.items() if name not in ("tenant_id", "acceptance_checks")}
    stored = by_http(server, said | {"binding": seen(b"one")}, "store")
    where = {"handoff_id": stored["id"], "root": "/elsewhere"}
    verdicts = [
        by_http(server, RECOVER | {"observed": [where | {"binding": seen(content)}]}, "recover")
        for content in (b"one", b"two")
    ]
    told = [{each["code"] for each in one["reasons"] if each["weight"] == "contests"} for one in verdicts]
    assert told == [set(), {"file_changed"}]
