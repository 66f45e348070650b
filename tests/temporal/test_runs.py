"""Runs on Temporal: one workflow each, which ends as its run does; the ledger decides, whoever asks."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError

from outlast import Outlast
from outlast.adapters.temporal import TemporalSettings, TemporalWorker
from outlast.adapters.temporal.settings import workflow_id
from outlast.adapters.temporal.workflow import RunRef, RunWorkflow
from outlast.errors import EngineConflict, EngineRefused, EngineUnreachable, OptionInvalid, ValueRefused
from outlast.runs.queues import engine

from ..kit import postgres, temporal
from . import flows
from .support import FILE, Home, listed, result_of, until


def test_a_run_is_one_workflow_that_ends_as_the_run_does_with_ids_only(home: Home) -> None:
    with home.worker():
        first = home.start(flows.plain, "a secret input")
        again = home.start(flows.plain, "a secret input")
        home.stands(first, "succeeded")
        (workflow,) = home.closed(first)
    assert first == again
    assert flows.lines() == ["work a secret input"]
    assert (workflow.status, result_of(home.address, workflow)) == (WorkflowExecutionStatus.COMPLETED, "succeeded")
    assert workflow.id.startswith("outlast/default/default/plain-")
    assert "secret" not in asyncio.run(history(home, workflow.id))


async def history(home: Home, workflow: str) -> str:
    client = await Client.connect(home.address)
    return str((await client.get_workflow_handle(workflow).fetch_history()).to_json())


def test_answers_signals_and_times_let_it_go_on_and_an_abort_ends_the_workflow(home: Home) -> None:
    with home.worker():
        asked, heard, given_up = home.start(flows.asks), home.start(flows.hears), home.start(flows.asks, "b")
        for each in (asked, heard, given_up):
            home.stands(each, "waiting")
        delayed = home.start(flows.plain, "later", delay=0.5)
        home.answer(asked)
        home.outlast.signal("news", {"n": 7}, run_id=heard)
        home.outlast.abort(given_up, why="not wanted")
        assert home.stands(asked, "succeeded").result == "after a"
        assert home.stands(heard, "succeeded").result == "7"
        home.stands(delayed, "succeeded")
        (workflow,) = home.closed(given_up)
        assert result_of(home.address, workflow) == "aborted"


def test_one_that_failed_fails_its_workflow_and_a_retry_starts_it_again(home: Home, tmp_path: Path) -> None:
    (tmp_path / "fails").touch()
    with home.worker():
        run_id = home.start(flows.fails)
        home.stands(run_id, "failed")
        (workflow,) = home.closed(run_id)
        with pytest.raises(WorkflowFailureError):
            result_of(home.address, workflow)
        (tmp_path / "fails").unlink()
        home.outlast.retry(run_id, "flaky")
        assert home.stands(run_id, "succeeded").result == "mended"
        _, second = until(lambda: len(home.closed(run_id)) == 2 and home.closed(run_id), "a second workflow")
        assert result_of(home.address, second) == "succeeded"


def test_our_own_workers_leave_it_alone_and_temporal_leaves_theirs(home: Home) -> None:
    theirs = home.start(flows.plain, "theirs")
    ours = home.outlast.with_options(queue="ours").start(flows.plain, "ours").run_id
    with home.outlast.worker(*[flows.plain]):
        home.stands(ours, "succeeded")
        assert home.get(theirs).held_up == "no_worker"
        assert home.outlast.due() == []
    assert home.get(theirs).status == "queued"
    with home.worker():
        home.stands(theirs, "succeeded")
    assert not home.workflows(ours)


def test_a_queue_goes_to_temporal_and_back_with_what_waits_and_nothing_happens_twice(home: Home) -> None:
    waits, queued = (home.start(flows.asks, each, engine=None) for each in ("w", "q"))
    inline = home.outlast.start(flows.asks, "i")
    inline.outcome()
    with home.outlast.worker(flows.asks):
        home.stands(waits, "waiting")
        home.stands(queued, "waiting")
    assert home.outlast.move_queue(home.queue, to="temporal", adopt=True).engine == "temporal"
    with home.worker():
        until(lambda: len(home.workflows()) == 3, "workflows of all three")
        home.answer(waits)
        home.stands(waits, "succeeded")
        home.outlast.move_queue(home.queue, to="outlast")
        (workflow,) = home.closed(queued)
        assert workflow.status == WorkflowExecutionStatus.TERMINATED
        home.answer(queued)
        with home.outlast.worker(flows.asks):
            home.stands(queued, "succeeded")
        home.outlast.move_queue(home.queue, to="temporal")
        home.answer(inline.run_id)
        home.stands(inline.run_id, "succeeded")
    assert sorted(flows.lines()) == sorted(f"work {when} {each}" for when in ("before", "after") for each in "wqi")


def test_limits_of_a_flow_hold(home: Home) -> None:
    with home.worker():
        runs = [home.start(flows.limited, number) for number in range(4)]
        for each in runs:
            home.stands(each, "succeeded")
    found = [line.partition(" ")[0] for line in flows.lines() if not line.startswith("work")]
    assert found == ["in", "out"] * 4


def test_a_worker_that_stops_lets_steps_end_and_another_goes_on(home: Home, tmp_path: Path) -> None:
    held = tmp_path / "hold before a"
    held.touch()
    with home.worker() as worker:
        run_id = home.start(flows.asks)
        until(lambda: flows.lines() == ["work before a"] and worker.under_way == [run_id], "its first step")
        held.unlink()
    assert home.get(run_id).status in ("interrupted", "waiting")
    with home.worker():
        home.answer(run_id)
        home.stands(run_id, "succeeded")
    assert flows.lines() == ["work before a", "work after a"]


def test_a_ledger_in_postgresql_is_worked_on_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_FOLDER", str(tmp_path))
    monkeypatch.setenv("OUTLAST_FOLDER", str(tmp_path / "beside"))
    home = Home(tmp_path, temporal.server().address, postgres.server().new_database(f"temporal{os.getpid()}"))
    try:
        with home.worker():
            run_id = home.start(flows.asks)
            home.stands(run_id, "waiting")
            home.answer(run_id)
            assert home.stands(run_id, "succeeded").result == "after a"
            (workflow,) = home.closed(run_id)
        assert result_of(home.address, workflow) == "succeeded"
    finally:
        home.close()


def test_temporal_searches_by_flow_task_status_and_tags_where_it_has_those_attributes(home: Home) -> None:
    async def added() -> None:
        client = await Client.connect(home.address)
        kinds: Any = {"OutlastFlow": 2, "OutlastTask": 2, "OutlastStatus": 2, "OutlastTags": 7}
        asked = AddSearchAttributesRequest(namespace="default", search_attributes=kinds)
        await client.operator_service.add_search_attributes(asked)

    def found(status: str) -> list[Any]:
        about = f"TaskQueue = '{home.task_queue}' AND OutlastFlow = 'asks' AND OutlastTags = 'sea'"
        return list(asyncio.run(listed(home.address, f"{about} AND OutlastStatus = '{status}'")))

    asyncio.run(added())
    with home.worker():
        run_id = home.start(flows.asks, tags=["sea"])
        until(lambda: found("waiting"), "it is found as one that waits")
        home.answer(run_id)
        until(lambda: found("succeeded"), "it is found as one that ended")


def test_a_server_starts_and_answers_through_it_and_runs_nothing(home: Home, tmp_path: Path) -> None:
    more = [
        "--engine",
        "temporal",
        "--address",
        home.address,
        "--home",
        str(tmp_path / "home"),
        "--port",
        "0",
        "--json",
    ]
    words = [sys.executable, "-m", "outlast", "serve", "--flows", str(FILE), *more]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            there = Outlast(json.loads(server.stdout.readline())["address"])
            run_id = str(there.start(flows.asks).run_id)
            until(lambda: asyncio.run(listed(home.address, f"WorkflowId = '{id_of(home, run_id)}'")), "a workflow")
            assert (home.get(run_id).status, home.get(run_id).engine) == ("queued", "temporal")
            with home.worker():
                (wait,) = until(lambda: there.interrupts(run_id), "its wait")
                there.answer(wait.id, {"approved": True}, resume=True)
                assert home.stands(run_id, "succeeded").result == "after a"
        finally:
            server.terminate()


def id_of(home: Home, run_id: str) -> str:
    (run,) = [each for each in engine.runs_in(home.outlast._executor.home, "temporal") if each.id == run_id]
    return workflow_id("default", run)


def test_what_the_ledger_does_not_know_is_not_executed(home: Home) -> None:
    known = home.start(flows.plain)

    async def forged() -> str:
        client = await Client.connect(home.address)
        ref = RunRef("default", "nosuchrun0000")
        handle = await client.start_workflow(
            RunWorkflow.run, ref, id=f"forged-{home.queue}", task_queue=home.task_queue
        )
        for _ in range(1000):
            found = await handle.describe()
            (pending,) = found.raw_description.pending_activities or [None]
            if pending is not None and pending.last_failure.message:
                await handle.terminate()
                return str(pending.last_failure.message)
            await asyncio.sleep(0.02)
        raise AssertionError("it was never tried")

    with home.worker():
        assert "does not know it" in asyncio.run(forged())
        home.stands(known, "succeeded")
    assert flows.lines() == ["work a"]


def test_a_file_of_this_machine_is_refused_where_temporal_is_not(home: Home) -> None:
    with pytest.raises(EngineRefused, match=r"SQLite file .* gives runs to workers on any machine"):
        TemporalWorker(home.outlast, [], TemporalSettings(address="temporal.example:7233"))
    with pytest.raises(EngineUnreachable, match=r"127\.0\.0\.1:1"):
        TemporalWorker(home.outlast, [], TemporalSettings(address="127.0.0.1:1")).start()
    for wrong in ({"codec": "no.such:thing"}, {"codec": "os:getcwd"}, {"tls_ca": "/no/such/file"}):
        with pytest.raises(ValueRefused):
            TemporalWorker(home.outlast, [], TemporalSettings(address=home.address, **wrong)).start()  # type: ignore[arg-type]


def test_a_queue_has_one_engine(home: Home) -> None:
    home.start(flows.plain)
    with pytest.raises(EngineConflict, match="outlast queue move"):
        home.start(flows.plain, "b", engine="outlast")
    home.outlast.with_options(queue=home.queue).start(flows.plain, "c")  # whichever the queue has
    with pytest.raises(OptionInvalid, match="engine"):
        home.outlast.with_options(engine="airflow")
    with pytest.raises(ValueRefused):
        home.outlast.move_queue(home.queue, to="airflow")
