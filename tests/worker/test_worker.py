"""A worker goes on with what can go on by itself, as soon as it can, and stops as a shutdown does."""

import asyncio
import threading
from typing import Any

import pytest

from outlast import AsyncOutlast, Outcome, Outlast, Settings
from outlast.errors import EmbeddedOnly, ValueRefused
from outlast.python.awaited import Started
from outlast.worker.worker import Worker, WorkNote

from ..kit import ledgers
from ..kit.place import KNOBS, Place
from ..ready import completed
from .support import asks, fails_first, hears, on_a_loop, parent, sleeps, until, works


def status(place: Place, run_id: str) -> str:
    return place.outlast.get(run_id).status


def done(place: Place, run_id: str, wanted: str = "succeeded") -> bool:
    return until(lambda: status(place, run_id) == wanted, f"{wanted} of run {run_id}")


def gate(name: str) -> tuple[threading.Event, threading.Event]:
    """A step called so says that it began, and waits until it is let go."""
    began, go = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        assert go.wait(60)

    KNOBS[name] = wait
    return began, go


# -- what it goes on with ------------------------------------------------------------------------------


def test_a_run_goes_on_when_it_is_answered(place: Place) -> None:
    outcome = place.run(asks)
    with place.outlast.worker():
        place.outlast.answer(outcome.interrupts[0].id, {"approved": True})
        done(place, outcome.run_id)
    assert place.count("work before a") == place.count("work after a") == 1


def test_a_run_goes_on_when_another_process_answers_it(place: Place) -> None:
    outcome = place.run(asks)
    code = (
        "import sys; from outlast import Outlast\n"
        "with Outlast(sys.argv[1]) as outlast: outlast.answer(sys.argv[2], {'approved': True})\n"
    )
    with place.outlast.worker():
        completed(("-c", code, str(place.home), outcome.interrupts[0].id), check=True)
        done(place, outcome.run_id)


def test_a_run_goes_on_when_its_signal_comes(place: Place) -> None:
    outcome = place.run(hears)
    with place.outlast.worker():
        place.outlast.signal("news", {"n": 7}, run_id=outcome.run_id)
        done(place, outcome.run_id)
    assert place.outlast.get(outcome.run_id).result == "7"


def test_a_run_goes_on_when_its_time_has_come(place: Place) -> None:
    outcome = place.run(sleeps)
    with place.outlast.worker():
        place.clock.advance(2 * 3600)
        done(place, outcome.run_id)


def test_a_parent_goes_on_when_its_child_is_answered(place: Place) -> None:
    outcome = place.run(parent)
    (wait,) = [wait for wait in place.outlast.interrupts() if wait.type == "approval"]
    with place.outlast.worker():
        place.outlast.answer(wait.id, {"approved": True})
        done(place, outcome.run_id)


def test_a_run_goes_on_whose_process_was_killed(place: Place) -> None:
    place.crash(works, at="work a again")
    with place.outlast.worker():
        done(place, place.run_id)
    assert (place.count("work a"), place.count("work a again")) == (1, 2)


def test_a_run_goes_on_that_a_shutdown_stopped_and_one_that_a_person_stopped_does_not(place: Place) -> None:
    runs = {}
    for by in ("shutdown", "person"):
        KNOBS[by] = lambda by=by: place.outlast.stop(by=by)
        runs[by] = place.run(works, by).run_id
        del KNOBS[by]
    with place.outlast.worker():
        done(place, runs["shutdown"])
    assert status(place, runs["person"]) == "interrupted"


def test_a_failed_run_that_is_to_be_tried_again_is_not_waited_for_in_place(place: Place) -> None:
    def fail() -> None:
        KNOBS.pop("flaky")
        raise ValueError("not yet")

    KNOBS["flaky"] = fail
    place.crash(fails_first, at="work flaky")
    with place.outlast.worker() as worker:
        done(place, place.run_id, "waiting")
        until(lambda: not worker.under_way)
        place.clock.advance(30)
        done(place, place.run_id)


# -- how much, and of what -----------------------------------------------------------------------------


def test_no_more_runs_go_on_at_once_than_there_is_room_for(place: Place) -> None:
    waits = [place.run(asks, name).interrupts[0] for name in ("a", "b", "c")]
    gates = [gate(f"after {name}") for name in ("a", "b", "c")]
    with place.outlast.worker(concurrency=2) as worker:
        for wait in waits:
            place.outlast.answer(wait.id, {"approved": True})
        until(lambda: sum(began.is_set() for began, _ in gates) == 2)
        assert len(worker.under_way) == 2
        for _, go in gates:
            go.set()
        for wait in waits:
            done(place, wait.run_id)


