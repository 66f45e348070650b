"""Child runs: spawned once, found again on replay, finished before their parent is."""

import asyncio
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast import AsyncRun, Run, effect, flow, step

from ..kit.place import KNOBS, Place, ran, reach


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
    children = [run for run in place.outlast.runs() if run.parent]
    assert [run.parent for run in children] == [outcome.run_id] * 2
    assert {run.status for run in place.outlast.runs()} == {"succeeded"}


@every_mix
@pytest.mark.parametrize("point", ["joined", "worked b", "working b"])
def test_a_parent_that_died_finds_its_children_again(place: Place, body: Any, kind: Any, point: str) -> None:
    KNOBS["child"] = kind
    place.crash(body, at=point)
    assert place.run(body).result == ["A", "B"]
    assert len(place.outlast.runs()) == 3
    assert {run.status for run in place.outlast.runs()} == {"succeeded"}
    assert place.count("work a") <= 2  # more than once only if it died before its receipt
    assert place.outlast.verify().ok


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
    assert (place.outlast.interrupts(), place.count("send a"), place.count("send b")) == ([], 1, 1)


def settle(place: Place) -> None:
    for wait in place.outlast.interrupts():
        if wait.type == "in_doubt":
            place.outlast.answer(wait.id, {"choice": "skip", "result": "by hand", "why": "seen"})


@pytest.mark.parametrize("body", [parent, parent_async], ids=lambda flow: flow.__name__)
def test_a_parent_whose_child_still_waits_goes_on_waiting(place: Place, body: Any) -> None:
    KNOBS["child"] = child_sends
    place.run(body)
    assert place.run(body).status == "waiting"
    assert {wait.type for wait in place.outlast.interrupts()} == {"child", "in_doubt"}


def test_aborting_a_parent_aborts_its_children(place: Place) -> None:
    KNOBS["child"] = child_sends
    outcome = place.run(parent)
    place.outlast.abort(outcome.run_id, why="no use")
    assert {run.status for run in place.outlast.runs()} == {"aborted"}


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
    assert {run.status for run in place.outlast.runs()} == {"succeeded"}


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
    assert len(place.outlast.runs()) == 4


@flow
def equal_children(run: Run) -> int:
    ids = {run.spawn(child, "a").run_id for _ in range(3)}
    reach("spawned")
    return len(ids)


def test_equal_spawns_are_told_apart_by_order(place: Place) -> None:
    place.crash(equal_children, at="spawned")
    before = len(place.outlast.runs())
    assert place.run(equal_children).result == 3
    assert len(place.outlast.runs()) == before == 4


# -- a child's outcome is an outcome for its parent ----------------------------------------------------


class Oddity(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, first: object, second: object) -> None:
        super().__init__(f"odd {first}")
        self.both = (first, second)


@dataclass
class Report:
    title: str
    made: datetime


MADE = datetime(2024, 5, 6, tzinfo=UTC)


@flow
def child_fails(run: Run) -> str:
    ran("child")
    raise KNOBS["trouble"]


@flow
def child_reports(run: Run, size: int) -> Report:
    return Report("x" * size, MADE)


@flow
async def child_reports_async(run: AsyncRun, size: int) -> Report:
    return Report("x" * size, MADE)


@flow
def catches_child(run: Run) -> str:
    try:
        found = run.spawn(child_fails).result()
    except Exception as error:
        found = f"caught {type(error).__name__}: {error}"
    work("after")
    reach("went on")
    return found


@flow
async def catches_child_async(run: AsyncRun) -> str:
    try:
        found = await run.spawn(child_fails)
    except Exception as error:
        found = f"caught {type(error).__name__}: {error}"
    await run.step(work, "after")
    reach("went on")
    return found


both_catch = pytest.mark.parametrize("body", [catches_child, catches_child_async], ids=lambda flow: flow.__name__)


@both_catch
def test_a_parent_that_handles_its_childs_failure_succeeds(place: Place, body: Any) -> None:
    KNOBS["trouble"] = ValueError("no")
    outcome = place.run(body)
    assert (outcome.status, outcome.result) == ("succeeded", "caught ValueError: no")


@both_catch
@pytest.mark.parametrize("point", ["went on", "working after"])
def test_a_childs_failure_that_its_parent_caught_is_final(place: Place, body: Any, point: str) -> None:
    KNOBS["trouble"] = ValueError("no")
    place.crash(body, at=point)
    KNOBS["trouble"] = ValueError("something else")
    assert place.run(body).result == "caught ValueError: no"
    assert place.count("child") == 1
    assert place.outlast.verify().ok


@both_catch
def test_a_childs_failure_that_cannot_be_made_again_is_told_the_same_way_both_times(place: Place, body: Any) -> None:
    KNOBS["trouble"] = Oddity(object(), object())
    live = place.run(body, task="live").result
    place.crash(body, at="went on", task="replayed")
    again = place.run(body, task="replayed").result
    told = [text.partition(" failed: ") for text in (live, again)]
    assert told[0][2] == told[1][2] != ""
    assert all(text.startswith("caught RunFailed: run ") for text in (live, again))


@flow
def wraps_child(run: Run) -> str:
    try:
        return run.spawn(child_fails).result()
    except ValueError as error:
        raise RuntimeError("the child is to blame") from error


def test_a_childs_failure_that_ended_its_parents_run_is_tried_again(place: Place) -> None:
    KNOBS["trouble"] = ValueError("no")
    assert place.run(wraps_child).status == "failed"
    KNOBS["trouble"] = ValueError("still no")
    outcome = place.run(wraps_child)
    assert (outcome.status, str(outcome.exception.__cause__)) == ("failed", "still no")
    assert place.count("child") == 2
    assert len(place.outlast.runs()) == 2


