"""Peers on a server of PostgreSQL: `on_postgres.py KIND URL RUNS STEPS` says how long they took, in all and in CPU.

First one run alone, step after step, then so many runs at once; each with what its maker says for that.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

sys.path[0] = __file__.rpartition("/peers/")[0]  # not this folder, whose files are called as what they import

from work import result_of  # noqa: E402

CLIENTS = 16  # connections, where a peer has one for each of its workers
Together = Callable[[int, int], None]  # runs, steps


def langgraph(url: str) -> Together:
    """A graph whose one node loops, with its PostgreSQL saver and `durability="sync"`; a pool of connections."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from peers.langgraph import graph_of, settings, start
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

    how: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    saver = PostgresSaver(ConnectionPool(url, min_size=CLIENTS, max_size=CLIENTS, kwargs=how))
    saver.setup()
    graph, threads = graph_of(saver), count()

    def together(runs: int, steps: int) -> None:
        with ThreadPoolExecutor(min(runs, CLIENTS)) as pool:
            names = [f"t{next(threads)}" for _ in range(runs)]
            list(pool.map(lambda name: graph.invoke(start(steps), **settings(name, steps)), names))

    return together


def dbos(url: str) -> Together:
    """A workflow of steps on its system database."""
    from dbos import DBOS
    from peers.dbos import sequence

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()

    def together(runs: int, steps: int) -> None:
        for handle in [DBOS.start_workflow(sequence, steps) for _ in range(runs)]:
            handle.get_result()

    return together


def absurd(url: str) -> Together:
    """Tasks of steps; a worker has one connection, so there are so many workers in threads."""
    import psycopg
    from absurd_sdk import Absurd
    from absurdctl import BUNDLED_SCHEMA_SQL

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BUNDLED_SCHEMA_SQL)
    clients = [Absurd(url) for _ in range(CLIENTS)]
    clients[0].create_queue()
    for client in clients:
        client.register_task("sequence")(_sequence)

    def together(runs: int, steps: int) -> None:
        for _ in range(runs):
            clients[0].spawn("sequence", {"steps": steps})
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda client: client.work_batch(batch_size=-(-runs // CLIENTS)), clients))

    return together


def _sequence(params: Any, context: Any) -> int:
    for each in range(params["steps"]):
        context.step("work", lambda each=each: result_of(each))
    return int(params["steps"])


def timed(call: Callable[[], None], steps: int) -> dict[str, float]:
    """Microseconds for each step: that passed, and of this process's CPU. What was loaded before is looked through."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return {
        "wall": (time.perf_counter() - wall) / steps * 1e6,
        "cpu": (time.process_time() - cpu) / steps * 1e6,
    }


def main() -> None:
    kind, url, runs, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    together = {"langgraph": langgraph, "dbos": dbos, "absurd": absurd}[kind](url)
    together(1, 5)
    one = timed(lambda: together(1, steps), steps)
    many = timed(lambda: together(runs, steps), runs * steps)
    print(json.dumps({"one": one, "many": many}), flush=True)
    sys.stdout.flush()
    __import__("os")._exit(0)  # whatever threads it has


if __name__ == "__main__":
    main()
