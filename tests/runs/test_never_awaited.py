"""A gate cannot be skipped: what a body makes and never awaits fails its run, and names the line."""

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from outlast import AsyncOutlast, AsyncRun, Outcome, Run, effect, flow, step

from ..kit.place import KNOBS, Place, ran


@step
async def draft(text: str = "it") -> str:
    ran(f"draft {text}")
    return text


@step
def plain(text: str = "it") -> str:
    ran(f"plain {text}")
    return text


@effect
async def publish(text: str = "it") -> str:
    ran(f"publish {text}")
    return text


@effect
def publish_plainly(text: str = "it") -> str:
    ran(f"publish {text}")
    return text


def line_of(function: Any, text: str) -> int:
    """The line of a flow's source that has this text."""
    code = function.function.__code__
    with open(code.co_filename) as file:
        lines = file.read().splitlines()
    return next(n for n, line in enumerate(lines, 1) if n >= code.co_firstlineno and text in line)


def assert_named(outcome: Outcome[Any], function: Any, text: str) -> None:
    assert outcome.status == "failed", outcome
    assert outcome.error is not None
    assert outcome.error["code"] == "never_awaited"
    assert f"test_never_awaited.py:{line_of(function, text)}" in outcome.error["message"]


# -- what an async body can make ---------------------------------------------------------------------


@flow
async def asks(run: AsyncRun) -> str:
    run.pause_for("approval", {"text": "it"})  # type: ignore[unused-coroutine]
    return "published"


@flow
async def waits(run: AsyncRun) -> str:
    run.wait_for("built")  # type: ignore[unused-coroutine]
    return "deployed"


@flow
async def sleeps(run: AsyncRun) -> str:
    run.sleep("1h")  # type: ignore[unused-coroutine]
    return "rested"


@flow
async def maps(run: AsyncRun) -> str:
    run.map(draft, ["a"])  # type: ignore[unused-coroutine]
    return "mapped"


@flow
async def steps(run: AsyncRun) -> str:
    draft("a")  # type: ignore[unused-coroutine]
    return "drafted"


@flow
async def effects(run: AsyncRun) -> str:
    publish("a")  # type: ignore[unused-coroutine]
    return "published"


@flow
async def calls_a_step(run: AsyncRun) -> str:
    run.step(plain, "a")  # type: ignore[unused-coroutine]
    return "stepped"


@flow
async def calls_an_effect(run: AsyncRun) -> str:
    run.effect(plain, "a")  # type: ignore[unused-coroutine]
    return "done"


MADE = [
    (asks, "pause_for"),
    (waits, "wait_for"),
    (sleeps, "run.sleep"),
    (maps, "run.map"),
    (steps, 'draft("a")'),
    (effects, 'publish("a")'),
    (calls_a_step, "run.step"),
    (calls_an_effect, "run.effect"),
]


@pytest.mark.parametrize(("made", "text"), MADE, ids=[text for _, text in MADE])
def test_what_is_made_and_never_awaited_fails_the_run_and_names_the_line(place: Place, made: Any, text: str) -> None:
    assert_named(place.run(made), made, text)
    assert place.ran == []


def test_the_error_says_what_it_was_and_what_to_do(place: Place) -> None:
    error = place.run(asks).error
    assert error is not None
    assert "pause_for" in error["message"]
    assert "await" in error["message"]


@flow
async def in_a_branch(run: AsyncRun) -> str:
    with run.branch("inner"):
        run.pause_for("approval")  # type: ignore[unused-coroutine]
    return "published"


def test_in_a_branch_too(place: Place) -> None:
    assert_named(place.run(in_a_branch), in_a_branch, "pause_for")


@flow
async def publishes_after(run: AsyncRun) -> str:
    run.pause_for("approval")  # type: ignore[unused-coroutine]
    return await publish("at once")


def test_nothing_is_done_after_a_gate_that_nobody_can_await_any_more(place: Place) -> None:
    assert_named(place.run(publishes_after), publishes_after, "pause_for")
    assert place.ran == []


