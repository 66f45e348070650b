"""What Temporal costs beside our own workers: takeover, latency after an answer, steps a second. One run, one table.

    python bench/temporal.py [--times N]

The same flows and the same ledger, a SQLite file on this machine; Temporal is the real server in a wheel, on loopback.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from outlast import Outlast, Run, flow, step  # noqa: E402

STEPS = 20


def now() -> float:
    return time.time()


def note(line: str) -> None:
    with open(Path(os.environ["BENCH_FOLDER"], "diary"), "a") as diary:
        diary.write(f"{line} {now()}\n")


@step(crashes=1000)
def begin(number: int) -> int:
    note(f"begin {number}")
    while Path(os.environ["BENCH_FOLDER"], f"hold {number}").exists():
        time.sleep(0.005)
    return number


@step
def count(number: int) -> int:
    return number


@flow(name="bench_held")
def held(run: Run, number: int) -> int:
    return begin(number)


@flow(name="bench_asks")
def asks(run: Run, number: int) -> int:
    run.pause_for("approval")
    return begin(number)


@flow(name="bench_steps")
def steps(run: Run, number: int) -> int:
    return sum(count(number * STEPS + each) for each in range(STEPS))


FLOWS = [held, asks, steps]


def work(engine: str, home: str, address: str) -> None:
    """A worker, in a process of its own, until its input ends."""
    with Outlast(home) as outlast:
        if engine == "temporal":
            from outlast.adapters.temporal import TemporalSettings, TemporalWorker

            worker = TemporalWorker(outlast, FLOWS, TemporalSettings(address=address))
        else:
            worker = outlast.worker(*FLOWS)  # type: ignore[assignment]
        with worker:
            print("ready", flush=True)
            sys.stdin.read()


class Bench:
    """One engine, on a home of its own."""

    def __init__(self, engine: str, address: str) -> None:
        self.engine, self.address = engine, address
        self.folder = Path(tempfile.mkdtemp(prefix="outlast-bench-"))
        os.environ["BENCH_FOLDER"] = str(self.folder)
        self.outlast = Outlast(self.folder / "home")
        self.options = {"engine": engine, "queue": f"bench-{engine}-{os.getpid()}"}
        self.workers: list[subprocess.Popen[str]] = []
        self._number = 0

    def begin_workers(self, count: int) -> None:
        words = [sys.executable, __file__, "--work", self.engine, str(self.folder / "home"), self.address]
        for _ in range(count):
            one = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.workers.append(one)
        for one in self.workers[-count:]:
            assert one.stdout is not None
            one.stdout.readline()

    def end_workers(self, how: int = signal.SIGKILL) -> None:
        for one in self.workers:
            one.send_signal(how)
            one.wait(60)
        self.workers.clear()

    def start(self, of: object, number: int) -> str:
        return str(self.outlast.with_options(**self.options).start(of, number).run_id)  # type: ignore

    def lines(self, number: int) -> list[float]:
        diary = self.folder / "diary"
        found = diary.read_text().splitlines() if diary.exists() else []
        return [float(line.split()[2]) for line in found if line.startswith(f"begin {number} ")]

    def takeover(self) -> float:
        """From a kill of the worker until another one is in the same step."""
        self._number += 1
        hold = self.folder / f"hold {self._number}"
        hold.touch()
        self.begin_workers(2)
        run_id = self.start(held, self._number)
        self.until(lambda: len(self.lines(self._number)) == 1)
        holder = self.outlast.get(run_id).holder
        (one,) = [each for each in self.workers if f"{each.pid}" in holder]
        killed_at = now()
        one.kill()
        one.wait()
        self.workers.remove(one)
        self.until(lambda: len(self.lines(self._number)) == 2)
        hold.unlink()
        self.until(lambda: self.outlast.get(run_id).finished)
        self.end_workers()
        return self.lines(self._number)[1] - killed_at

    def latency(self) -> float:
        """From an answer in this process until the next step has begun in the worker's."""
        self._number += 1
        run_id = self.start(asks, self._number)
        self.until(lambda: self.outlast.interrupts(run_id))
        time.sleep(0.3)  # what waits is told to Temporal before it is answered
        (wait,) = self.outlast.interrupts(run_id)
        answered_at = now()
        self.outlast.answer(wait.id, {"approved": True})
        self.until(lambda: self.lines(self._number))
        return self.lines(self._number)[0] - answered_at

    def steps_a_second(self, workers: int, runs: int) -> float:
        self.begin_workers(workers)
        begun = now()
        ids = [self.start(steps, 1000 * workers + number) for number in range(runs)]
        for run_id in ids:
            self.until(lambda run_id=run_id: self.outlast.get(run_id).finished)
        seconds = now() - begun
        self.end_workers()
        return runs * STEPS / seconds

    def until(self, found) -> None:  # type: ignore[no-untyped-def]
        limit = time.monotonic() + 120
        while not found():
            assert time.monotonic() < limit, "it did not happen"
            time.sleep(0.005)

    def measured(self, times: int) -> dict[str, str]:
        takeovers = [self.takeover() for _ in range(max(times // 4, 3))]
        self.begin_workers(1)
        latencies = [self.latency() * 1000 for _ in range(times)]
        self.end_workers()
        speed = {count: self.steps_a_second(count, times * 2) for count in (1, 4)}
        return {
            "takeover after a killed worker, median (worst)": f"{_middle(takeovers):.1f} ({max(takeovers):.1f}) s",
            "from an answer to the next step, median (worst)": f"{_middle(latencies):.0f} ({max(latencies):.0f}) ms",
            f"steps a second, 1 worker, runs of {STEPS} steps": f"{speed[1]:.0f}",
            f"steps a second, 4 workers, runs of {STEPS} steps": f"{speed[4]:.0f}",
        }


def _middle(values: list[float]) -> float:
    return statistics.median(values)


def main(times: int) -> None:
    from tests.kit import temporal

    address = temporal.server().address
    found = {engine: Bench(engine, address).measured(times) for engine in ("outlast", "temporal")}
    print("| | our own workers | Temporal |\n|---|---|---|")
    for name in found["outlast"]:
        print(f"| {name} | {found['outlast'][name]} | {found['temporal'][name]} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        from temporal import FLOWS as FLOWS  # by the name under which the other process knows them

        work(*sys.argv[2:])
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--times", type=int, default=20)
        main(parser.parse_args().times)
