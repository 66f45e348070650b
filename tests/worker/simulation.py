"""Many workers on many machines, in one thread, under a time that is made: whose turn it is, is drawn from a seed.

What they do to the ledger is the program's own: runs are queued, claimed, taken over, committed under an epoch and
ended by the code that workers use, in real transactions. What is made is everything around it: machines die at any
moment, and in the middle of what they do; they stand still for longer than their leases and go on; their clocks are
wrong; who is rung hears it late, twice or never. A log of all that happened is the same for the same seed.
"""

import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from outlast import Outlast, Run, flow
from outlast.errors import LeaseLost
from outlast.home.caller import Caller
from outlast.home.home import HeldRuns, Home
from outlast.ledger.lease import Process
from outlast.runs import begin, find
from outlast.runs.claim import RunClaim, run_fact
from outlast.runs.queues import queue
from outlast.runs.run import Options
from outlast.store.contract import Ending, Writing

SECOND = 1_000_000
SLOTS = 4  # runs of a worker at once
STEPS = 3  # commits of a run before its last one


@flow(name="simulated", queue="all", concurrency=0)
def simulated(run: Run, number: int) -> int:
    return number


@flow(name="limited", queue="few", concurrency=7, per="lane")
def limited(run: Run, number: int, lane: int) -> int:
    return number


