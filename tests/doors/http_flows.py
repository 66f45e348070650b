"""Flows that the servers of the tests are given."""

import asyncio
import os
import time
from pathlib import Path

from outlast import AsyncRun, Run, effect, flow, step


@step
def double(number: int) -> int:
    return number * 2


@step
def until_there(path: str) -> str:
    """Goes on once a file is there with its text, or its run is asked to stop."""
    from outlast import current

    while not (os.path.exists(path) and (text := Path(path).read_text())):
        if current().stopping:
            raise RuntimeError("asked to stop")
        time.sleep(0.01)
    return text


@flow
def doubling(run: Run, number: int) -> int:
    return double(number)


@flow
def asking(run: Run, question: str) -> bool:
    answer = run.pause_for("approval", payload={"question": question})
    return bool(answer["approved"])


@flow
def telling(run: Run, path: str, events: int = 3) -> str:
    for number in range(events):
        run.emit("told", {"number": number})
    return until_there(path)


@step
def is_there(path: str, look: int) -> bool:
    time.sleep(0.02)
    return os.path.exists(path)


@flow
def patient(run: Run, path: str) -> int:
    looks = 0
    while not is_there(path, looks):
        looks += 1
    return looks


@step
def noted(text: str) -> str:
    return f"{text}, noted"


@flow
def noting(run: Run, text: str) -> str:
    """Has a receipt, an event and a wait, all of which say the same."""
    run.emit("noted", {"text": noted(text)})
    run.pause_for("approval", payload={"question": text})
    return text


@effect
def pay(path: str) -> str:
    with Path(path).open("a") as file:
        file.write("paid\n")
    return "paid"


@flow
def paying(run: Run, path: str) -> str:
    return pay(path)


@effect
def charge(amount: int) -> str:
    raise RuntimeError("the line went dead")


@flow
def charging(run: Run, amount: int) -> str:
    return charge(amount)


@step
def stumbling(path: str) -> str:
    return Path(path).read_text()


@flow
def stumble(run: Run, path: str) -> str:
    return stumbling(path)


@flow
def parenting(run: Run, question: str) -> bool:
    return run.spawn(asking, question).result()


@flow
def stumbling_below(run: Run, path: str) -> str:
    return run.spawn(stumble, path).result()


@step
async def until_written(path: str) -> str:
    while not (os.path.exists(path) and (text := Path(path).read_text())):
        await asyncio.sleep(0.01)
    return text


@flow
async def both(run: AsyncRun, path: str) -> str:
    answer, text = await asyncio.gather(run.pause_for("approval", {"question": "well?"}), until_written(path))
    return f"{text} {answer['approved']}"


@flow
def failing(run: Run) -> None:
    raise ValueError("no luck")
