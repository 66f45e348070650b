"""Two machines and a server of PostgreSQL, each in network, process and name spaces of its own: they share nothing but
a wire, which is cut. What the one had goes on at the other after its lease, and nothing is done twice.

Needs to be root, and Debian's iproute2 and util-linux. `make chaos`.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast

from ..abuse.figures import figures
from ..kit.postgres import NOBODY, SETTINGS, Server, new_folder
from ..worker.support import until
from . import postgres_flows
from .postgres_flows import chaos, lines
from .postgres_world import HERE, PostgresWorld
from .test_postgres_chaos import STEPS, all_over, check, ended, home_of

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]
RUNS = 24


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Net:
    """Name spaces of a server and of two machines, with a wire from each machine to the server."""

    def __init__(self) -> None:
        self.server = f"outlast-{os.getpid()}-s"
        self.machines = {name: f"outlast-{os.getpid()}-{name}" for name in ("a", "b")}

    def make(self) -> None:
        ip("netns", "add", self.server)
        for number, space in enumerate(self.machines.values(), 1):
            ip("netns", "add", space)
            here, there = f"to{number}", "wire"
            ip("-n", self.server, "link", "add", here, "type", "veth", "peer", "name", there, "netns", space)
            for where, name, last in ((self.server, here, 1), (space, there, 2)):
                ip("-n", where, "addr", "add", f"10.203.{number}.{last}/30", "dev", name)
                ip("-n", where, "link", "set", name, "up")

    def url(self, machine: str) -> str:
        number = [*self.machines].index(machine) + 1
        return f"postgresql://outlast@10.203.{number}.1/postgres"

    def wire(self, machine: str, state: str) -> None:
        """`down`: nothing arrives from there any more, and nobody is told."""
        ip("-n", self.machines[machine], "link", "set", "wire", state)

    def remove(self) -> None:
        for space in (self.server, *self.machines.values()):
            with suppress(subprocess.CalledProcessError):
                ip("netns", "del", space)


class FarServer(Server):
    """A server in a space of its own; whoever watches has its socket."""

    def __init__(self, folder: Path, space: str) -> None:
        self._space = space
        super().__init__(folder, tuple(each for each in SETTINGS if not each.startswith("listen")))

    def start(self) -> None:
        with open(self.folder / "data" / "pg_hba.conf", "a") as rules:
            rules.write("host all all 10.203.0.0/16 trust\n")
        options = [part for setting in (*self._settings, "listen_addresses=*") for part in ("-c", setting)]
        who = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        words = [self._bin / "postgres", "-D", self.folder / "data", "-k", self.folder, *options]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                ["ip", "netns", "exec", self._space, *who, *words], stdout=log, stderr=log, cwd=self.folder
            )
        until(self._is_up, "the server")


@pytest.fixture
def net(crash_long: bool) -> Iterator[Net]:
    if not crash_long:
        pytest.skip("make chaos")
    made = Net()
    try:
        made.make()
    except (OSError, subprocess.CalledProcessError) as error:
        made.remove()
        pytest.skip(f"NO NETWORK NAME SPACES HERE, SO NOTHING IS SHOWN OF TWO MACHINES: {error}")
    yield made
    made.remove()


@pytest.fixture
def far(net: Net) -> Iterator[FarServer]:
    folder = new_folder()
    server = FarServer(folder, net.server)
    yield server
    server.stop(signal.SIGQUIT)
    shutil.rmtree(folder, ignore_errors=True)


def begin_on(net: Net, world: PostgresWorld, machine: str) -> None:
    """A worker on a machine: another name, and no process of elsewhere is seen there."""
    worker = [str(HERE / "postgres_worker.py"), net.url(machine), str(world.folder / machine), postgres_flows.__file__]
    apart = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
    named = ["sh", "-c", f'hostname machine-{machine}; exec "$@"', "sh", sys.executable, *worker]
    words: list[Any] = ["ip", "netns", "exec", net.machines[machine], *apart, *named]
    with open(world.folder / f"{machine}.log", "ab") as log:
        environment = os.environ | {"CHAOS_FOLDER": str(world.folder)}
        world.workers.append(subprocess.Popen(words, env=environment, stderr=log))


def is_at_work(outlast: Outlast, machine: str) -> bool:
    return any(f"machine-{machine}" in worker.process and worker.runs for worker in outlast.workers())


def test_what_a_machine_had_that_is_cut_off_goes_on_elsewhere_and_nothing_is_done_twice(
    net: Net, far: FarServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_flows, "HERE", tmp_path)
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    print(f"two machines: CHAOS_SEED={seed}")
    world = PostgresWorld(far, None, tmp_path, seed)  # type: ignore[arg-type]  # no wire of ours is in between
    try:
        with Outlast(home_of(world)) as outlast:
            for number in range(RUNS):
                outlast.start(chaos, number, STEPS, 0.5, task=str(number))
            for machine in net.machines:
                begin_on(net, world, machine)
            until(lambda: len(lines("told")) > RUNS, "some steps")
            until(lambda: all(is_at_work(outlast, machine) for machine in net.machines), "both machines at work")
            net.wire("a", "down")
            cut_at, left = time.monotonic(), RUNS - ended()
            until(lambda: ended() == RUNS, "the end of all runs, without the machine that is cut off")
            took = time.monotonic() - cut_at
            net.wire("a", "up")
            outlast.start(chaos, RUNS, STEPS, 0.02, task=str(RUNS))
        until(lambda: ended() == RUNS + 1 and all_over(world), "the end of every run")
        check(world, RUNS + 1)
        figures("two_machines", seed=seed, runs=RUNS, left_at_cut=left, seconds_until_ended=round(took, 1))
    finally:
        world.close()
