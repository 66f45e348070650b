"""Values are what the standard library makes of the same lines; only their methods are made later."""

import copy
import dataclasses
import inspect
import typing
from typing import Any

import msgspec
import pytest

from outlast.values import frozen as values


def _made(decorate: Any, named_tuple: Any) -> dict[str, type]:
    """The same classes, by whichever decorator."""

    @decorate(frozen=True, slots=True)
    class Plain:
        """A plain one."""

        name: str
        count: int = 3
        tags: dict[str, int] = dataclasses.field(default_factory=dict)
        seen: bool = dataclasses.field(default=False, compare=False, repr=False)

    @decorate(frozen=True, slots=True, kw_only=True)
    class Named:
        """By name only."""

        anchor: str = "a"
        summary: str

    @decorate(frozen=True, slots=True, kw_only=True)
    class Below(Named):
        """One that has more."""

        more: tuple[str, ...] = ()

    @decorate(frozen=True)
    class Measured:
        """One that works something out."""

        text: str
        size: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "size", len(self.text))

    @decorate(frozen=True, eq=False)
    class Unlike:
        """One that equals only itself."""

        name: str

    class Row(named_tuple):
        """A row."""

        key: int
        name: str = "none"

        @property
        def both(self) -> str:
            return f"{self.key} {self.name}"

    return {each.__name__: each for each in (Plain, Named, Below, Measured, Unlike, Row)}


OURS, THEIRS = _made(values.dataclass, values.NamedTuple), _made(dataclasses.dataclass, typing.NamedTuple)
GIVEN: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "Plain": (("x",), {"tags": {"a": 1}}),
    "Named": ((), {"summary": "s"}),
    "Below": ((), {"summary": "s", "more": ("m",)}),
    "Measured": (("four",), {}),
    "Unlike": (("u",), {}),
    "Row": ((1,), {}),
}
NAMES = sorted(GIVEN)
DATACLASSES = [name for name in NAMES if name != "Row"]


def _both(name: str) -> list[Any]:
    positional, named = GIVEN[name]
    return [kinds[name](*positional, **named) for kinds in (OURS, THEIRS)]


@pytest.mark.parametrize("name", NAMES)
def test_a_value_reads_and_is_called_like_the_standard_one(name: str) -> None:
    ours, theirs = OURS[name], THEIRS[name]
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert typing.get_type_hints(ours) == typing.get_type_hints(theirs)
    for shown in ("__doc__", "__name__", "__qualname__", "__module__", "__match_args__"):
        assert getattr(ours, shown, None) == getattr(theirs, shown, None)
    one, other = _both(name)
    assert repr(one) == repr(other)
    assert msgspec.json.encode(one) == msgspec.json.encode(other)
    with pytest.raises(TypeError) as ours_said:
        ours()
    with pytest.raises(TypeError) as theirs_said:
        theirs()
    assert str(ours_said.value) == str(theirs_said.value)


@pytest.mark.parametrize("name", NAMES)
def test_values_compare_and_are_hashed_by_what_they_hold(name: str) -> None:
    (one, other), (again, _) = _both(name), _both(name)
    assert (one == again) == (name != "Unlike")
    assert (one == other) == (name == "Row")
    if name != "Plain":  # that one holds a dict
        assert (hash(one) == hash(again)) == (name != "Unlike")
        assert (hash(one) == hash(other)) == (name != "Unlike")
    else:
        with pytest.raises(TypeError, match="unhashable"):
            hash(one)


@pytest.mark.parametrize("name", DATACLASSES)
def test_a_value_is_a_frozen_dataclass(name: str) -> None:
    one, other = _both(name)
    params = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
    told = [[getattr(type(each).__dataclass_params__, param) for param in params] for each in (one, other)]
    assert told[0] == told[1]
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    said = []
    for each in (one, other):
        field = dataclasses.fields(each)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError) as set_said:
            setattr(each, field, 1)
        with pytest.raises(dataclasses.FrozenInstanceError) as deleted_said:
            delattr(each, field)
        said.append([str(set_said.value), str(deleted_said.value)])
    assert said[0] == said[1]


@pytest.mark.parametrize("name", [name for name in DATACLASSES if name != "Unlike"])
def test_a_copy_equals_what_it_was_copied_from(name: str) -> None:
    one, _ = _both(name)
    assert copy.copy(one) == copy.deepcopy(one) == one
    assert dataclasses.replace(one) == one


def test_a_factory_makes_another_default_for_each_value() -> None:
    one, other = OURS["Plain"]("a"), OURS["Plain"]("b")  # type: ignore[call-arg]
    assert one.tags == other.tags == {}  # type: ignore[attr-defined]
    assert one.tags is not other.tags  # type: ignore[attr-defined]


def test_msgspec_reads_a_value_back() -> None:
    for name in ("Plain", "Named", "Below", "Row"):
        one, _ = _both(name)
        assert msgspec.json.decode(msgspec.json.encode(one), type=OURS[name]) == one


def test_a_method_is_made_when_it_is_first_used_and_then_stays() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Fresh:
        """Nobody used it yet."""

        name: str

    assert not inspect.isfunction(vars(Fresh)["__init__"])
    one = Fresh("x")
    made = vars(Fresh)["__init__"]
    assert inspect.isfunction(made)
    assert Fresh("x") == one
    assert vars(Fresh)["__init__"] is made


def test_what_is_no_plain_value_is_made_by_the_standard_library() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Loud:
        """One that shows itself in its own way."""

        name: str

        def __repr__(self) -> str:
            return self.name.upper()

    @values.dataclass(frozen=True, order=True)
    class Ordered:
        """One that has an order."""

        rank: int

    @values.dataclass
    class Open:
        """One that can be changed."""

        name: str

    assert repr(Loud("a")) == "A"
    assert Ordered(1) < Ordered(2)
    changed = Open("a")
    changed.name = "b"
    assert changed == Open("b")
