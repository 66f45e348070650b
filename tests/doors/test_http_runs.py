"""Runs over HTTP: started, followed, answered, decided about."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast

from . import http_flows
from .server import Served, served

FLOWS = str(Path(http_flows.__file__))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, keyed=True, flows=(FLOWS,), poll_seconds=0.02) as found:
        yield found


def start(server: Served, flow: str, *, wait: float = 30, **inputs: Any) -> dict[str, Any]:
    reply = server.post(f"/v1/runs?wait={wait}", {"flow": flow, "inputs": inputs})
    assert reply.status in (200, 202), reply.raw
    found: dict[str, Any] = reply.json
    return found


def until(true: Callable[[], Any]) -> Any:
    limit = time.monotonic() + 60
    while not (found := true()):
        assert time.monotonic() < limit, "it never became true"
        time.sleep(0.01)
    return found


def test_a_flow_is_run_and_its_outcome_waited_for(server: Served) -> None:
    done = start(server, "doubling", number=21)
    assert (done["status"], done["result"]) == ("succeeded", 42)
    run = server.get(f"/v1/runs/{done['run_id']}").json
    assert (run["status"], run["actor"], run["inputs"]) == ("succeeded", "local", {"number": 21})
    assert [each["step"] for each in server.get(f"/v1/runs/{run['id']}/receipts").json["items"]] == ["double"]


def test_a_failed_run_names_the_child_in_which_it_went_wrong(server: Served, tmp_path: Path) -> None:
    failed = start(server, "stumbling_below", path=str(tmp_path / "missing"))
    assert failed["status"] == "failed"
    (below,) = server.get(f"/v1/runs/{failed['run_id']}").json["failed_below"]
    assert (below["step"], below["error"]["type"]) == ("stumbling", "builtins:FileNotFoundError")
    assert below["flow"].endswith("stumble")
    child = server.get(f"/v1/runs/{below['run_id']}").json
    assert (child["parent"], child["failed_below"]) == (failed["run_id"], [])


def test_without_waiting_the_answer_is_that_it_runs(server: Served, tmp_path: Path) -> None:
    reply = server.post("/v1/runs", {"flow": "telling", "inputs": {"path": str(tmp_path / "go")}})
    assert (reply.status, reply.json["status"]) == (202, "running")
    assert reply.headers["location"] == f"/v1/runs/{reply.json['run_id']}"
    assert server.get(f"/v1/runs/{reply.json['run_id']}/outcome").status == 202
    (tmp_path / "go").write_text("done")
    ended = server.get(f"/v1/runs/{reply.json['run_id']}/outcome?wait=30")
    assert (ended.status, ended.json["result"]) == (200, "done")


def test_the_same_operation_starts_one_run(server: Served) -> None:
    asked = {"flow": "doubling", "inputs": {"number": 5}, "task": "once"}
    first = server.post("/v1/runs?wait=30", asked, headers={"idempotency-key": "start-1"})
    again = server.post("/v1/runs?wait=30", asked, headers={"idempotency-key": "start-1"})
    assert first.json["run_id"] == again.json["run_id"]
    assert "idempotency-replayed" not in first.headers
    assert (again.headers["idempotency-replayed"], again.json["result"]) == ("true", 10)
    other = server.post("/v1/runs", asked | {"task": "twice"}, headers={"idempotency-key": "start-1"})
    assert other.code == "operation_conflict"
    assert server.post("/v1/runs?wait=30", asked | {"task": "twice"}).json["run_id"] != first.json["run_id"]


def test_inputs_are_checked_before_anything_runs(server: Served) -> None:
    for inputs in ({"number": "many"}, {}, {"number": 1, "more": 2}):
        assert server.post("/v1/runs", {"flow": "doubling", "inputs": inputs}).code == "inputs_invalid"


def test_only_the_flows_that_it_was_given_can_be_run(server: Served) -> None:
    for flow in ("os:system", "nothing", "json:loads", "../flows.py:x"):
        assert server.post("/v1/runs", {"flow": flow}).code == "no_flows"


def test_a_run_of_another_flow_is_not_resumed(server: Served) -> None:
    with server.opened() as outlast, outlast.open("script") as run:
        run.step(len, "abc")
        run_id = run.id
        assert server.post(f"/v1/runs/{run_id}/resume").code == "no_flows"


def test_an_approver_answers_and_is_on_record(server: Served) -> None:
    waiting = start(server, "asking", question="ship it?")
    wait = waiting["interrupts"][0]
    assert (waiting["status"], wait["type"]) == ("waiting", "approval")
    listed = server.get(f"/v1/interrupts?run_id={waiting['run_id']}").json["items"]
    assert [each["id"] for each in listed] == [wait["id"]]
    path = f"/v1/interrupts/{wait['id']}/answer"
    keys = server.keys()
    writer, approver = keys.create("wim", roles=["write"]).text, keys.create("ann", roles=["approve"]).text
    assert server.post(path, {"answer": {"approved": True}}, key=writer).code == "forbidden"
    assert server.post(path, {"answer": {"approved": "perhaps"}}, key=approver).code == "answer_invalid"
    answered = server.post(path, {"answer": {"approved": True}, "shown": wait["digest"]}, key=approver)
    assert (answered.json["status"], answered.json["answered_by"]) == ("answered", "ann")
    assert server.post(path, {"answer": {"approved": False}}, key=approver).code == "already_answered"
    assert server.get(f"/v1/runs/{waiting['run_id']}/outcome?wait=30").json["result"] is True
    assert server.get(f"/v1/interrupts/{wait['id']}").json["answered_by"] == "ann"


def test_a_wait_is_cancelled_with_a_reason(server: Served) -> None:
    waiting = start(server, "asking", question="really?")
    wait = waiting["interrupts"][0]["id"]
    assert server.post(f"/v1/interrupts/{wait}/cancel", {"why": "called off"}).json["status"] == "cancelled"
    assert server.post(f"/v1/runs/{waiting['run_id']}/resume?wait=30").json["status"] == "failed"


def test_a_run_is_paused_resumed_and_given_up(server: Served, tmp_path: Path) -> None:
    run_id = start(server, "telling", path=str(tmp_path / "go"), wait=0)["run_id"]
    assert server.post(f"/v1/runs/{run_id}/resume").code == "run_held"
    assert server.post(f"/v1/runs/{run_id}/pause").status == 200
    until(lambda: server.get(f"/v1/runs/{run_id}").json["status"] != "running")
    plan = server.get(f"/v1/runs/{run_id}/plan").json
    assert plan["verdict"]["word"] in ("trusted", "candidate")
    assert server.post(f"/v1/runs/{run_id}/abort", {"why": "no use"}).json["status"] == "aborted"
    assert server.post(f"/v1/runs/{run_id}/resume").code == "run_finished"


def test_a_step_is_skipped_with_a_result(server: Served, tmp_path: Path) -> None:
    run_id = start(server, "telling", path=str(tmp_path / "go"), wait=0)["run_id"]
    server.post(f"/v1/runs/{run_id}/pause")
    until(lambda: server.get(f"/v1/runs/{run_id}").json["status"] != "running")
    assert server.post(f"/v1/runs/{run_id}/skip", {"step": "nope", "why": "w"}).code == "step_not_found"
    assert server.post(f"/v1/runs/{run_id}/skip", {"step": "until_there", "result": "x", "why": "w"}).status == 200
    assert server.post(f"/v1/runs/{run_id}/resume?wait=30").json["result"] == "x"


def test_a_signal_is_sent(server: Served) -> None:
    sent = server.post("/v1/signals", {"name": "paid", "task": "order-1", "body": {"sum": 3}})
    assert (sent.json["name"], sent.json["body"], sent.json["actor"]) == ("paid", {"sum": 3}, "local")
    assert server.post("/v1/signals", {"name": "paid"}).status == 422


def test_lists_are_read_page_by_page_without_loss_or_double(server: Served) -> None:
    with Outlast(server.home) as outlast:
        runs = [outlast.run(http_flows.doubling, number, task=f"page-{number}").run_id for number in range(5)]
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = server.get(f"/v1/runs?status=succeeded&limit=2&cursor={cursor}").json
        seen += [run["id"] for run in page["items"]]
        cursor = page["next"]
    assert len(seen) == len(set(seen))
    assert [run for run in seen if run in runs] == runs[::-1]


def test_what_is_not_there_is_not_found(server: Served) -> None:
    for path in ("", "/receipts", "/plan", "/events", "/timeline", "/outcome"):
        assert server.get(f"/v1/runs/nothing{path}").code == "run_not_found"
    assert server.get("/v1/interrupts/nothing").code == "interrupt_not_found"


def test_two_waiters_do_not_hold_each_other_up(server: Served, tmp_path: Path) -> None:
    """More clients wait than the server has threads, and others are answered meanwhile."""
    run_id = start(server, "telling", path=str(tmp_path / "go"), wait=0)["run_id"]
    got: list[int] = []
    ask = lambda: got.append(server.get(f"/v1/runs/{run_id}/outcome?wait=30").status)  # noqa: E731
    waiters = [threading.Thread(target=ask) for _ in range(24)]
    for waiter in waiters:
        waiter.start()
    assert server.get("/v1/runs").status == 200
    (tmp_path / "go").write_text("now")
    for waiter in waiters:
        waiter.join(60)
    assert got == [200] * 24


def test_a_run_whose_thread_cannot_start_is_given_back_and_the_client_is_told(server: Served) -> None:
    begun = server.post("/v1/runs?wait=30", {"flow": "doubling", "inputs": {"number": 70}})
    assert begun.status == 200  # and the thread that begins runs is there
    before = threading.stack_size(1 << 46)  # a stack that no system has room for
    try:
        refused = server.post("/v1/runs", {"flow": "doubling", "inputs": {"number": 71}})
    finally:
        threading.stack_size(before)
    assert (refused.status, refused.code) == (503, "no_thread")
    assert refused.headers["retry-after"]
    run = server.get("/v1/runs?limit=1").json["items"][0]
    assert (run["status"], run["inputs"]) == ("interrupted", {"number": 71})
    assert server.post(f"/v1/runs/{run['id']}/resume?wait=30").json["result"] == 142
