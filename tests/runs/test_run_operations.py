"""An operation_id gives back the run that it began, whatever became of it, and never begins another."""

import threading
from typing import Any

import pytest

from outlast import AsyncOutlast, Outlast, Run, effect, flow, step
from outlast.errors import InputsConflict, NameInvalid, OperationConflict, RepeatsEffects, RunAborted, RunHeld
from outlast.python.named_flows import find_flow

from ..kit.place import KNOBS, Place, ran, reach

ARRIVED, GO_ON = threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def closed_gates() -> Any:
    ARRIVED.clear()
    GO_ON.clear()
    yield
    GO_ON.set()


@effect
def charge(amount: int) -> str:
    ran(f"charge {amount}")
    reach("charged")
    return f"charged {amount}"


@flow
def pays(run: Run, amount: int, operation_id: str = "an input") -> tuple[str, str]:
    return charge(amount), operation_id


@step
def gate() -> str:
    ARRIVED.set()
    assert GO_ON.wait(30)
    return "through"


@flow
def gated(run: Run, number: int = 0) -> str:
    return gate()


@flow
def stops(run: Run, amount: int) -> str:
    charge(amount)
    reach("between")
    return charge(amount)


@flow
def asks(run: Run) -> Any:
    return run.pause_for("approval")


def of(place: Place, operation_id: str) -> Outlast:
    return place.outlast.with_options(operation_id=operation_id)


def test_what_it_began_is_given_once_it_has_finished(place: Place) -> None:
    first = of(place, "a").run(pays, 5)
    again = of(place, "a").run(pays, 5)
    assert (again.run_id, again.status, again.result) == (first.run_id, "succeeded", ("charged 5", "an input"))
    assert (first.replayed, again.replayed, place.count("charge 5")) == (False, True, 1)
    assert of(place, "b").run(pays, 5).run_id != first.run_id
    assert place.count("charge 5") == 2


def test_the_same_id_in_another_scope_is_another_call_and_never_its_run(place: Place) -> None:
    first = of(place, "a").run(pays, 5)
    with Outlast(place.home, scope="another") as elsewhere:
        for call in (elsewhere.with_options(operation_id="a").run, elsewhere.with_options(operation_id="a").start):
            with pytest.raises(OperationConflict):
                call(pays, 5)
        assert elsewhere.with_options(operation_id="b").run(pays, 5).run_id != first.run_id
    assert of(place, "a").run(pays, 5).run_id == first.run_id


def test_start_and_run_share_it(place: Place) -> None:
    first = of(place, "a").start(pays, 5)
    assert first.outcome(30).result == ("charged 5", "an input")
    assert of(place, "a").start(pays, 5).run_id == first.run_id
    assert of(place, "a").run(pays, 5).run_id == first.run_id


def test_on_an_event_loop_too(place: Place) -> None:
    import asyncio

    async def calls() -> list[str]:
        async with AsyncOutlast(place.home, clock=place.clock) as outlast:
            once = outlast.with_options(operation_id="a")
            return [(await once.run(pays, 5)).run_id, (await (await once.start(pays, 5))).run_id]

    first, again = asyncio.run(calls())
    assert first == again == of(place, "a").run(pays, 5).run_id


@pytest.mark.parametrize(
    "other",
    [
        lambda outlast: outlast.run(pays, 6),
        lambda outlast: outlast.run(pays, 5, task="named"),
        lambda outlast: outlast.run(pays, 5, meta={"more": 1}),
        lambda outlast: outlast.run(stops, 5),
        lambda outlast: outlast.start(pays, 6),
    ],
)
def test_the_same_id_for_another_call_is_a_conflict_and_writes_nothing(place: Place, other: Any) -> None:
    of(place, "a").run(pays, 5)
    before = [run.id for run in place.outlast.runs()]
    with pytest.raises(OperationConflict):
        other(of(place, "a"))
    assert [run.id for run in place.outlast.runs()] == before
    assert place.ran == ["charge 5"]


