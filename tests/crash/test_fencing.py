"""One owner: who may go on with a run when its owner lives, is dead, is silent, or wakes up too late."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Outlast, Run, flow, step
from outlast.clock import ManualClock, SystemClock
from outlast.errors import LeaseLost, RunHeld, StoreForked
from outlast.home.settings import Settings
from outlast.testing import crashes
from outlast.testing.crashes import Tell, in_child

from . import flows
from .processes import Actor, wait_until

pytestmark = pytest.mark.crash

SHORT_LEASE = {"lease_seconds": 0.5, "beat_seconds": 0.1}
KEPT_LEASE = {"lease_seconds": 2.0, "beat_seconds": 0.2}  # of an owner that is to keep it, also on a loaded machine
Start = Callable[..., Actor]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    actors: list[Actor] = []

    def start(flow: str, *args: Any, **settings: Any) -> Actor:
        actors.append(Actor(home, flow, *args, **settings))
        return actors[-1]

    yield start
    for actor in actors:
        actor.close()


def entries(home: Path) -> list[tuple[str, str, int]]:
    """What the journal of the home's only run has, in order: name, status, epoch."""
    with Outlast(home) as outlast:
        assert outlast.verify().ok
        (run,) = outlast.runs()
        return [(header.name, header.status, header.epoch) for _, _, header, _ in crashes.entries(outlast, run)]


# -- a living, a dead and a silent owner -------------------------------------------------------------


def test_two_processes_cannot_run_one_run_and_the_second_is_told_who_holds_it(home: Path, start: Start) -> None:
    first = start("waits_between")
    first.hear("waits")
    second = start("waits_between")
    _, code, text = second.hear("refused")
    assert code == "run_held"
    assert f"held by pid {first.pid} on " in text
    first.go_on()
    assert first.hear("outcome") == ["outcome", "succeeded", [1, "between", 2]]
    assert second.ran() == []


def test_of_many_that_start_at_once_one_wins(home: Path, start: Start) -> None:
    actors = [start("waits_between") for _ in range(4)]
    for actor in actors:
        actor.hear("open")
    heard = [actor.hear() for actor in actors]
    winners = [actor for actor, line in zip(actors, heard, strict=True) if line == ["ran", 1]]
    assert [line[1] for line in heard if line[0] == "refused"] == ["run_held"] * 3
    (winner,) = winners
    winner.hear("waits")
    winner.go_on()
    winner.hear("outcome", "succeeded")
    assert len({epoch for _, _, epoch in entries(home)}) == 1


def test_a_dead_owner_is_taken_over_at_once(home: Path, start: Start) -> None:
    first = start("waits_between", lease_seconds=3600)
    first.hear("waits")
    first.kill()
    second = start("waits_between")
    second.hear("waits")
    second.go_on()
    second.hear("outcome", "succeeded")
    assert second.ran() == [2]


def test_a_silent_owner_is_taken_over_when_its_lease_is_over_and_is_fenced_when_it_wakes(
    home: Path, start: Start
) -> None:
    first = start("waits_between", **SHORT_LEASE)
    first.hear("waits")
    first.stop()
    second = taken_over(start)
    second.go_on()
    assert second.hear("outcome") == ["outcome", "succeeded", [1, "between", 2]]
    before = entries(home)
    first.go_on()
    first.wake()
    assert first.hear("refused")[1] == "lease_lost"
    first.end()
    assert first.ran() == [1]
    assert entries(home) == before
    assert ("wait", "succeeded", 1) not in before


class Later(SystemClock):
    """More than one lease later, and less than four."""

    def boot(self) -> int:
        return super().boot() + 40_000_000


def test_an_owner_that_is_stopped_past_its_lease_is_not_waited_for_as_one_that_goes_on_is(
    home: Path, start: Start
) -> None:
    first = start("waits_between")
    first.hear("waits")
    with Outlast(home, clock=Later()) as outlast:
        assert [run.status for run in outlast.runs()] == ["running"]
        first.stop()
        assert [run.status for run in outlast.runs()] == ["crashed"]
        first.wake()
        wait_until(lambda: [run.status for run in outlast.runs()] == ["running"], "that it is seen to go on")


