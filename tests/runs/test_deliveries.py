"""An outcome that nobody received goes once to the next equal call: after a death, and when others ended the run."""

import asyncio
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from outlast import AsyncOutlast, AsyncRun, Outcome, Outlast, Run, effect, failpoints, flow, step
from outlast.errors import HomeSettingsInvalid
from outlast.testing.crashes import in_child

from ..crash.power import PowerVFS
from ..kit import ledgers
from ..kit.place import KNOBS, Place, ran, reach

HOUR = 3600.0


@effect
def charge(amount: int) -> str:
    ran(f"charge {amount}")
    return f"charged {amount}"


@flow
def pays(run: Run, amount: int) -> tuple[str, int]:
    """The tuple shows that what is given again has its type."""
    return charge(amount), amount


@flow
async def pays_async(run: AsyncRun, amount: int) -> str:
    return charge(amount)


@flow
def stops(run: Run, amount: int) -> str:
    found = charge(amount)
    reach("charged")
    return found


@flow
def asks(run: Run, amount: int) -> str:
    run.pause_for("approval", payload={"amount": amount})
    return charge(amount)


def die_before_return(place: Place, work: Callable[[Outlast], Any]) -> None:
    """Do `work` in a process that is killed when the outcome is durable and about to be returned."""
    place.close()

    def told(tell: Callable[[str, Any], None]) -> None:
        failpoints.arm(failpoints.kill_at("run.returns", 1))
        tell("done", repr(work(place.outlast)))

    ended = in_child(told, 60)
    assert ended.killed, (ended.told("error"), ended.told("done"))


@contextmanager
def told_once() -> Iterator[None]:
    with pytest.warns(RuntimeWarning, match=r"nobody received it: this call is given its outcome, once"):
        yield


@contextmanager
def not_told() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_the_call_after_a_death_between_success_and_return_is_given_the_outcome_once(place: Place) -> None:
    die_before_return(place, lambda outlast: outlast.run(pays, 5))
    with told_once():
        again = place.run(pays, 5)
    assert (again.status, again.result, again.redelivered) == ("succeeded", ("charged 5", 5), True)
    assert place.count("charge 5") == 1
    with not_told():
        anew = place.run(pays, 5)
    assert (anew.run_id != again.run_id, anew.redelivered, place.count("charge 5")) == (True, False, 2)


def test_so_is_one_on_an_event_loop(place: Place) -> None:
    async def repeat() -> None:
        async with AsyncOutlast(place.home, clock=place.clock) as outlast:
            with told_once():
                again = await outlast.run(pays_async, 5)
            assert (again.result, again.redelivered) == ("charged 5", True)
            assert not (await outlast.run(pays_async, 5)).redelivered

    die_before_return(place, lambda outlast: outlast.run(pays_async, 5))
    asyncio.run(repeat())
    assert place.count("charge 5") == 2


def test_what_was_returned_is_received_also_without_closing(place: Place) -> None:
    """A script that ends without a word, or is killed later, has received what it was given."""

    def told(tell: Callable[[str, Any], None]) -> None:
        tell("done", place.outlast.run(pays, 5).run_id)
        reach("later")

    place.close()
    KNOBS["die"] = "later"
    assert in_child(told, 60).killed
    KNOBS.pop("die")
    with not_told():
        assert not place.run(pays, 5).redelivered
    assert place.count("charge 5") == 2


def test_another_call_is_not_given_it(place: Place) -> None:
    die_before_return(place, lambda outlast: outlast.run(pays, 5))
    with not_told():
        assert place.run(pays, 6).result == ("charged 6", 6)
        assert place.run(pays, 5, task="named").result == ("charged 5", 5)
        assert place.run(pays, 5, fresh=True).redelivered is False
    with told_once():
        assert place.run(pays, 5).redelivered


def test_it_is_given_for_an_hour(place: Place) -> None:
    die_before_return(place, lambda outlast: outlast.run(pays, 5))
    place.clock.advance(HOUR + 1)
    with not_told():
        assert not place.run(pays, 5).redelivered


@pytest.mark.parametrize(("seconds", "given"), [(0.0, False), (2 * HOUR, True)])
def test_the_time_is_a_setting_and_nothing_turns_it_off(place: Place, seconds: float, given: bool) -> None:
    place.settings = replace(place.settings, redeliver_seconds=seconds)
    die_before_return(place, lambda outlast: outlast.run(pays, 5))
    place.clock.advance(1.5 * HOUR if seconds else 0)
    with told_once() if given else not_told():
        assert place.run(pays, 5).redelivered is given


def test_a_home_says_it_in_its_settings(place: Place) -> None:
    place.home.mkdir()
    for text, given in (("2h", True), ("0", False)):
        (place.home / "settings.yaml").write_text(f"redeliver: {text}\n")
        die_before_return(place, lambda _: Outlast(place.home, clock=place.clock).run(pays, 5))
        place.clock.advance(1.5 * HOUR)
        with Outlast(place.home, clock=place.clock) as outlast, told_once() if given else not_told():
            assert outlast.run(pays, 5).redelivered is given
    (place.home / "settings.yaml").write_text("redeliver: soon\n")
    with pytest.raises(HomeSettingsInvalid, match="redeliver"):
        Outlast(place.home)


def test_a_run_that_a_tick_ended_is_given_to_the_next_equal_call(place: Place) -> None:
    place.crash(stops, 5, at="charged")
    place.outlast._executor.caller.received_when = "never"  # as `outlast tick` does
    assert place.outlast.resume(place.run_id).status == "succeeded"
    place.outlast._executor.caller.received_when = "returned"
    with told_once():
        assert place.run(stops, 5).redelivered
    assert place.count("charge 5") == 1


