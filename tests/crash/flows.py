"""Flows of every kind that the crash tests kill. What they do to the world outside is a line in a file."""

import asyncio
import os
from pathlib import Path

from outlast import KEY, NOT_DONE, AsyncRun, Happened, NotDone, Run, current, effect, flow, step


def show(world: str, line: str) -> None:
    """Do something that cannot be taken back, in one write that no kill can tear."""
    handle = os.open(world, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def shown(world: str) -> list[str]:
    path = Path(world)
    return path.read_text().splitlines() if path.exists() else []


def was_charged(world: str, amount: int, key: str) -> object:
    return Happened(f"charged {amount}") if key in shown(world) else NOT_DONE


@step
def add(left: int, right: int) -> int:
    return left + right


@effect(confirm=was_charged)
def charge(world: str, amount: int, *, key: str = KEY) -> str:
    show(world, key)
    return f"charged {amount}"


@effect
def post(world: str, text: str, *, key: str = KEY) -> str:
    show(world, key)
    return f"posted {text}"


# -- one of each -------------------------------------------------------------------------------------


@flow
def plain(run: Run, first: int) -> int:
    total = first
    for number in range(3):
        total = add(total, number)
    return total


@flow
def probed(run: Run, world: str) -> list[str]:
    return [charge(world, 1), charge(world, 2), charge(world, 2)]


@flow
def unprobed(run: Run, world: str) -> str:
    add(1, 2)
    return post(world, "a") + post(world, "b")


@step(retries=2, backoff=0.01)
def fails_twice(number: int) -> int:
    if current().attempt < 3:
        raise ValueError(f"attempt {current().attempt}")
    return number


@effect(retries=1, backoff=0.01)
def says_not_done(world: str, *, key: str = KEY) -> str:
    if current().attempt == 1:
        raise NotDone("the door was closed")
    show(world, key)
    return "sent"


@effect(confirm=was_charged, retries=1, backoff=0.01)
def breaks_once(world: str, amount: int, *, key: str = KEY) -> str:
    if current().attempt == 1:
        raise ConnectionError("cut off before it was done")
    show(world, key)
    return f"charged {amount}"


@flow
def retried(run: Run, world: str) -> str:
    return f"{fails_twice(7)} {breaks_once(world, 3)}"


@flow
def not_done(run: Run, world: str) -> str:
    return says_not_done(world)


@step
def fill(letter: str) -> str:
    return letter * 40_000


@flow
def blobs(run: Run) -> str:
    return fill("a")[:20_000] + fill("b")[:20_000]


@step
def tell(world: str, word: str) -> str:
    show(world, word)
    return word


@step
def count(name: str) -> int:
    run = current()
    run.state[name] = run.state.get(name, 0) + 1
    return int(run.state[name])


@flow
def remembers(run: Run, world: str) -> list[object]:
    """Values that the world is told must be the same ones after any crash."""
    run.phase = "counting"
    run.state["body"] = 1
    tell(world, f"uuid {run.uuid()}")
    run.emit("half-way", {"counted": count("steps")})
    tell(world, f"random {run.random()}")
    tell(world, f"now {run.now()}")
    run.state["body"] += 1
    count("steps")
    return [run.state["body"], run.state["steps"], len(set(shown(world)))]


@step
def square(number: int) -> int:
    return number * number


@flow
def maps(run: Run, world: str) -> list[int]:
    name = str(run.uuid())
    run.map(show_pair, [[world, name], [world, name]], concurrency=2)
    return [*run.map(square, [1, 2, 3], concurrency=3), len(set(shown(world)))]


@step
def show_pair(pair: list[str]) -> None:
    show(pair[0], pair[1])


@flow
def branches(run: Run, world: str) -> list[str]:
    found = []
    for name in ("left", "right"):
        with run.branch(name):
            add(1, 1)
            found.append(charge(world, 1))
    return found


@step
async def double(number: int) -> int:
    await asyncio.sleep(0)
    return number * 2


@effect(confirm=was_charged)
async def charge_slowly(world: str, amount: int, *, key: str = KEY) -> str:
    await asyncio.sleep(0)
    show(world, key)
    return f"charged {amount}"


@flow
async def gathers(run: AsyncRun, world: str) -> list[object]:
    async def lane(number: int) -> object:
        doubled = await double(number)
        return await charge_slowly(world, doubled)

    return list(await asyncio.gather(lane(1), lane(2), run.map(square, [3, 4], concurrency=2)))


@step
def refuses(number: int) -> int:
    raise ValueError(f"not {number}")


@flow
def catches(run: Run) -> list[object]:
    try:
        refuses(1)
    except ValueError as error:
        caught = str(error)
    return [caught, add(1, 1)]


@flow
def sleeps(run: Run) -> int:
    run.sleep("20ms")
    add(1, 1)
    run.sleep("2h")
    return add(2, 2)


@flow
def child(run: Run, world: str, number: int) -> str:
    return f"{add(number, 1)} {charge(world, number)}"


@flow
def spawns(run: Run, world: str) -> list[str]:
    first = run.spawn(child, world, 1)
    add(1, 1)
    return [first.result(), run.spawn(child, world, 2).result()]
