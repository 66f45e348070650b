"""What comes back equals what went in, or it is refused by path. Nothing is silent."""

import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, Optional, TypedDict

import msgspec
import pydantic
import pytest

from outlast import AsyncRun, Run, flow, step
from outlast.errors import ValueRefused

from ..kit.place import KNOBS, Place, reach


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Source:
    url: str
    size: int = 0
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    title: str
    sources: list[Source]
    when: datetime
    best: Source | None = None


class Packed(msgspec.Struct):
    name: str
    at: datetime


class Model(pydantic.BaseModel):
    name: str
    at: datetime
    parts: list[int] = []


class Secretive(pydantic.BaseModel):
    name: str
    token: str = pydantic.Field(default="", exclude=True)


class Loose(TypedDict):
    name: str
    count: int


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Holder:
    model: Model
    colour: Colour


AT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
SOURCE = Source("https://example.org", 3, ["a", "b"])

ROUND = [
    (int, 1 << 62),
    (float, 0.1),
    (bool, True),
    (str, "text é \U0001f40b \x00"),
    (type(None), None),
    (bytes, b"\x00\xff"),
    (datetime, AT),
    (datetime, AT.replace(tzinfo=None)),
    (date, AT.date()),
    (timedelta, timedelta(days=1, seconds=5)),
    (Decimal, Decimal("1.10")),
    (Path, Path("some/where.txt")),
    (uuid.UUID, uuid.UUID(int=7)),
    (Colour, Colour.BLUE),
    (Level, Level.LOW),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (list[tuple[int, int]], [(1, 2), (3, 4)]),
    (dict[str, Decimal], {"x": Decimal("0.5")}),
    (dict[int, str], {1: "a", 2: "b"}),
    (Optional[Source], SOURCE),  # noqa: UP045
    (Source | None, None),
    (Source, SOURCE),
    (Report, Report("t", [SOURCE, Source("x")], AT, SOURCE)),
    (list[Report], [Report("t", [SOURCE], AT)]),
    (Packed, Packed("a", AT)),
    (list[Packed], [Packed("a", AT)]),
    (Model, Model(name="a", at=AT, parts=[1])),
    (list[Model], [Model(name="a", at=AT)]),
    (Holder, Holder(Model(name="a", at=AT), Colour.RED)),
    (Loose, {"name": "a", "count": 1}),
    (Pair, Pair(1, "a")),
    (dict[str, Any], {"a": [1, None, {"b": 1.5}]}),
    (None, {"plain": [1, "two", None, True, 2.5]}),
    (None, [[], {}, ""]),
]


def step_that_returns(annotation: Any) -> Callable[[], Any]:
    """A step of that return type; what it returns is in KNOBS."""

    def give() -> Any:
        return KNOBS["value"]

    if annotation is not None:
        give.__annotations__["return"] = annotation
    else:
        del give.__annotations__["return"]
    return step(give)


@flow
def gives(run: Run) -> str:
    """Ends with how the value looks to the flow, live or replayed."""
    value = step_that_returns(KNOBS["annotation"])()
    KNOBS["seen"] = value
    reach("given")
    return "given"


@flow
async def gives_async(run: AsyncRun) -> str:
    KNOBS["seen"] = await run.step(step_that_returns(KNOBS["annotation"]))
    reach("given")
    return "given"


@pytest.mark.parametrize(("annotation", "value"), ROUND, ids=lambda thing: str(thing)[:30])
def test_a_result_comes_back_as_the_type_that_its_annotation_names(place: Place, annotation: Any, value: Any) -> None:
    KNOBS.update(annotation=annotation, value=value)
    place.crash(gives, at="given")
    KNOBS["value"] = "not asked for again"
    assert place.run(gives).status == "succeeded"
    assert KNOBS["seen"] == value
    assert type(KNOBS["seen"]) is type(value)


def test_the_flow_sees_live_what_replay_will_give(place: Place) -> None:
    mine = [SOURCE]
    KNOBS.update(annotation=list[Source], value=mine)
    place.run(gives_async)
    assert KNOBS["seen"] == mine
    assert KNOBS["seen"] is not mine
    assert KNOBS["seen"][0] is not SOURCE


@dataclass(eq=False)
class Faceless:
    """Has no equality of its own: it is compared by what it carries."""

    name: str


def test_a_type_without_equality_comes_back_by_its_fields(place: Place) -> None:
    KNOBS.update(annotation=Faceless, value=Faceless("a"))
    assert place.run(gives).status == "succeeded"
    assert KNOBS["seen"].name == "a"


# -- refused -----------------------------------------------------------------------------------------


def an_open_file() -> Any:
    return open(__file__)


