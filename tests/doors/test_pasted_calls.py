"""Every call that the tools name for a model works as it is named: in another scope, and shown over HTTP."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import StdioServerParameters

from ..ready import by_name
from .conftest import environment
from .mcp_place import Caller, Place, connected, contract, text_of
from .server import served

CALL = re.compile(r'\b([a-z]+_[a-z]+) with ((?:[a-z_]+=(?:"(?:[^"\\]|\\.)*"|[a-z]+)(?:, )?)+)')
ARGUMENT = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[a-z]+)')
SCOPE = 'team "1", a=b'


def calls(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls that a text names."""
    return [
        (tool, {name: json.loads(value) for name, value in ARGUMENT.findall(given)})
        for tool, given in CALL.findall(text)
    ]


def named(text: str, tool: str) -> dict[str, Any]:
    (found,) = [given for name, given in calls(text) if name == tool]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("it's a project"))
    made.opened().close()
    return made


@pytest.fixture(scope="module", params=["stdio", "http"])
def call(place: Place, request: pytest.FixtureRequest) -> Iterator[Caller]:
    if request.param == "stdio":
        words = ["-m", "outlast", "mcp", "--actor", "model", "--flows", "flows.py"]
        server = StdioServerParameters(**by_name(*words), cwd=place.folder, env=environment())
        with connected(server) as found:
            yield found
        return
    with (
        place.inside(),
        served(place.folder / ".outlast", flows=["flows.py"]) as server,
        connected(f"http://127.0.0.1:{server.port}/mcp") as found,
    ):
        yield found


def test_a_handoff_goes_from_store_to_settle_by_the_calls_that_are_named(call: Caller, place: Place) -> None:
    stored = call("handoff_store", anchor='part "1"', scope=SCOPE, **contract(acceptance_checks=[]))
    recovered = call("handoff_recover", **named(text_of(stored), "handoff_recover"))
    claimed = call("handoff_recover", **named(text_of(recovered), "handoff_recover"))
    assert claimed.structured_content["resume"] == "attached", text_of(claimed)
    settle = named(text_of(claimed), "handoff_settle")
    assert settle["claim_id"] == claimed.structured_content["claim"]["id"]
    assert call.value("handoff_settle", **settle | {"outcome": "released"})["outcome"] == "released"


def test_a_task_goes_from_pause_to_complete_by_the_calls_that_are_named(call: Caller, place: Place) -> None:
    paused = call("task_pause", task=f'fix "{id(call)}"', scope=SCOPE, **contract(acceptance_checks=[]))
    resumed = call("task_resume", **named(text_of(paused), "task_resume"))
    complete = named(text_of(resumed), "task_complete")
    assert complete["claim_id"] == resumed.structured_content["claim"]["id"]
    done = call("task_complete", **complete)
    code = (done.structured_content or {}).get("code")
    assert code in (None, "not_settled"), text_of(done)  # whether it is done is another matter; it is known whose it is


def test_a_run_that_stopped_is_found_without_a_name_claimed_and_resumed(call: Caller, place: Place) -> None:
    name = f"{id(call)}.txt"
    run_id = place.stopped("slow", name=name, task=f"slow {name}")
    (place.folder / name).touch()
    found = call("handoff_recover", anchor=f"task:slow {name}")
    assert f"Its run {run_id} is failed" in text_of(found)
    claimed = call("handoff_recover", **named(text_of(found), "handoff_recover"))
    resume = named(text_of(claimed), "run_resume")
    assert resume == {"run_id": run_id, "claim_id": claimed.structured_content["claim"]["id"]}
    assert call.value("run_resume", **resume)["status"] == "succeeded"


def test_a_start_without_arguments_finds_a_run_that_stopped(call: Caller, place: Place) -> None:
    run_id = place.stopped("slow", name="other.txt", task=f"other slow {id(call)}")
    found = call("handoff_recover")
    assert not found.is_error, text_of(found)
    assert found.structured_content["run"]["run_id"] == run_id
    (place.folder / "other.txt").touch()
    assert call.value("run_resume", **named(text_of(found), "run_resume"))["status"] == "succeeded"