def test_how_a_call_is_traced_makes_it_no_other_call(place: Place) -> None:
    first = of(place, "a").run(pays, 5, trace_id="t1")
    assert of(place, "a").run(pays, 5, trace_id="t2").run_id == first.run_id


MOVED = """
from outlast import Run, flow

@flow
def moves(run: Run, number: int) -> int:
    return number
"""


def test_a_flow_that_was_moved_is_the_same_and_one_of_its_name_is_not(place: Place) -> None:
    place.outlast.runs()
    old = place.script("old.py", MOVED)
    first = of(place, "a").run(find_flow(f"{old}:moves", str(place.home)), 1)
    other = place.script("other.py", MOVED.replace("number\n", "number + 1\n"))
    with pytest.raises(OperationConflict):
        of(place, "a").run(find_flow(f"{other}:moves", str(place.home)), 1)
    new = place.folder / "new.py"
    old.rename(new)
    again = of(place, "a").run(find_flow(f"{new}:moves", str(place.home)), 1)
    assert (again.run_id, again.replayed) == (first.run_id, True)


def test_an_unfinished_run_is_continued(place: Place) -> None:
    place.killed(lambda outlast: outlast.with_options(operation_id="a").run(stops, 5), at="between")
    again = of(place, "a").run(stops, 5)
    assert (again.status, again.run_id, again.replayed) == ("succeeded", place.run_id, False)
    assert place.count("charge 5") == 2  # two calls of one run, one of them before the death
    assert of(place, "a").run(stops, 5).replayed


def test_a_run_that_waits_is_given_with_its_waits(place: Place) -> None:
    first = of(place, "a").run(asks)
    again = of(place, "a").run(asks)
    assert (again.run_id, again.status) == (first.run_id, "waiting")
    assert [wait.id for wait in again.interrupts] == [wait.id for wait in first.interrupts]
    place.outlast.answer(first.interrupts[0].id, {"approved": True})
    assert of(place, "a").run(asks).status == "succeeded"


def test_a_held_run_is_named_with_its_holder_and_can_be_waited_for(place: Place) -> None:
    started = of(place, "a").start(gated)
    assert ARRIVED.wait(30)
    with pytest.raises(RunHeld) as caught:
        of(place, "a").run(gated)
    assert (caught.value.run_id, caught.value.holder) == (started.run_id, "this process")
    GO_ON.set()
    assert of(place, "a").with_options(wait=True).run(gated).run_id == started.run_id


def test_a_call_that_joins_a_run_is_one_with_it_from_then_on(place: Place) -> None:
    """Two ids for one unfinished run: later each of them gives it, and begins no other."""
    place.killed(lambda outlast: outlast.run(stops, 5), at="between")
    joined = of(place, "b").run(stops, 5)
    assert (joined.run_id, joined.status) == (place.run_id, "succeeded")
    assert of(place, "b").run(stops, 5).run_id == joined.run_id
    assert len(place.outlast.runs()) == 1


def test_joining_a_held_run_is_noted_with_the_answer(place: Place) -> None:
    started = place.outlast.start(gated)
    assert ARRIVED.wait(30)
    with pytest.raises(RunHeld):
        of(place, "b").run(gated)
    GO_ON.set()
    assert started.outcome(30).status == "succeeded"
    again = of(place, "b").run(gated)
    assert (again.run_id, again.replayed) == (started.run_id, True)


def test_what_is_refused_is_not_noted(place: Place) -> None:
    KNOBS["raise"] = ("between", ValueError("no"))
    place.run(stops, 5, task="t")
    with pytest.raises(InputsConflict):
        of(place, "a").run(stops, 6, task="t")
    KNOBS.pop("raise")
    assert of(place, "a").run(pays, 7).status == "succeeded"  # the id is free


