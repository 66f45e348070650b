"""What people call a call: where it stands and its step's name. What only tells branches apart is nowhere shown."""

import asyncio
import re
from typing import Any

from outlast import AsyncRun, Run, effect, flow, step
from outlast.runs.call import Call, known_scope

from ..kit.place import KNOBS, Place

INTERNAL = re.compile(r"~\w+:[0-9a-f]{8}|~\d+/|~\w+/")


@step
async def look(number: int) -> int:
    return number


@effect
def send(text: str) -> str:
    if KNOBS.get("break"):
        raise RuntimeError("the line broke")
    return text


async def asked(run: AsyncRun, number: int) -> Any:
    return await run.pause_for("approval", {"question": f"part {number}?"})


async def sent(run: AsyncRun, number: int) -> str:
    return await run.effect(send, f"text {await look(number)}")


@flow
async def branching(run: AsyncRun) -> None:
    await asyncio.gather(asked(run, 1), asked(run, 2), sent(run, 1), sent(run, 2))


@flow
def threads(run: Run) -> list[str]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return [pool.submit(run.bind(send), text).result() for text in ("a", "b")]


def everything(place: Place) -> str:
    """All that people are told of the run."""
    outlast, run = place.outlast, place.run_id
    told: list[object] = [(each.label, each.envelope.done) for each in outlast.receipts(run)]
    told += [(event.step, event.body) for event in outlast.events(run)]
    told += [(wait.step, wait.says) for wait in outlast.interrupts(run)]
    told += [(each.name, each.note) for each in outlast.timeline(run)]
    if not outlast.get(run).finished:
        told += [outlast.plan(run)]
    return "\n".join(map(repr, told))


def test_no_scope_that_only_tells_branches_apart_is_shown(place: Place) -> None:
    KNOBS["break"] = True
    outcome = place.run(branching)
    assert outcome.status == "waiting"
    assert INTERNAL.findall(everything(place)) == []
    labels = sorted({receipt.label for receipt in place.receipts()})
    assert labels == ["look", "look~2", "send", "send~2"]


def test_each_of_equal_calls_in_branches_can_be_named_and_decided_on(place: Place) -> None:
    KNOBS["break"] = True
    place.run(branching)
    doubts = {wait.step: wait.inputs for wait in place.outlast.interrupts(place.run_id) if wait.type == "in_doubt"}
    assert sorted(doubts) == ["send", "send~2"]
    assert len(set(doubts.values())) == 2
    place.outlast.skip(place.run_id, "send~2", result="done by hand", why="I saw it")
    KNOBS["break"] = False
    place.outlast.retry(place.run_id, "send")
    for wait in place.outlast.interrupts(place.run_id):
        if wait.type == "approval":
            place.outlast.answer(wait.id, {"approved": True})
    assert place.outlast.resume(place.run_id).status == "succeeded"
    skipped = [receipt for receipt in place.receipts("send") if receipt.status == "skipped"]
    assert [(receipt.label, receipt.result) for receipt in skipped] == [("send~2", "done by hand")]


def test_the_lanes_of_threads_are_not_shown_either(place: Place) -> None:
    assert place.run(threads).status == "succeeded"
    assert INTERNAL.findall(everything(place)) == []
    assert [receipt.label for receipt in place.receipts()] == ["send", "send~2"]


def test_a_scope_that_somebody_named_stays() -> None:
    assert known_scope("~draft:f3353d29/chapter/~2/draft[0]/") == "chapter/draft[0]/"
    assert Call("~approval:f3353d29/", "approval", "", 0).path == "approval"
