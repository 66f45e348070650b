"""Tasks and runs: who meets in one run, what is a conflict, and what cannot be a flow at all."""

import asyncio
import threading
from typing import Any

import pytest

from outlast import AsyncRun, Outlast, Run, flow, step
from outlast.errors import (
    AmbiguousPrefix,
    FlowInvalid,
    FlowNotFound,
    InputsConflict,
    InputsInvalid,
    NameInvalid,
    OutlastError,
    RunHeld,
    RunNotFound,
    StepNotFound,
    SyncInLoop,
)
from outlast.runs import claim as claims

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
    assert GO_ON.wait(10)
    return "through"


@step
def work(text: str) -> str:
    ran(f"work {text}")
    return text.upper()


@flow
def gated(run: Run) -> str:
    return gate()


@flow
def fails(run: Run, text: str = "x") -> str:
    found = work(text)
    reach("worked")
    if not KNOBS.get("smooth"):
        raise ValueError("no")
    return found


@flow
async def runs_async(run: AsyncRun, text: str = "x") -> str:
    return str(await run.step(work, text))


# -- one unfinished run per task and flow ------------------------------------------------------------


def test_a_failed_run_goes_on_with_the_same_call(place: Place) -> None:
    first = place.run(fails)
    KNOBS["smooth"] = True
    second = place.run(fails)
    assert (second.run_id, second.result, place.count("work x")) == (first.run_id, "X", 1)


def test_without_a_task_other_inputs_are_another_task(place: Place) -> None:
    assert place.run(fails, "a").run_id != place.run(fails, "b").run_id


def test_equal_inputs_are_the_same_task_however_they_are_passed(place: Place) -> None:
    ids = {place.run(fails).run_id, place.run(fails, "x").run_id, place.run(fails, text="x").run_id}
    assert len(ids) == 1


def test_other_inputs_for_a_tasks_unfinished_run_are_a_conflict(place: Place) -> None:
    first = place.run(fails, "a", task="nightly")
    with pytest.raises(InputsConflict) as caught:
        place.run(fails, "b", task="nightly")
    assert (caught.value.run, caught.value.task) == (first.run_id, "nightly")
    assert "fresh=True" in str(caught.value)
    assert place.count("work b") == 0


def test_fresh_gives_the_old_run_up_and_starts_anew(place: Place) -> None:
    first = place.run(fails, "a", task="nightly")
    KNOBS["smooth"] = True
    second = place.run(fails, "b", task="nightly", fresh=True)
    assert second.result == "B"
    assert place.outlast.get(first.run_id).status == "aborted"


def test_fresh_without_an_unfinished_run_is_a_run_like_others(place: Place) -> None:
    KNOBS["smooth"] = True
    assert place.run(fails, fresh=True).status == "succeeded"


def test_two_flows_may_work_on_one_task(place: Place) -> None:
    first, second = place.run(fails, task="shared"), place.run(runs_async, task="shared")
    assert (first.status, second.status) == ("failed", "succeeded")


def test_what_is_given_with_a_run_is_kept_with_it(place: Place) -> None:
    outcome = place.run(runs_async, "y", task="t", session="chat-1", trace_id="abc", meta={"ticket": 7})
    record = place.outlast.get(outcome.run_id)
    assert (record.task, record.session, record.trace_id, record.meta) == ("t", "chat-1", "abc", {"ticket": 7})
    assert (record.inputs, record.result, record.flow.endswith(":runs_async")) == ({"text": "y"}, "Y", True)
    assert {receipt.trace_id for receipt in place.receipts()} == {"abc"}


@pytest.mark.parametrize("task", ["", "  ", "x" * 501, "two\nlines"])
def test_a_task_name_that_cannot_be_used_is_refused(place: Place, task: str) -> None:
    with pytest.raises(NameInvalid):
        place.run(fails, task=task)


# -- two at once -------------------------------------------------------------------------------------


