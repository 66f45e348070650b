"""How soon a worker goes on, beside one commit, with a home in a file and with one in PostgreSQL.

    python bench/waking.py [--answers 100] [--queued 5000]

A worker in a process of its own, `outlast work`. From the return of an answer, given in this process, to the begin of
the step after it; from the return of a start to the begin of its first step; and how soon after its death another one
goes on with its run. Beside them bare synced commits, interleaved. Then what taking a run costs with few and with many
in the queue, which are put there 200 at once and must come out in their order, and what a worker with nothing to do
costs for twenty seconds.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TypeVar

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import apsw  # noqa: E402
import postgres  # noqa: E402
import psycopg  # noqa: E402
from report import table  # noqa: E402

from outlast import AsyncOutlast, Outlast  # noqa: E402
from outlast.flows.loading import load_module  # noqa: E402
from outlast.home.place import FoundHome  # noqa: E402
from outlast.runs.queues.queue import claim_next  # noqa: E402

FLOWS = """
import os, time
from outlast import Run, flow, step

@step
def begin(name: str) -> int:
    now = time.monotonic_ns()
    with open(os.path.join(os.environ["BENCH_FOLDER"], name), "w") as file:
        file.write(str(now))
    return now

@flow
def asks(run: Run, name: str) -> int:
    run.pause_for("approval", {"question": name})
    return begin(name)

@flow
def works(run: Run, name: str) -> int:
    return begin(name)

@step
def small(number: int) -> str:
    return "x" * 300

@flow
def steps(run: Run, count: int) -> int:
    return len([small(number) for number in range(count)])

@flow
def dies(run: Run, name: str) -> int:
    begin(f"{name}-{os.getpid()}")
    while not os.path.exists(os.path.join(os.environ["BENCH_FOLDER"], "killed")):
        time.sleep(0.01)
    return begin(name)
"""
SECONDS = 60.0
T = TypeVar("T")
IDLE_SECONDS = 20.0
AT_ONCE, TAKEN = 200, 40


class Place:
    """A home, a worker of it, and the bare commits that its figures are compared with."""

    def __init__(self, folder: Path, database: str = "") -> None:
        self.folder, self.found = folder, FoundHome(folder / "home", database=database)
        folder.mkdir()
        self.file = f"flows_{folder.name}.py"
        (folder / self.file).write_text(FLOWS)
        os.environ["BENCH_FOLDER"] = str(folder)
        self.flows = load_module(self.file, folder)
        self.outlast = Outlast(self.found)
        self.queue = self.outlast.with_options(queue="bench")  # for workers: not carried out here
        self._commit = _commit_on_server(database) if database else _commit_in_file(folder / "bare.db")

    @contextmanager
    def worker(self) -> Iterator["subprocess.Popen[bytes]"]:
        words = [sys.executable, "-m", "outlast", "work", self.file, "--home", self.found.name]
        around = os.environ | {"BENCH_FOLDER": str(self.folder), "OUTLAST_FOLDER": str(self.found.path)}
        with subprocess.Popen(
            words, cwd=self.folder, env=around, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as started:
            self.until(lambda: len(self.outlast.workers()) > 0)
            try:
                yield started
            finally:
                started.kill()

    def answered(self, number: int) -> float:
        name = f"answered-{number}"
        run_id = self.queue.start(self.flows.asks, name, task=name).run_id
        (wait,) = self.until(lambda: self.outlast.interrupts(run_id))
        self.until(lambda: self.outlast.get(run_id).status == "waiting")
        self.outlast.answer(wait.id, {"approved": True})
        return self._since(time.monotonic_ns(), name)

    def started(self, number: int) -> float:
        name = f"started-{number}"
        self.queue.start(self.flows.works, name, task=name)
        return self._since(time.monotonic_ns(), name)

    def died(self, number: int) -> float:
        """From the death of one worker to the step of another, which has been there all the while."""
        (self.folder / "killed").unlink(missing_ok=True)
        name = f"died-{number}"
        with self.worker():
            self.queue.start(self.flows.dies, name, task=name)
            (first,) = self.until(lambda: [*self.folder.glob(f"{name}-*")])
            with self.worker():
                self.until(lambda: len(self.outlast.workers()) > 1)
                os.kill(int(first.name.rpartition("-")[2]), signal.SIGKILL)
                at = time.monotonic_ns()
                (self.folder / "killed").touch()
                return self._since(at, name)

    def commit(self) -> float:
        began = time.monotonic_ns()
        self._commit()
        return (time.monotonic_ns() - began) / 1e6

    def fill(self, count: int) -> int:
        """So many are in the queue: how many were put there."""
        missing = count - sum(queue.ready for queue in self.outlast.queues())
        asyncio.run(self._put(missing))
        return missing

    def take(self) -> int:
        """Some are taken, each in its turn: how many."""
        caller = self.outlast._executor.caller
        first = caller.home.store.read(lambda look: look.entries_in("bench", "ready", 0, TAKEN))
        for entry in first:
            claimed = claim_next(caller, (), lambda *_: True)
            assert claimed is not None
            assert claimed.run.key == entry.run, "it was not its turn"
        return len(first)

    async def _put(self, count: int) -> None:
        """So many more into the queue, as many at once as share a commit."""
        async with AsyncOutlast(self.found) as outlast:
            queue = outlast.with_options(queue="bench")
            names = [f"{time.monotonic_ns()}-{each}" for each in range(count)]
            for begin in range(0, count, AT_ONCE):
                some = names[begin : begin + AT_ONCE]
                await asyncio.gather(*(queue.start(self.flows.works, "queued", task=name) for name in some))

    def _since(self, began: int, name: str) -> float:
        self.until(lambda: (self.folder / name).exists() and (self.folder / name).read_text())
        return (int((self.folder / name).read_text()) - began) / 1e6

    def until(self, found: Callable[[], T]) -> T:
        limit = time.monotonic() + SECONDS
        while not (now := found()):
            assert time.monotonic() < limit, "it did not happen"
            time.sleep(0.002)
        return now


def _commit_in_file(path: Path) -> Callable[[], object]:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE bare (text TEXT)").fetchall()
    return lambda: connection.execute("INSERT INTO bare VALUES (?)", ("x" * 300,))


def _commit_on_server(url: str) -> Callable[[], object]:
    connection = psycopg.connect(url, autocommit=True)
    connection.execute("CREATE TABLE bare (text TEXT)")
    return lambda: connection.execute("INSERT INTO bare VALUES (%s)", ("x" * 300,), prepare=True)


def idle_percent(place: Place, server: postgres.Server | None) -> tuple[float, float]:
    """Of one core: that of a worker with nothing to do, and of its server."""
    with place.worker() as worker:
        time.sleep(2)  # it has begun
        before, of_server = _cpu(worker.pid), postgres.cpu_of(server) if server else 0.0
        time.sleep(IDLE_SECONDS)
        spent = postgres.cpu_of(server) - of_server if server else 0.0
        return (_cpu(worker.pid) - before) / IDLE_SECONDS * 100, spent / IDLE_SECONDS * 100


def _cpu(pid: int) -> float:
    """Seconds of all its threads, to the nanosecond: ticks of a hundredth would be half of what is measured here."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def each_cost(server: postgres.Server | None, work: Callable[[], int]) -> str:
    """What each of those that `work` did took: milliseconds, and of the CPU of this process and of the server."""

    def now() -> tuple[float, ...]:
        return time.monotonic(), time.process_time(), postgres.cpu_of(server) if server else 0.0

    before, many = now(), work()
    wall, cpu, of_server = ((late - early) / many * 1e3 for early, late in zip(before, now(), strict=True))
    return f"{wall:.1f} ms, CPU {cpu:.1f} ms" + (f", of the server {of_server:.1f} ms" if server else "")


