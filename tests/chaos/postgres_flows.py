"""What is worked on while the database comes and goes: values that nobody can guess, told once, and effects outside."""

import os
import time
from pathlib import Path

from outlast import KEY, NOT_DONE, Happened, Run, effect, flow, step
from outlast.ids import random_id

HERE = Path(os.environ.get("CHAOS_FOLDER", "."))
EVERY = 5  # so many steps, an effect


def note(file: str, line: str) -> None:
    """One line, whole, whatever happens to this process."""
    handle = os.open(HERE / file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def lines(file: str) -> list[str]:
    return (HERE / file).read_text().splitlines() if (HERE / file).exists() else []


@step(crashes=1000)
def drawn(seconds: float) -> str:
    time.sleep(seconds)
    return random_id()


def was_sent(what: str, key: str) -> object:
    return Happened(what) if f"{what} {key}" in lines("sent") else NOT_DONE


@effect(confirm=was_sent)
def send(what: str, key: str = KEY) -> str:
    note("sent", f"{what} {key}")
    return what


@flow(name="chaos", queue="chaos")
def chaos(run: Run, number: int, steps: int, seconds: float) -> list[str]:
    found = []
    for each in range(steps):
        value = drawn(seconds)
        note("told", f"{number} {each} {value}")
        found.append(value)
        if each % EVERY == EVERY - 1:
            send(f"{number}.{each}")
    note("ended", str(number))
    return found
