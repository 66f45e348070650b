"""How long the server takes for pages of the console, beside one indexed read of the same rows.

`python bench/console.py HOME [ROUNDS]`: of a home with many runs, many waits and a long run. CPU time, the median.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from outlast import Outlast
from outlast.doors.console import render, screens
from outlast.doors.console.access import Visit
from outlast.doors.http.exchange import Exchange
from outlast.doors.http.state import ServerSettings, ServerState


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
    with Outlast(home) as outlast:
        long = max(outlast.runs(task="long"), key=lambda run: run.head)
        wait = outlast.interrupts()[0].id
        reads: dict[str, Callable[[], object]] = {
            "runs": lambda: outlast.runs(limit=50),
            "needs": lambda: outlast.interrupts(),
            "run": lambda: outlast.events(long.id, limit=100),
            "item": lambda: outlast.interrupt(wait),
        }
        state = ServerState(ServerSettings(home=home, works=False))
        pages = {
            "needs": page(state, "/", "needs.html"),
            "runs": page(state, "/runs", "runs.html"),
            "run": page(state, f"/runs/{long.id}", "run.html", run_id=long.id),
            "item": page(state, f"/inbox/{wait}", "item.html", interrupt_id=wait),
        }
        for name, work in pages.items():
            took, read = median_ms(work, rounds), median_ms(reads[name], rounds)
            print(f"{name:6} {took:7.1f} ms, {took / max(read, 0.001):6.1f} times one read of its rows ({read:.2f} ms)")
        state.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 15))
