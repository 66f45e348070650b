"""Following all runs over HTTP: a page or a stream, taken up where it broke off; a token where no header can be."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from outlast import Outlast
from outlast.clock import ManualClock
from outlast.doors.cli.group import cli
from outlast.errors import Unauthenticated
from outlast.home.keys import Keys

from .http_flows import doubling
from .server import Served, served
from .test_http_runs import FLOWS, start

STREAM = "text/event-stream"


class HomeStream:
    """An open stream of all runs, read event by event."""

    def __init__(self, server: Served, query: str = "", **headers: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.connection.request("GET", f"/v1/events{query}", headers={"accept": STREAM} | headers)
        self.reply = self.connection.getresponse()

    def next(self) -> dict[str, Any]:
        """The next one that carries something."""
        told: dict[str, Any] = {}
        while line := self.reply.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name == "data":
                told |= {"data": json.loads(value)}
            elif name:
                told[name] = value
            elif "data" in told:
                return told
            else:
                told = {}
        raise EOFError

    def until(self, name: str) -> list[dict[str, Any]]:
        found = [self.next()]
        while found[-1]["data"].get("event", {}).get("name") != name:
            found.append(self.next())
        return found

    def close(self) -> None:
        self.reply.close()
        self.connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, flows=(FLOWS,), poll_seconds=0.02, heartbeat_seconds=0.1) as found:
        yield found


def test_a_stream_tells_what_happens_from_now_on_in_whichever_run(server: Served) -> None:
    start(server, "doubling", number=1)
    stream = HomeStream(server)
    runs = [start(server, "doubling", number=number)["run_id"] for number in (20, 30)]
    told = [each for _ in runs for each in stream.until("run.succeeded")]
    stream.close()
    assert list(dict.fromkeys(each["data"]["event"]["run_id"] for each in told)) == runs
    assert [int(each["id"]) for each in told] == [each["data"]["number"] for each in told]


def test_a_stream_goes_on_after_the_last_event_that_was_seen(server: Served) -> None:
    run = start(server, "doubling", number=41)["run_id"]
    page = server.get("/v1/events?after=0").json
    of_run = [each for each in page["items"] if each["event"]["run_id"] == run]
    stream = HomeStream(server, **{"last-event-id": str(of_run[0]["number"])})
    assert [each["data"] for each in stream.until("run.succeeded")] == of_run[1:]
    stream.close()


def test_the_inbox_has_a_stream_of_its_own(server: Served) -> None:
    stream = HomeStream(server, "?inbox=true")
    start(server, "doubling", number=2)
    waiting = start(server, "asking", question="go on?")
    opened = stream.next()["data"]
    assert (opened["event"]["name"], opened["event"]["run_id"]) == ("interrupt.opened", waiting["run_id"])
    server.post(f"/v1/interrupts/{waiting['interrupts'][0]['id']}/answer", {"answer": {"approved": True}})
    assert stream.next()["data"]["event"]["name"] == "interrupt.answered"
    stream.close()


def test_silence_says_how_far_it_is(server: Served) -> None:
    stream = HomeStream(server, "?name=nothing.like.it")
    start(server, "doubling", number=5)
    newest = server.get("/v1/events").json["upto"]
    lines = (stream.reply.readline().decode().strip() for _ in range(200))
    assert any(int(line[4:]) >= newest for line in lines if line.startswith("id: "))
    stream.close()


def test_a_page_says_after_which_number_to_go_on(server: Served) -> None:
    start(server, "doubling", number=6)
    whole = server.get("/v1/events?after=0").json
    first = server.get("/v1/events?after=0&limit=2").json
    assert (first["items"], first["more"]) == (whole["items"][:2], True)
    rest = server.get(f"/v1/events?after={first['upto']}").json
    assert first["items"] + rest["items"] == whole["items"]
    assert not rest["more"]
    assert server.get("/v1/events").json == {"items": [], "upto": whole["upto"], "more": False}


@pytest.mark.parametrize(
    ("query", "code"),
    [("?after=-1", "value_refused"), ("?limit=0", "request_invalid"), ("?after=x", "request_invalid")],
)
def test_a_wrong_place_is_refused(server: Served, query: str, code: str) -> None:
    assert server.get(f"/v1/events{query}").code == code
    assert server.get("/v1/events", headers={"accept": STREAM, "last-event-id": "x"}).code == "request_invalid"
    assert server.get("/v1/events", headers={"accept": STREAM, "last-event-id": "1000000"}).code == "event_ahead"


def test_a_token_opens_streams_for_a_minute_and_nothing_else(tmp_path: Path) -> None:
    with served(tmp_path / "home", flows=(FLOWS,), poll_seconds=0.02, loopback=False) as server:
        key = server.keys().create("ann", roles=["read", "write"])
        given = server.post("/v1/stream-token", key=key.text).json
        assert given["expires_in"] == 60
        stream = HomeStream(server, f"?after=0&token={given['token']}")
        assert stream.reply.status == 200
        start_it = server.post("/v1/runs?wait=30", {"flow": "doubling", "inputs": {"number": 3}}, key=key.text)
        assert stream.until("run.succeeded")[-1]["data"]["event"]["run_id"] == start_it.json["run_id"]
        stream.close()
        asked = {"accept": STREAM}
        assert server.get(f"/v1/events?token={given['token']}").status == 401  # a page is none
        assert server.get(f"/v1/runs?token={given['token']}").status == 401
        assert server.get("/v1/events?token=nonsense", headers=asked).status == 401
        assert server.get("/v1/events?token=a.b.c", headers=asked).status == 401
        server.keys().revoke(key.key.id)
        assert server.get(f"/v1/events?token={given['token']}", headers=asked).status == 401


def test_a_token_opens_no_more_than_its_key_does(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Outlast(home, scope="web") as web, Outlast(home) as whole, Outlast(home, tenant="elsewhere") as other:
        runs = [each.run(doubling, 1).run_id for each in (web, whole, other)]
    with served(home, poll_seconds=0.02, loopback=False) as server:
        given = [{"scopes": ["web"]}, {}, {"tenant": "elsewhere"}]
        keys = [server.keys().create("ann", roles=["read"], **each).text for each in given]  # type: ignore[arg-type]
        seen = []
        for key in keys:
            token = server.post("/v1/stream-token", key=key).json["token"]
            stream = HomeStream(server, f"?after=0&token={token}")
            seen.append({each["data"]["event"]["run_id"] for each in stream.until("run.succeeded")})
            stream.close()
        assert (seen[0], seen[2]) == ({runs[0]}, {runs[2]})
        assert seen[1] <= {runs[0], runs[1]}
        token = server.post("/v1/stream-token", key=keys[0]).json["token"]
        asked = {"accept": STREAM}
        assert server.get(f"/v1/events?scope=default&token={token}", headers=asked).status == 403
        for hidden in runs[1:]:
            assert server.get(f"/v1/runs/{hidden}/events?token={token}", headers=asked).status == 404


def test_a_token_is_over_after_its_time_and_for_one_purpose(tmp_path: Path) -> None:
    clock = ManualClock()
    keys = Keys(tmp_path / "home", clock=clock)
    made = keys.create("ann").key
    token = keys.token(made.id, "streams", 60)
    assert keys.check_token(token, "streams").actor == "ann"
    with pytest.raises(Unauthenticated):
        keys.check_token(token, "console")
    clock.advance(61)
    with pytest.raises(Unauthenticated, match="over"):
        keys.check_token(token, "streams")


def test_a_page_of_another_origin_may_follow_only_if_it_was_allowed(tmp_path: Path) -> None:
    with served(tmp_path / "home", allow_origins=("https://shop.example",)) as server:
        stream = HomeStream(server, origin="https://shop.example")
        assert stream.reply.getheader("access-control-allow-origin") == "https://shop.example"
        stream.close()
        assert HomeStream(server, origin="https://other.example").reply.status == 403


def test_the_client_follows_the_same(server: Served) -> None:
    client = Outlast(f"http://127.0.0.1:{server.port}")
    before = client.all_events().upto
    run = start(server, "doubling", number=77)["run_id"]
    following = client.follow_all_events(after=before, name="run.*")
    found = [next(following), next(following)]
    assert {each.event.run_id for each in found} == {run}
    with server.opened() as home:
        assert client.all_events(after=before) == home.all_events(after=before)


def test_the_command_tells_a_line_for_each(server: Served) -> None:
    start(server, "doubling", number=78)
    said = CliRunner().invoke(cli, ["watch", "--once", "--json", "--home", str(server.home), "--name", "run.started"])
    assert said.exit_code == 0, said.output
    lines = [json.loads(line) for line in said.output.splitlines()]
    assert {each["event"]["name"] for each in lines} == {"run.started"}
    plain = CliRunner().invoke(cli, ["watch", "--once", "--home", str(server.home), "--name", "run.started"])
    assert len(plain.output.splitlines()) == len(lines)
