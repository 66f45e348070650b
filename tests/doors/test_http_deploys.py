"""A server that was started from the next release: runs of the one before go on, and nobody waits in vain."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.errors import NoFlows

from ..kit import deploys as kit
from ..kit.deploys import Deploys, named
from .server import Served, served
from .test_mcp_stdio import HANDSHAKE, a_call, talk

PROTOCOL = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deploys]:
    monkeypatch.setenv("WORLD", str(tmp_path / "world"))
    yield from kit.deploys(tmp_path)


def waiting(place: Deploys, text: str = kit.FLOW) -> str:
    """A run of the first release that waits for a yes."""
    place.release("r1", text)
    assert place("r1", "run", "flow.py:asking").code == 3
    (run_id,) = place.runs
    return run_id


def serving(place: Deploys, release: str = "r2") -> Any:
    return served(place.home, flows=(str(place.folder / release / "flow.py"),), poll_seconds=0.02)


def approve(server: Served) -> None:
    (item,) = server.get("/v1/interrupts").json["items"]
    found = server.post(f"/v1/interrupts/{item['id']}/answer", {"answer": {"approved": True}})
    assert found.status == 200, found.raw


def call(server: Served, tool: str, **arguments: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    text = server.post("/mcp", body, headers=PROTOCOL).raw.decode()
    line = next((each for each in text.splitlines() if each.startswith("data: {")), f"data: {text}")
    return json.loads(line.removeprefix("data: "))["result"]["structuredContent"]


@pytest.mark.parametrize("how", ["equal code", "gone", "named"])
def test_a_run_of_the_release_before_is_approved_and_goes_on(place: Deploys, how: str) -> None:
    run_id = waiting(place, named() if how == "named" else kit.FLOW)
    place.copy("r1", "r2")
    if how != "equal code":
        place.change("r2", change=('"yes" if', '"Yes" if'))
    if how == "gone":
        place.remove("r1")
    with serving(place) as server:
        approve(server)
        done = server.get(f"/v1/runs/{run_id}/outcome?wait=30")  # an answer goes on with it
        assert (done.status, done.json["status"]) == (200, "succeeded"), done.raw
        assert done.json["result"] == ("yes" if how == "equal code" else "Yes")
        assert server.get(f"/v1/runs/{run_id}").json["source"] == f"{place.folder}/r2/flow.py:asking"
    assert place.charged == ["kelp"]


def test_the_same_start_goes_on_with_the_run_of_the_release_before(place: Deploys) -> None:
    run_id = waiting(place)
    place.copy("r1", "r2")
    with serving(place) as server:
        found = server.post("/v1/runs?wait=30", {"flow": "asking"})
        assert (found.json["run_id"], found.json["status"]) == (run_id, "waiting")
    assert place.charged == ["kelp"]


def test_the_same_operation_after_a_deploy_is_the_same(place: Deploys) -> None:
    place.release("r1")
    place.copy("r1", "r2")
    asked = {"flow": "asking", "task": "T", "operation_id": "op-1"}
    with serving(place, "r1") as server:
        first = server.post("/v1/runs?wait=30", asked).json
    place.remove("r1")
    with serving(place) as server:
        second = server.post("/v1/runs?wait=30", asked)
        assert (second.json["run_id"], second.status) == (first["run_id"], 200)
    assert place.charged == ["kelp"]


def test_where_only_a_person_can_tell_the_flow_is_to_be_named(place: Deploys) -> None:
    run_id = waiting(place)
    place.copy("r1", "r2")
    place.change("r2")
    with serving(place) as server:
        approve(server)
        refused = server.post(f"/v1/runs/{run_id}/resume?wait=30")
        assert (refused.status, refused.code) == (409, "flow_elsewhere")
        assert call(server, "run_resume", run_id=run_id)["code"] == "flow_elsewhere"
        for unknown in ("nobody", f"{place.folder}/r1/flow.py:asking", "../r1/flow.py"):
            assert server.post(f"/v1/runs/{run_id}/resume", {"flow": unknown}).code == "no_flows"
        assert server.get(f"/v1/runs/{run_id}").json["status"] == "waiting"
        done = server.post(f"/v1/runs/{run_id}/resume?wait=30", {"flow": "asking"})
        assert (done.status, done.json["result"]) == (200, "yes"), done.raw
    assert place.charged == ["kelp"]


def test_over_mcp_and_the_client_the_flow_is_named_too(place: Deploys) -> None:
    run_id = waiting(place)
    place.copy("r1", "r2")
    place.change("r2")
    with serving(place) as server:
        approve(server)
        with Outlast(f"http://127.0.0.1:{server.port}") as client, pytest.raises(NoFlows):
            client.resume(run_id, flow="nobody")
        assert call(server, "run_resume", run_id=run_id, flow="nobody")["code"] == "no_flows"
        assert call(server, "run_resume", run_id=run_id, flow="asking")["result"] == "yes"
    assert place.charged == ["kelp"]


def test_the_command_line_of_a_client_names_it(place: Deploys) -> None:
    run_id = waiting(place)
    place.copy("r1", "r2")
    place.change("r2")
    with serving(place) as server:
        approve(server)
        url = {"OUTLAST_HOME": f"http://127.0.0.1:{server.port}"}
        assert place("world", "resume", run_id, **url).code == 4
        assert place("world", "resume", run_id, "--flow", "asking", **url).code == 0


def test_a_server_without_the_flow_says_so(place: Deploys) -> None:
    run_id = waiting(place)
    place.release("r2", kit.FLOW.replace("def asking(", "def other("))
    with serving(place) as server:
        assert server.post(f"/v1/runs/{run_id}/resume").code == "no_flows"


def test_a_second_run_beside_an_unfinished_one_is_noted_and_the_server_says_nothing(place: Deploys) -> None:
    run_id = edited(place, "slow")
    with warnings.catch_warnings(), serving(place) as server:
        warnings.simplefilter("error")
        soon = server.post("/v1/runs", {"flow": "asking"})
        (note,) = soon.json["notes"]
        assert (soon.status, "beside it" in note, f"outlast resume {run_id}" in note) == (202, True, True)
        place.open()
        assert server.post("/v1/runs?wait=30", {"flow": "asking", "inputs": {"who": "moss"}}).json["notes"] == []
        assert server.get(f"/v1/runs/{soon.json['run_id']}/outcome?wait=30").json["status"] == "waiting"
        assert server.post("/v1/runs?wait=30", {"flow": "bill", "inputs": {"who": "fern"}}).json["notes"] == []


def edited(place: Deploys, default: str) -> str:
    """A run that waits, and a release in which the default of its flow is another one."""
    run_id = waiting(place)
    place.copy("r1", "r2")
    place.remove("r1")
    place.change(
        "r2", change=('def asking(run: Run, who: str = "kelp"', f'def asking(run: Run, who: str = "{default}"')
    )
    return run_id


def test_a_client_is_warned_of_it(place: Deploys) -> None:
    edited(place, "moss")
    with serving(place) as server, Outlast(f"http://127.0.0.1:{server.port}") as client:
        from outlast.python.named_flows import find_flow

        flow = find_flow(f"{place.folder}/r2/flow.py:asking", str(place.home))
        with pytest.warns(RuntimeWarning, match="beside it"):
            outcome = client.run(flow)
        assert "beside it" in outcome.notes[0]


def test_a_model_runs_no_code_of_the_folder_it_is_in_for_a_flow_that_is_gone(place: Deploys) -> None:
    run_id = waiting(place)
    place.copy("r1", "r2")
    place.remove("r1")
    with place.opened() as outlast:
        outlast.answer(outlast.interrupts(run_id)[0].id, {"approved": True})
    child = place.start("r2", "mcp", "--allow-approve")
    answers = talk(
        child,
        *HANDSHAKE,
        a_call(2, "run_resume", run_id=run_id),
        a_call(3, "run_resume", run_id=run_id, flow="asking"),
    )
    child.stdin.close()
    assert child.wait(timeout=60) == 0
    assert [answers[number]["result"]["structuredContent"]["code"] for number in (2, 3)] == [
        "flow_not_found",
        "no_flows",
    ]
    assert place("r2", "resume", run_id).code == 0  # a person, in that folder
