"""Following a run over HTTP: every event once, in order, from where a client left off."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from outlast import Outlast
from outlast.doors.cli.group import cli
from outlast.values.codec import jsonable

from .server import Served, served
from .test_http_runs import FLOWS, start, until


class Stream:
    """An open event stream, read event by event."""

    def __init__(self, server: Served, run_id: str, query: str = "", last: int | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"accept": "text/event-stream"} | ({} if last is None else {"last-event-id": str(last)})
        self.connection.request("GET", f"/v1/runs/{run_id}/events{query}", headers=headers)
        self.reply = self.connection.getresponse()
        self.comments = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        told: dict[str, Any] = {}
        for raw in iter(self.reply.readline, b""):
            line = raw.decode().rstrip("\n")
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(": ")
                told[name] = json.loads(value) if name == "data" else value
            elif told:
                if "data" in told:
                    yield told
                told = {}

    def all(self) -> list[dict[str, Any]]:
        return list(self)

    def close(self) -> None:
        self.connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, flows=(FLOWS,), poll_seconds=0.02, heartbeat_seconds=0.1) as found:
        yield found


def seqs(events: list[dict[str, Any]]) -> list[int]:
    return [int(event["id"]) for event in events if "id" in event]


def test_a_finished_run_is_told_whole_and_the_stream_ends(server: Served) -> None:
    run = start(server, "doubling", number=4)["run_id"]
    stream = Stream(server, run)
    assert stream.reply.getheader("content-type") == "text/event-stream; charset=utf-8"
    events = stream.all()
    page = server.get(f"/v1/runs/{run}/events").json
    assert [event["data"] for event in events[:-1]] == page["items"]
    assert events[-1] == {"event": "end", "data": {"why": "run", "status": "succeeded"}}
    assert page["next"] is None


def test_a_stream_goes_on_after_the_last_event_that_was_seen(server: Served) -> None:
    run = start(server, "doubling", number=6)["run_id"]
    whole = seqs(Stream(server, run).all())
    for last in (0, whole[0], whole[-2], whole[-1], whole[-1] + 100):
        assert seqs(Stream(server, run, last=last).all()) == [seq for seq in whole if seq > last]
    assert seqs(Stream(server, run, f"?after={whole[0]}").all()) == whole[1:]


def test_a_wrong_place_is_refused(server: Served) -> None:
    run = start(server, "doubling", number=7)["run_id"]
    reply = server.get(f"/v1/runs/{run}/events", headers={"accept": "text/event-stream", "last-event-id": "x"})
    assert reply.code == "request_invalid"


def test_many_followers_of_one_run_are_served_by_one_watch(server: Served, tmp_path: Path) -> None:
    run = start(server, "telling", path=str(tmp_path / "go"), wait=0)["run_id"]
    streams = [Stream(server, run) for _ in range(40)]
    got: list[list[dict[str, Any]]] = []
    readers = [threading.Thread(target=lambda stream=stream: got.append(stream.all())) for stream in streams]
    for reader in readers:
        reader.start()
    watchers = server.server.state.watchers
    assert watchers.count == 1
    (tmp_path / "go").write_text("on")
    for reader in readers:
        reader.join(60)
    assert len(got) == 40
    assert all(events == got[0] for events in got)
    assert seqs(got[0]) == [item["seq"] for item in server.get(f"/v1/runs/{run}/events").json["items"]]
    until(lambda: watchers.count == 0)


def test_silence_is_filled_with_comments_and_whoever_leaves_is_forgotten(server: Served, tmp_path: Path) -> None:
    run = start(server, "telling", path=str(tmp_path / "go"), wait=0)["run_id"]
    stream = Stream(server, run)
    until(lambda: stream.reply.readline().startswith(b": "))
    stream.reply.close()
    stream.close()
    until(lambda: server.server.state.watchers.count == 0)
    (tmp_path / "go").write_text("on")
    until(lambda: server.get(f"/v1/runs/{run}").json["status"] == "succeeded")


def test_following_until_finished_outlasts_a_wait(server: Served) -> None:
    waiting = start(server, "asking", question="go on?")
    assert Stream(server, waiting["run_id"]).all()[-1]["data"]["status"] == "waiting"
    stream = Stream(server, waiting["run_id"], "?follow=finished")
    server.post(f"/v1/interrupts/{waiting['interrupts'][0]['id']}/answer", {"answer": {"approved": True}})
    server.post(f"/v1/runs/{waiting['run_id']}/resume")
    assert stream.all()[-1]["data"] == {"why": "run", "status": "succeeded"}


def test_a_client_further_behind_than_memory_reads_the_journal(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outlast.doors.http import streams as watching

    monkeypatch.setattr(watching, "KEPT", 3)
    monkeypatch.setattr(watching, "PAGE", 7)
    started = server.post("/v1/runs", {"flow": "telling", "inputs": {"path": str(tmp_path / "go"), "events": 40}}).json
    early = Stream(server, started["run_id"])
    (tmp_path / "go").write_text("on")
    late = Stream(server, started["run_id"], last=2)
    whole = [item["seq"] for item in server.get(f"/v1/runs/{started['run_id']}/events").json["items"]]
    assert seqs(early.all())[: len(whole)] == whole
    assert [seq for seq in seqs(late.all()) if seq <= whole[-1]] == whole[2:]


def test_events_are_read_page_by_page(server: Served) -> None:
    run = start(server, "doubling", number=8)["run_id"]
    first = server.get(f"/v1/runs/{run}/events?limit=2").json
    rest = server.get(f"/v1/runs/{run}/events?limit=500&cursor={first['next']}").json
    whole = server.get(f"/v1/runs/{run}/events").json["items"]
    assert first["items"] + rest["items"] == whole
    assert rest["next"] is None


def test_a_server_that_ends_says_so_on_its_streams_and_interrupts_its_runs(tmp_path: Path) -> None:
    with served(tmp_path / "home", flows=(FLOWS,), poll_seconds=0.02) as server:
        run = start(server, "patient", path=str(tmp_path / "never"), wait=0)["run_id"]
        stream = Stream(server, run)
        got: list[dict[str, Any]] = []
        reader = threading.Thread(target=lambda: got.extend(stream.all()))
        reader.start()
        until(lambda: server.server.state.watchers.count == 1)
        began = time.monotonic()
        server.server.should_exit = True
        reader.join(30)
    assert got[-1]["data"]["why"] == "shutdown"
    assert time.monotonic() - began < 20
    with server.opened() as outlast:
        assert outlast.get(run).status == "interrupted"


# -- questions, on every door ------------------------------------------------------------------------


def test_a_question_and_its_answer_are_told_while_the_run_goes_on(server: Served, tmp_path: Path) -> None:
    run = start(server, "both", path=str(tmp_path / "go"), wait=0)["run_id"]
    heard: list[dict[str, Any]] = []
    for event in Stream(server, run):
        heard.append(event)
        told = event["data"].get("name")
        if told == "interrupt.opened":
            assert server.get(f"/v1/runs/{run}").json["status"] == "running"
            body = {"answer": {"approved": True}, "shown": event["data"]["body"]["digest"]}
            assert server.post(f"/v1/interrupts/{event['data']['interrupt']}/answer", body).status == 200
        elif told == "interrupt.answered":
            (tmp_path / "go").write_text("text")
    names = [event["data"].get("name") for event in heard]
    assert names.index("interrupt.opened") < names.index("interrupt.answered") < names.index("run.waiting")
    assert seqs(heard) == [*range(1, len(seqs(heard)) + 1)]
    until(lambda: server.get(f"/v1/runs/{run}").json["status"] == "succeeded")
    asked = names.index("interrupt.opened") + 1
    later = Stream(server, run, last=asked).all()  # who lost the line there misses nothing
    assert [event["data"].get("name") for event in later][-2] == "run.succeeded"
    assert seqs(later) == [*range(asked + 1, asked + 1 + len(seqs(later)))]


def test_every_door_tells_the_same(server: Served) -> None:
    waiting = start(server, "asking", question="the same?")
    run, wait = waiting["run_id"], waiting["interrupts"][0]["id"]
    server.post(f"/v1/interrupts/{wait}/answer", {"answer": {"approved": True}})
    until(lambda: server.get(f"/v1/runs/{run}").json["status"] == "succeeded")
    over_http = server.get(f"/v1/runs/{run}/events").json["items"]
    told = [event["name"] for event in over_http if event["interrupt"] == wait]
    assert told == ["interrupt.opened", "interrupt.answered", "wait.approval"]
    assert over_http[-1]["body"]["result"] is True
    with Outlast(f"http://127.0.0.1:{server.port}") as client, Outlast(server.home) as embedded:
        assert client.events(run) == embedded.events(run) == [*client.follow_events(run)]
        assert json.loads(json.dumps(jsonable(embedded.events(run)))) == over_http
    shown = CliRunner().invoke(cli, ["events", run, "--json", "--home", str(server.home)])
    assert json.loads(shown.output)["events"] == over_http
    lines = CliRunner().invoke(cli, ["events", run, "--home", str(server.home)]).output
    assert "interrupt.opened" in lines
