"""What the tests of workers share: waiting for something that must come, and flows to work on."""

import time
from collections.abc import Callable
from typing import TypeVar

from outlast import AsyncRun, Run, current, flow, step
from outlast.python.decorators import Flow

from ..kit.place import KNOBS, ran, reach

T = TypeVar("T")
Spoken = tuple[Flow[..., str], Flow[..., str]]  # one flow: by its module, and by its file
PATIENCE_SECONDS = 100.0  # more than a run that was refused is left alone


def until(found: Callable[[], T], what: str = "it") -> T:
    """What is given once it is true; fails when that never comes."""
    limit = time.monotonic() + PATIENCE_SECONDS
    while not (now := found()):
        assert time.monotonic() < limit, f"{what} did not happen"
        time.sleep(0.005)
    return now


@step
def work(what: str) -> str:
    ran(f"work {what}")
    reach(f"work {what}")
    if what in KNOBS:
        KNOBS[what]()
    return what


@flow
def asks(run: Run, what: str = "a") -> str:
    work(f"before {what}")
    answer = run.pause_for("approval")
    return work(f"after {what}") if answer["approved"] else "declined"


@flow
def works(run: Run, what: str = "a") -> list[str]:
    return [work(what), work(f"{what} again")]


@flow
def sleeps(run: Run) -> str:
    run.sleep("2h")
    return work("slept")


@flow
def hears(run: Run) -> str:
    return str(run.wait_for("news")["n"])


@flow(retries=1, backoff="30s", jitter=0)
def fails_first(run: Run) -> str:
    return work("flaky")


@flow
def parent(run: Run) -> str:
    return str(run.spawn(asks, "child").result())


@flow
async def on_a_loop(run: AsyncRun) -> str:
    answer = await run.pause_for("approval")
    KNOBS["loop"]()
    return str(answer["approved"])


__all__ = [
    "Spoken",
    "asks",
    "current",
    "fails_first",
    "hears",
    "on_a_loop",
    "parent",
    "sleeps",
    "until",
    "work",
    "works",
]
