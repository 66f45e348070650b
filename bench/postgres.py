"""Steps on PostgreSQL beside bare commits on the same server: `python bench/postgres.py [SECONDS]`. A server is started
from the wheel that tests use, with everything synced, on the disk; nothing of another server is touched.

One step after another, interleaved with bare prepared inserts; then 64 runs at once of 50 steps each, in one process
and in four. Ratios count: the machine's own speed is in both.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import psycopg  # noqa: E402
from tests.kit.postgres import Server  # noqa: E402

from outlast import AsyncOutlast, AsyncRun, Outlast, Run, flow, step  # noqa: E402
from outlast.home.place import FoundHome  # noqa: E402

SYNCED = ("listen_addresses=", "max_connections=100", "shared_buffers=64MB")
STEPS, RUNS = 50, 64


@step
def plain(number: int) -> int:
    return number


@step
async def small(number: int) -> int:
    return number


@flow
def one_after_another(run: Run, spent: list[float]) -> None:
    for number in range(100):
        began = time.perf_counter()
        plain(number)
        _SPENT.append(time.perf_counter() - began)


@flow
async def many(run: AsyncRun, number: int) -> int:
    for each in range(STEPS):
        await small(each)
    return number


_SPENT: list[float] = []


def bare(url: str, count: int) -> list[float]:
    """How long a bare prepared insert takes, committed and synced."""
    found = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bare (key bigserial primary key, content bytea)")
        for _ in range(count):
            began = time.perf_counter()
            connection.execute("INSERT INTO bare (content) VALUES (%s)", (b"x" * 200,), prepare=True)
            found.append(time.perf_counter() - began)
    return found


def steps(home: FoundHome, name: str) -> list[float]:
    _SPENT.clear()
    with Outlast(home) as outlast:
        outlast.run(one_after_another, [], task=name).unwrap()
    return list(_SPENT)


async def at_once(home: FoundHome, prefix: str, runs: int) -> float:
    """How long so many runs take, from the first start to the last end."""
    async with AsyncOutlast(home) as outlast:
        await outlast.run(many, 0, task=f"{prefix}-warm")
        began = time.perf_counter()
        await asyncio.gather(*(outlast.with_options().run(many, each, task=f"{prefix}-{each}") for each in range(runs)))
        return time.perf_counter() - began


def processes(url: str, folder: Path, count: int) -> float:
    """Steps a second, of so many processes together: by the slowest of them, without its start."""
    words = [sys.executable, __file__, "--child", url, str(folder), str(RUNS // count)]
    started = [subprocess.Popen([*words, f"{count}-{each}"], stdout=subprocess.PIPE) for each in range(count)]
    return RUNS * STEPS / max(float(each.communicate()[0]) for each in started)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        url, folder, runs, prefix = sys.argv[2:6]
        print(asyncio.run(at_once(FoundHome(Path(folder), database=url), prefix, int(runs))))
        return
    with tempfile.TemporaryDirectory(prefix="outlast-bench-", dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        data = Path(place, "server")
        data.mkdir()
        server = Server(data, SYNCED)
        try:
            url, folder = server.new_database("bench"), Path(place, "home")
            home, alone, ours = FoundHome(folder, database=url), list[float](), list[float]()
            for number in range(5):
                alone += bare(url, 100)
                ours += steps(home, f"row-{number}")
            print(f"bare commit   {median(alone) * 1e6:7.0f} µs")
            print(f"durable step  {median(ours) * 1e6:7.0f} µs   {median(ours) / median(alone):.2f}x")
            for count in (1, 4):
                print(f"{RUNS} runs x {STEPS} steps, {count} process(es): {processes(url, folder, count):,.0f} steps/s")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