@flow
async def catches(run: AsyncRun) -> str:
    run.pause_for("approval")  # type: ignore[unused-coroutine]
    with contextlib.suppress(Exception):
        await publish("at once")
    return "all is well"


def test_a_flow_cannot_catch_its_way_past_it(place: Place) -> None:
    assert_named(place.run(catches), catches, "pause_for")
    assert place.ran == []


@flow
async def keeps_it(run: AsyncRun) -> str:
    kept = run.pause_for("approval")
    text = await draft()
    return f"{text} {type(kept).__name__}"


def test_one_that_is_kept_in_a_name_and_forgotten(place: Place) -> None:
    assert_named(place.run(keeps_it), keeps_it, "pause_for")


@flow
async def in_a_task(run: AsyncRun) -> str:
    KNOBS["task"] = asyncio.create_task(run.pause_for("approval"))
    return "published"


@flow
async def in_a_task_that_began(run: AsyncRun) -> str:
    KNOBS["task"] = asyncio.create_task(run.pause_for("approval"))
    await draft()
    return "published"


@pytest.mark.parametrize("made", [in_a_task, in_a_task_that_began])
def test_a_question_in_a_task_that_nobody_awaits_lets_the_run_wait(place: Place, made: Any) -> None:
    assert place.run(made).status == "waiting"


@flow
async def many(run: AsyncRun) -> str:
    for n in range(7):
        draft(str(n))  # type: ignore[unused-coroutine]
    return "drafted"


def test_of_several_the_first_is_named(place: Place) -> None:
    assert_named(place.run(many), many, "draft(str(n))")


@flow
async def mended(run: AsyncRun) -> str:
    if KNOBS.get("smooth"):
        answer = await run.pause_for("approval")
        return f"approved {answer['approved']}"
    run.pause_for("approval")  # type: ignore[unused-coroutine]
    return "published"


def test_a_flow_that_was_mended_asks_when_it_is_resumed(place: Place) -> None:
    outcome = place.run(mended)
    assert outcome.status == "failed"
    KNOBS["smooth"] = True
    (wait,) = place.outlast.resume(outcome.run_id).interrupts
    place.outlast.answer(wait.id, {"approved": True})
    assert place.outlast.resume(outcome.run_id).unwrap() == "approved True"


# -- what is no fault --------------------------------------------------------------------------------


@flow
async def in_any_order(run: AsyncRun) -> list[str]:
    later = draft("b")
    first = await draft("a")
    rest = [draft(str(n)) for n in range(20)]
    return [first, await later, *await asyncio.gather(*rest)]


def test_what_is_awaited_later_is_no_fault(place: Place) -> None:
    assert place.run(in_any_order).unwrap()[:2] == ["a", "b"]


@flow
async def cancels(run: AsyncRun) -> str:
    task = asyncio.create_task(draft("never"))
    task.cancel()
    return await draft("instead")


def test_a_task_that_the_flow_cancelled_before_it_began_is_no_fault(place: Place) -> None:
    assert place.run(cancels).unwrap() == "instead"
    assert place.ran == ["draft instead"]


@flow
async def fails_first(run: AsyncRun) -> str:
    draft("never")  # type: ignore[unused-coroutine]
    raise ValueError("something else")


def test_another_failure_of_the_body_is_the_one_that_is_told(place: Place) -> None:
    error = place.run(fails_first).error
    assert error is not None
    assert error["message"] == "something else"


@flow
async def long(run: AsyncRun) -> int:
    await asyncio.gather(*(draft(str(n)) for n in range(300)))
    for n in range(700):
        await draft(str(n))
    gc.collect()
    return len(KNOBS["looks"](run))


def test_what_was_awaited_is_not_kept(place: Place) -> None:
    KNOBS["looks"] = lambda run: run._execution.made._left
    assert place.run(long).unwrap() < 5


# -- plain bodies ------------------------------------------------------------------------------------


@flow
def plain_body(run: Run) -> str:
    draft("a")  # type: ignore[unused-coroutine]
    return "drafted"


