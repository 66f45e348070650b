"""Steps on PostgreSQL beside what the same server can do at all, and beside peers there.

    python bench/postgres.py [--peers] [--rounds N]

A server is started from the wheel that tests use, with everything synced, on the disk; nothing of another server is
touched. One step after another, interleaved with bare prepared inserts of the same size. Then 64 runs at once of 50
steps, in one process and in four, interleaved with bare rows committed as many at a time by as many processes. Ratios
within a round count: the machine's own speed is in both. CPU is that of the clients, and of the server with all that
serves them.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import psycopg  # noqa: E402
from peers import environment  # noqa: E402
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
        began = time.perf_counter()
        plain(number)
        _SPENT.append(time.perf_counter() - began)


@flow
async def many(run: AsyncRun) -> None:
    for each in range(STEPS):
        await small(each)


_SPENT: list[float] = []


# -- what the server can do --------------------------------------------------------------------------------


def bare(url: str) -> float:
    """How long a bare prepared insert takes, committed and synced."""
    found = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bare (key bigserial primary key, content bytea)")
        for _ in range(ALONE):
            began = time.perf_counter()
            connection.execute("INSERT INTO bare (content) VALUES (%s)", (RESULT.encode(),), prepare=True)
            found.append(time.perf_counter() - began)
    return median(found)


def bare_rows(url: str, runs: int) -> float:
    """How long so many rows at a time take, as often as a run has steps: what a group commit could be at most."""
    rows = [RESULT.encode()] * runs
    with psycopg.connect(url, autocommit=True) as connection:
        began = time.perf_counter()
        for _ in range(STEPS):
            connection.execute("INSERT INTO bare (content) SELECT unnest(%s::bytea[])", (rows,), prepare=True)
        return time.perf_counter() - began


# -- ours --------------------------------------------------------------------------------------------------


def alone(home: FoundHome, name: str) -> float:
    _SPENT.clear()
    with Outlast(home) as outlast:
        outlast.run(one_after_another, task=name).unwrap()
    return median(_SPENT)


async def at_once(home: FoundHome, prefix: str, runs: int) -> float:
    """How long so many runs take, from the first start to the last end."""
    async with AsyncOutlast(home) as outlast:
        await outlast.run(many, task=f"{prefix}-warm")
        began = time.perf_counter()
        await asyncio.gather(*(outlast.with_options().run(many, task=f"{prefix}-{each}") for each in range(runs)))
        return time.perf_counter() - began


def child(kind: str, url: str, folder: str, runs: int, prefix: str) -> None:
    """In a process of its own: what it took, as a line of JSON."""
    cpu = time.process_time()
    if kind == "bare":
        wall = bare_rows(url, runs)
    else:
        wall = asyncio.run(at_once(FoundHome(Path(folder), database=url), prefix, runs))
    print(json.dumps({"wall": wall, "cpu": time.process_time() - cpu}))


def processes(server: Server, url: str, folder: Path, kind: str, count: int, prefix: str) -> Figures:
    """Of so many processes together, for each step: the wall time is that of the slowest, without its start."""
    words = [sys.executable, __file__, "--child", kind, url, str(folder), str(RUNS // count)]
    before = cpu_of(server)
    started = [subprocess.Popen([*words, f"{prefix}-{each}"], stdout=subprocess.PIPE) for each in range(count)]
    told = [json.loads(each.communicate()[0]) for each in started]
    found = {"wall": max(each["wall"] for each in told), "cpu": sum(each["cpu"] for each in told)}
    found["server"] = cpu_of(server) - before
    return {name: seconds / (RUNS * STEPS) * 1e6 for name, seconds in found.items()}


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


def peer(server: Server, kind: str) -> dict[str, Figures]:
    """In its own environment, on a database of its own."""
    url = server.new_database(f"bench_{kind}_{time.monotonic_ns()}")
    script = HERE / "peers" / "on_postgres.py"
    words = [str(environment.PYTHON), str(script), kind, url, str(RUNS), str(STEPS)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    found: dict[str, Figures] = json.loads(done.stdout.splitlines()[-1])
    return found


# -- all of it ---------------------------------------------------------------------------------------------


def measure(server: Server, place: Path, rounds: int, with_peers: bool) -> None:
    url, folder = server.new_database("bench"), place / "home"
    home, ratios, times = FoundHome(folder, database=url), list[float](), list[tuple[float, float]]()
    for number in range(rounds):
        times.append((bare(url), alone(home, f"row-{number}")))
        ratios.append(times[-1][1] / times[-1][0])
    limit, ours = (median(each) * 1e6 for each in zip(*times, strict=True))
    print(f"one step after another {ours:7.0f} µs, a bare commit {limit:7.0f} µs: {spread(ratios)}x", flush=True)
    for count in (1, 4):
        together(server, url, folder, rounds, count)
    for kind in PEERS if with_peers else ():
        found = peer(server, kind)
        said = ", ".join(f"{name}: {each['wall']:,.0f} µs, {each['cpu']:,.0f} of CPU" for name, each in found.items())
        print(f"{PEERS[kind]}, for each step: {said}", flush=True)


def together(server: Server, url: str, folder: Path, rounds: int, count: int) -> None:
    taken: dict[str, list[Figures]] = defaultdict(list)
    for number in range(rounds):
        for kind in ("bare", "ours"):
            taken[kind].append(processes(server, url, folder, kind, count, f"{kind}-{count}-{number}"))
    ratios = [ours["wall"] / bare["wall"] for bare, ours in zip(taken["bare"], taken["ours"], strict=True)]
    print(f"{RUNS} runs x {STEPS} steps, {count} process(es): {spread(ratios)}x bare rows", flush=True)
    for kind, each in taken.items():
        wall, cpu, of_server = (median(one[name] for one in each) for name in ("wall", "cpu", "server"))
        print(f"  {kind}: {1e6 / wall:8,.0f} steps/s; CPU for each step {cpu:5.0f} µs, of the server {of_server:5.0f}")


def spread(ratios: list[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        kind, url, folder, runs, prefix = sys.argv[2:7]
        child(kind, url, folder, int(runs), prefix)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true", help="install and measure them")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    failure = environment.install() if options.peers else None
    if failure:
        print(f"no peers: {failure}")
    with tempfile.TemporaryDirectory(prefix="outlast-bench-", dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        data = Path(place, "server")
        data.mkdir()
        server = Server(data, SYNCED)
        try:
            measure(server, Path(place), options.rounds, options.peers and not failure)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