def test_a_run_given_up_is_told_as_it_ended(place: Place) -> None:
    first = of(place, "a").run(asks)
    place.outlast.abort(first.run_id, why="no use")
    again = of(place, "a").run(asks)
    assert (again.run_id, again.status, again.replayed) == (first.run_id, "aborted", True)


def test_fresh_gives_up_once_for_one_id(place: Place) -> None:
    place.run(asks)
    first = of(place, "a").run(asks, fresh=True)
    again = of(place, "a").run(asks, fresh=True)
    assert first.run_id == again.run_id
    assert sorted(run.status for run in place.outlast.runs()) == ["aborted", "waiting"]


def test_a_run_that_gc_removed_succeeded_and_is_not_run_again(place: Place) -> None:
    first = of(place, "a").run(pays, 5)
    place.clock.advance(10)
    assert place.outlast.gc(older_than=1, dry_run=False).runs
    again = of(place, "a").run(pays, 5)
    assert (again.run_id, again.status, again.result, again.replayed) == (first.run_id, "succeeded", None, True)
    assert again.notes == ("result_pruned",)
    assert place.count("charge 5") == 1


def test_two_at_once_with_one_id_begin_one_run(place: Place) -> None:
    GO_ON.set()
    ready, ids = threading.Barrier(4), set[str]()

    def call() -> None:
        with Outlast(place.home, clock=place.clock, store_options={"synchronous": "OFF"}) as outlast:
            ready.wait()
            ids.add(outlast.with_options(operation_id="a", wait=True).run(gated).run_id)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == len(place.outlast.runs()) == 1


@pytest.mark.parametrize("bad", ["", " ", "x" * 501, "two\nlines"])
def test_an_id_that_cannot_be_one_is_refused(place: Place, bad: str) -> None:
    with pytest.raises(NameInvalid):
        of(place, bad).run(pays, 5)
    assert place.outlast.runs() == []


def test_a_script_has_it_too(place: Place) -> None:
    place.killed(script_killed, at="in the block")
    with of(place, "a").open("nightly") as run:
        assert (run.id, run.step(len, "abc")) == (place.run_id, 3)


def test_a_script_of_an_id_that_has_happened_runs_on_its_receipts(place: Place) -> None:
    for _ in range(2):
        with of(place, "a").open("nightly") as run:
            assert run.step(charged_once, 5) == "charged 5"
    assert place.count("charge 5") == 1
    with of(place, "b").open("weekly") as run:
        given_up = run.id
        place.outlast.abort(given_up, why="no use")
    with pytest.raises(RunAborted), of(place, "b").open("weekly"):
        pass


def charged_once(amount: int) -> str:
    ran(f"charge {amount}")
    return f"charged {amount}"


def test_an_id_on_a_named_task_that_has_happened_is_noted(place: Place) -> None:
    first = place.run(pays, 5, task="t")
    joined = of(place, "a").run(pays, 5, task="t")
    assert (joined.run_id, joined.replayed) == (first.run_id, True)
    with pytest.raises(OperationConflict):
        of(place, "a").run(pays, 5)


def test_again_happens_once_for_one_id(place: Place) -> None:
    place.run(pays, 5, task="t")
    more = of(place, "a").with_options(again=True, effects=["charge"])
    second = more.run(pays, 5, task="t")
    assert more.run(pays, 5, task="t").run_id == second.run_id
    assert (len(place.outlast.runs()), place.count("charge 5")) == (2, 2)


def test_again_names_what_it_repeats_and_is_refused_without_a_word(place: Place) -> None:
    place.run(pays, 5, task="t")
    with pytest.raises(RepeatsEffects, match="charge"):
        place.outlast.with_options(again=True).run(pays, 5, task="t")
    assert place.outlast.with_options(again=True, yes=True).run(pays, 5, task="t").replayed is False
    assert place.count("charge 5") == 2


def script_killed(outlast: Outlast) -> None:
    with outlast.with_options(operation_id="a").open("nightly") as run:
        run.step(len, "abc")
        reach("in the block")