@flow
def fails_later(run: Run) -> str:
    try:
        run.spawn(child_fails).result()
    except ValueError:
        ran("handled")
    return work("b")


def test_a_childs_failure_stays_handled_when_something_else_ends_the_run(place: Place) -> None:
    KNOBS.update(trouble=ValueError("no"), bad="b")
    assert place.run(fails_later).status == "failed"
    del KNOBS["bad"]
    assert place.run(fails_later).result == "B"
    assert place.count("child") == 1


@flow
def reads_report(run: Run, size: int) -> str:
    found = run.spawn(KNOBS["child"], size).result()
    reach("read")
    return f"{type(found).__name__} {len(found.title)} {found.made == MADE}"


@flow
async def reads_report_async(run: AsyncRun, size: int) -> str:
    found = await run.spawn(KNOBS["child"], size)
    reach("read")
    return f"{type(found).__name__} {len(found.title)} {found.made == MADE}"


@pytest.mark.parametrize("size", [3, 50_000])
@pytest.mark.parametrize("body", [reads_report, reads_report_async], ids=lambda flow: flow.__name__)
@pytest.mark.parametrize("kind", [child_reports, child_reports_async], ids=lambda flow: flow.__name__)
def test_a_childs_result_is_of_its_type_live_and_on_replay(place: Place, body: Any, kind: Any, size: int) -> None:
    KNOBS["child"] = kind
    told = f"Report {size} True"
    assert place.run(body, size, task="live").result == told
    place.crash(body, size, at="read", task="replayed")
    assert place.run(body, size, task="replayed").result == told
    assert place.outlast.verify().ok


@flow
def reads_late(run: Run, size: int) -> str:
    child = run.spawn(child_reports, size)
    child.wait()
    reach("ended")
    return type(child.result()).__name__


def test_a_child_that_ended_before_its_parent_asked_gives_its_type(place: Place) -> None:
    place.crash(reads_late, 3, at="ended")
    assert place.run(reads_late, 3).result == "Report"


@flow
def asks_twice(run: Run) -> list[str]:
    child = run.spawn(child_fails)
    told = []
    for _ in range(2):
        try:
            child.result()
        except ValueError as error:
            told.append(str(error))
    reach("asked")
    return told


def test_a_child_gives_the_same_outcome_as_often_as_it_is_asked(place: Place) -> None:
    KNOBS["trouble"] = ValueError("no")
    place.crash(asks_twice, at="asked")
    assert place.run(asks_twice).result == ["no", "no"]
    assert place.count("child") == 1


@step
def held_up() -> str:
    assert KNOBS["go on"].wait(20)
    return "late"


@flow
def child_is_late(run: Run) -> str:
    return held_up()


async def child_result(child: Any) -> str:
    return str(await child)


@flow
async def gives_up(run: AsyncRun) -> list[str]:
    child = run.spawn(child_is_late)
    told = []
    try:
        told.append(await asyncio.wait_for(child_result(child), 0.01))
    except TimeoutError:
        told.append("too late")
    KNOBS["go on"].set()
    told.append(await child)
    reach("told")
    return told


def test_a_flow_that_gave_up_waiting_for_its_child_does_so_again_on_replay(place: Place) -> None:
    KNOBS["go on"] = threading.Event()
    place.crash(gives_up, at="told")
    KNOBS["go on"].set()
    assert place.run(gives_up).result == ["too late", "late"]
    assert place.outlast.verify().ok


@flow
async def one_fails_beside_a_child(run: AsyncRun) -> str:
    async def fails() -> str:
        return str(await run.step(work, "b"))

    async with asyncio.TaskGroup() as group:
        child = group.create_task(child_result(run.spawn(child_is_late)))
        group.create_task(fails())
    return child.result()


def test_a_child_whose_parent_gave_up_because_it_failed_is_awaited_again(place: Place) -> None:
    KNOBS.update({"go on": threading.Event(), "bad": "b"})
    done = threading.Thread(target=lambda: (until_failed(place), KNOBS["go on"].set()), daemon=True)
    done.start()
    assert place.run(one_fails_beside_a_child).status == "failed"
    done.join(20)
    del KNOBS["bad"]
    assert place.run(one_fails_beside_a_child).result == "late"


def until_failed(place: Place) -> None:
    """Until the step has failed: only then may the child end."""
    deadline = time.monotonic() + 20
    while place.count("work b") == 0 and time.monotonic() < deadline:
        threading.Event().wait(0.001)


@step
def stops_everything(outlast: str) -> str:
    KNOBS["outlast"].stop()
    return "stopped"


@flow
def child_is_stopped(run: Run) -> list[str]:
    return [stops_everything("now"), work("b")]


@flow
def parent_of_stopped(run: Run) -> list[str]:
    return run.spawn(child_is_stopped).result()


@flow
async def parent_of_stopped_async(run: AsyncRun) -> list[str]:
    return await run.spawn(child_is_stopped)


@pytest.mark.parametrize("body", [parent_of_stopped, parent_of_stopped_async], ids=lambda flow: flow.__name__)
def test_a_parent_that_is_stopped_with_its_child_is_interrupted_like_it(place: Place, body: Any) -> None:
    KNOBS["outlast"] = place.outlast
    assert place.run(body).status == "interrupted"
    assert {run.status for run in place.outlast.runs()} == {"interrupted"}
    place.reopen()
    assert place.run(body).result == ["stopped", "B"]
