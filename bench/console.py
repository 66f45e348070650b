"""How long the server takes for pages of the console, beside one indexed read of the same rows.

`python bench/console.py HOME [ROUNDS]`: of a home with many runs, many waits and a long run, which is made with 100,000
runs, 1,000 waits and a run of 10,000 steps where there is none. CPU time, the median.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from outlast import Outlast, Run, flow, step
from outlast.doors.console import render, screens
from outlast.doors.console.access import Visit
from outlast.doors.http.exchange import Exchange
from outlast.doors.http.state import ServerSettings, ServerState

RUNS, WAITS, STEPS = 100_000, 1000, 10_000


@flow(name="small")
def small(run: Run, number: int) -> int:
    return number


@flow(name="asks")
def asks(run: Run, number: int) -> bool:
    return bool(run.pause_for("approval", payload={"question": f"Publish {number}?"})["approved"])


@step
def tick(number: int) -> int:
    return number


@flow(name="long")
def long_one(run: Run, upto: int) -> int:
    return sum(tick(number) for number in range(upto))


def make(home: Path) -> None:
    """A home with many of everything; it takes some minutes."""
    with Outlast(home, store_options={"synchronous": "OFF"}) as outlast:
        outlast.run(long_one, STEPS, task="long").unwrap()
        for number in range(WAITS):
            outlast.run(asks, number, task=f"ask-{number}")
        for number in range(RUNS):
            outlast.run(small, number, task=f"small-{number}").unwrap()


def median_ms(work: Callable[[], object], rounds: int) -> float:
    """The median of the CPU time of one call, after a first one."""
    work()
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        taken.append((time.process_time() - began) * 1000)
    return statistics.median(taken)


def page(state: ServerState, path: str, template: str, **params: str) -> Callable[[], bytes]:
    """What a worker thread does for one request of a page."""
    screen = next(each for each in screens.SCREENS if each.template == template)
    place, _, query = path.partition("?")

    def work() -> bytes:
        scope = {"headers": [], "method": "GET", "path": place, "query_string": query.encode(), "raw_path": b"/"}
        exchange = Exchange(state, scope, None, None)  # type: ignore[arg-type]
        exchange.path = params
        visit = Visit(exchange)
        visit.enter()
        return screens._made(screen, visit)

    return work


async def main(home: Path, rounds: int) -> None:
    """Print a line for each page."""
    render.environment()
    if not home.exists():
        make(home)
    with Outlast(home) as outlast:
        long = max(outlast.runs(task="long"), key=lambda run: run.head)
        chosen = f"/runs/{long.id}?from=5000&step=5000"
        wait = outlast.interrupts()[0].id
        reads: dict[str, Callable[[], object]] = {
            "runs": lambda: outlast.runs(limit=50),
            "needs": lambda: outlast.interrupts(),
            "run": lambda: outlast.events(long.id, limit=100),
            "step": lambda: outlast.events(long.id, limit=100),
            "item": lambda: outlast.interrupt(wait),
            "queues": lambda: outlast.queues(),
            "audit": lambda: outlast.all_events(after=0, limit=1000),
            "handoffs": lambda: outlast.handoff.list(limit=50),
        }
        state = ServerState(ServerSettings(home=home, works=False))
        pages = {
            "needs": page(state, "/", "needs.html"),
            "runs": page(state, "/runs", "runs.html"),
            "run": page(state, f"/runs/{long.id}", "run.html", run_id=long.id),
            "step": page(state, chosen, "run.html", run_id=long.id),
            "item": page(state, f"/inbox/{wait}", "item.html", interrupt_id=wait),
            "queues": page(state, "/queues", "queues.html"),
            "audit": page(state, "/audit", "audit.html"),
            "handoffs": page(state, "/handoffs", "handoffs.html"),
        }
        for name, work in pages.items():
            took, read = median_ms(work, rounds), median_ms(reads[name], rounds)
            print(f"{name:8} {took:7.1f} ms, {took / max(read, 0.001):6.1f} times one read of its rows ({read:.2f} ms)")
        state.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 15))
