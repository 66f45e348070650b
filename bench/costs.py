"""What a home in PostgreSQL costs its server: the figures of docs/postgresql-scale.md.

    python bench/costs.py [--runs 100]

A server of its own on the disk, with everything synced. Transactions are those that the server counts, CPU is that of
all its processes and of ours, log and room are what it says that it wrote.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import psycopg  # noqa: E402
from postgres import Server, a_server, cpu_of  # noqa: E402
from report import table  # noqa: E402
from waking import Place  # noqa: E402

from outlast import Outlast  # noqa: E402
from outlast.ledger.journal import Header, JournalEntry, Payload, entry  # noqa: E402
from outlast.runs.begin import decide, new_run  # noqa: E402
from outlast.runs.claim import RunClaim  # noqa: E402

STEPS, CHAINS, ROUNDS = 10, 64, 50
IDLE_SECONDS = 10.0
COUNTS = """SELECT xact_commit + xact_rollback, pg_current_wal_lsn() - '0/0'::pg_lsn,
  pg_database_size(datname) FROM pg_stat_database WHERE datname = 'costs'"""


class Spent(NamedTuple):
    """What was used up to now: transactions, bytes of log and of room, and seconds of CPU."""

    transactions: float
    log: float
    room: float
    server: float
    client: float


class Meter:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._look = psycopg.connect(server.url("postgres"), autocommit=True)

    def now(self) -> Spent:
        self._look.execute("SELECT pg_stat_force_next_flush()")
        time.sleep(10.5)  # what the server counts is told by its processes once they were idle for so long
        row = self._look.execute(COUNTS).fetchone()
        assert row is not None
        return Spent(*map(float, row), cpu_of(self._server), time.process_time())

    def connections(self) -> int:
        row = self._look.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = 'costs'").fetchone()
        assert row is not None
        return int(row[0])


def each(before: Spent, after: Spent, count: float) -> Spent:
    return Spent(*((late - early) / count for early, late in zip(before, after, strict=True)))


def queued(place: Place, meter: Meter, runs: int) -> str:
    commits, spent = [], []
    before = meter.now()
    for number in range(runs):
        commits.append(place.commit())
        began = time.monotonic_ns()
        place.queue.start(place.flows.steps, STEPS, task=f"run-{number}")
        spent.append((time.monotonic_ns() - began) / 1e6)
    used = each(before, meter.now(), runs)
    ratio = median(one / other for one, other in zip(spent, commits, strict=True))
    bare = 1  # the transaction of the commit beside it
    return (
        f"{used.transactions - bare:.1f} transactions, {used.server * 1e3:.1f} ms of the server's CPU (a bare commit"
        f" with it), {used.log / 1024:.1f} KB of log; {ratio:.1f} times as long as a bare commit"
    )


def carried_out(place: Place, meter: Meter, runs: int) -> str:
    before = meter.now()
    with place.worker():
        place.until(lambda: not (left := place.outlast.queues()) or left[0].ready == left[0].running == 0)
        used = each(before, meter.now(), runs)
    return (
        f"{used.transactions:.0f} transactions, {used.server * 1e3:.1f} ms of the server's CPU,"
        f" {used.log / 1024:.1f} KB of log, {used.room / 1024:.1f} KB of room"
    )


def together(place: Place, meter: Meter) -> str:
    """Entries of as many runs in one commit: what a process does for all that are ready."""
    store, caller = place.outlast._executor.home.store, place.outlast._executor.caller
    holds = []
    for number in range(CHAINS):
        claimed = decide(caller, new_run(caller, place.flows.steps.spec, b"{}", task=f"chain-{number}"))
        assert isinstance(claimed, RunClaim)
        holds.append(claimed.hold)
    before = meter.now()
    for _ in range(ROUNDS):
        with store._writer._mutex:
            tickets = [store.put(hold, [_receipt()]) for hold in holds]
        for ticket in tickets:
            store.finish(ticket)
    used = each(before, meter.now(), ROUNDS)
    return (
        f"{used.transactions:.1f} transactions, {used.server * 1e3:.1f} ms of the server's CPU,"
        f" {used.client * 1e3:.1f} ms of the client's"
    )


def _receipt() -> JournalEntry:
    return entry(Header("step", "work", attempt=1, status="succeeded"), Payload(result="x" * 300))


def idle(place: Place, meter: Meter) -> str:
    """Of a worker alone on a home where nothing is under way."""
    place.outlast.close()
    words = [sys.executable, "-m", "outlast", "work", place.file, "--home", place.found.name]
    around = os.environ | {"OUTLAST_FOLDER": str(place.found.path)}
    nothing = subprocess.DEVNULL
    with subprocess.Popen(words, cwd=place.folder, env=around, stdout=nothing, stderr=nothing) as worker:
        time.sleep(5)
        before, began = meter.now(), time.monotonic()
        time.sleep(IDLE_SECONDS)
        used = each(before, meter.now(), time.monotonic() - began)
        connections = meter.connections()
        worker.kill()
    place.outlast = Outlast(place.found)
    return (
        f"{used.transactions:.0f} transactions a second, {used.server * 100:.2f} % of a core of the server,"
        f" {connections} connections"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    with a_server() as server, tempfile.TemporaryDirectory(prefix="outlast-costs-", dir="/var/tmp") as folder:
        place, meter = Place(Path(folder, "home"), server.new_database("costs")), Meter(server)
        place.outlast.run(place.flows.steps, STEPS, task="first").unwrap()
        found = {
            "a run put into its queue": queued(place, meter, options.runs),
            f"a run of {STEPS} steps carried out by a worker, with its claim, end and looks": carried_out(
                place, meter, options.runs
            ),
            "a worker with nothing to do": idle(place, meter),
            f"{CHAINS} entries of {CHAINS} runs in one commit": together(place, meter),  # whose runs stay under way
        }
        print(table(["what", "figure"], [[what, figure] for what, figure in found.items()]))
        print(f"\nload: {', '.join(f'{one:.1f}' for one in os.getloadavg())}")


if __name__ == "__main__":
    main()