@flow
def plain_body_that_publishes(run: Run) -> str:
    draft("a")  # type: ignore[unused-coroutine]
    return publish_plainly("at once")


@pytest.mark.parametrize("made", [plain_body, plain_body_that_publishes])
def test_an_async_step_in_a_plain_flow_too(place: Place, made: Any) -> None:
    assert_named(place.run(made), made, 'draft("a")')
    assert place.ran == []


def test_a_block_around_the_users_own_code_too(place: Place) -> None:
    with pytest.raises(Exception, match=r"test_never_awaited\.py"), place.outlast.open("block"):
        draft("a")  # type: ignore[unused-coroutine]
    (run,) = place.outlast.runs()
    assert run.status == "failed"


def test_an_async_block_too(place: Place) -> None:
    async def main() -> None:
        async with AsyncOutlast(place.home) as outlast:
            with pytest.raises(Exception, match=r"test_never_awaited\.py"):
                async with outlast.open("block") as run:
                    run.pause_for("approval")  # type: ignore[unused-coroutine]
            (found,) = await outlast.runs()
            assert found.status == "failed"

    place.close()
    asyncio.run(main())


@flow
def spawns(run: Run) -> str:
    run.spawn(asks_plainly)
    return "spawned"


@flow
def asks_plainly(run: Run) -> str:
    return str(run.pause_for("approval")["approved"])


def test_a_child_that_nobody_joins_keeps_its_parent_waiting_for_its_gate(place: Place) -> None:
    outcome = place.run(spawns)
    assert outcome.status == "waiting"
    assert sorted(wait.type for wait in place.outlast.interrupts()) == ["approval", "child"]


@step
def yields() -> Any:
    yield 1


@flow
def a_step_that_yields(run: Run) -> Any:
    return yields()


def test_a_step_that_is_a_generator_is_refused_not_skipped(place: Place) -> None:
    assert place.run(a_step_that_yields).status == "failed"


@flow
def a_body_that_yields(run: Run) -> Any:
    yield publish_plainly()


def test_a_flow_that_is_a_generator_is_refused_not_skipped(place: Place) -> None:
    error = place.run(a_body_that_yields).error
    assert error is not None
    assert error["code"] == "value_refused"
    assert place.ran == []


# -- a question that is kept, and an effect ----------------------------------------------------------


@flow
async def keeps_the_question(run: AsyncRun) -> str:
    approved = run.pause_for("approval", {"text": "it"})
    return await publish() if approved else "declined"


@flow
async def keeps_it_for_later(run: AsyncRun) -> str:
    approved = run.pause_for("approval", {"text": "it"})
    await run.effect(publish_plainly, "before")
    return str(await approved)


@pytest.mark.parametrize("careless", [keeps_the_question, keeps_it_for_later])
def test_no_effect_goes_before_a_question_that_its_task_has_made(place: Place, careless: Any) -> None:
    outcome = place.run(careless)
    assert_named(outcome, careless, "run.pause_for")
    assert place.ran == []


async def asked(question: Any) -> Any:
    return await question


@flow
async def asked_in_a_task(run: AsyncRun) -> list[str]:
    waits = asyncio.ensure_future(asked(run.pause_for("approval", {"text": "it"})))
    done = await publish("meanwhile")
    return [done, str((await waits)["approved"])]


@flow
async def side_by_side(run: AsyncRun) -> list[str]:
    done, answer = await asyncio.gather(publish("meanwhile"), asked(run.pause_for("approval", {"text": "it"})))
    return [done, str(answer["approved"])]


@pytest.mark.parametrize("careful", [asked_in_a_task, side_by_side])
def test_an_effect_beside_a_question_of_another_task_is_done(place: Place, careful: Any) -> None:
    outcome = place.run(careful)
    assert (outcome.status, place.ran) == ("waiting", ["publish meanwhile"])
    place.outlast.answer(outcome.interrupts[0].id, {"approved": True})
    assert place.run(careful).unwrap() == ["meanwhile", "True"]
    assert place.ran == ["publish meanwhile"]
