"""Many watch one run while another process writes it: each sees every event once, in order, however it is cut off."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from .server import Served, served
from .test_http_runs import until
from .test_http_streams import Stream

TELLER = Path(__file__).with_name("http_teller.py")
ROUNDS, EACH = 20, 20
EVENTS = ROUNDS * EACH


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = Path(tmp_path_factory.mktemp("home")) / "home"
    with served(home, poll_seconds=0.01, heartbeat_seconds=1.0) as found:
        yield found


@pytest.fixture
def teller(server: Served) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, str(TELLER), str(server.home), str(EACH)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


class Watcher(threading.Thread):
    """Reads a run's events to their end; every third one is cut off now and then, and goes on where it was."""

    def __init__(self, server: Served, run_id: str, number: int) -> None:
        super().__init__(daemon=True)
        self._server, self._run_id, self._number = server, run_id, number
        self.seen: list[int] = []
        self.last: dict[str, Any] = {}
        self.cuts = 0

    def run(self) -> None:
        while not self.last:
            stream = Stream(self._server, self._run_id, last=self.seen[-1] if self.seen else None)
            self._read(stream, 20 + self._number if self._number % 3 == 0 and self.cuts < 5 else EVENTS * 2)
            stream.reply.close()
            stream.close()

    def _read(self, stream: Stream, most: int) -> None:
        for count, event in enumerate(stream):
            if event.get("event") == "end":
                self.last = event["data"]
                return
            self.seen.append(int(event["id"]))
            if count == most:
                self.cuts += 1
                return


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().strip()


def test_no_watcher_misses_an_event_or_sees_one_twice(
    server: Served, teller: subprocess.Popen[str], crash_long: bool
) -> None:
    run_id, count = line(teller.stdout), 200 if crash_long else 25
    watchers = [Watcher(server, run_id, number) for number in range(count)]
    early, late = watchers[: count * 4 // 5], watchers[count * 4 // 5 :]
    for watcher in early:
        watcher.start()
    until(lambda: f"outlast_http_streams {len(early)}.0".encode() in server.get("/metrics").raw)
    assert server.server.state.watchers.count == 1
    assert teller.stdin is not None
    for number in range(ROUNDS):
        teller.stdin.write("more\n")
        teller.stdin.flush()
        until(lambda: len(early[1].seen) >= number * EACH)  # noqa: B023 - it is called at once
        if number >= ROUNDS // 2 and late:
            late.pop().start()
    for watcher in late:
        watcher.start()
    teller.stdin.close()
    for watcher in watchers:
        watcher.join(100)
    check(server, run_id, watchers)


def check(server: Served, run_id: str, watchers: list[Watcher]) -> None:
    whole = [event["seq"] for event in server.get(f"/v1/runs/{run_id}/events?limit=1000").json["items"]]
    assert len(whole) > EVENTS
    assert [watcher.name for watcher in watchers if watcher.seen != whole] == []
    assert {watcher.last.get("status") for watcher in watchers} == {"succeeded"}
    assert sum(watcher.cuts for watcher in watchers) >= len(watchers) / 3
    until(lambda: server.server.state.watchers.count == 0)
