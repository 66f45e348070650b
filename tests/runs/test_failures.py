"""A failure that the flow caught is an outcome; the failure that ended the run is tried again."""

import asyncio
import subprocess
from typing import Any

import pytest

from outlast import AsyncRun, Run, StepFailed, flow, step
from outlast.errors import RunFailed

from ..kit.place import KNOBS, Place, ran, reach


class Sad(Exception):
    """An exception of the user's own."""


class Sadder(Sad):
    def __init__(self, what: str, how_often: int) -> None:
        super().__init__(what, how_often)
        self.what, self.how_often = what, how_often


class Lonely(Exception):
    """Its text does not give its arguments back."""

    def __init__(self, what: str) -> None:
        super().__init__(f"lonely because of {what}")


@step
def fail() -> str:
    ran("fail")
    if KNOBS.get("smooth"):
        return "smooth"
    raise KNOBS["error"]


@step
async def fail_async() -> str:
    ran("fail")
    if KNOBS.get("smooth"):
        return "smooth"
    raise KNOBS["error"]


@step
def follow(text: str) -> str:
    ran("follow")
    return f"after {text}"


@flow
def catches(run: Run) -> list[str]:
    try:
        found = fail()
    except Exception as error:
        found = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    then = follow(found)
    reach("end")
    return [found, then]


@flow
async def catches_async(run: AsyncRun) -> list[str]:
    try:
        found = await fail_async()
    except Exception as error:
        found = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    then = str(await run.step(follow, found))
    reach("end")
    return [found, then]


@flow
async def gathers_exceptions(run: AsyncRun) -> list[str]:
    (error,) = await asyncio.gather(fail_async(), return_exceptions=True)
    found = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    then = str(await run.step(follow, found))
    reach("end")
    return [found, then]


