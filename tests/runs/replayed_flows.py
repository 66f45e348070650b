"""Flows of every shape, each of which reports its progress from its steps, and does otherwise when KNOBS say so.

`other` is read by every body: what it does then is a divergence, and must be found as one.
"""

import asyncio
from typing import Any

from outlast import NOT_DONE, AsyncRun, Run, current, effect, flow, step

from ..kit.place import KNOBS, ran, reach


def other() -> bool:
    return bool(KNOBS.get("other"))


def progress(text: str) -> None:
    """What a step says on its way, more than once, also under a name that the body uses."""
    for share in (1, 2):
        current().emit("progress", {"text": text, "share": share})
    current().emit("phase", text, kind="fact")


@step
def fetch(text: str) -> str:
    ran(f"fetch {text}")
    progress(text)
    reach(f"fetching {text}")
    return text.upper()


@step(retries=2)
def shaky(text: str) -> str:
    progress(text)
    if current().attempt < 3:
        raise ConnectionError("not yet")
    return text


@step
def fail(text: str) -> str:
    progress(text)
    raise ValueError(f"no {text}")


@step
async def look(text: str) -> str:
    progress(text)
    await asyncio.sleep(0)
    reach(f"looking {text}")
    return text


@step
def saves(text: str) -> str:
    progress(text)
    saved = current().workspace.save(f"{text}.md", f"about {text}", summary="From a step")
    current().state["saved"] = saved.ref
    return saved.ref


def nothing_happened(text: str) -> Any:
    return NOT_DONE


@effect(confirm=nothing_happened)
def send(text: str) -> str:
    progress(text)
    reach("sending")
    return f"sent {text}"


@effect
def unsure(text: str) -> str:
    progress(text)
    raise RuntimeError("lost")


# -- plain -------------------------------------------------------------------------------------------


@flow
def says(run: Run) -> str:
    run.emit("progress", 1)
    found = fetch("a") + shaky("b")
    run.emit("progress", 3 if other() else 2)
    return found + send("c")


@flow
def says_too_much(run: Run) -> str:
    found = fetch("a")
    run.emit("progress", 1 if other() else "y" * 100_000)
    return found


@flow
def maps(run: Run) -> list[str]:
    return run.map(fetch, ["x", "z" if other() else "y"], concurrency=2)


@flow
def branches(run: Run) -> str:
    with run.branch("left"):
        left = fetch("a")
    with run.branch("wrong" if other() else "right"):
        return left + fetch("a")


@flow
def kid(run: Run, text: str) -> str:
    return fetch(text)


@flow
def spawns(run: Run) -> str:
    first = run.spawn(kid, "one")
    return fetch("beside") + first.result() + (run.spawn(kid, "two").result() if other() else "")


@flow
def states(run: Run) -> str:
    run.state["here"] = 2 if other() else 1
    return fetch("a")


@flow
def phases(run: Run) -> str:
    run.phase = "reading"
    found = fetch("a")
    run.phase = "wondering" if other() else "writing"
    return found


@flow
def stores(run: Run) -> str:
    ref = saves("other" if other() else "kelp")
    draft = run.workspace.save("draft.md", "a draft")
    noted = run.workspace.record("decision", "Kelp it is", refs=[draft.ref, ref])
    run.checkpoint("drafted", summary="A draft.", refs=[draft.ref])
    handoff = run.handoff("half done", "go on with the draft", next_action="review the draft")
    return f"{draft.text()} {noted.id} {handoff.revision}"


@flow
def pins(run: Run) -> str:
    found = fetch("a")
    run.checkpoint("other" if other() else "read", summary="Read.")
    return found


@flow
def hands_over(run: Run) -> int:
    fetch("a")
    return 0 if other() else run.handoff("half done", "go on with b", next_action="do b").revision


@flow
def rests(run: Run) -> str:
    found = fetch("a")
    run.sleep(0.01)
    if other():
        run.sleep(0.02)
    return found


@flow
def told(run: Run) -> list[str]:
    given = [str(run.now()), str(run.random()), str(run.uuid())]
    return [*given, fetch(given[0]), str(run.uuid()) if other() else ""]


@flow
def catches(run: Run) -> str:
    try:
        fail("luck")
    except ValueError as error:
        return fetch(str(error)) if not other() else "nothing"
    return "none"


# -- that end otherwise ------------------------------------------------------------------------------


@flow
def fails(run: Run) -> str:
    run.state["seen"] = fetch("a")
    return fetch("mended") if other() else fail("luck")


@flow
def stops(run: Run) -> str:
    found = fetch("b" if other() else "a")
    if "stop" in KNOBS:
        KNOBS.pop("stop")()
    return found + fetch("c")


@flow
def dies(run: Run) -> str:
    found = fetch("b" if other() else "a")
    run.now()
    fetch("deadly")
    return send(found)


@flow
def asks(run: Run) -> str:
    found = fetch("a")
    run.emit("asking", found)
    answer = run.pause_for("approval", {"found": found, "other": other()})
    return send("b") if answer["approved"] else "declined"


@flow
def listens(run: Run) -> str:
    fetch("a")
    return str(run.wait_for("other" if other() else "news"))


@flow
def sleeps_long(run: Run) -> str:
    fetch("a")
    if not other():
        run.sleep("2h")
    return fetch("b")


@flow
def doubts(run: Run) -> str:
    return fetch("b" if other() else "a") + unsure("b")


@flow
def waits_for_a_child(run: Run) -> str:
    first = "" if other() else fetch("a")
    return first + run.spawn(asks).result()


# -- async -------------------------------------------------------------------------------------------


@flow
async def gathers(run: AsyncRun) -> list[str]:
    async def two(text: str) -> str:
        return await look(text) + await run.step(fetch, text)

    async with asyncio.TaskGroup() as group:
        third = group.create_task(look("wrong" if other() else "c"))
    return [*await asyncio.gather(two("a"), two("b")), third.result(), *await run.map(look, ["x", "y"])]


@flow
async def asks_beside(run: AsyncRun) -> str:
    """One branch waits for a person while another works on."""

    async def approval() -> bool:
        await look("before asking")
        answer = await run.pause_for("approval", {"n": 2 if other() else 1})
        return bool(answer["approved"])

    async def work() -> str:
        return await look("one") + await run.step(fetch, "two") + await run.effect(send, "three")

    yes, done = await asyncio.gather(approval(), work())
    return done if yes else "declined"


@flow
async def async_child(run: AsyncRun) -> str:
    child = run.spawn(kid, "one")
    return await look("wrong" if other() else "beside") + await child
