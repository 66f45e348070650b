"""Tracebacks show the frames of whoever wrote the flow; ours are folded, raised and recorded alike."""

import asyncio
import traceback
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast import AsyncRun, Run, flow, step
from outlast.errors import OutlastError, StepTimedOut
from outlast.values.ambient import folded, is_ours, own_place, text_of

from ..kit.place import KNOBS, Place

PACKAGE = str(Path(outlast.__file__).parent)


def deeper() -> None:
    raise ValueError("no luck")


@step
def plain() -> None:
    deeper()


@step
async def awaited() -> None:
    await asyncio.sleep(0)
    deeper()


@step(timeout=30)
def timed() -> None:
    deeper()


@flow
def of_plain(run: Run) -> None:
    plain()


@flow
def of_timed(run: Run) -> None:
    timed()


@flow
def of_mapped(run: Run) -> None:
    run.map(taking, [1, 2])


@step
def taking(item: int) -> None:
    deeper()


@flow
async def of_awaited(run: AsyncRun) -> None:
    await awaited()


@flow
def of_async_in_plain(run: Run) -> None:
    run.step(awaited)


FLOWS = [of_plain, of_timed, of_awaited, of_async_in_plain, of_mapped]


@pytest.mark.parametrize("body", FLOWS, ids=lambda body: body.spec.name)
def test_what_unwrap_raises_shows_the_flow_the_step_and_no_frame_of_ours_but_the_call(place: Place, body: Any) -> None:
    outcome = place.run(body)
    try:
        outcome.unwrap()
    except ValueError as error:
        frames = traceback.extract_tb(error.__traceback__)
    ours = [frame.name for frame in frames if frame.filename.startswith(PACKAGE)]
    theirs = [frame.name for frame in frames if frame.filename == __file__]
    assert ours == ["unwrap"]
    assert theirs[0].startswith("test_what_unwrap_raises")
    assert theirs[-1] == "deeper"
    assert body.spec.function.__name__ in theirs
    assert len(frames) == len(ours) + len(theirs)


@pytest.mark.parametrize("body", FLOWS, ids=lambda body: body.spec.name)
def test_what_is_recorded_begins_with_the_flow_and_a_line_stands_for_our_calls(place: Place, body: Any) -> None:
    assert place.run(body).status == "failed"
    kept = place.outlast.get(place.run_id).error
    assert kept is not None
    first, second, *lines = str(kept["trace"]).splitlines()
    assert first == "Traceback (most recent call last):"
    assert second.startswith(f'  File "{__file__}", line ')
    assert second.endswith(f"in {body.spec.function.__name__}")
    assert PACKAGE not in str(kept["trace"])
    assert any(line.endswith(" inside outlast]") for line in lines)
    assert lines[-1] == "ValueError: no luck"


@flow
def catching(run: Run) -> str:
    try:
        plain()
    except ValueError as error:
        KNOBS["seen"] = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return "caught"


def test_a_flow_that_catches_a_failure_sees_its_own_frames_and_two_of_ours_at_most(place: Place) -> None:
    assert place.run(catching).result == "caught"
    seen = [file.startswith(PACKAGE) for file in KNOBS["seen"]]
    assert (seen[0], seen[-1], sum(seen) <= 2) == (False, False, True)


@step(timeout=0.01)
def slow() -> None:
    KNOBS["go"].wait(10)


@flow
def overdue(run: Run) -> None:
    slow()


def test_an_error_of_ours_ends_at_the_line_that_called_us(place: Place) -> None:
    import threading

    KNOBS["go"] = threading.Event()
    outcome = place.run(overdue)
    KNOBS["go"].set()
    assert isinstance(outcome.exception, StepTimedOut)
    names = [frame.name for frame in traceback.extract_tb(outcome.exception.__traceback__)]
    assert names == ["overdue"]
    assert own_place(outcome.exception).endswith(" in overdue")


def test_notes_causes_and_the_members_of_a_group_stay() -> None:
    try:
        try:
            deeper()
        except ValueError as error:
            error.add_note("the cellar was dark")
            raise ExceptionGroup("both", [error, KeyError("b")]) from error
    except ExceptionGroup as group:
        text = text_of(folded(group))
    assert "the cellar was dark" in text
    assert "KeyError: 'b'" in text
    assert "The above exception was the direct cause" in text
    assert "in deeper" in text


def test_a_fault_in_our_own_code_keeps_the_frames_that_lead_to_it() -> None:
    try:
        folded(None)  # type: ignore[type-var]
    except AttributeError as error:
        kept = traceback.extract_tb(folded(error).__traceback__)
    assert [is_ours(frame.filename) for frame in kept] == [False, *[True] * (len(kept) - 1)]
    assert len(kept) > 1
    assert not isinstance(AttributeError(), OutlastError)
