"""Queues, limits, workers and schedules over HTTP and by the client: the same as in Python."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.errors import LimitNotFound, NoFlows, OptionInvalid, ScheduleInvalid, ScheduleNotFound

from ..doors.http_flows import doubling
from ..doors.server import Served, served
from .support import until, works

FLOWS = Path(__file__).parents[1] / "doors" / "http_flows.py"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home", flows=(str(FLOWS),), works=True) as found:
        yield found


@pytest.fixture
def client(server: Served) -> Iterator[Outlast]:
    with Outlast(f"http://127.0.0.1:{server.port}") as found:
        yield found


def test_a_client_sees_the_servers_worker_and_its_flows(client: Outlast) -> None:
    client.schedules.list()  # the home is open, and worked on
    (found,) = until(client.workers, "a worker")
    assert "doubling" in [flow.name for flow in found.flows or ()]
    assert found.process.startswith("pid ")


def test_limits_are_set_and_seen_by_a_client(client: Outlast) -> None:
    made = client.set_limit("api", concurrency=2, rate="30/m", operation_id="once")
    assert (made.concurrency, made.rate) == (2, "30/m")
    assert client.set_limit("api", concurrency=2, rate="30/m", operation_id="once") == made
    assert client.limits() == [made]
    assert client.remove_limit("api").name == "api"
    with pytest.raises(LimitNotFound):
        client.remove_limit("api")


def test_schedules_over_http_are_of_flows_that_the_server_was_given(client: Outlast) -> None:
    until(client.workers, "a worker")  # what holds the schedule up is told with it
    made = client.schedules.add("s", doubling, "0 7 * * *", inputs={"number": 3}, timezone="Europe/Paris")
    assert (made.name, made.timezone, client.schedules.list()) == ("s", "Europe/Paris", [made])
    assert client.schedules.pause("s").paused
    assert not client.schedules.resume("s").paused
    run = client.schedules.trigger("s", operation_id="now")
    assert (client.schedules.trigger("s", operation_id="now").id, run.tags) == (run.id, ("schedule:s",))
    until(lambda: client.get(run.id).result == 6)
    assert client.schedules.remove("s").name == "s"
    with pytest.raises(ScheduleNotFound):
        client.schedules.trigger("s")
    with pytest.raises(ScheduleInvalid):
        client.schedules.add("s", doubling, "never", inputs={"number": 3})
    with pytest.raises(NoFlows):
        client.schedules.add("s", works, "0 7 * * *")


def test_what_keeps_a_run_and_its_times_are_told_over_http(client: Outlast) -> None:
    client.queues()
    until(client.workers, "a worker")
    started = client.with_options(queue="slow", delay="1h", queue_timeout="2h").start(doubling, 2)
    run = client.get(started.run_id)
    assert (run.queue, run.held_up) == ("slow", "delayed")
    assert (run.take_by - run.not_before).total_seconds() == 7200  # type: ignore[operator]
    assert [each.held_up for each in client.runs()] == ["delayed"]
    with pytest.raises(OptionInvalid):
        client.with_options(queue="slow", queue_timeout="soon")
