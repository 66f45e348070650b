"""Idempotent writes: an exact repeat gets the first answer, other content under the same id is a conflict."""

from typing import Any

import pytest

from outlast import Run, effect, flow
from outlast.errors import AlreadyAnswered, OperationConflict

from ..kit.place import Place, ran


@effect
def send(text: str) -> str:
    ran(f"send {text}")
    if place_count() == 1:
        raise RuntimeError("what was that")
    return f"sent {text}"


def place_count() -> int:
    from ..kit.place import KNOBS

    KNOBS["sent"] = KNOBS.get("sent", 0) + 1
    return int(KNOBS["sent"])


@flow
def sends(run: Run) -> str:
    return send("x")


@pytest.fixture
def waiting(place: Place) -> Place:
    assert place.run(sends).status == "waiting"
    return place


OPERATIONS: dict[str, Any] = {
    "retry": lambda place, **more: place.outlast.retry(place.run_id, "send", **more),
    "skip": lambda place, **more: place.outlast.skip(place.run_id, "send", result=1, why="seen", **more),
    "abort": lambda place, **more: place.outlast.abort(place.run_id, why="no use", **more),
    "rewind": lambda place, **more: place.outlast.rewind(place.run_id, "send", **more),
}


@pytest.mark.parametrize("kind", OPERATIONS)
def test_an_exact_repeat_is_answered_and_does_nothing(waiting: Place, kind: str) -> None:
    first = OPERATIONS[kind](waiting, operation_id="op-1")
    second = OPERATIONS[kind](waiting, operation_id="op-1")
    assert (first.replayed, second.replayed) == (False, True)
    assert first.id == second.id


def test_a_repeated_answer_is_not_a_second_answer(waiting: Place) -> None:
    (wait,) = waiting.outlast.interrupts()
    first = waiting.outlast.answer(wait.id, {"choice": "retry"}, operation_id="op-1")
    second = waiting.outlast.answer(wait.id, {"choice": "retry"}, operation_id="op-1")
    assert (first.replayed, second.replayed, second.status) == (False, True, "answered")
    with pytest.raises(AlreadyAnswered):
        waiting.outlast.answer(wait.id, {"choice": "retry"})


@pytest.mark.parametrize("kind", ["retry", "skip"])
def test_the_same_id_with_other_content_is_a_conflict_and_writes_nothing(waiting: Place, kind: str) -> None:
    OPERATIONS["rewind"](waiting, operation_id="op-1")
    with pytest.raises(OperationConflict, match="op-1"):
        OPERATIONS[kind](waiting, operation_id="op-1")
    assert [wait.status for wait in waiting.outlast.interrupts()] == ["open"]


def test_the_same_kind_with_another_result_is_a_conflict_too(waiting: Place) -> None:
    waiting.outlast.skip(waiting.run_id, "send", result="one", why="seen", operation_id="op-1")
    with pytest.raises(OperationConflict):
        waiting.outlast.skip(waiting.run_id, "send", result="two", why="seen", operation_id="op-1")
    assert waiting.run(sends).result == "one"


def test_a_refused_write_does_not_use_its_id_up(waiting: Place) -> None:
    (wait,) = waiting.outlast.interrupts()
    with pytest.raises(Exception, match="choice"):
        waiting.outlast.answer(wait.id, {"choice": "nonsense"}, operation_id="op-1")
    assert waiting.outlast.answer(wait.id, {"choice": "retry"}, operation_id="op-1").status == "answered"


def test_a_repeat_after_the_run_went_on_is_still_a_repeat(waiting: Place) -> None:
    waiting.outlast.retry(waiting.run_id, "send", operation_id="op-1")
    assert waiting.run(sends).result == "sent x"
    assert waiting.outlast.retry(waiting.run_id, "send", operation_id="op-1").replayed
    assert waiting.count("send x") == 2
