"""Flows of Python that wait for the file `go`, and programs that use the library: `flows.py NAME WORDS`."""

import asyncio
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast import AsyncRun, Outlast, Run, current, effect, flow, step
from outlast.home.settings import Settings
from outlast.python.named_flows import find_flow

SHORT = Settings(grace_seconds=0.5, patience_seconds=0.5)


def diary(line: str) -> None:
    with Path("diary").open("a") as file:
        file.write(f"{line}\n")


def work(name: str) -> str:
    diary(name)
    try:
        while not Path("go").exists():
            time.sleep(0.02)
    except BaseException as error:
        diary(f"{name} {type(error).__name__}")
        raise
    diary(f"{name} done")
    return name


async def work_async(name: str) -> str:
    diary(name)
    try:
        while not Path("go").exists():
            await asyncio.sleep(0.02)
    except BaseException as error:
        diary(f"{name} {type(error).__name__}")
        raise
    diary(f"{name} done")
    return name


@step
def one() -> str:
    return work("one")


@step(timeout=50)
def two() -> str:
    return work("two")


@step(name="one")
async def one_async() -> str:
    return await work_async("one")


@effect
def publish() -> str:
    return work("publish")


@effect(confirm=lambda key: work("probe"))
def ask() -> str:
    diary("ask")
    raise RuntimeError("the line broke")


@step(retries=5, backoff=60)
def flaky() -> str:
    diary("try")
    if not Path("go").exists():
        raise ValueError("not yet")
    return "done"


@step
def number(at: int) -> int:
    return at


@flow
def plain(run: Run) -> list[str]:
    return [one(), two()]


@flow
async def mixed(run: AsyncRun) -> list[str]:
    return [await one_async(), await run.step(two)]


@flow
async def threaded(run: AsyncRun) -> list[str]:
    return [await run.step(one)]


@flow
def awaits(run: Run) -> str:
    return run.step(one_async)


@flow
def only_timed(run: Run) -> str:
    return two()


@flow
async def blocks(run: AsyncRun) -> str:
    return work("one")  # blocks the loop


@flow
def fails(run: Run) -> str:
    return flaky()


@flow
async def fails_async(run: AsyncRun) -> str:
    return await run.step(flaky)


@flow
def between(run: Run) -> list[int]:
    first = number(1)
    work("between")
    return [first, number(2)]


@flow
async def between_async(run: AsyncRun) -> list[int]:
    first = await run.step(number, 1)
    await work_async("between")
    return [first, await run.step(number, 2)]


@flow
async def beside(run: AsyncRun) -> list[str]:
    found = list(await asyncio.gather(run.step(one_async), run.step(two)))
    return [*found, await run.step(one_async)]


@flow
def publishes(run: Run) -> str:
    return publish()


@step
def calls() -> None:
    """A step that leaves the work to a process of its own."""
    subprocess.run(["sh", "work.sh", "one"], check=True)


@flow
def calling(run: Run) -> None:
    calls()
    two()


@flow
async def calling_async(run: AsyncRun) -> None:
    await run.step(calls)
    await run.step(two)


@flow
def swallows(run: Run) -> str:
    """A flow that does not let itself be stopped, and says that all is well."""
    one()
    try:
        two()
    except BaseException:
        diary("swallowed")
    return "fine"


@step(crashes=1)
def fragile() -> str:
    return work("fragile")


@flow
def fragile_flow(run: Run) -> str:
    return fragile()


@flow
def above(run: Run) -> list[str]:
    return run.spawn(plain).result()


@flow
def publishes_first(run: Run) -> list[str]:
    return [publish(), two()]


@flow
def maps(run: Run) -> list[str]:
    return run.map(work_step, ["a", "b"], concurrency=2)


@step
def work_step(name: str) -> str:
    return work(name)


@flow
def quick(run: Run) -> int:
    return sum(number(at) for at in range(300))


@flow
async def quick_async(run: AsyncRun) -> int:
    return sum([await run.step(number, at) for at in range(300)])


