"""Answers are as OpenAPI describes them: real ones are checked against their schemas."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from .server import Served, served
from .test_http_handoffs import RECOVER, STORE
from .test_http_runs import FLOWS, start, until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, flows=(FLOWS,), poll_seconds=0.02) as found:
        yield found


@pytest.fixture(scope="module")
def page(server: Served) -> Any:
    return server.get("/openapi.json").json


def fits(page: Any, route: str, method: str, status: int, value: Any) -> None:
    content = page["paths"][route][method]["responses"][str(status)]["content"]
    schema = next(iter(content.values()))["schema"] | {"components": page["components"]}
    Draft202012Validator(schema).validate(value)


def test_answers_about_handoffs_fit(server: Served, page: Any) -> None:
    body = STORE | {
        "execution_packet_v1": {"a": 1},
        "baseline": [{"check": STORE["acceptance_checks"][0], "passed": True}],
    }
    fits(page, "/v1/handoff/store", "post", 200, server.post("/v1/handoff/store", body).json)
    fits(page, "/v1/handoff/recover", "post", 200, server.post("/v1/handoff/recover", RECOVER).json)
    fits(page, "/v1/handoffs", "get", 200, server.get("/v1/handoffs?scope=repair-flow&look=true").json)
    fits(page, "/v1/handoff/lint", "post", 200, server.post("/v1/handoff/lint", {"anchor": "x"}).json)
    named = {"anchor": RECOVER["anchor"], "scope": RECOVER["scope"]}
    claim = server.post("/v1/handoff/claim", named).json
    fits(page, "/v1/handoff/claim", "post", 200, claim)
    settle = named | {"claim_id": claim["id"], "outcome": "failed", "evidence": body["baseline"]}
    fits(page, "/v1/handoff/settle", "post", 200, server.post("/v1/handoff/settle", settle).json)
    query = "anchor=task:export-repair&scope=repair-flow"
    fits(page, "/v1/handoff/history", "get", 200, server.get(f"/v1/handoff/history?{query}").json)


def test_answers_about_runs_and_waits_fit(server: Served, page: Any) -> None:
    waiting = start(server, "asking", question="?")
    fits(page, "/v1/runs", "post", 200, waiting)
    wait, run = waiting["interrupts"][0]["id"], waiting["run_id"]
    fits(page, "/v1/interrupts", "get", 200, server.get("/v1/interrupts").json)
    fits(page, "/v1/runs/{run_id}/plan", "get", 200, server.get(f"/v1/runs/{run}/plan").json)
    answered = server.post(f"/v1/interrupts/{wait}/answer", {"answer": {"approved": True}}).json
    fits(page, "/v1/interrupts/{interrupt_id}/answer", "post", 200, answered)
    for part in ("", "/outcome", "/receipts", "/events", "/timeline"):
        fits(page, f"/v1/runs/{{run_id}}{part}", "get", 200, server.get(f"/v1/runs/{run}{part}").json)
    fits(page, "/v1/runs", "get", 200, server.get("/v1/runs").json)
    sent = server.post("/v1/signals", {"name": "n", "task": "t"}).json
    fits(page, "/v1/signals", "post", 200, sent)


def test_problems_fit(server: Served, page: Any) -> None:
    missing = server.post("/v1/handoff/recover", {"anchor": "nothing"}).json
    fits(page, "/v1/handoff/recover", "post", 404, missing)
    fits(page, "/v1/handoff/store", "post", 400, server.post("/v1/handoff/store", raw=b"{").json)
    fits(page, "/v1/runs", "post", 409, server.post("/v1/runs", {"flow": "nope"}).json)


def test_health_and_numbers_are_told(server: Served) -> None:
    assert server.get("/healthz").json == {"status": "alive"}
    assert server.get("/readyz").json == {"status": "ready"}
    server.get("/v1/runs/some-id")
    numbers = server.get("/metrics").raw.decode()
    assert 'outlast_http_requests_total{method="GET",route="/v1/runs/{run_id}",status="404"}' in numbers
    assert "some-id" not in numbers


def test_the_log_has_a_line_for_each_request_without_queries_or_bodies(server: Served) -> None:
    server.post("/v1/handoff/lint", {"summary": "very private words"})
    server.get("/v1/runs?status=failed&cursor=private", headers={"x-request-id": "look-1"})
    line = until(lambda: next((line for line in server.log() if line.get("request_id") == "look-1"), None))
    assert (line["method"], line["route"], line["status"], line["actor"]) == ("GET", "/v1/runs", 422, "local")
    assert b"private" not in b"".join(server.lines)
