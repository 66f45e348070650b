"""Steps on PostgreSQL beside what the same server can do at all, and beside peers there.

    python bench/run.py --rows 11 [--peers]

A server is started from the wheel that tests use, with everything synced, on the disk; nothing of another server is
touched. One step after another, interleaved with bare prepared inserts of the same size. Then 64 runs at once of 50
steps, in one process and in four, interleaved with bare rows committed as many at a time by as many processes. Ratios
within a round count: the machine's own speed is in both. CPU is that of the clients, and of the server with all that
serves them.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import psycopg  # noqa: E402
from peers import environment  # noqa: E402
from plan import Plan  # noqa: E402
from report import Goal, Row, count, times  # noqa: E402
from tests.kit.postgres import Server  # noqa: E402
from work import RESULT, result_of  # noqa: E402

from outlast import AsyncOutlast, AsyncRun, Outlast, Run, flow, step  # noqa: E402
from outlast.home.place import FoundHome  # noqa: E402

SYNCED = ("listen_addresses=", "max_connections=100", "shared_buffers=64MB")
STEPS, RUNS, ALONE = 50, 64, 100
PEERS = {"langgraph": "LangGraph, PostgreSQL saver", "dbos": "DBOS", "absurd": "absurd"}
Figures = dict[str, float]  # microseconds for each step: `wall`, and of CPU `cpu` and `server`


@step
def plain(number: int) -> str:
    return result_of(number)


@step
async def small(number: int) -> str:
    return result_of(number)


@flow
def one_after_another(run: Run) -> None:
    for number in range(ALONE):
        _LIMIT.append(_timed(_INSERT[0]))
        _SPENT.append(_timed(lambda number=number: plain(number)))


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


@flow
async def many(run: AsyncRun) -> None:
    for each in range(STEPS):
        await small(each)


_LIMIT: list[float] = []
_SPENT: list[float] = []
_INSERT: list[Callable[[], object]] = []


# -- what the server can do --------------------------------------------------------------------------------


def insert_on(connection: psycopg.Connection) -> Callable[[], object]:
    """A bare prepared insert, committed and synced."""
    connection.execute("CREATE TABLE IF NOT EXISTS bare (key bigserial primary key, content bytea)")
    text, content = "INSERT INTO bare (content) VALUES (%s)", RESULT.encode()
    return lambda: connection.execute(text, (content,), prepare=True)


def bare_rows(url: str, runs: int) -> None:
    """So many rows at a time, as often as a run has steps: what a group commit could be at most."""
    rows = [RESULT.encode()] * runs
    with psycopg.connect(url, autocommit=True) as connection, in_step():
        for _ in range(STEPS):
            connection.execute("INSERT INTO bare (content) SELECT unnest(%s::bytea[])", (rows,), prepare=True)


# -- ours --------------------------------------------------------------------------------------------------


def alone(home: FoundHome, name: str) -> tuple[float, float]:
    """A bare insert and a step, in turns: the middle ones."""
    _LIMIT.clear()
    _SPENT.clear()
    with psycopg.connect(home.database, autocommit=True) as connection, Outlast(home) as outlast:
        _INSERT[:] = [insert_on(connection)]
        outlast.run(one_after_another, task=name).unwrap()
    return median(_LIMIT), median(_SPENT)


async def at_once(home: FoundHome, prefix: str, runs: int) -> None:
    """So many runs, from the first start to the last end."""
    async with AsyncOutlast(home) as outlast:
        await outlast.run(many, task=f"{prefix}-warm")
        with in_step():
            await asyncio.gather(*(outlast.with_options().run(many, task=f"{prefix}-{each}") for each in range(runs)))


@contextmanager
def in_step() -> Iterator[None]:
    """Begin when every process is ready, tell what it took as a line of JSON, and go on when all have ended.

    So nobody opens or closes his home, which writes files for people, while others are measured; nor looks through all
    that was loaded before for what is garbage, which comes once in a process and takes as long as hundreds of steps.
    """
    gc.collect()
    print("ready", flush=True)
    sys.stdin.readline()
    began, cpu = time.perf_counter(), time.process_time()
    yield
    told = {"began": began, "ended": time.perf_counter(), "cpu": time.process_time() - cpu}
    print(json.dumps(told), flush=True)
    sys.stdin.readline()


def child(kind: str, url: str, folder: str, runs: int, prefix: str) -> None:
    """In a process of its own."""
    if kind == "bare":
        bare_rows(url, runs)
    else:
        asyncio.run(at_once(FoundHome(Path(folder), database=url), prefix, runs))


def processes(server: Server, url: str, folder: Path, kind: str, many_: int, prefix: str) -> Figures:
    """Of so many processes together, for each step: from the moment all were ready to the end of the slowest."""
    words = [sys.executable, __file__, "--child", kind, url, str(folder), str(RUNS // many_)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([*words, f"{prefix}-{each}"], **pipes) for each in range(many_)]
    for each in started:
        assert each.stdout.readline() == "ready\n"
    before = cpu_of(server)
    _let_go(started)
    told = [json.loads(each.stdout.readline()) for each in started]
    found = {"wall": max(each["ended"] for each in told) - min(each["began"] for each in told)}
    found |= {"cpu": sum(each["cpu"] for each in told), "server": cpu_of(server) - before}
    _let_go(started)
    for each in started:
        each.communicate()
    return {name: seconds / (RUNS * STEPS) * 1e6 for name, seconds in found.items()}


def _let_go(started: list[subprocess.Popen]) -> None:
    for each in started:
        each.stdin.write("\n")
        each.stdin.flush()


def cpu_of(server: Server) -> float:
    """Seconds of CPU of a server, with those of its processes that have ended."""
    all_pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    parents = {pid: _stat(pid) for pid in all_pids}
    ours = [stat for pid, stat in parents.items() if stat and (pid == server.pid or stat[0] == server.pid)]
    return sum(sum(stat[1:3]) for stat in ours) + sum((_stat(server.pid) or (0, 0, 0, 0.0))[3:])


def _stat(pid: int) -> tuple[int, float, float, float] | None:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    tick = os.sysconf("SC_CLK_TCK")
    user, system, child_user, child_system = (int(each) / tick for each in words[11:15])
    return int(words[1]), user, system, child_user + child_system


# -- peers -------------------------------------------------------------------------------------------------


def peer(server: Server, kind: str, count: int) -> Figures:
    """So many processes of it in its own environment, each on a database of its own, which is in its favour."""
    script = HERE / "peers" / "on_postgres.py"
    urls = [server.new_database(f"bench_{kind}_{time.monotonic_ns()}") for _ in range(count)]
    before = cpu_of(server)
    words = [str(environment.PYTHON), str(script), kind]
    started = [subprocess.Popen([*words, url, str(RUNS // count), str(STEPS)], stdout=subprocess.PIPE) for url in urls]
    told = [json.loads(each.communicate(timeout=900)[0].splitlines()[-1]) for each in started]
    many, steps = [each["many"] for each in told], RUNS // count * STEPS
    found = {"wall": max(each["wall"] for each in many) * steps, "cpu": sum(each["cpu"] for each in many) * steps}
    return {name: taken / (RUNS * STEPS) for name, taken in found.items()} | {
        "one": told[0]["one"]["wall"],
        "server": (cpu_of(server) - before) / (RUNS * STEPS) * 1e6,
    }


# -- all of it ---------------------------------------------------------------------------------------------


@contextmanager
def a_server() -> Iterator[Server]:
    """A server in a folder of its own, on the disk; other things may lie beside its data."""
    with tempfile.TemporaryDirectory(prefix="outlast-bench-", dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        data = Path(place, "server")
        data.mkdir()
        server = Server(data, SYNCED)
        try:
            yield server
        finally:
            server.stop()


def on_postgres(plan: Plan) -> Row:
    """Row 11."""
    with a_server() as server:
        return measure(server, server.folder.parent, plan.together_rounds, with_peers=bool(plan.peers))


def measure(server: Server, place: Path, rounds: int, *, with_peers: bool) -> Row:
    url, folder = server.new_database("bench"), place / "home"
    is_quiet = os.getloadavg()[0] < 2 * (os.cpu_count() or 1)
    columns = ["one PostgreSQL", "µs per step", "× bare (from to)", "steps/s", "CPU µs", "of the server"]
    row = Row(11, "On PostgreSQL, synced", columns)
    slower = one_by_one(row, FoundHome(folder, database=url), rounds)
    row.goals.append(
        Goal("one durable step on PostgreSQL, × a bare commit", 1.5, True, slower if is_quiet else None, times)
    )
    for processes_, goal in ((1, 10_000), (4, 20_000)):
        speed = together(row, server, url, folder, rounds, processes_)
        work = f"{RUNS} runs at once on PostgreSQL, {processes_} process{'es' if processes_ > 1 else ''}"
        row.goals.append(Goal(f"{work}, steps/s", goal, False, speed if is_quiet else None, count))
        for kind in PEERS if with_peers else ():
            add_peer(row, server, kind, processes_)
    row.notes.append(NOTE if is_quiet else NOTE + BUSY)
    return row


NOTE = (
    f"One after another: {ALONE} steps of one run, each between two bare prepared inserts of as many bytes. At once: "
    f"{RUNS} runs of {STEPS} steps with their begin and end, beside as many bare rows committed as many at a time by "
    "as many processes, from the moment that all of them are ready. The server shares the machine. CPU is that of all "
    "clients for each step meanwhile, of a peer with its first run alone. Each process of a peer has a database of its "
    "own."
)


BUSY = " The machine had far more to do than it could: no goal is judged by these times."


def one_by_one(row: Row, home: FoundHome, rounds: int) -> float:
    taken = [alone(home, f"row-{number}") for number in range(rounds)]
    limits, ours = ([each * 1e6 for each in column] for column in zip(*taken, strict=True))
    ratios = [mine / limit for limit, mine in zip(limits, ours, strict=True)]
    row.lines += [
        ["limit: a bare insert, one after another", count(median(limits)), times(1), "", "", ""],
        ["outlast `def`, one after another", count(median(ours)), spread(ratios), "", "", ""],
    ]
    return median(ratios)


def together(row: Row, server: Server, url: str, folder: Path, rounds: int, processes_: int) -> float:
    taken: dict[str, list[Figures]] = defaultdict(list)
    for number in range(rounds):
        for kind in ("bare", "ours"):
            made = processes(server, url, folder, kind, processes_, f"{kind}-{processes_}-{number}")
            taken[kind].append(made)
    ratios = [ours["wall"] / bare["wall"] for bare, ours in zip(taken["bare"], taken["ours"], strict=True)]
    where = f"{RUNS} at once, {processes_} process{'es' if processes_ > 1 else ''}"
    for kind, name, slower in (("bare", "limit: bare rows", times(1)), ("ours", "outlast", spread(ratios))):
        row.lines.append([f"{name}, {where}", *_cells(taken[kind], slower)])
    return 1e6 / median(each["wall"] for each in taken["ours"])


def add_peer(row: Row, server: Server, kind: str, processes_: int) -> None:
    name = f"{PEERS[kind]}, {RUNS} at once, {processes_} process{'es' if processes_ > 1 else ''}"
    try:
        found = peer(server, kind, processes_)
    except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
        row.failed[name] = str(error)
        return
    if processes_ == 1:
        row.lines.append([f"{PEERS[kind]}, one after another", count(found["one"]), "", "", "", ""])
    row.lines.append([name, *_cells([found], "")])


def _cells(taken: list[Figures], slower: str) -> list[str]:
    wall, cpu, of_server = (median(each[name] for each in taken) for name in ("wall", "cpu", "server"))
    return [count(wall), slower, count(1e6 / wall), count(cpu), count(of_server)]


def spread(ratios: list[float]) -> str:
    return f"{median(ratios):.2f}× ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    kind, url, folder, runs, prefix = sys.argv[2:7]
    child(kind, url, folder, int(runs), prefix)