@step
def forks() -> int | None:
    """A process that is forked from a step can be terminated as ever."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    child.terminate()
    child.join(20)
    return child.exitcode


@flow
def forking(run: Run) -> int | None:
    return forks()


@flow
def asks(run: Run) -> str:
    return ask()


@flow
def raises(run: Run) -> str:
    raise ValueError("no luck")


@dataclass
class Topic:
    """An input that asks the program to end while the run is claimed and not live yet."""

    name: str

    def __post_init__(self) -> None:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            os.kill(os.getpid(), signal.SIGTERM)


@step
def until_stopping() -> str:
    until = time.monotonic() + 20
    while not current().stopping and time.monotonic() < until:
        time.sleep(0.005)
    return "seen"


@flow
def early(run: Run, topic: Topic) -> list[str]:
    return [until_stopping(), run.step(number, 1)]


# -- programs ----------------------------------------------------------------------------------------


def handlers() -> tuple[object, object]:
    return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)


def short(name: str) -> None:
    """A run whose grace and patience are short."""
    with Outlast(settings=SHORT) as outlast:
        print(outlast.run(find_flow(name, ".outlast")).status)


def library(name: str) -> None:
    """A run, and what was raised when it had ended: the handlers are as before."""
    before = handlers()
    with Outlast() as outlast:
        try:
            outlast.run(find_flow(name, ".outlast"))
        except BaseException as error:
            print(type(error).__name__, handlers() == before, outlast.runs(limit=1)[0].status, flush=True)
            raise
        print("ended", handlers() == before, outlast.runs(limit=1)[0].status)


def too_early() -> None:
    with Outlast() as outlast:
        outlast.run(early, Topic("kelp"))


def block(where: str) -> None:
    """`with outlast.open(…)`: the block is the body."""
    before = handlers()
    with Outlast() as outlast:
        try:
            with outlast.open("script") as run:
                assert handlers() != before
                run.step(one)
                run.step(two)
        finally:
            print(handlers() == before, outlast.runs(limit=1)[0].status, flush=True)


def own_handler(name: str) -> None:
    """A program with a handler of its own, which stays in charge."""
    with Outlast() as outlast:
        mine: Callable[..., object] = lambda *_: (diary("mine"), outlast.stop())  # noqa: E731
        signal.signal(signal.SIGTERM, mine)
        outcome = outlast.run(find_flow(name, ".outlast"))
        print(outcome.status, signal.getsignal(signal.SIGTERM) is mine)


def in_thread(name: str) -> None:
    """In threads nothing is touched; `outlast.stop()` comes from the main one, with `now` if there is such a file."""
    before = handlers()
    with Outlast(settings=SHORT) as outlast:
        found = find_flow(name, ".outlast")
        started = [outlast.start(found, task=f"task {at}") for at in range(2)]
        own: list[str] = []
        thread = threading.Thread(target=lambda: own.append(outlast.run(found, task="own thread").status))
        thread.start()
        while Path("diary").exists() is False or len(Path("diary").read_text().split()) < 3:
            time.sleep(0.01)
        same = handlers() == before
        outlast.stop(now=Path("now").exists())
        diary("stopped")
        thread.join()
        print(same, *(one.outcome(50).status for one in started), *own)


def several(name: str) -> None:
    """Two runs of one process."""
    with Outlast() as outlast:
        started = [outlast.start(find_flow(name, ".outlast"), task=f"task {at}") for at in range(2)]
        print(*(one.outcome(50).status for one in started))


def from_another(name: str) -> None:
    """`outlast.stop()` from another thread; the run is in the main one."""
    with Outlast() as outlast:

        def stop() -> None:
            while not Path("diary").exists():
                time.sleep(0.01)
            outlast.stop()
            Path("go").touch()

        threading.Thread(target=stop).start()
        print(outlast.run(find_flow(name, ".outlast")).status)


def raising(name: str) -> None:
    before = handlers()
    with Outlast() as outlast:
        print(outlast.run(find_flow(name, ".outlast")).status, handlers() == before)
    os.kill(os.getpid(), signal.SIGINT)  # while nothing runs it acts as usual


def often(name: str, seed: str) -> None:
    """Two signals at random moments into a run of many quick steps, thirty times, each time going on with it."""
    chance = random.Random(seed)
    found = find_flow(name, ".outlast")
    interrupted = 0
    with Outlast() as outlast:
        for _ in range(30):
            try:
                _run_under_fire(outlast, found, [chance.random() * 0.05, chance.random() * 0.003])
            except KeyboardInterrupt:
                interrupted += 1
        outcome = outlast.run(found)
        runs = outlast.runs(limit=100)
        print(interrupted > 0, outcome.result, {run.status for run in runs}, outlast.verify().ok)
        for run in runs:
            done = [receipt.result for receipt in outlast.receipts(run.id) if receipt.status == "succeeded"]
            print(sorted(done) == list(range(300)))


def _run_under_fire(outlast: Outlast, found: Any, pauses: list[float]) -> None:
    over = threading.Event()
    me = threading.main_thread().ident
    assert me is not None

    def shoot() -> None:
        for pause in pauses:
            if not over.wait(pause) and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                signal.pthread_kill(me, signal.SIGINT)

    shooter = threading.Thread(target=shoot)
    try:
        shooter.start()
        outlast.run(found)
    finally:
        over.set()
        shooter.join()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
