"""Child runs: spawned once, found again on replay, finished before their parent is."""

import asyncio
from typing import Any

import pytest

from holdfast import AsyncRun, Run, effect, flow, step

from .place import KNOBS, Place, ran, reach


@step
def work(text: str) -> str:
    ran(f"work {text}")
    reach(f"working {text}")
    if KNOBS.get("bad") == text:
        raise ValueError(f"no {text}")
    return text.upper()


@effect
def send(text: str) -> str:
    ran(f"send {text}")
    if not KNOBS.get("smooth"):
        raise RuntimeError("what was that")
    return f"sent {text}"


@flow
def child(run: Run, text: str) -> str:
    found = work(text)
    reach(f"worked {text}")
    return found


@flow
async def child_async(run: AsyncRun, text: str) -> str:
    found = str(await run.step(work, text))
    reach(f"worked {text}")
    return found


@flow
def child_sends(run: Run, text: str) -> str:
    return send(text)


@flow
def parent(run: Run) -> list[str]:
    children = [run.spawn(KNOBS.get("child", child), text) for text in "ab"]
    found = [one.result() for one in children]
    reach("joined")
    return found


@flow
async def parent_async(run: AsyncRun) -> list[str]:
    children = [run.spawn(KNOBS.get("child", child), text) for text in "ab"]
    found = [await one for one in children]
    reach("joined")
    return found


every_mix = pytest.mark.parametrize(
    ("body", "kind"),
    [(body, kind) for body in (parent, parent_async) for kind in (child, child_async)],
    ids=lambda flow: flow.__name__,
)


@every_mix
def test_a_child_gives_its_result(place: Place, body: Any, kind: Any) -> None:
    KNOBS["child"] = kind
    outcome = place.run(body)
    assert outcome.result == ["A", "B"]
    children = [run for run in place.hold.runs() if run.parent]
    assert [run.parent for run in children] == [outcome.run_id] * 2
    assert {run.status for run in place.hold.runs()} == {"succeeded"}


@every_mix
@pytest.mark.parametrize("point", ["joined", "worked b", "working b"])
def test_a_parent_that_died_finds_its_children_again(place: Place, body: Any, kind: Any, point: str) -> None:
    KNOBS["child"] = kind
    place.crash(body, at=point)
    assert place.run(body).result == ["A", "B"]
    assert len(place.hold.runs()) == 3
    assert {run.status for run in place.hold.runs()} == {"succeeded"}
    assert place.count("work a") <= 2  # more than once only if it died before its receipt
    assert place.hold.verify().ok


@every_mix
def test_a_childs_failure_is_its_parents_and_is_tried_again(place: Place, body: Any, kind: Any) -> None:
    KNOBS.update(child=kind, bad="b")
    outcome = place.run(body)
    assert (outcome.status, str(outcome.exception)) == ("failed", "no b")
    del KNOBS["bad"]
    assert place.run(body).result == ["A", "B"]
    assert place.count("work a") == 1


@pytest.mark.parametrize("body", [parent, parent_async], ids=lambda flow: flow.__name__)
def test_a_parent_waits_while_its_child_does(place: Place, body: Any) -> None:
    KNOBS["child"] = child_sends
    outcome = place.run(body)
    assert outcome.status == "waiting"
    assert {wait.type for wait in outcome.interrupts} == {"child"}
    settle(place)
    assert place.run(body).result == ["by hand", "by hand"]
    assert (place.hold.interrupts(), place.count("send a"), place.count("send b")) == ([], 1, 1)


def settle(place: Place) -> None:
    for wait in place.hold.interrupts():
        if wait.type == "in_doubt":
            place.hold.answer(wait.id, {"choice": "skip", "result": "by hand", "why": "seen"})


@pytest.mark.parametrize("body", [parent, parent_async], ids=lambda flow: flow.__name__)
def test_a_parent_whose_child_still_waits_goes_on_waiting(place: Place, body: Any) -> None:
    KNOBS["child"] = child_sends
    place.run(body)
    assert place.run(body).status == "waiting"
    assert {wait.type for wait in place.hold.interrupts()} == {"child", "in_doubt"}


def test_aborting_a_parent_aborts_its_children(place: Place) -> None:
    KNOBS["child"] = child_sends
    outcome = place.run(parent)
    place.hold.abort(outcome.run_id, why="no use")
    assert {run.status for run in place.hold.runs()} == {"aborted"}


@flow
def forgets(run: Run) -> str:
    run.spawn(child, "a")
    return "done"


@flow
async def forgets_async(run: AsyncRun) -> str:
    run.spawn(child, "a")
    return "done"


@pytest.mark.parametrize("body", [forgets, forgets_async], ids=lambda flow: flow.__name__)
def test_a_child_that_nobody_asked_about_ends_before_its_parent(place: Place, body: Any) -> None:
    assert place.run(body).result == "done"
    assert {run.status for run in place.hold.runs()} == {"succeeded"}


@pytest.mark.parametrize("body", [forgets, forgets_async], ids=lambda flow: flow.__name__)
def test_a_parent_does_not_succeed_over_a_failed_child(place: Place, body: Any) -> None:
    KNOBS["bad"] = "a"
    assert place.run(body).status == "failed"
    del KNOBS["bad"]
    assert place.run(body).status == "succeeded"


@flow
def forgets_a_wait(run: Run) -> str:
    run.spawn(child_sends, "a")
    return "done"


@flow
async def forgets_a_wait_async(run: AsyncRun) -> str:
    run.spawn(child_sends, "a")
    return "done"


@pytest.mark.parametrize("body", [forgets_a_wait, forgets_a_wait_async], ids=lambda flow: flow.__name__)
def test_a_parent_does_not_succeed_over_a_child_that_waits(place: Place, body: Any) -> None:
    assert place.run(body).status == "waiting"
    settle(place)
    assert place.run(body).result == "done"


@flow
async def spawns_in_branches(run: AsyncRun) -> list[str]:
    async def one(text: str) -> str:
        return await run.spawn(child, text)

    return list(await asyncio.gather(one("a"), one("b"), one("a")))


def test_children_of_branches_are_runs_of_their_own(place: Place) -> None:
    assert place.run(spawns_in_branches).result == ["A", "B", "A"]
    assert len(place.hold.runs()) == 4


@flow
def equal_children(run: Run) -> int:
    ids = {run.spawn(child, "a").run_id for _ in range(3)}
    reach("spawned")
    return len(ids)


def test_equal_spawns_are_told_apart_by_order(place: Place) -> None:
    place.crash(equal_children, at="spawned")
    before = len(place.hold.runs())
    assert place.run(equal_children).result == 3
    assert len(place.hold.runs()) == before == 4
