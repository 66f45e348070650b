"""Equal requests: the second is given the run and its holder and can wait for it; an id gives back what it began."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast
from outlast.errors import OperationConflict, RunHeld

from . import http_flows
from .server import Reply, Served, served
from .test_http_runs import FLOWS, until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, flows=(FLOWS,), poll_seconds=0.02) as found:
        yield found


@pytest.fixture
def client(server: Served) -> Iterator[Outlast]:
    with Outlast(url(server), store_options={"retry_seconds": 0.01, "poll_seconds": 5.0}) as found:
        yield found


def url(server: Served) -> str:
    return f"http://127.0.0.1:{server.port}"


def asked(go: Path, **more: Any) -> dict[str, Any]:
    return {"flow": "telling", "inputs": {"path": str(go)}, **more}


def start(server: Served, body: Any, wait: float = 0, **headers: str) -> Reply:
    return server.post(f"/v1/runs?wait={wait}", body, headers=headers)


def test_of_two_equal_requests_at_once_the_second_is_given_the_run_and_its_holder(
    server: Served, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    first = start(server, asked(go))
    second = start(server, asked(go))
    assert (first.status, second.status) == (202, 202)
    assert (second.json["run_id"], second.json["status"]) == (first.json["run_id"], "running")
    assert (first.json["holder"], second.json["holder"]) == ("", "this process")
    assert second.headers["location"] == f"/v1/runs/{first.json['run_id']}"
    go.write_text("done")
    ended = server.get(f"/v1/runs/{first.json['run_id']}/outcome?wait=30")
    assert (ended.json["result"], ended.json["holder"]) == ("done", "")


def test_the_second_can_wait_for_it(server: Served, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = start(server, asked(go)).json["run_id"]
    with waiting(server, asked(go)) as replies:
        go.write_text("done")
    assert (replies[0].status, replies[0].json["run_id"], replies[0].json["result"]) == (200, first, "done")


@contextmanager
def waiting(server: Served, body: Any) -> Iterator[list[Reply]]:
    """A request that waits for a run of somebody else, until the block is over."""
    replies: list[Reply] = []
    watched = server.server.state.watchers
    before = watched.count
    thread = threading.Thread(target=lambda: replies.append(start(server, body, 30)))
    thread.start()
    until(lambda: watched.count > before)
    yield replies
    thread.join()


def test_should_its_holder_die_it_goes_on_for_who_waits(server: Served, tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = ["-m", "outlast", "run", f"{FLOWS}:telling", f"path={go}", "--home", str(server.home)]
    holder = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    run = until(lambda: [one for one in server.get("/v1/runs?status=running").json["items"] if one["holder"]])[0]
    held = start(server, asked(go))
    assert (held.status, held.json["run_id"]) == (202, run["id"])
    assert str(holder.pid) in held.json["holder"]
    with waiting(server, asked(go)) as replies:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        go.write_text("done")
    assert (replies[0].status, replies[0].json["run_id"], replies[0].json["result"]) == (200, run["id"], "done")


def test_a_run_that_is_only_claimed_is_refused_as_held(server: Served) -> None:
    body = {"flow": "asking", "inputs": {"question": "claimed?"}}
    waits = start(server, body, 30).json
    server.post(
        f"/v1/interrupts/{waits['interrupts'][0]['id']}/answer", {"answer": {"approved": True}, "resume": False}
    )
    task = server.get(f"/v1/runs/{waits['run_id']}").json["task"]
    assert server.post("/v1/handoff/recover", {"anchor": f"task:{task}", "claim": True}).status == 200
    refused = start(server, body)
    assert (refused.code, refused.status, refused.json["facts"]["run"]) == ("run_held", 409, waits["run_id"])


# -- operation ids -----------------------------------------------------------------------------------


def test_an_id_gives_back_a_run_that_goes_on_with_its_holder(server: Served, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = start(server, asked(go), **{"idempotency-key": "goes-on"})
    again = start(server, asked(go, operation_id="goes-on"))
    assert (again.status, again.json["run_id"]) == (202, first.json["run_id"])
    assert (again.json["status"], again.json["holder"]) == ("running", "this process")
    go.write_text("done")
    ended = start(server, asked(go, operation_id="goes-on"), 30)
    assert (ended.status, ended.json["result"]) == (200, "done")
    later = start(server, asked(go), **{"idempotency-key": "goes-on"})
    assert (later.json["replayed"], later.headers["idempotency-replayed"]) == (True, "true")


def test_an_id_continues_a_run_that_was_stopped(server: Served, tmp_path: Path) -> None:
    go = tmp_path / "go"
    run_id = start(server, asked(go, operation_id="stopped")).json["run_id"]
    server.post(f"/v1/runs/{run_id}/pause")
    until(lambda: server.get(f"/v1/runs/{run_id}").json["status"] != "running")
    go.write_text("done")
    again = start(server, asked(go, operation_id="stopped"), 30)
    assert (again.json["run_id"], again.json["result"]) == (run_id, "done")


def test_an_id_of_a_run_that_waits_is_noted_when_it_joins(server: Served) -> None:
    body = {"flow": "asking", "inputs": {"question": "joined?"}}
    first = start(server, body, 30).json
    joined = start(server, body | {"operation_id": "joins"}, 30).json
    assert joined["run_id"] == first["run_id"]
    server.post(f"/v1/interrupts/{first['interrupts'][0]['id']}/answer", {"answer": {"approved": True}})
    until(lambda: server.get(f"/v1/runs/{first['run_id']}").json["status"] == "succeeded")
    again = start(server, body | {"operation_id": "joins"}, 30).json
    assert (again["run_id"], again["status"], again["replayed"]) == (first["run_id"], "succeeded", True)


def test_other_content_and_two_ids_are_refused(server: Served) -> None:
    body = {"flow": "doubling", "inputs": {"number": 8}}
    start(server, body | {"operation_id": "eight"}, 30)
    before = len(server.get("/v1/runs?limit=1000").json["items"])
    assert start(server, body | {"inputs": {"number": 9}, "operation_id": "eight"}).code == "operation_conflict"
    assert start(server, body | {"operation_id": "eight"}, **{"idempotency-key": "nine"}).code == "request_invalid"
    assert len(server.get("/v1/runs?limit=1000").json["items"]) == before


def test_what_was_started_over_http_is_never_given_to_another_call(server: Served) -> None:
    body = {"flow": "doubling", "inputs": {"number": 77}}
    first = start(server, body)
    until(lambda: server.get(f"/v1/runs/{first.json['run_id']}").json["status"] == "succeeded")
    second = start(server, body, 30).json
    assert (second["run_id"] != first.json["run_id"], second["redelivered"]) == (True, False)


# -- the client --------------------------------------------------------------------------------------


def test_a_client_is_told_who_holds_it_and_can_wait(server: Served, client: Outlast, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = start(server, asked(go)).json["run_id"]
    with pytest.raises(RunHeld) as caught:
        client.run(http_flows.telling, str(go))
    assert (caught.value.run_id, caught.value.holder) == (first, "this process")
    with pytest.raises(TimeoutError):
        client.wait(first, timeout=0)
    with pytest.raises(RunHeld):
        client.with_options(wait=0).run(http_flows.telling, str(go))
    second = client.with_options(wait=True).start(http_flows.telling, str(go))
    whole = tmp_path / "whole"
    whole.write_text("done")
    whole.rename(go)  # it is never there without its text
    assert second.outcome(30).result == "done"
    assert client.wait(first).result == "done"


async def calls_of(url: str, number: int) -> list[Any]:
    async with AsyncOutlast(url) as client:
        once = client.with_options(operation_id=f"async-{number}")
        first = await once.run(http_flows.doubling, number)
        started = await once.start(http_flows.doubling, number)
        return [first.run_id, (await started).run_id, (await client.wait(first.run_id)).run_id]


def test_a_client_has_operation_ids(server: Served, client: Outlast) -> None:
    import asyncio

    once = client.with_options(operation_id="of-a-client")
    first = once.run(http_flows.doubling, 4)
    again = once.run(http_flows.doubling, 4)
    assert (first.run_id, first.replayed, again.replayed) == (again.run_id, False, True)
    with pytest.raises(OperationConflict):
        once.run(http_flows.doubling, 5)
    assert len(set(asyncio.run(calls_of(url(server), 6)))) == 1


def test_an_operation_id_of_another_scope_gives_nobody_its_run(server: Served, client: Outlast) -> None:
    first = client.with_options(operation_id="of-one-scope").run(http_flows.doubling, 4)
    with Outlast(url(server), scope="another") as elsewhere, pytest.raises(OperationConflict):
        elsewhere.with_options(operation_id="of-one-scope").run(http_flows.doubling, 4)
    asked = {"flow": "doubling", "inputs": {"number": 4}}
    there = {"idempotency-key": "of-one-scope", "outlast-scope": "another"}
    said = server.post("/v1/runs?wait=30", asked, headers=there)
    assert (said.status, said.code) == (409, "operation_conflict")
    assert first.run_id not in str(said.json)


def test_a_client_whose_first_word_was_heard_waits_for_its_own_run(server: Served, tmp_path: Path) -> None:
    """The answer was lost: the same request again finds its own run being run, and that is no one else's."""
    from .test_client_runs import Cuts

    go, cuts = tmp_path / "go", Cuts(server, 1 << 20, swallow=1)
    with Outlast(cuts.url, store_options={"retry_seconds": 0.01}) as client:
        started = client.start(http_flows.telling, str(go))
        go.write_text("done")
        assert started.outcome(30).result == "done"
    cuts.close()
    assert cuts.lines > 1
