"""A worker in a process of its own, which tests kill: `killed_worker.py HOME FLOWS.py [CLOCK]`; until TERM.

With a CLOCK its time is what stands in that file, eight bytes of microseconds, which the test moves.
"""

import mmap
import struct
import sys
import threading
from pathlib import Path
from typing import Any

from outlast import Outlast
from outlast.clock import SystemClock
from outlast.python.named_flows import flows_in


class FileClock(SystemClock):
    """Wall time out of a file; boot time is the machine's."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._shown = mmap.mmap(file.fileno(), 8)

    def now(self) -> int:
        return int(struct.unpack("q", self._shown[:8])[0])

    def set(self, at: int) -> None:
        self._shown[:8] = struct.pack("q", at)


def main(home: str, flows: str, clock: str = "") -> None:
    sys.path.insert(0, str(Path(flows).parent))
    found = list(flows_in(flows).values())
    given: dict[str, Any] = {"clock": FileClock(Path(clock))} if clock else {}
    with (
        Outlast(home, store_options={"synchronous": "OFF"}, **given) as outlast,
        outlast.signals() as signals,
        outlast.worker(*found, concurrency=4, drain=2.0),
    ):
        over = threading.Event()
        while not signals.first:
            over.wait(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