REFUSED = [
    (None, lambda: lambda: 1, "give()"),
    (None, object, "give()"),
    (None, an_open_file, "give()"),
    (Any, lambda: {"a": [1, {"b": object()}]}, "give()['a'][1]['b']"),
    (None, lambda: float("nan"), "give()"),
    (float, lambda: float("nan"), "give()"),
    (None, lambda: [1.0, float("-inf")], "give()[1]"),
    (list[float], lambda: [1.0, float("nan")], "give()[1]"),
    (None, lambda: (1, 2), "give()"),
    (None, lambda: {"a": [(1, 2)]}, "give()['a'][0]"),
    (None, lambda: {1: "a"}, "give()"),
    (None, lambda: {"a": {1: "b"}}, "give()['a']"),
    (None, lambda: {1, 2}, "give()"),
    (None, lambda: AT, "give()"),
    (None, lambda: {"at": AT}, "give()['at']"),
    (None, lambda: Decimal("1.0"), "give()"),
    (None, lambda: Path("x"), "give()"),
    (None, lambda: b"x", "give()"),
    (None, lambda: uuid.UUID(int=1), "give()"),
    (None, lambda: SOURCE, "give()"),
    (None, lambda: [Model(name="a", at=AT)], "give()[0]"),
    (int, lambda: "not a number", "give()"),
    (list[int], lambda: [1, "two"], "give()"),
    (Source, lambda: {"url": 1}, "give()"),
    (Secretive, lambda: Secretive(name="a", token="t"), "give()"),
    (None, lambda: (number for number in [1]), "give()"),
    (None, lambda: ValueError("an exception"), "give()"),
]


@pytest.mark.parametrize(("annotation", "make", "path"), REFUSED, ids=lambda thing: str(thing)[:24])
def test_a_result_that_would_not_come_back_equal_is_refused_by_path(
    place: Place, annotation: Any, make: Any, path: str
) -> None:
    KNOBS.update(annotation=annotation, value=make())
    outcome = place.run(gives)
    assert outcome.status == "failed"
    assert isinstance(outcome.exception, ValueRefused)
    assert outcome.exception.path.startswith(path)
    assert outcome.exception.remedy
    assert place.statuses() == ["failed"]


def test_a_value_that_contains_itself_is_refused(place: Place) -> None:
    endless: list[Any] = []
    endless.append(endless)
    KNOBS.update(annotation=None, value=endless)
    assert isinstance(place.run(gives).exception, ValueRefused)


@flow
def catches_refusal(run: Run) -> str:
    try:
        step_that_returns(None)()
    except ValueRefused as error:
        reach("caught")
        return error.path
    return "kept"


def test_a_caught_refusal_is_an_outcome_like_others(place: Place) -> None:
    KNOBS.update(annotation=None, value={"a": object()})
    place.crash(catches_refusal, at="caught")
    KNOBS["value"] = "something better"
    assert place.run(catches_refusal).result == "give()['a']"


def test_a_refused_result_that_ended_the_run_is_computed_again(place: Place) -> None:
    KNOBS.update(annotation=None, value=object())
    place.run(gives)
    KNOBS["value"] = "something better"
    assert place.run(gives).status == "succeeded"


@pytest.mark.parametrize("value", [object(), float("nan"), (1, 2)])
def test_a_flows_own_result_is_held_to_the_same_rule(place: Place, value: Any) -> None:
    KNOBS["value"] = value
    outcome = place.run(returns)
    assert outcome.status == "failed"
    assert isinstance(outcome.exception, ValueRefused)
    assert outcome.exception.path.startswith("the flow's result")


@flow
def returns(run: Run) -> Any:
    return KNOBS["value"]


@flow
def takes(run: Run, source: Source, when: datetime, rest: Any = None) -> str:
    return f"{type(source).__name__} {type(when).__name__}"


def test_a_flows_inputs_come_back_as_its_annotations_name_them(place: Place) -> None:
    assert place.run(takes, SOURCE, AT).result == "Source datetime"
    assert place.outlast.get(place.run_id).inputs["source"]["url"] == SOURCE.url


@pytest.mark.parametrize("rest", [object(), float("nan"), (1, 2), {1: 2}])
def test_an_input_that_would_not_come_back_is_refused_before_the_run_exists(place: Place, rest: Any) -> None:
    with pytest.raises(ValueRefused, match="takes\\(rest\\)"):
        place.run(takes, SOURCE, AT, rest)
    assert place.outlast.runs() == []


# -- large -------------------------------------------------------------------------------------------


@step
def text_of(size: int) -> str:
    return "x" * size


@flow
def large(run: Run, size: int) -> int:
    found = text_of(size)
    reach("kept")
    return len(found)


@pytest.mark.parametrize("size", [32 * 1024 - 2, 32 * 1024 - 1, 50_000_000])
def test_a_result_larger_than_32_kib_lives_in_the_blob_store(place: Place, size: int) -> None:
    place.crash(large, size, at="kept")
    assert place.run(large, size).result == size
    (receipt,) = place.receipts()
    assert bool(receipt.blob) is (size + 2 > 32 * 1024)
    assert receipt.result == "x" * size
    assert place.outlast.verify().ok


@flow
def returns_large(run: Run) -> str:
    return text_of(100_000)


def test_a_flows_large_result_is_read_from_the_blob_store(place: Place) -> None:
    assert place.run(returns_large).result == "x" * 100_000
    assert place.reopen().get(place.run_id).result == "x" * 100_000


def test_equal_large_results_are_stored_once(place: Place) -> None:
    place.run(twice_large)
    assert len({receipt.blob for receipt in place.receipts()}) == 1
    assert len([path for path in (place.home / "default" / "blobs").rglob("*") if path.is_file()]) == 1


@flow
def twice_large(run: Run) -> None:
    text_of(50_000)
    text_of(50_000)