def test_a_fenced_owner_cannot_write_even_while_the_new_one_works(home: Path, start: Start) -> None:
    first = start("waits_between", **SHORT_LEASE)
    first.hear("waits")
    first.stop()
    second = taken_over(start)
    first.wake()
    first.go_on()
    assert first.hear("refused")[1] == "lease_lost"
    second.go_on()
    second.hear("outcome", "succeeded")
    epochs = [epoch for _, _, epoch in entries(home)]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 2


def taken_over(start: Start) -> Actor:
    """A process that has got the run: others before it were refused while the lease lasted."""
    while True:
        actor = start("waits_between", **SHORT_LEASE)
        actor.hear("open")
        line = actor.hear()
        if line[0] != "refused":
            return actor
        assert line[1] == "run_held"


def test_an_owner_whose_event_loop_is_blocked_for_several_leases_keeps_its_run(home: Path, start: Start) -> None:
    """What renews the lease is a thread of its own: it does not wait for the loop."""
    first = start("blocks_its_loop", **KEPT_LEASE)
    first.hear("waits")
    until = time.monotonic() + 3 * KEPT_LEASE["lease_seconds"]
    with Outlast(home, settings=Settings(**KEPT_LEASE)) as outlast:
        (run,) = outlast.runs()
        while time.monotonic() < until:
            with pytest.raises(RunHeld):
                outlast.resume(run.id)
            time.sleep(0.05)
    first.go_on()
    assert first.hear("outcome") == ["outcome", "succeeded", ["the loop", "done"]]
    assert {epoch for _, _, epoch in entries(home)} == {1}


def test_an_owner_that_beats_keeps_its_run_longer_than_one_lease(home: Path, start: Start) -> None:
    first = start("waits_between", **KEPT_LEASE)
    first.hear("waits")
    with Outlast(home) as outlast:
        (run,), clock = outlast.runs(), SystemClock()
        began = clock.boot()
        while clock.boot() - began < 5_000_000:
            with pytest.raises(RunHeld):
                outlast.resume(run.id)
            time.sleep(0.05)
    first.go_on()
    first.hear("outcome", "succeeded")


# -- clocks ------------------------------------------------------------------------------------------

release = threading.Event()
waiting = threading.Event()


@step
def linger() -> int:
    waiting.set()
    assert release.wait(20)
    return 1


@flow
def lingers(run: Run) -> list[object]:
    before = run.now()
    linger()
    return [run.now() >= before, flows.add(1, 1)]


@pytest.fixture
def lingering(home: Path) -> Iterator[tuple[Outlast, Outlast, ManualClock, Any]]:
    """Two workers with one clock; the first one is in the middle of a run, and its heart has stopped."""
    release.clear()
    waiting.clear()
    clock = ManualClock()
    with Outlast(home, clock=clock) as first, Outlast(home, clock=clock) as second:
        started = first.start(lingers)
        assert waiting.wait(20)
        first._executor.live.heartbeat.stop()
        yield first, second, clock, started
        release.set()


def test_a_clock_set_back_neither_ends_nor_extends_a_lease(lingering: Any) -> None:
    _, second, clock, started = lingering
    clock.set_back(86_400)
    with pytest.raises(RunHeld):
        second.run(lingers)
    clock.advance(119)  # four leases, since its process is seen to live
    with pytest.raises(RunHeld):
        second.run(lingers)
    clock.advance(2)
    waiting.clear()
    taken = second.start(lingers)
    assert waiting.wait(20)  # the second one is in the step: from here on the run is its own
    release.set()
    assert taken.outcome(20).status == "succeeded"
    with pytest.raises(LeaseLost):
        started.outcome(20)
    assert second.verify().ok


def test_a_run_goes_on_under_a_clock_that_was_set_back(lingering: Any) -> None:
    first, _, clock, started = lingering
    clock.set_back(86_400)
    release.set()
    outcome = started.outcome(20)
    assert outcome.status == "succeeded"
    assert first.verify().ok
    seqs = [event.seq for event in first.events(outcome.run_id)]
    assert seqs == sorted(seqs)