REBUILT = [
    ValueError("no"),
    KeyError("name"),
    ZeroDivisionError(),
    Sad("why", 1, None, ["x"]),
    Sadder("rain", 3),
    FileNotFoundError(2, "No such file or directory", "missing.txt"),
    PermissionError(13, "Permission denied"),
    TimeoutError("too slow"),
    subprocess.CalledProcessError(3, "false"),
]
WRAPPED = [
    Sad("tuple", (1, 2)),
    Sad(object()),
    Lonely("rain"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    ExceptionGroup("many", [ValueError("one")]),
    subprocess.CalledProcessError(3, "false", output="what it said"),
    type("Unfindable", (Exception,), {})("nowhere"),
]


@pytest.mark.parametrize("body", [catches, catches_async, gathers_exceptions], ids=lambda flow: flow.__name__)
@pytest.mark.parametrize("error", REBUILT, ids=lambda error: type(error).__name__)
def test_a_caught_failure_is_raised_again_as_the_same_type(place: Place, body: Any, error: Exception) -> None:
    KNOBS["error"] = error
    place.crash(body, at="end")
    outcome = place.run(body)
    shown = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
    assert outcome.result == [shown, f"after {shown}"]
    assert (place.count("fail"), place.count("follow")) == (1, 1)


@pytest.mark.parametrize("body", [catches, catches_async], ids=lambda flow: flow.__name__)
@pytest.mark.parametrize("error", WRAPPED, ids=lambda error: type(error).__name__)
def test_a_failure_that_cannot_be_rebuilt_is_step_failed_live_and_on_replay(
    place: Place, body: Any, error: Exception
) -> None:
    KNOBS["error"] = error
    place.crash(body, at="end")
    outcome = place.run(body)
    live = [receipt.result for receipt in place.receipts("follow")]
    assert outcome.result == [live[0].removeprefix("after "), live[0]]
    assert outcome.result[0].startswith("outlast.errors.StepFailed")
    assert type(error).__qualname__ in outcome.result[0]


def test_step_failed_keeps_the_original_as_its_cause_while_it_can(place: Place) -> None:
    KNOBS["error"] = Lonely("rain")
    outcome = place.run(raises)
    assert isinstance(outcome.exception, StepFailed)
    assert outcome.exception.__cause__ is KNOBS["error"]


def test_attributes_of_a_rebuilt_exception_come_back(place: Place) -> None:
    KNOBS["error"] = Sadder("rain", 3)
    place.crash(looks_at_it, at="end")
    assert place.run(looks_at_it).result == ["rain", 3]


@flow
def looks_at_it(run: Run) -> list[Any]:
    try:
        fail()
    except Sadder as error:
        reach("end")
        return [error.what, error.how_often]
    return []


# -- what ended the run ------------------------------------------------------------------------------


@flow
def raises(run: Run) -> str:
    return follow(fail())


@flow
async def raises_async(run: AsyncRun) -> str:
    return str(await run.step(follow, await fail_async()))


@flow
def wraps(run: Run) -> str:
    try:
        return follow(fail())
    except ValueError as error:
        raise Sad("wrapped") from error


@flow
def wraps_silently(run: Run) -> str:
    try:
        return follow(fail())
    except ValueError:
        raise Sad("while handling") from None


@flow
async def groups(run: AsyncRun) -> str:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(fail_async())
    return str(await run.step(follow, task.result()))


@flow
async def gathers(run: AsyncRun) -> str:
    (found,) = await asyncio.gather(fail_async())
    return str(await run.step(follow, found))


@flow
def maps(run: Run) -> str:
    return follow(run.map(fail_item, [1])[0])


@step
def fail_item(item: int) -> str:
    return str(fail.plain())


ENDED = [raises, raises_async, wraps, wraps_silently, groups, gathers, maps]


@pytest.mark.parametrize("body", ENDED, ids=lambda flow: flow.__name__)
def test_the_failure_that_ended_the_run_is_tried_again(place: Place, body: Any) -> None:
    KNOBS["error"] = ValueError("no")
    outcome = place.run(body)
    assert (outcome.status, place.count("fail")) == ("failed", 1)
    KNOBS["smooth"] = True
    again = place.run(body)
    assert (again.status, again.result, again.run_id) == ("succeeded", "after smooth", outcome.run_id)
    assert place.count("fail") == 2


@pytest.mark.parametrize("body", ENDED, ids=lambda flow: flow.__name__)
def test_a_run_may_fail_more_than_once(place: Place, body: Any) -> None:
    KNOBS["error"] = ValueError("no")
    for _ in range(3):
        assert place.run(body).status == "failed"
    assert place.count("fail") == 3
    assert [receipt.attempt for receipt in place.receipts()] == [1, 2, 3]


@flow
def falls_back(run: Run) -> str:
    try:
        return fail()
    except ValueError:
        return fall_back()


@step
def fall_back() -> str:
    ran("fall back")
    if KNOBS.get("mended"):
        return "by the other way"
    raise RuntimeError("this way neither")


def test_a_failure_caught_before_another_one_ended_the_run_stays_an_outcome(place: Place) -> None:
    KNOBS["error"] = ValueError("no")
    assert place.run(falls_back).status == "failed"
    KNOBS.update(smooth=True, mended=True)
    assert place.run(falls_back).result == "by the other way"
    assert (place.count("fail"), place.count("fall back")) == (1, 2)


@flow
def own_trouble(run: Run) -> str:
    found = follow("it")
    if not KNOBS.get("smooth"):
        raise ValueError("the body itself")
    return found


def test_a_body_that_failed_by_itself_is_run_again_on_its_receipts(place: Place) -> None:
    outcome = place.run(own_trouble)
    assert (outcome.status, outcome.error["message"]) == ("failed", "the body itself")
    KNOBS["smooth"] = True
    assert place.run(own_trouble).result == "after it"
    assert place.count("follow") == 1


# -- what is kept of it ------------------------------------------------------------------------------


def test_unwrap_raises_the_flows_own_exception(place: Place) -> None:
    KNOBS["error"] = Sadder("rain", 3)
    with pytest.raises(Sadder, match="rain"):
        place.run(raises).unwrap()


def test_a_receipt_keeps_type_message_and_trace(place: Place) -> None:
    KNOBS["error"] = Sadder("rain", 3)
    place.run(raises)
    (receipt,) = place.receipts()
    assert receipt.error is not None
    assert receipt.error["type"].endswith("test_failures:Sadder")
    assert "rain" in receipt.error["message"]
    assert 'raise KNOBS["error"]' in receipt.error["trace"]


def test_another_process_reads_the_failure_from_the_record(place: Place) -> None:
    KNOBS["error"] = ValueError("no")
    place.run(raises)
    record = place.reopen().get(place.run_id)
    assert record.status == "failed"
    assert record.error is not None
    assert record.error["message"] == "no"
    assert RunFailed.code == "run_failed"


def test_a_failure_whose_text_cannot_be_had_is_still_recorded(place: Place) -> None:
    KNOBS["error"] = Mute()
    outcome = place.run(raises)
    assert outcome.status == "failed"
    assert "Mute" in outcome.error["message"]


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("I do not talk")
