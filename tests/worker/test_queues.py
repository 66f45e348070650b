"""Runs wait in queues until workers take them: in a fair order, within limits that hold over all workers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast import Outlast, Run, flow
from outlast.errors import FlowInvalid, InputsConflict, OptionInvalid, QueueNotFound, RunWaiting
from outlast.flows.spec import FlowLimits, rate_of
from outlast.runs.claim import RunClaim
from outlast.runs.queues import queue
from outlast.runs.start import go_on

from ..kit.place import KNOBS, Place
from .support import until, work, works


@flow(queue="agents", concurrency=2, per="customer")
def agent(run: Run, customer: str, number: int = 0) -> str:
    work(f"{customer}{number}")
    if KNOBS.get("asks"):
        run.pause_for("approval")
    return customer


@flow(queue="slow", rate="2/m")
def metered(run: Run, number: int) -> int:
    return number


@flow(queue="other")
def other(run: Run, number: int) -> int:
    return number


def every(row: object) -> bool:
    return True


def take(place: Place, *queues: str) -> RunClaim | None:
    return queue.claim_next(place.outlast._caller, queues, every)


def taken(place: Place, *queues: str) -> list[str]:
    """What is taken one after another while nothing of it ends: the inputs of each."""
    found = []
    while (claimed := take(place, *queues)) is not None:
        inputs = place.outlast.get(claimed.run.id).inputs
        found.append(f"{inputs.get('customer', '')}{inputs['number']}")
    return found


def end(place: Place, claimed: RunClaim | None) -> str:
    assert claimed is not None
    return go_on(place.outlast._executor, claimed).status


def start(place: Place, *runs: tuple[str, int], **options: object) -> list[str]:
    outlast = place.outlast.with_options(**options) if options else place.outlast  # type: ignore[arg-type]
    return [outlast.start(agent, customer, number).run_id for customer, number in runs]


# -- waiting -------------------------------------------------------------------------------------------


def test_a_run_waits_in_its_queue_until_a_worker_takes_it(place: Place) -> None:
    (run_id,) = start(place, ("kelp", 1))
    assert place.outlast.get(run_id).status == "queued"
    assert [run.id for run in place.outlast.runs(status="queued")] == [run_id]
    assert place.ran == []
    with place.outlast.worker():
        until(lambda: place.outlast.get(run_id).status == "succeeded")
    assert place.ran == ["work kelp1"]


def test_with_a_queue_in_the_options_any_flow_waits_and_run_gives_its_outcome(place: Place) -> None:
    started = place.outlast.with_options(queue="any").start(works, "a")
    with place.outlast.worker():
        assert started.outcome(60).result == ["a", "a again"]
        assert place.outlast.with_options(queue="any").run(works, "b").result == ["b", "b again"]
    assert [one.name for one in place.outlast.queues()] == ["any"]


def test_run_begins_at_once_whatever_queue_the_flow_has(place: Place) -> None:
    assert place.run(agent, "kelp").status == "succeeded"
    assert place.outlast.queues() == []


def test_the_same_call_meets_the_run_that_is_queued(place: Place) -> None:
    (first,), (second,) = start(place, ("kelp", 1)), start(place, ("kelp", 1))
    assert first == second
    place.outlast.start(agent, "kelp", 1, task="t")
    with pytest.raises(InputsConflict):
        place.outlast.start(agent, "kelp", 2, task="t")


def test_an_operation_id_gives_back_the_run_that_is_queued(place: Place) -> None:
    ids = {run_id for _ in range(2) for run_id in start(place, ("kelp", 1), operation_id="once", queue="agents")}
    assert len(ids) == 1


def test_a_queued_run_can_be_given_up_or_resumed_by_hand(place: Place) -> None:
    given_up, resumed = start(place, ("kelp", 1), ("kelp", 2))
    place.outlast.abort(given_up, why="not needed")
    assert place.outlast.resume(resumed).status == "succeeded"
    assert taken(place) == []
    assert place.outlast.queues()[0].ready == 0


def test_what_waits_in_a_queue_is_proven_and_says_why_it_has_no_result(place: Place) -> None:
    started = place.outlast.start(agent, "kelp", 1)
    assert place.outlast.verify().ok
    with pytest.raises(RunWaiting, match="queue"):
        place.outlast._outcome(started.run_id).unwrap()


# -- the order -----------------------------------------------------------------------------------------


def test_a_larger_priority_goes_first_then_who_came_first(place: Place) -> None:
    start(place, ("a", 1), ("a", 2))
    start(place, ("b", 3), queue="agents", priority=5)
    assert taken(place) == ["b3", "a1", "a2"]


def test_the_turn_goes_round_among_keys(place: Place) -> None:
    start(place, ("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("c", 2))
    assert taken(place) == ["a1", "b1", "c1", "a2", "c2"]


def test_a_delayed_run_is_taken_when_its_time_has_come(place: Place) -> None:
    start(place, ("a", 1), queue="agents", delay="10m")
    assert (taken(place), place.outlast.queues()[0].delayed) == ([], 1)
    place.clock.advance(600)
    assert taken(place) == ["a1"]


def test_a_worker_takes_a_delayed_run_by_itself(place: Place) -> None:
    (run_id,) = start(place, ("a", 1), queue="agents", delay="10m")
    with place.outlast.worker():
        place.clock.advance(601)
        until(lambda: place.outlast.get(run_id).status == "succeeded")


def test_only_the_queues_that_are_asked_for_are_taken_from(place: Place) -> None:
    start(place, ("a", 1))
    place.outlast.start(other, 7)
    assert taken(place, "other") == ["7"]
    assert taken(place) == ["a1"]


def test_runs_of_flows_that_are_not_served_are_passed_over(place: Place) -> None:
    place.outlast.with_options(queue="q").start(works, "a")
    run_id = place.outlast.with_options(queue="q").start(other, 1).run_id
    with place.outlast.worker(other):
        until(lambda: place.outlast.get(run_id).status == "succeeded")
    assert [run.status for run in place.outlast.runs(flow="works")] == ["queued"]


# -- limits --------------------------------------------------------------------------------------------


def test_no_more_of_a_key_go_on_at_once_than_its_flow_says(place: Place) -> None:
    start(place, *((key, number) for key in "ab" for number in range(4)))
    claims = [take(place) for _ in range(4)]
    assert sorted(place.outlast.get(one.run.id).inputs["customer"] for one in claims if one) == ["a", "a", "b", "b"]
    assert take(place) is None
    assert end(place, claims[0]) == "succeeded"
    claimed = take(place)
    assert claimed is not None
    assert take(place) is None


def test_a_waiting_run_holds_no_slot_and_needs_one_to_go_on(place: Place) -> None:
    KNOBS["asks"] = True
    start(place, ("a", 1), ("a", 2), ("a", 3))
    assert end(place, take(place)) == "waiting"
    others = [take(place), take(place)]
    assert take(place) is None
    (wait,) = place.outlast.interrupts()
    place.outlast.answer(wait.id, {"approved": True})
    (due,) = place.outlast.due()
    assert queue.make_ready(place.outlast._caller, due.run_id)
    assert take(place) is None
    assert end(place, others[0]) == "waiting"
    claimed = take(place)
    assert claimed is not None
    assert claimed.run.id == due.run_id


def test_a_failed_run_holds_no_slot(place: Place) -> None:
    def fail() -> None:
        raise ValueError("no")

    KNOBS["a1"] = fail
    start(place, ("a", 1), ("a", 2), ("a", 3))
    assert end(place, take(place)) == "failed"
    assert [one is not None for one in (take(place), take(place), take(place))] == [True, True, False]


def test_what_a_shutdown_stopped_is_taken_like_a_queued_run(place: Place) -> None:
    KNOBS["a1"] = lambda: place.outlast.stop()
    start(place, ("a", 1), ("a", 2))
    KNOBS["asks"] = True
    assert end(place, take(place)) == "interrupted"
    del KNOBS["a1"]
    assert taken(place) == ["a1", "a2"]


def test_the_slot_of_a_killed_process_is_free_with_its_lease(place: Place) -> None:
    start(place, ("a", 1), ("a", 2), ("a", 3))
    place.killed(lambda outlast: go_on(outlast._executor, queue.claim_next(outlast._caller, (), every)), at="work a1")
    assert [one is not None for one in (take(place), take(place))] == [True, False]
    (due,) = place.outlast.due()
    assert queue.make_ready(place.outlast._caller, due.run_id)
    claimed = take(place)
    assert claimed is not None
    assert (claimed.found, take(place)) == ("crashed", None)


def test_a_crashed_run_that_another_worker_took_meanwhile_keeps_its_slot(place: Place) -> None:
    start(place, ("a", 1), ("a", 2), ("a", 3))
    place.killed(lambda outlast: go_on(outlast._executor, queue.claim_next(outlast._caller, (), every)), at="work a1")
    (seen,) = place.outlast.due()
    with Outlast(place.home, clock=place.clock) as other:  # it sees the same, and is quicker
        assert queue.make_ready(other._caller, seen.run_id)
        claimed = queue.claim_next(other._caller, (), every)
        assert claimed is not None
        assert claimed.run.id == seen.run_id
        assert queue.make_ready(place.outlast._caller, seen.run_id)
        entry = place.outlast._home.store.read(lambda look: look.entry_of(claimed.run.key))
        assert entry is not None
        assert (entry.state, taken(place)) == ("taken", ["a2"])
        place.outlast._home.store.write(lambda tx: tx.set_entry(claimed.run.key, "ready"))  # were it to happen
        assert taken(place) == []
        entry = place.outlast._home.store.read(lambda look: look.entry_of(claimed.run.key))
        assert entry is not None
        assert entry.state == "taken"


def test_no_more_begin_in_a_window_than_the_rate_says(place: Place) -> None:
    for number in range(5):
        place.outlast.start(metered, number)
    assert len(taken(place)) == 2
    place.clock.advance(59)
    assert taken(place) == []
    place.clock.advance(1)
    assert len(taken(place)) == 2


def test_limits_hold_over_workers_in_several_threads(place: Place) -> None:
    most, now, lock, two = [0], [0], threading.Lock(), threading.Event()

    def count() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] == 2:
                two.set()
        two.wait(30)  # the first stays until a second is beside it
        threading.Event().wait(0.01)
        with lock:
            now[0] -= 1

    for number in range(12):
        KNOBS[f"a{number}"] = count
    runs = start(place, *(("a", number) for number in range(12)))
    with opened(place) as second, place.outlast.worker(), second.worker():
        for run_id in runs:
            until(lambda run_id=run_id: place.outlast.get(run_id).status == "succeeded")
    assert (most[0], len(place.ran)) == (2, 12)


@contextmanager
def opened(place: Place) -> Iterator[Outlast]:
    """The same home, opened once more: another worker to all the others."""
    with Outlast(place.home, clock=place.clock, store_options={"synchronous": "OFF"}) as outlast:
        yield outlast


# -- pausing, looking ----------------------------------------------------------------------------------


def test_nothing_is_taken_out_of_a_queue_that_is_paused(place: Place) -> None:
    start(place, ("a", 1))
    shown = place.outlast.pause_queue("agents")
    assert (shown.paused, shown.paused_by, taken(place)) == (True, place.outlast._caller.actor, [])
    assert not place.outlast.resume_queue("agents").paused
    assert taken(place) == ["a1"]


def test_a_queue_says_how_many_wait_since_when_and_how_many_go_on(place: Place) -> None:
    start(place, ("a", 1), ("a", 2), ("a", 3))
    take(place)
    (shown,) = place.outlast.queues()
    assert (shown.name, shown.ready, shown.running, shown.delayed, shown.idle) == ("agents", 2, 1, 0, 0)
    assert shown.oldest_at == place.outlast.get(place.outlast.runs(status="queued")[-1].id).created_at


def test_a_queue_that_never_was_is_not_found(place: Place) -> None:
    with pytest.raises(QueueNotFound):
        place.outlast.pause_queue("nowhere")


@pytest.mark.parametrize(
    "given", [{"queue": 3}, {"priority": 1.5}, {"priority": True}, {"delay": "soon"}, {"delay": -1}]
)
def test_an_option_that_cannot_be_is_refused(place: Place, given: dict[str, object]) -> None:
    with pytest.raises(OptionInvalid):
        place.outlast.with_options(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"concurrency": -1}, {"concurrency": "4"}, {"rate": "fast"}, {"rate": "0/m"}])
def test_a_limit_that_cannot_be_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(FlowInvalid):
        flow(**given)  # type: ignore[call-overload]


def test_a_lane_is_a_flow_and_the_value_of_an_input_or_of_a_tag() -> None:
    limits = FlowLimits("q", 1, "customer")
    lanes = [
        limits.lane("f", {"customer": 3}, ()),
        limits.lane("f", {}, ("x", "customer:acme")),
        limits.lane("f", {}, ()),
    ]
    assert [lane.partition("\x1f")[2] for lane in lanes] == ["3", "acme", ""]
    assert [rate_of(text) for text in ("30/m", "2 / s", "5/hour")] == [
        (30, 60_000_000),
        (2, 1_000_000),
        (5, 3_600_000_000),
    ]


def test_claiming_costs_the_same_however_many_are_queued(tmp_path: Path) -> None:
    few, many = (cpu_of_claims(tmp_path / str(number), number) for number in (250, 1000))
    assert many < 8 * few, (few, many)


def cpu_of_claims(folder: Path, number: int) -> float:
    import time

    def once() -> float:
        before = time.thread_time()
        claimed = queue.claim_next(outlast._caller, (), every)
        assert claimed is not None
        return time.thread_time() - before

    with Outlast(folder, store_options={"synchronous": "OFF"}) as outlast:
        outlast._executor.home.store.write(lambda tx: None)
        for each in range(number):
            outlast.start(other, each)
        return min(once() for _ in range(5))
