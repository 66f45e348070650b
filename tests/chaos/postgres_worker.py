"""A worker on a home in PostgreSQL, in a process of its own: `postgres_worker.py URL FOLDER FLOWS.py`; until TERM."""

import sys
import threading
from pathlib import Path

from outlast import Outlast, Settings
from outlast.home.place import FoundHome
from outlast.python.named_flows import flows_in

SETTINGS = Settings(lease_seconds=2.0, beat_seconds=0.5, crashes_before_asking=1000)


def main(url: str, folder: str, flows: str) -> None:
    with (
        Outlast(FoundHome(Path(folder), database=url), settings=SETTINGS) as outlast,
        outlast.signals() as signals,
        outlast.worker(*flows_in(flows).values(), concurrency=16, drain=2.0),
    ):
        over = threading.Event()
        while not signals.first:
            over.wait(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
