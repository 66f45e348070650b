"""A worker of Temporal's that is killed: `killed_worker.py HOME ADDRESS`. It ends when its input does."""

import faulthandler
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.temporal.support import FLOWS

from outlast import Outlast
from outlast.adapters.temporal import TemporalSettings, TemporalWorker


def main(home: str, address: str) -> None:
    faulthandler.register(signal.SIGUSR1)  # where it stands, for one that does not end
    settings = TemporalSettings(address=address, heartbeat_seconds=2.0)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    outlast = Outlast(home, store_options={"synchronous": "OFF"})
    with outlast, TemporalWorker(outlast, FLOWS, settings, drain_seconds=5.0):
        print("ready", flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
        over.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
