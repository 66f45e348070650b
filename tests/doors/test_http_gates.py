"""Gates over HTTP: what needs the role `approve`, and an approver's answer that goes on by itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, flow

from . import http_flows
from .mcp_place import FOR_PEOPLE
from .server import Served, served
from .test_http_mcp import ask, call, told
from .test_http_runs import start, until

FLOWS = str(Path(http_flows.__file__))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, keyed=True, flows=(FLOWS,), poll_seconds=0.02) as found:
        yield found


@pytest.fixture(scope="module")
def approver(server: Served) -> str:
    return server.keys().create("ann", roles=["approve"]).text


@pytest.fixture(scope="module")
def worker(server: Served) -> str:
    return server.keys().create("bot", roles=["write"]).text


def asked(server: Served, question: str) -> tuple[str, dict[str, Any]]:
    waiting = start(server, "asking", question=question)
    return waiting["run_id"], waiting["interrupts"][0]


# -- an answer goes on -------------------------------------------------------------------------------


def test_an_approvers_answer_goes_on_without_a_second_role(server: Served, approver: str) -> None:
    run, wait = asked(server, "go on?")
    answered = server.post(f"/v1/interrupts/{wait['id']}/answer", {"answer": {"approved": True}}, key=approver)
    assert (answered.status, answered.json["answered_by"]) == (200, "ann")
    assert (answered.json["goes_on"], answered.json["why_not"]) == (True, "")
    ended = server.get(f"/v1/runs/{run}/outcome?wait=30").json
    assert (ended["status"], ended["result"]) == ("succeeded", True)


def test_it_stays_where_it_is_when_that_is_asked_for(server: Served, approver: str) -> None:
    run, wait = asked(server, "stay?")
    body = {"answer": {"approved": True}, "resume": False}
    answered = server.post(f"/v1/interrupts/{wait['id']}/answer", body, key=approver).json
    assert (answered["status"], answered["goes_on"]) == ("answered", False)
    assert server.get(f"/v1/runs/{run}").json["status"] == "waiting"


@flow
def elsewhere(run: Run) -> bool:
    return bool(run.pause_for("approval")["approved"])


def test_an_answer_to_a_flow_that_is_not_served_is_kept_and_says_why_it_does_not_go_on(
    server: Served, approver: str
) -> None:
    with Outlast(server.home) as outlast:
        (wait,) = outlast.run(elsewhere).interrupts
    answered = server.post(f"/v1/interrupts/{wait.id}/answer", {"answer": {"approved": True}}, key=approver).json
    assert (answered["status"], answered["goes_on"]) == ("answered", False)
    assert answered["why_not"].startswith("no_flows: ")


def test_an_answer_to_a_child_goes_on_with_its_parent(server: Served, approver: str) -> None:
    run = start(server, "parenting", question="child?")["run_id"]
    (wait,) = [
        each
        for each in server.get("/v1/interrupts").json["items"]
        if each["type"] == "approval" and each["payload"] == {"question": "child?"}
    ]
    server.post(f"/v1/interrupts/{wait['id']}/answer", {"answer": {"approved": True}}, key=approver)
    until(lambda: server.get(f"/v1/runs/{run}").json["status"] == "succeeded")


def test_an_answer_while_other_branches_run_goes_on_when_they_are_done(
    server: Served, approver: str, tmp_path: Path
) -> None:
    run = start(server, "both", path=str(tmp_path / "go"), wait=0)["run_id"]
    (wait,) = until(lambda: server.get(f"/v1/interrupts?run_id={run}").json["items"])
    body = {"answer": {"approved": True}}
    answered = server.post(f"/v1/interrupts/{wait['id']}/answer", body, key=approver).json
    assert (answered["goes_on"], answered["why_not"]) == (True, "")
    (tmp_path / "go").write_text("text")
    until(lambda: server.get(f"/v1/runs/{run}").json["status"] == "succeeded")
    assert server.get(f"/v1/runs/{run}").json["result"] == "text True"


def test_a_no_that_ends_the_run_is_not_gone_on_with(server: Served, approver: str) -> None:
    _, wait = asked(server, "no?")
    answered = server.post(f"/v1/interrupts/{wait['id']}/answer", {"answer": {"approved": False}}, key=approver)
    assert answered.status == 200, answered.raw


# -- what needs the role -----------------------------------------------------------------------------


def test_who_may_write_may_not_answer_skip_rewind_accept_or_name_another_flow(server: Served, worker: str) -> None:
    run, wait = asked(server, "who?")
    refused = [
        server.post(f"/v1/interrupts/{wait['id']}/answer", {"answer": {"approved": True}}, key=worker),
        server.post(f"/v1/interrupts/{wait['id']}/cancel", {"why": "w"}, key=worker),
        server.post(f"/v1/runs/{run}/skip", {"step": "x", "why": "w"}, key=worker),
        server.post(f"/v1/runs/{run}/rewind", {"step": "x"}, key=worker),
        server.post(f"/v1/runs/{run}/fork", {"from_step": "x"}, key=worker),
        server.post(f"/v1/runs/{run}/resume", {"accept": ["code_changed"], "why": "w"}, key=worker),
        server.post(f"/v1/runs/{run}/resume", {"flow": "telling"}, key=worker),  # which asks nobody
    ]
    assert [reply.code for reply in refused] == ["forbidden"] * 7
    assert server.get(f"/v1/interrupts/{wait['id']}").json["status"] == "open"


def test_who_may_write_may_retry_a_step_and_no_effect(
    server: Served, worker: str, approver: str, tmp_path: Path
) -> None:
    failed = start(server, "stumble", path=str(tmp_path / "later"))
    assert failed["status"] == "failed"
    path = f"/v1/runs/{failed['run_id']}/retry"
    assert server.post(path, {"step": "stumbling"}, key=worker).status == 200

    doubtful = start(server, "charging", amount=3)
    assert doubtful["status"] == "waiting"
    path = f"/v1/runs/{doubtful['run_id']}/retry"
    refused = server.post(path, {"step": "charge"}, key=worker)
    assert refused.code == "forbidden"
    assert "effect" in refused.json["detail"]
    assert server.get(f"/v1/interrupts?run_id={doubtful['run_id']}").json["items"][0]["status"] == "open"
    both = server.keys().create("eve", roles=["write", "approve"]).text
    assert server.post(path, {"step": "charge"}, key=both).status == 200


HANDOFF = {"anchor": "task:gated", "summary": "s", "handoff_text": "t", "next_action": "n"}


def test_accept_take_and_override_of_handoffs_and_tasks_need_it_too(server: Served, worker: str) -> None:
    assert server.post("/v1/handoff/store", HANDOFF, key=worker).status == 200
    anchor = {"anchor": "task:gated"}
    refused = [
        server.post("/v1/handoff/recover", {**anchor, "accept": ["file_changed"], "why": "w"}, key=worker),
        server.post("/v1/handoff/recover", {**anchor, "claim": True, "take": True, "why": "w"}, key=worker),
        server.post("/v1/handoff/claim", {**anchor, "take": True, "why": "w"}, key=worker),
        server.post("/v1/handoff/claim", {**anchor, "accept": ["file_changed"], "why": "w"}, key=worker),
        server.post("/v1/handoff/settle", {**anchor, "outcome": "completed", "override": "w"}, key=worker),
        server.post("/v1/tasks/gated/resume", {"take": True, "why": "w"}, key=worker),
        server.post("/v1/tasks/gated/complete", {"override": "w"}, key=worker),
    ]
    assert [reply.code for reply in refused] == ["forbidden"] * len(refused), [reply.raw for reply in refused]
    assert server.post("/v1/handoff/claim", anchor, key=worker).status == 200


def test_what_needs_the_role_depends_on_the_fields_and_the_description_says_so(server: Served) -> None:
    described = server.get("/openapi.json").json["paths"]
    for path in ("/v1/runs/{run_id}/resume", "/v1/handoff/recover", "/v1/handoff/claim", "/v1/handoff/settle"):
        assert "`approve`" in described[path]["post"]["description"], path


# -- the same at /mcp --------------------------------------------------------------------------------


def test_at_mcp_the_role_of_the_key_decides_what_is_listed_and_done(server: Served, worker: str, approver: str) -> None:
    seen = {
        key: {tool["name"] for tool in told(ask(server, "tools/list", key=key))["tools"]} for key in (worker, approver)
    }
    assert seen[approver] - seen[worker] == FOR_PEOPLE
    run, wait = asked(server, "over mcp?")
    given = {"interrupt_id": wait["id"], "answer": {"approved": True}}
    refused = call(server, "interrupt_answer", given, key=worker)["structuredContent"]
    assert (refused["code"], "approve" in refused["detail"]) == ("forbidden", True)
    done = call(server, "interrupt_answer", given, key=approver)["structuredContent"]
    assert (done["answered_by"], done["outcome"]["status"]) == ("ann", "succeeded")
    assert server.get(f"/v1/runs/{run}").json["result"] is True


def test_at_mcp_an_effect_is_tried_again_by_who_may_approve(server: Served, worker: str) -> None:
    run = start(server, "charging", amount=77)["run_id"]
    given = {"run_id": run, "step": "charge"}
    assert call(server, "run_retry", given, key=worker)["structuredContent"]["code"] == "forbidden"
    both = server.keys().create("eve", roles=["write", "approve"]).text
    assert call(server, "run_retry", given, key=both)["structuredContent"]["id"] == run
