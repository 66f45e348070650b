"""A database server, a wire before it, and workers: all of which may be stopped, cut and killed, by a seeded choice."""

import os
import random
import signal
import subprocess
import sys
import threading
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
        self.server, self.wire, self.folder, self.seed, self.luck = server, wire, folder, seed, random.Random(seed)
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

    def stop_worker(self, until: Callable[[], object], luck: random.Random | None = None) -> None:
        """Stop one past its lease, until others have what it had; then it goes on, and finds that it may not."""
        one = (luck or self.luck).choice(list(self.workers))
        one.send_signal(signal.SIGSTOP)
        try:
            until()
        finally:
            one.send_signal(signal.SIGCONT)
        self.happened["workers stopped"] += 1

    def restart(self, *, away_seconds: float, luck: random.Random | None = None) -> None:
        """The server ends all sessions and goes, or crashes; after a while it is there again."""
        how = (luck or self.luck).choice((signal.SIGINT, signal.SIGQUIT))
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


class Repeated:
    """Something that happens again and again, in a thread of its own: nothing else that happens delays it.

    `quiet` is held while it happens; whoever takes it has a time without.
    """

    def __init__(self, happen: Callable[[random.Random], None], seconds: tuple[float, float], seed: str) -> None:
        self._happen, self._seconds, self._luck = happen, seconds, random.Random(seed)
        self.quiet, self._over, self._error = threading.Lock(), threading.Event(), list[BaseException]()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def _live(self) -> None:
        try:
            while not self._over.wait(self._luck.uniform(*self._seconds)):
                with self.quiet:
                    self._happen(self._luck)
        except BaseException as error:
            self._error.append(error)

    def __enter__(self) -> "Repeated":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._error:
            raise self._error[0]


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
