"""A database server, a wire before it, and workers: all of which may be stopped, cut and killed, by a seeded choice."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree

from ..kit.postgres import Server, new_folder
from ..kit.wire import Wire
from . import postgres_flows

HERE = Path(__file__).parent
LEASE_SECONDS = 2.0  # of the workers


class PostgresWorld:
    """What happens to it is counted in `happened`."""

    def __init__(self, server: Server, wire: Wire, folder: Path, seed: int) -> None:
        self.server, self.wire, self.folder, self.luck = server, wire, folder, random.Random(seed)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.happened: Counter[str] = Counter()

    def begin_worker(self) -> None:
        words = [str(HERE / "postgres_worker.py"), self.wire.url(), str(self.folder / "home"), postgres_flows.__file__]
        environment = os.environ | {"CHAOS_FOLDER": str(self.folder)}
        with open(self.folder / "worker.log", "ab") as log:
            self.workers.append(subprocess.Popen([sys.executable, *words], env=environment, stderr=log))

    def kill_worker(self) -> None:
        one = self.workers.pop(self.luck.randrange(len(self.workers)))
        one.kill()
        one.wait()
        self.begin_worker()
        self.happened["workers killed"] += 1

    def supervise(self) -> None:
        """A worker that ended by itself is started again, as whoever keeps workers does."""
        for one in [each for each in self.workers if each.poll() is not None]:
            self.workers.remove(one)
            self.begin_worker()
            self.happened["workers that gave up"] += 1

    def stop_worker(self, until: Callable[[], object]) -> None:
        """Stop one past its lease, until others have what it had; then it goes on, and finds that it may not."""
        one = self.luck.choice(self.workers)
        one.send_signal(signal.SIGSTOP)
        try:
            until()
        finally:
            one.send_signal(signal.SIGCONT)
        self.happened["workers stopped"] += 1

    def restart(self, *, away_seconds: float) -> None:
        """The server ends all sessions and goes, or crashes; after a while it is there again."""
        how = self.luck.choice((signal.SIGINT, signal.SIGQUIT))
        self.server.stop(how)
        time.sleep(away_seconds)
        self.server.start()
        self.happened["restarts" if how == signal.SIGINT else "crashes of the server"] += 1

    def cut(self) -> None:
        """The next thing that is asked, or its answer, is lost with its connection."""
        self.wire.cut = self.luck.choice(("before", "after", "after"))

    def close(self) -> None:
        for one in self.workers:
            one.send_signal(signal.SIGCONT)
            one.kill()
            one.wait()


@contextmanager
def a_postgres_world(folder: Path, seed: int) -> Iterator[PostgresWorld]:
    place = new_folder()
    server = Server(place)
    wire = Wire(place)
    world = PostgresWorld(server, wire, folder, seed)
    try:
        yield world
    finally:
        world.close()
        wire.close()
        with suppress(ProcessLookupError):
            server.stop(signal.SIGQUIT)
        rmtree(place, ignore_errors=True)
