"""The tool that starts a flow: named ones only, once for one id, and a run of somebody else is waited for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast

from .http_flows import doubling
from .server import Served, served
from .test_http_mcp import call
from .test_http_runs import FLOWS, until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, keyed=True, flows=(FLOWS,), poll_seconds=0.02, key_runs=1) as found:
        yield found


def start(server: Served, flow: str, inputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = call(server, "run_start", {"flow": flow, "inputs": inputs, **more})["structuredContent"]
    return found


def test_a_flow_is_run_and_told(server: Served) -> None:
    done = start(server, "doubling", {"number": 21})
    assert (done["status"], done["result"], done["goes_on"], done["replayed"]) == ("succeeded", 42, False, False)


def test_a_run_is_found_by_the_tags_that_it_was_started_with_on_every_door(server: Served) -> None:
    told = start(server, "doubling", {"number": 31}, tags=["nightly"])
    posted = server.post("/v1/runs?wait=5", {"flow": "doubling", "inputs": {"number": 32}, "tags": ["nightly"]})
    with Outlast(f"http://127.0.0.1:{server.port}", key=server.key) as client:
        asked = client.with_options(tags=["nightly"]).run(doubling, 33)
        assert asked.status == "succeeded"
    found = server.get("/v1/runs?tag=nightly").json["items"]
    assert {run["id"] for run in found} == {told["run_id"], posted.json["run_id"], asked.run_id}


def test_a_named_task_happens_once_and_an_id_gives_back_its_run(server: Served) -> None:
    first = start(server, "doubling", {"number": 4}, task="four")
    assert start(server, "doubling", {"number": 4}, task="four")["run_id"] == first["run_id"]
    once = start(server, "doubling", {"number": 5}, operation_id="five")
    again = start(server, "doubling", {"number": 5}, operation_id="five")
    assert (again["run_id"], again["replayed"]) == (once["run_id"], True)
    assert start(server, "doubling", {"number": 6}, operation_id="five")["code"] == "operation_conflict"


def test_a_run_of_somebody_else_is_named_with_its_holder_and_waited_for(server: Served, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = server.post("/v1/runs", {"flow": "telling", "inputs": {"path": str(go)}}, key=other(server)).json["run_id"]
    held = start(server, "telling", {"path": str(go)}, wait_seconds=0)
    assert (held["run_id"], held["status"], held["goes_on"]) == (first, "running", True)
    assert held["holder"] == "this process"
    go.write_text("done")
    done = start(server, "telling", {"path": str(go)}, operation_id="joined")
    assert (done["result"], done["status"]) == ("done", "succeeded")


def other(server: Served) -> str:
    return server.keys().create("other", roles=["write"]).text


def test_what_goes_on_counts_among_the_runs_of_its_key(server: Served, tmp_path: Path) -> None:
    go = tmp_path / "go"
    going = start(server, "telling", {"path": str(go)}, wait_seconds=0)
    assert (going["goes_on"], going["holder"]) == (True, "")
    assert start(server, "doubling", {"number": 1})["code"] == "too_many_runs"
    go.write_text("done")
    until(lambda: server.get(f"/v1/runs/{going['run_id']}").json["status"] == "succeeded")
    until(lambda: start(server, "doubling", {"number": 1}).get("result") == 2)


def test_what_it_was_not_given_is_refused(server: Served) -> None:
    for flow in ("os:system", "nothing", "json:loads"):
        assert start(server, flow, {})["code"] == "no_flows"
    assert start(server, "doubling", {"number": "many"})["code"] == "inputs_invalid"
    reader = server.keys().create("ann", roles=["read"]).text
    refused = call(server, "run_start", {"flow": "doubling", "inputs": {"number": 1}}, key=reader)
    assert refused["structuredContent"]["code"] == "forbidden"


def test_a_named_task_happens_again_only_for_who_may_approve_and_names_its_effects(
    server: Served, tmp_path: Path
) -> None:
    asked = {"flow": "paying", "inputs": {"path": str(tmp_path / "paid")}, "task": "bill"}
    writer = server.keys().create("ann", roles=["read", "write"]).text
    first = call(server, "run_start", asked)["structuredContent"]
    for more in ({"again": True}, {"effects": ["pay"]}):
        assert call(server, "run_start", asked | more, key=writer)["structuredContent"]["code"] == "forbidden"
    assert call(server, "run_start", asked | {"again": True})["structuredContent"]["code"] == "repeats_effects"
    assert (tmp_path / "paid").read_text() == "paid\n"
    second = call(server, "run_start", asked | {"again": True, "effects": ["pay"]})["structuredContent"]
    assert (second["status"], second["run_id"] != first["run_id"]) == ("succeeded", True)
    assert (tmp_path / "paid").read_text() == "paid\n" * 2