def figures(taken: list[float], commit: float) -> str:
    middle, late = median(taken), sorted(taken)[min(len(taken) - 1, int(len(taken) * 0.99))]
    return f"{middle:.1f} ms ({middle / commit:.1f}×), p99 {late:.1f} ms ({late / commit:.1f}×)"


def measure(place: Place, server: postgres.Server | None, options: argparse.Namespace) -> list[str]:
    with place.worker():
        answered, started, commits = [], [], []
        for number in range(options.answers):
            commits.append(place.commit())
            answered.append(place.answered(number))
            started.append(place.started(number))
    commit = median(commits)
    died = [place.died(number) for number in range(options.deaths)]
    idle = idle_percent(place, server)
    place.fill(100)
    few = each_cost(server, place.take)
    put = each_cost(server, lambda: place.fill(options.queued))
    many = each_cost(server, place.take)
    return [
        f"{commit:.2f} ms",
        figures(answered, commit),
        figures(started, commit),
        figures(died, commit),
        few,
        many,
        put,
        f"{idle[0]:.2f} %" + (f", of the server {idle[1]:.2f} %" if server else ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=100)
    parser.add_argument("--deaths", type=int, default=5)
    parser.add_argument("--queued", type=int, default=5000)
    options = parser.parse_args()
    with postgres.a_server() as server, tempfile.TemporaryDirectory(prefix="outlast-waking-", dir="/var/tmp") as folder:
        columns = [
            measure(Place(Path(folder, "file")), None, options),
            measure(Place(Path(folder, "server"), server.new_database("waking")), server, options),
        ]
    names = [
        "a bare synced commit, p50",
        "answered in another process: until the next step",
        "started in another process: until the first step",
        "its worker killed: until another goes on",
        "taking a run, 100 in the queue",
        f"taking a run, {options.queued:,} in the queue",
        f"putting a run into the queue, {AT_ONCE} at once",
        "a worker with nothing to do, of a core",
    ]
    print(table(["", "in a file", "in PostgreSQL"], [list(line) for line in zip(names, *columns, strict=True)]))
    print(f"\nload: {', '.join(f'{each:.1f}' for each in os.getloadavg())}")


if __name__ == "__main__":
    main()
