"""Flows that write down what they do, in the folder that the environment names."""

import os
import time
from pathlib import Path

from outlast import KEY, NOT_DONE, Happened, Run, effect, flow, step

LASTS_SECONDS = 0.1  # of what is killed


def here() -> Path:
    return Path(os.environ["TEMPORAL_FOLDER"])


def write(line: str, file: str = "diary") -> None:
    handle = os.open(here() / file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def lines(file: str = "diary") -> list[str]:
    found = here() / file
    return found.read_text().splitlines() if found.exists() else []


def hold(what: str) -> None:
    """Stay here while a file says so: the test acts meanwhile."""
    while (here() / f"hold {what}").exists():
        time.sleep(0.005)


@step(crashes=1000)
def work(what: str) -> str:
    write(f"work {what}")
    hold(what)
    return what


@step
def flaky() -> str:
    write("flaky")
    if (here() / "fails").exists():
        raise ValueError("not yet")
    return "mended"


def has_sent(what: str, key: str) -> object:
    return Happened(what) if f"{what} {key}" in lines("sent") else NOT_DONE


@effect(confirm=has_sent)
def send(what: str, *, key: str = KEY) -> str:
    hold(f"before {what}")
    write(f"{what} {key}", "sent")
    hold(f"after {what}")
    return what


@effect
def send_blindly(what: str, *, key: str = KEY) -> str:
    write(f"{what} {key}", "sent")
    hold(f"after {what}")
    return what


@flow(name="plain")
def plain(run: Run, what: str = "a") -> str:
    return work(what)


@flow(name="asks")
def asks(run: Run, what: str = "a") -> str:
    work(f"before {what}")
    answer = run.pause_for("approval")
    return work(f"after {what}") if answer["approved"] else "declined"


@flow(name="hears")
def hears(run: Run) -> str:
    return str(run.wait_for("news")["n"])


@flow(name="sleeps")
def sleeps(run: Run) -> str:
    run.sleep("2h")
    return work("slept")


@flow(name="fails")
def fails(run: Run) -> str:
    return flaky()


@flow(name="limited", queue="limited", concurrency=1)
def limited(run: Run, number: int) -> int:
    write(f"in {number}")
    work(f"limited {number}")
    write(f"out {number}")
    return number


@flow(name="sends")
def sends(run: Run, what: str) -> str:
    return send(what)


@flow(name="sends_blindly")
def sends_blindly(run: Run, what: str) -> str:
    return send_blindly(what)


@flow(name="twice")
def twice(run: Run, what: str) -> str:
    work(f"first {what}")
    return work(f"second {what}")


@step(crashes=1000)
def slow_work(what: str) -> str:
    write(f"work {what}")
    time.sleep(LASTS_SECONDS)
    return what


@effect(confirm=has_sent)
def slow_send(what: str, *, key: str = KEY) -> str:
    time.sleep(LASTS_SECONDS)
    write(f"{what} {key}", "sent")
    time.sleep(LASTS_SECONDS)
    return what


@flow(name="mixed")
def mixed(run: Run, number: int, parts: int) -> str:
    """A step, a wait, an effect, some times: what the random rounds have. They last, so that kills meet them."""
    for part in range(parts):
        slow_work(f"{number}.{part}")
        run.pause_for("approval")
        slow_send(f"mixed {number}.{part}")
    return "done"