def test_the_second_starter_is_told_who_holds_the_run(place: Place) -> None:
    started = place.outlast.start(gated)
    assert ARRIVED.wait(10)
    with pytest.raises(RunHeld) as caught:
        place.run(gated)
    assert (caught.value.run, caught.value.holder) == (started.run_id, "this process")
    GO_ON.set()
    assert started.outcome(10).result == "through"
    assert place.count("gate") == 1


def test_a_held_run_is_not_given_up_for_a_fresh_one(place: Place) -> None:
    started = place.outlast.start(gated)
    assert ARRIVED.wait(10)
    with pytest.raises(RunHeld):
        place.run(gated, fresh=True)
    with pytest.raises(RunHeld):
        place.outlast.resume(started.run_id)
    GO_ON.set()
    assert started.outcome(10).status == "succeeded"


def test_starters_at_the_same_moment_meet_in_one_run(place: Place) -> None:
    """Whoever is second gets the holder named; nobody loses the run to the other."""
    GO_ON.set()
    ready = threading.Barrier(4)
    said: list[str] = []

    def start(task: str) -> None:
        ready.wait()
        try:
            said.append(place.run(gated, task=task).status)
        except RunHeld:
            said.append("held")
        except OutlastError as error:
            said.append(error.code)

    _ = place.outlast
    for number in range(15):
        threads = [threading.Thread(target=start, args=(f"t{number}",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(said) <= {"succeeded", "held"}
    assert said.count("succeeded") >= 15


def test_another_process_that_died_is_taken_over_at_once(place: Place) -> None:
    place.crash(fails, at="worked")
    KNOBS["smooth"] = True
    assert place.run(fails).result == "X"


def test_start_goes_on_in_the_background_and_is_durable_at_once(place: Place) -> None:
    started = place.outlast.start(gated)
    assert place.outlast.get(started.run_id).status == "running"
    with pytest.raises(TimeoutError):
        started.outcome(0.01)
    GO_ON.set()
    assert started.outcome(10).result == "through"


# -- finding -----------------------------------------------------------------------------------------


def test_a_run_is_found_by_a_unique_prefix(place: Place) -> None:
    first, second = place.run(fails, "a"), place.run(fails, "b")
    assert place.outlast.get(first.run_id[:6]).id == first.run_id
    assert [run.id for run in place.outlast.runs()] == [second.run_id, first.run_id]
    assert [run.id for run in place.outlast.runs(limit=1)] == [second.run_id]


def test_a_limit_counts_only_the_runs_of_that_status(place: Place) -> None:
    for number in range(2):
        place.crash(fails, at="worked", task=f"dead-{number}")
    crashed = [run.id for run in place.outlast.runs()]
    live = [place.outlast.start(gated, task=f"live-{number}") for number in range(3)]
    place.outlast.abort(place.run(fails, task="given-up").run_id, why="a run of another status")
    try:
        assert [run.id for run in place.outlast.runs(status="crashed", limit=1)] == crashed[:1]
        assert [run.id for run in place.outlast.runs(status="crashed", limit=2)] == crashed
        assert [run.id for run in place.outlast.runs(status="running", limit=2)] == [live[2].run_id, live[1].run_id]
        assert [place.outlast.runs(status=status, limit=0) for status in (None, "crashed")] == [[], []]
    finally:
        GO_ON.set()
        assert [started.outcome(10).status for started in live] == ["succeeded"] * 3


def test_a_crashed_run_that_is_given_back_is_listed_once_and_in_its_place(place: Place) -> None:
    for number in range(3):
        place.crash(fails, at="worked", task=f"dead-{number}")
    newest, middle, oldest = (run.id for run in place.outlast.runs())
    caller = place.outlast._executor.caller
    claims.release(caller.home, claims.claim(caller, middle), "crashed")
    assert [run.id for run in place.outlast.runs(status="crashed")] == [newest, middle, oldest]


@pytest.mark.parametrize("run_id", ["nothing-like-that", ""])
def test_an_unknown_run_is_not_found(place: Place, run_id: str) -> None:
    with pytest.raises(RunNotFound):
        place.outlast.get(run_id)


def test_a_prefix_of_many_is_ambiguous(place: Place) -> None:
    ids = (f"same-{number}" for number in range(99))
    with Outlast(place.home, ids=lambda: next(ids)) as outlast:
        first, second = outlast.run(fails, "a").run_id, outlast.run(fails, "b").run_id
        with pytest.raises(AmbiguousPrefix, match=f"{first}, {second}"):
            outlast.get("same-")


def test_a_step_that_the_run_never_met_is_not_found(place: Place) -> None:
    outcome = place.run(fails)
    with pytest.raises(StepNotFound, match="work"):
        place.outlast.retry(outcome.run_id, "nothing")


# -- what cannot be a flow ---------------------------------------------------------------------------


def test_local_functions_are_refused_at_start(place: Place) -> None:
    @flow
    def local(run: Run) -> None: ...

    with pytest.raises(FlowInvalid, match="local"):
        place.run(local)


def test_lambdas_are_refused_at_start(place: Place) -> None:
    with pytest.raises(FlowInvalid):
        place.run(flow(lambda run: None))


def test_other_callables_are_refused_at_start(place: Place) -> None:
    class Callable:
        def __call__(self, run: Run) -> None: ...

    with pytest.raises(FlowInvalid):
        place.run(flow(Callable()))  # type: ignore[call-overload]


@flow
def without_run() -> None: ...  # type: ignore[misc]


@flow
def reserved(run: Run, task: str) -> None: ...


class Held:
    @flow
    def method(self, run: Run) -> None: ...


@pytest.mark.parametrize("bad", [without_run, reserved], ids=lambda flow: flow.__name__)
def test_a_flow_takes_a_run_first_and_no_reserved_names(place: Place, bad: Any) -> None:
    with pytest.raises(FlowInvalid):
        place.run(bad)


def test_the_advice_for_what_cannot_be_a_flow_fits(place: Place) -> None:
    said = {bad.__name__: "" for bad in (without_run, reserved, Held.method)}
    for bad in (without_run, reserved, Held.method):
        with pytest.raises(FlowInvalid) as caught:
            place.run(bad)
        said[bad.__name__] = caught.value.what_next
    assert "def without_run(run: Run" in said["without_run"]
    assert "another name" in said["reserved"]
    assert "top of a module" in said["method"]


@pytest.mark.parametrize(("args", "kwargs"), [((1, 2), {}), ((), {"nothing": 1})])
def test_arguments_that_a_flow_does_not_take_are_refused(place: Place, args: Any, kwargs: Any) -> None:
    with pytest.raises(InputsInvalid, match="text"):
        place.run(fails, *args, **kwargs)
    assert place.outlast.runs() == []


def test_a_flow_whose_code_is_gone_cannot_be_resumed_by_id(place: Place) -> None:
    outcome = place.run(vanishing)
    assert outcome.status == "failed"
    kept = globals().pop("vanishing")
    try:
        with pytest.raises(FlowNotFound, match="vanishing"):
            place.outlast.resume(outcome.run_id)
        assert place.outlast.get(outcome.run_id).status == "failed"
    finally:
        globals()["vanishing"] = kept


@flow
def vanishing(run: Run) -> None:
    raise ValueError("no")


def test_the_blocking_surface_refuses_an_async_flow_inside_a_loop(place: Place) -> None:
    async def inside() -> None:
        place.run(runs_async)

    with pytest.raises(SyncInLoop, match="AsyncOutlast"):
        asyncio.run(inside())
    assert place.outlast.runs() == []


def test_resuming_an_async_flow_inside_a_loop_is_refused_and_gives_the_run_back(place: Place) -> None:
    place.crash(fails_async, at="worked")

    async def inside() -> None:
        place.outlast.resume(place.run_id)

    with pytest.raises(SyncInLoop):
        asyncio.run(inside())
    assert place.run(fails_async).result == "X"


@flow
async def fails_async(run: AsyncRun) -> str:
    found = str(await run.step(work, "x"))
    reach("worked")
    return found
