"""Nobody starves the others: while some do all they can, another caller's light requests are answered.

A real server, with as few files as a login shell has, and who abuses it in a process of its own. The short form, in
every run of the tests, asks whether everybody else is answered; the long one also how soon.
"""

import http.client
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast
from outlast.home.keys import Keys

from .figures import figures

FLOWS = Path(__file__).parents[1] / "doors" / "http_flows.py"
STARVERS = Path(__file__).with_name("starvers.py")
FILES = 1024
LOG_BYTES, RESIDENT_KIB = 4 << 20, 600 << 10
COUNTS = {"idle": (1200, 2000), "trickle": (64, 64), "start": (60, 400), "verify": (8, 8)}  # short, long


@dataclass
class Abused:
    """A server and its keys."""

    port: int
    process: subprocess.Popen[str]
    folder: Path
    keys: dict[str, str]
    run_id: str = ""
    number: int = field(default=0)

    def ask(self, method: str, path: str, body: Any = None, raw: bytes | None = None) -> tuple[int, Any]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"authorization": f"Bearer {self.keys['ann']}", "content-type": "application/json"}
        try:
            line.request(method, path, raw if body is None else json.dumps(body).encode(), headers)
            reply = line.getresponse()
            said = reply.read()
            return reply.status, json.loads(said) if said else None
        finally:
            line.close()

    def light(self) -> list[float]:
        """How long each of some light requests took; every one is answered."""
        self.number += 1
        handoff = {"anchor": f"task:{self.number}", "summary": "s", "handoff_text": "t", "next_action": "n"}
        return [
            self.timed("GET", "/healthz"),
            self.timed("GET", "/v1/runs"),
            self.timed("POST", "/v1/handoff/store", handoff),
            self.timed("PUT", f"/v1/workspace/artifacts?name=light-{self.number}", raw=b"%d" % self.number),
        ]

    def timed(self, method: str, path: str, body: Any = None, raw: bytes | None = None) -> float:
        began = time.perf_counter()
        status, said = self.ask(method, path, body, raw)
        assert status == 200, (path, status, said)
        return time.perf_counter() - began

    def resident_kib(self) -> int:
        """The most memory that it ever had."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    def log_bytes(self) -> int:
        return (self.folder / "log").stat().st_size


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


@pytest.fixture
def abused(tmp_path: Path, crash_long: bool) -> Iterator[Abused]:
    home = tmp_path / "home"
    keys = {name: Keys(home).create(name, roles=["read", "write"]).text for name in ("ann", "mallory", "trudy", "eve")}
    keys |= {f"reader-{number}": Keys(home).create(f"reader-{number}", roles=["read"]).text for number in range(4)}
    words = [sys.executable, "-m", "outlast", "serve", "--json", "--port", "0"]
    words += ["--home", str(home), "--flows", str(FLOWS)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=few_files)
    try:
        assert process.stdout is not None
        port = int(json.loads(process.stdout.readline())["address"].rpartition(":")[2])
        found = Abused(port, process, tmp_path, keys)
        fill(found, (256 if crash_long else 32) << 20)
        yield found
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    with Outlast(home) as outlast:
        assert outlast.verify().problems == ()


def fill(server: Abused, size: int) -> None:
    """Runs that ended, as many as a list shows: it takes no longer for those that are started; and large content."""
    for number in range(60):
        status, run = server.ask("POST", "/v1/runs?wait=30", {"flow": "doubling", "inputs": {"number": number}})
        assert status == 200
    server.run_id = run["run_id"]
    assert server.ask("PUT", "/v1/workspace/artifacts?name=large", raw=os.urandom(size))[0] == 200


@contextmanager
def starving(server: Abused, kind: str, count: int) -> Iterator[dict[str, int]]:
    """While this is entered somebody does that; afterwards what it has is how they were answered."""
    wanted = ("reader",) if kind == "verify" else ("mallory", "trudy", "eve")
    names = [name for name in server.keys if name.startswith(wanted)]
    given = [*([server.run_id] if kind == "verify" else []), *(server.keys[name] for name in names)]
    words = [sys.executable, str(STARVERS), kind, str(server.port), str(count), *given]
    answers: dict[str, int] = {}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield answers
            answers |= json.loads(process.communicate(timeout=60)[0])
        finally:
            process.kill()


def measured(server: Abused, rounds: int) -> tuple[float, list[float]]:
    """The slowest but one in a hundred, and all."""
    took = sorted(each for _ in range(rounds) for each in server.light())
    return took[int(len(took) * 0.99) - 1], took


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", COUNTS)
def test_while_some_do_all_they_can_others_are_answered(abused: Abused, kind: str, crash_long: bool) -> None:
    count, rounds = COUNTS[kind][crash_long], 100 if crash_long else 5
    server = abused
    idle_p99, _ = measured(server, rounds)
    with starving(server, kind, count) as answers:
        p99, took = measured(server, rounds)
        log, resident = server.log_bytes(), server.resident_kib()
    after, _ = measured(server, rounds)
    figures(
        f"starving by {kind}",
        count=count,
        idle_p99_ms=round(idle_p99 * 1000, 1),
        p99_ms=round(p99 * 1000, 1),
        worst_ms=round(took[-1] * 1000, 1),
        after_p99_ms=round(after * 1000, 1),
        log_kib=log >> 10,
        resident_mib=resident >> 10,
        answers=json.dumps(answers, sort_keys=True).replace(" ", ""),
    )
    assert log < LOG_BYTES
    assert resident < RESIDENT_KIB
    if crash_long:
        assert p99 <= 10 * idle_p99
    assert server.ask("PUT", "/v1/workspace/artifacts?name=after", raw=b"all is well")[0] == 200
    assert server.ask("POST", "/v1/runs?wait=30", {"flow": "doubling", "inputs": {"number": 3}, "task": "x"})[0] == 200
