"""Two equal calls at once: the second is given the run's id and holder, and can wait for it, whatever happens to it."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast import AsyncOutlast, Outcome, Outlast, Run, flow, step
from outlast.errors import RunHeld, RunNotFound, RunSealed
from outlast.testing.crashes import in_child

from ..kit.place import KNOBS, Place, ran, reach

ARRIVED, GO_ON = threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def closed_gates() -> Any:
    ARRIVED.clear()
    GO_ON.clear()
    yield
    GO_ON.set()


@step
def gate() -> str:
    ran("gate")
    ARRIVED.set()
    assert GO_ON.wait(30)
    reach("through the gate")
    return "through"


@flow
def gated(run: Run) -> tuple[str, int]:
    return gate(), 1


@contextmanager
def held(outlast: Outlast) -> Iterator[str]:
    """A run that is being run meanwhile; it goes on when the block is over."""
    started = outlast.start(gated)
    assert ARRIVED.wait(30)
    yield started.run_id
    GO_ON.set()
    assert started.outcome(30).status == "succeeded"


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """What `work` gives, in a thread of its own."""
    found: list[Any] = []

    def body() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    return thread, found


def listening(outlast: Outlast | AsyncOutlast) -> threading.Semaphore:
    """Can be taken as often as somebody was told that he waits."""
    waits = threading.Semaphore(0)
    outlast.listen(None, lambda line: waits.release() if "waiting for it" in line else None)
    return waits


def test_the_second_is_given_the_runs_id_and_holder(place: Place) -> None:
    with held(place.outlast) as run_id, Outlast(place.home, clock=place.clock) as other:
        with pytest.raises(RunHeld) as caught:
            other.run(gated)
        assert (caught.value.run_id, caught.value.holder) == (run_id, other.get(run_id).holder)
        assert caught.value.to_dict()["run_id"] == run_id
        assert "pid" in caught.value.to_dict()["holder"]
        with pytest.raises(RunHeld):
            other.start(gated)


def test_it_can_be_waited_for_by_its_id(place: Place) -> None:
    with Outlast(place.home, clock=place.clock) as other:
        with held(place.outlast) as run_id:
            with pytest.raises(TimeoutError, match=run_id):
                other.wait(run_id, timeout=0)
            thread, found = in_background(lambda: other.wait(run_id, timeout=30))
        thread.join()
    assert (found[0].status, found[0].result, found[0].run_id) == ("succeeded", ["through", 1], run_id)
    assert place.count("gate") == 1


@pytest.mark.parametrize("seconds", [True, 30])
def test_a_call_may_wait_for_it(place: Place, seconds: Any) -> None:
    with Outlast(place.home, clock=place.clock) as other:
        waits = listening(other)
        with held(place.outlast) as run_id:
            thread, found = in_background(lambda: other.with_options(wait=seconds).run(gated))
            assert waits.acquire(timeout=30)
        thread.join()
    assert (found[0].run_id, found[0].result) == (run_id, ("through", 1))
    assert place.count("gate") == 1


def test_threads_of_one_process_wait_for_each_other(place: Place) -> None:
    waits = listening(place.outlast)
    with held(place.outlast) as run_id:
        thread, found = in_background(lambda: place.outlast.with_options(wait=True).run(gated))
        assert waits.acquire(timeout=30)
    thread.join()
    assert found[0].run_id == run_id


def test_who_waited_long_enough_is_told_who_holds_it(place: Place) -> None:
    with held(place.outlast), pytest.raises(RunHeld):
        place.outlast.with_options(wait=0).run(gated)


def test_a_start_may_wait_too_and_is_told_so_once(place: Place) -> None:
    with Outlast(place.home, clock=place.clock) as other:
        waits = listening(other)
        with held(place.outlast) as run_id:
            second = other.with_options(wait=True).start(gated)
            assert second.run_id == run_id
            assert waits.acquire(timeout=30)
        assert second.outcome(30).result == ("through", 1)
        assert not waits.acquire(blocking=False)


def test_on_an_event_loop_it_is_waited_for_without_blocking(place: Place) -> None:
    async def both(run_id: str) -> list[Outcome[Any]]:
        async with AsyncOutlast(place.home, clock=place.clock) as other:
            with pytest.raises(RunHeld):
                await other.run(gated)
            waits, waiting = listening(other), other.with_options(wait=True)
            calls = asyncio.gather(other.wait(run_id), waiting.run(gated), await waiting.start(gated))
            for _ in ("the run", "the start"):
                assert await asyncio.to_thread(waits.acquire, timeout=30)
            GO_ON.set()
            return await calls

    with held(place.outlast) as run_id:
        found = asyncio.run(both(run_id))
    assert {outcome.run_id for outcome in found} == {run_id}
    assert [outcome.result for outcome in found] == [["through", 1], ("through", 1), ("through", 1)]


def dying(place: Place) -> tuple[threading.Thread, list[Any]]:
    """A process that is in the step, and is killed there once it is let go on; the thread ends with it."""
    for name in ("arrived", "go"):
        os.mkfifo(place.folder / name)

    def body(tell: Callable[[str, Any], None]) -> None:
        KNOBS["die"] = "through the gate"
        place.outlast.run(waits_for_a_file, str(place.folder))

    place.close()
    thread, found = in_background(lambda: in_child(body, 60))
    (place.folder / "arrived").read_text()
    return thread, found


def let_go_on(place: Place) -> None:
    (place.folder / "go").write_text("")


@step
def file_gate(folder: str) -> str:
    """Of the process that is to die: waits at a pipe until it is let go on."""
    ran("file gate")
    if KNOBS.get("die"):
        Path(folder, "arrived").write_text("")
        Path(folder, "go").read_text()
        reach("through the gate")
    return "through"


@flow
def waits_for_a_file(run: Run, folder: str) -> str:
    return file_gate(folder)


@pytest.mark.parametrize("how", ["run", "wait", "start"])
def test_who_waits_goes_on_with_it_should_the_holder_die(place: Place, how: str) -> None:
    folder = str(place.folder)
    holder, ended = dying(place)
    with Outlast(place.home, clock=place.clock) as other:
        waits = listening(other)
        waiting = other.with_options(wait=True)
        (run,) = other.runs()
        calls: dict[str, Callable[[], Outcome[Any]]] = {
            "run": lambda: waiting.run(waits_for_a_file, folder),
            "wait": lambda: other.wait(run.id),
            "start": lambda: waiting.start(waits_for_a_file, folder).outcome(30),
        }
        thread, found = in_background(calls[how])
        assert how == "wait" or waits.acquire(timeout=30)
        let_go_on(place)
        holder.join()
        assert ended[0].killed
        thread.join()
    assert (found[0].run_id, found[0].status, found[0].result) == (run.id, "succeeded", "through")
    assert place.count("file gate") == 2  # a step is repeated, in the same run


def test_a_run_that_is_over_or_waits_is_given_at_once(place: Place) -> None:
    GO_ON.set()
    done = place.run(gated)
    assert place.outlast.wait(done.run_id, timeout=0).result == ["through", 1]
    with pytest.raises(RunNotFound):
        place.outlast.wait("nothing")


def test_what_was_moved_away_is_not_waited_for(place: Place) -> None:
    holder, _ = dying(place)
    let_go_on(place)
    holder.join()
    (run,) = place.outlast.runs()
    place.outlast.export(run.id, place.folder / "moved.zip", move=True)
    with pytest.raises(RunSealed):
        place.outlast.wait(run.id)


def test_a_script_may_wait_for_its_like(place: Place) -> None:
    entered, leave = threading.Event(), threading.Event()

    def first() -> None:
        with place.outlast.open("nightly"):
            entered.set()
            assert leave.wait(30)

    with Outlast(place.home, clock=place.clock) as other:
        waits = listening(other)
        thread, _ = in_background(first)
        assert entered.wait(30)
        with pytest.raises(RunHeld), other.open("nightly"):
            pass

        def second() -> str:
            with other.with_options(wait=True).open("nightly") as run:
                return run.id

        later, found = in_background(second)
        assert waits.acquire(timeout=30)
        leave.set()
        thread.join()
        later.join()
    assert len(place.outlast.runs()) == 2
    assert isinstance(found[0], str)
