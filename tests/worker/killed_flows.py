"""Flows whose steps hold locks that the kernel frees with their process: what a limit allows, measured outside."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outlast import KEY, NOT_DONE, Happened, Run, effect, flow, step

HERE = Path(os.environ.get("KILLED_FOLDER", "."))


@contextmanager
def one_of(name: str, most: int) -> Iterator[None]:
    """Hold one of so many locks; where all are taken, the limit is exceeded, and that is written down."""
    for number in range(most):
        handle = os.open(HERE / f"{name}.{number}.lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        try:
            yield
        finally:
            os.close(handle)
        return
    note("exceeded", f"{name} in {os.getpid()}")
    yield


def note(file: str, line: str) -> None:
    handle = os.open(HERE / file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


@step(limit="api", crashes=1000)
def call(number: int, part: int) -> int:
    with one_of("api", 2):
        note("diary", f"{number} {part}")
        time.sleep(0.01)
    return number


@flow(name="limited", queue="kills", concurrency=3, per="lane")
def limited(run: Run, number: int, lane: int) -> int:
    with one_of(f"lane{lane}", 3):
        return sum(call(number, part) for part in range(2))


@flow(name="fired")
def fired(run: Run, name: str = "") -> str:
    note("diary", run.task)
    return run.task


# -- what waits ----------------------------------------------------------------------------------------


def has_sent(what: str, key: str) -> object:
    sent = HERE / "sent"
    lines = sent.read_text().splitlines() if sent.exists() else []
    return Happened(what) if f"{what} {key}" in lines else NOT_DONE


@effect(confirm=has_sent)
def send(what: str, key: str = KEY) -> str:
    note("sent", f"{what} {key}")
    return what


@flow(name="asked", queue="waits")
def asked(run: Run, number: int) -> str:
    answer = run.pause_for("approval")
    return send(f"asked {number} {answer['approved']}")


@flow(name="heard", queue="waits")
def heard(run: Run, number: int) -> str:
    return send(f"heard {number} {run.wait_for(f'news {number}')['n']}")


@flow(name="timed", queue="waits")
def timed(run: Run, number: int) -> str:
    told = run.wait_for(f"never {number}", deadline=0.3, default={"n": 0})
    return send(f"timed {number} {told['n']}")


@flow(name="late", queue="waits", deadline=0.5)
def late(run: Run, number: int) -> str:
    run.wait_for(f"never {number}")
    return "never"
