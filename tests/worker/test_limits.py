"""A limit that steps share holds over all runs and processes, and nobody waits for a slot of the dead."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from outlast import KEY, AsyncOutlast, AsyncRun, Outlast, Run, effect, flow, flow_file, step
from outlast.errors import LimitNotFound, NameInvalid, StepInvalid, StepTimedOut

from ..kit.place import KNOBS, Place
from .support import until

HELD: list[str] = []  # the calls that are under way
MOST: list[int] = []


def held(what: str) -> str:
    HELD.append(what)
    MOST.append(len(HELD))
    try:
        if what in KNOBS:
            KNOBS[what]()
        return what
    finally:
        HELD.remove(what)


@pytest.fixture(autouse=True)
def _nothing_held() -> None:
    HELD.clear()
    MOST.clear()


@step(limit="api")
def asks_api(what: str) -> str:
    return held(what)


@step(limit="api")
async def asks_api_async(what: str) -> str:
    HELD.append(what)
    MOST.append(len(HELD))
    await asyncio.sleep(0)
    HELD.remove(what)
    return what


@effect(limit="api")
def sends(what: str, key: str = KEY) -> str:
    return held(what)


@step(limit="api", timeout=0.05)
def slow(what: str) -> str:
    return held(what)


@flow
def uses(run: Run, what: str) -> str:
    return asks_api(what)


@flow
def maps(run: Run, count: int) -> list[str]:
    return list(run.map(asks_api, [str(one) for one in range(count)]))


@flow
async def many(run: AsyncRun, count: int) -> list[str]:
    return list(await asyncio.gather(*(asks_api_async(str(one)) for one in range(count))))


@flow
def effects(run: Run, what: str) -> str:
    return sends(what)


@flow
def gives_up(run: Run, what: str) -> str:
    try:
        return slow(what)
    except StepTimedOut:
        return "too slow"


def gate(name: str) -> tuple[threading.Event, threading.Event]:
    began, go = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        assert go.wait(60)

    KNOBS[name] = wait
    return began, go


def test_no_more_steps_are_under_way_than_a_limit_says(place: Place) -> None:
    place.outlast.set_limit("api", concurrency=2)
    started = [place.outlast.start(uses, f"run {number}") for number in range(6)]
    assert [each.outcome().result for each in started] == [f"run {number}" for number in range(6)]
    assert max(MOST) <= 2
    assert place.outlast.limits()[0].held == ()


def test_a_step_waits_while_another_run_holds_the_slot_and_says_so(place: Place) -> None:
    place.outlast.set_limit("api", concurrency=1)
    began, go = gate("first")
    first = place.outlast.start(uses, "first")
    assert began.wait(60)
    second = place.outlast.start(uses, "second")
    (found,) = until(lambda: [each for each in place.outlast.limits() if each.waiting], "waiting")
    assert [(use.run_id, use.step) for use in found.held] == [(first.run_id, "asks_api")]
    assert [(use.run_id, use.step) for use in found.waiting] == [(second.run_id, "asks_api")]
    assert MOST == [1]
    go.set()
    assert second.outcome().result == "second"
    assert (max(MOST), place.outlast.limits()[0].waiting) == (1, ())


def test_the_items_of_a_map_and_the_branches_of_an_async_flow_share_it(place: Place) -> None:
    place.outlast.set_limit("api", concurrency=2)
    assert place.run(maps, 5).result == ["0", "1", "2", "3", "4"]

    async def on_a_loop() -> None:
        async with AsyncOutlast(place.home) as outlast:
            outcome = await outlast.run(many, 6)
            assert outcome.result == [str(one) for one in range(6)]

    asyncio.run(on_a_loop())
    assert max(MOST) <= 2


def test_no_more_begin_in_any_window_than_the_rate_says(place: Place) -> None:
    place.outlast.set_limit("api", rate="2/m")
    assert [place.run(uses, what).result for what in ("a", "b")] == ["a", "b"]
    third = place.outlast.start(uses, "c")
    until(lambda: place.outlast.limits()[0].waiting, "waiting")
    place.clock.advance(59)
    until(lambda: place.outlast.limits()[0].waiting, "waiting still")
    assert len(MOST) == 2
    place.clock.advance(2)
    assert third.outcome().result == "c"


def test_the_slot_of_a_killed_process_is_free_at_once_on_the_same_machine(place: Place, tmp_path: Path) -> None:
    place.outlast.set_limit("api", concurrency=1)
    code = (
        "import os, sys; from outlast import Outlast, Run, flow, step\n"
        "@step(limit='api')\ndef dies() -> None: os.kill(os.getpid(), 9)\n"
        "@flow\ndef dying(run: Run) -> None: dies()\n"
        "if __name__ == '__main__': Outlast(sys.argv[1]).run(dying)\n"
    )
    (tmp_path / "dying.py").write_text(code)
    assert subprocess.run([sys.executable, tmp_path / "dying.py", place.home], check=False).returncode == -9
    assert place.outlast.limits()[0].held == ()
    assert place.run(uses, "after").result == "after"


def test_a_limit_that_nobody_has_set_refuses_the_step_and_a_resume_goes_on(place: Place) -> None:
    outcome = place.run(uses, "a")
    assert (outcome.status, outcome.error["code"]) == ("failed", "limit_not_found")
    assert "outlast limit set api" in outcome.error["message"]
    place.outlast.set_limit("api")
    assert place.outlast.resume(outcome.run_id).result == "a"


def test_an_effect_whose_limit_is_not_set_did_not_happen(place: Place) -> None:
    outcome = place.run(effects, "mail")
    assert (outcome.status, MOST) == ("failed", [])
    place.outlast.set_limit("api", concurrency=1)
    assert (place.outlast.resume(outcome.run_id).result, MOST) == ("mail", [1])


def test_a_body_that_timed_out_keeps_its_slot_until_it_ends(place: Place) -> None:
    place.outlast.set_limit("api", concurrency=1)
    began, go = gate("long")
    assert place.run(gives_up, "long").result == "too slow"
    assert began.is_set()
    assert len(place.outlast.limits()[0].held) == 1
    go.set()
    until(lambda: not place.outlast.limits()[0].held, "a free slot")


def test_a_run_that_waits_for_a_slot_stops_when_it_is_asked_to(place: Place) -> None:
    place.outlast.set_limit("api", concurrency=1)
    began, go = gate("first")
    first = place.outlast.start(uses, "first")
    assert began.wait(60)
    second = place.outlast.start(uses, "second")
    until(lambda: place.outlast.limits()[0].waiting, "waiting")
    place.outlast.pause(second.run_id)
    assert second.outcome().status == "interrupted"
    assert place.outlast.limits()[0].waiting == ()
    go.set()
    assert first.outcome().result == "first"
    assert place.outlast.resume(second.run_id).result == "second"


def test_other_numbers_count_from_the_next_step_on_and_one_can_be_removed(place: Place) -> None:
    place.outlast.set_limit("api", concurrency=1, rate="3/h")
    assert place.outlast.set_limit("api", concurrency=2).rate == ""
    assert place.outlast.remove_limit("api").concurrency == 2
    assert place.outlast.limits() == []
    with pytest.raises(LimitNotFound):
        place.outlast.remove_limit("api")


@pytest.mark.parametrize(
    "wrong", [{"concurrency": -1}, {"concurrency": 0}, {"rate": "many"}, {"rate": "0/m"}, {"concurrency": True}]
)
def test_numbers_that_cannot_be_are_refused(place: Place, wrong: dict[str, object]) -> None:
    with pytest.raises(NameInvalid):
        place.outlast.set_limit("api", **wrong)  # type: ignore[arg-type]
    with pytest.raises(StepInvalid):
        step(limit=4)(held)  # type: ignore[call-overload]


def test_a_flow_file_names_a_limit_too(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "asks.yaml"
    file.write_text("flow: asks\nsteps:\n  - id: call\n    run: echo hello\n    limit: api\n")
    with Outlast(place.home) as outlast:
        refused = outlast.run(flow_file(file))
        assert (refused.status, refused.error["code"]) == ("failed", "limit_not_found")
        outlast.set_limit("api", concurrency=1)
        assert outlast.resume(refused.run_id).status == "succeeded"


def test_waiting_costs_one_look_however_many_wait_in_a_process(place: Place) -> None:
    place.outlast.set_limit("api", concurrency=1)
    began, go = gate("first")
    first = place.outlast.start(uses, "first")
    assert began.wait(60)
    others = [place.outlast.start(uses, f"other {number}") for number in range(20)]
    until(lambda: place.outlast.limits()[0].waiting, "waiting")
    assert len(place.outlast.limits()[0].waiting) == 1  # the first in line; the others have not looked
    go.set()
    assert [each.outcome().status for each in (first, *others)] == ["succeeded"] * 21
    assert max(MOST) == 1
