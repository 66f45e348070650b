"""A server goes on with what can go on by itself: when it starts, and as soon as it can."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.errors import RunFinished
from outlast.python.named_flows import find_flow

from ..kit import ledgers
from . import http_flows
from .server import served

FLOWS = str(Path(http_flows.__file__))


def until(true: Callable[[], Any]) -> Any:
    limit = time.monotonic() + 60
    while not (found := true()):
        assert time.monotonic() < limit, "it never became true"
        time.sleep(0.01)
    return found


def crashed(home: Path, path: Path, **options: Any) -> str:
    """A run of `telling` whose process was killed in its step; what it waits for is there afterwards."""
    there = path.exists()
    path.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            with Outlast(home, **options) as outlast:
                outlast.start(find_flow(f"{FLOWS}:telling", str(home)), path=str(path))
                until(lambda: any(r.step == "until_there" for run in outlast.runs() for r in outlast.receipts(run.id)))
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    if there:
        path.write_text("there")
    with Outlast(home, **options) as outlast:
        return outlast.runs()[0].id


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def go(tmp_path: Path) -> Path:
    path = tmp_path / "go"
    path.write_text("there")
    return path


def status(home: Path, run_id: str, **options: Any) -> str:
    with Outlast(home, **options) as outlast:
        return outlast.get(run_id).status


@pytest.mark.parametrize("tenant", ["default", "other"])
def test_what_had_crashed_goes_on_when_the_server_starts(home: Path, go: Path, tenant: str) -> None:
    run_id = crashed(home, go, tenant=tenant)
    with served(home, flows=(FLOWS,), works=True) as server:
        until(lambda: status(home, run_id, tenant=tenant) == "succeeded")
        until(lambda: any(line.get("wake") == "resumed" and line["run_id"] == run_id for line in server.log()))


def test_what_is_answered_elsewhere_goes_on_at_the_next_look(home: Path) -> None:
    with Outlast(home) as outlast:
        outcome = outlast.run(find_flow(f"{FLOWS}:asking", str(home)), question="go on?")
        (wait,) = outcome.interrupts
        with served(home, flows=(FLOWS,), works=True):
            outlast.answer(wait.id, {"approved": True})
            until(lambda: outlast.get(outcome.run_id).status == "succeeded")


def test_a_flow_that_is_not_served_is_left_and_so_is_all_by_a_server_that_wakes_nothing(home: Path, go: Path) -> None:
    run_id = crashed(home, go)
    with served(home, flows=(FLOWS,), works=False):
        pass
    other = home.parent / "other.py"
    other.write_text("from outlast import flow\n\n\n@flow\ndef nothing(run):\n    return 1\n")
    with served(home, flows=(str(other),), works=True) as server:
        with Outlast(home) as outlast:
            outcome = outlast.run(find_flow(f"{other}:nothing", str(home)), task="by hand")
        assert outcome.status == "succeeded"
        assert server.get("/v1/due").json["items"][0]["run_id"] == run_id
    assert status(home, run_id) == "crashed"


def test_no_more_runs_are_woken_at_once_than_there_is_room_for(home: Path, tmp_path: Path) -> None:
    go = tmp_path / "later"
    for number in range(3):
        crashed(home, go, scope=f"s{number}")
    with served(home, flows=(FLOWS,), works=True, work_runs=2) as server:
        until(lambda: sum(line.get("wake") == "resumed" for line in server.log()) == 2)
        assert len(server.get("/v1/runs?status=running").json["items"]) == 2
        go.write_text("there")
        until(lambda: {run["status"] for run in server.get("/v1/runs").json["items"]} == {"succeeded"})


def test_what_is_contested_is_not_woken_and_told_once(home: Path, go: Path) -> None:
    run_id = crashed(home, go)
    damage(home)
    with served(home, flows=(FLOWS,), works=True) as server:
        until(lambda: any(line.get("wake") == "refused" for line in server.log()))
        for _ in range(5):
            assert server.get("/healthz").status == 200
        assert sum(line.get("wake") == "refused" for line in server.log()) == 1
    assert status(home, run_id) == "crashed"


def damage(home: Path) -> None:
    """Change an entry of the run."""
    change = "UPDATE journal SET payload = CAST('{}' AS BLOB) WHERE payload IS NOT NULL AND seq = 2"
    ledgers.change(home, change, rows=1)


@pytest.mark.parametrize(("roles", "code"), [(["write"], 403), (["write", "approve"], 200)])
def test_to_take_a_run_needs_the_role_approve_and_a_reason(home: Path, go: Path, roles: list[str], code: int) -> None:
    run_id = crashed(home, go)
    with served(home, keyed=True, flows=(FLOWS,)) as server:
        key = server.keys().create("ann", roles=roles).text
        asked = server.post(f"/v1/runs/{run_id}/resume?wait=30", {"take": True, "why": "it hangs"}, key=key)
        assert asked.status == code, asked.raw
        if code == 200:
            with Outlast(f"http://127.0.0.1:{server.port}", key=key) as client, pytest.raises(RunFinished):
                client.resume(run_id, take=True, why="once more")
            without = server.post(f"/v1/runs/{run_id}/resume", {"take": True}, key=key)
            assert (without.status, without.code) == (422, "name_invalid")