def test_only_runs_of_the_flows_that_are_given_go_on(place: Place) -> None:
    mine, other = place.run(asks), place.run(hears)
    place.outlast.signal("news", {"n": 1}, run_id=other.run_id)
    with place.outlast.worker(asks):
        place.outlast.answer(mine.interrupts[0].id, {"approved": True})
        done(place, mine.run_id)
    assert status(place, other.run_id) == "waiting"
    with place.outlast.worker():
        done(place, other.run_id)


def test_what_is_refused_is_told_once_and_keeps_nobody_waiting(place: Place) -> None:
    place.crash(works, "bad", at="work bad again")
    bad, good = place.run_id, place.run(asks)
    damage(place)
    told: list[WorkNote] = []
    with Worker([place.outlast], tell=told.append):
        place.outlast.answer(good.interrupts[0].id, {"approved": True})
        done(place, good.run_id)
        until(lambda: any(note.kind == "refused" for note in told))
        place.outlast.signal("nothing", {}, task="elsewhere")
    assert [note.run_id for note in told if note.kind == "refused"] == [bad]
    assert [note.status for note in told if note.kind == "ended"] == ["succeeded"]
    assert status(place, bad) == "crashed"


def damage(place: Place) -> None:
    """Change an entry of the first run."""
    change = "UPDATE journal SET payload = CAST('{}' AS BLOB) WHERE seq = 2 AND chain = 1"
    ledgers.change(place.home, change, rows=1)


@pytest.mark.parametrize("given", [{"concurrency": 0}, {"concurrency": True}, {"drain": "soon"}])
def test_what_cannot_be_is_refused(place: Place, given: dict[str, Any]) -> None:
    with pytest.raises(ValueRefused):
        place.outlast.worker(**given)


def test_a_client_has_no_worker() -> None:
    with Outlast("http://127.0.0.1:1") as client, pytest.raises(EmbeddedOnly):
        client.worker()


# -- how it stops --------------------------------------------------------------------------------------


def test_a_worker_that_stops_lets_steps_end_and_another_goes_on(place: Place) -> None:
    place.crash(works, at="work a")
    began, go = gate("a")
    with place.outlast.worker() as worker:
        assert began.wait(60)
        execution = place.outlast._executor.live.executions[place.run_id]
        threading.Thread(
            target=lambda: (until(lambda: execution.stopping, "that it is asked to stop"), go.set())
        ).start()
    assert (worker.under_way, status(place, place.run_id)) == ([], "interrupted")
    assert place.statuses("work")[-1] == "succeeded"
    with place.outlast.worker():
        done(place, place.run_id)
    assert (place.count("work a"), place.count("work a again")) == (2, 1)


def test_the_runs_of_the_application_go_on_when_its_worker_stops(place: Place) -> None:
    began, go = gate("mine")
    own = place.outlast.start(works, "mine")
    assert began.wait(60)
    with place.outlast.worker():
        pass
    go.set()
    assert own.outcome(60).status == "succeeded"


def test_what_does_not_stop_within_the_limit_is_left_behind_and_begins_nothing_more(place: Place) -> None:
    place.crash(works, at="work a")
    place.settings = Settings(patience_seconds=0.0)
    began, go = gate("a")
    with place.outlast.worker(drain=0) as worker:
        assert began.wait(60)
    assert worker.under_way == [place.run_id]
    go.set()
    until(lambda: not worker.under_way)
    assert (status(place, place.run_id), place.count("work a again")) == ("interrupted", 0)


# -- on an event loop ----------------------------------------------------------------------------------


def test_who_asks_to_be_told_of_a_run_just_as_it_ends_is_told_once() -> None:
    """A worker that hears twice of an end would say so twice, and forget the run that it has taken again since."""
    started, told = Started[None]("run1"), list[str]()

    class Ending(threading.Event):
        def set(self) -> None:
            super().set()
            started.when_done(lambda: told.append("late"))

    started._done = Ending()
    started.when_done(lambda: told.append("early"))
    started._work(lambda: Outcome("run1", "succeeded", None))
    started.when_done(lambda: told.append("after"))
    assert sorted(told) == ["after", "early", "late"]


def test_async_flows_run_on_the_loop_of_the_application(place: Place) -> None:
    outcome = asyncio.run(answered_on_a_loop(place))
    assert outcome == "succeeded"


async def answered_on_a_loop(place: Place) -> str:
    seen: list[Any] = []
    KNOBS["loop"] = lambda: seen.append(asyncio.get_running_loop())
    async with AsyncOutlast(place.home, clock=place.clock) as outlast:
        outcome = await outlast.run(on_a_loop)
        async with outlast.worker(on_a_loop):
            await outlast.answer(outcome.interrupts[0].id, {"approved": True})
            while (found := (await outlast.get(outcome.run_id)).status) != "succeeded":
                await asyncio.sleep(0.005)
        assert seen == [asyncio.get_running_loop()]
    return found
