"""Steps inside steps, steps outside of runs, and threads that belong to no run."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from outlast import KEY, AsyncRun, Run, current, effect, flow, inject, step
from outlast.errors import EffectInsideStep, ResourceMissing, StepOutsideRun

from ..kit.place import KNOBS, Place, ran


@step
def inner(number: int) -> int:
    ran(f"inner {number}")
    return number + 1


@step
async def inner_async(number: int) -> int:
    ran(f"inner {number}")
    return number + 1


@step
def outer(number: int) -> int:
    return inner(number) * 10 + int(asyncio.run(inner_async(number)))


@step
async def outer_async(number: int) -> int:
    return inner(number) * 10 + await inner_async(number)


@effect
def send(text: str, *, key: str = KEY) -> str:
    ran(f"send {text} {key}")
    return f"sent {text}"


@step
def sends_inside() -> str:
    return send("x")


@step
async def sends_inside_async() -> str:
    return send("x")


@flow
def nests(run: Run) -> int:
    return outer(1)


@flow
async def nests_async(run: AsyncRun) -> int:
    return await outer_async(1)


@pytest.mark.parametrize("body", [nests, nests_async], ids=lambda flow: flow.__name__)
def test_a_step_called_inside_a_step_is_a_plain_call(place: Place, body: Any) -> None:
    assert place.run(body).result == 22
    assert len(place.receipts()) == 1
    assert place.count("inner 1") == 2


@flow
def sends_in_step(run: Run) -> str:
    return sends_inside()


@flow
async def sends_in_step_async(run: AsyncRun) -> str:
    return await sends_inside_async()


@flow
def sends_in_step_by_run(run: Run) -> str:
    return sends_by_run()


@step
def sends_by_run() -> str:
    run: Any = current()
    return str(run.effect(send, "x"))


@pytest.mark.parametrize(
    "body", [sends_in_step, sends_in_step_async, sends_in_step_by_run], ids=lambda flow: flow.__name__
)
def test_an_effect_inside_a_step_is_refused_before_it_does_anything(place: Place, body: Any) -> None:
    outcome = place.run(body)
    assert isinstance(outcome.exception, EffectInsideStep)
    assert "replay contract" in str(outcome.exception)
    assert place.ran == []


def test_outside_a_run_both_are_the_plain_function(place: Place) -> None:
    assert (inner(1), asyncio.run(inner_async(1)), send("x")) == (2, 2, "sent x")
    assert place.outlast.runs() == []


def test_outside_a_run_an_effect_gets_a_key_that_says_so(place: Place) -> None:
    send("x")
    assert place.ran == ["send x send-outside-a-run"]


def test_outside_a_run_a_resource_must_be_passed() -> None:
    assert wants_search(search="mine") == "mine"
    with pytest.raises(ResourceMissing, match="search"):
        wants_search()


@step
def wants_search(*, search: Any = inject("search")) -> str:
    return str(search)


def test_plain_is_the_function_itself_anywhere(place: Place) -> None:
    assert place.run(uses_plain).result == 2
    assert place.receipts() == []


@flow
def uses_plain(run: Run) -> int:
    return inner.plain(1)


@flow
def in_thread(run: Run) -> str:
    caught: list[str] = []

    def work() -> None:
        try:
            KNOBS["work"](run)
            caught.append("done")
        except StepOutsideRun as error:
            caught.append(f"{error.code} {'run.bind' in str(error)}")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return caught[0]


THREAD_WORK: list[Callable[[Any], Any]] = [
    lambda run: inner(1),
    lambda run: send("x"),
    lambda run: run.step(inner, 1),
    lambda run: run.now(),
    lambda run: run.emit("x"),
    lambda run: run.map(inner, [1]),
    lambda run: current(),
]


@pytest.mark.parametrize("number", range(len(THREAD_WORK)))
def test_a_bare_thread_is_refused_and_told_what_to_do(place: Place, number: int) -> None:
    KNOBS["work"] = THREAD_WORK[number]
    assert place.run(in_thread).result == "step_outside_run True"
    assert place.ran == []


@flow
def bound_thread(run: Run) -> list[int]:
    found: list[int] = []
    thread = threading.Thread(target=run.bind(lambda: found.append(inner(1))))
    thread.start()
    thread.join()
    return found


def test_a_bound_function_is_durable_in_any_thread(place: Place) -> None:
    assert place.run(bound_thread).result == [2]
    assert place.statuses() == ["succeeded"]


@flow
async def in_executor(run: AsyncRun) -> str:
    try:
        await asyncio.get_running_loop().run_in_executor(None, inner, 1)
    except StepOutsideRun as error:
        return error.code
    return "done"


def test_an_executor_of_the_loop_is_a_bare_thread(place: Place) -> None:
    assert place.run(in_executor).result == "step_outside_run"


@flow
async def to_thread(run: AsyncRun) -> int:
    return await asyncio.to_thread(inner, 1)


def test_to_thread_carries_the_place_along(place: Place) -> None:
    assert place.run(to_thread).result == 2
    assert place.statuses() == ["succeeded"]


@flow
def calls_a_flow(run: Run) -> int:
    return adds_two(run, 1)


@flow
def adds_two(run: Run, number: int) -> int:
    return inner(inner(number))


def test_a_flow_called_inside_a_flow_is_the_plain_function(place: Place) -> None:
    assert place.run(calls_a_flow).result == 3
    assert len(place.outlast.runs()) == 1
    assert len(place.receipts()) == 2
