"""Row 9: a handoff stored and recovered over HTTP, against a bare FastAPI route that does one synced commit."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measure import HERE, Ask, Rounds, Sample, environment
from plan import Plan
from report import Goal, Row, count, microseconds, times

BARE, STORE, RECOVER = "bare FastAPI, one synced commit", "outlast store", "outlast recover"
CLIENTS = {1: 100, 32: 10}  # clients at once, and how often each asks in a sample
MIDDLE = {STORE: 1.8, RECOVER: 1.3}  # × the bare route, one client, p50
SLOWEST = 2.0  # the same at p99 with many clients


@dataclass(frozen=True, slots=True)
class Taken(Sample):
    """The middle of what requests took (`wall`), the slowest of a hundred, the server's processor time for one."""

    p99: float
    rate: float


def over_http(plan: Plan) -> Row:
    """What one request takes, with one client and with many; servers and clients are processes of their own."""
    with tempfile.TemporaryDirectory(prefix="http-", dir=plan.scratch) as folder, ExitStack() as stack:
        bare = stack.enter_context(_server("bare", Path(folder)))
        ours = stack.enter_context(_server("ours", Path(folder)))
        clients = stack.enter_context(_client())
        clients({"verb": "store", "clients": 1, "each": 1, **ours, "anchor": "task:there"})
        taken = Rounds()
        asks = dict(_asks(clients, bare, ours))
        taken.take(asks, 2)
        taken.forget()
        taken.take(asks, plan.http_rounds)
    return _row(taken)


def _asks(clients: Any, bare: dict[str, int], ours: dict[str, int]) -> Iterator[tuple[str, Ask]]:
    subjects = {BARE: (bare, "store"), STORE: (ours, "store"), RECOVER: (ours, "recover")}
    for number, each in CLIENTS.items():
        for name, (server, verb) in subjects.items():
            request = {"verb": verb, "clients": number, "each": each, **server}
            yield _name(name, number), partial(clients, request)


def _row(taken: Rounds) -> Row:
    columns = ["one request", "p50 µs", "× bare", "p99 µs", "× bare", "requests/s", "CPU µs"]
    row = Row(9, "A handoff over HTTP", columns, failed=taken.failed)
    for number in CLIENTS:
        for name in (BARE, STORE, RECOVER):
            row.lines.append(_line(taken, _name(name, number), _name(BARE, number)))
    for number in CLIENTS:
        for name in (STORE, RECOVER):
            row.goals += _goals(taken, name, number)
    row.notes = [
        "Bare: FastAPI with a pydantic body, one synced commit of it inline, the body as the answer. "
        "One server process each; all clients share another one. CPU is the server's, for one request.",
    ]
    return row


def _line(taken: Rounds, name: str, bare: str) -> list[str]:
    p50, p99 = taken.median(name, lambda one: one.wall * 1e6), taken.median(name, lambda one: _taken(one).p99 * 1e6)
    slowest = taken.compare(name, bare, lambda a, b: _taken(a).p99 / _taken(b).p99)
    rate, cpu = taken.median(name, lambda one: _taken(one).rate), taken.median(name, lambda one: one.cpu * 1e6)
    shown = [microseconds(p50), times(taken.ratio(name, bare)), microseconds(p99), times(slowest)]
    return [name, *shown, count(rate), microseconds(cpu)]


def _goals(taken: Rounds, name: str, number: int) -> list[Goal]:
    """Of one client how long a request mostly takes, of many the slowest."""
    mine, bare = _name(name, number), _name(BARE, number)
    bound, label = (MIDDLE[name], "p50") if number == 1 else (SLOWEST, "p99")
    found = None
    if mine in taken.samples and bare in taken.samples:
        slowest = taken.compare(mine, bare, lambda a, b: _taken(a).p99 / _taken(b).p99)
        found = taken.ratio(mine, bare) if number == 1 else slowest
    return [Goal(f"{mine} against bare, {label}", bound, True, found, times)]


def _taken(sample: Sample) -> Taken:
    assert isinstance(sample, Taken)
    return sample


def _name(name: str, clients: int) -> str:
    return f"{name}, {clients} client{'s' if clients > 1 else ''}"


# -- processes ---------------------------------------------------------------------------------------


@contextmanager
def _server(kind: str, folder: Path) -> Iterator[dict[str, int]]:
    words = [sys.executable, "-P", str(HERE / "http_server.py"), kind, str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert process.stdout
        address = process.stdout.readline().strip()
        yield {"port": int(address.rpartition(":")[2]), "pid": process.pid}
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def _client() -> Iterator[Any]:
    words = [sys.executable, "-P", str(HERE / "http_client.py")]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())

    def ask(request: dict[str, Any]) -> Taken:
        assert process.stdin
        assert process.stdout
        print(json.dumps(request), file=process.stdin, flush=True)
        return Taken(**json.loads(process.stdout.readline()))

    try:
        yield ask
    finally:
        process.communicate()