# -- crash after crash -------------------------------------------------------------------------------


def test_the_third_crash_in_one_step_asks_instead_of_trying_a_fourth_time(home: Path, start: Start) -> None:
    for crash in range(3):
        actor = start("waits_between")
        actor.hear("waits")
        wait_until(lambda attempts=crash + 1: begun(home) == attempts, "the start of the step on disk")
        actor.kill()
    fourth = start("waits_between")
    assert fourth.hear("outcome")[:2] == ["outcome", "waiting"]
    assert ["waits", "between"] not in fourth.said
    with Outlast(home) as outlast:
        (asked,) = outlast.interrupts()
        assert (asked.type, asked.step, asked.payload) == (
            "crash_loop",
            "wait",
            {"crashes": 3, "inputs": {"name": "between"}},
        )
        outlast.answer(asked.id, {"choice": "retry", "why": "the machine was at fault"})
    fifth = start("waits_between")
    fifth.hear("waits")
    fifth.go_on()
    assert fifth.hear("outcome") == ["outcome", "succeeded", [1, "between", 2]]


def begun(home: Path) -> int:
    """How many attempts of the step that waits are on disk."""
    with Outlast(home) as outlast:
        (run,) = outlast.runs()
        return sum(receipt.step == "wait" for receipt in outlast.receipts(run.id))


def test_state_counters_survive_three_crashes(home: Path, start: Start) -> None:
    for failpoint in ("step.ended:2", "commit.done:4", "step.begun:3"):
        actor = start("counts", failpoint=failpoint)
        actor.end()
        assert actor.process.returncode == -9
    last = start("counts")
    assert last.hear("outcome") == ["outcome", "succeeded", [4, 4, 2]]


@pytest.mark.parametrize("name", ["maps", "gathers"])
def test_parallel_steps_killed_half_way_keep_the_half_that_was_done(name: str, home: Path, start: Start) -> None:
    first = start(name)
    for _ in range(2):
        first.hear("waits")
    wait_until(lambda: finished(home) == [1, 3], "the odd ones on disk")
    first.kill()
    second = start(name)
    for _ in range(2):
        second.hear("waits")
    second.go_on()
    second.go_on()
    assert second.hear("outcome") == ["outcome", "succeeded", [1, 2, 3, 4]]
    assert sorted(second.ran()) == [2, 4]


def finished(home: Path) -> list[int]:
    with Outlast(home) as outlast:
        (run,) = outlast.runs()
        return sorted(r.result for r in outlast.receipts(run.id) if r.status == "succeeded")


# -- forks -------------------------------------------------------------------------------------------


def refusals(home: Path, *tries: Callable[[], object]) -> list[str]:
    """What a forked child is told when it tries these."""

    def work(tell: Tell) -> None:
        for each in tries:
            try:
                each()
                tell("told", "")
            except StoreForked as error:
                tell("told", str(error))

    ended = in_child(work, 20)
    assert ended.told("error") == []
    return [str(said) for said in ended.told("told")]


def test_a_home_that_was_open_at_a_fork_is_refused_in_the_child_and_goes_on_in_the_parent(home: Path) -> None:
    other = home.with_name("other")
    with Outlast(home) as outlast:
        outlast.run(flows.plain, 1)
        told = refusals(
            home,
            lambda: outlast.run(flows.plain, 2),
            lambda: outlast.runs(),
            lambda: Outlast(home),
            lambda: Outlast(other).run(flows.plain, 1),
        )
        assert [text.partition(";")[0] for text in told[:3]] == [
            f"{home}/default/outlast.db was open before this process was forked"
        ] * 3
        assert told[3] == ""
        assert outlast.run(flows.plain, 3).status == "succeeded"
        assert outlast.verify().ok


def test_a_home_that_was_closed_before_the_fork_is_open_to_the_child(home: Path) -> None:
    with Outlast(home) as outlast:
        outlast.run(flows.plain, 1)
    assert refusals(home, lambda: Outlast(home).run(flows.plain, 2)) == [""]
