"""Workers are seen by others, and a run that none of them takes says so, or ends when it said that it would."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from math import inf
from pathlib import Path

import pytest

from outlast import AsyncOutlast, Run, flow
from outlast.errors import FlowInvalid, OptionInvalid, TaskAborted
from outlast.runs.find import Due
from outlast.worker.place import SWEEP_SECONDS, WorkPlace
from outlast.worker.worker import Worker, WorkNote

from ..kit.place import KNOBS, Place
from .support import Spoken, asks, until, work, works


@flow(queue="agents", queue_timeout="10m")
def impatient(run: Run, what: str = "a") -> str:
    return work(what)


@flow(queue="agents")
def patient(run: Run, what: str = "a") -> str:
    return work(what)


@flow(deadline="2h", queue="agents")
def in_time(run: Run) -> str:
    return str(run.wait_for("news"))


def held_up(place: Place, run_id: str) -> str:
    (listed,) = [run for run in place.outlast.runs() if run.id == run_id]
    found = place.outlast.get(run_id)
    assert (listed.held_up, listed.queue, listed.take_by) == (found.held_up, found.queue, found.take_by)
    return found.held_up


# -- who is at work ------------------------------------------------------------------------------------


def test_a_worker_is_seen_with_its_flows_their_code_its_queues_and_its_runs(place: Place) -> None:
    began, go = threading.Event(), threading.Event()
    KNOBS["slow"] = lambda: (began.set(), go.wait(60))
    with place.outlast.worker(patient, works, queues=["agents"], concurrency=3):
        run_id = place.outlast.start(patient, "slow").run_id
        assert began.wait(60)
        (found,) = place.outlast.workers()
        assert found.process.startswith(f"pid {os.getpid()} on ")
        assert [(each.name, each.code) for each in found.flows or ()] == [
            ("patient", patient.spec.code),
            ("works", works.spec.code),
        ]
        assert (found.queues, found.concurrency, found.runs) == (("agents",), 3, (run_id,))
        go.set()
    assert place.outlast.workers() == []


def test_a_worker_without_flows_has_every_flow_that_is_found(place: Place) -> None:
    with place.outlast.worker():
        assert place.outlast.workers()[0].flows is None


def test_a_worker_that_was_killed_is_not_there_any_more(place: Place, tmp_path: Path) -> None:
    place.outlast.queues()  # the home is there
    start = [sys.executable, "-m", "outlast", "--home", str(place.home), "--json", "work"]
    process = subprocess.Popen(start, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert '"ready"' in process.stdout.readline()
    assert len(place.outlast.workers()) == 1
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert place.outlast.workers() == []
    with place.outlast.worker():  # the next one forgets it
        assert len(place.outlast._home.store.read(lambda look: look.workers())) == 1


def test_an_idle_worker_says_now_and_then_that_it_lives(place: Place) -> None:
    with place.outlast.worker() as worker:
        spot = next(iter(worker._places.values()))  # type: ignore[attr-defined]
        before = place.outlast._home.store.read(lambda look: look.beat_of(place.outlast._home.process.id))
        place.clock.advance(100)
        spot._sign_at = 0.0
        process = place.outlast._home.process.id
        until(
            lambda: place.outlast._home.store.read(lambda look: look.beat_of(process)).wall_us > before.wall_us,  # type: ignore[union-attr]
            "a sign of life",
        )


def test_a_worker_with_nothing_to_do_reads_at_four_moments_of_a_look_and_then_no_more(place: Place) -> None:
    spot, begun = WorkPlace(place.outlast, lambda: None, only_given=False), list[str]()
    place.outlast._home.store._reader.connection.exec_trace = lambda _, text, __: not begun.append(text)
    for _ in range(3):
        assert (look_widely(spot), spot.next_queued()) == ([], None)
        assert begun.count("BEGIN") == 4
    spot.unhook()


def look_widely(spot: WorkPlace) -> list[Due]:
    """What it finds when it is time to look for processes that died."""
    spot._sweep_at = spot._spared_until = 0.0
    return list(spot.due())


def test_processes_that_died_are_looked_for_only_where_that_could_concern_a_run(place: Place) -> None:
    began, go = threading.Event(), threading.Event()
    KNOBS["slow"] = lambda: (began.set(), go.wait(60))
    spot = WorkPlace(place.outlast, lambda: None, only_given=False)
    until(lambda: (look_widely(spot), spot.seconds_left()) == ([], inf), "nothing is said any more")
    going = place.outlast.start(works, "slow")
    assert began.wait(60)
    assert (list(spot.due()), spot.seconds_left() <= SWEEP_SECONDS) == ([], True)  # it is sooner than before
    assert (look_widely(spot), spot.seconds_left() < inf) == ([], True)
    go.set()
    going.outcome(60)
    until(lambda: (look_widely(spot), spot.seconds_left()) == ([], inf), "nothing is under way")
    place.outlast.start(patient)
    assert list(spot.due()) == []
    assert (look_widely(spot), spot.seconds_left() < inf) == ([], True)  # a limit that keeps it ends by itself
    spot.unhook()


# -- what keeps a run ----------------------------------------------------------------------------------


def test_a_queued_run_whose_flow_no_worker_has_says_so(place: Place) -> None:
    run_id = place.outlast.start(patient).run_id
    assert held_up(place, run_id) == "no_worker"
    place.outlast.pause_queue("agents")
    with place.outlast.worker(works):
        assert held_up(place, run_id) == "no_worker"
    with place.outlast.worker(patient, queues=["others"]):
        assert held_up(place, run_id) == "no_worker"
    with place.outlast.worker(patient):
        assert held_up(place, run_id) == "queue_paused"
        place.outlast.resume_queue("agents")
        until(lambda: place.outlast.get(run_id).finished)
    assert held_up(place, run_id) == ""


def test_a_run_that_could_go_on_and_whose_flow_no_worker_has_says_so(place: Place) -> None:
    place.crash(works, "b", at="work b again")
    crashed = place.outlast.runs()[0].id
    answered = place.outlast.run(asks)
    with place.outlast.worker(patient):
        assert held_up(place, answered.run_id) == ""  # nobody has answered it
        place.outlast.answer(answered.interrupts[0].id, {"approved": True})
        assert (held_up(place, answered.run_id), held_up(place, crashed)) == ("no_worker", "no_worker")
    assert held_up(place, answered.run_id) == ""  # where nobody works it goes on by hand
    with place.outlast.worker(asks, works, queues=["others"]):
        until(lambda: place.outlast.get(answered.run_id).finished and place.outlast.get(crashed).finished)


def test_one_that_came_through_a_queue_says_so_wherever_nobody_works(place: Place) -> None:
    told: list[WorkNote] = []
    with Worker([place.outlast], tell=told.append):
        run_id = place.outlast.with_options(queue="agents").start(asks).run_id
        until(lambda: place.outlast.get(run_id).status == "waiting")
    place.outlast.answer(place.outlast.interrupts(run_id)[0].id, {"approved": True})
    assert held_up(place, run_id) == "no_worker"
    with Worker([place.outlast], tell=told.append):
        until(lambda: place.outlast.get(run_id).finished)
    took = [(note.reason, note.run_id) for note in told if note.kind == "took"]
    assert took == [("queued", run_id), ("answered", run_id)]


# -- a module, and the file that it is -----------------------------------------------------------------


@pytest.mark.parametrize("way", [(0, 1), (1, 0)], ids=["by its file", "by its module"])
def test_a_worker_takes_the_runs_of_a_module_by_its_file_and_the_other_way_round(
    place: Place, spoken: Spoken, way: tuple[int, int]
) -> None:
    started, given = spoken[way[0]], spoken[way[1]]
    assert started.spec.identity != given.spec.identity
    asked, queued = place.outlast.run(started), place.outlast.with_options(queue="q").start(started, "b").run_id
    with place.outlast.worker(given):
        place.outlast.answer(asked.interrupts[0].id, {"word": "kelp"})
        until(lambda: place.outlast.get(asked.run_id).result == "kelp")
        until(lambda: place.outlast.get(queued).status == "waiting")
        assert held_up(place, queued) == ""
    found = place.outlast.get(asked.run_id)
    assert (found.source, found.identity) == ("spoken_words:spoken", spoken[0].spec.identity)  # found from anywhere
    assert place.outlast.run(given, "b").run_id == queued  # the same call, by its other name


def test_a_delayed_run_says_until_when(place: Place) -> None:
    with place.outlast.worker(patient):
        run_id = place.outlast.with_options(delay="5m").start(patient).run_id
        found = place.outlast.get(run_id)
        assert (found.held_up, (found.not_before - found.created_at).total_seconds()) == ("delayed", 300)  # type: ignore[operator]


def test_who_waits_for_a_run_that_nobody_takes_is_told(place: Place) -> None:
    started = place.outlast.start(patient)
    told = pytest.warns(RuntimeWarning, match=r"no worker has its flow \(no_worker\); start one: outlast work")
    with told, pytest.raises(TimeoutError):
        started.outcome(1.3)


def test_a_step_that_waits_for_a_limit_holds_its_run_up(place: Place) -> None:
    from .test_limits import gate, uses

    place.outlast.set_limit("api", concurrency=1)
    began, go = gate("first")
    first = place.outlast.start(uses, "first")
    assert began.wait(60)
    second = place.outlast.start(uses, "second")
    until(lambda: place.outlast.get(second.run_id).held_up == "limit:api")
    assert held_up(place, second.run_id) == "limit:api"  # said alike by both, once it stands
    go.set()
    assert {first.outcome().status, second.outcome().status} == {"succeeded"}


# -- time-outs and deadlines ---------------------------------------------------------------------------


def test_a_run_that_was_not_taken_in_time_ends_with_the_reason(place: Place) -> None:
    run_id = place.outlast.start(impatient).run_id
    found = place.outlast.get(run_id)
    assert (found.take_by - found.created_at).total_seconds() == 600  # type: ignore[operator]
    place.clock.advance(599)
    with place.outlast.worker(works):
        assert place.outlast.get(run_id).status == "queued"
        place.clock.advance(2)
        until(lambda: place.outlast.get(run_id).finished)
    ended = place.outlast.get(run_id)
    assert ended.error is not None
    assert (ended.status, ended.error["type"], ended.error["by"]) == ("aborted", "queue_timed_out", "its queue")
    assert "not taken out of the queue agents within 600 s: no worker has its flow" in ended.error["message"]
    assert place.count("work a") == 0


def test_who_waits_for_it_ends_it_where_nobody_works(place: Place) -> None:
    started = place.outlast.with_options(queue_timeout=60).start(patient)
    place.clock.advance(61)
    assert (started.outcome().status, place.outlast.queues()[0].ready) == ("aborted", 0)


def test_one_that_was_taken_in_time_does_not_end(place: Place) -> None:
    with place.outlast.worker(impatient):
        started = place.outlast.start(impatient)
        assert started.outcome().status == "succeeded"
    KNOBS["later"] = lambda: place.clock.advance(3600)
    with place.outlast.worker(impatient):
        assert place.outlast.start(impatient, "later").outcome().status == "succeeded"


def test_a_named_task_that_was_not_taken_is_refused_and_may_happen_again(place: Place) -> None:
    started = place.outlast.start(impatient, task="once")
    place.clock.advance(601)
    assert started.outcome().status == "aborted"
    with pytest.raises(TaskAborted):
        place.outlast.start(impatient, task="once")
    assert place.outlast.with_options(again=True).start(impatient, task="once").run_id != started.run_id


def test_a_deadline_is_shown_while_the_run_is_unfinished(place: Place) -> None:
    run_id = place.outlast.start(in_time).run_id
    assert place.outlast.get(run_id).deadline_at is not None  # it counts from the start, also in a queue
    with place.outlast.worker(in_time):
        until(lambda: place.outlast.get(run_id).status == "waiting")
        found = place.outlast.get(run_id)
        (began,) = [event.body for event in place.outlast.events(run_id) if event.name == "run.started"]
        assert (began["queue"], began["deadline_at"]) == ("agents", found.deadline_at.isoformat())  # type: ignore[union-attr]
        assert (found.deadline_at - found.created_at).total_seconds() == 7200  # type: ignore[operator]
        place.clock.advance(7201)
        until(lambda: place.outlast.get(run_id).status == "failed")


@pytest.mark.parametrize("wrong", ["soon", -1, None])
def test_a_time_that_is_none_is_refused(place: Place, wrong: object) -> None:
    with pytest.raises(OptionInvalid):
        place.outlast.with_options(queue_timeout=wrong)  # type: ignore[arg-type]
    with pytest.raises(FlowInvalid):
        flow(queue_timeout=wrong)(impatient)  # type: ignore[call-overload]


def test_all_of_it_on_an_event_loop(place: Place) -> None:
    async def on_a_loop() -> None:
        async with AsyncOutlast(place.home) as outlast:
            await outlast.set_limit("api", concurrency=1)
            assert [each.name for each in await outlast.limits()] == ["api"]
            async with outlast.worker(patient):
                assert [each.flows[0].name for each in await outlast.workers() if each.flows] == ["patient"]
            assert (await outlast.remove_limit("api")).name == "api"

    asyncio.run(on_a_loop())
