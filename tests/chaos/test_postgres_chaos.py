"""A home in PostgreSQL whose server is restarted and crashes, whose connections are cut, whose workers are stopped past
their lease and killed: what a step returned is so for ever, no effect happens twice, and every record is right.

CI does a handful of each; `make chaos` ten minutes, with four workers and 64 runs under way. `CHAOS_SECONDS=N` makes
it shorter or longer, `CHAOS_SEED=N` makes the same choices again.
"""

import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast import Outlast
from outlast.home.place import FoundHome

from ..abuse.figures import figures
from ..worker.support import until
from . import postgres_flows
from .postgres_flows import EVERY, chaos, lines
from .postgres_world import LEASE_SECONDS, PostgresWorld, Repeated, a_postgres_world

pytestmark = [pytest.mark.crash, pytest.mark.timeout(3600)]
STEPS = 20
ROUND_SECONDS = 60.0


def home_of(world: PostgresWorld) -> FoundHome:
    """Not through the wire: whoever looks on is not part of it."""
    return FoundHome(world.folder / "home", database=world.server.url("postgres"))


def check(world: PostgresWorld, runs: int) -> None:
    """Nothing that was told is lost or other than it was, no effect happened twice or not at all, all records hold."""
    told: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in lines("told"):
        number, each, value = line.split()
        told[number, each].add(value)
    assert {len(values) for values in told.values()} == {1}
    sent = Counter(line.split()[0] for line in lines("sent"))
    effects = {f"{number}.{each}" for number in range(runs) for each in range(EVERY - 1, STEPS, EVERY)}
    assert (set(sent), set(sent.values())) == (effects, {1})
    with Outlast(home_of(world)) as outlast:
        found = {int(run.task): run for run in outlast.runs(limit=runs + 1)}
        assert Counter(run.status for run in found.values()) == {"succeeded": runs}
        for number, run in found.items():
            assert outlast.get(run.id).result == [*(told[str(number), str(each)].copy().pop() for each in range(STEPS))]
        assert outlast.verify().ok


def ended() -> int:
    return len(set(lines("ended")))


def test_a_few_restarts_cuts_stops_and_kills_lose_nothing_and_repeat_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_flows, "HERE", tmp_path)
    runs = 8
    with a_postgres_world(tmp_path, seed=2026) as world:
        with Outlast(home_of(world)) as outlast:
            for number in range(runs):
                outlast.start(chaos, number, STEPS, 0.02, task=str(number))
        for _ in range(2):
            world.begin_worker()
        steps = [world.cut, world.cut, lambda: world.restart(away_seconds=0.1), world.cut, world.kill_worker]
        steps += [lambda: world.stop_worker(until=lambda: time.sleep(LEASE_SECONDS * 1.5)), world.cut]
        for at, happen in enumerate(steps, 1):
            until(lambda at=at: len(lines("told")) >= at * runs * STEPS // (len(steps) + 2), f"step {at}")
            happen()
        until(lambda: ended() == runs, "the end")
        until(lambda: all_over(world), "the end of every run")
        check(world, runs)
        assert world.wire.cuts >= 2


def all_over(world: PostgresWorld) -> bool:
    with Outlast(home_of(world)) as outlast:
        queue = outlast.queues()[0]
        return queue.ready == queue.delayed == queue.running == queue.idle == 0


def test_ten_minutes_of_restarts_cuts_stops_and_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_long: bool
) -> None:
    if not crash_long:
        pytest.skip("ten minutes: make chaos")
    monkeypatch.setattr(postgres_flows, "HERE", tmp_path)
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    seconds = float(os.environ.get("CHAOS_SECONDS") or 600)
    print(f"chaos on PostgreSQL: CHAOS_SEED={seed}")
    with a_postgres_world(tmp_path, seed) as world:
        with Outlast(home_of(world)) as outlast:
            for _ in range(4):
                world.begin_worker()
            runs = go_through(world, outlast, seconds)
        until_ended(world, runs)
        world.happened["cuts"] = world.wire.cuts
        counted = {"runs": runs, "steps": len(set(lines("told"))), "effects": len(lines("sent"))}
        figures("postgres_chaos", seed=seed, seconds=seconds, **counted, happened=dict(world.happened))
        check(world, runs)


def go_through(world: PostgresWorld, outlast: Outlast, seconds: float) -> int:
    """Let things happen for so long, with 64 runs under way: how many runs were begun.

    After each minute all that is written so far is verified, while the workers go on.
    """
    over, started = time.monotonic() + seconds, 0

    def restart(luck: random.Random) -> None:
        world.restart(away_seconds=luck.uniform(0, 2), luck=luck)

    def stop(luck: random.Random) -> None:
        world.stop_worker(lambda: time.sleep(LEASE_SECONDS * luck.uniform(1, 3)), luck)

    restarts = Repeated(restart, (5, 40), f"{world.seed} restarts")
    stops = Repeated(stop, (20, 60), f"{world.seed} stops")
    with restarts, stops:
        while time.monotonic() < over:
            started = one_round(world, outlast, min(over, time.monotonic() + ROUND_SECONDS), started)
            with restarts.quiet:
                found = outlast.verify()
            assert found.ok, found.problems
            world.happened["rounds verified"] += 1
    return started


def one_round(world: PostgresWorld, outlast: Outlast, over: float, started: int) -> int:
    """Cuts and kills until then, and new runs for those that end."""
    luck = world.luck
    kinds: list[tuple[Callable[[], None], float, float]] = [(world.cut, 0.5, 4), (world.kill_worker, 20, 60)]
    due = [time.monotonic() + luck.uniform(least, most) for _, least, most in kinds]
    while time.monotonic() < over:
        while started - ended() < 64:
            outlast.start(chaos, started, STEPS, 0.05, task=str(started))
            started += 1
        world.supervise()
        for number, (happen, least, most) in enumerate(kinds):
            if time.monotonic() >= due[number]:
                happen()
                due[number] = time.monotonic() + luck.uniform(least, most)
        time.sleep(0.1)
    return started


def until_ended(world: PostgresWorld, runs: int) -> None:
    limit = time.monotonic() + 300
    while ended() < runs or not all_over(world):
        assert time.monotonic() < limit, f"{ended()} of {runs} runs ended"
        time.sleep(0.2)
