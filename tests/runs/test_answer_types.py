"""Answers and their types: what a type cannot take is refused when it is given, or asked for again."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from outlast import Run, flow
from outlast.errors import AnswerInvalid, ValueRefused
from outlast.values.schema import refuse_schema

from ..kit.place import KNOBS, Place
from .test_waits import only_wait, work


@dataclass(frozen=True)
class Even:
    n: int

    def __post_init__(self) -> None:
        if self.n % 2 or self.n == KNOBS.get("refused"):
            raise ValueError(f"{self.n} is odd")


@dataclass(frozen=True)
class Visit:
    at: datetime
    until: time | None = None
    seats: dict[int, str] | None = None


@flow
def typed(run: Run) -> str:
    work("before")
    given = run.pause_for("input", schema=KNOBS["schema"], **KNOBS.get("how", {}))
    work("after")
    return repr(given)


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [
        (datetime, "banana", "2026-01-31T09:30:00Z"),
        (datetime, "2026-01-31T09:30:00", "2026-01-31T09:30:00+01:00"),
        (date, "31.1.2026", "2026-01-31"),
        (time, "noon", "12:00:00"),
        (timedelta, "2 days", "P2D"),
        (UUID, "banana", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
        (Decimal, "banana", "9.90"),
        (dict[int, str], {"one": "a"}, {"1": "a", "-20": "b"}),
        (dict[UUID, int], {"one": 1}, {"6f9619ff-8b86-d011-b42d-00cf4fc964ff": 1}),
        (list[datetime], ["banana"], ["2026-01-31T09:30:00Z"]),
        (int, 1e300, 1),
        (int, 2.0, 2),
        (Visit, {"at": "soon"}, {"at": "2026-01-31T09:30:00Z"}),
        (Visit, {"at": "2026-01-31T09:30:00Z", "until": "late"}, {"at": "2026-01-31T09:30:00Z", "until": "12:00:00"}),
        (Visit, {"at": "2026-01-31T09:30:00Z", "seats": {"a": "b"}}, {"at": "2026-01-31T09:30:00Z", "seats": {}}),
    ],
)
def test_an_answer_that_its_type_cannot_take_is_refused_when_it_is_given(
    place: Place, kind: Any, bad: Any, good: Any
) -> None:
    KNOBS["schema"] = kind
    wait = only_wait(place.outlast.run(typed))
    with pytest.raises(AnswerInvalid, match="answer"):
        place.outlast.answer(wait, bad)
    place.outlast.answer(wait, good)
    assert place.outlast.run(typed).status == "succeeded"


def test_a_type_that_takes_no_answer_that_fitted_fails_the_run_and_a_resume_asks_again(place: Place) -> None:
    KNOBS["schema"] = Even
    first = only_wait(place.outlast.run(typed))
    place.outlast.answer(first, {"n": 1})
    with pytest.raises(AnswerInvalid, match="1 is odd"):
        place.outlast.run(typed).unwrap()
    second = only_wait(place.outlast.run(typed))
    assert second != first
    place.outlast.answer(second, {"n": 2})
    assert place.outlast.run(typed).unwrap() == "Even(n=2)"


@pytest.mark.parametrize(
    ("schema", "how"),
    [
        (Even, {"deadline": "1h", "default": {"n": 1}}),
        (datetime, {"deadline": "1h", "default": "banana"}),
        (dict[float, int], {}),
        ({"type": "string", "format": "colour"}, {}),
        ({"type": "object", "propertyNames": {"oneOf": []}}, {}),
    ],
)
def test_what_no_answer_could_fit_is_refused_when_it_is_asked(place: Place, schema: Any, how: dict[str, Any]) -> None:
    KNOBS["schema"], KNOBS["how"] = schema, how
    with pytest.raises(ValueRefused):
        place.outlast.run(typed).unwrap()


def test_what_stands_beside_a_reference_is_checked_too(place: Place) -> None:
    KNOBS["schema"] = {"$defs": {"N": {"type": "integer"}}, "$ref": "#/$defs/N", "minimum": 5}
    wait = only_wait(place.outlast.run(typed))
    for bad in (4, "five"):
        with pytest.raises(AnswerInvalid):
            place.outlast.answer(wait, bad)
    place.outlast.answer(wait, 5)
    assert place.outlast.run(typed).unwrap() == "5"


def test_an_old_answer_that_its_type_takes_no_more_is_asked_for_again_after_a_rewind(place: Place) -> None:
    KNOBS["schema"], KNOBS["raise"] = Even, ("after", ValueError("not yet"))
    outcome = place.outlast.run(typed)
    place.outlast.answer(only_wait(outcome), {"n": 4})
    assert place.outlast.resume(outcome.run_id).status == "failed"
    place.outlast.rewind(outcome.run_id, "work")
    KNOBS["refused"] = 4
    assert place.outlast.resume(outcome.run_id).status == "failed"
    place.outlast.answer(only_wait(place.outlast.resume(outcome.run_id)), {"n": 2})
    del KNOBS["raise"]
    assert place.outlast.resume(outcome.run_id).unwrap() == "Even(n=2)"


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"^(a|aa)+$", r"\s+$", r"^.*x.*y$", 7])
def test_a_pattern_that_some_answer_could_make_slow_is_refused_when_it_is_asked(pattern: object) -> None:
    with pytest.raises(ValueError, match="pattern"):
        refuse_schema({"type": "object", "properties": {"name": {"type": "string", "pattern": pattern}}})


@pytest.mark.parametrize("pattern", [r"^[a-z]+-[0-9]+$", r"^[^@\s]+@[^@\s]+$", "[A-Z]{3}", r"^v?\d+(\.\d+)*$"])
def test_a_pattern_that_no_answer_makes_slow_is_taken(pattern: str) -> None:
    refuse_schema({"type": "string", "pattern": pattern})
