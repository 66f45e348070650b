"""A plan is the same at every door."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast

from ..crash.command_folder import Folder
from .server import served


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    found = Folder(tmp_path / "work")
    found.write("in.txt", "one")
    found.flow("- {id: build, run: 'true', reads: in.txt}\n- {id: test, run: test -e go}\n- {id: release, run: 'true'}")
    found.run()
    yield found
    found.end()


@pytest.mark.parametrize("is_gone", [False, True], ids=["changed", "gone"])
def test_the_plan_is_the_same_in_python_over_http_and_on_the_command_line(folder: Folder, is_gone: bool) -> None:
    folder.write("in.txt", "two")
    if is_gone:
        (folder.path / "flow.yaml").unlink()
    run_id, plan = folder.run_id, folder.outlast.plan(folder.run_id)
    folder.close()
    said = folder.cli("resume", run_id, "--dry-run", "--json").json
    with served(folder.path / ".outlast") as server:
        told = server.get(f"/v1/runs/{run_id}/plan").json
        with Outlast(f"http://127.0.0.1:{server.port}") as client:
            assert client.plan(run_id) == plan
    assert said == told
    assert [step["action"] for step in told["steps"]] == [step.action for step in plan.steps]
    assert (told["ahead"], bool(told["refused"])) == ([] if is_gone else ["release"], is_gone)
    assert plan.of("redo") == (() if is_gone else ("build",))


def test_the_plan_of_going_back_to_a_step_is_the_same_at_every_door(folder: Folder) -> None:
    run_id, supposed = folder.run_id, {"from_step": "build", "accept": ["output_missing"], "partial": "keep"}
    plan = folder.outlast.plan(run_id, **supposed)
    folder.close()
    words = ("--from", "build", "--accept", "output_missing", "--partial", "keep", "--why", "w")
    said = folder.cli("resume", run_id, *words, "--dry-run", "--json").json
    with served(folder.path / ".outlast") as server:
        told = server.get(f"/v1/runs/{run_id}/plan?from_step=build&accept=output_missing&partial=keep").json
        assert server.get(f"/v1/runs/{run_id}/plan?from_step=dance").json["code"] == "step_not_found"
        with Outlast(f"http://127.0.0.1:{server.port}") as client:
            assert client.plan(run_id, **supposed) == plan
    assert said == told
    assert plan.of("retry") == ("build", "test")