class MadeClock:
    """The clock of one machine: wrong by so much, and by a little more with each second."""

    def __init__(self, world: "Simulation", skew_us: int) -> None:
        self._world, self._skew_us = world, skew_us

    def now(self) -> int:
        return self._world.now + self._skew_us

    boot = now

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps in a made time")

    async def sleep_async(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps in a made time")


class SimulatedWorker:
    """A worker on a machine of its own: what it holds is known to it alone."""

    def __init__(self, world: "Simulation", number: int, home: Home) -> None:
        self.world, self.number, self.alive = world, number, True
        skew = round(world.luck.uniform(-2, 2) * SECOND)
        # Another boot than anybody's: only the lease says whether it lives.
        process = Process(f"w{number}", f"host{number}", f"boot{number}", "ns", number, 1)
        made = {"process": process, "clock": MadeClock(world, skew), "held": HeldRuns(), "ids": world.ids}
        self.home = msgspec.structs.replace(home, **made)
        self.caller = Caller(self.home, "sim", "default")
        self.at: dict[str, int] = {}  # its runs, and how many commits of each it has made

    def look(self, wide: bool) -> None:
        """What a worker does when it wakes: crashed runs are made ready, then runs are taken while there is room."""
        if not self.alive:
            return
        if wide:
            for one in find.due(self.caller):
                queue.make_ready(self.caller, one.run_id)
        while len(self.at) < SLOTS:
            claimed = queue.claim_next(self.caller, (), lambda run: True)
            if claimed is None:
                return
            self.world.took(self.number, claimed)
            self.at[claimed.run.id] = 0
            self.world.later(self.world.luck.uniform(0.1, 3), lambda claimed=claimed: self.step(claimed))

    def beat(self) -> None:
        if self.alive:
            self.home.store.write(lambda tx: tx.beat(self.home.beat()))
            self.world.later(5, self.beat)

    def step(self, claimed: RunClaim) -> None:
        """One commit of a run, or its last. An owner that was replaced is told by the epoch, and lets go."""
        if not self.alive:
            return
        done = self.at[claimed.run.id]
        try:
            self.home.store.write(lambda tx: self._commit(tx, claimed, done))
        except LeaseLost:
            self.world.say(f"{self.number} lost {claimed.run.task} at {claimed.hold.epoch}")
            self._let_go(claimed)
            return
        self.world.committed(self.number, claimed, done)
        self.at[claimed.run.id] = done + 1
        if done == STEPS:
            self._let_go(claimed)
            self.world.ring()
            return
        self.world.later(self.world.luck.uniform(0.1, 3), lambda: self.step(claimed))

    def _commit(self, tx: Writing, claimed: RunClaim, done: int) -> None:
        now = self.home.clock.now()
        tx.append(claimed.hold, [run_fact(f"simulated {done}", None, epoch=claimed.hold.epoch, at=now)])
        if done == STEPS:
            tx.end_run(claimed.run.key, Ending("succeeded", "", "{}", None, now))
            queue.note_end(tx, claimed.run.key, "succeeded", "")
            tx.release_lease(claimed.hold)

    def _let_go(self, claimed: RunClaim) -> None:
        del self.at[claimed.run.id]
        self.home.held.claimed.discard(claimed.run.id)
        self.world.later(0.05, lambda: self.look(wide=False))


class Simulation:
    """The world: its time, what is to come, and what has happened."""

    def __init__(self, folder: Path, seed: int, workers: int, runs: int) -> None:
        self.luck, self.now, self.log = random.Random(seed), 1_700_000_000 * SECOND, hashlib.sha256()
        self._coming: list[tuple[int, int, Callable[[], None]]] = []
        self._order = self._ids = 0
        self._owners: dict[tuple[str, int], set[int]] = {}  # by run and epoch: whose commits are in its journal
        self._steps: dict[tuple[str, int], list[int]] = {}
        self._newest: dict[str, int] = {}  # by run: the epoch of who took it last
        self.counts: Counter[str] = Counter()
        self._runs, self._folder = runs, folder
        self.outlast = Outlast(folder, clock=MadeClock(self, 0), ids=self.ids, store_options={"synchronous": "OFF"})
        self._home = self.outlast._home
        self.workers = [SimulatedWorker(self, number, self._home) for number in range(workers)]
        self._next_worker = workers

    def ids(self) -> str:
        self._ids += 1
        return f"r{self._ids:08d}"

    def later(self, seconds: float, does: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._coming, (self.now + round(seconds * SECOND), self._order, does))

    def say(self, what: str) -> None:
        self.counts[what.split()[1]] += 1
        self.log.update(f"{self.now} {what}\n".encode())

    # -- what happens to it ----------------------------------------------------------------------

    def run(self) -> None:
        """From the first run to the last, then until nothing is left to do."""
        for number in range(self._runs):
            self.later(self.luck.uniform(0, self._runs / 100), lambda number=number: self._queue(number))
        for worker in self.workers:
            self._begin(worker)
        for _ in range(max(3, len(self.workers) // 2)):
            self.later(self.luck.uniform(5, self._runs / 80 + 20), self._crash)
            self.later(self.luck.uniform(5, self._runs / 80 + 20), self._stand_still)
        while self._coming and self.counts["ended"] < self._runs:
            self.now, _, does = heapq.heappop(self._coming)
            does()
            assert self.now < (1_700_000_000 + 40_000) * SECOND, f"stranded: {self.counts}"

    def _begin(self, worker: SimulatedWorker) -> None:
        worker.beat()
        self.later(self.luck.uniform(0, 5), lambda: self._sweep(worker))

    def _sweep(self, worker: SimulatedWorker) -> None:
        """The slow look, which nobody has to ring for."""
        if worker.alive:
            worker.look(wide=True)
            self.later(self.luck.uniform(20, 40), lambda: self._sweep(worker))

    def _queue(self, number: int) -> None:
        spec, given = (limited.spec, {"number": number, "lane": number % 5}) if number % 4 == 0 else (
            simulated.spec, {"number": number})  # fmt: skip
        caller, options = self.outlast._caller, Options(task=f"t{number}", priority=number % 3)
        new = begin.new_run(caller, spec, msgspec.json.encode(given), options)
        begin.decide(caller, new, options, place=queue.place_of(spec, new, options))
        self.ring()

    def ring(self) -> None:
        """Some are rung: at once, late, twice; and some never hear it."""
        for worker in self.luck.sample(self.workers, min(2, len(self.workers))):
            for _ in range(self.luck.choice((0, 1, 1, 1, 2))):
                self.later(self.luck.choice((0, 0.01, 0.5, 4)), lambda worker=worker: worker.look(wide=False))

    def _crash(self) -> None:
        """A machine dies with all that it holds; another one comes in its place."""
        worker = self.luck.choice(self.workers)
        worker.alive = False
        self.say(f"{worker.number} died with {len(worker.at)}")
        fresh = SimulatedWorker(self, self._next_worker, self._home)
        self._next_worker += 1
        self.workers[self.workers.index(worker)] = fresh
        self.later(self.luck.uniform(0, 10), lambda: self._begin(fresh))

    def _stand_still(self) -> None:
        """A machine does nothing for longer than its lease, and goes on as if nothing had been."""
        worker = self.luck.choice(self.workers)
        self.say(f"{worker.number} stands")
        until = self.now + round(self.luck.uniform(10, 120) * SECOND)
        kept = [(at, order, does) for at, order, does in self._coming if _of(does) is worker]
        self._coming = [each for each in self._coming if _of(each[2]) is not worker]
        self._coming += [(max(at, until), order, does) for at, order, does in kept]
        heapq.heapify(self._coming)

    # -- what must hold --------------------------------------------------------------------------

    def took(self, worker: int, claimed: RunClaim) -> None:
        self._newest[claimed.run.id] = claimed.hold.epoch
        self.say(f"{worker} took {claimed.run.task} at {claimed.hold.epoch}, found {claimed.found}")

    def committed(self, worker: int, claimed: RunClaim, done: int) -> None:
        run_id, epoch = key = (claimed.run.id, claimed.hold.epoch)
        assert epoch == self._newest[run_id], f"{worker} committed to {run_id} after it was replaced"
        self._owners.setdefault(key, set()).add(worker)
        self._steps.setdefault(key, []).append(done)
        self.say(f"{worker} {'ended' if done == STEPS else 'wrote'} {claimed.run.task} {done}")

    def check(self) -> None:
        """Every run has ended once; each of its epochs has the commits of one owner, in their order."""
        assert self.counts["ended"] == self._runs
        assert {key: owners for key, owners in self._owners.items() if len(owners) != 1} == {}
        assert {key: steps for key, steps in self._steps.items() if steps != list(range(len(steps)))} == {}
        assert {run.status for run in self.outlast.runs(limit=self._runs + 1)} == {"succeeded"}

    def close(self) -> None:
        self.outlast.close()


def _of(does: Any) -> Any:
    """The worker whose doing this is; None for what nobody does."""
    cells = [cell.cell_contents for cell in does.__closure__ or ()] if hasattr(does, "__closure__") else []
    found = [
        *cells,
        *(does.__defaults__ or () if hasattr(does, "__defaults__") else ()),
        getattr(does, "__self__", None),
    ]
    return next((each for each in found if isinstance(each, SimulatedWorker)), None)


def simulate(folder: Path, seed: int, workers: int, runs: int) -> tuple[str, Counter[str]]:
    """All of it: a print of its log, and how often what happened."""
    world = Simulation(folder, seed, workers, runs)
    try:
        world.run()
        world.check()
        return world.log.hexdigest(), world.counts
    finally:
        world.close()


__all__ = ["simulate"]