def test_a_run_that_waited_and_that_others_ended_is_given_to_the_next_equal_call(place: Place) -> None:
    """The process that ran it is alive, and was told only that it waits."""
    waiting = place.run(asks, 5)
    with Outlast(place.home, clock=place.clock) as others:
        others.answer(waiting.interrupts[0].id, {"approved": True})
        others._resume_soon(waiting.run_id, others_acceptance()).outcome(30)
        with told_once():
            assert others.run(asks, 5).result == "charged 5"


def others_acceptance() -> Any:
    from outlast.python.outlast import acceptance_of

    return acceptance_of((), "", None)


def test_what_a_resume_returned_is_received(place: Place) -> None:
    place.crash(stops, 5, at="charged")
    assert place.outlast.resume(place.run_id).status == "succeeded"
    with not_told():
        assert not place.run(stops, 5).redelivered


def test_what_was_started_is_read_by_its_id_and_never_given_again(place: Place) -> None:
    def work(outlast: Outlast) -> Any:
        outlast.start(pays, 5).outcome(30)
        reach("done")

    place.killed(work, at="done")
    with not_told():
        assert not place.run(pays, 5).redelivered


def test_of_two_equal_calls_at_once_one_is_given_it_and_the_other_starts_anew(place: Place) -> None:
    for amount in range(5):
        die_before_return(place, lambda outlast, amount=amount: outlast.run(pays, amount))  # type: ignore[misc]
        found = at_once(place, amount)
        assert sorted(outcome.redelivered for outcome in found) == [False, True]
        assert len({outcome.run_id for outcome in found}) == 2
        assert place.count(f"charge {amount}") == 2


def at_once(place: Place, amount: int) -> list[Outcome[Any]]:
    """Two callers with a home of their own each, as two processes have."""
    ready, found = threading.Barrier(2), list[Outcome[Any]]()

    def call() -> None:
        with Outlast(place.home, clock=place.clock, store_options={"synchronous": "OFF"}) as outlast:
            ready.wait()
            found.append(outlast.run(pays, amount))

    threads = [threading.Thread(target=call) for _ in range(2)]
    with told_once():
        side_by_side(threads)
    return found


def side_by_side(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_who_dies_while_it_is_given_again_has_not_received_it(place: Place) -> None:
    for _ in range(3):
        die_before_return(place, lambda outlast: outlast.run(pays, 5))
    with told_once():
        assert place.run(pays, 5).redelivered
    assert place.count("charge 5") == 1


def test_a_success_that_is_about_to_be_returned_is_not_given_to_another(place: Place) -> None:
    """Its process lives: between its success and its return an equal call begins a run of its own."""
    arrived, go_on = threading.Event(), threading.Event()

    def pause(point: str) -> None:
        if point == "run.returns" and not arrived.is_set():
            arrived.set()
            assert go_on.wait(30)

    first: list[Outcome[Any]] = []
    thread = threading.Thread(target=lambda: first.append(place.run(pays, 5)))
    place.outlast.runs()
    failpoints.arm(pause)
    try:
        thread.start()
        assert arrived.wait(30)
        with Outlast(place.home, clock=place.clock) as other, not_told():
            second = other.run(pays, 5)
        with not_told():
            third = place.run(pays, 5)
    finally:
        go_on.set()
        thread.join()
        failpoints.arm(None)
    assert len({first[0].run_id, second.run_id, third.run_id}) == 3
    assert not any(outcome.redelivered for outcome in (first[0], second, third))


def test_a_failed_run_is_continued_and_not_given(place: Place) -> None:
    KNOBS["raise"] = ("charged", ValueError("no"))
    assert place.run(stops, 5).status == "failed"
    KNOBS.pop("raise")
    with not_told():
        assert place.run(stops, 5).result == "charged 5"
    assert place.count("charge 5") == 1


def test_a_delivery_goes_with_its_run(place: Place) -> None:
    die_before_return(place, lambda outlast: outlast.run(pays, 5))
    place.clock.advance(10)
    assert place.outlast.gc(older_than=1, dry_run=False).runs
    assert place.outlast.verify().ok, place.outlast.verify().problems
    with not_told():
        assert not place.run(pays, 5).redelivered


def test_a_delivery_that_was_edited_shows(place: Place) -> None:
    die_before_return(place, lambda outlast: outlast.run(pays, 5))
    place.close()
    ledgers.change(place.home, "DELETE FROM deliveries", rows=1)
    assert not place.outlast.verify().ok


@step
def nothing() -> None: ...


@flow
def plain(run: Run) -> None:
    nothing()


def test_receiving_costs_no_sync(place: Place) -> None:
    """The disk is waited for as often with deliveries as without."""
    assert syncs_of_three_runs(place, HOUR) == syncs_of_three_runs(place, 0.0)


def syncs_of_three_runs(place: Place, seconds: float) -> int:
    synced: list[str] = []
    vfs = PowerVFS(f"deliveries-{seconds}", before=lambda done: synced.append(done.kind))
    settings = replace(place.settings, redeliver_seconds=seconds)
    with Outlast(place.home, settings=settings, store_options={"vfs": vfs.name}) as outlast:
        outlast.run(plain)
        synced.clear()
        for _ in range(3):
            outlast.run(plain)
        return synced.count("sync")
